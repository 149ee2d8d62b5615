"""Schema of the index: the terms, columns and stored texts of a video."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import tantivy

from shared.search.document import VideoDocument
from shared.search.tokenizer import joined, tokens
from shared.video_fields import FACETS, NUMERIC_FACETS
from shared.videos.tags import normalise_tag

_SPREAD = 0.001
"""Maximum offset that is added to the rank of a video, so that videos with the same score have different ranks.

It changes a rank by less than a thousandth of the score, so it never outweighs a relevant difference. Few of 100,000
videos have the same offset.
"""
ALL = "words"
"""Name of the field that contains every distinct word of all texts."""


class CaptionText(NamedTuple):
    """Captions of a video in one language, as the index stores them. Cues without words are omitted."""

    language: str
    starts: str
    """Start times of the cues in milliseconds, separated by spaces."""
    texts: str
    """Texts of the cues, separated by newlines."""
    words: str
    """Normalised words of the cues, separated by spaces. Newlines separate the cues."""


class StoredFields(NamedTuple):
    """Texts of a video in their original spelling, which the index stores because highlights show them."""

    title: str
    names: Sequence[str]
    tags: Sequence[str]
    description: str
    captions: Sequence[CaptionText]

    @property
    def caption_length(self) -> int:
        """Total number of characters of all captions. The end of each language's text counts as one character."""
        return sum(len(caption.texts) + 1 for caption in self.captions)


NOTHING_STORED = StoredFields("", (), (), "", ())


def _schema() -> tantivy.Schema:
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    for name in ("title", "names", "tags", "description"):
        schema.add_text_field(name, tokenizer_name="whitespace")
    schema.add_text_field("captions", stored=True, tokenizer_name="whitespace")
    schema.add_text_field(ALL, tokenizer_name="whitespace", index_option="basic")
    for name in ("shown", "starts", "said"):
        schema.add_bytes_field(name, stored=True)
    for name in ("owner", "language"):
        schema.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in (facet for facet in FACETS if facet not in NUMERIC_FACETS):
        schema.add_text_field(name, fast=True, tokenizer_name="raw", index_option="basic")
    schema.add_boolean_field("visible", indexed=True)
    for name in ("publishAt", "expiresAt", "purgeAt"):
        schema.add_integer_field(name, indexed=True)
    for name in (*NUMERIC_FACETS, "createdAt", "recent"):
        schema.add_integer_field(name, fast=True)
    schema.add_unsigned_field("length", indexed=True)
    for name in ("high", "low", "saidLength"):
        schema.add_unsigned_field(name, fast=True)
    schema.add_float_field("spread", fast=True)
    return schema.build()


SCHEMA = _schema()


def document_of(video: VideoDocument) -> tantivy.Document:
    """Return the Tantivy document of a video, with all fields of SCHEMA that the video has."""
    document = tantivy.Document()
    document.add_text("id", video.video_id)
    document.add_text("owner", video.user_id)
    document.add_boolean("visible", video.visible)
    document.add_integer("createdAt", video.created_at)
    fraction = crc32(video.video_id.encode())
    document.add_float("spread", _SPREAD * fraction / 2**32)
    document.add_integer("recent", (video.created_at << 15) | (fraction >> 17))
    for name, time in {"publishAt": video.publish_at, "expiresAt": video.expires_at, "purgeAt": video.purge_at}.items():
        if time is not None:
            document.add_integer(name, time)
    for facet, value in video.facets.items():
        if isinstance(value, int):
            document.add_integer(facet, value)
        else:
            document.add_text(facet, value)
    for tag in {normalise_tag(tag) for tag in video.tags}:
        document.add_text("tag", tag)
    for part in _parts_of_language(video.language):
        document.add_text("language", part)
    if (number := _number(video.video_id)) is not None:
        document.add_unsigned("high", number >> 64)
        document.add_unsigned("low", number & (2**64 - 1))
    _add_texts(document, video)
    return document


def _add_texts(document: tantivy.Document, video: VideoDocument) -> None:
    cues_by_language = {language: _cues(cues) for language, cues in video.captions.items()}
    shown = {
        "title": video.title,
        "names": list(video.names),
        "tags": list(video.tags),
        "description": video.description,
        "languages": [language for language, cues in cues_by_language.items() if cues],
    }
    document.add_bytes("shown", json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode())
    document.add_unsigned("length", len(tokens(video.title)))
    texts = _indexed(shown)
    for name, values in texts.items():
        for text in values:
            document.add_text(name, text)
    spoken = ["\n".join(words for _, _, words in cues) for cues in cues_by_language.values() if cues]
    for text, cues in zip(spoken, filter(None, cues_by_language.values()), strict=True):
        document.add_text("captions", text)
        document.add_bytes("said", "\n".join(text for _, text, _ in cues).encode())
        document.add_bytes("starts", " ".join(str(start) for start, _, _ in cues).encode())
    document.add_unsigned("saidLength", sum(len(text) + 1 for cues in cues_by_language.values() for _, text, _ in cues))
    every = {word for values in (*texts.values(), spoken) for text in values for word in text.split()}
    document.add_text(ALL, " ".join(sorted(every)))


def _cues(cues: Sequence[tuple[int, str]]) -> list[tuple[int, str, str]]:
    """Return the cues that have words. For each: the start in milliseconds, the text on one line, and the normalised
    words."""
    found = ((start, " ".join(text.split()), _words(text)) for start, text in cues)
    return [(start, text, words) for start, text, words in found if words]


def _indexed(shown: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the normalised texts by field, without captions.

    Each text is a separate string, so that phrases do not match across texts.
    """
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
    """Return all prefixes of a language tag: `pt` and `pt-br` for `pt-BR`. A filter matches any of them."""
    subtags = tag.lower().split("-") if tag else []
    return ["-".join(subtags[:count]) for count in range(1, len(subtags) + 1)]


def stored_of(document: tantivy.Document) -> StoredFields:
    """Return the stored texts of a video in their original spelling."""
    shown = _shown_of(document)
    languages = shown.pop("languages")
    texts_by_language = zip(
        languages, *(document.get_all(name) for name in ("starts", "said", "captions")), strict=True
    )
    captions = [
        CaptionText(language, starts.decode(), texts.decode(), words)
        for language, starts, texts, words in texts_by_language
    ]
    return StoredFields(**shown, captions=captions)


def _shown_of(document: tantivy.Document) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(document.get_first("shown") or "{}")
    return shown


def words_of(document: tantivy.Document) -> dict[str, list[str]]:
    """Return the normalised texts of a video by field, as they were indexed. Includes captions."""
    return _indexed(_shown_of(document)) | {"captions": document.get_all("captions")}


def _number(video_id: str) -> int | None:
    """Return the 128 bits of a UUID as an integer. `None` if the id is not a UUID in canonical form."""
    plain = video_id.replace("-", "")
    try:
        number = int(plain, 16)
    except ValueError:
        return None
    return number if uuid_of(number >> 64, number & (2**64 - 1)) == video_id else None


def uuid_of(high: int, low: int) -> str:
    """Return the UUID with these upper and lower 64 bits, in canonical form."""
    digits = f"{high:016x}{low:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
