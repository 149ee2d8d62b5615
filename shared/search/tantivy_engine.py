"""Embedded engine: adds, removes and finds videos in a local index, using Tantivy.

Each video is one document, so totals, facets and pages are exact. A commit makes all changes visible atomically.
Tantivy receives texts as space-separated normalised words, and queries as trees (shared/search/index_query.py), so it
never parses user input.
"""

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import log2
from pathlib import Path
from typing import Any, NamedTuple

import tantivy
from tantivy import FieldType, Occur, Query

from shared.core.caller import Caller
from shared.feed.log import LogCursor
from shared.search.document import FORM, VideoDocument
from shared.search.engine import (
    DEEPEST,
    MAX_VALUES,
    Hit,
    IncompatibleIndex,
    IndexCheckpoint,
    SearchHits,
    by_rank,
    most_frequent,
    page_of,
)
from shared.search.index_query import (
    GRAIN,
    REPEATED,
    AllOf,
    AnyOf,
    BestOf,
    ConstantScore,
    FuzzyQuery,
    IdsQuery,
    IndexQuery,
    LongerQuery,
    PhraseQuery,
    QueryTree,
    RangeQuery,
    SearchFilters,
    Term,
    TermQuery,
    candidates,
    distinctive_terms,
)
from shared.search.query_parser import SearchQuery
from shared.search.stored import StoredFields
from shared.search.tantivy_fields import SCHEMA, document_of, stored_of, uuid_of
from shared.video_fields import NUMERIC_FACETS

WRITER_BYTES = 20_000_000
"""Maximum memory of the index writer, in bytes. Tantivy requires at least 15 MB."""
MARK = "mark.json"
META = "meta.json"
MANAGED = ".managed.json"
_SLACK = 64
"""Number of additional hits to read after a page, because they may have the same rank as the page's last hit."""


class IndexFile(NamedTuple):
    """File of a committed index."""

    name: str
    size: int
    """Size in bytes."""
    is_immutable: bool
    """Whether the content of a file with this name never changes."""


class TantivyEngine:
    """Search index in a folder. Creates the index if it is missing. Only one engine per folder can write.

    >>> from shared.search.query_parser import parse
    >>> engine, now = TantivyEngine(folder), 1_750_000_000
    >>> engine.put([VideoDocument("05b3e2ae-8f0c-4ad2-8f4c-2b9a3a3f1c11", "alice", "Sea lions", now, visible=True)])
    >>> engine.commit(IndexCheckpoint({}, as_of=now * 1000))
    >>> hits = engine.search(parse("lions"), Caller("bob", frozenset()), now)
    >>> [hit.video_id for hit in hits.hits], hits.total
    (['05b3e2ae-8f0c-4ad2-8f4c-2b9a3a3f1c11'], 1)
    """

    def __init__(self, folder: Path) -> None:
        """Open or create the index. Raises IncompatibleIndex if another format or Tantivy version wrote it."""
        self._folder = folder
        self._writer: tantivy.IndexWriter | None = None
        self._is_changed = False
        folder.mkdir(parents=True, exist_ok=True)
        self._mark = _read_checkpoint(folder)
        try:
            self._index = tantivy.Index(SCHEMA, path=str(folder))
            self._index.config_reader("manual")
            self._reload()
        except ValueError as error:
            raise IncompatibleIndex(f"{folder}: {error}") from error

    @property
    def checkpoint(self) -> IndexCheckpoint | None:
        """Checkpoint of the last commit. `None` before the first one."""
        return self._mark

    @property
    def size(self) -> int:
        """Number of indexed videos."""
        return self._searcher.num_docs

    def put(
        self,
        documents: Iterable[VideoDocument],
        deleted_ids: Iterable[str] = (),
        places: Mapping[str, LogCursor] | None = None,
    ) -> None:
        """Add or replace videos, and delete the videos in `deleted_ids`. Searches see the change after `commit`."""
        for document in documents:
            self._is_changed = True
            self._writing.delete_documents_by_term("id", document.video_id)
            self._writing.add_document(document_of(document))
        for video_id in deleted_ids:
            self._is_changed = True
            self._writing.delete_documents_by_term("id", video_id)

    def commit(self, at: IndexCheckpoint) -> None:
        """Make pending changes visible and store the checkpoint."""
        if self._is_changed:
            self._writing.commit()
            self._is_changed = False
            self._reload()
        _write_checkpoint(self._folder, at)
        self._mark = at

    def search(
        self,
        search_query: SearchQuery,
        caller: Caller,
        now: int,
        *,
        filters: SearchFilters = SearchFilters(),  # noqa: B008  (it is frozen)
        facets: Collection[str] = (),
        limit: int = 25,
        after: Hit | None = None,
        without: Collection[str] = (),
    ) -> SearchHits:
        """Return a page of the videos that match the query and that the caller may see at `now`."""
        searcher = self._searcher
        query = IndexQuery(search_query, caller, now, filters, without)
        limit = min(limit, DEEPEST)
        last = after
        if after:
            present = self._ranked(searcher, query.with_id(after.video_id), query, 1)[0]
            last = present[0] if present else after
        ranked, total = self._ranked(searcher, query.query, query, DEEPEST if last else limit + 1)
        hits, more = page_of(ranked, last, limit)
        return SearchHits(hits, total, self._counted(searcher, query.all, facets), more)

    def similar(self, video_id: str, caller: Caller, now: int, *, limit: int = 10) -> list[Hit] | None:
        """Return the other videos that are most similar to a video. `None` if the index does not contain this video."""
        searcher = self._searcher
        address = self._address(searcher, video_id)
        if address is None:
            return None
        query = IndexQuery.excluding(video_id, caller, now)
        term_counts = candidates(stored_of(searcher.doc(address)).words())
        frequencies, total = self._matching_terms(searcher, query.all, term_counts)
        terms = distinctive_terms(term_counts, frequencies, total)
        if not terms:
            return []
        query.like(terms)
        return self._ranked(searcher, query.query, query, min(limit, DEEPEST))[0][:limit]

    def stored(self, video_ids: Sequence[str], *, max_characters: int | None = None) -> Iterator[StoredFields | None]:
        """Yield the stored texts of each video, in the order of `video_ids`. Reads a video when its texts are
        requested."""
        searcher, remaining = self._searcher, max_characters
        for video_id in video_ids:
            address = self._address(searcher, video_id)
            length = 0 if address is None or remaining is None else self._caption_length(searcher, address)
            if address is None or (remaining is not None and length > remaining):
                yield None
            else:
                remaining = None if remaining is None else remaining - length
                yield stored_of(searcher.doc(address))

    def files(self) -> list[IndexFile]:
        """Wait for running merges, and return the files of the last commit. A copy of these files is a complete
        index."""
        self.settle()
        meta = json.loads((self._folder / META).read_bytes())
        segments = {segment["segment_id"].replace("-", ""): segment["deletes"] for segment in meta["segments"]}
        files = []
        for path in sorted(self._folder.iterdir()):
            stem, _, kind = path.name.partition(".")
            is_segment = stem in segments and (not kind.endswith("del") or _is_present(kind, segments[stem]))
            if is_segment or path.name in (META, MANAGED, MARK):
                files.append(IndexFile(path.name, path.stat().st_size, is_segment))
        return files

    def settle(self) -> None:
        """Wait for running merges, then release the writer. Uncommitted changes are discarded."""
        if self._writer:
            writer, self._writer, self._is_changed = self._writer, None, False
            writer.wait_merging_threads()
            self._reload()

    def close(self) -> None:
        """Release the folder. Uncommitted changes are discarded."""
        self.settle()

    @property
    def _writing(self) -> tantivy.IndexWriter:
        if self._writer is None:
            self._writer = self._index.writer(WRITER_BYTES, 1)
        return self._writer

    def _reload(self) -> None:
        self._index.reload()
        self._searcher = self._index.searcher()

    def _ranked(
        self, searcher: tantivy.Searcher, tree: QueryTree, index_query: IndexQuery, count: int
    ) -> tuple[list[Hit], int]:
        """Return the first hits in order, and the total number of hits. Returns at least `count` hits, or all if there
        are fewer."""
        query, size = compiled(tree), count + _SLACK
        while True:
            if index_query.is_by_time:
                result = searcher.search(query, size, order_by_field="recent")
            else:
                result = searcher.search(query, size, weight_by_field="spread")
            hits: list[tuple[Any, tantivy.DocAddress]] = result.hits
            total: int = result.count  # type: ignore[attr-defined]  # its types forget it
            if len(hits) == size:
                # Further hits may have the same rank as the last one, and lower ids than the hits of this rank that
                # were read. So drop all hits of this rank.
                last = hits[-1][0]
                hits = [hit for hit in hits if hit[0] > last]
            if len(hits) >= min(count, total):
                break
            size *= 4
        addresses = [address for _, address in hits]
        ranks = [float(rank) for rank, _ in hits]
        ids = self._ids(searcher, addresses)
        if index_query.is_by_time:
            found = map(Hit, ids, ranks)
        else:
            spreads: Any = searcher.fast_field_values("spread", addresses)
            found = map(Hit, ids, ranks, map(_score, ranks, spreads))
        return sorted(found, key=by_rank), total

    @staticmethod
    def _ids(searcher: tantivy.Searcher, addresses: list[tantivy.DocAddress]) -> list[str]:
        highs: Any = searcher.fast_field_values("high", addresses)
        lows: Any = searcher.fast_field_values("low", addresses)
        return [
            str(searcher.doc(address).get_first("id")) if high is None else uuid_of(high, low)
            for address, high, low in zip(addresses, highs, lows, strict=True)
        ]

    @staticmethod
    def _matching_terms(
        searcher: tantivy.Searcher, tree: QueryTree, terms: Collection[Term]
    ) -> tuple[dict[Term, int], int]:
        """Return, for each term, the number of the query's results that contain it. Also return the total number of
        results."""
        # One aggregation counts all terms. Tantivy parses its filters, which is safe because words contain only letters
        # and digits.
        filters = {f"{name}:{word}": {"filter": f'{name}:"{word}"'} for name, word in terms}
        counts = searcher.aggregate(compiled(tree), {**filters, "*": {"filter": "*"}})
        return {(name, word): counts[f"{name}:{word}"]["doc_count"] for name, word in terms}, counts["*"]["doc_count"]

    @staticmethod
    def _counted(
        searcher: tantivy.Searcher, tree: QueryTree, facets: Collection[str]
    ) -> dict[str, list[tuple[str | int, int]]]:
        if not facets:
            return {}
        # Each segment counts all its values, because truncated counts would make the sums wrong.
        terms = {"size": 10 * MAX_VALUES, "segment_size": 1_000_000}
        counts = searcher.aggregate(compiled(tree), {name: {"terms": {"field": name, **terms}} for name in facets})
        return {name: most_frequent(counts[name]["buckets"], name in NUMERIC_FACETS) for name in facets}

    @staticmethod
    def _address(searcher: tantivy.Searcher, video_id: str) -> tantivy.DocAddress | None:
        found = searcher.search(tantivy.Query.term_query(SCHEMA, "id", video_id), 1, False).hits
        return found[0][1] if found else None

    @staticmethod
    def _caption_length(searcher: tantivy.Searcher, address: tantivy.DocAddress) -> int:
        """Return the number of characters of a video's captions, without reading their text."""
        (length,) = searcher.fast_field_values("saidLength", [address])
        return int(length or 0)


def compiled(tree: QueryTree) -> Query:
    """Return Tantivy's query for a query tree."""
    match tree:
        case TermQuery(field, value):
            return Query.term_query(SCHEMA, field, value)
        case IdsQuery(ids):
            return Query.term_set_query(SCHEMA, "id", list(ids))
        case RangeQuery(field, first, last):
            # All videos have `createdAt`, but few have `publishAt`, `expiresAt` or `purgeAt`. The inverted index finds
            # these videos without a scan of all videos.
            by_terms = field != "createdAt"
            return Query.range_query(SCHEMA, field, FieldType.Integer, first, last, use_inverted_index=by_terms)
        case FuzzyQuery(field, text, typos, is_prefix):
            return Query.fuzzy_term_query(SCHEMA, field, text, typos, True, is_prefix)
        case LongerQuery(field):
            return Query.regex_query(SCHEMA, field, tree.pattern)
        case PhraseQuery(field, texts):
            return Query.phrase_query(SCHEMA, field, list(texts))
        case ConstantScore(query, score):
            return Query.const_score_query(compiled(query), score)
        case BestOf(queries):
            return Query.disjunction_max_query([compiled(query) for query in queries], tie_breaker=REPEATED)
        case AnyOf(queries):
            return Query.boolean_query([(Occur.Should, compiled(query)) for query in queries])
        case AllOf(must, must_not, should):
            return Query.boolean_query(
                [
                    *((Occur.Must, compiled(query)) for query in must),
                    *(() if must else ((Occur.Must, Query.all_query()),)),
                    *((Occur.MustNot, compiled(query)) for query in must_not),
                    *((Occur.Should, compiled(query)) for query in should),
                ]
            )


def _score(rank: float, spread: float) -> float:
    """Return the score of a hit, computed from the rank that Tantivy's `weight_by_field` returns.

    The rank is the score, multiplied by a logarithm of `spread` and rounded to 24 bits.
    """
    return round(rank / log2(2 + spread) * GRAIN) / GRAIN


def _is_present(kind: str, deletes: Mapping[str, Any] | None) -> bool:
    """Return whether a segment's `.del` file lists the current deletions. A segment may also have older `.del` files.

    `kind` is the part of the file's name after the segment's id. `deletes` describes the current deletions, and is from
    the segment's metadata; `None` if no document of the segment is deleted.
    """
    return deletes is not None and kind == f"{deletes['opstamp']}.del"


def _read_checkpoint(folder: Path) -> IndexCheckpoint | None:
    """Return the checkpoint that the folder stores; `None` if there is none. Raises IncompatibleIndex for another
    format version."""
    try:
        stored = json.loads((folder / MARK).read_bytes())
    except FileNotFoundError:
        return None
    if stored["form"] != FORM:
        raise IncompatibleIndex(
            f"The index in {folder} has the format version {stored['form']}, but this release requires {FORM}."
        )
    return IndexCheckpoint({log: LogCursor(*cursor) for log, cursor in stored["places"].items()}, stored["as_of"])


def _write_checkpoint(folder: Path, checkpoint: IndexCheckpoint) -> None:
    unfinished = folder / f"{MARK}.part"
    with unfinished.open("w") as file:
        json.dump({"form": FORM, **asdict(checkpoint)}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, folder / MARK)
