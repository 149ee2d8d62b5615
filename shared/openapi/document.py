"""OpenAPI 3.1 document, derived from the route table, the queries, the models and the error classes.

The other modules of this package, except `spec` and `problems`, each document operations of one function. Such a module
may define:

- `OPERATIONS`: documentation of operations, by operationId
- `TAG_DESCRIPTIONS`: description of the function's tag, by function. Only one module of a function defines it
- `PATH_PARAMETERS`: path parameters by name. Only one module defines each parameter
- `schemas()`: schemas of requests and responses, by name
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, get_args

import shared.queries
import shared.views.queries  # noqa: F401 -- the classes of both modules register themselves
from shared import openapi
from shared.core import errors
from shared.core.change_types import GROUPS, TYPES
from shared.core.errors import ServiceError
from shared.core.fields import Visibility
from shared.core.periods import WINDOWS
from shared.openapi import problems
from shared.openapi.spec import Operation, ref
from shared.routes import ROUTES, SCOPES, Route
from shared.video_fields import PROBED
from shared.videos.models import LiveStatus
from shared.videos.video import STATUSES
from shared.web.http import CHANGE_SET
from shared.web.parameters import Query, Schema
from shared.web.requests import LARGEST_BODY

_ORDER = (
    *("videos", "search", "uploads", "jobs", "playback", "views", "ratings", "relations", "captions", "playlists"),
    *("totals", "audit", "changes", "changesets", "history", "questions", "webhooks", "public"),
)
"""Names of this package's modules, in the order in which their tags appear. Modules that are not listed follow in
alphabetical order."""


def _modules() -> list[ModuleType]:
    """Return the modules of this package that document operations, in the order of `_ORDER`."""
    names = sorted(
        (module.name for module in iter_modules(openapi.__path__)),
        key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER),
    )
    modules = [import_module(f"{openapi.__name__}.{name}") for name in names]
    return [module for module in modules if hasattr(module, "OPERATIONS")]


def _declared(name: str) -> dict[str, Any]:
    """Return the merged mappings of this name, such as `OPERATIONS`, from all modules that define one."""
    return {key: value for module in _PARTS for key, value in vars(module).get(name, {}).items()}


_PARTS = _modules()
_OPERATIONS: dict[str, Operation] = _declared("OPERATIONS")
_PATH_PARAMETERS: dict[str, Schema] = {
    name: {"name": name, "in": "path", "required": True, **schema}
    for name, schema in _declared("PATH_PARAMETERS").items()
}
_SERVICE = "service"
"""Tag of the operations of the function `public`. All other operations have the name of their function as tag."""


_ALWAYS = [{"$ref": f"#/components/parameters/{parameter.name}"} for parameter in Query.parameters]
"""References to the query parameters that every operation has, except the operations without a token."""


_CHANGE_SET: Schema = {
    "description": "The id of the change set that the request wrote. A retry with the same Idempotency-Key returns the "
    "original id. Omitted from dry runs and if nothing changed",
    "schema": {"type": "string"},
    "example": "JKJaXmPLvHcESHA=",
}


_NAMED: dict[str, Schema] = {
    "Visibility": {"enum": list(get_args(Visibility))},
    "Status": {"enum": list(STATUSES), "description": "State of a video in its life cycle"},
    "LiveStatus": {"enum": list(get_args(LiveStatus)), "description": "Status of a video that is not deleted"},
    "Order": {"enum": ["desc", "asc"]},
    "ChangeType": {"enum": list(TYPES)},
    "ChangeTypes": {"enum": [*TYPES, *GROUPS], "description": "A change type, or all types of one entity"},
    "ProbedField": {"enum": list(PROBED), "description": "A field that the probe reads from the source video"},
    "FieldOrigin": {"enum": ["person", "job", "import"]},
    "AuthorKind": {"enum": ["person", "job", "service"]},
    "Granularity": {"enum": ["hour", "day"]},
    "Window": {"enum": list(WINDOWS)},
    "UnknownField": {"enum": ["viewCount"]},
}
"""Schemas of enumerations that occur several times in the document, by name. The document refers to these schemas."""


def _naming(schema: Any, names: Mapping[tuple[str, ...], str]) -> Any:
    """Return `schema`, a part of the document, with references in place of the enumerations in `names`.

    `names` maps the values of an enumeration to the name of its schema.
    """
    if isinstance(schema, list):
        return [_naming(element, names) for element in schema]
    if not isinstance(schema, dict):
        return schema
    name = names.get(tuple(schema["enum"])) if isinstance(schema.get("enum"), list) else None
    if name is None:
        return {key: _naming(value, names) for key, value in schema.items()}
    return {key: value for key, value in schema.items() if key not in ("type", "enum")} | ref(name)


@cache
def document() -> Schema:
    """Return the OpenAPI document. Callers must not change the document, because it is computed only once."""
    names = {tuple(schema["enum"]): name for name, schema in _NAMED.items()}
    whole: Schema = _naming(_document(), names)
    whole["components"]["schemas"] |= {name: {"type": "string"} | schema for name, schema in _NAMED.items()}
    return whole


def _document() -> Schema:
    paths: dict[str, Schema] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, _OPERATIONS[route.operation])
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Video metadata",
            "version": "1.0.0",
            "description": "Store, search and list metadata of videos; upload, process and play them. Manage captions, credits, "
            "releases, playlists and ratings; count views; audit and revert changes; subscribe to changes by feed or "
            f'webhook. The service returns errors as problem documents (RFC 9457, docs/errors.md), the gateway as `{{"message": '
            f"...}}`. A request body may have {LARGEST_BODY:,} bytes.",
            "contact": {"name": "Operators of this service"},
            "license": {"name": "All rights reserved", "identifier": "LicenseRef-All-rights-reserved"},
        },
        # Relative to this document, so that the URL is also valid behind a proxy that serves it below another path.
        "servers": [{"url": "."}],
        "tags": [
            {"name": name, "description": description} for name, description in _declared("TAG_DESCRIPTIONS").items()
        ],
        "paths": paths,
        "components": {
            "schemas": {
                name: schema for part in _PARTS if hasattr(part, "schemas") for name, schema in part.schemas().items()
            }
            | problems.SCHEMAS,
            "headers": {"ChangeSet": _CHANGE_SET},
            "parameters": {parameter.name: parameter.document() for parameter in Query.parameters},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "Scopes: "
                    + "; ".join(f"`{name}` ({meaning.lower()})" for name, meaning in SCOPES.items()),
                }
            },
        },
    }


def _operation(route: Route, operation: Operation) -> Schema:
    spec: Schema = {
        "operationId": route.operation,
        "tags": [_SERVICE if route.scope is None else route.function],
        "summary": operation.summary,
        "description": f"{operation.description} Requires the scope `{route.scope}`.".lstrip()
        if route.scope
        else operation.description,
        "responses": _responses(route, operation),
    }
    path = [_PATH_PARAMETERS[name] for name in re.findall(r"{(\w+)}", route.path)]
    query = [
        parameter.document() for parameter in Query.of(route.operation).parameters if parameter not in Query.parameters
    ]
    parameters = [*path, *query, *operation.headers, *(_ALWAYS if route.scope else ())]
    if parameters:
        spec["parameters"] = parameters
    if operation.body:
        spec["requestBody"] = operation.body
    spec["security"] = [{"token": []}] if route.scope else []
    return spec


def _responses(route: Route, operation: Operation) -> Schema:
    by_status: dict[int, list[type[ServiceError]]] = {}
    # A bug can make any operation fail. All except the static operations also need the table or Athena, which may be
    # unavailable.
    always: tuple[type[ServiceError], ...] = (errors.InternalError,)
    if (route.scope and route.operation != "listQuestions") or route.operation == "getHealth":
        always += (errors.Unavailable,)
    for error in dict.fromkeys(operation.errors + always):
        by_status.setdefault(error.status, []).append(error)
    responses: Schema = {str(status): response for status, response in operation.responses.items()}
    if route.makes_change_set:
        named = {CHANGE_SET: {"$ref": "#/components/headers/ChangeSet"}}
        responses = {
            status: response | {"headers": response.get("headers", {}) | named}
            for status, response in responses.items()
        }
    gateway = {status for status in problems.gateway_statuses() if route.scope or status != 401}
    if not operation.body:
        gateway.discard(413)
    for status in sorted(by_status.keys() | gateway):
        responses[str(status)] = problems.error_response(
            status, by_status.get(status, []), from_gateway=status in gateway
        )
    return responses
