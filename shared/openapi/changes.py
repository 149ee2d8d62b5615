"""OpenAPI documentation of the feed of changes (operation `listChanges`)."""

from shared.core import errors
from shared.core.change_types import TYPES
from shared.feed.log import DAYS_KEPT
from shared.feed.reader import MAX_EXAMINED
from shared.openapi import audit
from shared.openapi.spec import EXAMPLE_ID, LINK, Operation, json_content, object_of, ref
from shared.routes import ADMIN, CHANGES
from shared.schema import SHARDS
from shared.web.cursors import LONGEST
from shared.web.paging import LONGEST_PAGE
from shared.web.parameters import Schema

CHANGE: Schema = {
    "id": "vq2wEZ4yX0mTnUo8s1Jd",
    "type": "video.changed",
    "videoId": EXAMPLE_ID,
    "version": 3,
    "at": 1717645200000,
    "by": {"kind": "person", "id": "user_789"},
    "correlationId": "JKJaXmPLvHcESHA=",
    "userId": "user_789",
    "fields": ["/metadata/codec", "/title"],
    "shard": 0,
    "position": 41,
}
_IDENTIFIERS = ("videoId", "playlistId", "personId", "region", "language", "kind", "version")

OPERATIONS: dict[str, Operation] = {
    "listChanges": Operation(
        "List changes",
        f"Lists which fields changed, without their values, in order per video and playlist, for {DAYS_KEPT} days "
        f"and in {SHARDS} shards. Changes of all owners, or of another user, require `{CHANGES}` or `{ADMIN}`. "
        f"With `types`, a page examines at most {MAX_EXAMINED:,} changes and may be short.",
        {
            200: {
                "description": "A page; if `caughtUp` is true, poll again with `nextCursor` after some seconds",
                "headers": LINK,
                **json_content(
                    ref("ChangePage"), {"items": [CHANGE], "nextCursor": "dmlkZW8gbWV0YWRhdGE", "caughtUp": True}
                ),
            }
        },
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden, errors.Gone),
    ),
}


def schemas() -> Schema:
    """Return the schemas of the response, by name."""
    of_entry = audit.schemas()["AuditEntry"]["properties"]
    change: Schema = {
        "id": {"type": "string", "description": "Identifies the change in the feed, in webhooks and in retries"},
        "type": {"type": "string", "enum": list(TYPES)},
        **{name: of_entry[name] for name in (*_IDENTIFIERS, "at", "by", "correlationId")},
        "userId": {"type": "string", "description": "The owner of the changed entity"},
        "fields": {
            "type": "array",
            "items": {"type": "string", "format": "json-pointer"},
            "description": "The changed fields, with the pointers of the audit trail",
        },
        "fieldsOmitted": {"type": "boolean", "description": "Whether more fields changed than `fields` lists"},
        "shard": {
            "type": "integer",
            "minimum": 0,
            "maximum": SHARDS - 1,
            "description": "The shard of the video or playlist; 0 with `userId`",
        },
        "position": {
            "type": "integer",
            "minimum": 1,
            "description": "Consecutive from 1 within the shard, or with `userId` among the owner's changes; a gap shows a missing "
            "change",
        },
    }
    return {
        "Change": object_of(change, optional=(*_IDENTIFIERS, "correlationId", "userId", "fieldsOmitted")),
        "ChangePage": object_of(
            {
                "items": {"type": "array", "items": ref("Change"), "maxItems": LONGEST_PAGE},
                "nextCursor": {"type": "string", "maxLength": LONGEST},
                "caughtUp": {
                    "type": "boolean",
                    "description": "Whether this was the end of the feed; `nextCursor` remains valid",
                },
            }
        ),
    }
