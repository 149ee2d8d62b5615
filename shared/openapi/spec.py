"""Building blocks of the OpenAPI document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from shared.core import errors
from shared.core.errors import ServiceError
from shared.videos.video import STATUSES
from shared.web.cursors import LONGEST
from shared.web.paging import LONGEST_PAGE
from shared.web.parameters import Schema
from shared.web.requests import JSON, LONGEST_KEY

EXAMPLE_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
STATUS: Schema = {"type": "string", "enum": list(STATUSES)}
SECONDS: Schema = {"type": "integer", "minimum": 0, "description": "Epoch seconds"}


def ref(name: str) -> Schema:
    """Return a reference to a schema of the components."""
    return {"$ref": f"#/components/schemas/{name}"}


def header(name: str, description: str, schema: Schema) -> Schema:
    """Return a request header."""
    return {"name": name, "in": "header", "description": description, "schema": schema}


KEY = header(
    "Idempotency-Key",
    "Identifies a request for 24 hours per caller and operation: it is executed once, and retries return its response.",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"},
)
IF_MATCH = header(
    "If-Match",
    'The video\'s ETag, or only its version such as `"3"`, for a conditional write; without it, the last write wins.',
    {"type": "string"},
)
IF_NONE_MATCH = header(
    "If-None-Match",
    "A cached ETag: 304 if it is still current.",
    {"type": "string"},
)


@dataclass(frozen=True)
class Operation:
    """Documentation of one operation, except its route."""

    summary: str
    description: str
    responses: dict[int, Schema]
    errors: tuple[type[ServiceError], ...] = ()
    headers: tuple[Schema, ...] = ()
    """Request headers. The route declares the path parameters, and the operation's query class (shared/queries.py) the query parameters."""
    body: Schema | None = None


def json_content(schema: Schema, example: Any) -> Schema:
    """Return the content of a JSON body or response with its example."""
    return {"content": {JSON: {"schema": schema, "example": example}}}


ETAG: Schema = {
    "description": 'The version and a hash of this representation. If-Match compares only the version, so `"3"` suffices. '
    "If-None-Match compares the whole ETag, which differs between GET and PATCH or restore.",
    "schema": {"type": "string"},
    "example": '"3.0f1e2d3c4b5a6978"',
}
EMPTY_BODY: Schema = {"required": False, "content": {JSON: {"schema": ref("NoContent"), "example": {}}}}
CHANGE_ERRORS = (
    errors.InvalidParameter,
    errors.Forbidden,
    errors.NotFound,
    errors.WriteContention,
    errors.VersionMismatch,
)
PAST_ERRORS = (
    errors.InvalidParameter,
    errors.Forbidden,
    errors.NotFound,
    errors.LimitReached,
    errors.Gone,
    errors.TrailBehind,
)
"""Errors of reading an earlier version of a video."""
BODY_ERRORS = (errors.MalformedJson, errors.ContentTooLarge, errors.UnsupportedMediaType, errors.InvalidContent)


NEXT_CURSOR: Schema = {"type": ["string", "null"], "maxLength": LONGEST}
LINK: Schema = {"Link": {"description": "The next page, if any: `rel=next`", "schema": {"type": "string"}}}


def model_schemas(*models: type[BaseModel], prefix: str = "") -> Schema:
    """Return the schemas of request models and their parts by model name. References begin with the prefix."""
    _, definitions = models_json_schema(
        [(model, "validation") for model in models], ref_template=f"#/components/schemas/{prefix}{{model}}"
    )
    schemas: Schema = {name: tidied(definition) for name, definition in definitions["$defs"].items()}
    return schemas


def shown_schemas(*models: type[BaseModel]) -> Schema:
    """Return the schemas of these models and their parts as responses show them, named `Shown` and the model name.

    Responses contain no null. A field that does not accept null is required, because its default is stored.
    """
    schemas: Schema = {}
    for name, schema in model_schemas(*models, prefix="Shown").items():
        fields = schema["properties"]
        optional = [field for field, part in fields.items() if _NULL in part.get("anyOf", ())]
        schemas[f"Shown{name}"] = object_of(
            {field: _never_null(part) for field, part in fields.items()}, optional=optional
        )
    return schemas


def object_of(properties: Schema, *, optional: Sequence[str] = ()) -> Schema:
    """Return the schema of an object that has these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def page_of(*names: str) -> Schema:
    """Return the schema of a page. Its items have the first of these schemas, or one of the others."""
    first, *further = map(ref, names)
    items = {"anyOf": [first, *further]} if further else first
    return object_of({"items": {"type": "array", "items": items, "maxItems": LONGEST_PAGE}, "nextCursor": NEXT_CURSOR})


def tidied(schema: Any) -> Any:
    """Return a schema of pydantic without noise, in the form that OpenAPI clients expect."""
    if isinstance(schema, list):
        return [tidied(element) for element in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {
        name: {field: tidied(part) for field, part in value.items()} if name == "properties" else tidied(value)
        for name, value in schema.items()
        if name not in _NOISE
    }
    if "patternProperties" in tidy:
        # pydantic leaves keys that match no pattern open, but refuses them.
        ((pattern, value),) = tidy.pop("patternProperties").items()
        tidy["propertyNames"] = tidy.get("propertyNames", {}) | {"pattern": pattern}
        tidy["additionalProperties"] = value
    return tidy


_NOISE = ("title", "default")
"""Keywords to remove. Titles repeat the names. A default of null would read as "removes" in a merge patch. Client generators
treat fields with a default as required."""


_NULL: Schema = {"type": "null"}


def _never_null(field: Schema) -> Schema:
    plain = dict(field)
    options = [option for option in plain.pop("anyOf", []) if option != _NULL]
    if len(options) == 1:
        (only,) = options
        return {**only, **plain}
    return plain | ({"anyOf": options} if options else {})
