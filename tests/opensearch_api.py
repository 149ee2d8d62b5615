"""Generator of tests/opensearch_api.json: the part of OpenSearch's API specification that the service's requests use.

    python -m tests.opensearch_api <folder with a clone of opensearch-project/opensearch-api-specification>

The specification has the licence Apache-2.0. The generator omits all properties that no request uses, and prohibits
additional properties, which the specification permits. A request with an unknown or misspelled option therefore fails.
"""

import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # its stubs are not installed

OPERATIONS = {
    "POST /{index}/_search": "_core",
    "POST /{index}/_mget": "_core",
    "POST /{index}/_count": "_core",
    "POST /{index}/_bulk": "_core",
    "PUT /{index}": "indices",
    "DELETE /{index}": "indices",
    "GET /{index}/_alias": "indices",
    "POST /_aliases": "indices",
    "POST /{index}/_refresh": "indices",
}
"""Namespace in the specification, by operation that the service sends."""
PROPERTIES = ("TextProperty", "KeywordProperty", "LongNumberProperty", "BooleanProperty", "ObjectProperty")
"""Types of fields in the mapping of the index."""
USED = frozenset(
    [
        "query",
        "bool",
        "must",
        "filter",
        "must_not",
        "should",
        "minimum_should_match",
        "constant_score",
        "boost",
        "dis_max",
        "queries",
        "tie_breaker",
        "term",
        "value",
        "ids",
        "values",
        "range",
        "gte",
        "lte",
        "fuzzy",
        "fuzziness",
        "rewrite",
        "prefix",
        "regexp",
        "flags",
        "match_phrase",
        "match_all",
        "sort",
        "order",
        "size",
        "_source",
        "track_total_hits",
        "version",
        "aggs",
        "terms",
        "filters",
        "field",
        "shard_size",
        "mappings",
        "settings",
        "dynamic",
        "excludes",
        "properties",
        "type",
        "analyzer",
        "norms",
        "enabled",
        "index_options",
        "index",
        "gc_deletes",
        "actions",
        "add",
        "alias",
        "aliases",
        "delete",
        "_id",
        "version_type",
    ]
)
"""Names of the properties that requests use."""


class Specification:
    """Files of the specification in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.shared: dict[str, Any] = {}
        self._read = cache(lambda path: yaml.safe_load(path.read_text(encoding="utf-8")))

    def operation(self, name: str, namespace: str) -> dict[str, Any]:
        """Return the parameters and the schema of the body of an operation."""
        verb, _, path = name.partition(" ")
        file = self._folder / "spec" / "namespaces" / f"{namespace}.yaml"
        described = self._read(file)["paths"][path][verb.lower()]
        parameters = (self._found(file, each["$ref"])[1] for each in described["parameters"])
        body: Any = {}
        if "requestBody" in described:
            at, content = self._found(file, described["requestBody"]["$ref"])
            (media,) = content["content"].values()
            body = self.reduced(at, media["schema"])
            if path.endswith("_bulk"):
                # The first schema of a line describes actions. Others describe documents, which have no schema.
                body = self._inlined(body)["items"]["anyOf"][0]
        common = self._read(self._folder / "spec" / "_global_parameters.yaml")["components"]["parameters"].values()
        names = [each["name"] for each in (*parameters, *common) if each["in"] == "query"]
        return {"parameters": sorted(names), "body": body}

    def _found(self, file: Path, reference: str) -> tuple[Path, Any]:
        other, _, inside = reference.partition("#/")
        file = (file.parent / other).resolve() if other else file
        found = self._read(file)
        for part in inside.split("/"):
            found = found[part]
        return file, found

    def reduced(self, file: Path, schema: Any) -> Any:
        """Return a schema without references and unused properties."""
        if "$ref" in schema:
            at, found = self._found(file, schema["$ref"])
            name = f"{at.stem}.{schema['$ref'].rpartition('/')[2]}"
            if name not in self.shared:
                self.shared[name] = {}  # the schema may refer to itself
                self.shared[name] = self.reduced(at, found)
            return {"$ref": f"#/$defs/{name}"}
        result: dict[str, Any] = {name: schema[name] for name in ("type", "enum", "const") if name in schema}
        for choice in ("oneOf", "anyOf"):
            if choice in schema:
                choices = [each for each in schema[choice] if self._is_used(each)]
                result["anyOf"] = [self.reduced(file, each) for each in choices]
        if "items" in schema:
            result["items"] = self.reduced(file, schema["items"])
        if "allOf" in schema:
            result |= self._merged(file, schema["allOf"])
        elif "anyOf" not in result and (schema.get("type") == "object" or "properties" in schema):
            result |= self._object(file, schema)
        return result

    @staticmethod
    def _is_used(choice: Mapping[str, Any]) -> bool:
        name = choice.get("$ref", "").rpartition("/")[2]
        return not name.endswith("Property") or name in PROPERTIES

    def _merged(self, file: Path, parts: list[Any]) -> dict[str, Any]:
        """Merge schemas that all apply to the same object into one schema."""
        properties: dict[str, Any] = {}
        required: list[str] = []
        for part in (self._inlined(self.reduced(file, each)) for each in parts):
            # The choices of an object, such as the kinds of an aggregation, have different properties.
            for choice in (part, *(self._inlined(choice) for choice in part.get("anyOf", ()))):
                properties |= choice.get("properties", {})
            required += part.get("required", [])
            if not properties and "anyOf" in part:
                return {"anyOf": part["anyOf"]}
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def _inlined(self, schema: dict[str, Any]) -> dict[str, Any]:
        return self.shared[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def _object(self, file: Path, schema: Mapping[str, Any]) -> dict[str, Any]:
        more = schema.get("additionalProperties", False)
        properties = {
            name: self.reduced(file, described)
            for name, described in schema.get("properties", {}).items()
            if name in USED
        }
        required = [name for name in schema.get("required", ()) if name in properties]
        more = self.reduced(file, more) if isinstance(more, dict) else bool(more) and not properties
        return {"properties": properties, "required": required, "additionalProperties": more}


def generate(folder: Path) -> dict[str, Any]:
    """Return the content of tests/opensearch_api.json."""
    specification = Specification(folder)
    operations = {name: specification.operation(name, namespace) for name, namespace in OPERATIONS.items()}
    return {
        "source": "https://github.com/opensearch-project/opensearch-api-specification",
        "licence": "Apache-2.0, Copyright OpenSearch Contributors; reduced by tests/opensearch_api.py",
        "operations": operations,
        "$defs": specification.shared,
    }


if __name__ == "__main__":
    content = json.dumps(generate(Path(sys.argv[1])), indent=1, sort_keys=True)
    Path(__file__).with_suffix(".json").write_text(content + "\n", encoding="utf-8")
