"""Every row of the access-pattern table, held to its word: the operations and the index really used."""

from collections.abc import Callable
from typing import Any

import pytest

from shared import schema
from shared.dynamodb import Table
from shared.schema import ACCESS_PATTERNS, AccessPattern
from tests.harness import Api, Reply, recorded

KEY = {"Idempotency-Key": "k1"}
RANGE = "from=0&to=2000000000"


def _deleted(api: Api) -> str:
    video_id = str(api.create()["videoId"])
    api.delete(f"/v1/videos/{video_id}")
    return video_id


def _published(api: Api) -> str:
    return str(api.publish(category="c")["videoId"])


def _listing(query: str, user: str = "alice") -> Callable[[Api, str], Reply]:
    return lambda api, _: api.get("/v1/videos", query=query, user=user)


# Each request as its row writes it: what must be there before, and the call.
CALLS: dict[str, tuple[Callable[[Api], str], Callable[[Api, str], Reply]]] = {
    "POST /v1/videos": (lambda _: "", lambda api, _: api.post("/v1/videos", {"title": "t"})),
    "POST /v1/videos (Idempotency-Key)": (
        lambda _: "",
        lambda api, _: api.post("/v1/videos", {"title": "t"}, headers=KEY),
    ),
    "GET /v1/videos/{videoId}": (_published, lambda api, v: api.get(f"/v1/videos/{v}")),
    "GET /v1/videos/{videoId}?fields=title": (
        _published,
        lambda api, v: api.get(f"/v1/videos/{v}", query="fields=title"),
    ),
    "PATCH /v1/videos/{videoId}": (_published, lambda api, v: api.patch(f"/v1/videos/{v}", {"title": "new"})),
    "DELETE /v1/videos/{videoId}": (_published, lambda api, v: api.delete(f"/v1/videos/{v}")),
    "POST /v1/videos/{videoId}/restore": (_deleted, lambda api, v: api.post(f"/v1/videos/{v}/restore")),
    "POST /v1/videos/{videoId}/restore (Idempotency-Key)": (
        _deleted,
        lambda api, v: api.post(f"/v1/videos/{v}/restore", headers=KEY),
    ),
    "GET /v1/videos?userId=u&from=t&to=t": (_published, _listing(f"userId=alice&{RANGE}")),
    "GET /v1/videos?category=c&from=t&to=t": (_published, _listing(f"category=c&{RANGE}")),
    "GET /v1/videos?from=t&to=t": (_published, _listing(RANGE)),
    "GET /v1/videos?status=failed": (_published, _listing("status=failed", user="admin")),
    "GET /v1/videos?status=ready": (_published, _listing("status=ready", user="admin")),
    "POST /v1/videos/{videoId}/views": (_published, lambda api, v: api.post(f"/v1/videos/{v}/views")),
    "POST /v1/videos/{videoId}/views (Idempotency-Key)": (
        _published,
        lambda api, v: api.post(f"/v1/videos/{v}/views", headers=KEY),
    ),
    "GET /health": (lambda _: "", lambda api, _: api.get("/health")),
}


def test_every_row_of_the_table_has_its_call_here() -> None:
    assert set(CALLS) == {pattern.request for pattern in ACCESS_PATTERNS}


@pytest.mark.parametrize("pattern", ACCESS_PATTERNS, ids=lambda pattern: pattern.request)
def test_a_request_sends_exactly_the_operations_of_its_row(api: Api, table: Table, pattern: AccessPattern) -> None:
    arrange, call = CALLS[pattern.request]
    video_id = arrange(api)

    with recorded(table.client) as operations:
        reply = call(api, video_id)

    assert reply.status < 300, reply.body
    assert tuple(operation.name for operation in operations) == pattern.operations
    expected_index = pattern.index.name if pattern.index else None
    assert {operation.index for operation in operations} == {expected_index}


@pytest.mark.parametrize(
    "pattern", [each for each in ACCESS_PATTERNS if each.index], ids=lambda pattern: pattern.request
)
def test_a_listing_names_every_key_of_its_index(api: Api, table: Table, pattern: AccessPattern) -> None:
    arrange, call = CALLS[pattern.request]
    arrange(api)

    with recorded(table.client) as operations:
        call(api, "")

    assert pattern.index is not None
    keys = {attribute.name for attribute in pattern.index.partition} | {pattern.index.sort[0].name}
    for operation in operations:
        named = operation.parameters["ExpressionAttributeNames"]
        used = {named[word] for word in operation.parameters["KeyConditionExpression"].split() if word.startswith("#")}
        assert used == keys


def test_no_code_of_the_service_can_scan(api: Api, table: Table) -> None:
    with recorded(table.client) as operations:
        for arrange, call in CALLS.values():
            call(api, arrange(api))

    assert {operation.name for operation in operations} <= {
        "BatchGetItem",
        "GetItem",
        "PutItem",
        "Query",
        "TransactWriteItems",
        "UpdateItem",
    }


def test_every_entity_has_a_partition_of_its_own() -> None:
    sample: dict[str, Any] = {"videoId": "v", "shard": 0, "subject": "s", "id": "i", "operation": "o", "key": "k"}
    keys = [tuple(entity.key(**sample).values()) for entity in schema.ENTITIES]
    assert len(set(keys)) == len(keys)


def test_parts_of_a_key_cannot_be_mistaken_for_one_another() -> None:
    one = schema.IDEMPOTENCY.key(subject="a#b", operation="c", key="d")
    other = schema.IDEMPOTENCY.key(subject="a", operation="b#c", key="d")
    assert one != other


def test_the_shard_of_a_video_never_changes() -> None:
    # Stored keys depend on it: these values are those of the first release.
    assert [schema.shard_of(f"{n:08d}-0000-4000-8000-000000000000") for n in range(6)] == [3, 3, 3, 3, 2, 2]
