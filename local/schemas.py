"""The table as each version of the schema has it, recorded: `python -m local.schemas` writes the present one.

`schemas/<version>.json` has keys, indexes, projections, expiry and stream. What is recorded never changes, because
a deployed index cannot: another index or projection is another version. See docs/upgrading.md.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local import ROOT, LocalError, exit_status
from shared import schema

FOLDER = ROOT / "schemas"
STREAM = "NEW_AND_OLD_IMAGES"

Json = dict[str, Any]


def present() -> Json:
    """The table as shared/schema.py has it now."""
    return {
        "schemaVersion": schema.SCHEMA_VERSION,
        "keys": [
            _key(schema.Attribute(schema.PARTITION_KEY), "HASH"),
            _key(schema.Attribute(schema.SORT_KEY), "RANGE"),
        ],
        "timeToLive": schema.TTL_ATTRIBUTE,
        "stream": STREAM,
        "indexes": [_index(index) for index in schema.INDEXES],
    }


def _index(index: schema.Index) -> Json:
    keys = {attribute.name for attribute in (*index.partition, *index.sort)}
    return {
        "name": index.name,
        "keys": [
            *(_key(attribute, "HASH") for attribute in index.partition),
            *(_key(attribute, "RANGE") for attribute in index.sort),
        ],
        "projection": sorted(set(schema.PROJECTION) - keys),
    }


def _key(attribute: schema.Attribute, kind: str) -> Json:
    return {"name": attribute.name, "type": attribute.type, "kind": kind}


def described(table: Mapping[str, Any]) -> Json:
    """Keys, stream and indexes of a table, from the answer of DescribeTable or the properties of a template."""
    types = {attribute["AttributeName"]: attribute["AttributeType"] for attribute in table["AttributeDefinitions"]}

    def keys(of: Mapping[str, Any]) -> list[Json]:
        return [
            {"name": key["AttributeName"], "type": types[key["AttributeName"]], "kind": key["KeyType"]}
            for key in of["KeySchema"]
        ]

    return {
        "keys": keys(table),
        "stream": table["StreamSpecification"]["StreamViewType"],
        "indexes": [
            {
                "name": index["IndexName"],
                "keys": keys(index),
                "projection": sorted(index["Projection"]["NonKeyAttributes"]),
            }
            for index in table.get("GlobalSecondaryIndexes", [])
        ],
    }


def recorded(folder: Path = FOLDER) -> dict[int, Json]:
    """All versions that were recorded, oldest first."""
    versions = sorted(int(file.stem) for file in folder.glob("*.json"))
    return {version: json.loads((folder / f"{version}.json").read_text(encoding="utf-8")) for version in versions}


def record(folder: Path = FOLDER) -> Path:
    """Write down the present version; raises LocalError when it was recorded otherwise already."""
    now = present()
    file = folder / f"{now['schemaVersion']}.json"
    if file.exists() and json.loads(file.read_text(encoding="utf-8")) != now:
        raise LocalError(
            f"{file.name} differs: a recorded version never changes. Raise SCHEMA_VERSION in shared/schema.py, "
            "and see docs/upgrading.md."
        )
    file.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    return file


if __name__ == "__main__":
    sys.exit(exit_status(lambda: print(record())))
