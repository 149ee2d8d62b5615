"""Items to and from DynamoDB's attribute values.

By hand, because boto3's TypeDeserializer makes a Decimal of every number and takes three times as long
(bench/codec.py). Numbers come back as int where they are whole, else as float; floats are written with their
shortest round-trip digits (17 at most, of the 38 that DynamoDB keeps).
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_AttributeValue.html
"""

import base64
from collections.abc import Mapping
from typing import Any, TypeAlias

Value: TypeAlias = Any
Item: TypeAlias = dict[str, Value]
AttributeValue: TypeAlias = dict[str, Any]
AttributeMap: TypeAlias = dict[str, AttributeValue]


def encode_item(item: Mapping[str, Value]) -> AttributeMap:
    """Plain Python values to attribute values; raises TypeError on what DynamoDB cannot hold."""
    return {name: encode(value) for name, value in item.items()}


def decode_item(attributes: Mapping[str, AttributeValue]) -> Item:
    """Attribute values to plain Python values."""
    return {name: decode(value) for name, value in attributes.items()}


def encode(value: Value) -> AttributeValue:
    """One plain value to its attribute value; a set becomes a String Set."""
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int | float):
        return {"N": repr(value)}
    if isinstance(value, Mapping):
        return {"M": encode_item(value)}
    if isinstance(value, set | frozenset):
        return {"SS": sorted(value)}
    if isinstance(value, list | tuple):
        return {"L": [encode(element) for element in value]}
    if isinstance(value, bytes):
        return {"B": value}
    if value is None:
        return {"NULL": True}
    raise TypeError(f"DynamoDB cannot hold a {type(value).__name__}")


def decode(attribute: AttributeValue) -> Value:
    """One attribute value to its plain value; raises TypeError on a type that no item here uses."""
    ((kind, value),) = attribute.items()
    match kind:
        case "S" | "BOOL":
            return value
        case "N":
            return int(value) if value.lstrip("-").isdigit() else _float_or_int(value)
        case "M":
            return decode_item(value)
        case "SS":
            return set(value)
        case "L":
            return [decode(element) for element in value]
        case "B":
            # botocore hands out bytes; the fast parser of shared/aws/dynamodb.py leaves the wire's base64.
            return value if isinstance(value, bytes) else base64.b64decode(value)
        case "NULL":
            return None
        case _:
            raise TypeError(f"unexpected DynamoDB type {kind}")


def _float_or_int(digits: str) -> int | float:
    number = float(digits)
    # DynamoDB may spell a whole number with an exponent, such as 1E+21.
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
