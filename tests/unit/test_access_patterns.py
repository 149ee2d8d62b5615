"""Tests of the access-pattern table: each row states the operations and the index that its request uses."""

import json
import re
import tomllib
from typing import Any

import pytest

from local import readme
from local.access_patterns import ACCESS_PATTERNS
from local.access_patterns.pattern import AccessPattern
from local.data_model import ITEMS
from local.testbed.calls import CALLS, OWN_CALLS
from local.testbed.harness import Api, record_operations
from local.workbench import OMITTED, SAMPLES, samples
from shared import schema
from shared.aws.dynamodb import Table
from shared.core.attributes import encode_item

MODEL = json.loads(readme.WORKBENCH.read_text(encoding="utf-8"))


def test_every_call_belongs_to_a_row_of_the_table() -> None:
    assert OWN_CALLS.keys() <= {pattern.request for pattern in ACCESS_PATTERNS}


@pytest.mark.parametrize("pattern", ACCESS_PATTERNS, ids=lambda pattern: pattern.request)
def test_every_request_sends_exactly_the_operations_of_its_row(api: Api, table: Table, pattern: AccessPattern) -> None:
    arrange, call = CALLS[pattern.request]
    video_id = arrange(api)

    with record_operations(table.client) as operations:
        reply = call(api, video_id)

    assert reply.status < 300, reply.body
    assert tuple(operation.name for operation in operations) == pattern.operations
    used = {operation.index for operation in operations if not pattern.index or operation.name == "Query"}
    # A query of ChangesetIndex may be followed by reads of the table, which stores the set's later entries. The totals
    # of the service are read from the table, and its jobs and webhooks from RelationIndex.
    is_mixed = pattern.index == schema.CHANGESET_INDEX or pattern.request == "GET /v1/operations"
    also_allowed = {None} & used if is_mixed else set()
    assert used - also_allowed == {pattern.index.name if pattern.index else None}


@pytest.mark.parametrize(
    "pattern",
    # Excluded: the sweeper, which pages through all open jobs to find the age of the oldest, and ChangesetIndex, where
    # a query reads a whole change set.
    [
        pattern
        for pattern in ACCESS_PATTERNS
        if pattern.index in schema.INDEXES and pattern.request != "every minute: the sweeper"
    ],
    ids=lambda pattern: pattern.request,
)
def test_every_listing_names_all_keys_of_its_index(api: Api, table: Table, pattern: AccessPattern) -> None:
    arrange, call = CALLS[pattern.request]
    video_id = arrange(api)

    with record_operations(table.client) as operations:
        call(api, video_id)

    assert pattern.index is not None
    sort = pattern.index.sort[0]
    # A list that is sorted by text has no range.
    keys = {attribute.name for attribute in pattern.index.partition} | ({sort.name} if sort.type == "N" else set())
    for operation in operations:
        if operation.index is None:
            continue  # a read of the table for the items to which the index entries refer
        named = operation.parameters["ExpressionAttributeNames"]
        used = {named[word] for word in operation.parameters["KeyConditionExpression"].split() if word.startswith("#")}
        assert used == keys


class TestWorkbenchModel:
    @pytest.fixture
    def filled(self, table: Table) -> Table:
        """Return the tables, filled with the samples of the committed model."""
        for described in MODEL["DataModel"]:
            for facet in described["TableFacets"]:
                for item in facet["TableData"]:
                    table.client.put_item(TableName=described["TableName"], Item=item)
        return table

    def test_facet_of_every_entity_has_samples_that_a_query_of_its_key_returns(self, filled: Table) -> None:
        tables = {schema.TABLE_NAME: schema.ENTITIES, schema.AUDIT_TABLE_NAME: schema.AUDIT_ENTITIES}
        for described in MODEL["DataModel"]:
            entities = [
                entity for entity in tables[described["TableName"]] if entity is not schema.HEALTH
            ]  # the service never writes a HEALTH item
            for entity, facet in zip(entities, described["TableFacets"], strict=True):
                assert facet["FacetName"] == entity.name
                assert facet["KeyAttributeAlias"] == {"PartitionKeyAlias": entity.pk, "SortKeyAlias": entity.sk}
                assert facet["TableData"]
                for item in facet["TableData"]:
                    assert item in queried(filled, described["TableName"], entity.sort_prefix, pk=item["pk"]["S"])

    @pytest.mark.slow
    def test_samples_cover_every_access_pattern(self, filled: Table) -> None:
        assert {
            pattern.request: missing for pattern in ACCESS_PATTERNS if (missing := without_samples(filled, pattern))
        } == {}

    def test_model_has_the_keys_of_the_published_format(self) -> None:
        assert MODEL.keys() == {"ModelName", "ModelMetadata", "DataModel"}
        assert MODEL["ModelMetadata"]["Version"] == "3.0"
        for described in MODEL["DataModel"]:
            assert described.keys() == {
                *("TableName", "KeyAttributes", "NonKeyAttributes", "TableFacets", "GlobalSecondaryIndexes"),
                *("DataAccess", "BillingMode"),
            }
            types = {each["AttributeName"]: each["AttributeType"] for each in described["NonKeyAttributes"]}
            types |= {key["AttributeName"]: key["AttributeType"] for key in described["KeyAttributes"].values()}
            for facet in described["TableFacets"]:
                for item in facet["TableData"]:
                    assert {name: kind for name, value in item.items() for kind in value}.items() <= types.items()
                    assert item.keys() <= {*facet["NonKeyAttributes"], "pk", "sk"}
            for index in described["GlobalSecondaryIndexes"]:
                for key in index["KeyAttributes"].values():
                    assert types[key["AttributeName"]] == key["AttributeType"]

    def test_samples_have_all_documented_attributes(self) -> None:
        for described in ITEMS:
            if described.entity is not schema.HEALTH:
                assert described.names - OMITTED - {schema.TTL_ATTRIBUTE} <= samples(described)[0].keys(), (
                    described.entity.name
                )


def without_samples(table: Table, pattern: AccessPattern) -> list[str]:
    """Return the partition keys, sort keys and relations of an access pattern for which the tables contain no
    sample."""
    keys = pattern.key if "(absent)" not in pattern.key else ""
    missing, sampled = [], []
    for before, pk in re.findall(r"(.*?)pk = ([^\s,;]+)", keys):
        name = schema.AUDIT_TABLE_NAME if before.endswith("`VideoAudit` ") or "CHANGES" in pk else schema.TABLE_NAME
        items = queried(table, name, pk=filled_in(pk))
        sampled += items
        missing += [] if items else [pk]
    for sk in re.findall(r"sk (?:=|begins with|between|from) ([#{A-Z][^\s,;.]*)", keys):
        if sampled and not any(item["sk"]["S"].startswith(filled_in(sk)) for item in sampled):
            missing.append(sk)
    for rel in re.findall(r"rel = ([^\s,;]+)", keys):
        partitions = [
            queried(table, schema.TABLE_NAME, index=schema.RELATION_INDEX, rel=filled_in(rel), relShard=shard)
            for shard in range(schema.SHARDS)
        ]
        missing += [] if any(partitions) else [rel]
    for name, value in re.findall(r"(userId|category|changeset) = ([^\s,;]+)", keys):
        assert pattern.index is not None
        others = {key.name: SAMPLES[key.name] for key in pattern.index.partition if key.name != name}
        home = schema.AUDIT_TABLE_NAME if name == "changeset" else schema.TABLE_NAME
        if not queried(table, home, index=pattern.index, **{name: filled_in(value)}, **others):
            missing.append(f"{name} = {value}")
    return missing


def filled_in(template: str) -> str:
    """Return a key of an access pattern, with each placeholder replaced by the value that the samples use."""
    literals = {"TAG#t": "TAG#drama", "u": "alice", "c": "keynotes", "PLAYLISTS#u": "PLAYLISTS#alice"}
    template = literals.get(template, template)
    video = {"status": "failed", "name": "720p"} if "{status}" in template or "transcode" in template else {}
    return template.format_map({**SAMPLES, **video})


def queried(
    table: Table, name: str, sort_prefix: str = "", index: schema.Index | None = None, **key: Any
) -> list[dict[str, Any]]:
    """Return the items whose partition attributes have the values of `key`, and whose sort key starts with
    `sort_prefix`."""
    values = {f":{attribute}": value for attribute, value in key.items()}
    condition = " AND ".join(f"{attribute} = :{attribute}" for attribute in key)
    if sort_prefix:
        condition, values = f"{condition} AND begins_with(sk, :sk)", {**values, ":sk": sort_prefix}
    items: list[dict[str, Any]] = table.client.query(
        TableName=name,
        KeyConditionExpression=condition,
        ExpressionAttributeValues=encode_item(values),
        **({"IndexName": index.name} if index else {}),
    )["Items"]
    return items


def test_every_monthly_call_belongs_to_a_row_and_their_sum_is_that_of_the_workload() -> None:
    workload = tomllib.loads(readme.WORKLOAD.read_text(encoding="utf-8"))
    calls = readme.calls_a_month()
    assert calls.keys() <= {pattern.request for pattern in ACCESS_PATTERNS}
    scheduled = sum(workload[figure] for figure in readme.SCHEDULED_CALLS.values())
    assert calls.total() == sum(workload["calls"].values()) + scheduled


@pytest.mark.parametrize(
    ("operations", "goal"),
    [(("GetItem",), 50), (("Query", "Query", "BatchGetItem"), 70), (("GetItem", "UpdateItem"), 70)],
)
def test_p99_goal_grows_with_sequential_round_trips(operations: tuple[str, ...], goal: int) -> None:
    assert AccessPattern("", "GET /v1", operations, None, "", "").p99_goal == goal
    assert AccessPattern("", "the stream: aggregates", operations, None, "", "").p99_goal is None


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


def test_every_entity_has_its_own_partition() -> None:
    templates = "".join(entity.pk + entity.sk for entity in (*schema.ENTITIES, *schema.FEED_ENTITIES))
    sample = dict.fromkeys(re.findall(r"{(\w+)}", templates), "x")
    keys = [tuple(entity.key(**sample).values()) for entity in (*schema.ENTITIES, *schema.FEED_ENTITIES)]
    assert len(set(keys)) == len(keys)


def test_keys_differ_when_a_separator_is_in_another_part() -> None:
    one = schema.IDEMPOTENCY.key(subject="a#b", operation="c", key="d")
    other = schema.IDEMPOTENCY.key(subject="a", operation="b#c", key="d")
    assert one != other


def test_shard_of_a_video_never_changes() -> None:
    # Stored keys depend on the shard, so these values of the first release must not change.
    assert [schema.shard_of(f"{n:08d}-0000-4000-8000-000000000000") for n in range(6)] == [3, 3, 3, 3, 2, 2]
