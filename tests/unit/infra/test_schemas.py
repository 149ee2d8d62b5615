"""Indexes and projections change only with a new schema version, and only as DynamoDB can change a deployed table."""

import hashlib
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local import LocalError, schemas
from shared import schema

if TYPE_CHECKING:
    from tests.unit.infra.templates import Templates

FIRST = {schemas.VIDEOS.name: 3, schemas.AUDIT.name: 1}
"""First recorded version of each table."""
RECORDED = {
    schemas.VIDEOS.name: {3: "7744ae949875143f1ab2bc41432c0a64b0af56e0651c5b4ff1d064b578432ddc"},
    schemas.AUDIT.name: {1: "3441797fb0259ed52c20b1d19b438642239dfe1a8033f543fa7f2211e9a7c177"},
}
"""SHA-256 of each recorded file, by version. A new version adds a line; earlier lines never change."""

of_each_table = pytest.mark.parametrize("table", schemas.TABLES, ids=lambda table: table.name)


@of_each_table
def test_newest_recorded_version_is_the_current_one(table: schemas.RecordedTable) -> None:
    versions, newest = schemas.recorded(table), getattr(schema, table.constant)
    assert list(versions) == list(range(FIRST[table.name], newest + 1)), "run: python -m local.schemas"
    assert versions[newest] == schemas.present(table)


@of_each_table
def test_recorded_files_never_change(table: schemas.RecordedTable) -> None:
    recorded = {
        version: hashlib.sha256((table.folder / f"{version}.json").read_bytes()).hexdigest()
        for version in schemas.recorded(table)
    }
    assert recorded == RECORDED[table.name], (
        "Recorded files never change. Restore them, or add the new version's hash here."
    )


@of_each_table
def test_every_schema_version_is_recorded_under_its_number(table: schemas.RecordedTable) -> None:
    for version, recorded in schemas.recorded(table).items():
        assert recorded["schemaVersion"] == version


def _is_possible(before: schemas.Json, after: schemas.Json) -> bool:
    """Return whether DynamoDB can apply a change: keys, index keys and projections are unchanged, and at most one index
    is removed."""
    earlier, later = ({index["name"]: index for index in version["indexes"]} for version in (before, after))
    is_unchanged = all(later[name] == index for name, index in earlier.items() if name in later)
    return before["keys"] == after["keys"] and is_unchanged and len(earlier.keys() - later.keys()) <= 1


@of_each_table
def test_recorded_schemas_change_only_in_allowed_ways(table: schemas.RecordedTable) -> None:
    assert all(_is_possible(*versions) for versions in pairwise(schemas.recorded(table).values()))


def test_change_that_dynamodb_cannot_apply_is_detected() -> None:
    now = schemas.present()
    first, *others = now["indexes"]
    assert _is_possible(now, now | {"indexes": others})
    for impossible in (
        {"keys": now["keys"][:1]},
        {"indexes": [first | {"projection": []}, *others]},
        {"indexes": others[1:]},
    ):
        assert not _is_possible(now, now | impossible)


@of_each_table
def test_template_matches_the_recorded_schema(defaults: "Templates", table: schemas.RecordedTable) -> None:
    deployed, now = _deployed(defaults, table.name), schemas.present(table)
    assert schemas.described(deployed) == {name: now[name] for name in ("keys", "stream", "indexes")}
    assert deployed["TimeToLiveSpecification"] == {"AttributeName": now["timeToLive"], "Enabled": True}


def test_index_names_of_both_tables_differ() -> None:
    """The context value `indexes` lists index names of both tables together."""
    names = [index.name for table in schemas.TABLES for index in table.indexes]
    assert len(set(names)) == len(names)


def _deployed(defaults: "Templates", name: str) -> schemas.Json:
    tables: list[schemas.Json] = [
        resource["Properties"]
        for resource in defaults.all("AWS::DynamoDB::GlobalTable").values()
        if resource["Properties"]["TableName"] == name
    ]
    (table,) = tables
    return table


@of_each_table
def test_version_is_recorded_once(table: schemas.RecordedTable, tmp_path: Path) -> None:
    elsewhere = replace(table, folder=tmp_path)
    file = schemas.record(elsewhere)
    assert json.loads(file.read_text()) == schemas.present(table)
    assert schemas.record(elsewhere) == file


@of_each_table
def test_recorded_version_is_not_overwritten(table: schemas.RecordedTable, tmp_path: Path) -> None:
    elsewhere = replace(table, folder=tmp_path)
    file = schemas.record(elsewhere)
    other = schemas.present(table) | {"timeToLive": "other"}
    file.write_text(json.dumps(other))
    with pytest.raises(LocalError, match=f"Increment {table.constant}"):
        schemas.record(elsewhere)
    assert json.loads(file.read_text()) == other


def test_versions_are_read_in_numeric_order(tmp_path: Path) -> None:
    for version in (10, 9, 1):
        (tmp_path / f"{version}.json").write_text("{}")
    assert list(schemas.recorded(replace(schemas.VIDEOS, folder=tmp_path))) == [1, 9, 10]
