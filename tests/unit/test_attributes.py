"""Tests that items keep their values and types when they are encoded for DynamoDB and decoded again."""

import math
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer
from hypothesis import given
from hypothesis import strategies as st

from shared.core.attributes import Item, decode, decode_item, encode, encode_item

numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(min_value=-1e15, max_value=1e15, allow_nan=False).filter(
    lambda number: number == 0 or abs(number) >= 1e-100
)
scalars = st.text() | st.booleans() | numbers | st.binary() | st.none() | st.sets(st.text(), min_size=1)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@pytest.mark.slow
@given(st.dictionaries(st.text(min_size=1), values, max_size=5))
def test_encoded_item_is_decoded_to_the_same_item(item: Item) -> None:
    assert decode_item(encode_item(item)) == item


@given(numbers)
def test_decoded_number_equals_that_of_boto3(number: float) -> None:
    attribute: Any = encode(number)
    assert float(TypeDeserializer().deserialize(attribute)) == decode(attribute) == number


@pytest.mark.parametrize(
    ("digits", "number"), [("7", 7), ("-7", -7), ("1.50", 1.5), ("1E+3", 1000), ("1E-7", 1e-7), ("0", 0)]
)
def test_all_spellings_of_a_number_are_decoded(digits: str, number: float) -> None:
    assert decode({"N": digits}) == number
    assert isinstance(decode({"N": digits}), int) == float(number).is_integer()


def test_booleans_and_numbers_have_different_types() -> None:
    assert encode(True) == {"BOOL": True}
    assert encode(1) == {"N": "1"}


def test_binary_is_decoded_from_bytes_and_from_base64() -> None:
    assert decode({"B": b"\x00\xff"}) == decode({"B": "AP8="}) == b"\x00\xff"


def test_unsupported_dynamodb_type_is_refused() -> None:
    with pytest.raises(TypeError, match="complex"):
        encode(complex(1, math.pi))
    with pytest.raises(TypeError, match="NS"):
        decode({"NS": ["1"]})
