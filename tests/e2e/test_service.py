"""The deployed service over HTTP: what only gateway, functions and table together can show."""

import re
from typing import Any

import httpx
import pytest

from shared.routes import ROUTES
from tests.documents import EXAMPLE
from tests.e2e.conftest import Service
from tests.waiting import eventually

# One worker for all of them, because they share one deployment.
pytestmark = pytest.mark.xdist_group("e2e")


def _path(video: dict[str, Any]) -> str:
    return f"/v1/videos/{video['videoId']}"


class TestGateway:
    """Decisions that the gateway takes before a function runs."""

    def test_every_route_with_a_scope_refuses_a_request_without_a_token(self, service: Service) -> None:
        answers = {}
        for route in (route for route in ROUTES if route.scope):
            path = re.sub(r"{\w+}", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", route.path)
            reply = service.request(route.method, path, user=None)
            answers[route.operation] = reply.status_code, reply.json()
        assert answers == dict.fromkeys(answers, (401, {"message": "Unauthorized"}))
        assert len(answers) > 50

    def test_every_bad_token_is_refused(self, service: Service) -> None:
        for what, token in service.bad_tokens.items():
            reply = service.request("GET", "/v1/videos", headers={"Authorization": f"Bearer {token}"})
            assert (reply.status_code, reply.json()) == (401, {"message": "Unauthorized"}), what

    def test_pages_that_are_open_need_no_token(self, service: Service) -> None:
        files = "/", "/favicon.ico", "/health", "/docs", "/docs/", "/openapi.json", "/docs/swagger-ui-bundle.min.js"
        for path in files:
            assert service.request("GET", path, user=None, follow_redirects=True).status_code == 200, path

    def test_pages_of_other_sites_may_call_the_api_and_read_its_etags(self, service: Service) -> None:
        origin = {"Origin": "https://films.example"}
        asked = {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "authorization,if-match"}
        preflight = service.request("OPTIONS", "/v1/videos/a", user=None, headers=origin | asked)
        assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (204, "*")
        assert "PATCH" in preflight.headers["access-control-allow-methods"].split(",")
        allowed = preflight.headers["access-control-allow-headers"].lower().split(",")
        assert {"authorization", "if-match"} <= set(allowed)
        reply = service.request("GET", _path(service.create()), headers=origin)
        assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (200, "*")
        assert "etag" in reply.headers["access-control-expose-headers"].lower().split(",")
        assert reply.headers["vary"] == "Accept-Language"

    def test_unknown_paths_and_methods_reach_the_function_of_the_default_route(self, service: Service) -> None:
        for path in ("/v1", "/v2/videos", "/v1/videos/a/b/c", "/v1/videos/"):
            reply = service.request("GET", path, user=None)
            assert (reply.status_code, reply.json()["type"]) == (404, "urn:video-metadata:problem:not-found"), path
        reply = service.request("PUT", "/v1/videos", user=None)
        assert (reply.status_code, reply.headers["allow"]) == (405, "POST, GET")

    def test_bodies_and_queries_reach_the_function_as_they_were_sent(self, service: Service) -> None:
        for content, kind, status in (
            (b"{", "application/json", 400),
            (b"title=x", "application/x-www-form-urlencoded", 415),
            (b"", "", 415),
            (b'{"title": "' + b"x" * 1_000_000 + b'"}', "application/json", 413),
        ):
            reply = service.request("POST", "/v1/videos", content=content, headers={"Content-Type": kind})
            assert (reply.status_code, reply.headers["content-type"]) == (status, "application/problem+json"), kind
        assert service.request("GET", "/v1/videos?category=%FF").status_code == 400


class TestAVideosLife:
    def test_the_example_document_is_stored_and_returned_unchanged(self, service: Service) -> None:
        created = service.create("admin", **EXAMPLE)
        read = service.request("GET", _path(created), "admin").json()
        shown = {name: read[name] for name in EXAMPLE}
        assert shown | {"tags": set(shown["tags"])} == EXAMPLE | {"tags": set(EXAMPLE["tags"])}

    def test_a_video_is_created_published_changed_deleted_and_restored(self, service: Service, unique: str) -> None:
        created = service.request("POST", "/v1/videos", json={"title": "A", "category": unique, "visibility": "public"})
        video, path = created.json(), _path(created.json())
        location = httpx.URL(f"{service.base_url}/v1/videos").join(created.headers["location"])
        assert service.request("GET", location.path).json() == video
        assert service.request("GET", path, "bob").status_code == 404

        for status in ("processing", "ready"):
            assert service.request("PATCH", path, json={"status": status}).status_code == 200
        assert service.request("GET", path, "bob").json()["status"] == "ready"
        listed = service.request("GET", f"/v1/videos?category={unique}", "bob").json()
        assert [item["videoId"] for item in listed["items"]] == [video["videoId"]]

        views = [service.request("POST", f"{path}/views", "bob").json()["viewCount"] for _ in range(3)]
        assert views == [1, 2, 3]
        read = service.request("GET", path, "bob")
        assert read.json()["viewCount"] == 3
        not_modified = service.request("GET", path, "bob", headers={"If-None-Match": read.headers["etag"]})
        assert (not_modified.status_code, not_modified.content) == (304, b"")

        assert service.request("PATCH", path, "bob", json={"title": "mine"}).status_code == 403
        stale = service.request("PATCH", path, json={"title": "b"}, headers={"If-Match": '"1"'})
        assert stale.status_code == 412

        assert service.request("DELETE", path).status_code == 204
        assert service.request("GET", path, "bob").status_code == 404
        assert service.request("GET", f"/v1/videos?category={unique}", "bob").json()["items"] == []
        assert service.request("POST", f"{path}/restore").status_code == 200
        assert service.request("GET", path, "bob").json()["viewCount"] == 3

    def test_a_merge_patch_is_read_by_its_own_content_type(self, service: Service) -> None:
        # The gateway hands this type on in base64.
        video = service.create(description="d")
        reply = service.request(
            "PATCH",
            _path(video),
            content=b'{"description": null, "title": "\xc3\xa4"}',
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert reply.status_code == 200
        assert (reply.json()["title"], "description" in reply.json()) == ("ä", False)


class TestLists:
    def test_a_list_is_walked_by_its_link_headers(self, service: Service, unique: str) -> None:
        category = f"{unique}, with a comma & more"
        for second in range(7):
            service.create(
                "admin",
                status="ready",
                visibility="public",
                category=category,
                createdAt=1000 + second,
                title=f"{second}",
            )
        seen, url = [], httpx.URL(f"{service.base_url}/v1/videos").copy_merge_params({"category": category, "limit": 3})
        for _ in range(3):
            reply = service.http.get(url, headers={"Authorization": f"Bearer {service.tokens['bob']}"})
            assert reply.status_code == 200, reply.text
            seen += [item["title"] for item in reply.json()["items"]]
            if reply.json()["nextCursor"]:
                link = re.fullmatch(r'<(.+)>; rel="next"', reply.headers["link"])
                assert link
                url = url.join(link[1])
        assert seen == ["6", "5", "4", "3", "2", "1", "0"]
        assert reply.json()["nextCursor"] is None


class TestRaces:
    """Requests that really run at once, in functions of their own."""

    def test_concurrent_creates_with_one_key_make_one_video(self, service: Service, unique: str) -> None:
        request: Any = {"json": {"title": unique}, "headers": {"Idempotency-Key": unique}}
        replies = service.at_once(6, "POST", "/v1/videos", **request)
        assert {reply.status_code for reply in replies} <= {201, 409}
        # Whoever came in between is asked to retry, and then gets the same answer.
        final = service.request("POST", "/v1/videos", **request)
        assert {reply.text for reply in replies if reply.status_code == 201} | {final.text} == {final.text}
        assert service.titled(unique) == [final.json()["videoId"]]

    def test_concurrent_views_are_all_counted(self, service: Service) -> None:
        video = service.create("admin", status="ready", visibility="public")
        # In three waves of six, as each request at once takes a function of its own.
        replies = [reply for _ in range(3) for reply in service.at_once(6, "POST", f"{_path(video)}/views")]
        assert sorted(reply.json()["viewCount"] for reply in replies) == list(range(1, 19))
        assert service.request("GET", _path(video)).json()["viewCount"] == 18

    def test_a_view_with_a_key_and_a_rating_are_counted_once_by_the_stream(self, service: Service) -> None:
        video = service.create("admin", status="ready", visibility="public")
        for number in range(9):
            key = {"Idempotency-Key": f"{video['videoId']}-{number % 5}"}
            assert service.request("POST", f"{_path(video)}/views", headers=key).status_code == 200
            assert service.request("PUT", f"{_path(video)}/rating", json={"value": 1 + number}).status_code == 200
        eventually(lambda: service.request("GET", _path(video)).json()["viewCount"], until=lambda count: count == 5)
        eventually(
            lambda: service.request("GET", f"{_path(video)}/rating", "bob").json(),
            until=lambda rating: (rating["votes"], rating["average"]) == (1, 9),
        )
