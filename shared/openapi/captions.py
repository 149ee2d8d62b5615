"""OpenAPI documentation of the operations of the function `captions`: captions and chapters."""

from typing import Any

from shared.captions.cues import MAX_CUES
from shared.captions.models import LATEST, LONGEST_TITLE, MAX_CHAPTERS, CaptionsContent, ChaptersContent
from shared.captions.store import FORMATS, MAX_LANGUAGES, ORIGINS, SUBRIP, TYPE
from shared.core import errors
from shared.openapi.relations import ETAG_OF_ALL, IF_MATCH, IF_NEW, LANGUAGE, PAGE_ERRORS, WRITE_ERRORS, page
from shared.openapi.spec import (
    BODY_ERRORS,
    EXAMPLE_ID,
    IF_NONE_MATCH,
    SECONDS,
    Operation,
    json_content,
    model_schemas,
    object_of,
    page_of,
    ref,
)
from shared.web.parameters import Schema
from shared.web.requests import JSON

TEXT = "WEBVTT\n\n00:00:01.000 --> 00:00:03.500\nThe tide is out.\n"
SUBRIP_TEXT = "1\n00:00:01,000 --> 00:00:03,500\nThe tide is out.\n"
_STAMPS: Schema = {"version": 1, "updatedAt": 1717645200}
CAPTIONS: Schema = {
    "videoId": EXAMPLE_ID,
    "language": "en-NZ",
    "cues": 1,
    "size": len(TEXT),
    "origin": "owner",
    **_STAMPS,
}
NEW_CHAPTERS: Schema = {"chapters": [{"start": 0, "title": "The beach"}, {"start": 95_000, "title": "The letter"}]}
CHAPTERS: Schema = {"videoId": EXAMPLE_ID, **NEW_CHAPTERS, **_STAMPS}
_ETAG: Schema = {"ETag": ETAG_OF_ALL}
_READ_ERRORS = (errors.InvalidParameter, errors.Forbidden, errors.NotFound)


def _text(example: str) -> Schema:
    return {"schema": {"type": "string"}, "example": example}


def _written(schema: str, example: Any) -> dict[int, Schema]:
    written = {"headers": _ETAG, **json_content(ref(schema), example)}
    return {200: {"description": "Replaced", **written}, 201: {"description": "Created", **written}}


def _read(content: Schema) -> dict[int, Schema]:
    return {
        200: {"description": "The current representation", "headers": _ETAG, "content": content},
        304: {"description": "Not modified", "headers": _ETAG},
    }


def _removing(summary: str, description: str) -> Operation:
    responses: dict[int, Schema] = {204: {"description": "Deleted"}}
    return Operation(summary, description, responses, WRITE_ERRORS, (IF_MATCH,))


TAG_DESCRIPTIONS = {"captions": "Captions and chapters of videos"}
OPERATIONS: dict[str, Operation] = {
    "listCaptions": Operation(
        "List the captions of a video",
        "Lists languages in order; read the text of each language separately.",
        page("CaptionsPage", CAPTIONS),
        PAGE_ERRORS,
    ),
    "getCaptions": Operation(
        "Get the captions in a language",
        "Returns WebVTT, even if the captions were sent as SubRip.",
        _read({TYPE: _text(TEXT)}),
        _READ_ERRORS,
        (IF_NONE_MATCH,),
    ),
    "putCaptions": Operation(
        "Set the captions in a language",
        f"Accepts at most {MAX_CUES:,} cues as WebVTT (`{TYPE}`) or SubRip (`{SUBRIP}`) in UTF-8, or either as "
        f"JSON, and stores WebVTT. A video may have captions in {MAX_LANGUAGES} languages. Replaces existing "
        "captions, and repeating the request changes nothing; 422 names the `line` of the first mistake.",
        _written("Captions", CAPTIONS),
        (*BODY_ERRORS, *WRITE_ERRORS, errors.LimitReached),
        (IF_MATCH, IF_NEW),
        {
            "required": True,
            "content": {
                JSON: {"schema": ref("CaptionsContent"), "example": {"format": "vtt", "text": TEXT}},
                **{kind: _text(SUBRIP_TEXT if kind == SUBRIP else TEXT) for kind in FORMATS},
            },
        },
    ),
    "deleteCaptions": _removing("Delete the captions in a language", "Other languages are not changed."),
    "getChapters": Operation(
        "Get the chapters of a video",
        "Lists chapters by `start`; each ends where the next one starts. The owner and admins also see chapters "
        "`proposed` from scene changes, which the ETag does not cover. Without stored chapters, `chapters` is "
        "empty and `version` is omitted.",
        _read(json_content(ref("Chapters"), CHAPTERS)["content"]),
        _READ_ERRORS,
        (IF_NONE_MATCH,),
    ),
    "putChapters": Operation(
        "Set the chapters of a video",
        "Each chapter must start after the previous one and before the end of the video. Replaces all chapters; "
        "repeating the request changes nothing.",
        _written("Chapters", CHAPTERS),
        (*BODY_ERRORS, *WRITE_ERRORS),
        (IF_MATCH, IF_NEW),
        {"required": True, "content": {JSON: {"schema": ref("ChaptersContent"), "example": NEW_CHAPTERS}}},
    ),
    "deleteChapters": _removing("Delete the chapters of a video", "Send `If-Match` to delete only a known version."),
}


def schemas() -> Schema:
    """Return the schemas of requests and responses, by name."""
    video_id: Schema = {"type": "string", "format": "uuid"}
    stamps: Schema = {
        "version": {"type": "integer", "minimum": 1, "description": "Increases by one with every change"},
        "updatedAt": SECONDS,
    }
    start: Schema = {"type": "integer", "minimum": 0, "maximum": LATEST, "description": "Start in milliseconds"}
    title: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_TITLE}
    shown = object_of({"start": start, "title": title})
    return model_schemas(CaptionsContent, ChaptersContent) | {
        "Captions": object_of(
            {
                "videoId": video_id,
                "language": LANGUAGE,
                "cues": {"type": "integer", "minimum": 0, "maximum": MAX_CUES, "description": "Number of cues"},
                "size": {"type": "integer", "minimum": 1, "description": "Size of the WebVTT in bytes"},
                "origin": {
                    "type": "string",
                    "enum": list(ORIGINS),
                    "description": "`owner`: uploaded; `film`: extracted from the source video",
                },
                **stamps,
            }
        ),
        "CaptionsPage": page_of("Captions"),
        "Chapters": object_of(
            {
                "videoId": video_id,
                "chapters": {"type": "array", "items": shown, "maxItems": MAX_CHAPTERS},
                "proposed": {
                    "type": "array",
                    "items": object_of({"start": start, "title": title}, optional=("title",)),
                    "minItems": 1,
                    "description": "Proposals for chapters, for the owner and admins",
                },
                **stamps,
            },
            optional=("proposed", *stamps),
        ),
    }
