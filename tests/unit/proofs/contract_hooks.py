"""Hooks of schemathesis for `test_openapi_contract`. They call the functions in the process of schemathesis.

Servers and connections would take a third of the CPU time of a run.
"""

import gc
import io
import re
import threading
import uuid
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
import schemathesis
from moto import mock_aws
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3 import HTTPHeaderDict, HTTPResponse

from local.testbed.harness import MEDIA_BUCKET, SOURCES_BUCKET, Reply, create_audit_table, create_table, make_api
from local.testbed.lean_moto import MotoClient, create_buckets, install
from shared.aws.boto3_client import make_client
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.aws.s3 import make_client as make_s3_client
from shared.schema import AUDIT_TABLE_NAME

gc.set_threshold(100_000, 50, 100)  # garbage collection with the default thresholds takes 10 percent of the CPU time
schemathesis.serializer.alias(["text/vtt", "application/x-subrip"], "text/plain")


class Functions(BaseAdapter):
    """Adapter that calls the functions sequentially, with tables and buckets that are empty at first. A token is the
    name of its user."""

    def __init__(self) -> None:
        super().__init__()
        install(pytest.MonkeyPatch())
        mock_aws().start()
        client = MotoClient("http://moto.invalid", make_client())
        create_table(client, "VideoMetadata")
        create_audit_table(client, AUDIT_TABLE_NAME)
        create_buckets(SOURCES_BUCKET, MEDIA_BUCKET)
        table = Table("VideoMetadata", client, sleep=lambda _: None)
        self._api = make_api(table, objects=Objects(make_s3_client(), sleep=lambda _: None))
        self._turn = threading.Lock()

    def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:
        """Call the function of the request's route, as the gateway does."""
        reply = self._handle(request)
        raw: Any = HTTPResponse(
            io.BytesIO(b"" if request.method == "HEAD" else reply.body),
            HTTPHeaderDict({**reply.headers, "content-length": str(len(reply.body))}),
            reply.status,
            version=11,
            preload_content=False,
        )
        return HTTPAdapter().build_response(request, raw)

    def close(self) -> None:
        """Do nothing, because there is no connection."""

    def _handle(self, request: requests.PreparedRequest) -> Reply:
        method, url = str(request.method), urlsplit(request.path_url)
        body: Any = request.body
        headers = {name: _as_sent(value) for name, value in request.headers.items()}
        user = re.fullmatch(r"Bearer (alice|admin)", headers.get("Authorization", ""))
        if user is None and self._api.is_protected(method, url.path):
            return Reply(401, {"content-type": "application/json"}, b'{"message":"Unauthorized"}')
        with self._turn:
            return self._api.request(
                method, url.path, body=body, query=url.query, headers=headers, user=user[1] if user else ""
            )


def _as_sent(value: str | bytes) -> str:
    return (value.decode("latin-1") if isinstance(value, bytes) else value).strip(" \t")


_functions = Functions()
requests.Session.get_adapter = lambda *_, **__: _functions  # type: ignore[method-assign]
requests.Session.merge_environment_settings = lambda *_: {}  # type: ignore[method-assign]


@schemathesis.hook
def before_load_schema(context: schemathesis.HookContext, raw_schema: dict[str, Any]) -> None:
    """Remove examples and schemas whose requests would find no further faults."""
    schemas = raw_schema["components"]["schemas"]
    # Three regions find the same faults. Otherwise every parameter with a region would be tested with all 292.
    schemas["SomeRegion"] = {**schemas["Region"], "enum": schemas["Region"]["enum"][::100]}
    # The requests for single videos already vary each field of a video.
    title = {"type": "object", "properties": {"title": {"type": "string", "pattern": "^[a-z]{1,9}$"}}}
    schemas["CreateOperation"]["properties"]["video"] = {**title, "required": ["title"]}
    schemas["UpsertOperation"]["properties"]["video"] = {**title, "required": ["title"]}
    schemas["PatchOperation"]["properties"]["patch"] = title
    for path in raw_schema["paths"].values():
        for operation in path.values():
            # One parser reads both content types of a patch, which have the same schema.
            content = operation.get("requestBody", {}).get("content", {}) if isinstance(operation, dict) else {}
            if "application/json" in content:
                content.pop("application/merge-patch+json", None)
            for parameter in operation.get("parameters", ()) if isinstance(operation, dict) else ():
                if parameter.get("schema", {}).get("$ref") == "#/components/schemas/Region":
                    parameter["schema"] = {"$ref": "#/components/schemas/SomeRegion"}
    for schema in schemas.values():
        _remove_other_keywords(schema)


def _remove_other_keywords(schema: Any) -> None:
    """Remove the format from schemas that also have a pattern, because the pattern is stricter.

    Generating texts that violate only one of the two takes 5 s.
    """
    if isinstance(schema, dict):
        if "pattern" in schema and schema.get("format") == "json-pointer":
            del schema["format"]
        for part in schema.values():
            _remove_other_keywords(part)
    elif isinstance(schema, list):
        for part in schema:
            _remove_other_keywords(part)


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]) -> None:
    """Send each request with its own idempotency key."""
    # A reused key with another body would correctly be refused. If this hook changed the headers of a case without a
    # token, schemathesis would generate the headers again, and add the token.
    without_token = getattr(case.meta.phase.data, "parameter", None) == "Authorization" if case.meta else False
    if not without_token and re.fullmatch("[!-~]{1,255}", case.headers.get("Idempotency-Key", "")):
        case.headers["Idempotency-Key"] = str(uuid.uuid4())


@schemathesis.hook
def after_call(
    context: schemathesis.HookContext, case: schemathesis.Case[Any], response: schemathesis.Response
) -> None:
    """Delete each webhook immediately, because the number of webhooks per user is limited."""
    if case.operation.label == "POST /v1/webhooks" and response.status_code == 201:
        sent = response.request
        path = f"{str(sent.url).partition('?')[0]}/{response.json()['webhookId']}"
        token = {"Authorization": sent.headers["Authorization"]}
        requests.delete(path, headers=token)  # noqa: S113 -- a call.raise_for_status()
