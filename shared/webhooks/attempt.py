"""Delivery attempts as API responses show them to the owner of a webhook."""

from typing import Any

from shared.webhooks.http_client import ReceiverResponse

LARGEST_SHOWN = 512
"""Maximum number of bytes of a receiver's response body that are stored."""


def is_accepted(response: ReceiverResponse) -> bool:
    """Return whether the receiver accepted the event with a 2xx response."""
    return response.status is not None and 200 <= response.status < 300


def attempt_document(response: ReceiverResponse) -> dict[str, Any]:
    """Return the result of an attempt for API responses.

    The result has the HTTP status (`status`) or, without a response, a sentence (`error`). It also has the duration in
    milliseconds (`ms`) and the beginning of the response body (`answer`).
    """
    outcome = {"error": response.error} if response.status is None else {"status": response.status}
    # Truncated characters and binary data are replaced, so that the readable parts remain.
    text = response.body[:LARGEST_SHOWN].decode(errors="replace")
    return {**outcome, "ms": response.ms, **({"answer": text} if text else {})}
