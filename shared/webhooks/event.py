"""Events in the form in which receivers get them: the JSON body, and the headers, which include the signature."""

from collections.abc import Sequence
from datetime import UTC, datetime
from secrets import token_urlsafe

import orjson

from shared.feed.change import Change
from shared.webhooks.signing import signature

TEST_TYPE = "webhook.test"


def event_body(change: Change) -> bytes:
    """Return the body of the event for a change, as compact JSON: `{"type", "timestamp", "data"}`.

    `timestamp` is RFC 3339 in UTC. `data` is the change without its type.
    """
    at = datetime.fromtimestamp(change["at"] / 1000, UTC).isoformat(timespec="milliseconds")
    data = {name: value for name, value in change.items() if name != "type"}
    return orjson.dumps({"type": change["type"], "timestamp": at.replace("+00:00", "Z"), "data": data})


def test_change(webhook_id: str, now: float) -> Change:
    """Return a test event for a webhook at `now` (epoch seconds), with a new id."""
    return {"id": token_urlsafe(15), "type": TEST_TYPE, "webhookId": webhook_id, "at": int(now * 1000)}


def event_headers(id_: str, body: bytes, secrets: Sequence[bytes], now: float) -> dict[str, str]:
    """Return the headers of an event sent at `now` (epoch seconds).

    All attempts to send an event have the same `id_`.
    """
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": signature(secrets, id_, int(now), body),
        "content-type": "application/json",
        "user-agent": "video-metadata-webhooks",
    }
