"""Our codec of attribute values against boto3's: `python -m bench.codec`."""

from decimal import Decimal
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from bench.measure import compare
from shared.core.attributes import decode_item, encode_item

ITEM: dict[str, Any] = {
    "pk": "VIDEO#3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "sk": "#META",
    "title": "Product Launch Demo",
    "createdAt": 1717645200,
    "duration": 354000,
    "tags": {"product", "demo", "launch"},
    "resolutions": {"1080p": "s3://bucket/1080p.mp4", "720p": "s3://bucket/720p.m3u8"},
    "metadata": {"rating": 7.5, "seen": True},
    "version": 3,
}


def main() -> None:
    """Print the ratios."""
    encoded: dict[str, Any] = encode_item(ITEM)
    serializer, deserializer = TypeSerializer(), TypeDeserializer()
    decimals = ITEM | {"metadata": {"rating": Decimal("7.5"), "seen": True}}
    compare(
        "Decode one item",
        {
            "boto3 TypeDeserializer": lambda: {
                name: deserializer.deserialize(value) for name, value in encoded.items()
            },
            "shared.core.attributes": lambda: decode_item(encoded),
        },
        calls=200,
    )
    compare(
        "Encode one item",
        {
            "boto3 TypeSerializer": lambda: {name: serializer.serialize(value) for name, value in decimals.items()},
            "shared.core.attributes": lambda: encode_item(ITEM),
        },
        calls=200,
    )


if __name__ == "__main__":
    main()
