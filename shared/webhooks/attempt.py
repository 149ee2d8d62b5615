"""What came of one attempt to send an event, as the owner of its webhook sees it."""

from typing import Any

from shared.webhooks.sending import Answer

LARGEST_SHOWN = 512
"""Bytes of an answer that are kept."""


def is_taken(answer: Answer) -> bool:
    """Whether the receiver has taken the event: it answered with 2xx."""
    return answer.status is not None and 200 <= answer.status < 300


def shown(answer: Answer) -> dict[str, Any]:
    """`status`, or `error` when there was none, a sentence; `ms` that it took; `answer`, the beginning of the body as text."""
    outcome = {"error": answer.error} if answer.status is None else {"status": answer.status}
    # What is cut off in the middle of a character, or is not text at all, still shows where it is readable.
    text = answer.body[:LARGEST_SHOWN].decode(errors="replace")
    return {**outcome, "ms": answer.ms, **({"answer": text} if text else {})}
