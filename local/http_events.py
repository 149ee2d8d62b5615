"""HTTP events in the format of API Gateway (payload 2.0), for event examples, tests and benchmarks."""

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from shared.routes import Route
from shared.web.requests import JSON

Event = dict[str, Any]

ACCOUNT = "123456789012"
REGION = "us-east-1"
API_ID = "a1b2c3d4e5"
DOMAIN = f"{API_ID}.execute-api.{REGION}.amazonaws.com"
TEXT_TYPES = ("text/", JSON, "application/xml", "application/javascript")
"""Prefixes of the content types whose bodies API Gateway passes as text. It encodes all other bodies in base64, including
`application/merge-patch+json`."""


def http_event(
    method: str,
    path: str,
    route: Route | None,
    *,
    key: str = "$default",
    params: Mapping[str, str] | None = None,
    query: str = "",
    body: str | bytes | None = None,
    headers: Mapping[str, str],
    cookies: Sequence[str] = (),
    claims: Mapping[str, str] | None = None,
    request_id: str,
    at: int,
) -> Event:
    """Return the event of a request.

    `path` and `params`, the path parameters, are decoded. `key` is the route key if the request has no route of the
    API. `headers` have lowercase names. `claims` are the claims of the token; requests without a token have none. `at`
    is in seconds since the epoch.
    https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
    """
    route_key = route.key if route else key
    return {
        "version": "2.0",
        "routeKey": route_key,
        "rawPath": path,
        "rawQueryString": query,
        **({"cookies": list(cookies)} if cookies else {}),
        "headers": dict(headers),
        **({"queryStringParameters": _joined(query)} if query else {}),
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": API_ID,
            **({"authorizer": {"jwt": {"claims": dict(claims), "scopes": None}}} if claims is not None else {}),
            "domainName": DOMAIN,
            "domainPrefix": API_ID,
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.10",
                "userAgent": headers.get("user-agent", ""),
            },
            "requestId": request_id,
            "routeKey": route_key,
            "stage": "$default",
            "time": datetime.fromtimestamp(at, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "timeEpoch": at * 1000,
        },
        **({"pathParameters": dict(params)} if params else {}),
        **_body(body, headers.get("content-type", "")),
    }


def _body(body: str | bytes | None, content_type: str) -> Event:
    """Return the part of an event that contains the body."""
    if body is None:
        return {"isBase64Encoded": False}
    if isinstance(body, str) and content_type.startswith(TEXT_TYPES):
        return {"body": body, "isBase64Encoded": False}
    content = body.encode() if isinstance(body, str) else body
    return {"body": base64.b64encode(content).decode(), "isBase64Encoded": True}


def _joined(query: str) -> dict[str, str]:
    """Return the query parameters by name. Values of a repeated parameter are joined with commas, as API Gateway does."""
    values: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        values[name] = f"{values[name]},{value}" if name in values else value
    return values
