"""Demonstrations that the numbered claims of docs/errata.md are false."""

import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local import ROOT
from local.testbed.units import read, write
from shared.aws import boto3_client
from shared.aws.dynamodb import Table
from shared.core.attributes import AttributeMap, Item, decode_item, encode_item
from shared.schema import AUDIT_TABLE_NAME, TABLE_NAME, USER_INDEX

Demonstration = Callable[[Any], None]
DEMONSTRATIONS: dict[int, Demonstration] = {}
"""Demonstrations by number of the claim. Each raises AssertionError if the claim is true."""

CLAIMS = {
    int(number): text
    for number, text in re.findall(
        r"^(\d+)\. (.+)$", (ROOT / "docs" / "errata.md").read_text(encoding="utf-8"), re.MULTILINE
    )
}
VIDEO: Item = {"pk": "VIDEO#v", "sk": "#META"}
PLUS_ONE: AttributeMap = {":inc": {"N": "1"}}


def demonstrates(number: int) -> Callable[[Demonstration], Demonstration]:
    """Return a decorator that registers the demonstration for a claim."""

    def register(function: Demonstration) -> Demonstration:
        DEMONSTRATIONS[number] = function
        return function

    return register


@pytest.fixture
def client(table: Table) -> Any:
    """Return a client of boto3. The claims give their examples for this client."""
    return boto3_client.make_client()


def put(client: Any, table: str = TABLE_NAME, **attributes: Any) -> None:
    """Write an item with the attributes of VIDEO and the given attributes."""
    client.put_item(TableName=table, Item=encode_item({**VIDEO, **attributes}))


def stored(client: Any, key: Item = VIDEO, table: str = TABLE_NAME) -> Item | None:
    """Return the stored item. `None` if it does not exist."""
    item = client.get_item(TableName=table, Key=encode_item(key)).get("Item")
    return decode_item(item) if item else None


def sort_keys(client: Any, condition: str, **values: str) -> list[str]:
    """Return the sort keys that a Query of partition `P` returns, in order."""
    pages = client.query(
        TableName=TABLE_NAME,
        KeyConditionExpression=f"pk = :pk AND {condition}",
        ExpressionAttributeValues=encode_item({":pk": "P", **{f":{name}": value for name, value in values.items()}}),
    )
    return [item["sk"]["S"] for item in pages["Items"]]


def refused(call: Callable[..., Any], **parameters: Any) -> str:
    """Return the code and message of the error with which DynamoDB refuses a request."""
    with pytest.raises(ClientError) as error:
        call(**parameters)
    return f"{error.value.response['Error']['Code']}: {error.value.response['Error']['Message']}"


@demonstrates(1)
def read_of_3_kb_takes_one_unit(_: Any) -> None:
    of_3_kb = 3 * 1024
    assert 100 * read(of_3_kb, consistent=True).reads == 100
    assert 100 * read(of_3_kb, consistent=False).reads == 50


@demonstrates(2)
def uuid_has_hexadecimal_digits_only(_: Any) -> None:
    with pytest.raises(ValueError, match="base 16"):
        uuid.UUID("v1d2e3o4-1234-5678-9abc-def012345678")
    assert uuid.UUID(str(uuid.uuid4())).version == 4


@demonstrates(3)
def query_by_time_requires_the_name_of_the_index(client: Any) -> None:
    query = {
        "TableName": TABLE_NAME,
        "KeyConditionExpression": "userId = :user AND createdAt BETWEEN :from AND :to",
        "ExpressionAttributeValues": encode_item({":user": "alice", ":from": 1, ":to": 9}),
    }
    put(client, userId="alice", createdAt=5, videoId="v")
    assert refused(client.query, **query).startswith("ValidationException")
    assert client.query(IndexName=USER_INDEX.name, **query)["Count"] == 1


@demonstrates(4)
def set_of_an_absent_count_fails_and_add_counts(client: Any) -> None:
    count = {"TableName": TABLE_NAME, "Key": encode_item(VIDEO), "ExpressionAttributeValues": PLUS_ONE}
    put(client)
    assert refused(client.update_item, UpdateExpression="SET viewCount = viewCount + :inc", **count).startswith(
        "ValidationException"
    )
    client.update_item(UpdateExpression="ADD viewCount :inc", **count)
    assert stored(client) == VIDEO | {"viewCount": 1}


@demonstrates(5)
def add_without_a_condition_creates_an_item(client: Any) -> None:
    count = {
        "TableName": TABLE_NAME,
        "Key": encode_item(VIDEO),
        "UpdateExpression": "ADD viewCount :inc",
        "ExpressionAttributeValues": PLUS_ONE,
    }
    failure = refused(client.update_item, ConditionExpression="attribute_exists(pk)", **count)
    assert failure.startswith("ConditionalCheckFailedException")
    assert stored(client) is None
    client.update_item(**count)
    assert stored(client) == VIDEO | {"viewCount": 1}


@demonstrates(6)
def put_replaces_the_whole_item(client: Any) -> None:
    put(client, title="Launch")
    put(client, expiresAt=5)
    assert stored(client) == VIDEO | {"expiresAt": 5}


@demonstrates(7)
def expired_item_is_returned(client: Any) -> None:
    client.update_time_to_live(
        TableName=TABLE_NAME, TimeToLiveSpecification={"Enabled": True, "AttributeName": "purgeAt"}
    )
    put(client, purgeAt=1)
    assert stored(client) == VIDEO | {"purgeAt": 1}


@demonstrates(8)
def client_has_transact_write_items_only(client: Any) -> None:
    assert not hasattr(client, "transact_write")
    assert client.transact_write_items


@demonstrates(9)
def transaction_refuses_two_operations_on_one_item(client: Any) -> None:
    check = {
        "ConditionCheck": {
            "TableName": TABLE_NAME,
            "Key": encode_item(VIDEO),
            "ConditionExpression": "attribute_not_exists(pk)",
        }
    }
    write_ = {"Put": {"TableName": TABLE_NAME, "Item": encode_item(VIDEO)}}
    assert "multiple operations on one item" in refused(client.transact_write_items, TransactItems=[check, write_])
    client.transact_write_items(TransactItems=[write_])


@demonstrates(10)
def text_sorts_10_before_9(client: Any) -> None:
    for rating in ("10", "9.5"):
        put(client, pk="P", sk=rating)
    assert sort_keys(client, "sk >= :least", least="1") == ["10", "9.5"]
    for rating in ("10.0", "09.5"):
        put(client, pk="P", sk=f"RATING#{rating}")
    assert sort_keys(client, "begins_with(sk, :of)", of="RATING#") == ["RATING#09.5", "RATING#10.0"]


@demonstrates(11)
def times_without_microseconds_sort_after_later_ones(_: Any) -> None:
    without_micros, later = (datetime(2026, 1, 1, 0, 0, 0, micros, UTC) for micros in (0, 1))
    naive = [each.replace(tzinfo=None).isoformat() for each in (without_micros, later)]  # as `utcnow()` returns them
    assert naive == ["2026-01-01T00:00:00", "2026-01-01T00:00:00.000001"]
    assert max(f"{each}Z" for each in naive) == f"{naive[0]}Z"
    assert without_micros.isoformat(timespec="microseconds") < later.isoformat(timespec="microseconds")


@demonstrates(12)
def transaction_spans_tables(client: Any) -> None:
    client.transact_write_items(
        TransactItems=[
            {"Put": {"TableName": name, "Item": encode_item(VIDEO)}} for name in (TABLE_NAME, AUDIT_TABLE_NAME)
        ]
    )
    assert stored(client) == stored(client, table=AUDIT_TABLE_NAME) == VIDEO


@demonstrates(13)
def index_costs_0_1_or_2_writes(_: Any) -> None:
    listed = VIDEO | {"userId": "alice", "createdAt": 5, "videoId": "v"}
    changes: dict[int, Item] = {0: {"description": "not projected"}, 1: {"title": "projected"}, 2: {"createdAt": 6}}
    for writes, change in changes.items():
        units = write(encode_item(listed), encode_item(listed | change), [USER_INDEX])
        assert (units.table_writes, units.index_writes) == (1, writes)


@demonstrates(15)
def between_excludes_keys_that_continue_after_the_upper_bound(client: Any) -> None:
    for price in ("050", "100"):
        put(client, pk="P", sk=f"PRICE#{price}#id")
    assert sort_keys(client, "sk BETWEEN :a AND :b", a="PRICE#050", b="PRICE#100") == ["PRICE#050#id"]
    assert len(sort_keys(client, "sk BETWEEN :a AND :b", a="PRICE#050", b="PRICE#100$")) == 2


@demonstrates(16)
def comment_of_a_ttl_is_a_year_off(_: Any) -> None:
    assert datetime.fromtimestamp(1_735_689_600, UTC) == datetime(2025, 1, 1, tzinfo=UTC)
    assert datetime(2026, 1, 1, tzinfo=UTC).timestamp() == 1_735_689_600 + 365 * 86_400


@demonstrates(18)
def index_holds_items_with_equal_keys(client: Any) -> None:
    same: dict[str, Any] = {"userId": "alice", "createdAt": 5, "videoId": "v"}
    for key in ("VIDEO#1", "VIDEO#2"):
        put(client, pk=key, **same)
    page = client.query(
        TableName=TABLE_NAME,
        IndexName=USER_INDEX.name,
        KeyConditionExpression="userId = :user AND createdAt = :at AND videoId = :id",
        ExpressionAttributeValues=encode_item({":user": "alice", ":at": 5, ":id": "v"}),
    )
    assert page["Count"] == 2


@demonstrates(19)
def prefix_of_departments_finds_employees(client: Any) -> None:
    for key in ("DEPT#sales", "DEPT#sales#EMP#ada"):
        put(client, pk="P", sk=key)
    assert sort_keys(client, "begins_with(sk, :of)", of="DEPT#") == ["DEPT#sales", "DEPT#sales#EMP#ada"]


@pytest.mark.parametrize("number", DEMONSTRATIONS)
def test_claim_of_the_errata_is_false(number: int, client: Any) -> None:
    DEMONSTRATIONS[number](client)


def test_each_claim_of_the_errata_has_a_demonstration_or_a_page_of_aws() -> None:
    assert list(CLAIMS) == list(range(1, len(CLAIMS) + 1))
    assert DEMONSTRATIONS.keys() <= CLAIMS.keys()
    for number, text in CLAIMS.items():
        assert number in DEMONSTRATIONS or "](https://docs.aws.amazon.com/" in text, text
