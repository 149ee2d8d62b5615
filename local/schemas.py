"""Recorded definitions of the tables, for each schema version. `python -m local.schemas` records the current version.

`schemas/<version>.json` has keys, indexes, projections, TTL and stream of the main table. `schemas/audit/` has the same
for the audit table. A record never changes, because a deployed index cannot change. A new index or projection needs a
new version. See docs/upgrading.md.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local import ROOT, LocalError, exit_status
from shared import schema

FOLDER = ROOT / "schemas"

Json = dict[str, Any]


@dataclass(frozen=True)
class RecordedTable:
    """A table with recorded definitions: one for each schema version."""

    name: str
    constant: str
    """Name of the constant in shared/schema.py that contains the table's schema version."""
    indexes: tuple[schema.Index, ...]
    stream: str | None
    folder: Path


VIDEOS = RecordedTable(schema.TABLE_NAME, "SCHEMA_VERSION", schema.INDEXES, "NEW_AND_OLD_IMAGES", FOLDER)
AUDIT = RecordedTable(schema.AUDIT_TABLE_NAME, "AUDIT_SCHEMA_VERSION", schema.AUDIT_INDEXES, None, FOLDER / "audit")
TABLES = (VIDEOS, AUDIT)


def present(table: RecordedTable = VIDEOS) -> Json:
    """Return the current definition of a table in shared/schema.py."""
    return {
        "schemaVersion": getattr(schema, table.constant),
        "keys": [
            _key(schema.Attribute(schema.PARTITION_KEY), "HASH"),
            _key(schema.Attribute(schema.SORT_KEY), "RANGE"),
        ],
        "timeToLive": schema.TTL_ATTRIBUTE,
        "stream": table.stream,
        "indexes": [_index(index) for index in table.indexes],
    }


def _index(index: schema.Index) -> Json:
    return {
        "name": index.name,
        "keys": [
            *(_key(attribute, "HASH") for attribute in index.partition),
            *(_key(attribute, "RANGE") for attribute in index.sort),
        ],
        "projection": sorted(index.non_key_attributes),
    }


def _key(attribute: schema.Attribute, kind: str) -> Json:
    return {"name": attribute.name, "type": attribute.type, "kind": kind}


def described(table: Mapping[str, Any]) -> Json:
    """Return keys, stream and indexes of a table. `table` is from a DescribeTable response or from a template."""
    types = {attribute["AttributeName"]: attribute["AttributeType"] for attribute in table["AttributeDefinitions"]}

    def keys(of: Mapping[str, Any]) -> list[Json]:
        return [
            {"name": key["AttributeName"], "type": types[key["AttributeName"]], "kind": key["KeyType"]}
            for key in of["KeySchema"]
        ]

    return {
        "keys": keys(table),
        "stream": table.get("StreamSpecification", {}).get("StreamViewType"),
        "indexes": [
            {
                "name": index["IndexName"],
                "keys": keys(index),
                "projection": sorted(index["Projection"].get("NonKeyAttributes", ())),
            }
            for index in table.get("GlobalSecondaryIndexes", [])
        ],
    }


def recorded(table: RecordedTable = VIDEOS) -> dict[int, Json]:
    """Return the recorded definitions of a table by version, oldest first."""
    folder = table.folder
    versions = sorted(int(file.stem) for file in folder.glob("*.json"))
    return {version: json.loads((folder / f"{version}.json").read_text(encoding="utf-8")) for version in versions}


def record(table: RecordedTable = VIDEOS) -> Path:
    """Write the current definition of a table to its file, and return the path.

    Raises LocalError if the file of this version has another definition.
    """
    now = present(table)
    file = table.folder / f"{now['schemaVersion']}.json"
    if file.exists() and json.loads(file.read_text(encoding="utf-8")) != now:
        raise LocalError(
            f"{file.relative_to(table.folder.parent)} differs, but a recorded version must not change. Increment {table.constant} "
            "in shared/schema.py (docs/upgrading.md)."
        )
    file.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    return file


if __name__ == "__main__":
    sys.exit(exit_status(lambda: print(*map(record, TABLES), sep="\n")))
