"""Signatures of deliveries, which any library of Standard Webhooks can verify."""

import json
import re
import time
from base64 import b64decode
from collections.abc import Callable
from typing import Any, cast

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from local import ROOT
from shared.feed.change import Change
from shared.webhooks import event
from shared.webhooks.event import TEST_TYPE, event_body, event_headers
from shared.webhooks.signing import encode_secret, secret_of, signature

MASTER = "the service's own"
CHANGE: Change = {
    "id": "Zm9vYmFyYmF6cXV4cXV1eA",
    "type": "video.changed",
    "videoId": "v",
    "version": 3,
    "at": 1_795_384_206_007,
    "userId": "alice",
    "fields": ["/title", "/tags/Ünïcode"],
}
CURRENT, PREVIOUS, UNRELATED = (secret_of(MASTER, "hook", generation) for generation in (2, 1, 3))


def test_standard_webhooks_library_verifies_a_delivery() -> None:
    body = event_body(CHANGE)
    headers = event_headers("Zm9v", body, [CURRENT], time.time())
    assert Webhook(encode_secret(CURRENT)).verify(body, headers)["type"] == "video.changed"


def test_current_and_previous_secret_verify_after_a_rotation() -> None:
    body = event_body(CHANGE)
    headers = event_headers("Zm9v", body, [CURRENT, PREVIOUS], time.time())
    assert Webhook(encode_secret(CURRENT)).verify(body, headers) == Webhook(encode_secret(PREVIOUS)).verify(
        body, headers
    )
    with pytest.raises(WebhookVerificationError):
        Webhook(encode_secret(UNRELATED)).verify(body, headers)


@pytest.mark.parametrize("header", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_altered_body_or_header_is_not_verified(header: str) -> None:
    body, now = event_body(CHANGE), time.time()
    headers = event_headers("Zm9v", body, [CURRENT], now)
    altered = event_headers("Zm9w", body + b" ", [CURRENT], now - 1)[header]
    for data, sent in ((body, headers | {header: altered}), (body + b" ", headers)):
        with pytest.raises(WebhookVerificationError):
            Webhook(encode_secret(CURRENT)).verify(data, sent)


def example(name: str) -> Callable[..., Any]:
    """Return a function from the page about receivers of webhooks."""
    page = (ROOT / "docs" / "webhook-receivers.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if f"def {name}(" in block)
    defined: dict[str, Any] = {}
    exec(code, defined)  # noqa: S102 - our own page
    return cast(Callable[..., Any], defined[name])


def test_examples_of_the_page_verify_only_genuine_deliveries() -> None:
    receive, is_ours = example("receive"), example("is_ours")
    body, now = event_body(CHANGE), time.time()
    headers = event_headers("Zm9v", body, [CURRENT, PREVIOUS], now)
    for secret in (CURRENT, PREVIOUS):
        assert receive(encode_secret(secret), headers, body)["data"]["videoId"] == "v"
        assert is_ours(encode_secret(secret), headers, body)
    late = event_headers("Zm9v", body, [CURRENT], now - 301)
    for secret, sent, content in ((UNRELATED, headers, body), (CURRENT, headers, body + b" "), (CURRENT, late, body)):
        assert not is_ours(encode_secret(secret), sent, content)
        with pytest.raises(WebhookVerificationError):
            receive(encode_secret(secret), sent, content)


def test_signature_equals_the_example_of_the_specification() -> None:
    """Verify an example from the tests of the Standard Webhooks libraries."""
    secret = b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signature([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_every_webhook_and_rotation_has_a_separate_secret() -> None:
    secrets = {
        secret_of(master, webhook, generation) for master in ("a", "b") for webhook in "xy" for generation in (1, 2)
    }
    assert len(secrets) == 8
    assert {len(secret) for secret in secrets} == {32}
    assert secret_of("a", "x", 1) in secrets


def test_body_has_the_change_and_its_time() -> None:
    sent = json.loads(event_body(CHANGE))
    assert list(sent) == ["type", "timestamp", "data"]
    assert sent["timestamp"] == "2026-11-22T21:50:06.007Z"
    assert {"type": sent["type"], **sent["data"]} == CHANGE


def test_repeated_delivery_has_the_same_body_and_id() -> None:
    first, later = (event_headers(CHANGE["id"], event_body(CHANGE), [CURRENT], now) for now in (1000.9, 2000))
    assert (first["webhook-id"], first["webhook-timestamp"]) == (later["webhook-id"], "1000")
    assert first["webhook-signature"] != later["webhook-signature"]


def test_every_test_event_has_a_new_id() -> None:
    one, two = (event.test_change("hook", 1000.25) for _ in range(2))
    assert one["id"] != two["id"]
    assert json.loads(event_body(one)) == {
        "type": TEST_TYPE,
        "timestamp": "1970-01-01T00:16:40.250Z",
        "data": {"id": one["id"], "webhookId": "hook", "at": 1_000_250},
    }
