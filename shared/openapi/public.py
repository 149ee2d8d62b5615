"""The operations of the function `public`."""

from shared.core import errors
from shared.openapi.spec import Operation, json_content, object_of
from shared.web.parameters import Schema

PATH_PARAMETERS: dict[str, Schema] = {
    "asset": {"schema": {"type": "string", "enum": ["start.js", "swagger-ui-bundle.min.js", "swagger-ui.min.css"]}}
}

OPERATIONS: dict[str, Operation] = {
    "getHealth": Operation(
        "Check the service and its table",
        "For load balancers and monitors.",
        {
            200: {
                "description": "Both answer",
                **json_content(object_of({"status": {"type": "string", "const": "ok"}}), {"status": "ok"}),
            }
        },
    ),
    "getOpenApi": Operation(
        "This document",
        "OpenAPI 3.1.",
        {200: {"description": "The document", **json_content({"type": "object"}, {"openapi": "3.1.1"})}},
    ),
    "getDocs": Operation(
        "Interactive documentation",
        "Works offline.",
        {200: {"description": "A page", "content": {"text/html": {"schema": {"type": "string"}}}}},
    ),
    "getDocsAsset": Operation(
        "A file of the documentation",
        "Scripts and styles of the page.",
        {
            200: {
                "description": "The file",
                "content": {kind: {"schema": {"type": "string"}} for kind in ("text/javascript", "text/css")},
            }
        },
        (errors.NotFound,),
    ),
}
