"""The deployed service over HTTP: behaviour that needs the gateway, the functions and the table."""

import re
from typing import Any, ClassVar

import httpx
import pytest

from shared.routes import ROUTES
from tests.e2e.conftest import Service

# One worker runs all these tests, because they share one deployment.
pytestmark = pytest.mark.xdist_group("e2e")


@pytest.fixture(scope="module")
def service(own_service: Service) -> Service:
    """Return the service with users of this file."""
    return own_service


def _path(video: dict[str, Any]) -> str:
    return f"/v1/videos/{video['videoId']}"


class TestTokens:
    def test_gateway_refuses_every_route_with_a_scope_without_a_token(self, service: Service) -> None:
        statuses = {}
        for route in ROUTES:
            if route.scope:
                path = re.sub(r"{\w+}", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", route.path)
                reply = service.request(route.method, path, user=None)
                statuses[route.operation] = reply.status_code, reply.json(), reply.headers["www-authenticate"]
        assert statuses == dict.fromkeys(statuses, (401, {"message": "Unauthorized"}, "Bearer"))

    def test_gateway_refuses_bad_tokens(self, service: Service) -> None:
        for fault, token in service.bad_tokens.items():
            reply = service.request("GET", "/v1/videos", headers={"Authorization": f"Bearer {token}"})
            assert (reply.status_code, reply.json()) == (401, {"message": "Unauthorized"}), fault
            assert 'error="invalid_token"' in reply.headers["www-authenticate"], fault

    def test_functions_receive_the_scopes_of_the_token(self, service: Service) -> None:
        refused = service.request("GET", "/v1/videos?status=ready", "alice")
        assert (refused.status_code, refused.headers["content-type"]) == (403, "application/problem+json")
        assert service.request("GET", "/v1/videos?status=ready", "admin").status_code == 200

    def test_public_pages_need_no_token(self, service: Service) -> None:
        for path in (
            "/",
            "/favicon.ico",
            "/health",
            "/docs",
            "/docs/",
            "/openapi.json",
            "/docs/swagger-ui-bundle.min.js",
        ):
            assert service.request("GET", path, user=None, follow_redirects=True).status_code == 200, path


class TestBrowsers:
    """Pages of other sites: the environment `dev` and the local service allow all origins."""

    ORIGIN: ClassVar = {"Origin": "https://films.example"}

    def test_preflight_allows_methods_and_headers_of_the_api(self, service: Service) -> None:
        headers = {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "authorization,if-match"}
        reply = service.request("OPTIONS", "/v1/videos/a", user=None, headers=self.ORIGIN | headers)
        assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (204, "*")
        assert "PATCH" in reply.headers["access-control-allow-methods"].split(",")
        allowed = reply.headers["access-control-allow-headers"].lower().split(",")
        assert {"authorization", "if-match"} <= set(allowed)

    def test_page_of_another_origin_reads_the_response_and_its_etag(self, service: Service) -> None:
        reply = service.request("GET", _path(service.create()), headers=self.ORIGIN)
        assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (200, "*")
        assert {"etag", "change-set"} <= {*reply.headers["access-control-expose-headers"].lower().split(",")}
        assert reply.headers["vary"] == "Accept-Language"


class TestGateway:
    """Requests as the functions receive them, and responses as clients receive them."""

    def test_unmatched_routes_reach_the_default_function(self, service: Service) -> None:
        for path in ("/v1", "/v2/videos", "/v1/videos/a/b/c", "/v1/videos/"):
            reply = service.request("GET", path, user=None)
            assert (reply.status_code, reply.json()["type"]) == (404, "urn:video-metadata:problem:not-found"), path
        reply = service.request("PUT", "/v1/videos", user=None)
        assert (reply.status_code, reply.headers["allow"]) == (405, "POST, GET")

    def test_location_of_a_new_video_is_its_url(self, service: Service) -> None:
        reply = service.request("POST", "/v1/videos", json={"title": "t"})
        url = httpx.URL(f"{service.base_url}/v1/videos").join(reply.headers["location"])
        read = service.http.get(url, headers={"Authorization": f"Bearer {service.tokens['alice']}"})
        assert read.json() == reply.json()
        assert ("change-set" in reply.headers, "change-set" in read.headers) == (True, False)

    def test_merge_patch_is_accepted_by_its_own_content_type(self, service: Service) -> None:
        # The gateway encodes bodies of this type in base64.
        video = service.create(description="d")
        reply = service.request(
            "PATCH",
            _path(video),
            content=b'{"description": null, "title": "\xc3\xa4"}',
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert reply.status_code == 200
        assert (reply.json()["title"], "description" in reply.json()) == ("ä", False)

    def test_functions_refuse_invalid_bodies_and_queries(self, service: Service) -> None:
        bodies: list[tuple[bytes, str, int]] = [
            (b"{", "application/json", 400),
            (b'{"title": "\xf0\x9f\x8e"}', "application/json", 400),
            (b"title=x", "application/x-www-form-urlencoded", 415),
            (b"", "", 415),
            (b'{"title": "' + b"x" * 1_000_000 + b'"}', "application/json", 413),
        ]
        for content, kind, status in bodies:
            reply = service.request("POST", "/v1/videos", content=content, headers={"Content-Type": kind})
            assert (reply.status_code, reply.headers["content-type"]) == (status, "application/problem+json"), kind
        for query in ("limit=0", "category=%FF"):
            assert service.request("GET", f"/v1/videos?{query}").status_code == 400, query

    def test_pages_of_a_list_are_read_by_link(self, service: Service, unique: str) -> None:
        category = f"{unique}, with a comma & more"
        published = {"status": "ready", "visibility": "public", "category": category}
        for second in range(5):
            service.create("admin", createdAt=1000 + second, title=f"{second}", **published)
        titles: list[str] = []
        url: httpx.URL | None = httpx.URL(f"{service.base_url}/v1/videos").copy_merge_params(
            {"category": category, "limit": 2}
        )
        while url is not None:
            reply = service.http.get(url, headers={"Authorization": f"Bearer {service.tokens['bob']}"})
            assert reply.status_code == 200, reply.text
            titles += [item["title"] for item in reply.json()["items"]]
            link = re.fullmatch(r'<(.+)>; rel="next"', reply.headers.get("link", ""))
            assert (link is None) == (reply.json()["nextCursor"] is None)
            url = url.join(link[1]) if link else None
        assert titles == ["4", "3", "2", "1", "0"]

    def test_response_to_a_known_etag_has_no_body(self, service: Service) -> None:
        path = _path(service.create())
        etag = service.request("GET", path).headers["etag"]
        reply = service.request("GET", path, headers={"If-None-Match": etag})
        assert (reply.status_code, reply.content) == (304, b"")


def test_published_video_is_listed_until_it_is_deleted_and_keeps_its_views(service: Service, unique: str) -> None:
    video = service.create("alice", category=unique, visibility="public")
    path = _path(video)
    assert service.request("GET", path, "bob").status_code == 404
    for status in ("processing", "ready"):
        assert service.request("PATCH", path, json={"status": status}).status_code == 200
    listed = service.request("GET", f"/v1/videos?category={unique}", "bob").json()
    assert [item["videoId"] for item in listed["items"]] == [video["videoId"]]
    assert service.request("POST", f"{path}/views", "bob").json()["viewCount"] == 1
    assert service.request("DELETE", path).status_code == 204
    assert service.request("GET", f"/v1/videos?category={unique}", "bob").json()["items"] == []
    assert service.request("POST", f"{path}/restore").status_code == 200
    assert service.request("GET", path, "bob").json()["viewCount"] == 1
