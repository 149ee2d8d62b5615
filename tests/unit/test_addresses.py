"""Storage addresses: only a video's owner and admins see any, whatever the operation."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from local.testbed.counted_views import CountedViews
from local.testbed.harness import MEDIA_BUCKET, Api, Clock, Reply
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.feed.change import change_of
from shared.routes import ROUTES
from shared.views.rankings import Rankings
from shared.webhooks.event import event_body
from tests.indexed import IndexedService

S3 = b"s3://"
THUMBNAILS = {
    "poster": {"url": "s3://private/poster.jpg", "time": 0},
    "mine": {"url": "s3://private/mine.jpg"},
    "public": {"url": "https://example.com/public.jpg"},
}
SERIES = "11111111-0000-4000-8000-000000000000"
STRANGER: Mapping[str, Any] = {"user": "bob", "scopes": "videos/read videos/write videos/changes"}
WITHOUT_VIDEOS = {"getOpenApi", "getDocs", "getDocsAsset", "getHealth"}
"""Operations that read no video. The OpenAPI document is one of them because it describes addresses."""


class World(IndexedService):
    """A published video of alice's with addresses in every field that can have one, and all that leads to it."""

    def __init__(self, table: Table, objects: Objects, clock: Clock, folder: Path) -> None:
        super().__init__(table, objects, clock)
        api, fields = (
            self.api,
            {"seriesId": SERIES, "season": 1, "tags": ["a"], "category": "c", "visibility": "public"},
        )
        api.publish(videoId=SERIES)
        self.video_id = self.uploaded_film(api, title="The harbour", thumbnails=THUMBNAILS, **fields)
        for name in ("240p", "360p"):
            self._made(name)
        own = {"720p": "s3://private/720p.mp4", "360p": "s3://private/360p.mp4"}
        self.patch(self.video_id, resolutions=own, title="The old harbour")
        path = f"/v1/videos/{self.video_id}"
        self.write("PUT", f"{path}/credits/sam", {"ordering": 1, "roles": [{"category": "actor"}]})
        self.write("PUT", f"{path}/releases/NZ", {"titles": [{"title": "Kia ora"}]})
        self.write("PUT", f"{path}/chapters", {"chapters": [{"start": 0, "title": "Opening"}]})
        self.write("PUT", f"{path}/rating", {"value": 7}, **STRANGER)
        self.say(self.video_id, "the tide is out")
        made = self.write("POST", "/v1/playlists", {"title": "Films", "visibility": "public"}, user="carol")
        self.playlist_id = made.json["playlistId"]
        self.write("POST", f"/v1/playlists/{self.playlist_id}/entries", {"videoId": self.video_id}, user="carol")
        self.settle_totals()
        viewed = CountedViews(table, {self.video_id: "c"})
        viewed.count(self.video_id, int(clock()), views=5)
        viewed.store()
        Rankings(table).compute(int(clock()))
        assert self.builder(folder).run().outcome == "published"

    def _made(self, name: str) -> None:
        message = self.message("transcode", f"transcode.{name}")
        body = {"inputHash": message.inputHash, "attempt": message.attempt, "state": "done", "uri": message.output}
        path = f"/v1/videos/{self.video_id}/renditions/{name}"
        transcoder = {"user": "transcoder", "scopes": "videos/transcode"}
        assert self.api.put(path, body | {"fileSize": 9_000}, **transcoder).status == 200
        self.settle()


READS: Mapping[str, tuple[str, ...]] = {
    "listVideos": (
        *("/v1/videos?", "/v1/videos?tag=a", "/v1/videos?region=NZ", "/v1/videos?userId=alice&include=stats"),
        *("/v1/videos?category=c", "/v1/videos?fields=poster,title"),
    ),
    "getVideo": (
        "{video}",
        "{video}?include=credits,releases,ratings,tags,jobs",
        "{video}?fields=resolutions,thumbnails",
    ),
    "listEpisodes": (f"/v1/videos/{SERIES}/episodes",),
    "getPlayback": ("{video}/playback",),
    "listCredits": ("{video}/credits",),
    "getCredit": ("{video}/credits/sam",),
    "listPersonVideos": ("/v1/people/sam/videos",),
    "listReleases": ("{video}/releases",),
    "listRegionReleases": ("{video}/releases/NZ",),
    "listCaptions": ("{video}/captions",),
    "getCaptions": ("{video}/captions/en",),
    "getChapters": ("{video}/chapters",),
    "getRating": ("{video}/rating",),
    "searchVideos": ("/v1/search?q=harbour&facets=tag", "/v1/search?q=tide", "/v1/search"),
    "similarVideos": (f"/v1/videos/{SERIES}/similar", "{video}/similar"),
    "listTags": ("/v1/tags",),
    "listTop": ("/v1/top", "/v1/top?category=c"),
    "listPlaylists": ("/v1/playlists?userId=carol",),
    "getPlaylist": ("{playlist}",),
    "listEntries": ("{playlist}/entries",),
    "listVideoPlaylists": ("{video}/playlists",),
    "listChanges": ("/v1/changes?limit=100",),
    "listWebhooks": ("/v1/webhooks",),
}
"""Requests that a stranger may send, by operation."""
REFUSED: Mapping[str, tuple[str, ...]] = {
    "getRelease": ("{video}/releases/NZ/en",),
    "getViews": ("{video}/views",),
    "explainViews": ("{video}/views/explain",),
    "getUpload": ("{video}/upload/0001",),
    "listJobs": ("{video}/jobs",),
    "whyNotReady": ("{video}/why-not-ready",),
    "getUser": ("/v1/users/alice",),
    "listAudit": ("{video}/audit",),
    "getChangeset": ("/v1/changesets/{changeset}",),
    "getRevert": ("/v1/changesets/{changeset}/reverts/x",),
    "listPlaylistAudit": ("{playlist}/audit",),
    "getDiff": ("{video}/diff?from=1",),
    "getWebhook": ("/v1/webhooks/{webhook}",),
    "listDeliveries": ("/v1/webhooks/{webhook}/deliveries",),
}
"""Requests that a stranger may not send, or that find nothing for a stranger."""


@pytest.fixture
def world(table: Table, objects: Objects, clock: Clock, tmp_path: Path) -> World:
    """A video with addresses."""
    return World(table, objects, clock, tmp_path)


def _get(world: World, form: str, **options: Any) -> Reply:
    path, _, query = form.format(
        video=f"/v1/videos/{world.video_id}",
        playlist=f"/v1/playlists/{world.playlist_id}",
        changeset=next(iter(world.entries(world.video_id)))["correlationId"],
        webhook=SERIES,
    ).partition("?")
    return world.api.get(path, query=query, **options)


def test_no_read_answers_a_stranger_with_an_address(world: World) -> None:
    for expected, reads in ((range(200, 201), READS), (range(400, 405), REFUSED)):
        for operation, forms in reads.items():
            for form in forms:
                reply = _get(world, form, **STRANGER)
                assert reply.status in expected, (operation, form, reply.body)
                assert S3 not in reply.body, (operation, form)
    fetched = world.api.post("/v1/videos/batch-get", {"videoIds": [world.video_id]}, **STRANGER)
    assert (len(fetched.json["items"]), S3 in fetched.body) == (1, False)


def test_every_read_is_among_those() -> None:
    reads = {route.operation for route in ROUTES if route.method == "GET"} - WITHOUT_VIDEOS
    assert reads == {*READS, *REFUSED}
    assert not {*READS} & {*REFUSED}


def test_lists_with_the_video_are_not_empty(world: World) -> None:
    for operation in ("listVideos", "listEpisodes", "listPersonVideos", "searchVideos", "listTop", "listEntries"):
        for form in READS[operation]:
            assert b"harbour" in _get(world, form, **STRANGER).body, form


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


def test_a_stranger_sees_names_sizes_and_where_to_play(world: World) -> None:
    playing = {
        "renditions": {"240p": {"size": 9000}, "360p": {}, "720p": {}},
        "playback": f"/v1/videos/{world.video_id}/playback",
    }
    fetched = _get(world, "{video}", **STRANGER).json
    assert {name: fetched[name] for name in playing} == playing
    assert _get(world, "{video}?fields=renditions,playback", **STRANGER).json == playing
    assert world.api.get(fetched["playback"], **STRANGER).status == 200
    assert not playing.keys() & _get(world, "{video}", user="alice").json.keys()


def test_a_stranger_sees_the_pictures_that_have_urls(world: World) -> None:
    assert _get(world, "{video}", **STRANGER).json["thumbnails"] == {"public": THUMBNAILS["public"]}
    assert "resolutions" not in _get(world, "{video}", **STRANGER).json


def test_events_of_webhooks_have_no_address(world: World) -> None:
    bodies = [event_body(change_of(entry)) for entry in world.entries(world.video_id)]
    assert len(bodies) > 5
    assert [body for body in bodies if S3 in body] == []


@pytest.mark.parametrize(
    "write",
    [
        lambda api, path: api.patch(path, {"resolutions": {}}, **STRANGER),
        lambda api, path: api.delete(path, **STRANGER),
        lambda api, path: api.post(f"{path}/restore", **STRANGER),
        lambda api, path: api.post(f"{path}/revert", {"toVersion": 1}, **STRANGER),
        lambda api, path: api.post(f"{path}/views", **STRANGER),
        lambda api, path: api.put(f"{path}/rating", {"value": 7}, **STRANGER),
    ],
)
def test_writes_of_a_stranger_are_answered_without_an_address(world: World, write: Callable[[Api, str], Reply]) -> None:
    assert S3 not in write(world.api, f"/v1/videos/{world.video_id}").body
