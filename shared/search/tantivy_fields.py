"""Schema of the Tantivy index: the terms, columns and stored texts of a video."""

import json
from zlib import crc32

import tantivy

from shared.search.document import VideoDocument
from shared.search.index_query import ALL
from shared.search.stored import CaptionText, StoredFields, distinct_words, language_prefixes
from shared.search.tokenizer import tokens
from shared.video_fields import FACETS, NUMERIC_FACETS
from shared.videos.tags import normalise_tag

_SPREAD = 0.001
"""Maximum offset that is added to the rank of a video, so that videos with the same score have different ranks.

It changes a rank by less than a thousandth of the score, so it never outweighs a relevant difference. Few of 100,000
videos have the same offset.
"""


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
    for part in language_prefixes(video.language):
        document.add_text("language", part)
    if (number := _number(video.video_id)) is not None:
        document.add_unsigned("high", number >> 64)
        document.add_unsigned("low", number & (2**64 - 1))
    _add_texts(document, video)
    return document


def _add_texts(document: tantivy.Document, video: VideoDocument) -> None:
    stored = StoredFields.of(video)
    shown = stored._asdict() | {"languages": [caption.language for caption in stored.captions]}
    del shown["captions"]
    document.add_bytes("shown", json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode())
    document.add_unsigned("length", len(tokens(video.title)))
    texts = stored.words()
    for name, values in texts.items():
        for text in values:
            document.add_text(name, text)
    for caption in stored.captions:
        document.add_bytes("said", caption.texts.encode())
        document.add_bytes("starts", caption.starts.encode())
    document.add_unsigned("saidLength", stored.caption_length)
    document.add_text(ALL, distinct_words(texts))


def stored_of(document: tantivy.Document) -> StoredFields:
    """Return the stored texts of a video in their original spelling."""
    shown = json.loads(document.get_first("shown") or "{}")
    languages = shown.pop("languages")
    texts_by_language = zip(
        languages, *(document.get_all(name) for name in ("starts", "said", "captions")), strict=True
    )
    captions = [
        CaptionText(language, starts.decode(), texts.decode(), words)
        for language, starts, texts, words in texts_by_language
    ]
    return StoredFields(**shown, captions=captions)


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
