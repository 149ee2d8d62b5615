"""Stream records as DynamoDB makes them, messages of queues, and Lambda as it delivers them."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from local.testbed.harness import NOW
from shared.core.attributes import Item, encode_item

Raw = dict[str, Any]
Invoke = Callable[[dict[str, Any]], dict[str, Any]]


def stream_record(
    old: Item | None, new: Item | None, *, sequence: int = 1, at: float = NOW, identity: dict[str, str] | None = None
) -> Raw:
    """The record of a change: no old item is an INSERT, no new one a REMOVE."""
    item = new or old or {}
    images = {"OldImage": old, "NewImage": new}
    raw: Raw = {
        "eventID": f"{sequence:032x}",
        "eventName": "MODIFY" if old and new else "INSERT" if new else "REMOVE",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            "ApproximateCreationDateTime": at,
            "Keys": encode_item({name: item[name] for name in ("pk", "sk")}),
            "SequenceNumber": f"{sequence:021}",
            "SizeBytes": 100,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
            **{name: encode_item(image) for name, image in images.items() if image},
        },
        "eventSourceARN": "arn:aws:dynamodb:us-east-1:000000000000:table/VideoMetadata/stream/2026-01-01T00:00:00.000",
    }
    return raw | ({"userIdentity": identity} if identity else {})


EXPIRY = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
"""The identity that DynamoDB states when it removes what is past its time."""


def event(*raws: Raw) -> dict[str, Any]:
    """What Lambda hands to a function."""
    return {"Records": list(raws)}


def _group(body: Mapping[str, Any] | str) -> dict[str, str]:
    return {} if isinstance(body, str) or "videoId" not in body else {"MessageGroupId": body["videoId"]}


def sqs_event(*bodies: Mapping[str, Any] | str, **attributes: str) -> dict[str, Any]:
    """Return the event of a batch of messages, m0 and so on. The video of a message is its group, which FIFO queues have."""
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
    """A record's number in its shard."""
    return str(raw["dynamodb"]["SequenceNumber"])


def deliver(batch: Sequence[Raw], invoke: Invoke, *, retries: int, bisect: bool = True) -> list[Raw]:
    """Deliver one batch as Lambda does, until all of it is done or given up; returns what was given up.

    A report moves the checkpoint to the record that it names. An invocation that raises is bisected, if that is
    on and there is more than one record, and a half has its tries to itself. Otherwise what is left is tried again
    as it is, and after the last retry all of that is given up.
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
