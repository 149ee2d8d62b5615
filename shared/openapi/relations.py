"""The operations of the function `relations`."""

from typing import Any

from shared.aws.pages import EXAMINED_BUDGET
from shared.core import errors
from shared.core.limits import LAST_YEAR
from shared.core.regions import REGIONS
from shared.openapi.spec import (
    BODY_ERRORS,
    CHANGE_ERRORS,
    ETAG,
    EXAMPLE_ID,
    IF_NONE_MATCH,
    LINK,
    NEXT_CURSOR,
    SECONDS,
    Operation,
    header,
    json_content,
    model_schemas,
    object_of,
    page_of,
    ref,
    shown_schemas,
)
from shared.queries import SECTIONS
from shared.relations.models import CreditContent, ReleaseContent
from shared.web.parameters import Schema
from shared.web.requests import JSON

NEW_CREDIT: Schema = {
    "name": "Sam Neill",
    "ordering": 2,
    "roles": [{"category": "actor", "characters": ["Alisdair Stewart"]}],
}
NEW_RELEASE: Schema = {"titles": [{"title": "The Piano Lesson", "types": ["working"], "attributes": []}]}
_STAMPS: Schema = {"version": 1, "updatedAt": 1717645200}
CREDIT: Schema = {"videoId": EXAMPLE_ID, "personId": "nm0000554", **NEW_CREDIT, **_STAMPS}
RELEASE: Schema = {"videoId": EXAMPLE_ID, "region": "NZ", "language": "en-NZ", **NEW_RELEASE, **_STAMPS}
APPEARANCE: Schema = {
    "video": {
        "videoId": EXAMPLE_ID,
        "userId": "user_789",
        "createdAt": 1717645200,
        "title": "The Piano",
        "status": "ready",
        "visibility": "public",
    },
    "releaseYear": 1993,
    "credit": NEW_CREDIT,
}

LANGUAGE: Schema = {"type": "string", "maxLength": 35, "pattern": "^[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*$"}
PATH_PARAMETERS: dict[str, Schema] = {
    "personId": {"schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"}, "example": "nm0000554"},
    "region": {"schema": ref("Region"), "example": "NZ"},
    "language": {
        "description": "BCP 47; upper and lower case mean the same",
        "schema": LANGUAGE,
        "example": "en-NZ",
    },
}
IF_MATCH = header(
    "If-Match",
    "The ETag of what is there: write only if it has not changed. A version alone, such as "
    '`"3"`, also matches what was removed and has reached that version again. Without it, the last write wins.',
    {"type": "string"},
)
ETAG_OF_ALL: Schema = ETAG | {
    "description": "The version and a hash of what it shows, the same for everybody. If-Match and If-None-Match "
    "compare all of it, or only the version if they have no more."
}
IF_NEW = header("If-None-Match", "`*`: write only if nothing is there yet.", {"type": "string"})
WRITE_ERRORS = (*CHANGE_ERRORS, errors.IllegalTransition)
PAGE_ERRORS = (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden, errors.NotFound)


def page(name: str, example: Schema) -> dict[int, Schema]:
    """The answer that is a page of a list, by the name of its schema, with one item."""
    body = json_content(ref(name), {"items": [example], "nextCursor": None})
    return {200: {"description": "A page", "headers": LINK, **body}}


def _listing(summary: str, description: str, name: str, example: Schema) -> Operation:
    return Operation(summary, description, page(name, example), PAGE_ERRORS)


def _putting(summary: str, description: str, body: str, sent: Any, schema: str, answer: Schema) -> Operation:
    written = {"headers": {"ETag": ETAG_OF_ALL}, **json_content(ref(schema), answer)}
    return Operation(
        summary,
        description + " Replaces all of what was there; sending the same again changes nothing.",
        {200: {"description": "Replaced", **written}, 201: {"description": "Created", **written}},
        (*BODY_ERRORS, *WRITE_ERRORS),
        (IF_MATCH, IF_NEW),
        {"required": True, "content": {JSON: {"schema": ref(body), "example": sent}}},
    )


def _reading(summary: str, schema: str, answer: Schema) -> Operation:
    etag = {"headers": {"ETag": ETAG_OF_ALL}}
    return Operation(
        summary,
        "",
        {
            200: {"description": "What is there", **etag, **json_content(ref(schema), answer)},
            304: {"description": "Not modified", **etag},
        },
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
        (IF_NONE_MATCH,),
    )


def _removing(summary: str) -> Operation:
    return Operation(summary, "", {204: {"description": "Removed"}}, WRITE_ERRORS, (IF_MATCH,))


def _putting_release(summary: str, description: str, answer: Schema) -> Operation:
    return _putting(summary, description, "ReleaseContent", NEW_RELEASE, "Release", answer)


OPERATIONS: dict[str, Operation] = {
    "listCredits": _listing(
        "List the credits of a video",
        "By `personId`; `ordering` is the place in the credits, by which `include=credits` of a video sorts them.",
        "CreditPage",
        CREDIT,
    ),
    "getCredit": _reading("Read a credit", "Credit", CREDIT),
    "putCredit": _putting(
        "Credit a person",
        "Everything that one person did for a video.",
        "CreditContent",
        NEW_CREDIT,
        "Credit",
        CREDIT,
    ),
    "deleteCredit": _removing("Remove a credit"),
    "listPersonVideos": _listing(
        "List the videos of a person",
        "The published videos of a person, by `releaseYear`, newest first; without `fromYear` and `toYear`, also those "
        "without a year. 404 when there is no such video in any year. A video that is published or hidden, or whose year changes, moves "
        f"within seconds. A page is full unless {EXAMINED_BUDGET} credits were examined for it.",
        "AppearancePage",
        APPEARANCE,
    ),
    "listReleases": _listing(
        "List the releases of a video", "The titles, by region and language.", "ReleasePage", RELEASE
    ),
    "listRegionReleases": _listing(
        "List the releases of a video in a region",
        "The titles in one region: first those without a language, then by language.",
        "ReleasePage",
        RELEASE,
    ),
    "getRelease": _reading("Read the titles in a region and language", "Release", RELEASE),
    "putRegionRelease": _putting_release(
        "Name a video in a region",
        "The titles of a region in no particular language, the most usual first.",
        {name: value for name, value in RELEASE.items() if name != "language"},
    ),
    "putRelease": _putting_release(
        "Name a video in a region and language",
        "The titles of a region in one language, the most usual first.",
        RELEASE,
    ),
    "deleteRegionRelease": _removing("Remove the titles of a region that have no language"),
    "deleteRelease": _removing("Remove the titles in a region and language"),
}


def schemas() -> Schema:
    """The schemas of requests and answers, by name."""
    schemas = model_schemas(CreditContent, ReleaseContent) | shown_schemas(CreditContent, ReleaseContent)
    credit = schemas.pop("ShownCreditContent")["properties"]
    release = schemas.pop("ShownReleaseContent")["properties"]
    video_id: Schema = {"type": "string", "format": "uuid"}
    stamps: Schema = {
        "version": {"type": "integer", "minimum": 1, "description": "One more with every change"},
        "updatedAt": SECONDS,
    }
    return schemas | {
        "Region": {
            "type": "string",
            "enum": sorted(REGIONS),
            "description": "ISO 3166-1 such as `NZ`, ISO 3166-3 for former countries, such as `SUHH`, or a code such as "
            "`XWW` for the whole world. Lower case is accepted",
        },
        "Credit": object_of(
            {"videoId": video_id, "personId": PATH_PARAMETERS["personId"]["schema"], **credit, **stamps},
            optional=("name",),
        ),
        "CreditPage": page_of("Credit"),
        "Release": object_of(
            {
                "videoId": video_id,
                "region": ref("Region"),
                "language": LANGUAGE,
                **release,
                **stamps,
            },
            optional=("language",),
        ),
        "ReleasePage": page_of("Release"),
        "Appearance": object_of(
            {
                "video": ref("VideoSummary"),
                "releaseYear": {"type": "integer", "minimum": 1, "maximum": LAST_YEAR},
                "credit": object_of(credit, optional=("name",)),
            },
            optional=("releaseYear",),
        ),
        "AppearancePage": page_of("Appearance"),
        "FittingTitle": {
            **object_of(
                {
                    "title": {"type": "string"},
                    "region": ref("Region"),
                    "language": LANGUAGE,
                    "match": {"type": "string", "enum": ["region-and-language", "region", "language", "original"]},
                },
                optional=("region", "language"),
            ),
            "description": "The title that fits the reader's region and languages best, and how it was chosen",
        },
        "Included": {
            **object_of(
                {
                    "credits": object_of(
                        {"items": {"type": "array", "items": ref("Credit")}, "nextCursor": NEXT_CURSOR}
                    ),
                    "releases": object_of(
                        {"items": {"type": "array", "items": ref("Release")}, "nextCursor": NEXT_CURSOR}
                    ),
                    "ratings": ref("RatingTotals"),
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "jobs": {"type": "array", "items": ref("Job")},
                },
                optional=SECTIONS,
            ),
            "description": "What `include` asked for. Cursors continue in the lists of the same names",
        },
    }
