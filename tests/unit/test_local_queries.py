"""Tests that Query on ordered partitions responds as MiniStack's own Query does. MiniStack's Query is the oracle."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ministack.services import dynamodb

from local import queries

TABLE = "Films"

STRINGS = ("a", "ab", "abc", "b", "\uffff", "\U0001f600")
NUMBERS = ("-10", "-1", "0", "1", "1.0", "1.5", "9", "10", "1e3")
BINARIES = ("AA==", "AAE=", "/w==", "//8=")
"""Base64 of the bytes 00, 0001, ff and ffff."""
VALUES = {"S": STRINGS, "N": NUMBERS, "B": BINARIES}
PARTITIONED = ("pk", "owner", "kind")
TYPES = {"pk": "S", "sk": "S", "owner": "S", "kind": "N", "at": "N", "tag": "S", "raw": "B"}

INDEXES: dict[str | None, tuple[list[str], list[str]]] = {
    None: (["pk"], ["sk"]),
    "Times": (["owner"], ["at"]),
    "Kinds": (["owner", "kind"], ["at", "tag"]),
    "Owners": (["owner"], []),
    "Raws": (["owner"], ["raw"]),
    "Keys": (["sk"], ["pk"]),
    "Local": (["pk"], ["at"]),
}
"""Attributes of the partition key and of the sort key, by index. `None` is the table."""


def _index(name: str, projection: str = "ALL") -> dict[str, Any]:
    hashes, ranges = INDEXES[name]
    keys = [{"AttributeName": attribute, "KeyType": "HASH"} for attribute in hashes]
    keys += [{"AttributeName": attribute, "KeyType": "RANGE"} for attribute in ranges]
    return {"IndexName": name, "KeySchema": keys, "Projection": {"ProjectionType": projection}}


DEFINITIONS = [{"AttributeName": name, "AttributeType": kind} for name, kind in TYPES.items()]
SCHEMA: dict[str, Any] = {
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "AttributeDefinitions": DEFINITIONS,
    "GlobalSecondaryIndexes": [_index(name) for name in ("Kinds", "Owners", "Raws")]
    + [_index("Times", "KEYS_ONLY"), _index("Keys")],
    "LocalSecondaryIndexes": [_index("Local")],
    "BillingMode": "PAY_PER_REQUEST",
}


@pytest.fixture(autouse=True)
def ministack(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install ordered partitions in MiniStack's DynamoDB in this process. It has no tables before and after a test."""
    for name in ("_query", "_index_item", *queries.PARSERS):
        monkeypatch.setattr(dynamodb, name, getattr(dynamodb, name))
    queries.install()
    yield
    dynamodb.reset()


def call(operation: str, **parameters: Any) -> dict[str, Any]:
    """Send a request to MiniStack's DynamoDB, and return its response. Asserts status 200."""
    headers = {"x-amz-target": f"DynamoDB_20120810.{operation}"}
    status, _, body = asyncio.run(dynamodb.handle_request("POST", "/", headers, json.dumps(parameters).encode(), {}))
    assert status == 200, body
    response: dict[str, Any] = json.loads(body)
    return response


def assert_as_ministack(request: dict[str, Any]) -> dict[str, Any]:
    """Assert that both implementations respond equally. Return the body of the response."""
    expected = queries.QUERY(request)
    assert dynamodb._query is queries.query
    assert queries.query(request) == expected, request
    body: dict[str, Any] = json.loads(expected[2])
    return body


def assert_pages_as_ministack(request: dict[str, Any]) -> int:
    """Assert that both implementations return the same pages. Return the number of pages."""
    pages, last = 1, assert_as_ministack(request).get("LastEvaluatedKey")
    while last:
        pages, last = pages + 1, assert_as_ministack(request | {"ExclusiveStartKey": last}).get("LastEvaluatedKey")
    return pages


def attribute(name: str) -> st.SearchStrategy[dict[str, str]]:
    """Generate values of an attribute."""
    values = VALUES[TYPES[name]]
    # Few partition keys, so that partitions have several items.
    return st.sampled_from(values[:2] if name in PARTITIONED else values).map(lambda value: {TYPES[name]: value})


def attributes(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Generate maps with the given attributes."""
    return st.fixed_dictionaries({name: attribute(name) for name in names})


KEYS = attributes("pk", "sk")
FULL_ITEMS = attributes(*TYPES)
ITEMS = st.fixed_dictionaries(
    {name: attribute(name) for name in ("pk", "sk")},
    optional={name: attribute(name) for name in ("owner", "kind", "at", "tag", "raw")} | {"seen": st.just({"N": "1"})},
)
"""Generated items. An item that lacks an attribute of an index is not in that index."""
WRITES = st.one_of(
    st.tuples(st.just("put"), ITEMS),
    st.tuples(st.just("put"), ITEMS),
    st.tuples(st.just("update"), st.tuples(KEYS, attribute("at"))),
    st.tuples(st.just("remove"), KEYS),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(
        st.just("batch"), st.lists(ITEMS, min_size=1, max_size=4, unique_by=lambda item: str((item["pk"], item["sk"])))
    ),
    st.tuples(
        st.just("transact"),
        st.lists(ITEMS, min_size=1, max_size=3, unique_by=lambda item: str((item["pk"], item["sk"]))),
    ),
    st.tuples(st.just("restore"), st.none()),
)


def write(kind: str, value: Any) -> None:
    """Carry out one generated write."""
    match kind:
        case "put":
            call("PutItem", TableName=TABLE, Item=value)
        case "update":
            at = {"UpdateExpression": "SET #at = :at", "ExpressionAttributeNames": {"#at": "at"}}
            call("UpdateItem", TableName=TABLE, Key=value[0], ExpressionAttributeValues={":at": value[1]}, **at)
        case "remove":
            call("UpdateItem", TableName=TABLE, Key=value, UpdateExpression="REMOVE tag, seen")
        case "delete":
            call("DeleteItem", TableName=TABLE, Key=value)
        case "batch":
            call("BatchWriteItem", RequestItems={TABLE: [{"PutRequest": {"Item": item}} for item in value]})
        case "transact":
            call("TransactWriteItems", TransactItems=[{"Put": {"TableName": TABLE, "Item": item}} for item in value])
        case "restore":
            table = dynamodb._tables.get(TABLE)
            table["items"] = type(table["items"])(dict, {pk: dict(items) for pk, items in table["items"].items()})
            dynamodb._items_replaced(table)


COMPARED = ("=", "<", "<=", ">", ">=")


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Generate queries of the table and of all indexes. Most queries are valid."""
    index = draw(st.sampled_from(list(INDEXES)))
    hashes, ranges = INDEXES[index]
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    clauses: list[str] = []

    def value(name: str, kind: str = "") -> str:
        values[f":v{len(values)}"] = draw(attribute(name)) if not kind else {kind: draw(st.sampled_from(VALUES[kind]))}
        return f":v{len(values) - 1}"

    for name in hashes:
        names[f"#{name}"] = name
        clauses.append(f"#{name} = {value(name)}")
    used = draw(st.integers(0, len(ranges)))
    for number, name in enumerate(ranges[:used]):
        names[f"#{name}"] = name
        form = draw(st.sampled_from(("compare", "between", "begins_with", "reversed", "parentheses", "mistyped")))
        if number < used - 1:
            clauses.append(f"#{name} = {value(name)}")
        elif form == "between":
            clauses.append(f"#{name} BETWEEN {value(name)} AND {value(name)}")
        elif form == "begins_with":
            clauses.append(f"begins_with(#{name}, {value(name)})")
        elif form == "reversed":
            clauses.append(f"{value(name)} {draw(st.sampled_from(COMPARED))} #{name}")
        elif form == "parentheses":
            clauses.append(f"(#{name} {draw(st.sampled_from(COMPARED))} {value(name)})")
        elif form == "mistyped":
            clauses.append(f"#{name} {draw(st.sampled_from(COMPARED))} {value(name, draw(st.sampled_from('SNB')))}")
        else:
            clauses.append(f"#{name} {draw(st.sampled_from(COMPARED))} {value(name)}")
    request: dict[str, Any] = {
        "TableName": TABLE,
        "KeyConditionExpression": " AND ".join(draw(st.permutations(clauses))),
    }
    if index:
        request["IndexName"] = index
    if draw(st.booleans()):
        request["ScanIndexForward"] = draw(st.booleans())
    if draw(st.booleans()):
        request["Limit"] = draw(st.integers(1, 4))
    if draw(st.integers(0, 3)) == 0:
        request["FilterExpression"] = draw(
            st.sampled_from(("attribute_exists(seen)", "begins_with(seen, :f)", "#owner <> :f"))
        )
        if ":f" in request["FilterExpression"]:
            values[":f"] = {"S": "a"}
        if "#owner" in request["FilterExpression"]:
            names["#owner"] = "owner"
    if draw(st.integers(0, 2)) == 0:
        start: dict[str, Any] = {name: draw(attribute(name)) for name in dict.fromkeys(("pk", "sk", *hashes, *ranges))}
        if draw(st.integers(0, 5)) == 0:
            start[draw(st.sampled_from(sorted(start)))] = {"NULL": True}
        request["ExclusiveStartKey"] = start
    if draw(st.integers(0, 3)) == 0:
        request["Select"] = "COUNT"
    return request | {"ExpressionAttributeNames": names, "ExpressionAttributeValues": values}


@pytest.mark.slow
@given(
    items=st.lists(FULL_ITEMS, min_size=6, max_size=12),
    steps=st.lists(st.tuples(WRITES, requests(), requests()), min_size=6, max_size=12),
)
@settings(max_examples=20)
def test_query_responds_as_ministacks_own_after_any_writes(items: list[Any], steps: list[Any]) -> None:
    dynamodb.reset()
    call("CreateTable", TableName=TABLE, **SCHEMA)
    for item in items:
        write("put", item)
    for change, *queried in steps:
        write(*change)
        for request in queried:
            assert_pages_as_ministack(request)


@pytest.mark.slow
@pytest.mark.parametrize("index", [index for index, (_, ranges) in INDEXES.items() if ranges])
def test_every_condition_in_both_directions_responds_as_ministacks_own(index: str | None) -> None:
    call("CreateTable", TableName=TABLE, **SCHEMA)
    for number in range(18):
        item = {name: {kind: VALUES[kind][number % len(VALUES[kind])]} for name, kind in TYPES.items()}
        one = {name: {TYPES[name]: VALUES[TYPES[name]][0]} for name in ("owner", "kind", *INDEXES[index][0])}
        two = (
            {"pk": {"S": f"{number}"}}
            if index == "Keys"
            else {"sk": {"S": f"{STRINGS[number % 6]}{number // 6 or ''}"}}
        )
        call("PutItem", TableName=TABLE, Item=item | one | {"pk": {"S": "a"}} | two)
    hashes, ranges = INDEXES[index]
    last = ranges[-1]
    kind, operands = TYPES[last], VALUES[TYPES[last]] if index != "Keys" else ("1", "10", "5", "9")
    forms = [f"#{last} {operator} :x" for operator in COMPARED] + [f"#{last} BETWEEN :x AND :y"]
    forms += [f"begins_with(#{last}, :x)"] * (kind != "N")
    equal = {name: {TYPES[name]: VALUES[TYPES[name]][0]} for name in (*hashes, *ranges[:-1])}
    names = {"ExpressionAttributeNames": {f"#{name}": name for name in (*hashes, *ranges)}}
    pages = 0
    for form, x, y in ((form, x, y) for form in forms for x in operands for y in operands if ":y" in form or y == x):
        values = {f":{name}": value for name, value in equal.items()} | {":x": {kind: x}}
        request: dict[str, Any] = {
            "TableName": TABLE,
            "KeyConditionExpression": " AND ".join([*(f"#{name} = :{name}" for name in equal), form]),
            "ExpressionAttributeValues": values | ({":y": {kind: y}} if ":y" in form else {}),
            "Limit": 2,
        }
        request |= names | ({"IndexName": index} if index else {})
        pages += assert_pages_as_ministack(request) + assert_pages_as_ministack(request | {"ScanIndexForward": False})
    assert pages > 2 * len(forms) * len(operands)


def test_errors_of_an_expression_are_reported_when_no_item_matches() -> None:
    call("CreateTable", TableName=TABLE, **SCHEMA)
    item = {"pk": {"S": "a"}, "sk": {"S": "a"}, "owner": {"S": "a"}, "at": {"N": "1"}}
    request: dict[str, Any] = {
        "TableName": TABLE,
        "IndexName": "Times",
        "KeyConditionExpression": "#o = :a AND at > :at",  # `at` is a reserved word
        "ExpressionAttributeNames": {"#o": "owner"},
        "ExpressionAttributeValues": {":a": {"S": "a"}, ":at": {"N": "9"}},
    }
    assert assert_as_ministack(request)["Count"] == 0
    call("PutItem", TableName=TABLE, Item=item)
    assert "reserved keyword: at" in assert_as_ministack(request)["message"]


@pytest.mark.parametrize("forward", [True, False])
def test_page_without_a_limit_ends_at_a_megabyte_as_ministacks_does(forward: bool) -> None:
    call("CreateTable", TableName=TABLE, **SCHEMA)
    for number, size in enumerate([390_000, 390_000, 200_000, 60_000, 390_000, 1_000, 390_000, 300_000]):
        keys = {"pk": {"S": "a"}, "sk": {"S": f"{number}"}, "owner": {"S": "a"}, "at": {"N": f"{number}"}}
        call("PutItem", TableName=TABLE, Item=keys | {"text": {"S": "x" * size}})
    by = {"KeyConditionExpression": "pk = :a", "ExpressionAttributeValues": {":a": {"S": "a"}}}
    request: dict[str, Any] = {"TableName": TABLE, "ScanIndexForward": forward} | by
    assert assert_pages_as_ministack(request) > 1
    assert assert_pages_as_ministack(request | {"IndexName": "Local"}) > 1
    by_owner = {"KeyConditionExpression": "#o = :a", "ExpressionAttributeNames": {"#o": "owner"}}
    of_keys = request | by_owner | {"IndexName": "Times"}
    assert assert_pages_as_ministack(of_keys) == 1  # these entries contain only keys, so one page has all


def test_items_with_another_key_type_than_a_later_index_are_queried_as_by_ministack() -> None:
    key_schema = {name: value for name, value in SCHEMA.items() if not name.endswith("Indexes")}
    definitions = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")]
    call("CreateTable", TableName=TABLE, **key_schema | {"AttributeDefinitions": definitions})
    for number, at in enumerate([{"N": "10"}, {"S": "9"}, {"N": "8"}, {"NULL": True}, {"N": "1"}, {"N": "7"}]):
        keys = {"pk": {"S": "a"}, "sk": {"S": f"{number}"}}
        call("PutItem", TableName=TABLE, Item=keys | {"owner": {"N" if number == 5 else "S": "1"}, "at": at})
    later = [{"Create": _index("Times")}]
    call("UpdateTable", TableName=TABLE, AttributeDefinitions=DEFINITIONS, GlobalSecondaryIndexUpdates=later)
    request = {
        "TableName": TABLE,
        "IndexName": "Times",
        "KeyConditionExpression": "#o = :o",
        "ExpressionAttributeNames": {"#o": "owner"},
        "ExpressionAttributeValues": {":o": {"S": "1"}},
        "Limit": 2,
    }
    assert assert_pages_as_ministack(request) == 3
    for number, pages in ((1, 3), (3, 2), (5, 2)):
        call("DeleteItem", TableName=TABLE, Key={"pk": {"S": "a"}, "sk": {"S": f"{number}"}})
        assert assert_pages_as_ministack(request) == pages


def test_legacy_conditions_are_evaluated_as_by_ministack() -> None:
    call("CreateTable", TableName=TABLE, **SCHEMA)
    for name in STRINGS:
        call("PutItem", TableName=TABLE, Item={"pk": {"S": "a"}, "sk": {"S": name}})
    conditions = {
        "pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "a"}]},
        "sk": {"ComparisonOperator": "GT", "AttributeValueList": [{"S": "ab"}]},
    }
    assert assert_pages_as_ministack({"TableName": TABLE, "KeyConditions": conditions, "Limit": 2}) == 3


@pytest.mark.parametrize("index", [None, "Times", "Kinds", "Local"])
def test_page_of_a_large_partition_evaluates_as_many_items_as_one_of_a_small_partition(
    index: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("CreateTable", TableName=TABLE, **SCHEMA)
    evaluate, evaluated = dynamodb._evaluate_condition, []

    def counted(expression: str, item: Any, *more: Any, **options: Any) -> Any:
        evaluated.append(item)
        return evaluate(expression, item, *more, **options)

    monkeypatch.setattr(dynamodb, "_evaluate_condition", counted)
    hashes, ranges = INDEXES[index]
    request: dict[str, Any] = {
        "TableName": TABLE,
        "KeyConditionExpression": " AND ".join([*(f"#{name} = :{name}" for name in hashes), f"#{ranges[0]} > :from"]),
        "ExpressionAttributeNames": {f"#{name}": name for name in (*hashes, ranges[0])},
        "ExpressionAttributeValues": {f":{name}": {TYPES[name]: "1"} for name in hashes}
        | {":from": {TYPES[ranges[0]]: "1"}},
        "ScanIndexForward": False,
        "Limit": 5,
    } | ({"IndexName": index} if index else {})
    costs = []
    for number in range(100, 300):
        item = {name: {kind: "1"} for name, kind in TYPES.items() if kind != "B"}
        call("PutItem", TableName=TABLE, Item=item | {"sk": {"S": f"{number}"}, "at": {"N": f"{number}"}})
        if number in (110, 299):
            evaluated.clear()
            assert assert_as_ministack(request)["Count"] == 5
            evaluated.clear()
            queries.query(request)
            costs.append(len(evaluated))
    assert costs == [5, 5]


def test_empty_partitions_are_not_stored() -> None:
    call("CreateTable", TableName=TABLE, **SCHEMA)
    item = {"pk": {"S": "a"}, "sk": {"S": "a"}}
    request = {
        "TableName": TABLE,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": item["pk"]},
    }
    table = dynamodb._tables.get(TABLE)
    assert assert_as_ministack(request)["Count"] == 0
    assert dynamodb._index_members(table)[queries.ORDERED] == {}
    call("PutItem", TableName=TABLE, Item=item)
    assert assert_as_ministack(request)["Count"] == 1
    assert list(dynamodb._index_members(table)[queries.ORDERED]) == [(queries.TABLE, "a")]
    call("DeleteItem", TableName=TABLE, Key=item)
    assert dynamodb._index_members(table)[queries.ORDERED] == {}
    assert assert_as_ministack(request)["Count"] == 0


def test_saved_table_state_has_no_ordered_partitions() -> None:
    call("CreateTable", TableName=TABLE, **SCHEMA)
    call("PutItem", TableName=TABLE, Item={"pk": {"S": "a"}, "sk": {"S": "a"}})
    request = {"TableName": TABLE, "KeyConditionExpression": "pk = :a", "ExpressionAttributeValues": {":a": {"S": "a"}}}
    assert assert_as_ministack(request)["Count"] == 1
    for table in dynamodb.get_state()["tables"].all_values():
        assert dynamodb._INDEX_MEMBERS not in table
