"""The stub of DynamoDB: it refuses the same requests as DynamoDB, and returns the item of a failed condition only on
request."""

from typing import Any

import pytest

from local.testbed.stub import Stub
from shared.aws.lean.client import ErrorResponse
from shared.core.attributes import encode_item
from shared.schema import RELATION_INDEX, USER_INDEX

NAMES = {"#pk": "pk", "#sk": "sk", "#title": "title", "#userId": "userId", "#createdAt": "createdAt"} | {
    f"#{name}": name for name in ("videoId", "rel", "relShard", "relSort", "relId")
}
VALUES = encode_item({":a": "a", ":b": "b", ":v": "v", ":one": 1, ":two": 2})
ITEM = {"pk": "a", "sk": "a", "userId": "a", "createdAt": 1, "videoId": "v", "title": "a"} | {
    "rel": "a",
    "relShard": 1,
    "relSort": 1,
    "relId": "v",
}
KEY = encode_item({"pk": "a", "sk": "a"})
BY_USER, BY_RELATION = {"IndexName": USER_INDEX.name}, {"IndexName": RELATION_INDEX.name}


@pytest.fixture
def stub() -> Stub:
    loaded = Stub()
    loaded.load([ITEM])
    return loaded


def _query(stub: Stub, condition: str, **options: Any) -> list[Any]:
    names = {
        name: value for name, value in NAMES.items() if name in condition.replace("(", " ").replace(",", " ").split()
    }
    response = stub.carry_out(
        "Query",
        TableName="VideoMetadata",
        KeyConditionExpression=condition,
        ExpressionAttributeNames=names,
        ExpressionAttributeValues=VALUES,
        **options,
    )
    items: list[Any] = response["Items"]
    return items


@pytest.mark.parametrize(
    ("condition", "options"),
    [
        ("#pk = :a", {"ConsistentRead": True}),
        ("#pk = :a AND #sk = :a", {}),
        ("#sk BETWEEN :a AND :b AND #pk = :a", {}),
        ("#pk = :a AND begins_with(#sk, :a)", {}),
        ("#pk = :a AND #sk <= :a", {}),
        ("#userId = :a", BY_USER),
        ("#userId = :a AND #createdAt < :two", BY_USER),
        ("#userId = :a AND #createdAt = :one AND begins_with(#videoId, :v)", BY_USER),
        ("#rel = :a AND #relShard = :one AND #relSort BETWEEN :one AND :two", BY_RELATION),
    ],
)
def test_queries_that_dynamodb_accepts_find_the_item(stub: Stub, condition: str, options: dict[str, Any]) -> None:
    assert len(_query(stub, condition, **options)) == 1


@pytest.mark.parametrize(
    ("condition", "options"),
    [
        ("#pk = :a OR #pk = :b", {}),
        ("#pk = :a AND #sk <> :b", {}),
        ("#pk = :a AND #title = :a", {}),
        ("#pk = :a AND #sk > :a AND #sk < :b", {}),
        ("#pk = :a AND #pk = :a", {}),
        ("#pk > :a AND #sk = :a", {}),
        ("#sk = :a", {}),
        ("#userId > :a", BY_USER),
        ("#createdAt = :one", BY_USER),
        ("#userId = :a AND #title = :a", BY_USER),
        ("#userId = :a AND #videoId = :a", BY_USER),
        ("#userId = :a AND #createdAt < :two AND #videoId = :a", BY_USER),
        ("#userId = :a", BY_USER | {"ConsistentRead": True}),
        ("#rel = :a", BY_RELATION),
        ("#rel = :a AND #relSort = :one", BY_RELATION),
        ("#rel = :a AND #relShard > :one", BY_RELATION),
    ],
)
def test_queries_that_dynamodb_refuses_are_refused(stub: Stub, condition: str, options: dict[str, Any]) -> None:
    with pytest.raises(ErrorResponse, match=r"^ValidationException"):
        _query(stub, condition, **options)


def test_a_transaction_with_the_same_item_twice_is_refused_and_writes_nothing(stub: Stub) -> None:
    before = stub.stored()
    put = {"Put": {"TableName": "VideoMetadata", "Item": KEY}}
    delete = {"Delete": {"TableName": "VideoMetadata", "Key": KEY}}
    with pytest.raises(ErrorResponse, match=r"^ValidationException"):
        stub.carry_out("TransactWriteItems", TransactItems=[put, delete])
    assert stub.stored() == before


FAILS = {"TableName": "VideoMetadata", "Item": KEY, "ConditionExpression": "attribute_not_exists(pk)"}


@pytest.mark.parametrize(
    ("options", "returned"), [({}, None), ({"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}, encode_item(ITEM))]
)
def test_a_failed_condition_returns_the_item_only_on_request(
    stub: Stub, options: dict[str, Any], returned: dict[str, Any] | None
) -> None:
    with pytest.raises(ErrorResponse) as refused:
        stub.carry_out("PutItem", **FAILS, **options)
    assert refused.value.response.get("Item") == returned
    with pytest.raises(ErrorResponse) as refused:
        stub.carry_out("TransactWriteItems", TransactItems=[{"Put": FAILS | options}])
    (reason,) = refused.value.response["CancellationReasons"]
    assert reason.get("Item") == returned
