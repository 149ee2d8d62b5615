"""Local search index: adds, removes and finds videos, using Tantivy.

Each video is one document, so totals, facets and pages are exact. A commit makes all changes visible atomically.
Tantivy receives texts as space-separated normalised words, and queries as trees (shared/search/index_query.py), so it
never parses user input.
"""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import log2
from pathlib import Path
from typing import Any, NamedTuple

import tantivy

from shared.core.caller import Caller
from shared.feed.log import LogCursor
from shared.search.document import FORM, VideoDocument
from shared.search.fields import SCHEMA, StoredFields, document_of, stored_of, uuid_of, words_of
from shared.search.index_query import GRAIN, IndexQuery, SearchFilters, Term, candidates, distinctive_terms
from shared.search.query_parser import SearchQuery
from shared.video_fields import NUMERIC_FACETS

DEEPEST = 1_000
"""Maximum number of hits that a caller can read of one query, on all pages together."""
MAX_VALUES = 100
"""Maximum number of values per facet."""
WRITER_BYTES = 20_000_000
"""Maximum memory of the index writer, in bytes. Tantivy requires at least 15 MB."""
MARK = "mark.json"
META = "meta.json"
MANAGED = ".managed.json"
_SLACK = 64
"""Number of additional hits to read after a page, because they may have the same rank as the page's last hit."""


class IncompatibleIndex(Exception):
    """Error: the index has another format version, or was written by another Tantivy version."""


@dataclass(frozen=True)
class IndexCheckpoint:
    """Checkpoint of the index: the positions in the feed up to which the index includes all changes."""

    places: Mapping[str, LogCursor]
    """Position of the next change to consume, by log key."""
    as_of: int
    """Time in epoch milliseconds. The index includes all changes before this time."""


class Hit(NamedTuple):
    """Video that matches a query. Hits sort by descending rank, then by id."""

    video_id: str
    rank: float
    """Score plus a tiny offset, derived from the id, that makes ties rare. If the query has no words, the creation
    time."""
    score: float = 0.0
    """Relevance of the video. It depends only on the query and the video."""


@dataclass(frozen=True)
class SearchHits:
    """Page of hits, with the number of all matches and their facets."""

    hits: Sequence[Hit]
    total: int
    """Number of matching videos that the caller may see, on all pages."""
    facets: Mapping[str, Sequence[tuple[str | int, int]]] = field(default_factory=dict)
    """Number of matching videos per value, by facet. The most frequent value is first, with at most MAX_VALUES. Tags
    are case-folded."""
    more: bool = False
    """Whether another page follows."""


class IndexFile(NamedTuple):
    """File of a committed index."""

    name: str
    size: int
    """Size in bytes."""
    is_immutable: bool
    """Whether the content of a file with this name never changes."""


class SearchEngine:
    """Search index in a folder. Creates the index if it is missing. Only one engine per folder can write.

    >>> from shared.search.query_parser import parse
    >>> engine, now = SearchEngine(folder), 1_750_000_000
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

    def put(self, documents: Iterable[VideoDocument], deleted_ids: Iterable[str] = ()) -> None:
        """Add or replace videos, and delete the videos in `deleted_ids`.

        Searches see the change after `commit`.
        """
        for document in documents:
            self._is_changed = True
            self._writing.delete_documents_by_term("id", document.video_id)
            self._writing.add_document(document_of(document))
        for video_id in deleted_ids:
            self._is_changed = True
            self._writing.delete_documents_by_term("id", video_id)

    def commit(self, at: IndexCheckpoint) -> None:
        """Make pending changes visible and store the checkpoint.

        If the process crashes between these two steps, the checkpoint is older than the index. The next run then
        indexes some changes again, which is harmless.
        """
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
        """Return a page of the videos that match the query and that the caller may see at `now`.

        `after` is the last hit of the previous page, and `without` contains the ids of videos to exclude. A query
        without clauses sorts hits by creation time, newest first. The page starts after the current position of the hit
        `after`, or, if that hit no longer matches, after its old position.
        """
        searcher = self._searcher
        query = IndexQuery(SCHEMA, search_query, caller, now, filters, without)
        limit = min(limit, DEEPEST)
        past: tuple[float, str] | None = None
        if after:
            present = self._ranked(searcher, query.with_id(after.video_id), query, 1)[0]
            past = _rank(present[0] if present else after)
        ranked, total = self._ranked(searcher, query.query, query, DEEPEST if past else limit + 1)
        first = next((index for index, hit in enumerate(ranked) if past is None or _rank(hit) > past), len(ranked))
        hits = ranked[first : min(first + limit, DEEPEST)]
        counted = self._counted(searcher, query.all, facets)
        return SearchHits(hits, total, counted, more=first + limit < min(len(ranked), DEEPEST))

    def similar(self, video_id: str, caller: Caller, now: int, *, limit: int = 10) -> list[Hit] | None:
        """Return the videos that are most similar to a video, excluding the video. `None` if the index does not contain
        it."""
        searcher = self._searcher
        address = self._address(searcher, video_id)
        if address is None:
            return None
        query = IndexQuery.excluding(SCHEMA, video_id, caller, now)
        term_counts = candidates(words_of(searcher.doc(address)))
        frequencies, total = self._matching_terms(searcher, query.all, term_counts)
        terms = distinctive_terms(term_counts, frequencies, total)
        if not terms:
            return []
        query.like(terms)
        return self._ranked(searcher, query.query, query, min(limit, DEEPEST))[0][:limit]

    def stored(self, video_id: str, *, max_characters: int | None = None) -> StoredFields | None:
        """Return the stored texts of a video.

        `None` if the video is not indexed, or if the captions exceed `max_characters` characters.
        """
        searcher = self._searcher
        address = self._address(searcher, video_id)
        if address is None or (max_characters is not None and self._caption_length(searcher, address) > max_characters):
            return None
        return stored_of(searcher.doc(address))

    def files(self) -> list[IndexFile]:
        """Wait for running merges and list the files of the last commit. A copy of these files is a complete index."""
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
        """Wait for running merges and release the writer. Uncommitted changes are discarded."""
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
        self, searcher: tantivy.Searcher, query: tantivy.Query, index_query: IndexQuery, count: int
    ) -> tuple[list[Hit], int]:
        """Return the first hits in order, and the total number of hits. Returns at least `count` hits, or all if there
        are fewer."""
        size = count + _SLACK
        while True:
            if index_query.is_by_time:
                result = searcher.search(query, size, order_by_field="recent")
            else:
                result = searcher.search(query, size, weight_by_field="spread")
            hits: list[tuple[Any, tantivy.DocAddress]] = result.hits
            total: int = result.count  # type: ignore[attr-defined]  # its types forget it
            if len(hits) == size:
                # Further hits may tie with the last one. The hits read so far are not necessarily the lowest ids, so
                # drop the whole tie.
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
        return sorted(found, key=_rank), total

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
        searcher: tantivy.Searcher, query: tantivy.Query, terms: Collection[Term]
    ) -> tuple[dict[Term, int], int]:
        """Return, for each term, the number of the query's results that contain it. Also return the total number of
        results."""
        # One aggregation counts all terms. It parses the strings, which is safe because words contain only letters and
        # digits.
        filters = {f"{name}:{word}": {"filter": f'{name}:"{word}"'} for name, word in terms}
        counts = searcher.aggregate(query, {**filters, "*": {"filter": "*"}})
        return {(name, word): counts[f"{name}:{word}"]["doc_count"] for name, word in terms}, counts["*"]["doc_count"]

    @staticmethod
    def _counted(
        searcher: tantivy.Searcher, query: tantivy.Query, facets: Collection[str]
    ) -> dict[str, list[tuple[str | int, int]]]:
        if not facets:
            return {}
        # Each segment counts all its values, because truncated counts would make the sums wrong.
        terms = {"size": 10 * MAX_VALUES, "segment_size": 1_000_000}
        counts = searcher.aggregate(query, {name: {"terms": {"field": name, **terms}} for name in facets})
        return {name: _most_frequent(counts[name]["buckets"], name in NUMERIC_FACETS) for name in facets}

    @staticmethod
    def _address(searcher: tantivy.Searcher, video_id: str) -> tantivy.DocAddress | None:
        found = searcher.search(tantivy.Query.term_query(SCHEMA, "id", video_id), 1, False).hits
        return found[0][1] if found else None

    @staticmethod
    def _caption_length(searcher: tantivy.Searcher, address: tantivy.DocAddress) -> int:
        """Return the number of characters of a video's captions, without reading their text."""
        (length,) = searcher.fast_field_values("saidLength", [address])
        return int(length or 0)


def _rank(hit: Hit) -> tuple[float, str]:
    return -hit.rank, hit.video_id


def _score(rank: float, spread: float) -> float:
    """Return the score of a hit, computed from the rank that Tantivy's `weight_by_field` returns.

    The rank is the score, multiplied by a logarithm of `spread` and rounded to 24 bits.
    """
    return round(rank / log2(2 + spread) * GRAIN) / GRAIN


def _most_frequent(buckets: list[dict[str, Any]], is_number: bool) -> list[tuple[str | int, int]]:
    values = [(int(bucket["key"]) if is_number else bucket["key"], bucket["doc_count"]) for bucket in buckets]
    return sorted(values, key=lambda value: (-value[1], value[0]))[:MAX_VALUES]


def _is_present(kind: str, deletes: Mapping[str, Any] | None) -> bool:
    """Return whether a file with deletions is the current one of its segment. `deletes` is the segment's entry in the
    metadata."""
    return deletes is not None and kind == f"{deletes['opstamp']}.del"


def _read_checkpoint(folder: Path) -> IndexCheckpoint | None:
    """Return the checkpoint that the folder stores; `None` if there is none. Raises IncompatibleIndex for another
    format version."""
    try:
        stored = json.loads((folder / MARK).read_bytes())
    except FileNotFoundError:
        return None
    if stored["form"] != FORM:
        raise IncompatibleIndex(f"{folder}: the index has form {stored['form']}, and this is form {FORM}.")
    return IndexCheckpoint({log: LogCursor(*cursor) for log, cursor in stored["places"].items()}, stored["as_of"])


def _write_checkpoint(folder: Path, checkpoint: IndexCheckpoint) -> None:
    unfinished = folder / f"{MARK}.part"
    with unfinished.open("w") as file:
        json.dump({"form": FORM, **asdict(checkpoint)}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, folder / MARK)
