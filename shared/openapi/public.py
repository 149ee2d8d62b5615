"""OpenAPI documentation of the operations of the function `public`: the operations that need no token."""

from shared.core import errors
from shared.openapi.spec import Operation, json_content, object_of
from shared.web.parameters import Schema

PATH_PARAMETERS: dict[str, Schema] = {
    "asset": {"schema": {"type": "string", "enum": ["start.js", "swagger-ui-bundle.min.js", "swagger-ui.min.css"]}}
}

TAG_DESCRIPTIONS = {"service": "Health and documentation, without a token"}
OPERATIONS: dict[str, Operation] = {
    "getHealth": Operation(
        "Check the service and its table",
        "For load balancers and monitors.",
        {
            200: {
                "description": "The service and its table are available",
                **json_content(object_of({"status": {"type": "string", "const": "ok"}}), {"status": "ok"}),
            }
        },
    ),
    "getOpenApi": Operation(
        "Get the OpenAPI document",
        "Returns this document, in OpenAPI 3.1.",
        {200: {"description": "The document", **json_content({"type": "object"}, {"openapi": "3.1.1"})}},
    ),
    "getDocs": Operation(
        "Get the interactive documentation",
        "The page works offline.",
        {200: {"description": "A page", "content": {"text/html": {"schema": {"type": "string"}}}}},
    ),
    "getDocsAsset": Operation(
        "Get a file of the documentation",
        "Serves the scripts and styles of the page.",
        {
            200: {
                "description": "The file",
                "content": {kind: {"schema": {"type": "string"}} for kind in ("text/javascript", "text/css")},
            }
        },
        (errors.NotFound,),
    ),
}
