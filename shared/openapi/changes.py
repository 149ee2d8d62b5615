"""The operation that reads the feed."""

from shared.core import errors
from shared.core.change_types import TYPES
from shared.feed.following import MOST_EXAMINED
from shared.feed.log import DAYS_KEPT
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
_PLACE = ("videoId", "playlistId", "personId", "region", "language", "kind", "version")

OPERATIONS: dict[str, Operation] = {
    "listChanges": Operation(
        "Follow what changes",
        f"What was changed, in the order of each video and playlist, and in which fields: not to what. It is kept for {DAYS_KEPT} "
        "days. `nextCursor` always leads on, and does not expire by itself: when `caughtUp` is true, ask again with it some "
        f"seconds later. Positions are 1, 2, 3 ... in each of {SHARDS} shards, and in the one of each owner, so that who reads all types "
        f"can prove that none is missing. Without `userId` it needs {CHANGES} or {ADMIN}, and so does that of another user. With "
        f"`types` a page looks at {MOST_EXAMINED:,} changes at most, and may end short. Views, users' own ratings and "
        "the passing of time are not changes. 410 when what comes next is no longer kept; the detail says how to go on.",
        {
            200: {
                "description": "A page",
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
    """The schemas of this operation."""
    of_entry = audit.schemas()["AuditEntry"]["properties"]
    change: Schema = {
        "id": {"type": "string", "description": "The same in the feed and in webhooks, and at each attempt"},
        "type": {"type": "string", "enum": list(TYPES)},
        **{name: of_entry[name] for name in (*_PLACE, "at", "by", "correlationId")},
        "userId": {"type": "string", "description": "Whose it is: the owner"},
        "fields": {
            "type": "array",
            "items": {"type": "string", "format": "json-pointer"},
            "description": "What was changed, as the audit trail names it",
        },
        "fieldsOmitted": {"type": "boolean", "description": "More was changed than `fields` names"},
        "shard": {"type": "integer", "minimum": 0, "maximum": SHARDS - 1, "description": "0 with `userId`"},
        "position": {"type": "integer", "minimum": 1, "description": "In the shard; with `userId`, among the owner's"},
    }
    return {
        "Change": object_of(change, optional=(*_PLACE, "correlationId", "userId", "fieldsOmitted")),
        "ChangePage": object_of(
            {
                "items": {"type": "array", "items": ref("Change"), "maxItems": LONGEST_PAGE},
                "nextCursor": {"type": "string", "maxLength": LONGEST},
                "caughtUp": {"type": "boolean", "description": "Whether there was nothing more"},
            }
        ),
    }
