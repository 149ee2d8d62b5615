"""The index on this machine: films are put into it, and found in it. Tantivy does the work; nothing else imports it.

There is one document for each video, so totals, facets and pages are exact. What is put becomes visible with a commit, all of it
or nothing. Texts reach Tantivy as our own words, with spaces between them; questions as trees of queries (shared/search/asking.py).
"""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import tantivy

from shared.core.caller import Caller
from shared.search.asking import Asking, Filters
from shared.search.document import Film
from shared.search.question import Question
from shared.search.words import joined, tokens
from shared.videos.tags import folded

FORM = 1
"""Of the index. One of another form is not opened: it is to be built anew."""
DEEPEST = 1_000
"""Hits of a question that can be paged through."""
FACETS = ("category", "tag", "year")
MOST_VALUES = 100
"""Values of a facet that are counted."""
MARK = "mark.json"
META = "meta.json"
MANAGED = ".managed.json"
_SPREAD = 0.01
"""By how much the scores of films differ that fit equally well: so little that it never outweighs a difference in how well, and
enough that hardly two of 100,000 have the same."""
_SLACK = 64
"""Hits that are read beyond the page, for those that have the same score as its last one."""


class OtherForm(Exception):
    """The index in the folder was written by another version of the service, or of Tantivy."""


@dataclass(frozen=True)
class Mark:
    """How far the index has followed the changes."""

    places: Mapping[str, int]
    """The position up to which each log has been read, by its key."""
    as_of: int
    """Milliseconds since 1970: when everything up to then had been read."""


class Hit(NamedTuple):
    """A video that was found. Those that come first have more score, and among equals the smaller id."""

    video_id: str
    score: float


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


class Said(NamedTuple):
    """The captions in one language, cue by cue; cues without a word are left out."""

    language: str
    starts: str
    """Milliseconds, with a space between them."""
    texts: str
    """With a line end between them."""
    words: str
    """Folded, with a space between them, and a line end between those of two cues."""


class Stored(NamedTuple):
    """The texts of a film, for highlights."""

    title: str
    names: Sequence[str]
    tags: Sequence[str]
    description: str
    captions: Sequence[Said]


class File(NamedTuple):
    """A file of the index."""

    name: str
    size: int
    """Bytes."""
    is_immutable: bool
    """Whether a file of this name never has another content."""


class Engine:
    """An index in a folder, which is made if it is not there. Only one engine of a folder can write."""

    def __init__(self, folder: Path, *, heap: int = 20_000_000) -> None:
        """Open or make the index; raises OtherForm. `heap` are bytes that a writer may take, 15 MB at least."""
        self._folder, self._heap = folder, heap
        self._writer: tantivy.IndexWriter | None = None
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
            self._writing.delete_documents_by_term("id", film.video_id)
            self._writing.add_document(_document(film))
        for video_id in gone:
            self._writing.delete_documents_by_term("id", video_id)

    def commit(self, at: Mark) -> None:
        """Let everybody see what was put, and keep how far that has followed the changes.

        If this is cut off in between, the mark is older than the index: what was put since then is put again.
        """
        if self._writer:
            self._writer.commit()
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
    ) -> Found:
        """A page of what the caller may see at this second, after a hit of the page before.

        Without clauses the newest come first. A page that follows goes on where the hit before it stands now, or where it
        stood if that is not found any more.
        """
        searcher = self._searcher
        asked = Asking(SCHEMA, question, caller, now, filters)
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
        document = self._document(searcher, video_id)
        if document is None:
            return None
        asked = Asking.like(SCHEMA, searcher.num_docs, video_id, _texts_of(document), caller, now)
        return self._ranked(searcher, asked.query, asked, min(limit, DEEPEST))[0][:limit]

    def stored(self, video_id: str) -> Stored | None:
        """A film's texts; None if the index does not have it."""
        document = self._document(self._searcher, video_id)
        if document is None:
            return None
        shown = _shown(document)
        languages = shown.pop("languages")
        said = zip(languages, *(document.get_all(name) for name in ("starts", "said", "captions")), strict=True)
        captions = [Said(language, starts.decode(), texts.decode(), words) for language, starts, texts, words in said]
        return Stored(**shown, captions=captions)

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
            writer, self._writer = self._writer, None
            writer.rollback()
            writer.wait_merging_threads()
            self._look_again()

    def close(self) -> None:
        """Let go of the folder, without what was put since the last commit."""
        self.settle()

    @property
    def _writing(self) -> tantivy.IndexWriter:
        if self._writer is None:
            self._writer = self._index.writer(self._heap, 1)
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
        ids = self._ids(searcher, addresses)
        return sorted((Hit(id_, float(score)) for id_, (score, _) in zip(ids, hits, strict=True)), key=_rank), total

    @staticmethod
    def _ids(searcher: tantivy.Searcher, addresses: list[tantivy.DocAddress]) -> list[str]:
        highs: Any = searcher.fast_field_values("high", addresses)
        lows: Any = searcher.fast_field_values("low", addresses)
        return [
            str(searcher.doc(address).get_first("id")) if high is None else _uuid(high, low)
            for address, high, low in zip(addresses, highs, lows, strict=True)
        ]

    @staticmethod
    def _counted(
        searcher: tantivy.Searcher, query: tantivy.Query, facets: Collection[str]
    ) -> dict[str, list[tuple[str | int, int]]]:
        if not facets:
            return {}
        # Each segment counts all its values: then the sums are right.
        terms = {"size": 10 * MOST_VALUES, "segment_size": 1_000_000}
        counts = searcher.aggregate(query, {name: {"terms": {"field": name, **terms}} for name in facets})
        return {name: _most_frequent(counts[name]["buckets"], name == "year") for name in facets}

    @staticmethod
    def _document(searcher: tantivy.Searcher, video_id: str) -> tantivy.Document | None:
        found = searcher.search(tantivy.Query.term_query(SCHEMA, "id", video_id), 1, False).hits
        return searcher.doc(found[0][1]) if found else None


def _rank(hit: Hit) -> tuple[float, str]:
    return -hit.score, hit.video_id


def _most_frequent(buckets: list[dict[str, Any]], is_number: bool) -> list[tuple[str | int, int]]:
    values = [(int(bucket["key"]) if is_number else bucket["key"], bucket["doc_count"]) for bucket in buckets]
    return sorted(values, key=lambda value: (-value[1], value[0]))[:MOST_VALUES]


def _schema() -> tantivy.Schema:
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    for name in ("title", "names", "tags", "description"):
        schema.add_text_field(name, tokenizer_name="whitespace")
    schema.add_text_field("captions", stored=True, tokenizer_name="whitespace")
    for name in ("shown", "starts", "said"):
        schema.add_bytes_field(name, stored=True)
    for name in ("owner", "language"):
        schema.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in ("category", "tag"):
        schema.add_text_field(name, fast=True, tokenizer_name="raw", index_option="basic")
    schema.add_boolean_field("visible", indexed=True)
    for name in ("publishAt", "expiresAt", "purgeAt"):
        schema.add_integer_field(name, indexed=True)
    for name in ("year", "createdAt", "recent"):
        schema.add_integer_field(name, fast=True)
    schema.add_unsigned_field("length", indexed=True)
    for name in ("high", "low"):
        schema.add_unsigned_field(name, fast=True)
    schema.add_float_field("spread", fast=True)
    return schema.build()


SCHEMA = _schema()


def _document(film: Film) -> tantivy.Document:
    document = tantivy.Document()
    document.add_text("id", film.video_id)
    document.add_text("owner", film.user_id)
    document.add_boolean("visible", film.visible)
    document.add_integer("createdAt", film.created_at)
    share = crc32(film.video_id.encode())
    document.add_float("spread", _SPREAD * share / 2**32)
    document.add_integer("recent", (film.created_at << 15) | (share >> 17))
    for name, time in {"publishAt": film.publish_at, "expiresAt": film.expires_at, "purgeAt": film.purge_at}.items():
        if time is not None:
            document.add_integer(name, time)
    if film.year is not None:
        document.add_integer("year", film.year)
    if film.category is not None:
        document.add_text("category", film.category)
    for tag in {folded(tag) for tag in film.tags}:
        document.add_text("tag", tag)
    for part in _parts_of_language(film.language):
        document.add_text("language", part)
    if (number := _number(film.video_id)) is not None:
        document.add_unsigned("high", number >> 64)
        document.add_unsigned("low", number & (2**64 - 1))
    _add_texts(document, film)
    return document


def _add_texts(document: tantivy.Document, film: Film) -> None:
    said = {language: _cues(cues) for language, cues in film.captions.items()}
    shown = {
        "title": film.title,
        "names": list(film.names),
        "tags": list(film.tags),
        "description": film.description,
        "languages": [language for language, cues in said.items() if cues],
    }
    document.add_bytes("shown", json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode())
    document.add_unsigned("length", len(tokens(film.title)))
    for name, texts in _indexed(shown).items():
        for text in texts:
            document.add_text(name, text)
    for cues in filter(None, said.values()):
        document.add_text("captions", "\n".join(words for _, _, words in cues))
        document.add_bytes("said", "\n".join(text for _, text, _ in cues).encode())
        document.add_bytes("starts", " ".join(str(start) for start, _, _ in cues).encode())


def _cues(cues: Sequence[tuple[int, str]]) -> list[tuple[int, str, str]]:
    """When each cue starts, what it says on one line, and its words; without those that have none."""
    found = ((start, " ".join(text.split()), _words(text)) for start, text in cues)
    return [(start, text, words) for start, text, words in found if words]


def _indexed(shown: Mapping[str, Any]) -> dict[str, list[str]]:
    """The folded words of the texts of a film but its captions, by field: phrases do not go from one text into the next."""
    texts = {
        "title": [shown["title"]],
        "names": shown["names"],
        "tags": shown["tags"],
        "description": [shown["description"]],
    }
    return {
        name: [folded_text for text in values for folded_text in (_words(text), *_joined(text)) if folded_text]
        for name, values in texts.items()
    }


def _words(text: str) -> str:
    return " ".join(token.word for token in tokens(text))


def _joined(text: str) -> list[str]:
    return [token.word for token in joined(text, tokens(text))]


def _parts_of_language(tag: str | None) -> list[str]:
    """`pt-br` and `pt` of `pt-BR`: a film is found by its language with and without what follows it."""
    subtags = tag.lower().split("-") if tag else []
    return ["-".join(subtags[:count]) for count in range(1, len(subtags) + 1)]


def _shown(document: tantivy.Document) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(document.get_first("shown") or "{}")
    return shown


def _texts_of(document: tantivy.Document) -> dict[str, list[str]]:
    """The words of a film by field, as they were indexed."""
    return _indexed(_shown(document)) | {"captions": document.get_all("captions")}


def _number(video_id: str) -> int | None:
    """The 128 bits of a UUID as it is written here; None if the id is another text."""
    plain = video_id.replace("-", "")
    try:
        number = int(plain, 16)
    except ValueError:
        return None
    return number if _uuid(number >> 64, number & (2**64 - 1)) == video_id else None


def _uuid(high: int, low: int) -> str:
    digits = f"{high:016x}{low:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


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
    return Mark(kept["places"], kept["as_of"])


def _write_mark(folder: Path, mark: Mark) -> None:
    unfinished = folder / f"{MARK}.part"
    with unfinished.open("w") as file:
        json.dump({"form": FORM, **asdict(mark)}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, folder / MARK)
