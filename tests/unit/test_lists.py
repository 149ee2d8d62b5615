"""Tests of `GET /v1/videos`: visibility by selector and caller, order, filters and pages."""

from typing import Any
from urllib.parse import quote, urlencode

import pytest

from local.testbed.harness import NOW, Api, record_operations
from shared.aws.dynamodb import Table


def _titles(api: Api, query: str = "", **options: Any) -> list[str]:
    reply = api.get("/v1/videos", query=query, **options)
    assert reply.status == 200, reply.body
    return [item["title"] for item in reply.json["items"]]


@pytest.fixture
def catalogue(api: Api) -> Api:
    """Create videos of two owners in every state, ten seconds apart. Each title names the owner and the state."""
    states: list[tuple[str, dict[str, Any]]] = [
        ("old", {"category": "a"}),
        ("private", {"category": "a", "visibility": "private"}),
        ("processing", {"category": "a", "status": "processing"}),
        ("failed", {"category": "a", "status": "failed"}),
        ("to come", {"category": "a", "publishAt": NOW + 50}),
        ("expired", {"category": "a", "expiresAt": NOW - 50}),
        ("other", {"category": "b", "format": "mov", "duration": 5000}),
        ("new", {"category": "a", "format": "mp4", "duration": 1000}),
    ]
    for owner in ("alice", "bob"):
        for second, (name, fields) in enumerate(states):
            api.publish(owner, title=f"{owner} {name}", createdAt=1000 + 10 * second + (owner == "bob"), **fields)
    deleted = api.publish("alice", title="alice deleted", createdAt=1000, category="a")
    api.delete(f"/v1/videos/{deleted['videoId']}")
    return api


class TestStats:
    """Lists with `include=stats`."""

    @pytest.mark.parametrize("query", ["", "userId=alice", "category=a", "tag=t"])
    def test_list_with_stats_has_the_view_count_of_each_video(self, api: Api, query: str) -> None:
        for views in range(3):
            video_id = api.publish(title=str(views), category="a", tags=["t"])["videoId"]
            for _ in range(views):
                api.post(f"/v1/videos/{video_id}/views", user="bob")
        items = api.get("/v1/videos", query=f"{query}&include=stats".lstrip("&")).json["items"]
        assert {item["title"]: item["viewCount"] for item in items} == {"0": 0, "1": 1, "2": 2}
        assert all("viewCount" not in item for item in api.get("/v1/videos", query=query).json["items"])

    def test_stats_cost_one_batch_read_and_only_when_included(self, api: Api, table: Table) -> None:
        for _ in range(5):
            api.publish()
        sent = []
        for query in ("userId=alice", "userId=alice&include=stats"):
            with record_operations(table.client) as operations:
                api.get("/v1/videos", query=query)
            sent.append([operation.name for operation in operations])
        assert sent == [["Query"], ["Query", "BatchGetItem"]]
        assert len(operations[1].parameters["RequestItems"][table.name]["Keys"]) == 5

    @pytest.mark.parametrize("query", ["include=stats&fields=title", "include=credits", "include="])
    def test_unsupported_include_is_400(self, api: Api, query: str) -> None:
        reply = api.get("/v1/videos", query=query)
        assert (reply.status, reply.json["errors"][0]["parameter"]) == (400, "include")


class TestSelectors:
    def test_video_list_has_published_videos_newest_first(self, catalogue: Api) -> None:
        assert _titles(catalogue) == ["bob new", "alice new", "bob other", "alice other", "bob old", "alice old"]

    def test_category_list_has_only_published_videos_even_for_the_owner(self, catalogue: Api) -> None:
        expected = ["bob new", "alice new", "bob old", "alice old"]
        for user in ("alice", "carol", "admin"):
            assert _titles(catalogue, "category=a", user=user) == expected
        assert _titles(catalogue, "category=a&status=ready") == expected
        assert _titles(catalogue, "category=A") == []

    def test_owner_list_has_all_own_videos_except_deleted(self, catalogue: Api) -> None:
        names = ["new", "other", "expired", "to come", "failed", "processing", "private", "old"]
        for user in ("alice", "admin"):
            assert _titles(catalogue, "userId=alice", user=user) == [f"alice {name}" for name in names]

    def test_other_users_see_the_published_videos_of_an_owner(self, catalogue: Api) -> None:
        assert _titles(catalogue, "userId=alice", user="bob") == ["alice new", "alice other", "alice old"]
        assert _titles(catalogue, "userId=alice&status=failed", user="bob") == []

    def test_status_hidden_from_other_users_is_not_queried(self, catalogue: Api, table: Table) -> None:
        for status in ("uploaded", "processing", "failed", "deleted"):
            with record_operations(table.client) as operations:
                reply = catalogue.get("/v1/videos", query=f"userId=alice&status={status}", user="bob")
            assert (reply.json, operations) == ({"items": [], "nextCursor": None}, [])

    def test_owner_lists_deleted_videos_by_status(self, catalogue: Api) -> None:
        assert _titles(catalogue, "userId=alice&status=deleted") == ["alice deleted"]
        assert _titles(catalogue, "userId=alice&status=deleted", user="bob") == []

    @pytest.mark.parametrize(
        ("status", "names"),
        [
            ("ready", ["new", "other", "expired", "to come", "private", "old"]),
            ("failed", ["failed"]),
            ("uploaded", []),
        ],
    )
    def test_admin_lists_all_videos_of_a_status(self, catalogue: Api, status: str, names: list[str]) -> None:
        expected = [f"{owner} {name}" for name in names for owner in ("bob", "alice")]
        assert _titles(catalogue, f"status={status}", user="admin") == expected

    def test_list_by_status_can_be_restricted_to_a_category(self, catalogue: Api) -> None:
        assert _titles(catalogue, "status=failed&category=a", user="admin") == ["bob failed", "alice failed"]
        assert _titles(catalogue, "status=failed&category=b", user="admin") == []

    def test_change_moves_a_video_between_lists_at_once(self, api: Api) -> None:
        video = api.publish("alice", title="t", category="a")
        path = f"/v1/videos/{video['videoId']}"
        api.patch(path, {"category": "b"})
        assert (_titles(api, "category=a"), _titles(api, "category=b")) == ([], ["t"])
        api.patch(path, {"visibility": "private"})
        assert (_titles(api, "category=b"), _titles(api)) == ([], [])
        assert _titles(api, "status=ready", user="admin") == ["t"]
        api.patch(path, {"visibility": "public", "category": None})
        assert (_titles(api, "category=b"), _titles(api)) == ([], ["t"])


class TestFilters:
    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ("format=mp4", ["new"]),
            ("minDuration=1000", ["new", "other"]),
            ("minDuration=1001", ["other"]),
            ("maxDuration=5000", ["new", "other"]),
            ("maxDuration=4999", ["new"]),
            ("minDuration=1000&maxDuration=1000", ["new"]),
            ("category=b", ["other"]),
            ("category=a&format=mov", []),
            ("status=failed", ["failed"]),
        ],
    )
    def test_filters_restrict_the_list_of_an_owner(self, catalogue: Api, query: str, names: list[str]) -> None:
        assert _titles(catalogue, f"userId=alice&{query}") == [f"alice {name}" for name in names]

    def test_filters_restrict_the_list_of_published_videos(self, catalogue: Api) -> None:
        assert _titles(catalogue, "format=mov") == ["bob other", "alice other"]

    def test_special_characters_in_filters_are_literal(self, api: Api) -> None:
        category = 'Docu, Kids & 100% "fun" +#?/é'
        api.publish(title="t", category=category)
        assert _titles(api, f"category={quote(category, safe='')}") == ["t"]


class TestTime:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("from=1000&to=1001", ["alice old"]),
            ("from=1001&to=1002", ["bob old"]),
            ("from=1000&to=1002", ["bob old", "alice old"]),
            ("from=1071", ["bob new"]),
            ("from=1072", []),
            ("to=1000", []),
            ("from=1970-01-01T00:16:40Z&to=1970-01-01T00:16:41Z", ["alice old"]),
            ("from=1970-01-01T01:16:40%2B01:00&to=1970-01-01T00:16:41Z", ["alice old"]),
            ("from=1970-01-01T00:16:40.000000001Z&to=1002", ["bob old"]),
            ("from=1970-01-01t00:16:40.0z&to=1001", ["alice old"]),
        ],
    )
    def test_time_range_includes_its_start_and_excludes_its_end(
        self, catalogue: Api, query: str, expected: list[str]
    ) -> None:
        assert _titles(catalogue, query) == expected

    def test_time_range_may_cover_all_times(self, api: Api) -> None:
        api.publish(title="first", createdAt=0)
        api.publish(title="last", createdAt=253402300799)
        assert _titles(api, "from=0&to=253402300800") == ["last", "first"]

    def test_ascending_order_lists_the_oldest_first(self, catalogue: Api) -> None:
        assert _titles(catalogue, "category=a&order=asc") == ["alice old", "bob old", "alice new", "bob new"]


class TestYearAndDuration:
    """`releaseYear` and `sort=duration`, for which there are separate indexes."""

    @pytest.fixture
    def films(self, api: Api) -> Api:
        """Publish films of alice's, one of them private. Each title consists of category, year and duration in
        seconds."""
        for second, (year, seconds, more) in enumerate(
            [
                (1999, 90, {}),
                (1999, 30, {}),
                (2001, 90, {}),
                (None, 10, {}),
                (1999, None, {}),
                (1999, 20, {"visibility": "private"}),
                (1999, 25, {"category": "b"}),
            ]
        ):
            fields: dict[str, Any] = {"category": "a", **more}
            fields |= {"releaseYear": year} if year else {}
            fields |= {"duration": seconds * 1000} if seconds else {}
            api.publish("alice", title=f"{fields['category']} {year} {seconds}", createdAt=1000 + second, **fields)
        return api

    @pytest.mark.parametrize(
        ("query", "titles"),
        [
            ("category=a&releaseYear=1999", ["a 1999 None", "a 1999 30", "a 1999 90"]),
            ("category=a&releaseYear=1999&order=asc", ["a 1999 90", "a 1999 30", "a 1999 None"]),
            ("category=a&releaseYear=1999&from=1001&to=1004", ["a 1999 30"]),
            ("category=a&releaseYear=1999&minDuration=40000&status=ready", ["a 1999 90"]),
            ("category=a&releaseYear=2002", []),
            ("category=a&sort=duration&order=asc", ["a None 10", "a 1999 30", "a 1999 90", "a 2001 90"]),
            ("category=a&sort=duration&order=asc&minDuration=30000&maxDuration=89999", ["a 1999 30"]),
            ("category=b&sort=duration", ["b 1999 25"]),
            ("userId=alice&sort=duration&order=asc&maxDuration=25000", ["a None 10", "a 1999 20", "b 1999 25"]),
            ("userId=alice&sort=duration&order=asc&category=b", ["b 1999 25"]),
        ],
    )
    def test_list_has_the_order_and_range_of_its_index(self, films: Api, query: str, titles: list[str]) -> None:
        found = _titles(films, query)
        # Videos of the same duration are ordered by their random ids.
        assert sorted(found) == sorted(titles)
        assert [title for title in found if not title.endswith(" 90")] == [
            title for title in titles if not title.endswith(" 90")
        ]

    def test_owner_sees_private_videos_by_duration_and_other_users_do_not(self, films: Api) -> None:
        assert "a 1999 20" in _titles(films, "userId=alice&sort=duration")
        assert "a 1999 20" not in _titles(films, "userId=alice&sort=duration", user="bob")

    def test_page_reads_only_videos_in_the_range(self, api: Api, table: Table) -> None:
        for minutes in range(30):
            api.publish(category="a", duration=minutes * 60_000, releaseYear=1990 + minutes % 10)
        for query in (
            "category=a&releaseYear=1993",
            "category=a&sort=duration&minDuration=1620000&maxDuration=1740000",
        ):
            with record_operations(table.client) as operations:
                assert len(_titles(api, query)) == 3
            read = [operation for operation in operations if operation.name == "BatchGetItem"]
            assert len(read[0].parameters["RequestItems"][table.name]["Keys"]) == 3

    def test_change_moves_a_video_between_years_and_durations(self, films: Api) -> None:
        video = films.get("/v1/videos", query="category=a&releaseYear=2001").json["items"][0]
        films.patch(f"/v1/videos/{video['videoId']}", {"releaseYear": 2002, "duration": 5000, "category": "b"})
        assert _titles(films, "category=a&releaseYear=2001") == []
        assert _titles(films, "category=b&releaseYear=2002") == ["a 2001 90"]
        assert _titles(films, "category=b&sort=duration&maxDuration=5000") == ["a 2001 90"]
        films.delete(f"/v1/videos/{video['videoId']}")
        assert _titles(films, "category=b&releaseYear=2002") == []
        assert _titles(films, "userId=alice&sort=duration&maxDuration=5000") == []

    @pytest.mark.parametrize(
        ("query", "parameter"),
        [
            ("releaseYear=1999", "releaseYear"),
            ("userId=alice&category=a&releaseYear=1999", "releaseYear"),
            ("category=a&tag=t&releaseYear=1999", "releaseYear"),
            ("category=a&status=failed&releaseYear=1999", "releaseYear"),
            ("category=a&sort=duration&releaseYear=1999", "releaseYear"),
            ("sort=duration", "sort"),
            ("tag=t&sort=title", "tag"),
            ("status=ready&sort=title", "sort"),
            ("category=a&sort=duration&tag=t", "tag"),
            ("category=a&sort=duration&region=NZ", "region"),
            ("category=a&sort=duration&from=5", "from"),
            ("userId=alice&sort=duration&to=5", "to"),
            ("userId=alice&sort=duration&status=deleted", "status"),
            ("category=a&sort=duration&status=failed", "status"),
        ],
    )
    def test_combination_that_no_index_serves_is_400(self, films: Api, query: str, parameter: str) -> None:
        reply = films.get("/v1/videos", query=query, user="admin")
        assert (reply.status, reply.json["errors"][0]["parameter"]) == (400, parameter)

    def test_title_order_ignores_case_and_accents_and_compares_numbers_by_value(self, api: Api) -> None:
        titles = ["Part 9", "part 10", "ÉTÉ", "etude", "Zoo"]
        for title in titles:
            api.publish(title=title, category="a", visibility="private" if title == "Zoo" else "public", status="ready")
        ordered = ["ÉTÉ", "etude", "Part 9", "part 10", "Zoo"]
        assert _titles(api, "userId=alice&sort=title&order=asc") == ordered
        assert _titles(api, "userId=alice&sort=title") == ordered[::-1]
        assert _titles(api, "category=a&sort=title&order=asc") == ordered[:-1]
        assert _titles(api, "userId=alice&sort=title&order=asc", user="bob") == ordered[:-1]

    def test_new_title_moves_a_video_in_the_order_by_title(self, api: Api) -> None:
        first, second = (api.publish(title=title, category="a")["videoId"] for title in ("Ash", "Birch"))
        api.patch(f"/v1/videos/{first}", {"title": "Cedar"})
        assert _titles(api, "category=a&sort=title&order=asc") == ["Birch", "Cedar"]
        api.patch(f"/v1/videos/{first}", {"category": "b"})
        assert _titles(api, "category=a&sort=title&order=asc") == ["Birch"]
        api.delete(f"/v1/videos/{second}")
        assert _titles(api, "userId=alice&sort=title&order=asc") == ["Cedar"]

    def test_cursor_of_another_order_is_400(self, films: Api) -> None:
        cursor = films.get("/v1/videos", query="category=a&limit=1").json["nextCursor"]
        reply = films.get("/v1/videos", query=f"category=a&limit=1&sort=duration&cursor={cursor}")
        assert (reply.status, reply.json["type"].rpartition(":")[2]) == (400, "invalid-cursor")


class TestPages:
    def _walk(self, api: Api, query: str, **options: Any) -> list[list[str]]:
        pages, cursor = [], None
        while True:
            reply = api.get("/v1/videos", query=query + (f"&cursor={cursor}" if cursor else ""), **options)
            pages.append([item["title"] for item in reply.json["items"]])
            cursor = reply.json["nextCursor"]
            if cursor is None:
                return pages

    @pytest.mark.parametrize(
        "query",
        [
            *("", "category=a", "userId=alice"),
            *("userId=alice&sort=duration", "category=b&sort=duration", "category=a&releaseYear=1999"),
            *("userId=alice&sort=title", "category=a&sort=title&order=asc"),
        ],
    )
    def test_pages_together_are_the_complete_list(self, catalogue: Api, query: str) -> None:
        full_list = _titles(catalogue, query)
        pages = self._walk(catalogue, f"{query}&limit=2".lstrip("&"))
        assert [title for page in pages for title in page] == full_list
        assert all(len(page) == 2 for page in pages[:-1])

    def test_page_without_a_limit_has_25_videos(self, api: Api) -> None:
        for _ in range(26):
            api.publish()
        assert len(api.get("/v1/videos").json["items"]) == 25

    def test_full_last_page_has_no_cursor(self, catalogue: Api) -> None:
        reply = catalogue.get("/v1/videos", query="limit=6")
        assert (len(reply.json["items"]), reply.json["nextCursor"]) == (6, None)

    def test_videos_of_one_second_have_a_stable_order(self, api: Api) -> None:
        titles = {api.publish(title=str(n), createdAt=1000)["title"] for n in range(9)}
        pages = self._walk(api, "limit=2")
        assert sorted(title for page in pages for title in page) == sorted(titles)

    def test_link_header_has_the_next_page(self, catalogue: Api) -> None:
        reply = catalogue.get("/v1/videos", query="category=a&limit=2")
        cursor = reply.json["nextCursor"]
        assert reply.headers["link"] == f'<?{urlencode({"category": "a", "limit": 2, "cursor": cursor})}>; rel="next"'
        assert "link" not in catalogue.get("/v1/videos").headers

    @pytest.mark.parametrize(
        "other",
        ["category=b&limit=2", "limit=2", "category=a&limit=2&order=asc", "category=a&limit=2&from=5", "userId=alice"],
    )
    def test_cursor_is_valid_only_for_its_query(self, catalogue: Api, other: str) -> None:
        cursor = catalogue.get("/v1/videos", query="category=a&limit=2").json["nextCursor"]
        reply = catalogue.get("/v1/videos", query=f"{other}&cursor={cursor}")
        assert (reply.status, reply.slug) == (400, "invalid-cursor")

    def test_cursor_is_bound_to_its_caller_and_not_to_a_page_size(self, catalogue: Api) -> None:
        cursor = catalogue.get("/v1/videos", query="category=a&limit=2").json["nextCursor"]
        query = f"category=a&limit=5&cursor={cursor}"
        assert catalogue.get("/v1/videos", query=query, user="bob").status == 400
        assert _titles(catalogue, query) == ["bob old", "alice old"]

    def test_list_projects_only_the_requested_fields(self, catalogue: Api, table: Table) -> None:
        with record_operations(table.client) as operations:
            reply = catalogue.get("/v1/videos", query="category=b&fields=title,duration&limit=1")
        assert reply.json["items"] == [{"title": "bob other", "duration": 5000}]
        assert reply.json["nextCursor"]
        assert all(
            "poster" not in operation.parameters["ExpressionAttributeNames"].values() for operation in operations
        )

    @pytest.mark.parametrize(
        "fields", ["fields=title,duration", "fields=title&fields=duration", "fields=title&fields=duration,title"]
    )
    def test_fields_parameter_may_be_repeated_or_comma_separated(self, catalogue: Api, fields: str) -> None:
        page = catalogue.get("/v1/videos", query=f"category=b&{fields}&limit=1").json
        assert page["items"] == [{"title": "bob other", "duration": 5000}]
        remainder = catalogue.get("/v1/videos", query=f"category=b&{fields}&cursor={page['nextCursor']}").json
        assert [set(item) for item in remainder["items"]] == [{"title", "duration"}]

    def test_list_shows_the_url_of_the_poster(self, api: Api) -> None:
        api.publish(thumbnails={"poster": {"url": "https://example.com/p.webp"}})
        (item,) = api.get("/v1/videos").json["items"]
        assert item["poster"] == "https://example.com/p.webp"


@pytest.mark.parametrize("query", ["limit=1&", "&limit=1", "limit=1&&order=desc"])
def test_extra_separators_are_ignored(catalogue: Api, query: str) -> None:
    assert _titles(catalogue, query) == ["bob new"]


class TestUnservedQueries:
    @pytest.mark.parametrize("query", ["title=x", "language=en", "createdAt=1"])
    def test_query_without_an_index_is_refused_with_the_supported_parameters(self, api: Api, query: str) -> None:
        reply = api.get("/v1/videos", query=query)
        assert (reply.status, reply.slug) == (400, "unserved-query")
        assert all(
            word in reply.json["detail"] for word in ("tag", "region", "userId", "category", "status", "format", "from")
        )

    @pytest.mark.parametrize(
        ("query", "detail"),
        [
            ("limt=5", "is unknown. Did you mean limit?"),
            ("LIMIT=5", "is unknown. Did you mean limit?"),
            ("userid=alice", "is unknown. Did you mean userId?"),
            ("tags=x", "is unknown. Did you mean tag?"),
            ("duration=5", "is unknown. Did you mean minDuration?"),
            ("offset=10", "is unknown. Use tag, region, "),
            ("director=x", "is unknown. Use tag, region, "),
        ],
    )
    def test_unknown_parameter_is_refused_with_the_nearest_known_one(self, api: Api, query: str, detail: str) -> None:
        reply = api.get("/v1/videos", query=query)
        assert (reply.status, reply.slug) == (400, "invalid-parameter")
        ((name, message),) = [(error["parameter"], error["detail"]) for error in reply.json["errors"]]
        assert name == query.partition("=")[0]
        assert message.startswith(detail)

    def test_all_invalid_parameters_are_named_at_once(self, api: Api) -> None:
        reply = api.get("/v1/videos", query="limt=5&limit=0&order=up&from=soon&tag=&status=ready&to=1&to=2&title=x")
        assert (reply.status, reply.slug) == (400, "invalid-parameter")
        assert {error["parameter"]: error["detail"] for error in reply.json["errors"]} == {
            "limt": "is unknown. Did you mean limit?",
            "title": "is not served by an index",
            "limit": "must be a whole number from 1 to 100, not 0",
            "order": "must be one of desc, asc, not up",
            "from": "must be epoch seconds or an RFC 3339 time such as 2026-01-31T12:00:00Z (write + as %2B)",
            "tag": "must not be empty",
            "to": "must not be repeated",
        }
        assert reply.json["detail"].startswith("7 parameters are invalid: limt, ")

    @pytest.mark.parametrize(
        ("query", "parameter"),
        [
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit=x", "limit"),
            ("limit=-1", "limit"),
            ("limit=1.0", "limit"),
            ("limit=%D9%A1", "limit"),
            ("limit=", "limit"),
            ("limit=1&limit=1", "limit"),
            ("userId=a&userId=b", "userId"),
            ("order=down", "order"),
            ("status=gone", "status"),
            ("from=yesterday", "from"),
            ("from=2026-02-30T00:00:00Z", "from"),
            ("from=2026-01-01", "from"),
            ("from=2026-01-01T00:00:00", "from"),
            ("from=-1", "from"),
            ("from=99999999999999", "from"),
            ("from=1e3", "from"),
            ("from=NaN", "from"),
            ("from=1960-01-01T00:00:00Z", "from"),
            ("from=0001-01-01T00:00:00%2B23:59", "from"),
            ("from=2&to=1", "from"),
            ("from=1&to=1", "from"),
            ("minDuration=2&maxDuration=1", "minDuration"),
            ("minDuration=2&maxDuration=0", "minDuration"),
            ("minDuration=99999999999999999999", "minDuration"),
            ("category=" + "x" * 101, "category"),
            ("userId=a%00b", "userId"),
            ("tag=%20%20", "tag"),
            ("tag=" + "x" * 513, "tag"),
            ("tag=" + "\ufdfa" * 30, "tag"),
            ("tag=a%00b", "tag"),
            ("region=XX", "region"),
            ("region=nowhere", "region"),
            ("tag=a&region=NZ", "region"),
            ("tag=a&status=deleted", "status"),
            ("region=NZ&status=deleted", "status"),
            ("fields=secret", "fields"),
            ("fields=title,", "fields"),
            ("fields=title&fields=", "fields"),
            ("fields=title&fields=secret", "fields"),
            ("fields=pk", "fields"),
        ],
    )
    def test_invalid_value_is_400_with_its_parameter(self, api: Api, table: Table, query: str, parameter: str) -> None:
        with record_operations(table.client) as operations:
            reply = api.get("/v1/videos", query=query)
        assert reply.status == 400
        assert reply.json["errors"][0]["parameter"] == parameter
        assert operations == []

    @pytest.mark.parametrize("query", ["category=%ED%A0%80", "category=%FF", "=x", "&&&=", "limit=1&" * 60, "limit"])
    def test_malformed_query_is_400(self, api: Api, query: str) -> None:
        assert api.get("/v1/videos", query=query).status == 400
