"""Tests of the access-pattern table: each row states the operations and the index that its request really uses."""

import re

import pytest

from local.access_patterns import ACCESS_PATTERNS
from local.access_patterns.pattern import AccessPattern
from local.testbed.calls import CALLS, OWN_CALLS
from local.testbed.harness import Api, record_operations
from shared import schema
from shared.aws.dynamodb import Table


def test_every_call_belongs_to_a_row_of_the_table() -> None:
    assert OWN_CALLS.keys() <= {pattern.request for pattern in ACCESS_PATTERNS}


@pytest.mark.parametrize("pattern", ACCESS_PATTERNS, ids=lambda pattern: pattern.request)
def test_a_request_sends_exactly_the_operations_of_its_row(api: Api, table: Table, pattern: AccessPattern) -> None:
    arrange, call = CALLS[pattern.request]
    video_id = arrange(api)

    with record_operations(table.client) as operations:
        reply = call(api, video_id)

    assert reply.status < 300, reply.body
    assert tuple(operation.name for operation in operations) == pattern.operations
    used = {operation.index for operation in operations if not pattern.index or operation.name == "Query"}
    # Of what is in a change set, the table has the later entries.
    beside = {None} & used if pattern.index == schema.CHANGESET_INDEX else set()
    assert used - beside == {pattern.index.name if pattern.index else None}


@pytest.mark.parametrize(
    "pattern",
    # The sweeper pages through all open jobs, to find the age of the oldest. A change set is read whole.
    [
        pattern
        for pattern in ACCESS_PATTERNS
        if pattern.index in schema.INDEXES and pattern.request != "every minute: the sweeper"
    ],
    ids=lambda pattern: pattern.request,
)
def test_a_listing_names_every_key_of_its_index(api: Api, table: Table, pattern: AccessPattern) -> None:
    arrange, call = CALLS[pattern.request]
    video_id = arrange(api)

    with record_operations(table.client) as operations:
        call(api, video_id)

    assert pattern.index is not None
    keys = {attribute.name for attribute in pattern.index.partition} | {pattern.index.sort[0].name}
    for operation in operations:
        if operation.index is None:
            continue  # what the entries lead to
        named = operation.parameters["ExpressionAttributeNames"]
        used = {named[word] for word in operation.parameters["KeyConditionExpression"].split() if word.startswith("#")}
        assert used == keys


def test_no_access_pattern_scans() -> None:
    names = {name for pattern in ACCESS_PATTERNS for name in pattern.operations}
    assert names <= {
        "BatchGetItem",
        "DeleteItem",
        "GetItem",
        "PutItem",
        "Query",
        "TransactWriteItems",
        "UpdateItem",
    }


def test_every_entity_has_a_partition_of_its_own() -> None:
    templates = "".join(entity.pk + entity.sk for entity in (*schema.ENTITIES, *schema.FEED_ENTITIES))
    sample = dict.fromkeys(re.findall(r"{(\w+)}", templates), "x")
    keys = [tuple(entity.key(**sample).values()) for entity in (*schema.ENTITIES, *schema.FEED_ENTITIES)]
    assert len(set(keys)) == len(keys)


def test_parts_of_a_key_cannot_be_mistaken_for_one_another() -> None:
    one = schema.IDEMPOTENCY.key(subject="a#b", operation="c", key="d")
    other = schema.IDEMPOTENCY.key(subject="a", operation="b#c", key="d")
    assert one != other


def test_the_shard_of_a_video_never_changes() -> None:
    # Stored keys depend on it: these are the values of the first release.
    assert [schema.shard_of(f"{n:08d}-0000-4000-8000-000000000000") for n in range(6)] == [3, 3, 3, 3, 2, 2]
