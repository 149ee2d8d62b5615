"""Stores with boto3's DynamoDB client, selected by DYNAMODB_CLIENT=boto3: every operation has the same result as with
the lean client."""

from collections.abc import Iterator
from typing import Any

import pytest

from local.aws import Aws
from local.testbed.wire import listen
from shared.aws import boto3_client
from shared.aws.dynamodb import OPERATIONS, Table, make_client
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.lean.client import Client
from shared.aws.records import ABSENT
from tests.integration.conftest import reaching
from tests.polling import patience


@pytest.fixture(params=["boto3", "lean"])
def chosen(aws: Aws, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return the client that a function creates for a value of DYNAMODB_CLIENT."""
    with reaching(aws), patience() as patch:
        patch.setenv("DYNAMODB_CLIENT", request.param)
        client = make_client()
        assert isinstance(client, Client) is (request.param == "lean")
        yield client
        client.close()


def _key(number: int) -> dict[str, str]:
    return {"pk": "P", "sk": f"S{number}"}


def test_stores_send_every_operation_and_get_the_same_results_from_either_client(table: Table, chosen: Any) -> None:
    items = [
        {**_key(n), "n": n, "text": "ü🎬", "bytes": b"\x00\xff", "set": {"a"}, "map": {"list": [1.5, None]}}
        for n in range(4)
    ]
    stores, sent = Table(table.name, chosen, sleep=lambda _: None), set[str]()
    with listen(chosen, lambda operation, _: sent.add(operation)):
        stores.write(stores.put(items[0], condition=ABSENT))
        with pytest.raises(ConditionFailed) as failed:
            stores.write(stores.put(items[0], condition=ABSENT))
        assert failed.value.item == items[0]
        stores.transact([stores.put(item, condition=ABSENT) for item in items[1:]])
        with pytest.raises(ConditionFailed) as failed:
            stores.transact([stores.put({**_key(9)}, condition=ABSENT), stores.put(items[2], condition=ABSENT)])
        assert (failed.value.position, failed.value.item) == (1, items[2])
        change = Expression("ADD #n :one", {"#n": "n"}, {":one": 1})
        assert stores.write(stores.update(_key(3), change), returning="UPDATED_NEW") == {"n": 4}
        assert stores.get(_key(1), consistent=True) == items[1]
        assert stores.get(_key(9)) is None
        assert stores.get_all([_key(2), _key(9), _key(0)], consistent=True) == [items[2], None, items[0]]
        condition = Expression("#pk = :pk", {"#pk": "pk"}, {":pk": "P"})
        page = stores.query(index=None, condition=condition, limit=3, consistent=True)
        assert (page.items, page.examined, page.last_key is None) == (items[:3], 3, False)
        stores.delete(_key(0))
        stores.batch_delete([_key(n) for n in range(1, 4)])
        assert stores.query(index=None, condition=condition, limit=9, consistent=True).items == []
    assert sent == OPERATIONS.keys()


def test_client_has_a_session_of_boto3(aws: Aws) -> None:
    with reaching(aws):
        assert type(boto3_client._plain_session()).__module__ == "boto3.session"
