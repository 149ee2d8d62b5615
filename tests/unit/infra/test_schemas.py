"""No index or projection changes without a new version of the schema: what a deployed table has stays."""

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local import LocalError, schemas
from shared import schema

if TYPE_CHECKING:
    from tests.unit.infra.templates import Templates


def test_the_newest_recorded_version_is_the_present_one() -> None:
    versions = schemas.recorded()
    assert list(versions) == list(range(1, schema.SCHEMA_VERSION + 1)), "run: python -m local.schemas"
    assert versions[schema.SCHEMA_VERSION] == schemas.present()


def test_each_version_is_recorded_under_its_number() -> None:
    for version, recorded in schemas.recorded().items():
        assert recorded["schemaVersion"] == version


@pytest.mark.parametrize(("before", "after"), list(pairwise(schemas.recorded().values())), ids=str)
def test_what_a_table_has_never_changes(before: schemas.Json, after: schemas.Json) -> None:
    """DynamoDB changes neither a table's keys nor those of an index, nor what it projects; and an index less in each
    version is one less in each update."""
    assert before["keys"] == after["keys"]
    earlier, later = ({index["name"]: index for index in version["indexes"]} for version in (before, after))
    assert all(later[name] == index for name, index in earlier.items() if name in later)
    assert len(earlier.keys() - later.keys()) <= 1


def test_the_template_makes_what_is_recorded(aws: "Templates") -> None:
    table = _table(aws)
    now = schemas.present()
    assert schemas.described(table) == {name: now[name] for name in ("keys", "stream", "indexes")}
    assert table["TimeToLiveSpecification"] == {"AttributeName": now["timeToLive"], "Enabled": True}


def _table(aws: "Templates") -> schemas.Json:
    tables: list[schemas.Json] = [
        resource["Properties"]
        for resource in aws.all("AWS::DynamoDB::GlobalTable").values()
        if resource["Properties"]["TableName"] == schema.TABLE_NAME
    ]
    (table,) = tables
    return table


def test_a_version_is_recorded_once(tmp_path: Path) -> None:
    file = schemas.record(tmp_path)
    assert json.loads(file.read_text()) == schemas.present()
    assert schemas.record(tmp_path) == file


def test_a_recorded_version_is_not_written_over(tmp_path: Path) -> None:
    file = schemas.record(tmp_path)
    other = schemas.present() | {"timeToLive": "other"}
    file.write_text(json.dumps(other))
    with pytest.raises(LocalError, match="Raise SCHEMA_VERSION"):
        schemas.record(tmp_path)
    assert json.loads(file.read_text()) == other


def test_versions_are_read_in_their_order(tmp_path: Path) -> None:
    for version in (10, 9, 1):
        (tmp_path / f"{version}.json").write_text("{}")
    assert list(schemas.recorded(tmp_path)) == [1, 9, 10]
