"""Cursors of every list. A cursor is valid only for the list and the caller that received it."""

import zlib
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import urlencode

import pytest

from local.stream_records import stream_record
from local.testbed.background import BackgroundWork
from local.testbed.calls import BODIES, path_of
from local.testbed.feed_changes import append_changes
from local.testbed.feed_changes import change as feed_change
from local.testbed.harness import NOW, USER_SCOPES, Api, Clock, Reply, record_operations
from shared import queries
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.aws.stream import Record
from shared.captions.store import CaptionStore
from shared.core.caller import Caller
from shared.feed.log import Feed
from shared.history.entries import entry
from shared.history.revert_runs import RevertRequest, RunStore
from shared.history.trail import AuditStore
from shared.openapi.document import document
from shared.relations import title_page
from shared.routes import READ, ROUTES, WRITE, Route
from shared.schema import AUDIT_TABLE_NAME, CHANGESET, PLAYLIST, TTL_ATTRIBUTE, VIDEO, WEBHOOK_ATTEMPTS
from shared.views import queries as views_queries
from shared.web.cursors import LIFETIME_SECONDS
from shared.web.paging import Paged
from shared.web.parameters import Query
from tests.indexed import publish_index

VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
OTHER_VIDEO_ID = "9b2c1f5e-7d1a-4c1e-8f43-2a5f7f0f4e11"
EPISODES = ("1c8f6f0c-1f2b-4d7e-9a59-6b7c8d9e0f12", "5d0e7a1b-2c3d-4e5f-8a6b-7c8d9e0f1a2b")
TEXT = {"text": "0f" * 16, "cues": 2, "size": 60, "origin": "owner"}
"""Attributes of stored captions. The lists do not read their text."""
BY_TIME = ("", "order=asc", "from=1", f"to={NOW}")
VIDEO_LISTS = (
    *BY_TIME,
    "tag=a",
    "tag=b",
    "region=NZ",
    "region=AU",
    "userId=alice",
    "userId=alice&tag=a",
    "category=c",
    "status=ready",
    "format=mp4",
    "minDuration=1",
    "maxDuration=9",
)


def _operations() -> Iterator[tuple[str, tuple[str, list[str]]]]:
    for path, item in document()["paths"].items():
        for operation in item.values():
            example, names = path, []
            for parameter in operation.get("parameters", []):
                if "$ref" in parameter:
                    continue  # a parameter of every operation
                if parameter["in"] == "path":
                    example = example.replace(f"{{{parameter['name']}}}", parameter.get("example", "x"))
                elif parameter["in"] == "query":
                    names.append(parameter["name"])
            yield operation["operationId"], (example, names)


OPERATIONS = dict(_operations())
"""Operations of the OpenAPI document: an example of the path, and the names of the query parameters."""

NAMES = {
    f"{{{parameter['name']}}}"
    for path in document()["paths"].values()
    for operation in path.values()
    for parameter in operation.get("parameters", [])
    if parameter.get("schema", {}).get("pattern", "").endswith("{1,64}$")
}
"""Path parameters with names that the client chooses."""

List = tuple[str, str]
"""Path and query of a list."""


@pytest.fixture
def lists(api: Api, table: Table, objects: Objects, clock: Clock, tmp_path: Path) -> dict[str, list[List]]:
    """Create lists of at least two items, and return them by operation.

    Lists of one operation differ in the parameters that select their items.
    """
    trail = AuditStore(Table(AUDIT_TABLE_NAME, table.client, sleep=lambda _: None))
    fields = {"tags": ["a", "b"], "category": "c", "format": "mp4", "duration": 5, "releaseYear": 2000}
    for video_id in (VIDEO_ID, OTHER_VIDEO_ID):
        api.publish("alice", videoId=video_id, createdAt=NOW - 9, **fields)
        for language in ("de", "mi"):
            CaptionStore(table).put(video_id, language, TEXT, Caller("alice", frozenset()), NOW, lambda _: True)
        for person in ("kim", "sam"):
            api.put(f"/v1/videos/{video_id}/credits/{person}", {"ordering": 1, "roles": [{"category": "actor"}]})
        for region in ("AU/en", "AU/mi", "NZ/en", "NZ/mi"):
            api.put(f"/v1/videos/{video_id}/releases/{region}", {"titles": [{"title": "t"}]})
        for sequence, title in enumerate(("old", "new"), 1):
            item = VIDEO.key(videoId=video_id) | {"videoId": video_id, "userId": "alice", "title": title}
            audited = entry(Record(stream_record(None, item, sequence=sequence, at=NOW - 9)), days=400)
            assert audited
            trail.add(audited)
            for changeset_id in ("one-set", "another-set"):
                key = {**audited, "sk": f"{audited['sk']}#{changeset_id}", "entity": "video", CHANGESET: changeset_id}
                trail.add(key | {"owner": "alice"})
    for revert_id in ("one-run", "another-run"):
        alice = Caller("alice", frozenset({READ, WRITE}), correlation_id=revert_id)
        store = RunStore(table)
        run = store.begin("set", RevertRequest(alice), NOW)
        store.advance(run, run, NOW, reports=[{"videoId": video_id} for video_id in (VIDEO_ID, OTHER_VIDEO_ID)])
        about = {"owner": "alice", "folder": "a", "to": "b"}
        move = store.begin("set", RevertRequest(alice._replace(correlation_id=f"{revert_id}-move")), NOW, **about)
        store.advance(move, move, NOW, named_reports={id_: {"videoId": id_} for id_ in (VIDEO_ID, OTHER_VIDEO_ID)})
    for folder in ("a/b", "a/c", "d"):
        api.create("alice", folder=folder)
    for episode in EPISODES:
        api.publish("alice", videoId=episode, seriesId=VIDEO_ID, season=1)
    playlists = []
    feed = Feed(trail.table, clock)
    for number, video_id in enumerate((VIDEO_ID, OTHER_VIDEO_ID)):
        append_changes(feed, feed_change(number, videoId=video_id))
    publish_index(table, objects, clock, tmp_path)
    for title in ("one", "two"):
        created = api.post("/v1/playlists", {"title": title, "visibility": "public"}).json["playlistId"]
        playlists.append(created)
        for version, video_id in enumerate((VIDEO_ID, OTHER_VIDEO_ID), 1):
            api.post(f"/v1/playlists/{created}/entries", {"videoId": video_id})
            list_ = PLAYLIST.key(playlistId=created) | {"playlistId": created, "userId": "alice", "version": version}
            audited_playlist = entry(Record(stream_record(None, list_, sequence=version, at=NOW - 9)), days=400)
            assert audited_playlist
            trail.add(audited_playlist)
    webhooks = []
    for _ in range(2):
        webhooks.append(api.post("/v1/webhooks", {"url": "https://hooks.acme.com/"}).json["webhookId"])
        for turn in range(2):
            key = WEBHOOK_ATTEMPTS.key(webhookId=webhooks[-1], at=f"{NOW * 1000:013}", turn=turn)
            table.write(table.put(key | {"attempts": zlib.compress(b"[{}]"), TTL_ATTRIBUTE: NOW + 9}))
    for _ in range(2):
        api.post("/v1/webhooks", {"url": "https://hooks.acme.com/", "userId": "*"}, user="admin")
    BackgroundWork(table, clock).settle_totals()
    video_paths = {
        kind: [f"/v1/videos/{video_id}/{kind}" for video_id in (VIDEO_ID, OTHER_VIDEO_ID)]
        for kind in ("audit", "captions", "releases", "playlists")
    }
    return {
        **_lists_of_resources(api),
        "listVideos": [("/v1/videos", query) for query in VIDEO_LISTS],
        "listEpisodes": [(f"/v1/videos/{VIDEO_ID}/episodes", query) for query in ("", "season=1")],
        "listAudit": [(path, query) for path in video_paths["audit"] for query in BY_TIME],
        "listPlaylistAudit": [
            (f"/v1/playlists/{playlist}/audit", query) for playlist in playlists for query in BY_TIME
        ],
        "getChangeset": [(f"/v1/changesets/{changeset_id}", "") for changeset_id in ("one-set", "another-set")],
        "getRevert": [(f"/v1/changesets/set/reverts/{revert_id}", "") for revert_id in ("one-run", "another-run")],
        "getFolderMove": [(f"/v1/folder-moves/{move_id}", "") for move_id in ("one-run-move", "another-run-move")],
        "listCaptions": [(path, "") for path in video_paths["captions"]],
        "listReleases": [(path, "") for path in video_paths["releases"]],
        "listRegionReleases": [(f"{path}/{region}", "") for path in video_paths["releases"] for region in ("AU", "NZ")],
        "listPersonVideos": [
            (f"/v1/people/{person}/videos", query)
            for person in ("kim", "sam")
            for query in ("", "order=asc", "fromYear=1999", "toYear=2001")
        ],
        "searchVideos": [
            ("/v1/search", query)
            for query in ("", "q=film", "q=fil", "q=film&category=c", "tag=a", "userId=alice", f"to={NOW}")
        ],
        "listTags": [("/v1/tags", "")],
        "listFolders": [("/v1/folders", "userId=alice")],
        "getFolder": [("/v1/folders/a", "userId=alice")],
        "listPlaylists": [("/v1/playlists", query) for query in ("userId=alice", "userId=alice&order=asc")],
        "listEntries": [(f"/v1/playlists/{playlist}/entries", "") for playlist in playlists],
        "listWebhooks": [("/v1/webhooks", query) for query in ("userId=alice", "follows=alice", "follows=*")],
        "listDeliveries": [(f"/v1/webhooks/{webhook}/deliveries", "") for webhook in webhooks],
        "listVideoPlaylists": [(path, query) for path in video_paths["playlists"] for query in ("", "order=asc")],
    }


def _lists_of_resources(api: Api) -> dict[str, list[List]]:
    """Put two resources into each list of resources whose names the client chooses. Return these lists."""
    lists = defaultdict(list)
    for put, listing in product(ROUTES, ROUTES):
        path, _, name = put.path.rpartition("/")
        if (put.method, listing.method, listing.path) == ("PUT", "GET", path) and name in NAMES:
            for video_id in (VIDEO_ID, OTHER_VIDEO_ID):
                for value, user in product("ab", ("alice", "admin")):
                    target = path_of(put, videoId=video_id, **{name.strip("{}"): value})
                    assert api.put(target, BODIES[put.operation], user=user).status in (200, 201)
                lists[listing.operation].append((path_of(listing, videoId=video_id), ""))
    return lists


def read(api: Api, listing: List, cursor: str | None = None, user: str = "admin", scopes: str | None = None) -> Reply:
    """Read a page of a list, with a limit of one item."""
    path, query = listing
    paging = urlencode({"limit": 1} | ({"cursor": cursor} if cursor else {}))
    return api.get(path, query="&".join(filter(None, (query, paging))), user=user, scopes=scopes)


def is_refused(reply: Reply) -> bool:
    """Return whether the service refused the cursor, and no other parameter."""
    return reply.status == 400 and reply.json["type"].endswith(":invalid-cursor")


@pytest.mark.slow
def test_a_cursor_is_valid_only_for_its_list(api: Api, lists: dict[str, list[List]]) -> None:
    assert set(lists) == {operation for operation, (_, parameters) in OPERATIONS.items() if "cursor" in parameters}
    one_of_each = [of_operation[0] for of_operation in lists.values()]
    for of_operation in lists.values():
        for listing in of_operation:
            cursor = read(api, listing).json["nextCursor"]
            assert cursor, f"{listing} has only one page"
            replies = {other: read(api, other, cursor) for other in {*of_operation, *one_of_each}}
            assert {other: reply.status for other, reply in replies.items() if not is_refused(reply)} == {listing: 200}


@pytest.mark.slow
def test_a_cursor_is_valid_only_for_its_caller_with_unchanged_rights(api: Api, lists: dict[str, list[List]]) -> None:
    for listing in (listing for of_operation in lists.values() for listing in of_operation):
        cursor = read(api, listing).json["nextCursor"]
        another_admin = read(api, listing, cursor, user="bob", scopes="videos/read videos/admin")
        admin_no_more = read(api, listing, cursor, user="admin", scopes=USER_SCOPES)
        assert is_refused(another_admin), listing
        assert is_refused(admin_no_more), listing
        by_user = read(api, listing, user="alice")
        if by_user.status == 200:
            as_admin = read(api, listing, by_user.json["nextCursor"], user="alice", scopes="videos/read videos/admin")
            assert is_refused(as_admin), listing


def test_a_cursor_expires_after_its_lifetime(api: Api, clock: Clock) -> None:
    for _ in range(3):
        api.publish()
    cursor = read(api, ("/v1/videos", "")).json["nextCursor"]
    clock.advance(LIFETIME_SECONDS)
    assert read(api, ("/v1/videos", ""), cursor).status == 200
    clock.advance(1)
    assert is_refused(read(api, ("/v1/videos", ""), cursor))


@pytest.mark.slow
def test_a_cursor_of_a_title_page_is_valid_for_the_list_of_that_name(
    api: Api, lists: dict[str, list[List]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(title_page, "LARGEST_LIST", 300)
    included = api.get(f"/v1/videos/{VIDEO_ID}", query="include=credits,releases", user="admin").json["included"]
    for section in ("credits", "releases"):
        cursor = included[section]["nextCursor"]
        assert cursor
        accepting = [
            listing
            for of_operation in lists.values()
            for listing in of_operation
            if not is_refused(read(api, listing, cursor))
        ]
        assert accepting == [(f"/v1/videos/{VIDEO_ID}/{section}", "")]
        assert is_refused(read(api, accepting[0], cursor, user="bob", scopes="videos/read videos/admin"))
        assert is_refused(read(api, accepting[0], cursor, scopes=USER_SCOPES))


@pytest.mark.parametrize("route", [route for route in ROUTES if route.scope], ids=lambda route: route.operation)
def test_an_operation_accepts_only_the_query_parameters_that_it_declares(api: Api, table: Table, route: Route) -> None:
    path, parameters = OPERATIONS[route.operation]
    with record_operations(table.client) as operations:
        unknown = api.request(route.method, path, query="x=1", user="admin", json_body={})
        empty = [api.request(route.method, path, query=f"{name}=", user="admin") for name in parameters]
    assert unknown.status == 400
    assert unknown.json["errors"][0]["parameter"] == "x"
    for name, reply in zip(parameters, empty, strict=True):
        assert {"parameter": name, "detail": "must not be empty"} in reply.json["errors"]
    assert operations == []


def test_every_query_class_has_the_name_of_an_operation() -> None:
    modules = (queries, views_queries)
    declared = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    classes = {kind for kind in declared if issubclass(kind, Query)}
    assert classes - {Query, Paged} == {Query.of(route.operation) for route in ROUTES} - {Query}
