"""Tests that the patched moto of the unit tests returns the same responses as moto, and that its transactions are
atomic."""

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from local.testbed.harness import create_audit_table, create_table
from local.testbed.lean_moto import LARGEST_ITEM, install, restore_tables, stream_records
from shared.aws import boto3_client
from shared.aws.lean import client
from shared.aws.lean.client import ErrorResponse

TABLE = "videos"
KEY = {"pk": {"S": "VIDEO#1"}, "sk": {"S": "VIDEO"}}
OTHER = {"pk": {"S": "VIDEO#2"}, "sk": {"S": "VIDEO"}}
ITEM: dict[str, Any] = KEY | {
    "text": {"S": "✓"},
    "empty": {"S": ""},
    "number": {"N": "1.50"},
    "bytes": {"B": b"\x00\xff"},
    "yes": {"BOOL": True},
    "nothing": {"NULL": True},
    "texts": {"SS": ["a", "b"]},
    "numbers": {"NS": ["1", "2"]},
    "blobs": {"BS": [b"\x00", b"\xff"]},
    "list": {"L": [{"N": "1"}, {"M": {"in": {"S": "it"}, "raw": {"B": b"\x01"}}}, {"L": []}]},
    "map": {"M": {"list": {"L": [{"S": "a"}, {"S": "b"}]}, "empty": {"M": {}}, "other": {"BOOL": False}}},
}

PROJECTED = {"sk", "number", "yes", "blobs", "empty"}
"""Attributes whose names are not reserved words of DynamoDB."""


class _Account:
    """An account with two tables that sends requests and stores their responses."""

    def __init__(self, make: Callable[[], Any] = lambda: boto3.client("dynamodb")) -> None:
        self.client = make()
        create_table(self.client, TABLE)
        create_audit_table(self.client, "audit")
        self.responses: list[Any] = []

    def do(self, operation: str, **parameters: Any) -> None:
        if operation not in ("transact_write_items", "batch_get_item", "transact_get_items"):
            parameters["TableName"] = TABLE
        try:
            response = getattr(self.client, operation)(**parameters)
        except (ClientError, ErrorResponse) as error:
            response = {name: error.response.get(name) for name in ("Error", "Item", "CancellationReasons")}
        response.pop("ResponseMetadata", None)
        self.responses.append(response)

    def stored(self) -> Any:
        """Return the stored items, and the stream records of their changes."""
        return self.client.scan(TableName=TABLE)["Items"], [_normalised(record) for record in self.records()]

    @staticmethod
    def records() -> Any:
        """Return the stream records that boto3 reads."""
        streams = boto3.client("dynamodbstreams")
        stream = streams.list_streams(TableName=TABLE)["Streams"][0]["StreamArn"]
        shard = streams.describe_stream(StreamArn=stream)["StreamDescription"]["Shards"][0]["ShardId"]
        start = streams.get_shard_iterator(StreamArn=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
        return streams.get_records(ShardIterator=start["ShardIterator"])["Records"]


def _normalised(record: Any) -> Any:
    """Return a stream record without its unique values. Only the length of its id, the offset of its time and the type
    of its size remain."""
    change = dict(record["dynamodb"])
    at, size = change.pop("ApproximateCreationDateTime"), change.pop("SizeBytes")
    return {**record, "eventID": len(record["eventID"]), "dynamodb": change, "at": at.utcoffset(), "size": type(size)}


def _write(kind: str, **parameters: Any) -> dict[str, Any]:
    return {kind: {"TableName": TABLE, "ReturnValuesOnConditionCheckFailure": "ALL_OLD", **parameters}}


PUT = _write("Put", Item=OTHER | {"n": {"N": "1"}})
CHANGE = _write(
    "Update",
    Key=KEY,
    UpdateExpression="SET #n = :n, #l[0] = :n, #m.deep = :n REMOVE #t ADD numbers :more",
    ExpressionAttributeNames={"#n": "number", "#l": "list", "#m": "map", "#t": "text"},
    ExpressionAttributeValues={":n": {"N": "9"}, ":more": {"NS": ["3"]}},
)
REMOVE = _write("Delete", Key=KEY)
ABSENT = {"ConditionExpression": "attribute_exists(pk)"}
FAILURES = {
    "a condition": _write("ConditionCheck", Key={"pk": {"S": "none"}, "sk": {"S": "none"}}, **ABSENT),
    "a condition with an item": _write("Put", Item=KEY, ConditionExpression="attribute_not_exists(pk)"),
    "the same item twice": PUT,
    "an expression that is not valid": _write(
        "Update",
        Key={"pk": {"S": "a"}, "sk": {"S": "b"}},
        UpdateExpression="SET x = y",
        ExpressionAttributeValues={":v": {"S": "unused"}},
    ),
}


def _single_requests(account: _Account) -> None:
    account.do("put_item", Item=ITEM, ReturnValues="ALL_OLD")
    account.do("put_item", Item=ITEM, ReturnValues="ALL_OLD")
    account.do("put_item", Item=OTHER | {"large": {"S": "x" * LARGEST_ITEM}})
    account.do("put_item", Item=KEY, ConditionExpression="attribute_not_exists(pk)")
    account.do("get_item", Key=KEY)
    account.do("get_item", Key=OTHER)
    paths = ("text", "bytes, blobs", "#l[1], number", "#l[1].raw", "#m.#l[0], #m.other", "#m, #m.other", "gone, #l[7]")
    for path in paths:
        names = {name: full for name, full in {"#l": "list", "#m": "map"}.items() if name in path}
        options: dict[str, Any] = {"ProjectionExpression": path} | (
            {"ExpressionAttributeNames": names} if names else {}
        )
        account.do("get_item", Key=KEY, **options)
        account.do(
            "query",
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": KEY["pk"]},
            **options,
        )
        account.do("batch_get_item", RequestItems={TABLE: {"Keys": [KEY], **options}})
    for returned in ("NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"):
        account.do("update_item", **_parameters(CHANGE), ReturnValues=returned)
        account.do("put_item", Item=ITEM)
    large = {"ExpressionAttributeValues": {":v": {"S": "x" * (LARGEST_ITEM - 1000)}}}
    for key in (KEY, OTHER, {"pk": {"S": "new"}, "sk": {"S": "new"}}):
        account.do("update_item", Key=key, UpdateExpression="SET large = :v", **large)
        account.do("update_item", Key=key, UpdateExpression="SET larger = :v", **large)
        account.do("update_item", Key=key, UpdateExpression="REMOVE large")
    account.do("transact_get_items", TransactItems=[{"Get": {"TableName": TABLE, "Key": key}} for key in (KEY, OTHER)])
    account.do("delete_item", Key=KEY, ReturnValues="ALL_OLD")
    account.do("delete_item", Key=KEY, ReturnValues="ALL_OLD")


def _parameters(write: dict[str, Any]) -> dict[str, Any]:
    ((_, parameters),) = write.items()
    return {name: value for name, value in parameters.items() if not name.startswith("Return")}


def _repeated_expressions(account: _Account) -> None:
    """Repeat the texts of expressions with other names. A valid text may become invalid, and vice versa."""
    account.do("put_item", Item=ITEM)
    for names in ({"#a": "number", "#b": "new"}, {"#a": "new", "#b": "new"}, {"#a": "pk", "#b": "new"}) * 2:
        for text in ("SET #a = :n, #b = :n", "SET #a = :n SET #b = :n", "SET #a.x = :n REMOVE #b"):
            account.do(
                "update_item",
                Key=KEY,
                UpdateExpression=text,
                ConditionExpression="#a <> :n OR attribute_not_exists(#b)",
                ExpressionAttributeNames=names,
                ExpressionAttributeValues={":n": {"N": "7"}},
                ReturnValues="ALL_NEW",
            )
    for condition in ("#k < :v", "(#k IN (:v, :v)) AND NOT #k = :v", "#k < :v"):
        for name, value in (("text", {"S": "z"}), ("number", {"N": "10"}), ("texts", {"SS": ["b", "a"]})):
            account.do(
                "put_item",
                Item=ITEM,
                ConditionExpression=condition,
                ExpressionAttributeNames={"#k": name},
                ExpressionAttributeValues={":v": value},
            )


def _repeated_conditions(account: _Account) -> None:
    """Repeat the same conditions with other names, values and types. Sometimes a name or a value is missing."""
    account.do("put_item", Item=ITEM)
    named: list[tuple[dict[str, str], dict[str, Any]]] = [
        ({"#k": "text"}, {":a": {"S": "a"}, ":b": {"S": "✓"}}),
        ({"#k": "text"}, {":a": {"S": "✓"}, ":b": {"S": "a"}}),
        ({"#k": "number"}, {":a": {"N": "1"}, ":b": {"N": "1.5"}}),
        ({"#k": "number"}, {":a": {"N": "1"}, ":b": {"N": "1.2"}}),
        ({"#k": "list"}, {":a": {"N": "1"}, ":b": {"N": "3"}}),
        ({"#k": "text"}, {":a": {"S": "a"}}),
        ({}, {":a": {"S": "a"}, ":b": {"S": "b"}}),
    ]
    for names, values in named * 2:
        for text in (
            "#k BETWEEN :a AND :b",
            "#k IN (:a, :b) OR (NOT attribute_exists(pk))",
            "begins_with(#k, :b) AND #k <> :a",
            "contains(#k, :a) OR size(#k) = :b",
            "((#k = :a)) OR #k = :b",
            "attribute_type(#k, :b) OR #k[0] = :a",
        ):
            options = {"ExpressionAttributeNames": names} if names else {}
            try:
                account.do("put_item", Item=ITEM, ConditionExpression=text, ExpressionAttributeValues=values, **options)
            except (KeyError, TypeError, ValueError) as error:  # moto raises these itself
                account.responses.append(repr(error))


def _projections(account: _Account) -> None:
    account.do("put_item", Item=ITEM)
    for text in ("#a, pk", "pk, #a, none", "#a[1].#b, pk", "#a, #a[0]", "none", ", ".join(sorted(PROJECTED))):
        names = {word: {"#a": "list", "#b": "in"}[word] for word in ("#a", "#b") if word in text}
        options = {"ExpressionAttributeNames": names} if names else {}
        account.do("get_item", Key=KEY, ProjectionExpression=text, **options)
        account.do(
            "query",
            KeyConditionExpression="pk = :pk",
            ProjectionExpression=text,
            ExpressionAttributeValues={":pk": KEY["pk"]},
            **options,
        )


def _items_in_order(account: _Account) -> None:
    for number in (10, 9, 1, 2):
        account.do("put_item", Item={"pk": {"S": f"VIDEO#{number % 2}"}, "sk": {"S": f"TAG#{number}✓"}})
    for forward in (True, False):
        account.do(
            "query",
            KeyConditionExpression="pk = :pk AND sk > :sk",
            ExpressionAttributeValues={":pk": {"S": "VIDEO#0"}, ":sk": {"S": "TAG"}},
            ScanIndexForward=forward,
        )
    account.do("scan")
    pages = account.client.get_paginator("scan").paginate(TableName=TABLE, PaginationConfig={"PageSize": 3})
    account.responses += [page["Items"] for page in pages]


def _successful_transactions(account: _Account) -> None:
    account.do("put_item", Item=ITEM)
    account.do("transact_write_items", TransactItems=[PUT, CHANGE])
    account.do("transact_write_items", TransactItems=[REMOVE])


def _failing_transactions(account: _Account) -> None:
    account.do("put_item", Item=ITEM)
    for failure in FAILURES.values():
        account.do("transact_write_items", TransactItems=[PUT, CHANGE, failure])
        account.responses.append(account.stored())
        account.do("transact_write_items", TransactItems=[REMOVE, PUT, failure])
        account.responses.append(account.stored())
    account.do("update_item", **_parameters(CHANGE), ReturnValues="ALL_NEW")


Requests = Callable[[_Account], None]


Make = Callable[[], Any]


def _responses_to(make: Callable[[], Any], requests: Requests) -> Any:
    with mock_aws():
        account = _Account(make)
        requests(account)
        return account.responses, account.stored()


@pytest.fixture
def original(lean_moto: pytest.MonkeyPatch) -> Callable[[Make, Requests], Any]:
    """Return a function that sends requests to unmodified moto, and returns their responses."""

    def responses_of(make: Make, requests: Requests) -> Any:
        lean_moto.undo()
        try:
            return _responses_to(make, requests)
        finally:
            install(lean_moto)

    return responses_of


@pytest.mark.slow
@pytest.mark.parametrize(
    "requests",
    [
        _single_requests,
        _repeated_expressions,
        _repeated_conditions,
        _projections,
        _items_in_order,
        _successful_transactions,
        _failing_transactions,
    ],
)
def test_lean_client_on_the_patched_moto_equals_boto3_on_moto(
    requests: Requests, original: Callable[[Make, Requests], Any]
) -> None:
    assert _responses_to(lambda: client.make_client(), requests) == original(boto3_client.make_client, requests)


def test_stream_records_equal_those_that_boto3_reads(account: None) -> None:
    moto = _Account()
    _successful_transactions(moto)
    assert len(moto.records()) > 3
    harness_records = stream_records(TABLE, 0)
    assert [_normalised(record) for record in harness_records] == [_normalised(one) for one in moto.records()]
    assert stream_records(TABLE, 2) == harness_records[2:]


def test_later_change_of_an_item_does_not_change_the_backup(account: None) -> None:
    moto = _Account()
    moto.do("put_item", Item=ITEM)
    moto.client.create_backup(TableName=TABLE, BackupName="before")
    arn = moto.client.list_backups()["BackupSummaries"][0]["BackupArn"]
    moto.do("update_item", **_parameters(CHANGE))
    moto.client.restore_table_from_backup(TargetTableName="restored", BackupArn=arn)
    (restored,) = moto.client.scan(TableName="restored")["Items"]
    assert restored == ITEM


def test_restored_tables_are_independent_of_each_other(empty_tables: bytes) -> None:
    """Test that restored tables have neither the items nor the settings of tables that were restored before."""
    responses = []
    for _ in range(2):
        with mock_aws():
            restore_tables(empty_tables)
            client = boto3.client("dynamodb")
            responses.append((_described(client), client.scan(TableName="VideoMetadata")["Items"]))
            client.put_item(TableName="VideoMetadata", Item=ITEM)
            ttl: Any = {"Enabled": True, "AttributeName": "purgeAt"}
            client.update_time_to_live(TableName="VideoMetadata", TimeToLiveSpecification=ttl)
            client.update_table(TableName="VideoMetadata", StreamSpecification={"StreamEnabled": False})
    assert responses[0] == responses[1]
    assert responses[0][1] == []


def test_restored_empty_tables_equal_newly_created_ones(empty_tables: bytes) -> None:
    with mock_aws():
        restore_tables(empty_tables)
        copied = _described(boto3.client("dynamodb"))
    with mock_aws():
        client = boto3.client("dynamodb")
        create_table(client, "VideoMetadata")
        created = _described(client)
    for table in (copied[0], created[0]):
        for name in ("CreationDateTime", "LatestStreamLabel", "LatestStreamArn", "TableId"):
            table.pop(name, None)
    assert copied == created


def _described(client: Any) -> list[Any]:
    return [
        client.describe_table(TableName="VideoMetadata")["Table"],
        client.describe_time_to_live(TableName="VideoMetadata")["TimeToLiveDescription"],
        client.describe_continuous_backups(TableName="VideoMetadata")["ContinuousBackupsDescription"],
    ]
