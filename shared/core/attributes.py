"""Codec between plain Python values and DynamoDB attribute values.

It replaces boto3's TypeDeserializer, which returns every number as a Decimal and takes three times as long. Whole
numbers are decoded as int, and other numbers as float. Floats are encoded as the shortest text that decodes to the same
float. This text has at most 17 digits, fewer than the 38 digits that DynamoDB can store.
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_AttributeValue.html
"""

import base64
import os
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

from shared.core.errors import NewerSchema
from shared.schema import SCHEMA_VERSION

Value: TypeAlias = Any
"""Plain Python value of an attribute."""
Item: TypeAlias = dict[str, Value]
"""Item that maps attribute names to plain Python values."""
AttributeValue: TypeAlias = dict[str, Any]
"""Value of an attribute in DynamoDB's JSON, such as `{"S": "text"}`."""
AttributeMap: TypeAlias = dict[str, AttributeValue]
"""Item in DynamoDB's JSON."""
AnyItem = TypeVar("AnyItem", bound=Mapping[str, Value])
"""Item of any type: an `Item`, or an entity of shared/entities.py."""


def without(item: AnyItem, *names: str) -> AnyItem:
    """Return a copy of an item without the named attributes."""
    rest: Any = dict(item)
    for name in names:
        rest.pop(name, None)
    result: AnyItem = rest
    return result


def encode_item(item: Mapping[str, Value]) -> AttributeMap:
    """Return an item as DynamoDB attribute values. Raises TypeError for a value that DynamoDB cannot store."""
    return {name: {"S": value} if type(value) is str else encode(value) for name, value in item.items()}


def read_item(attributes: Mapping[str, AttributeValue]) -> Item:
    """Decode an item, or a projection of an item, that was read from a table or a stream.

    Raises NewerSchema if a newer release wrote the item. In a Lambda function, also emits the metric NewerItems in this case.
    """
    item = decode_item(attributes)
    if item.get("schemaVersion", 0) > SCHEMA_VERSION:
        if "ENVIRONMENT" in os.environ:  # functions have this variable, but local commands do not
            from shared.core.telemetry import emit

            emit({"NewerItems": 1})
        raise NewerSchema
    return item


def decode_item(attributes: Mapping[str, AttributeValue]) -> Item:
    """Decode an item without checking its schema version."""
    # Most attributes are strings, numbers or maps, and a function call takes longer than these lookups.
    return {
        name: attribute["S"]
        if "S" in attribute
        else _number(attribute["N"])
        if "N" in attribute
        else decode_item(attribute["M"])
        if "M" in attribute
        else decode(attribute)
        for name, attribute in attributes.items()
    }


def encode(value: Value) -> AttributeValue:
    """Return a value as a DynamoDB attribute value. Sets must contain strings. Raises TypeError for an unsupported type."""
    # Abstract base classes are checked last, because their isinstance checks are slow.
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": repr(value)}
    if isinstance(value, dict):
        return {"M": encode_item(value)}
    if isinstance(value, float):
        return {"N": repr(value)}
    if isinstance(value, set | frozenset):
        return {"SS": sorted(value)}
    if isinstance(value, list | tuple):
        return {"L": [encode(element) for element in value]}
    if isinstance(value, bytes):
        return {"B": value}
    if value is None:
        return {"NULL": True}
    if isinstance(value, Mapping):
        return {"M": encode_item(value)}
    raise TypeError(f"DynamoDB cannot store a {type(value).__name__}")


def decode(attribute: AttributeValue) -> Value:
    """Decode an attribute value. Raises TypeError for number sets (NS) and binary sets (BS), which no item contains."""
    if "S" in attribute:
        return attribute["S"]
    if "N" in attribute:
        return _number(attribute["N"])
    if "M" in attribute:
        return decode_item(attribute["M"])
    if "SS" in attribute:
        return set(attribute["SS"])
    if "L" in attribute:
        return [decode(element) for element in attribute["L"]]
    if "BOOL" in attribute:
        return attribute["BOOL"]
    if "B" in attribute:
        # botocore decodes base64 to bytes; the clients of this service return base64.
        value = attribute["B"]
        return value if isinstance(value, bytes) else base64.b64decode(value)
    if "NULL" in attribute:
        return None
    raise TypeError(f"unexpected DynamoDB type {next(iter(attribute))}")


def _number(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        number = float(digits)
        # DynamoDB may return a whole number with an exponent, such as 1E+21.
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
