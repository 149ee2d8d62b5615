"""Stream records and queue events in AWS's formats, and a simulation of how Lambda delivers batches to a function."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from local.stream_records import Raw

Invoke = Callable[[dict[str, Any]], dict[str, Any]]


def event(*raws: Raw) -> dict[str, Any]:
    """Return the event that Lambda passes to a function for these records."""
    return {"Records": list(raws)}


def _group(body: Mapping[str, Any] | str) -> dict[str, str]:
    return {} if isinstance(body, str) or "videoId" not in body else {"MessageGroupId": body["videoId"]}


def sqs_event(*bodies: Mapping[str, Any] | str, **attributes: str) -> dict[str, Any]:
    """Return the event of a batch of messages with the ids `m0`, `m1` and so on.

    A message with a `videoId` has that id as its message group, as in a FIFO queue.
    """
    return {
        "Records": [
            {
                "messageId": f"m{place}",
                "body": body if isinstance(body, str) else json.dumps(body),
                "attributes": attributes | _group(body),
            }
            for place, body in enumerate(bodies)
        ]
    }


def sequence_of(raw: Raw) -> str:
    """Return a record's sequence number in its shard."""
    return str(raw["dynamodb"]["SequenceNumber"])


def deliver(batch: Sequence[Raw], invoke: Invoke, *, retries: int, bisect: bool = True) -> list[Raw]:
    """Deliver one batch as Lambda does, until all records are processed or discarded. Returns the discarded records.

    After a partial batch response, delivery continues at the first record that the response names. If an invocation
    raises an error and `bisect` is true, the batch is split in two, and each half has its own retries. Otherwise the
    remaining records are retried together. After the last retry, they are discarded.
    """
    left = list(batch)
    tries = 0
    while left:
        try:
            failed = [failure["itemIdentifier"] for failure in invoke(event(*left))["batchItemFailures"]]
        except BaseException:
            failed = None
        if failed == []:
            return []
        if failed is None and bisect and len(left) > 1:
            middle = len(left) // 2
            halves = (left[:middle], left[middle:])
            return [raw for half in halves for raw in deliver(half, invoke, retries=retries, bisect=bisect)]
        done = min(place for place, raw in enumerate(left) if sequence_of(raw) in failed) if failed else 0
        left = left[done:]
        tries = 0 if done else tries + 1
        if tries > retries:
            return left
    return []
