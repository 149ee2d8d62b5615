"""Items to and from DynamoDB's attribute values.

By hand, because boto3's TypeDeserializer makes a Decimal of every number and takes three times as long. Numbers come back
as int where they are whole, else as float; floats are written with their shortest round-trip digits (17 at most, of the
38 that DynamoDB keeps).
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_AttributeValue.html
"""

import base64
import os
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

from shared.core.errors import NewerSchema
from shared.schema import SCHEMA_VERSION

Value: TypeAlias = Any
Item: TypeAlias = dict[str, Value]
AttributeValue: TypeAlias = dict[str, Any]
AttributeMap: TypeAlias = dict[str, AttributeValue]
AnyItem = TypeVar("AnyItem", bound=Mapping[str, Value])
"""An item of any kind: an `Item`, or an entity of shared/entities.py."""


def without(item: AnyItem, *names: str) -> AnyItem:
    """An item without some of its attributes."""
    rest: Any = {name: value for name, value in item.items() if name not in names}
    kept: AnyItem = rest
    return kept


def encode_item(item: Mapping[str, Value]) -> AttributeMap:
    """Plain Python values to attribute values; raises TypeError on what DynamoDB cannot hold."""
    return {name: {"S": value} if type(value) is str else encode(value) for name, value in item.items()}


def read_item(attributes: Mapping[str, AttributeValue]) -> Item:
    """An item that a table or its stream holds, or a part of it, as plain Python values.

    Raises NewerSchema when a newer release wrote the item; a function counts that.
    """
    item = decode_item(attributes)
    if item.get("schemaVersion", 0) > SCHEMA_VERSION:
        if "ENVIRONMENT" in os.environ:  # a function, and not a command on a laptop
            from shared.core.telemetry import emit

            emit({"NewerItems": 1})
        raise NewerSchema
    return item


def decode_item(attributes: Mapping[str, AttributeValue]) -> Item:
    """Attribute values to plain Python values."""
    # Most attributes are strings, numbers or maps, and a call takes longer than looking for one.
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
    """One plain value to its attribute value; a set becomes a String Set."""
    # One class at a time, and abstract ones last: they are what takes long to check.
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
    raise TypeError(f"DynamoDB cannot hold a {type(value).__name__}")


def decode(attribute: AttributeValue) -> Value:
    """One attribute value to its plain value; raises TypeError on a type that no item here uses."""
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
        # botocore hands out bytes; both clients here leave the wire's base64.
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
        # DynamoDB may spell a whole number with an exponent, such as 1E+21.
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
