"""OpenAPI documentation of the operations of the function `relations`: credits and releases."""

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
        "description": "BCP 47 tag, case-insensitive",
        "schema": LANGUAGE,
        "example": "en-NZ",
    },
}
IF_MATCH = header(
    "If-Match",
    'The resource\'s ETag, or only its version such as `"3"`, which a recreated resource may also have; '
    "without it, the last write wins.",
    {"type": "string"},
)
ETAG_OF_ALL: Schema = ETAG | {
    "description": "The version and a hash of the representation, the same for all callers. If-Match and If-None-Match "
    "accept the ETag, or the version alone."
}
IF_NEW = header("If-None-Match", "`*`: write only if the resource does not exist.", {"type": "string"})
WRITE_ERRORS = (*CHANGE_ERRORS, errors.IllegalTransition)
PAGE_ERRORS = (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden, errors.NotFound)


def page(name: str, example: Schema) -> dict[int, Schema]:
    """Return the 200 response of a list.

    `name` is the name of the schema of a page, and `example` the only item of the example page.
    """
    body = json_content(ref(name), {"items": [example], "nextCursor": None})
    return {200: {"description": "A page", "headers": LINK, **body}}


def _listing(summary: str, description: str, name: str, example: Schema) -> Operation:
    return Operation(summary, description, page(name, example), PAGE_ERRORS)


def _putting(summary: str, description: str, body: str, sent: Any, schema: str, example: Schema) -> Operation:
    written = {"headers": {"ETag": ETAG_OF_ALL}, **json_content(ref(schema), example)}
    return Operation(
        summary,
        f"{description} Replaces the whole resource; repeating the request changes nothing.",
        {200: {"description": "Replaced", **written}, 201: {"description": "Created", **written}},
        (*BODY_ERRORS, *WRITE_ERRORS),
        (IF_MATCH, IF_NEW),
        {"required": True, "content": {JSON: {"schema": ref(body), "example": sent}}},
    )


def _reading(summary: str, schema: str, example: Schema) -> Operation:
    etag = {"headers": {"ETag": ETAG_OF_ALL}}
    return Operation(
        summary,
        "",
        {
            200: {"description": "The current representation", **etag, **json_content(ref(schema), example)},
            304: {"description": "Not modified", **etag},
        },
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
        (IF_NONE_MATCH,),
    )


def _removing(summary: str) -> Operation:
    return Operation(summary, "", {204: {"description": "Deleted"}}, WRITE_ERRORS, (IF_MATCH,))


def _putting_release(summary: str, description: str, example: Schema) -> Operation:
    return _putting(summary, description, "ReleaseContent", NEW_RELEASE, "Release", example)


TAG_DESCRIPTIONS = {"relations": "Credits, people, and titles by region and language"}
OPERATIONS: dict[str, Operation] = {
    "listCredits": _listing(
        "List the credits of a video",
        "Sorted by `personId`. With `include=credits`, a video lists them by `ordering`, the position in the credits.",
        "CreditPage",
        CREDIT,
    ),
    "getCredit": _reading("Get a credit", "Credit", CREDIT),
    "putCredit": _putting(
        "Set the credit of a person",
        "Contains all roles of one person in a video.",
        "CreditContent",
        NEW_CREDIT,
        "Credit",
        CREDIT,
    ),
    "deleteCredit": _removing("Delete a credit"),
    "listPersonVideos": _listing(
        "List the videos of a person",
        "Lists published videos by `releaseYear`, newest first; videos without a year are included unless "
        "`fromYear` or `toYear` is sent. Returns 404 if the person has none; changes appear within seconds. A page "
        f"may be short after {EXAMINED_BUDGET} examined credits: follow `nextCursor` for more.",
        "AppearancePage",
        APPEARANCE,
    ),
    "listReleases": _listing(
        "List the releases of a video", "Lists the titles by region and language.", "ReleasePage", RELEASE
    ),
    "listRegionReleases": _listing(
        "List a video's releases in a region",
        "Lists the titles that have no language first, then the others by language.",
        "ReleasePage",
        RELEASE,
    ),
    "getRelease": _reading("Get the titles in a region and language", "Release", RELEASE),
    "putRegionRelease": _putting_release(
        "Set the titles in a region",
        "Contains the region's titles that have no language, most common first.",
        {name: value for name, value in RELEASE.items() if name != "language"},
    ),
    "putRelease": _putting_release(
        "Set the titles in a region and language",
        "Contains the region's titles in one language, most common first.",
        RELEASE,
    ),
    "deleteRegionRelease": _removing("Delete a region's titles that have no language"),
    "deleteRelease": _removing("Delete the titles in a region and language"),
}


def schemas() -> Schema:
    """Return the schemas of requests and responses, by name."""
    schemas = model_schemas(CreditContent, ReleaseContent) | shown_schemas(CreditContent, ReleaseContent)
    credit = schemas.pop("ShownCreditContent")["properties"]
    release = schemas.pop("ShownReleaseContent")["properties"]
    video_id: Schema = {"type": "string", "format": "uuid"}
    stamps: Schema = {
        "version": {"type": "integer", "minimum": 1, "description": "Increases by one with every change"},
        "updatedAt": SECONDS,
    }
    return schemas | {
        "Region": {
            "type": "string",
            "enum": sorted(REGIONS),
            "description": "ISO 3166-1 code such as `NZ`, ISO 3166-3 for former countries, such as `SUHH`, or `XWW` for the whole "
            "world. Case-insensitive",
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
            "description": "Best title for the caller: of the region in a requested language, else of the region, else in a "
            "requested language, else `title`",
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
            "description": "The sections that `include` selects. Cursors continue in the lists of the same names",
        },
    }
