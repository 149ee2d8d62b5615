"""An event as a receiver gets it: its body, and the headers that prove whose it is."""

from collections.abc import Sequence
from datetime import UTC, datetime
from secrets import token_urlsafe

import orjson

from shared.feed.change import Change
from shared.webhooks.signing import signature

TEST_TYPE = "webhook.test"


def body_of(change: Change) -> bytes:
    """`{"type", "timestamp", "data"}` as compact JSON: the time is RFC 3339 in UTC, the data is the change without its type."""
    at = datetime.fromtimestamp(change["at"] / 1000, UTC).isoformat(timespec="milliseconds")
    data = {name: value for name, value in change.items() if name != "type"}
    return orjson.dumps({"type": change["type"], "timestamp": at.replace("+00:00", "Z"), "data": data})


def test_change(webhook_id: str, now: float) -> Change:
    """What is sent at `now` (epoch seconds) to try a webhook; like every change it has an id of its own."""
    return {"id": token_urlsafe(15), "type": TEST_TYPE, "webhookId": webhook_id, "at": int(now * 1000)}


def headers_of(id_: str, body: bytes, secrets: Sequence[bytes], now: float) -> dict[str, str]:
    """The headers of an event that is sent at `now` (epoch seconds); `id_` is the same however often it is sent."""
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": signature(secrets, id_, int(now), body),
        "content-type": "application/json",
        "user-agent": "video-metadata-webhooks",
    }
