"""Totals of users and the most used tags, in API responses."""

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from local.testbed.background import BackgroundWork
from local.testbed.harness import Api, Context, make_event
from shared import schema
from shared.aws.dynamodb import Table
from shared.core.limits import LONGEST_FOLDED_TAG
from shared.routes import ROUTES
from shared.videos.tags import normalise_tag
from shared.web.cursors import LONGEST

ZEROS = {"total": 0, "uploaded": 0, "processing": 0, "ready": 0, "failed": 0, "deleted": 0}


class TestUsers:
    def test_user_without_videos_has_zeros(self, api: Api) -> None:
        reply = api.get("/v1/users/alice")
        assert reply.status == 200
        assert reply.json == {"userId": "alice", "videos": ZEROS, "bytes": 0, "duration": 0, "playlists": 0}

    def test_videos_are_counted_by_status_and_size(self, api: Api, background: BackgroundWork) -> None:
        api.create(fileSize=100, duration=1000)
        api.publish(fileSize=50)
        deleted_id = api.publish(fileSize=25, duration=500)["videoId"]
        api.delete(f"/v1/videos/{deleted_id}")
        background.settle_totals()
        totals = api.get("/v1/users/alice").json
        assert totals["videos"] == ZEROS | {"total": 2, "uploaded": 1, "ready": 1, "deleted": 1}
        assert (totals["bytes"], totals["duration"]) == (150, 1000)

    @pytest.mark.parametrize("user_id", ["x" * 256, "\N{CLAPPER BOARD}" * 251, " "])
    def test_user_id_that_no_token_can_have_is_400(self, api: Api, user_id: str) -> None:
        reply = api.get(f"/v1/users/{quote(user_id)}", user="admin")
        assert reply.status == 400
        assert reply.json["errors"][0]["parameter"] == "userId"

    @pytest.mark.parametrize("user_id", ["a\nb", "a\x7fb", "a\u2028b"])
    def test_user_id_with_control_characters_is_400(self, api: Api, user_id: str) -> None:
        assert api.get(f"/v1/users/{quote(user_id)}", user="admin").status == 400

    @pytest.mark.parametrize("reader", ["the user", "admin"])
    @pytest.mark.parametrize(
        "name",
        [
            *(
                "auth0|5f7c",
                "me@example.com",
                "Zoë Ó Súilleabháin",
                "a:b",
                "\N{CLAPPER BOARD}",
                "a#b",
                '"it\'s"',
                "<b>",
            ),
            *("a/b", "/", "https://issuer.example/u/1?x=y&z", "50%", "50%25", "%2F", "a\\b", "`{}[]^", "..a"),
        ],
    )
    def test_user_id_may_have_any_other_characters(
        self, api: Api, background: BackgroundWork, name: str, reader: str
    ) -> None:
        assert api.post("/v1/videos", {"title": "t"}, user=name).status == 201
        background.settle_totals()
        totals = api.get(f"/v1/users/{quote(name, safe='')}", user=name if reader == "the user" else reader).json
        assert (totals["userId"], totals["videos"]["total"]) == (name, 1)

    def test_user_id_is_decoded_once_even_if_the_gateway_decodes_it(self, api: Api) -> None:
        route = next(route for route in ROUTES if route.operation == "getUser")
        event = make_event("GET", "/v1/users/50%", None, "", {}, "50%25", "videos/read", route)
        event["pathParameters"] = {"userId": "50%25"}
        response = api.handlers["totals"](event, Context())
        assert json.loads(response["body"])["userId"] == "50%25"

    @pytest.mark.parametrize("path", ["/v1/users/imdb/totals", "/v1/users/imdb%2Ftotals", "/v1/users/alice/"])
    def test_unknown_path_below_a_user_is_404(self, api: Api, path: str) -> None:
        assert api.get(path, user="admin").status == 404
        assert api.get(path, user="bob").status == 403

    def test_query_parameters_are_refused(self, api: Api) -> None:
        assert api.get("/v1/users/alice", query="x=1").status == 400


def pages(api: Api, limit: int) -> Iterator[list[tuple[str, int]]]:
    """Yield the pages of the tag list, as pairs of tag and count."""
    cursor = ""
    while cursor is not None:
        query = f"limit={limit}" + (f"&cursor={cursor}" if cursor else "")
        reply = api.get("/v1/tags", query=query)
        assert reply.status == 200, reply.body
        yield [(entry["tag"], entry["count"]) for entry in reply.json["items"]]
        cursor = reply.json["nextCursor"]


class TestTags:
    def test_tag_list_without_tags_is_empty(self, api: Api) -> None:
        assert api.get("/v1/tags").json == {"items": [], "nextCursor": None}

    def test_most_used_tags_are_listed_first(self, api: Api, background: BackgroundWork) -> None:
        for tags in (["Drama", "b"], ["DRAMA"], ["drama", "c"], ["c"]):
            api.publish(tags=tags)
        background.settle_totals()
        assert list(pages(api, 100)) == [[("drama", 3), ("c", 2), ("b", 1)]]

    def test_tags_of_unlisted_videos_do_not_count(self, api: Api, background: BackgroundWork) -> None:
        api.create(tags=["private"])
        deleted = api.publish(tags=["deleted"])["videoId"]
        hidden = api.publish(tags=["hidden"])["videoId"]
        background.settle_totals()
        assert list(pages(api, 100)) == [[("hidden", 1), ("deleted", 1)]]
        api.delete(f"/v1/videos/{deleted}")
        api.patch(f"/v1/videos/{hidden}", {"visibility": "private"})
        background.settle_totals()
        assert list(pages(api, 100)) == [[]]

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
    def test_pages_contain_every_tag_once(self, api: Api, background: BackgroundWork, limit: int) -> None:
        for number in range(1, 4):
            api.publish(tags=[f"t{n}" for n in range(7) if n % number == 0])
        background.settle_totals()
        read = list(pages(api, limit))
        assert {len(page) for page in read[:-1]} <= {limit}
        listed = [entry for page in read for entry in page]
        assert len(listed) == len(dict(listed)) == 7
        assert [count for _, count in listed] == sorted((count for _, count in listed), reverse=True)

    def test_response_has_a_link_to_the_next_page(self, api: Api, background: BackgroundWork) -> None:
        api.publish(tags=["a", "b"])
        background.settle_totals()
        reply = api.get("/v1/tags", query="limit=1")
        assert 'rel="next"' in reply.headers["link"]

    def test_cursor_can_contain_the_longest_tag(self, api: Api, background: BackgroundWork) -> None:
        tag = "\N{CUNEIFORM SIGN A}" * 64
        api.publish(tags=[tag, "z"])
        api.publish(tags=[tag])
        background.settle_totals()
        assert len(normalise_tag(tag).encode()) <= LONGEST_FOLDED_TAG
        assert list(pages(api, 1)) == [[(tag, 2)], [("z", 1)]]
        cursor = api.get("/v1/tags", query="limit=1").json["nextCursor"]
        assert len(cursor) <= LONGEST

    def test_cursor_can_contain_the_longest_position(self, api: Api, table: Table) -> None:
        for tag, count in (("é" * 256, 10**9), ("z", 1)):
            table.client.put_item(
                TableName=table.name,
                Item={
                    **{name: {"S": value} for name, value in schema.TAG_COUNT.key(tag=tag).items()},
                    "rel": {"S": schema.TAGS},
                    "relShard": {"N": "0"},
                    "relSort": {"N": str(count)},
                    "relId": {"S": tag},
                },
            )
        assert list(pages(api, 1)) == [[("é" * 256, 10**9)], [("z", 1)]]

    def test_cursor_is_valid_only_for_its_caller(self, api: Api, background: BackgroundWork) -> None:
        api.publish(tags=["a", "b"])
        background.settle_totals()
        cursor = api.get("/v1/tags", query="limit=1").json["nextCursor"]
        reply = api.get("/v1/tags", query=f"limit=1&cursor={cursor}", user="bob")
        assert (reply.status, reply.json["type"]) == (400, "urn:video-metadata:problem:invalid-cursor")

    @pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "cursor=x", "tag=a", "limit=1&limit=2"])
    def test_unknown_parameter_or_value_is_400(self, api: Api, query: str) -> None:
        assert api.get("/v1/tags", query=query).status == 400
