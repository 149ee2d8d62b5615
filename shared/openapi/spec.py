"""Parts of the OpenAPI document that several modules of this package use."""

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
    """Return a reference to the schema with this name in the components of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def header(name: str, description: str, schema: Schema) -> Schema:
    """Return the parameter object of a request header."""
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
    """Documentation of one operation, in addition to its route."""

    summary: str
    description: str
    responses: dict[int, Schema]
    errors: tuple[type[ServiceError], ...] = ()
    headers: tuple[Schema, ...] = ()
    """Request headers. The route declares the path parameters. The query class of the operation (shared/queries.py)
    declares the query parameters."""
    body: Schema | None = None


def json_content(schema: Schema, example: Any) -> Schema:
    """Return the `content` member of a JSON request body or response, with its schema and an example."""
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
"""Errors of operations that can read an earlier version of a video."""
BODY_ERRORS = (errors.MalformedJson, errors.ContentTooLarge, errors.UnsupportedMediaType, errors.InvalidContent)


NEXT_CURSOR: Schema = {"type": ["string", "null"], "maxLength": LONGEST}
LINK: Schema = {"Link": {"description": "The next page, if any: `rel=next`", "schema": {"type": "string"}}}


def model_schemas(*models: type[BaseModel], prefix: str = "") -> Schema:
    """Return the schemas of request models, and of the models of their fields, by name.

    References between the schemas have `prefix` before the name.
    """
    _, definitions = models_json_schema(
        [(model, "validation") for model in models], ref_template=f"#/components/schemas/{prefix}{{model}}"
    )
    schemas: Schema = {name: tidied(definition) for name, definition in definitions["$defs"].items()}
    return schemas


def shown_schemas(*models: type[BaseModel]) -> Schema:
    """Return the schemas of request models for use in responses. A schema's name is `Shown` followed by the name of the
    model.

    Fields of a response are never null. A field that does not accept null in a request is required in the response,
    because the service stores its default.
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
    """Return the schema of an object with only these properties. All are required, except the ones in `optional`."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def page_of(*names: str) -> Schema:
    """Return the schema of a page of a list. `names` are the names of schemas. Each item of the page matches one of
    them."""
    first, *further = map(ref, names)
    items = {"anyOf": [first, *further]} if further else first
    return object_of({"items": {"type": "array", "items": items, "maxItems": LONGEST_PAGE}, "nextCursor": NEXT_CURSOR})


def tidied(schema: Any) -> Any:
    """Return a schema of pydantic without superfluous keywords, in the form that client generators expect."""
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
        # pydantic's schema allows keys that do not match the pattern, although pydantic rejects them.
        ((pattern, value),) = tidy.pop("patternProperties").items()
        tidy["propertyNames"] = tidy.get("propertyNames", {}) | {"pattern": pattern}
        tidy["additionalProperties"] = value
    return tidy


_NOISE = ("title", "default")
"""JSON Schema keywords that pydantic adds and `tidied` removes.

Titles only repeat the names. In a merge patch, a default of null would mean that the field is removed. Client
generators treat fields with a default as required.
"""


_NULL: Schema = {"type": "null"}


def _never_null(field: Schema) -> Schema:
    plain = dict(field)
    options = [option for option in plain.pop("anyOf", []) if option != _NULL]
    if len(options) == 1:
        (only,) = options
        return {**only, **plain}
    return plain | ({"anyOf": options} if options else {})
