"""Storage addresses (`s3://`): only a video's owner and admins can read them, by any operation."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from local.testbed.calls import PATH_PARAMETERS, path_of, put_examples
from local.testbed.counted_views import CountedViews
from local.testbed.harness import MEDIA_BUCKET, SOURCES_BUCKET, Api, Clock, Reply
from local.testbed.lean_moto import create_buckets, restore_tables, stored_tables
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.feed.change import change_of
from shared.routes import ROUTES
from shared.views.rankings import Rankings
from shared.webhooks.event import event_body
from tests.indexed import IndexedService
from tests.unit.conftest import SharedClient
from tests.unit.test_authorization import is_refused_to_writers

S3 = b"s3://"
THUMBNAILS = {
    "poster": {"url": "s3://private/poster.jpg", "time": 0},
    "mine": {"url": "s3://private/mine.jpg"},
    "public": {"url": "https://example.com/public.jpg"},
}
SERIES = "11111111-0000-4000-8000-000000000000"
OTHER_USER: Mapping[str, Any] = {"user": "bob", "scopes": "videos/read videos/write videos/changes"}
READS = [route for route in ROUTES if route.method == "GET" and route.scope]
"""Operations that can return videos. Excludes operations without a scope: they return no videos."""


class World(IndexedService):
    """Alice's published video, with an address in every field that can have one, and every item that refers to the
    video."""

    def __init__(self, table: Table, objects: Objects, clock: Clock, folder: Path) -> None:
        super().__init__(table, objects, clock)
        api, fields = (
            self.api,
            {
                "seriesId": SERIES,
                "season": 1,
                "tags": ["a"],
                "category": "c",
                "visibility": "public",
                **{name: PATH_PARAMETERS[name] for name in ("externalId", "slug")},
            },
        )
        api.publish(videoId=SERIES)
        self.video_id = self.uploaded_film(api, title="The harbour", thumbnails=THUMBNAILS, **fields)
        for name in ("240p", "360p"):
            self._write_example(name)
        own = {"720p": "s3://private/720p.mp4", "360p": "s3://private/360p.mp4"}
        self.patch(self.video_id, resolutions=own, title="The old harbour")
        path = f"/v1/videos/{self.video_id}"
        for function in sorted({route.function for route in ROUTES}):
            put_examples(api, function, videoId=self.video_id)
        self.settle()
        self.write("PUT", f"{path}/rating", {"value": 7}, **OTHER_USER)
        self.put_captions(self.video_id, "the tide is out")
        playlist = self.write("POST", "/v1/playlists", {"title": "Films", "visibility": "public"}, user="carol")
        self.playlist_id = playlist.json["playlistId"]
        self.write("POST", f"/v1/playlists/{self.playlist_id}/entries", {"videoId": self.video_id}, user="carol")
        self.settle_totals()
        viewed = CountedViews(table, {self.video_id: "c"})
        viewed.count(self.video_id, int(clock()), views=5)
        viewed.store()
        Rankings(table).compute(int(clock()))
        assert self.builder(folder).run().outcome == "published"

    def _write_example(self, name: str) -> None:
        message = self.message("transcode", f"transcode.{name}")
        body = {"inputHash": message.inputHash, "attempt": message.attempt, "state": "done", "uri": message.output}
        path = f"/v1/videos/{self.video_id}/renditions/{name}"
        transcoder = {"user": "transcoder", "scopes": "videos/transcode"}
        assert self.api.put(path, body | {"fileSize": 9_000}, **transcoder).status == 200
        self.settle()


FORMS: Mapping[str, tuple[str, ...]] = {
    "listVideos": (
        *("/v1/videos?", "/v1/videos?tag=a", "/v1/videos?region=NZ", "/v1/videos?userId=alice&include=stats"),
        *("/v1/videos?category=c", "/v1/videos?fields=poster,title"),
    ),
    "getVideo": (
        "{video}",
        "{video}?include=credits,releases,ratings,tags,jobs",
        "{video}?fields=resolutions,thumbnails",
    ),
    "getDiff": ("{video}/diff?from=1",),
    "getVideoByExternalId": (f"/v1/external-ids/{PATH_PARAMETERS['externalId']}?userId=alice",),
    "getVideoBySlug": (f"/v1/slugs/{PATH_PARAMETERS['slug']}?userId=alice",),
    "listEpisodes": (f"/v1/videos/{SERIES}/episodes",),
    "searchVideos": ("/v1/search?q=harbour&facets=tag", "/v1/search?q=tide", "/v1/search"),
    "similarVideos": (f"/v1/videos/{SERIES}/similar", "{video}/similar"),
    "listFolders": ("/v1/folders?userId=alice",),
    "getFolder": ("/v1/folders/a?userId=alice",),
    "listTop": ("/v1/top", "/v1/top?category=c"),
    "listPlaylists": ("/v1/playlists?userId=carol",),
    "listChanges": ("/v1/changes?limit=100",),
    "listWebhooks": ("/v1/webhooks?userId=alice",),
}
"""Requests by operation, for operations that need query parameters or have several variants."""


@pytest.fixture(scope="module")
def filled(
    empty_tables: bytes,
    shared_client: SharedClient,
    shared_s3_client: SharedClient,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[World, bytes]]:
    """Return the service with one video that has addresses, and its tables."""
    with mock_aws():
        restore_tables(empty_tables)
        create_buckets(SOURCES_BUCKET, MEDIA_BUCKET)
        table = Table("VideoMetadata", shared_client.reset(), sleep=lambda _: None)
        objects = Objects(shared_s3_client.reset(), sleep=lambda _: None)
        world = World(table, objects, Clock(), tmp_path_factory.mktemp("index"))
        yield world, stored_tables()


@pytest.fixture
def world(filled: tuple[World, bytes]) -> World:
    """Return the service with the tables as they were before the first test."""
    world, tables = filled
    restore_tables(tables)
    return world


def _get(world: World, form: str, **options: Any) -> Reply:
    path, _, query = form.format(video=f"/v1/videos/{world.video_id}").partition("?")
    return world.api.get(path, query=query, **options)


def _forms(world: World, operation: str) -> tuple[str, ...]:
    """Return the requests of an operation from FORMS. The default is one request without query parameters."""
    (route,) = (candidate for candidate in READS if candidate.operation == operation)
    changeset_id = next(iter(world.entries(world.video_id)))["correlationId"]
    path = path_of(route, videoId=world.video_id, playlistId=world.playlist_id, changesetId=changeset_id)
    return FORMS.get(operation, (path,))


@pytest.mark.slow
def test_no_read_returns_an_address_to_another_user(world: World) -> None:
    for operation in (route.operation for route in READS):
        # `is_refused_to_writers` describes a user without the scope videos/changes. This user has that scope.
        is_refused = is_refused_to_writers(operation) and operation != "listChanges"
        for form in _forms(world, operation):
            reply = _get(world, form, **OTHER_USER)
            assert reply.status in ((403, 404) if is_refused else (200,)), (operation, form, reply.body)
            assert S3 not in reply.body, (operation, form)


def test_batch_get_returns_no_address_to_another_user(world: World) -> None:
    fetched = world.api.post("/v1/videos/batch-get", {"videoIds": [world.video_id]}, **OTHER_USER)
    assert (len(fetched.json["items"]), S3 in fetched.body) == (1, False)


def test_lists_with_the_video_are_not_empty(world: World) -> None:
    for operation in ("listVideos", "listEpisodes", "listPersonVideos", "searchVideos", "listTop", "listEntries"):
        for form in _forms(world, operation):
            assert b"harbour" in _get(world, form, **OTHER_USER).body, form


@pytest.mark.slow
@pytest.mark.parametrize("user", ["alice", "admin"])
def test_owner_and_admins_see_the_addresses(world: World, user: str) -> None:
    fetched = _get(world, "{video}", user=user).json
    assert fetched["resolutions"] == {
        "240p": f"s3://{MEDIA_BUCKET}/renditions/{world.video_id}/{_hash(fetched)}/240p.mp4",
        "360p": "s3://private/360p.mp4",
        "720p": "s3://private/720p.mp4",
    }
    assert {name: fetched["thumbnails"][name] for name in THUMBNAILS} == THUMBNAILS
    assert _get(world, "{video}?fields=resolutions", user=user).json == {"resolutions": fetched["resolutions"]}
    batch = world.api.post("/v1/videos/batch-get", {"videoIds": [world.video_id]}, user=user)
    assert batch.json["items"] == [fetched]
    assert S3 in _get(world, "{video}/audit", user=user).body


def _hash(video: dict[str, Any]) -> str:
    return str(video["resolutions"]["240p"].split("/")[-2])


def test_another_user_sees_rendition_names_sizes_and_the_playback_path(world: World) -> None:
    playing = {
        "renditions": {"240p": {"size": 9000}, "360p": {}, "720p": {}},
        "playback": f"/v1/videos/{world.video_id}/playback",
    }
    fetched = _get(world, "{video}", **OTHER_USER).json
    assert {name: fetched[name] for name in playing} == playing
    assert _get(world, "{video}?fields=renditions,playback", **OTHER_USER).json == playing
    assert world.api.get(fetched["playback"], **OTHER_USER).status == 200
    assert not playing.keys() & _get(world, "{video}", user="alice").json.keys()


def test_another_user_sees_only_thumbnails_with_urls(world: World) -> None:
    assert _get(world, "{video}", **OTHER_USER).json["thumbnails"] == {"public": THUMBNAILS["public"]}
    assert "resolutions" not in _get(world, "{video}", **OTHER_USER).json


def test_events_of_webhooks_have_no_address(world: World) -> None:
    bodies = [event_body(change_of(entry)) for entry in world.entries(world.video_id)]
    assert len(bodies) > 5
    assert [body for body in bodies if S3 in body] == []


@pytest.mark.parametrize(
    "write",
    [
        lambda api, path: api.patch(path, {"resolutions": {}}, **OTHER_USER),
        lambda api, path: api.delete(path, **OTHER_USER),
        lambda api, path: api.post(f"{path}/restore", **OTHER_USER),
        lambda api, path: api.post(f"{path}/revert", {"toVersion": 1}, **OTHER_USER),
        lambda api, path: api.post(f"{path}/views", **OTHER_USER),
        lambda api, path: api.put(f"{path}/rating", {"value": 7}, **OTHER_USER),
    ],
)
def test_responses_to_writes_by_another_user_contain_no_address(
    world: World, write: Callable[[Api, str], Reply]
) -> None:
    assert S3 not in write(world.api, f"/v1/videos/{world.video_id}").body
