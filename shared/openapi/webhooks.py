"""The operations of the function `webhooks`."""

from shared.core import errors
from shared.core.change_types import TYPES
from shared.feed.log import DAYS_KEPT
from shared.openapi.spec import (
    BODY_ERRORS,
    CHANGE_ERRORS,
    EMPTY_BODY,
    ETAG,
    EXAMPLE_ID,
    IF_MATCH,
    IF_NONE_MATCH,
    KEY,
    LINK,
    SECONDS,
    Operation,
    json_content,
    model_schemas,
    object_of,
    page_of,
    ref,
    shown_schemas,
)
from shared.web.parameters import Schema
from shared.web.requests import JSON, MERGE_PATCH
from shared.webhooks.attempt import LARGEST_SHOWN
from shared.webhooks.event import TEST_TYPE
from shared.webhooks.models import NewWebhook, Replay, WebhookPatch
from shared.webhooks.places import SECONDS_BETWEEN_TESTS
from shared.webhooks.store import MOST_WEBHOOKS

_ID = "0b7e4a52-58c1-4b7e-9d61-2f3c8a9d1e47"
NEW_WEBHOOK: Schema = {
    "url": "https://example.com/hooks",
    "types": ["video.created", "playlist.*"],
    "description": "The search index",
}
WEBHOOK: Schema = {
    "webhookId": _ID,
    "userId": "user_789",
    "url": "https://example.com/hooks",
    "types": ["video.created", "playlist.*"],
    "follows": "user_789",
    "description": "The search index",
    "paused": False,
    "createdAt": 1717645200,
    "updatedAt": 1717645260,
    "version": 2,
}
_SECRET: Schema = {"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw1mBBQnR0hNs="}
_ATTEMPT: Schema = {
    "at": 1717645261000,
    "changeId": "vq2wEZ4yX0mTnUo8s1Jd",
    "type": "video.created",
    "videoId": EXAMPLE_ID,
    "status": 503,
    "ms": 48,
    "answer": "Try again later.",
    "attempt": 1,
}
_TESTED: Schema = {"id": "9yQd4nUuT2mXo0wZEvsJ", "delivered": True, "status": 204, "ms": 61}
PATH_PARAMETERS: dict[str, Schema] = {
    "webhookId": {
        "schema": {"type": "string", "format": "uuid"},
        "example": _ID,
    }
}
_IF_MATCH = IF_MATCH | {
    "description": 'An ETag of the webhook, or its version alone such as `"3"`: only if it still has that version. Without it, the '
    "last change wins."
}
_ERRORS = (errors.InvalidParameter, errors.Forbidden, errors.NotFound)
_ONCE_ERRORS = (errors.RequestInFlight, errors.KeyReused)


def _answer(what: str, example: Schema, name: str = "Webhook") -> Schema:
    return {"description": what, "headers": {"ETag": ETAG}, **json_content(ref(name), example)}


OPERATIONS: dict[str, Operation] = {
    "createWebhook": Operation(
        "Create a webhook",
        "From now on changes are sent to its URL by POST, those of one thing in their order, each at least once and until it is answered "
        "with 2xx, for three days. They are signed by Standard Webhooks 1.0.0 with the `secret`, which only this answer shows. "
        f"A user may have at most {MOST_WEBHOOKS} webhooks; one more is refused with 409.",
        {
            201: {
                "description": "Created",
                "headers": {
                    "ETag": ETAG,
                    "Location": {
                        "description": "The webhook, relative to this request's URL",
                        "schema": {"type": "string", "format": "uri-reference"},
                    },
                },
                **json_content(
                    ref("WebhookWithSecret"),
                    _SECRET | WEBHOOK | {"updatedAt": WEBHOOK["createdAt"], "version": 1},
                ),
            }
        },
        (
            *BODY_ERRORS,
            errors.InvalidParameter,
            errors.Forbidden,
            errors.LimitReached,
            errors.WriteContention,
            *_ONCE_ERRORS,
        ),
        (KEY,),
        {"required": True, "content": {JSON: {"schema": ref("NewWebhook"), "example": NEW_WEBHOOK}}},
    ),
    "listWebhooks": Operation(
        "List a user's webhooks, or who follows, newest first",
        f"A user's webhooks, {MOST_WEBHOOKS} at most, are on one page unless `limit` is less. Only admins see those of others; with "
        "`follows` they see all that follow a user or everybody, to pause or delete those that no longer should. That list has a new "
        "one after a second or so, and its pages may be short.",
        {
            200: {
                "description": "A page",
                "headers": LINK,
                **json_content(ref("WebhookPage"), {"items": [WEBHOOK], "nextCursor": None}),
            }
        },
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden),
    ),
    "getWebhook": Operation(
        "Read a webhook",
        "`pausedBecause` says why the service paused it; `behindSince`, since when the oldest change waits that it has not delivered.",
        {
            200: _answer("The webhook", WEBHOOK),
            304: {"description": "Not modified", "headers": {"ETag": ETAG}},
        },
        _ERRORS,
        (IF_NONE_MATCH,),
    ),
    "patchWebhook": Operation(
        "Change a webhook",
        "A JSON Merge Patch (RFC 7396): members replace, null removes. `paused: false` lets it go on where it was, at once. The secret "
        "and whose changes are sent cannot be changed so.",
        {200: _answer("The changed webhook", WEBHOOK | {"paused": True, "version": 3})},
        (*BODY_ERRORS, *CHANGE_ERRORS),
        (_IF_MATCH,),
        {
            "required": True,
            "content": {
                kind: {"schema": ref("WebhookPatch"), "example": {"paused": True}} for kind in (MERGE_PATCH, JSON)
            },
        },
    ),
    "deleteWebhook": Operation(
        "Delete a webhook",
        "A worker that is sending may finish its page, up to 64 changes.",
        {204: {"description": "Deleted"}},
        CHANGE_ERRORS,
        (_IF_MATCH,),
    ),
    "rotateSecret": Operation(
        "Replace the secret of a webhook",
        "Only this answer shows the new one. For a day what is sent has two signatures, one by each secret.",
        {
            200: _answer(
                "The webhook with its new secret",
                _SECRET | WEBHOOK | {"version": 3, "previousSecretUntil": 1717731660},
                "WebhookWithSecret",
            )
        },
        (*BODY_ERRORS, *CHANGE_ERRORS, *_ONCE_ERRORS),
        (_IF_MATCH, KEY),
        EMPTY_BODY,
    ),
    "replayWebhook": Operation(
        "Send changes again",
        f"All changes since a time, at most {DAYS_KEPT} days ago; and some from before. A webhook that is paused stays "
        "so, and begins there when it is not.",
        {200: _answer("The webhook", WEBHOOK | {"version": 3})},
        (*BODY_ERRORS, *CHANGE_ERRORS),
        (_IF_MATCH,),
        {"required": True, "content": {JSON: {"schema": ref("Replay"), "example": {"from": 1717645200}}}},
    ),
    "testWebhook": Operation(
        "Send a test event",
        f"One event of the type `{TEST_TYPE}`, at once and as changes are sent, also for a paused webhook. The answer shows what "
        f"the receiver answered within 10 seconds. A webhook can be tested once in {SECONDS_BETWEEN_TESTS} seconds; sooner is refused "
        "with 429, and nothing is sent.",
        {200: {"description": "What came of it", **json_content(ref("WebhookTest"), _TESTED)}},
        (*BODY_ERRORS, *_ERRORS, errors.WriteContention, errors.TooSoon),
        body=EMPTY_BODY,
    ),
    "listDeliveries": Operation(
        "List what a webhook has sent",
        "Each attempt of the last 7 days with what the receiver answered, the latest first.",
        {
            200: {
                "description": "A page",
                "headers": LINK,
                **json_content(ref("DeliveryPage"), {"items": [_ATTEMPT], "nextCursor": None}),
            }
        },
        (errors.InvalidCursor, *_ERRORS),
    ),
}


def schemas() -> Schema:
    """The schemas of requests and answers, by name."""
    content: Schema = shown_schemas(NewWebhook)["ShownNewWebhook"]["properties"]
    uuid: Schema = {"type": "string", "format": "uuid"}
    webhook: Schema = {
        "webhookId": uuid,
        "userId": {"type": "string", "description": "Whose webhook it is: who created it"},
        "url": content["url"],
        "types": content["types"],
        "follows": {"type": "string", "description": "Whose changes are sent; absent: everybody's"},
        "description": content["description"],
        "paused": content["paused"],
        "pausedBecause": {"type": "string", "description": "Why the service paused it"},
        "createdAt": SECONDS,
        "updatedAt": SECONDS,
        "version": {"type": "integer", "minimum": 1},
        "behindSince": {
            "type": "integer",
            "minimum": 0,
            "description": "When the oldest change was made that is not delivered, in epoch milliseconds",
        },
        "nextAttemptAt": SECONDS | {"description": "When the receiver is tried again, after failures: epoch seconds"},
        "failures": {"type": "integer", "minimum": 1, "description": "How often in a row the receiver has failed"},
        "previousSecretUntil": SECONDS
        | {"description": "Until when what is sent is signed with the previous secret too: epoch seconds"},
    }
    optional = (
        *("follows", "description", "pausedBecause", "behindSince", "nextAttemptAt", "failures"),
        "previousSecretUntil",
    )
    secret: Schema = {"secret": {"type": "string", "description": "What signatures are checked with", "readOnly": True}}
    outcome: Schema = {
        "status": {"type": "integer", "minimum": 100, "maximum": 599},
        "error": {"type": "string", "description": "Why there is no status"},
        "ms": {"type": "integer", "minimum": 0, "description": "How long it took, in milliseconds"},
        "answer": {"type": "string", "description": f"The first {LARGEST_SHOWN} bytes of the answer, as text"},
    }
    attempt: Schema = {
        "at": {"type": "integer", "minimum": 0, "description": "Epoch milliseconds"},
        "changeId": {"type": "string", "description": "`id` of the change; `webhook-id` of the request"},
        "type": {"type": "string", "enum": list(TYPES)},
        "videoId": uuid,
        "playlistId": uuid,
        **outcome,
        "attempt": {"type": "integer", "minimum": 1, "description": "The first attempt is 1"},
    }
    test: Schema = {
        "id": {"type": "string", "description": "`webhook-id` of the request"},
        "delivered": {"type": "boolean", "description": "Whether the answer was 2xx"},
        **outcome,
    }
    not_always = ("status", "error", "answer")
    return model_schemas(NewWebhook, WebhookPatch, Replay) | {
        "Webhook": object_of(webhook, optional=optional),
        "WebhookWithSecret": object_of({**secret, **webhook}, optional=optional),
        "WebhookPage": page_of("Webhook"),
        "WebhookTest": object_of(test, optional=not_always),
        "Delivery": object_of(attempt, optional=("videoId", "playlistId", *not_always)),
        "DeliveryPage": page_of("Delivery"),
    }
