"""The deployed service over HTTP: what only gateway, functions and table together can show."""

import re
from typing import Any, ClassVar

import httpx
import pytest

from shared.routes import ROUTES, Route
from tests.documents import EXAMPLE
from tests.e2e.conftest import Service
from tests.waiting import eventually

# One worker for all of them, because they share one deployment.
pytestmark = pytest.mark.xdist_group("e2e")


def _path(video: dict[str, Any]) -> str:
    return f"/v1/videos/{video['videoId']}"


class TestTokens:
    @pytest.mark.parametrize("route", [route for route in ROUTES if route.scope], ids=lambda route: route.operation)
    def test_nothing_of_a_video_without_one(self, service: Service, route: Route) -> None:
        path = re.sub(r"{\w+}", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", route.path)
        reply = service.request(route.method, path, user=None)
        assert (reply.status_code, reply.json()) == (401, {"message": "Unauthorized"})

    def test_bad_ones_are_refused_by_the_gateway(self, service: Service) -> None:
        for what, token in service.bad_tokens.items():
            reply = service.request("GET", "/v1/videos", headers={"Authorization": f"Bearer {token}"})
            assert (reply.status_code, reply.json()) == (401, {"message": "Unauthorized"}), what

    def test_what_the_token_does_not_allow_is_refused_by_the_function(self, service: Service) -> None:
        reply = service.request("GET", "/v1/videos?status=ready", "alice")
        assert (reply.status_code, reply.headers["content-type"]) == (403, "application/problem+json")

    @pytest.mark.parametrize(
        "path", ["/", "/favicon.ico", "/health", "/docs", "/docs/", "/openapi.json", "/docs/swagger-ui-bundle.min.js"]
    )
    def test_the_rest_needs_none(self, service: Service, path: str) -> None:
        assert service.request("GET", path, user=None, follow_redirects=True).status_code == 200


class TestBrowsers:
    """Pages of other web sites: `dev` and a laptop allow them all."""

    ORIGIN: ClassVar = {"Origin": "https://films.example"}

    def test_a_preflight_is_answered(self, service: Service) -> None:
        asked = {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "authorization,if-match"}
        reply = service.request("OPTIONS", "/v1/videos/a", user=None, headers=self.ORIGIN | asked)
        assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (204, "*")
        assert "PATCH" in reply.headers["access-control-allow-methods"].split(",")
        allowed = reply.headers["access-control-allow-headers"].lower().split(",")
        assert {"authorization", "if-match"} <= set(allowed)

    def test_a_page_may_read_the_answer_and_its_etag(self, service: Service) -> None:
        reply = service.request("GET", _path(service.create()), headers=self.ORIGIN)
        assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (200, "*")
        assert "etag" in reply.headers["access-control-expose-headers"].lower().split(",")
        assert reply.headers["vary"] == "Accept-Language"

    def test_a_page_does_not_reach_the_aws_below(self, service: Service) -> None:
        asked = self.ORIGIN | {"X-Amz-Target": "DynamoDB_20120810.ListTables"}
        assert service.request("POST", "/", user=None, headers=asked).status_code in (403, 404, 405)


class TestUnmatchedRoutes:
    @pytest.mark.parametrize("path", ["/v1", "/v2/videos", "/v1/videos/a/b/c", "/v1/videos/"])
    def test_an_unknown_path(self, service: Service, path: str) -> None:
        reply = service.request("GET", path, user=None)
        assert (reply.status_code, reply.json()["type"]) == (404, "urn:video-metadata:problem:not-found")

    def test_a_wrong_method(self, service: Service) -> None:
        reply = service.request("PUT", "/v1/videos", user=None)
        assert (reply.status_code, reply.headers["allow"]) == (405, "POST, GET")


class TestAVideosLife:
    def test_the_example_document_goes_in_and_comes_back(self, service: Service) -> None:
        created = service.create("admin", **EXAMPLE)
        read = service.request("GET", _path(created), "admin").json()
        shown = {name: read[name] for name in EXAMPLE}
        assert shown | {"tags": set(shown["tags"])} == EXAMPLE | {"tags": set(EXAMPLE["tags"])}

    def test_from_upload_to_deletion(self, service: Service, unique: str) -> None:
        video = service.create("alice", category=unique, visibility="public")
        path = _path(video)
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

    def test_the_location_of_a_new_video_leads_to_it(self, service: Service) -> None:
        reply = service.request("POST", "/v1/videos", json={"title": "t"})
        url = httpx.URL(f"{service.base_url}/v1/videos").join(reply.headers["location"])
        read = service.http.get(url, headers={"Authorization": f"Bearer {service.tokens['alice']}"})
        assert read.json() == reply.json()

    def test_a_merge_patch_by_its_own_content_type(self, service: Service) -> None:
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
    def test_pages_by_link_and_by_cursor(self, service: Service, unique: str) -> None:
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

    def test_an_owners_list_in_a_time_range(self, service: Service, unique: str) -> None:
        for second in (10, 20, 30):
            service.create("admin", userId=unique, createdAt=second, title=f"{second}")
        query = f"userId={unique}&from=1970-01-01T00:00:10Z&to=30&order=asc"
        items = service.request("GET", f"/v1/videos?{query}", "admin").json()["items"]
        assert [item["title"] for item in items] == ["10", "20"]
        assert service.request("GET", f"/v1/videos?{query}", "bob").json()["items"] == []


class TestRaces:
    """Requests that really run at once, in functions of their own."""

    def test_one_of_several_changes_to_one_version_wins(self, service: Service) -> None:
        video = service.create()
        replies = service.at_once(
            6, "PATCH", _path(video), headers={"If-Match": '"1"'}, json=lambda number: {"title": f"{number}"}
        )
        assert sorted(reply.status_code for reply in replies) == [200] + [412] * 5
        (winner,) = [reply.json() for reply in replies if reply.status_code == 200]
        read = service.request("GET", _path(video)).json()
        assert (read["title"], read["version"]) == (winner["title"], 2)

    def test_creates_with_one_key_make_one_video(self, service: Service, unique: str) -> None:
        request: Any = {"json": {"title": unique}, "headers": {"Idempotency-Key": unique}}
        replies = service.at_once(6, "POST", "/v1/videos", **request)
        assert {reply.status_code for reply in replies} <= {201, 409}
        # Whoever came in between is asked to retry, and then gets the same answer.
        final = service.request("POST", "/v1/videos", **request)
        assert {reply.text for reply in replies if reply.status_code == 201} | {final.text} == {final.text}
        assert service.titled(unique) == [final.json()["videoId"]]

    def test_no_view_is_lost(self, service: Service) -> None:
        video = service.create("admin", status="ready", visibility="public")
        # In three waves of six, as each request at once takes a function of its own.
        replies = [reply for _ in range(3) for reply in service.at_once(6, "POST", f"{_path(video)}/views")]
        assert sorted(reply.json()["viewCount"] for reply in replies) == list(range(1, 19))
        assert service.request("GET", _path(video)).json()["viewCount"] == 18

    def test_a_view_with_a_key_and_a_rating_are_counted_by_the_stream_and_once(self, service: Service) -> None:
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


class TestBadInput:
    @pytest.mark.parametrize(
        ("content", "kind", "status"),
        [
            (b"{", "application/json", 400),
            (b"title=x", "application/x-www-form-urlencoded", 415),
            (b"", "", 415),
            (b'{"title": ""}', "application/json", 422),
            (b'{"title": "' + b"x" * 1_000_000 + b'"}', "application/json", 413),
        ],
    )
    def test_a_body(self, service: Service, content: bytes, kind: str, status: int) -> None:
        reply = service.request("POST", "/v1/videos", content=content, headers={"Content-Type": kind})
        assert (reply.status_code, reply.headers["content-type"]) == (status, "application/problem+json")

    @pytest.mark.parametrize(
        ("query", "parameter"),
        [("limit=0", "limit"), ("director=x", "director"), ("category=%FF", None), ("from=2&to=1", "from")],
    )
    def test_a_query(self, service: Service, query: str, parameter: str | None) -> None:
        reply = service.request("GET", f"/v1/videos?{query}")
        assert reply.status_code == 400
        assert [error["parameter"] for error in reply.json().get("errors", [])] == ([parameter] if parameter else [])
