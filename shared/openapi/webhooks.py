"""OpenAPI documentation of the operations of the function `webhooks`."""

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
from shared.webhooks.delivery_state import SECONDS_BETWEEN_TESTS
from shared.webhooks.event import TEST_TYPE
from shared.webhooks.models import NewWebhook, Replay, WebhookPatch
from shared.webhooks.store import MAX_WEBHOOKS

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
    "description": 'The webhook\'s ETag, or only its version such as `"3"`, for a conditional write; without it, the last '
    "write wins."
}
_ERRORS = (errors.InvalidParameter, errors.Forbidden, errors.NotFound)
_ONCE_ERRORS = (errors.RequestInFlight, errors.KeyReused)


def _response(description: str, example: Schema, name: str = "Webhook") -> Schema:
    return {"description": description, "headers": {"ETag": ETAG}, **json_content(ref(name), example)}


TAG_DESCRIPTIONS = {"webhooks": "Subscriptions that deliver changes by HTTP"}
OPERATIONS: dict[str, Operation] = {
    "createWebhook": Operation(
        "Create a webhook",
        "Sends later changes by POST, in order per item and at least once, with retries until a 2xx response for "
        "up to three days. Requests are signed by Standard Webhooks 1.0.0 with the `secret`, which only this "
        f"response contains. A user may have {MAX_WEBHOOKS} webhooks; another one is rejected with 409.",
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
        "List webhooks, newest first",
        f"The {MAX_WEBHOOKS} webhooks that a user may have fit one page; only admins see other users' webhooks. "
        "With `follows`, admins list all subscriptions to one owner or to all owners, for example to pause or delete "
        "them. That list lags by about a second, and its pages may be short.",
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
        "Get a webhook",
        "`pausedBecause` is the service's reason to pause it. `behindSince` is the time of its oldest undelivered "
        "change.",
        {
            200: _response("The webhook", WEBHOOK),
            304: {"description": "Not modified", "headers": {"ETag": ETAG}},
        },
        _ERRORS,
        (IF_NONE_MATCH,),
    ),
    "patchWebhook": Operation(
        "Update a webhook",
        "JSON Merge Patch (RFC 7396): members replace fields, and `null` removes them. `paused: false` resumes "
        "delivery from its position at once. The secret and the owner whose changes are sent cannot be changed.",
        {200: _response("The changed webhook", WEBHOOK | {"paused": True, "version": 3})},
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
        "A worker that is sending may finish its page of up to 64 changes.",
        {204: {"description": "Deleted"}},
        CHANGE_ERRORS,
        (_IF_MATCH,),
    ),
    "rotateSecret": Operation(
        "Rotate the secret of a webhook",
        "Only this response contains the new secret. For one day, requests have two signatures, by the new secret "
        "and the previous one.",
        {
            200: _response(
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
        "Replay changes",
        f"Sends all changes since a time at most {DAYS_KEPT} days ago, and some earlier ones. A paused webhook "
        "stays paused, and replays them after it resumes.",
        {200: _response("The webhook", WEBHOOK | {"version": 3})},
        (*BODY_ERRORS, *CHANGE_ERRORS),
        (_IF_MATCH,),
        {"required": True, "content": {JSON: {"schema": ref("Replay"), "example": {"from": 1717645200}}}},
    ),
    "testWebhook": Operation(
        "Send a test event",
        f"Sends one event of type `{TEST_TYPE}` at once, even to a paused webhook. Returns the receiver's "
        f"response, or an error after 10 seconds. Another test within {SECONDS_BETWEEN_TESTS} seconds is rejected "
        "with 429, and nothing is sent.",
        {200: {"description": "The result of the test", **json_content(ref("WebhookTest"), _TESTED)}},
        (*BODY_ERRORS, *_ERRORS, errors.WriteContention, errors.TooSoon),
        body=EMPTY_BODY,
    ),
    "listDeliveries": Operation(
        "List the deliveries of a webhook",
        "Lists the attempts of the last 7 days with the receiver's responses, newest first.",
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
    """Return the schemas of requests and responses, by name."""
    content: Schema = shown_schemas(NewWebhook)["ShownNewWebhook"]["properties"]
    uuid: Schema = {"type": "string", "format": "uuid"}
    webhook: Schema = {
        "webhookId": uuid,
        "userId": {"type": "string", "description": "The owner, who created the webhook"},
        "url": content["url"],
        "types": content["types"],
        "follows": {"type": "string", "description": "The owner whose changes are sent; omitted for all owners"},
        "description": content["description"],
        "paused": content["paused"],
        "pausedBecause": {"type": "string", "description": "The service's reason to pause the webhook"},
        "createdAt": SECONDS,
        "updatedAt": SECONDS,
        "version": {"type": "integer", "minimum": 1},
        "behindSince": {
            "type": "integer",
            "minimum": 0,
            "description": "Time of the oldest undelivered change, in epoch milliseconds",
        },
        "nextAttemptAt": SECONDS | {"description": "Time of the next attempt after failures, in epoch seconds"},
        "failures": {"type": "integer", "minimum": 1, "description": "Number of consecutive failures of the receiver"},
        "previousSecretUntil": SECONDS
        | {"description": "Time until which requests are also signed with the previous secret, in epoch seconds"},
    }
    optional = (
        *("follows", "description", "pausedBecause", "behindSince", "nextAttemptAt", "failures"),
        "previousSecretUntil",
    )
    secret: Schema = {"secret": {"type": "string", "description": "Secret to verify signatures", "readOnly": True}}
    outcome: Schema = {
        "status": {"type": "integer", "minimum": 100, "maximum": 599},
        "error": {"type": "string", "description": "The error, if no response was received"},
        "ms": {"type": "integer", "minimum": 0, "description": "Duration in milliseconds"},
        "answer": {"type": "string", "description": f"The first {LARGEST_SHOWN} bytes of the response as text"},
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
        "delivered": {"type": "boolean", "description": "Whether the response was 2xx"},
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
