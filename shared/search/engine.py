"""The index on this machine: films are put into it, and found in it. Tantivy does the work.

There is one document for each video, so totals, facets and pages are exact. What is put becomes visible with a commit, all of it
or nothing. Texts reach Tantivy as our own words, with spaces between them; questions as trees of queries (shared/search/asking.py).
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
from shared.feed.log import Place
from shared.search.asking import GRAIN, Asking, Filters, Term, candidates, telling
from shared.search.document import FORM, Film
from shared.search.fields import SCHEMA, Stored, document_of, stored_of, uuid_of, words_of
from shared.search.question import Question
from shared.video_fields import NUMERIC_FACETS

DEEPEST = 1_000
"""Hits of a question that can be paged through."""
MOST_VALUES = 100
"""Values of a facet that are counted."""
WRITER_BYTES = 20_000_000
"""Memory that a writer may take; 15 MB at least."""
MARK = "mark.json"
META = "meta.json"
MANAGED = ".managed.json"
_SLACK = 64
"""Hits that are read beyond the page, for those that have the same score as its last one."""


class OtherForm(Exception):
    """The index in the folder was written by another version of the service, or of Tantivy."""


@dataclass(frozen=True)
class Mark:
    """How far the index has followed the changes."""

    places: Mapping[str, Place]
    """Up to where each log has been read, by its key."""
    as_of: int
    """Milliseconds since 1970: when everything up to then had been read."""


class Hit(NamedTuple):
    """A video that was found. Those that come first have more rank, and among equals the smaller id."""

    video_id: str
    rank: float
    """The score and a very little that its id adds, so that hardly two have the same; without words, when it was created."""
    score: float = 0.0
    """How well it fits: what follows from the question and the video alone."""


@dataclass(frozen=True)
class Found:
    """A page of what a question finds."""

    hits: Sequence[Hit]
    total: int
    """How many films the question finds for the caller, on all pages."""
    facets: Mapping[str, Sequence[tuple[str | int, int]]] = field(default_factory=dict)
    """How many of them there are by value, the most frequent first; MOST_VALUES at most. Tags are folded."""
    more: bool = False
    """Whether a page follows."""


class File(NamedTuple):
    """A file of the index."""

    name: str
    size: int
    """Bytes."""
    is_immutable: bool
    """Whether a file of this name never has another content."""


class Engine:
    """An index in a folder, which is made if it is not there. Only one engine of a folder can write."""

    def __init__(self, folder: Path) -> None:
        """Open or make the index; raises OtherForm."""
        self._folder = folder
        self._writer: tantivy.IndexWriter | None = None
        self._is_changed = False
        folder.mkdir(parents=True, exist_ok=True)
        self._mark = _read_mark(folder)
        try:
            self._index = tantivy.Index(SCHEMA, path=str(folder))
            self._index.config_reader("manual")
            self._look_again()
        except ValueError as error:
            raise OtherForm(f"{folder}: {error}") from error

    @property
    def mark(self) -> Mark | None:
        """What the last commit had followed; None before the first."""
        return self._mark

    @property
    def size(self) -> int:
        """How many videos the index has."""
        return self._searcher.num_docs

    def put(self, films: Iterable[Film], gone: Iterable[str] = ()) -> None:
        """Put films in, in place of those of the same ids, and take out the videos that are gone; nobody sees it yet."""
        for film in films:
            self._is_changed = True
            self._writing.delete_documents_by_term("id", film.video_id)
            self._writing.add_document(document_of(film))
        for video_id in gone:
            self._is_changed = True
            self._writing.delete_documents_by_term("id", video_id)

    def commit(self, at: Mark) -> None:
        """Let everybody see what was put, and keep how far that has followed the changes.

        If this is cut off in between, the mark is older than the index: what was put since then is put again.
        """
        if self._is_changed:
            self._writing.commit()
            self._is_changed = False
            self._look_again()
        _write_mark(self._folder, at)
        self._mark = at

    def search(
        self,
        question: Question,
        caller: Caller,
        now: int,
        *,
        filters: Filters = Filters(),  # noqa: B008  (it is frozen)
        facets: Collection[str] = (),
        limit: int = 25,
        after: Hit | None = None,
        without: Collection[str] = (),
    ) -> Found:
        """A page of what the caller may see at this second, after a hit of the page before, `without` some videos.

        Without clauses the newest come first. A page that follows goes on where the hit before it stands now, or where it
        stood if that is not found any more.
        """
        searcher = self._searcher
        asked = Asking(SCHEMA, question, caller, now, filters, without)
        limit = min(limit, DEEPEST)
        past: tuple[float, str] | None = None
        if after:
            standing = self._ranked(searcher, asked.with_id(after.video_id), asked, 1)[0]
            past = _rank(standing[0] if standing else after)
        ranked, total = self._ranked(searcher, asked.query, asked, DEEPEST if past else limit + 1)
        first = next((place for place, hit in enumerate(ranked) if past is None or _rank(hit) > past), len(ranked))
        hits = ranked[first : min(first + limit, DEEPEST)]
        counted = self._counted(searcher, asked.all, facets)
        return Found(hits, total, counted, more=first + limit < min(len(ranked), DEEPEST))

    def similar(self, video_id: str, caller: Caller, now: int, *, limit: int = 10) -> list[Hit] | None:
        """The films most like one, without it; None if the index does not have it."""
        searcher = self._searcher
        address = self._address(searcher, video_id)
        if address is None:
            return None
        asked = Asking.others(SCHEMA, video_id, caller, now)
        said = candidates(words_of(searcher.doc(address)))
        films, all_films = self._having(searcher, asked.all, said)
        terms = telling(said, films, all_films)
        if not terms:
            return []
        asked.like(terms)
        return self._ranked(searcher, asked.query, asked, min(limit, DEEPEST))[0][:limit]

    def stored(self, video_id: str, *, most_said: int | None = None) -> Stored | None:
        """A film's texts; None if the index does not have it, or its captions have more characters than `most_said`."""
        searcher = self._searcher
        address = self._address(searcher, video_id)
        if address is None or (most_said is not None and self._said(searcher, address) > most_said):
            return None
        return stored_of(searcher.doc(address))

    def files(self) -> list[File]:
        """What the last commit consists of, once merges have ended: a copy of these files is the same index."""
        self.settle()
        meta = json.loads((self._folder / META).read_bytes())
        segments = {segment["segment_id"].replace("-", ""): segment["deletes"] for segment in meta["segments"]}
        files = []
        for path in sorted(self._folder.iterdir()):
            stem, _, kind = path.name.partition(".")
            is_segment = stem in segments and (not kind.endswith("del") or _is_present(kind, segments[stem]))
            if is_segment or path.name in (META, MANAGED, MARK):
                files.append(File(path.name, path.stat().st_size, is_segment))
        return files

    def settle(self) -> None:
        """Wait for merges that are under way, and let go of the writer, without what was put since the last commit."""
        if self._writer:
            writer, self._writer, self._is_changed = self._writer, None, False
            writer.wait_merging_threads()
            self._look_again()

    def close(self) -> None:
        """Let go of the folder, without what was put since the last commit."""
        self.settle()

    @property
    def _writing(self) -> tantivy.IndexWriter:
        if self._writer is None:
            self._writer = self._index.writer(WRITER_BYTES, 1)
        return self._writer

    def _look_again(self) -> None:
        self._index.reload()
        self._searcher = self._index.searcher()

    def _ranked(
        self, searcher: tantivy.Searcher, query: tantivy.Query, asked: Asking, wanted: int
    ) -> tuple[list[Hit], int]:
        """The first hits in their order, `wanted` at least if there are so many, and how many there are in all."""
        size = wanted + _SLACK
        while True:
            if asked.is_by_time:
                result = searcher.search(query, size, order_by_field="recent")
            else:
                result = searcher.search(query, size, weight_by_field="spread")
            hits: list[tuple[Any, tantivy.DocAddress]] = result.hits
            total: int = result.count  # type: ignore[attr-defined]  # its types forget it
            if len(hits) == size:
                # More may have the score of the last one: those that are read of them are not the first by id.
                last = hits[-1][0]
                hits = [hit for hit in hits if hit[0] > last]
            if len(hits) >= min(wanted, total):
                break
            size *= 4
        addresses = [address for _, address in hits]
        ranks = [float(rank) for rank, _ in hits]
        ids = self._ids(searcher, addresses)
        if asked.is_by_time:
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
    def _having(
        searcher: tantivy.Searcher, query: tantivy.Query, terms: Collection[Term]
    ) -> tuple[dict[Term, int], int]:
        """How many of the films that a query finds have each of these words, and how many it finds."""
        # All are counted at once. The strings are parsed, but a word is letters and digits, which mean nothing else there.
        filters = {f"{name}:{word}": {"filter": f'{name}:"{word}"'} for name, word in terms}
        counts = searcher.aggregate(query, {**filters, "*": {"filter": "*"}})
        return {(name, word): counts[f"{name}:{word}"]["doc_count"] for name, word in terms}, counts["*"]["doc_count"]

    @staticmethod
    def _counted(
        searcher: tantivy.Searcher, query: tantivy.Query, facets: Collection[str]
    ) -> dict[str, list[tuple[str | int, int]]]:
        if not facets:
            return {}
        # Each segment counts all its values: then the sums are right.
        terms = {"size": 10 * MOST_VALUES, "segment_size": 1_000_000}
        counts = searcher.aggregate(query, {name: {"terms": {"field": name, **terms}} for name in facets})
        return {name: _most_frequent(counts[name]["buckets"], name in NUMERIC_FACETS) for name in facets}

    @staticmethod
    def _address(searcher: tantivy.Searcher, video_id: str) -> tantivy.DocAddress | None:
        found = searcher.search(tantivy.Query.term_query(SCHEMA, "id", video_id), 1, False).hits
        return found[0][1] if found else None

    @staticmethod
    def _said(searcher: tantivy.Searcher, address: tantivy.DocAddress) -> int:
        """Characters of a film's captions, without reading them."""
        (length,) = searcher.fast_field_values("saidLength", [address])
        return int(length or 0)


def _rank(hit: Hit) -> tuple[float, str]:
    return -hit.rank, hit.video_id


def _score(rank: float, spread: float) -> float:
    """The score without what Tantivy's `weight_by_field` has made of it, which rounds to 24 bits."""
    return round(rank / log2(2 + spread) * GRAIN) / GRAIN


def _most_frequent(buckets: list[dict[str, Any]], is_number: bool) -> list[tuple[str | int, int]]:
    values = [(int(bucket["key"]) if is_number else bucket["key"], bucket["doc_count"]) for bucket in buckets]
    return sorted(values, key=lambda value: (-value[1], value[0]))[:MOST_VALUES]


def _is_present(kind: str, deletes: Mapping[str, Any] | None) -> bool:
    """Whether a file of deleted documents is the one that a segment has now."""
    return deletes is not None and kind == f"{deletes['opstamp']}.del"


def _read_mark(folder: Path) -> Mark | None:
    """The mark in the folder; raises OtherForm."""
    try:
        kept = json.loads((folder / MARK).read_bytes())
    except FileNotFoundError:
        return None
    if kept["form"] != FORM:
        raise OtherForm(f"{folder}: the index has form {kept['form']}, and this is form {FORM}.")
    return Mark({log: Place(*place) for log, place in kept["places"].items()}, kept["as_of"])


def _write_mark(folder: Path, mark: Mark) -> None:
    unfinished = folder / f"{MARK}.part"
    with unfinished.open("w") as file:
        json.dump({"form": FORM, **asdict(mark)}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, folder / MARK)
