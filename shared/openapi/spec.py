"""What the parts of the OpenAPI document are made with."""

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
    """A schema of the components by name."""
    return {"$ref": f"#/components/schemas/{name}"}


def header(name: str, description: str, schema: Schema) -> Schema:
    """A request header."""
    return {"name": name, "in": "header", "description": description, "schema": schema}


KEY = header(
    "Idempotency-Key",
    "Makes a retry safe for 24 hours: the request is carried out once, and a retry gets the same answer. A key belongs "
    "to one caller and operation.",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"},
)
IF_MATCH = header(
    "If-Match",
    'An ETag of the video, or its version alone such as `"3"`: change it only if it still has that version. Without '
    "it, the last change wins.",
    {"type": "string"},
)
IF_NONE_MATCH = header(
    "If-None-Match",
    "An ETag that you have: 304 when nothing has changed.",
    {"type": "string"},
)


@dataclass(frozen=True)
class Operation:
    """What the document says of one operation besides its route."""

    summary: str
    description: str
    answers: dict[int, Schema]
    errors: tuple[type[ServiceError], ...] = ()
    headers: tuple[Schema, ...] = ()
    """Request headers. The other parameters are those of the route's path and of the operation's query (shared/queries.py)."""
    body: Schema | None = None


def json_content(schema: Schema, example: Any) -> Schema:
    """A JSON body or answer with its example."""
    return {"content": {JSON: {"schema": schema, "example": example}}}


ETAG: Schema = {
    "description": 'The version and a hash of this representation. If-Match compares the version alone, so `"3"` '
    "will do. If-None-Match compares all of it; the ETag of a PATCH or restore is not that of a GET, as their answers "
    "have no `viewCount`.",
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
"""What reading the past of a video may be refused with."""
BODY_ERRORS = (errors.MalformedJson, errors.ContentTooLarge, errors.UnsupportedMediaType, errors.InvalidContent)


NEXT_CURSOR: Schema = {"type": ["string", "null"], "maxLength": LONGEST}
LINK: Schema = {"Link": {"description": "The next page, if any: `rel=next`", "schema": {"type": "string"}}}


def model_schemas(*models: type[BaseModel], prefix: str = "") -> Schema:
    """The schemas of request bodies and their parts, by the names of their models; references begin with the prefix."""
    _, definitions = models_json_schema(
        [(model, "validation") for model in models], ref_template=f"#/components/schemas/{prefix}{{model}}"
    )
    schemas: Schema = {name: tidied(definition) for name, definition in definitions["$defs"].items()}
    return schemas


def shown_schemas(*models: type[BaseModel]) -> Schema:
    """What answers show of what was sent as these models, and of its parts, by `Shown` and the names of the models.

    Nothing is null in an answer, and all that could not be sent as null is there: what has another default is stored.
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
    """An answer that has these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def page_of(*names: str) -> Schema:
    """A page of a list, whose items have the first of these schemas, or another of them."""
    first, *others = map(ref, names)
    items = {"anyOf": [first, *others]} if others else first
    return object_of({"items": {"type": "array", "items": items, "maxItems": LONGEST_PAGE}, "nextCursor": NEXT_CURSOR})


def tidied(schema: Any) -> Any:
    """What pydantic makes, said as OpenAPI's readers expect it."""
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
"""Titles only repeat the names. A default of null would read as "removes" in a merge patch, and generators of clients
take any field with a default for one that must be sent."""


_NULL: Schema = {"type": "null"}


def _never_null(field: Schema) -> Schema:
    plain = dict(field)
    options = [option for option in plain.pop("anyOf", []) if option != _NULL]
    if len(options) == 1:
        (only,) = options
        return {**only, **plain}
    return plain | ({"anyOf": options} if options else {})
