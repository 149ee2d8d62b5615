"""Stream records in AWS's format, for event examples, tests and benchmarks."""

from collections.abc import Mapping
from typing import Any

from shared.core.attributes import encode_item

Raw = dict[str, Any]

EXPIRY = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
"""User identity in the stream record of an item that expired."""


def stream_record(
    old: Mapping[str, Any] | None,
    new: Mapping[str, Any] | None,
    *,
    sequence: int = 1,
    at: float = 1_750_000_000,
    identity: dict[str, str] | None = None,
) -> Raw:
    """Return the stream record of a change: an INSERT if `old` is `None`, a REMOVE if `new` is `None`, else a MODIFY."""
    item = new or old or {}
    images = {"NewImage": new, "OldImage": old}
    raw: Raw = {
        "eventID": f"{sequence:032x}",
        "eventName": "MODIFY" if old and new else "INSERT" if new else "REMOVE",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            "ApproximateCreationDateTime": at,
            "Keys": encode_item({name: item[name] for name in ("pk", "sk")}),
            **{name: encode_item(image) for name, image in images.items() if image},
            "SequenceNumber": f"{sequence:021}",
            "SizeBytes": 100,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
        "eventSourceARN": "arn:aws:dynamodb:us-east-1:000000000000:table/VideoMetadata/stream/2026-01-01T00:00:00.000",
    }
    return raw | ({"userIdentity": identity} if identity else {})
