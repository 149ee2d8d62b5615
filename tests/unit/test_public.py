"""Routes without a token: health, the OpenAPI document, the docs and the first page."""

import gzip
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import urljoin
from xml.etree import ElementTree

import jsonschema_rs
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from local.testbed.harness import Api
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.core import errors
from shared.core.errors import ServiceError
from shared.openapi.document import document
from shared.openapi.videos import NEW_VIDEO
from shared.routes import ROUTES
from shared.videos.documents import FIELDS, SUMMARY_FIELDS
from shared.videos.models import NewVideo, VideoPatch


def _all_errors(kind: type[ServiceError] = ServiceError) -> list[type[ServiceError]]:
    """Return all classes of the error tree. Subclasses that a store defines are omitted, because their responses are
    the same."""
    children = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    return [error for child in children for error in (child, *_all_errors(child))]


class TestHealth:
    def test_health_is_ok_when_the_table_responds(self, api: Api) -> None:
        reply = api.get("/health", scopes="")
        assert (reply.status, reply.json) == (200, {"status": "ok"})

    @pytest.mark.parametrize(
        "failure",
        [
            EndpointConnectionError(endpoint_url="https://dynamodb"),
            ClientError({"Error": {"Code": "ThrottlingException", "Message": ""}}, "GetItem"),
            ClientError({"Error": {"Code": "InternalServerError", "Message": ""}}, "GetItem"),
        ],
        ids=repr,
    )
    def test_health_is_503_when_the_table_fails(self, api: Api, table: Table, failure: Exception) -> None:
        def fail(*_: Any) -> None:
            raise failure

        undo = intercept(table.client, fail)
        reply = api.get("/health")
        undo()
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")


class TestDocs:
    def test_docs_page_loads_only_files_of_the_service(self, api: Api) -> None:
        page = api.get("/docs")
        assert page.headers["content-type"].startswith("text/html")
        assets = re.findall(r'(?:href|src)="(docs/[^"]+)"', page.body.decode())
        assert assets
        for asset in assets:
            # The URL is relative to /docs, so that the page also works behind a stage path.
            reply = api.get(f"/{asset}")
            assert (reply.status, reply.headers["x-content-type-options"]) == (200, "nosniff")

    def test_docs_path_with_a_trailing_slash_redirects_to_the_page(self, api: Api) -> None:
        reply = api.get("/docs/")
        assert (reply.status, urljoin("https://api.example/stage/docs/", reply.headers["location"])) == (
            301,
            "https://api.example/stage/docs",
        )

    @pytest.mark.parametrize("path", ["/", "/docs"])
    def test_page_explains_how_to_get_a_token(self, api: Api, path: str) -> None:
        page = api.get(path).body.decode()
        assert "make token" in page
        assert {"SignInUrl", "TokenUrl"} <= set(re.findall(r"<code>(\w+)</code>", page))

    def test_first_page_links_to_console_docs_document_and_health(self, api: Api) -> None:
        page = api.get("/")
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        links = set(re.findall(r'href="([^"]+)"', page.body.decode()))
        assert {"console/", "docs", "openapi.json", "health"} <= links
        for link in links - {"console/"}:
            assert api.get(f"/{link}").status == 200

    def test_console_path_redirects_to_index_html(self, api: Api) -> None:
        reply = api.get("/console/")
        assert (reply.status, urljoin("https://api.example/stage/console/", reply.headers["location"])) == (
            301,
            "https://api.example/stage/console/index.html",
        )

    def test_favicon_is_an_svg(self, api: Api) -> None:
        icon = api.get("/favicon.ico")
        assert (icon.status, icon.headers["content-type"]) == (200, "image/svg+xml; charset=utf-8")
        assert ElementTree.XML(icon.body).tag == "{http://www.w3.org/2000/svg}svg"

    @pytest.mark.parametrize("path", ["/", "/favicon.ico", "/docs/"])
    def test_pages_accept_only_get(self, api: Api, path: str) -> None:
        assert api.post(path).status == 404

    def test_large_files_are_sent_compressed(self, api: Api) -> None:
        reply = api.get("/docs/swagger-ui-bundle.min.js", headers={"Accept-Encoding": "gzip, br"})
        assert (reply.headers["content-encoding"], reply.headers["vary"]) == ("gzip", "Accept-Encoding")
        assert len(reply.body) < 600_000
        assert b"SwaggerUIBundle" in gzip.decompress(reply.body)

    @pytest.mark.parametrize("asset", ["x.js", "..", "html.py", "__init__.py"])
    def test_unlisted_docs_file_is_404(self, api: Api, asset: str) -> None:
        assert api.get(f"/docs/{asset}").status == 404


class TestOpenApi:
    def test_openapi_document_is_served(self, api: Api) -> None:
        reply = api.get("/openapi.json")
        assert reply.json == json.loads(json.dumps(document()))
        assert reply.json["openapi"].startswith("3.1")

    def test_openapi_document_lists_every_route(self) -> None:
        listed = {
            (method.upper(), path, operation["operationId"], operation["security"] == [{"token": []}])
            for path, item in document()["paths"].items()
            for method, operation in item.items()
        }
        assert listed == {(route.method, route.path, route.operation, route.scope is not None) for route in ROUTES}

    @pytest.mark.parametrize("name", sorted(document()["components"]["schemas"]))
    def test_openapi_schema_is_valid_json_schema(self, name: str) -> None:
        schema = document()["components"]["schemas"][name]
        jsonschema_rs.meta.validate(schema | {"$schema": "https://json-schema.org/draft/2020-12/schema"})

    @pytest.mark.slow
    def test_openapi_examples_conform_to_their_schemas(self) -> None:
        checked = 0
        for item in document()["paths"].values():
            for operation in item.values():
                contents = [operation.get("requestBody", {}).get("content", {})]
                contents += [response.get("content", {}) for response in operation["responses"].values()]
                for content in contents:
                    for media in content.values():
                        examples = [media["example"]] if "example" in media else []
                        examples += [example["value"] for example in media.get("examples", {}).values()]
                        for example in examples:
                            _validator(media["schema"]).validate(example)
                            checked += 1
        assert checked > 60

    def test_every_field_is_described(self) -> None:
        schemas = document()["components"]["schemas"]
        assert tuple(schemas["Video"]["properties"]) == FIELDS
        assert tuple(schemas["VideoSummary"]["properties"]) == (*SUMMARY_FIELDS, "viewCount")
        assert set(schemas["NewVideo"]["properties"]) == set(NewVideo.model_fields)
        assert set(schemas["VideoPatch"]["properties"]) == set(VideoPatch.model_fields)

    def test_openapi_example_of_a_new_video_can_be_created(self, api: Api) -> None:
        created = api.post("/v1/videos", NEW_VIDEO)
        assert (created.status, created.json["resolutions"]) == (201, {})  # sent unchanged, as Swagger UI does
        _validator({"$ref": "#/components/schemas/Video"}).validate(created.json)

    def test_get_returns_all_required_fields_and_with_fields_a_partial_video(self, api: Api) -> None:
        path = f"/v1/videos/{api.create()['videoId']}"
        full, partial = api.get(path).json, api.get(path, query="fields=title").json
        _assert_distinct("FetchedVideo", "PartialVideo", full, partial)

    def test_list_returns_all_required_fields_and_with_fields_a_partial_summary(self, api: Api) -> None:
        api.publish()
        (full,), (partial,) = (api.get("/v1/videos", query=query).json["items"] for query in ("", "fields=title"))
        _assert_distinct("VideoSummary", "PartialSummary", full, partial)

    def test_every_reference_of_the_openapi_document_resolves(self) -> None:
        names = {f"#/components/{kind}/{name}" for kind, parts in document()["components"].items() for name in parts}
        assert {part["$ref"] for part in _parts(document()) if "$ref" in part} <= names

    def test_every_choice_has_a_type(self) -> None:
        """Test that each enumeration has a type. Without a type, Swagger UI shows it as "any", and generated clients
        have no type for it."""
        assert [part for part in _parts(document()) if {"enum", "const"} & part.keys() and "type" not in part] == []

    def test_no_field_has_a_default(self) -> None:
        """Test fields only. Generated clients treat a field with a default as required. Query parameters may have a
        default."""
        schemas = document()["components"]["schemas"]
        assert [part for part in _parts(schemas) if "default" in part] == []

    def test_durations_and_positions_are_milliseconds(self) -> None:
        lengths = [
            (name, field)
            for part in _parts(document()["components"]["schemas"])
            for name, field in part.get("properties", {}).items()
            if re.match("(Millis|S)econds", field.get("description", "")) and not field.get("deprecated")
        ]
        assert {name for name, _ in lengths} == {"duration", "position", "start", "time"}
        assert {field["description"].split()[0] for _, field in lengths} == {"Milliseconds"}

    def test_every_group_of_operations_is_described(self) -> None:
        described = [tag["name"] for tag in document()["tags"]]
        assert {tag for part in _parts(document()["paths"]) for tag in part.get("tags", [])} == set(described)

    def test_every_error_of_the_tree_is_declared_somewhere(self) -> None:
        declared = {
            name
            for item in document()["paths"].values()
            for operation in item.values()
            for response in operation["responses"].values()
            for name in response.get("content", {}).get("application/problem+json", {}).get("examples", {})
        }
        # Requests without an operation are not in the document. `groups` are abstract parents of declared errors.
        not_an_operation = {errors.MethodNotAllowed}
        groups = {errors.BadRequest, errors.Conflict, errors.NotApplied}
        assert declared == {kind.slug for kind in set(_all_errors()) - not_an_operation - groups}


def _assert_distinct(full_name: str, partial_name: str, full: dict[str, Any], partial: dict[str, Any]) -> None:
    schemas = document()["components"]["schemas"]
    (mark,) = schemas[full_name]["properties"].keys() - schemas[partial_name]["properties"].keys()
    assert (mark in full, mark in partial) == (True, False)
    validator = _validator({"$ref": f"#/components/schemas/{full_name}"})
    assert (validator.is_valid(full), validator.is_valid(partial)) == (True, False)
    assert _validator({"$ref": f"#/components/schemas/{partial_name}"}).is_valid(partial)


def _parts(part: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a document, except its examples."""
    if isinstance(part, list):
        for element in part:
            yield from _parts(element)
    elif isinstance(part, dict):
        yield part
        for name, value in part.items():
            if name not in ("example", "examples"):
                yield from _parts(value)


def _validator(schema: dict[str, Any]) -> Any:
    return _compiled(json.dumps(schema))


@cache
def _compiled(schema: str) -> Any:
    """Return the validator of a schema. Compiling a validator takes 50 ms, because it includes all components."""
    return jsonschema_rs.Draft202012Validator(json.loads(schema) | {"components": document()["components"]})


def test_docstring_of_errors_draws_the_error_tree() -> None:
    drawn = [line for line in (errors.__doc__ or "").splitlines() if "──" in line]
    assert [line.split("── ")[1].split()[0] for line in drawn] == [kind.__name__ for kind in _all_errors()]


def _enumerations(schema: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(schema, dict):
        if isinstance(schema.get("enum"), list):
            yield tuple(schema["enum"])
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from _enumerations(part)


def test_openapi_document_has_each_enumeration_once() -> None:
    enumerations = list(_enumerations(document()))
    assert len(enumerations) > 20
    assert len({*enumerations}) == len(enumerations)


def test_true_or_false_parameters_are_booleans_in_the_openapi_document() -> None:
    parameters = [
        parameter["schema"]
        for path in document()["paths"].values()
        for operation in path.values()
        for parameter in operation.get("parameters", ())
        if parameter.get("name") == "dryRun"
    ]
    assert parameters == [{"type": "boolean", "default": False}] * 3
    assert document()["components"]["parameters"]["explain"]["schema"] == parameters[0]
