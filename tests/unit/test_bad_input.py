"""Invalid requests: each gets a problem document that names the fault, never a 500, and causes no DynamoDB request."""

import json
from typing import Any

import pytest

from local.testbed.harness import MEDIA_BUCKET, Api, Context, Reply, make_event, record_operations
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.routes import ROUTES
from shared.videos.links import Links
from shared.web.requests import LARGEST_BODY

JSON = {"Content-Type": "application/json"}


def _assert_problem(reply: Reply, status: int, slug: str) -> None:
    assert reply.status == status, reply.body
    assert reply.headers["content-type"] == "application/problem+json"
    body = reply.json
    assert body["status"] == status
    assert body["type"] == f"urn:video-metadata:problem:{slug}"
    assert set(body) <= {"type", "title", "status", "detail", "errors"}
    assert "Traceback" not in body["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"title": "a"} trailing',
        b'{"title": "\xff"}',
        b'{"title": "\\ud800"}',
        b'{"title": "\\udc00\\ud800"}',
        b"\xef\xbb\xbf",
        b"[" * 100_000,
        b'{"title": undefined}',
        b"{'title': 'a'}",
        '{"title": "a"}'.encode("utf-16"),
    ],
    ids=lambda body: repr(body[:20]),
)
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_malformed_json_is_400(api: Api, table: Table, method: str, body: bytes) -> None:
    path = "/v1/videos" if method == "POST" else "/v1/videos/3f2504e0-4f89-41d3-9a0c-0305e82c3301"
    with record_operations(table.client) as operations:
        reply = api.request(method, path, body=body, headers=JSON)
    _assert_problem(reply, 400, "malformed-json")
    assert operations == []


@pytest.mark.parametrize("body", [[], "text", 1, None, True, [{"title": "a"}]], ids=str)
def test_json_that_is_not_an_object_is_422(api: Api, body: Any) -> None:
    reply = api.request("POST", "/v1/videos", body=json.dumps(body), headers=JSON)
    _assert_problem(reply, 422, "invalid-content")
    assert reply.json["errors"][0]["pointer"] == ""


LONG = "x" * 6000
INVALID_URLS = [
    "javascript:alert(1)",
    'https://a"onerror="x',
    'https://example.com/a"onerror="x',
    "https://example.com/'onerror='x",
    "https://example.com/<script>",
    "https://example.com/a b",
    "https://example.com/a%zz",
    "https://example.com/\N{CLAPPER BOARD}",
    "https://\N{CLAPPER BOARD}.example",
    "https://example.com\\@evil.example/",
    "https://user@example.com/",
    "https://user:password@example.com/",
    "https://EXAMPLE.com/",
    "https://example.com:443/",
    "https://example.com:65536/",
    "https://example.com/a/../b",
    "https://example.com/%2e%2e/b",
    "https://0x7f.1/",
    "https://a..b/%",
    "https:///a",
    "//example.com/a",
    "HTTPS://example.com/a",
    "http://example.com/a",
    "ftp://example.com/a",
    "data:image/png;base64,AAAA",
    's3://bucket/a"onerror="x',
    "s3://Bucket/a",
]
"""Invalid thumbnail URLs: URL parsers refuse or normalise them, or their scheme is not accepted."""
BAD_FIELDS: list[tuple[str, Any, str]] = [
    ("externalId", "", "/externalId"),
    ("externalId", "x" * 201, "/externalId"),
    ("externalId", "a\nb", "/externalId"),
    ("folder", "", "/folder"),
    ("folder", "a//b", "/folder"),
    ("folder", "a/../b", "/folder"),
    ("folder", "a/b/c/d/e/f/g/h/i/j/k", "/folder"),
    ("folder", "x" * 201, "/folder"),
    ("slug", "", "/slug"),
    ("slug", "Upper", "/slug"),
    ("slug", "a--b", "/slug"),
    ("slug", "-a", "/slug"),
    ("slug", "a" * 101, "/slug"),
    ("title", "", "/title"),
    ("title", "   ", "/title"),
    ("title", "x" * 301, "/title"),
    ("title", "a\x00b", "/title"),
    ("title", "a\nb", "/title"),
    ("title", "\x7f", "/title"),
    ("frameRate", 0, "/frameRate"),
    ("frameRate", 5e-324, "/frameRate"),
    ("frameRate", 1000.5, "/frameRate"),
    ("title", "a\x85b", "/title"),
    ("title", "a\u2028b", "/title"),
    ("title", "\xa0\u200b\ufeff", "/title"),
    ("title", 7, "/title"),
    ("title", ["a"], "/title"),
    ("description", LONG, "/description"),
    ("description", "a\x1b[31m", "/description"),
    ("duration", "354000", "/duration"),
    ("duration", -1, "/duration"),
    ("duration", 1.5, "/duration"),
    ("duration", True, "/duration"),
    ("duration", 2**53, "/duration"),
    ("duration", 10**400, "/duration"),
    ("fileSize", -1, "/fileSize"),
    ("resolutions", [], "/resolutions"),
    ("resolutions", {"1080p": "http://example.com/a"}, "/resolutions/1080p"),
    ("resolutions", {"1080p": "s3://B/a"}, "/resolutions/1080p"),
    ("resolutions", {"1080p": "s3://bucket"}, "/resolutions/1080p"),
    ("resolutions", {"1080p": "s3://bucket/" + LONG}, "/resolutions/1080p"),
    ("resolutions", {"a/b": "s3://bucket/a"}, "/resolutions/a~1b"),
    ("resolutions", {"": "s3://bucket/a"}, "/resolutions/"),
    ("resolutions", {f"r{n}": "s3://bucket/a" for n in range(21)}, "/resolutions"),
    ("tags", ["a", "a"], "/tags"),
    ("tags", [""], "/tags/0"),
    ("tags", ["a", 1], "/tags/1"),
    ("tags", ["x" * 65], "/tags/0"),
    ("tags", [str(n) for n in range(31)], "/tags"),
    ("tags", "a,b", "/tags"),
    ("category", "", "/category"),
    ("category", "x" * 101, "/category"),
    ("releaseYear", 0, "/releaseYear"),
    ("releaseYear", "1985", "/releaseYear"),
    ("releaseYear", 10_000, "/releaseYear"),
    ("language", "english!", "/language"),
    ("language", "", "/language"),
    ("visibility", "secret", "/visibility"),
    ("status", "deleted", "/status"),
    ("status", "READY", "/status"),
    ("publishAt", "2026-01-01T00:00:00Z", "/publishAt"),
    ("expiresAt", 253402300800, "/expiresAt"),
    ("expiresAt", -1, "/expiresAt"),
    ("metadata", {"": 1}, "/metadata/"),
    ("metadata", {"k" * 65: 1}, "/metadata/" + "k" * 65),
    ("metadata", {"k": [1]}, "/metadata/k"),
    ("metadata", {"k": {"deep": 1}}, "/metadata/k"),
    ("metadata", {"k": "x" * 513}, "/metadata/k"),
    ("metadata", {"k": 2**53}, "/metadata/k"),
    ("metadata", {"k": 10**400}, "/metadata/k"),
    ("metadata", {"k": "\x1b[31m"}, "/metadata/k"),
    ("metadata", {"k": "\x00"}, "/metadata/k"),
    ("metadata", {"k": 1e300}, "/metadata/k"),
    ("metadata", {"k": 1e-300}, "/metadata/k"),
    ("metadata", {f"k{n}": 1 for n in range(51)}, "/metadata"),
    ("thumbnails", {"poster": "https://example.com"}, "/thumbnails/poster"),
    *(("thumbnails", {"poster": {"url": url}}, "/thumbnails/poster/url") for url in INVALID_URLS),
    *(
        ("resolutions", {"1080p": f"s3://bucket/a{character}b"}, "/resolutions/1080p")
        for character in '"<>\\`\n\x85\u2028'
    ),
    ("thumbnails", {"poster": {"url": "https://e.com", "width": 0}}, "/thumbnails/poster/width"),
    ("thumbnails", {"poster": {"url": "https://e.com", "extra": 0}}, "/thumbnails/poster/extra"),
    ("version", 1, "/version"),
    ("viewCount", 1, "/viewCount"),
    ("purgeAt", 1, "/purgeAt"),
    ("unknown", 1, "/unknown"),
    ("pk", "VIDEO#x", "/pk"),
    ("rel", "FEED", "/rel"),
]


@pytest.mark.parametrize(
    ("field", "value", "pointer"), BAD_FIELDS, ids=[f"{f}={str(v)[:20]}" for f, v, _ in BAD_FIELDS]
)
def test_invalid_field_is_named_by_its_pointer(api: Api, table: Table, field: str, value: Any, pointer: str) -> None:
    with record_operations(table.client) as operations:
        created = api.post("/v1/videos", {"title": "t"} | {field: value})
        changed = api.patch("/v1/videos/3f2504e0-4f89-41d3-9a0c-0305e82c3301", {field: value})

    _assert_problem(created, 422, "invalid-content")
    assert [error["pointer"] for error in created.json["errors"]] == [pointer]
    # A patch may name entries that it deletes. The store therefore checks the number of entries after it applied the
    # patch.
    too_many_entries = isinstance(value, dict) and len(value) in (21, 51)
    _assert_problem(changed, *((404, "not-found") if too_many_entries else (422, "invalid-content")))
    assert [operation.name for operation in operations] == (["GetItem"] if too_many_entries else [])


@pytest.mark.parametrize(
    ("field", "value"), [("videoId", "no-uuid"), ("userId", ""), ("createdAt", -1), ("createdAt", "now")]
)
def test_invalid_value_from_an_admin_is_422(api: Api, field: str, value: Any) -> None:
    reply = api.post("/v1/videos", {"title": "t", field: value}, user="admin")
    _assert_problem(reply, 422, "invalid-content")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ['"duration"', '"metadata": {"k"'])
def test_invalid_number_is_422(api: Api, field: str, number: str) -> None:
    body = f'{{"title": "t", {field}: {number}{"}" if "{" in field else ""}}}'
    reply = api.request("POST", "/v1/videos", body=body, headers=JSON)
    _assert_problem(reply, 422, "invalid-content")


@pytest.mark.parametrize(
    "body",
    [
        {f"{n}": 1 for n in range(20_000)},
        {"title": "t", "metadata": {f"{n}": [] for n in range(15_000)}},
        {"title": "t", "thumbnails": {"p": {f"{n}": 1 for n in range(15_000)}}},
        {"x" * 500_000: 1},
    ],
    ids=["fields", "metadata", "thumbnails", "long name"],
)
def test_response_lists_a_limited_number_of_faults(api: Api, body: dict[str, Any]) -> None:
    # Lambda responses are limited to 6 MB. A longer list of faults would become a 500 of the gateway.
    reply = api.post("/v1/videos", body)
    _assert_problem(reply, 422, "invalid-content")
    assert len(reply.body) < 50_000
    assert len(reply.json["errors"]) <= 50


def test_all_faults_are_listed_at_once(api: Api) -> None:
    reply = api.post("/v1/videos", {"title": "", "duration": -1, "x": 1})
    assert {error["pointer"] for error in reply.json["errors"]} == {"/title", "/duration", "/x"}


@pytest.mark.parametrize("type_", ["text/plain", "application/xml", "", "multipart/form-data", "application/jsonx"])
def test_other_content_type_is_415(api: Api, type_: str) -> None:
    reply = api.request("POST", "/v1/videos", body='{"title": "t"}', headers={"Content-Type": type_})
    _assert_problem(reply, 415, "unsupported-media-type")


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "application/json; charset=latin-1"}, JSON | {"Content-Encoding": "gzip"}],
    ids=str,
)
def test_other_charset_or_content_coding_is_415(api: Api, headers: dict[str, str]) -> None:
    _assert_problem(api.request("POST", "/v1/videos", body="{}", headers=headers), 415, "unsupported-media-type")


@pytest.mark.parametrize(
    "type_", ["application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8"']
)
def test_all_spellings_of_the_content_type_are_accepted(api: Api, type_: str) -> None:
    reply = api.request("POST", "/v1/videos", body='{"title": "t"}', headers={"Content-Type": type_})
    assert reply.status == 201


@pytest.mark.parametrize("type_", ["application/merge-patch+json", "application/json"])
def test_patch_accepts_merge_patch_and_json_only(api: Api, type_: str) -> None:
    video = api.create()
    path = f"/v1/videos/{video['videoId']}"
    assert api.request("PATCH", path, body='{"title": "t"}', headers={"Content-Type": type_}).status == 200
    other = api.request("PATCH", path, body="[]", headers={"Content-Type": "application/json-patch+json"})
    _assert_problem(other, 415, "unsupported-media-type")
    assert other.headers["accept-patch"] == "application/merge-patch+json, application/json"


@pytest.mark.parametrize("size", [LARGEST_BODY + 1, 4 * LARGEST_BODY])
@pytest.mark.parametrize("as_text", [True, False])
def test_oversized_body_is_413(api: Api, table: Table, size: int, as_text: bool) -> None:
    body: bytes | str = "x" * size if as_text else b"x" * size
    with record_operations(table.client) as operations:
        reply = api.request("POST", "/v1/videos", body=body, headers=JSON)
    _assert_problem(reply, 413, "content-too-large")
    assert operations == []


def test_largest_video_that_the_limits_allow_fits_an_item(api: Api) -> None:
    wide = "🎬"
    largest = {
        "title": wide * 300,
        "description": wide * 5000,
        "format": wide * 64,
        "resolution": wide * 32,
        "resolutions": {f"{n:064d}": "s3://bucket/" + wide * 1088 for n in range(20)},
        "tags": [f"{n:02d}" + wide * 62 for n in range(30)],
        "category": wide * 100,
        "language": "en-" + "-".join(["abcdefgh"] * 3),
        "metadata": {f"{n:02d}" + wide * 62: wide * 512 for n in range(50)},
        "thumbnails": {f"{n:064d}": {"url": "s3://bucket/" + wide * 1088, "time": 1} for n in range(20)},
    }
    reply = api.post("/v1/videos", largest, headers={"Idempotency-Key": "large"})
    assert reply.status == 201, reply.body[:500]
    assert api.get(f"/v1/videos/{reply.json['videoId']}").json["metadata"] == largest["metadata"]


@pytest.mark.parametrize(
    "video_id",
    [
        "1",
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301\n",
        "a1b2c3d4",
        "3f2504e0-4f89-41d3-9a0c-0305e82c330",
        "3f2504e04f8941d39a0c0305e82c3301",
        "{videoId}",
        "%00",
        "..%2f",
        "é" * 36,
    ],
)
@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_path_without_a_valid_uuid_is_refused(api: Api, table: Table, method: str, video_id: str) -> None:
    body: Any = {} if method == "PATCH" else None
    with record_operations(table.client) as operations:
        reply = api.request(method, f"/v1/videos/{video_id}", json_body=body)
    assert reply.status in (400, 404)
    assert reply.headers["content-type"] == "application/problem+json"
    assert operations == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/videos"),
        ("PATCH", "/v1/videos/3f2504e0-4f89-41d3-9a0c-0305e82c3301"),
        ("DELETE", "/v1/videos/3f2504e0-4f89-41d3-9a0c-0305e82c3301"),
        ("POST", "/v1/videos/3f2504e0-4f89-41d3-9a0c-0305e82c3301/views"),
        ("POST", "/v1/views"),
    ],
)
def test_parameter_of_an_operation_without_parameters_is_400(api: Api, table: Table, method: str, path: str) -> None:
    with record_operations(table.client) as operations:
        reply = api.request(method, path, query="dryRun=true", json_body={"title": "t"})
    _assert_problem(reply, 400, "invalid-parameter")
    assert operations == []


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        ["//", "/v1", "/v1/", "/v1/video", "/v2/videos", "/v1/videos/", "/v1/videos/x/y", "//v1/videos", "/docs//"],
    )
    def test_unknown_path_is_404(self, api: Api, path: str) -> None:
        _assert_problem(api.get(path), 404, "not-found")

    @pytest.mark.parametrize(
        ("method", "path", "allow"),
        [
            ("PUT", "/v1/videos", "POST, GET"),
            ("DELETE", "/v1/videos", "POST, GET"),
            ("HEAD", "/v1/videos", "POST, GET"),
            ("PUT", "/v1/videos/3f2504e0-4f89-41d3-9a0c-0305e82c3301", "GET, PATCH, DELETE"),
            ("PUT", "/v1/videos/3f2504e0-4f89-41d3-9a0c-0305e82c3301/views", "POST, GET"),
            ("POST", "/v1/videos/3f2504e0-4f89-41d3-9a0c-0305e82c3301/views/explain", "GET"),
            ("POST", "/health", "GET"),
            ("PUT", "/v1/webhooks", "POST, GET"),
            ("PATCH", "/v1/webhooks/3f2504e0-4f89-41d3-9a0c-0305e82c3301/rotate", "POST"),
            ("BREW", "/openapi.json", "GET"),
            ("POST", "/v1/users/a%2Fb", "GET"),
            # These paths also match routes with a path parameter, which accept the methods.
            ("PATCH", "/v1/videos/batch", "POST"),
            ("GET", "/v1/videos/batch", "POST"),
            ("DELETE", "/v1/videos/batch-get", "POST"),
            ("PUT", "/v1/videos/batch-get", "POST"),
        ],
    )
    def test_wrong_method_is_405_with_the_allowed_methods(self, api: Api, method: str, path: str, allow: str) -> None:
        reply = api.request(method, path)
        _assert_problem(reply, 405, "method-not-allowed")
        assert reply.headers["allow"] == allow

    def test_fixed_paths_are_not_matched_by_path_parameters(self, api: Api) -> None:
        methods = sorted({route.method for route in ROUTES})
        fixed = {route.path for route in ROUTES if "{" not in route.path}
        for path in sorted(fixed):
            declared = {route.method for route in ROUTES if route.path == path}
            allow = {
                method: api.request(method, path).headers.get("allow") for method in methods if method not in declared
            }
            assert {method: set((allowed or "").split(", ")) for method, allowed in allow.items()} == dict.fromkeys(
                allow, declared
            )


def test_bug_is_a_problem_without_internals(api: Api, table: Table) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("the secret is 42")

    undo = intercept(table.client, broken)
    reply = api.get("/health")
    undo()
    _assert_problem(reply, 500, "internal-error")
    assert b"42" not in reply.body


def test_body_that_is_falsely_declared_as_base64_is_400(api: Api) -> None:
    event = make_event(
        "POST", "/v1/videos", "{}", "", {"content-type": "application/json"}, "alice", "videos/write", ROUTES[0]
    )
    response = api.handlers["videos"](event | {"body": "é!", "isBase64Encoded": True}, Context())
    assert response["statusCode"] == 400


def test_body_in_base64_is_decoded(api: Api) -> None:
    # The harness encodes `bytes` as base64, as the gateway does with all types except text and JSON.
    assert api.request("POST", "/v1/videos", body=b'{"title": "t"}', headers=JSON).status == 201


def _text_event(content: bytes, headers: dict[str, str]) -> dict[str, Any]:
    """Return the event of a gateway that decodes the body as text and replaces invalid UTF-8."""
    headers = {"content-type": "application/json", "content-length": str(len(content)), **headers}
    text = content.decode(errors="replace")
    return make_event("POST", "/v1/videos", text, "", headers, "alice", "videos/write", ROUTES[0])


@pytest.mark.parametrize("title", [b"\xff", b"caf\xe9", b"\xe4\xf6\xfc", b"\xed\xa0\x80", b"ok \xc3\x28"])
def test_body_in_which_a_gateway_replaced_invalid_utf_8_is_refused(api: Api, title: bytes) -> None:
    response = api.handlers["videos"](_text_event(b'{"title": "' + title + b'"}', {}), Context())
    assert response["statusCode"] == 400
    assert json.loads(response["body"])["detail"].startswith("The body is not JSON: a string is not UTF-8")


@pytest.mark.parametrize("headers", [{}, {"content-length": ""}], ids=["with its length", "without its length"])
def test_replacement_character_that_a_client_sent_is_stored(api: Api, headers: dict[str, str]) -> None:
    event = _text_event('{"title": "\N{REPLACEMENT CHARACTER}"}'.encode(), headers)
    if headers:
        del event["headers"]["content-length"]
    response = api.handlers["videos"](event, Context())
    assert (response["statusCode"], json.loads(response["body"])["title"]) == (201, "\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize(
    "path", ["/v1/people/{}/videos", "/v1/videos/{}", "/v1/playlists/{}/entries", "/v1/webhooks/{}"]
)
@pytest.mark.parametrize("part", ["\U0001f600", "a\x84b", "a#b"])
def test_path_with_characters_that_no_id_contains_is_400(api: Api, path: str, part: str) -> None:
    reply = api.get(path.format(part))
    assert (reply.status, reply.json["type"]) == (400, "urn:video-metadata:problem:invalid-parameter")


VALID_URLS = [
    "https://example.com",
    "https://example.com/",
    "https://cdn.example.com:8443/a%20b/poster-640.jpg?v=1&w=2#x",
    "https://xn--bcher-kva.example/(1);a=b,c/~me/@x:!$*+",
    "https://192.0.2.1/a.jpg",
    "s3://bucket/folder/it's a film, really é.jpg",
]


@pytest.mark.parametrize("url", VALID_URLS)
def test_urls_are_stored_as_sent(api: Api, url: str) -> None:
    video = api.create(thumbnails={"poster": {"url": url}})
    assert api.get(f"/v1/videos/{video['videoId']}").json["thumbnails"]["poster"]["url"] == url


def test_http_thumbnail_url_is_accepted_only_by_a_service_that_serves_its_own_by_http(api: Api) -> None:
    content = {"thumbnails": {"poster": {"url": "http://127.0.0.1:4566/a.jpg"}, "none": None}}
    assert Links(MEDIA_BUCKET, "http://127.0.0.1:4566/media").to_uris(content) == content
    operations = [
        {"op": "create", "video": {"title": "t", "thumbnails": {"poster": content["thumbnails"]["poster"]}}},
        {"op": "patch", "videoId": api.create()["videoId"], "patch": content},
    ]
    results = api.post("/v1/videos/batch", {"operations": operations}).json["items"]
    assert [result["status"] for result in results] == [422, 422]
    assert [result["problem"]["errors"] for result in results] == [
        [{"pointer": f"/operations/{pointer}/thumbnails/poster/url", "detail": "must begin with https://"}]
        for pointer in ("0/video", "1/patch")
    ]
