"""The purge deletes all leftovers of a deleted video or playlist, however many there are, and completes after any
interruption."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from functions.purge import handler
from local.testbed.background import BackgroundWork, FakeQueue
from local.testbed.harness import MEDIA_BUCKET, SOURCES_BUCKET, Api, Clock, Context, FakeResources, ShortContext
from local.testbed.streams import sqs_event
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.background import purge as purging
from shared.background.purge import Purge
from shared.captions.store import text_key
from shared.core.attributes import Item
from shared.core.errors import Unavailable
from shared.processing.messages import purge_message, purge_playlist_message
from shared.relations.ratings import rating_index_position, rating_key
from shared.schema import (
    CAPTION,
    CHAPTERS,
    CREDIT,
    MARKER,
    ORDER,
    PLAYLIST,
    RATING_TOTALS,
    RELEASE,
    TAG,
    VIDEO,
    VIEW_COUNTER,
    VIEW_DAY,
    VIEW_HOUR,
    VIEWER,
)
from shared.videos.video import GRACE_SECONDS

VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


Run = Callable[..., dict[str, Any]]


@pytest.fixture
def purge(table: Table, objects: Objects) -> Run:
    """Return a function that runs the purge function on messages.

    It uses the tests' table and objects. Unfinished purges are sent to `queue`.
    """

    def run(*bodies: dict[str, Any], queue: FakeQueue | None = None, context: Context | None = None) -> dict[str, Any]:
        resources = FakeResources(table, time.time, objects=objects, queues={"purge": queue or FakeQueue()})
        return resources.make(handler.lambda_handler)(sqs_event(*bodies), context or Context())

    return run


def _items(table: Table) -> list[tuple[str, str]]:
    pages: Any = table.client.get_paginator("scan").paginate(TableName=table.name)
    return sorted((item["pk"]["S"], item["sk"]["S"]) for page in pages for item in page["Items"])


def _put(table: Table, *items: Item) -> None:
    for item in items:
        table.write(table.put(item))


def _ratings(table: Table, video_id: str, count: int) -> None:
    """Store ratings of a video by `count` users, with their totals and index entries."""
    _put(table, RATING_TOTALS.key(videoId=video_id) | {"votes": count})
    for number in range(count):
        user = f"user {number}"
        _put(table, {**rating_key(video_id, user), **rating_index_position(video_id, user), "value": 7})


def _of_ratings(table: Table, video_id: str) -> list[tuple[str, str]]:
    """Return the remaining ratings of a video."""
    return [(pk, sk) for pk, sk in _remaining(table, video_id) if pk.startswith("RATINGS#")]


def _views(table: Table, video_id: str, hours: int) -> None:
    """Store a sharded view counter, items for `hours` hours, and one item for a day."""
    _put(
        table,
        VIEW_COUNTER.key(videoId=video_id, shard=0) | {"views": 5, "spread": 4, "folded": {"views": 3}},
        *(VIEW_COUNTER.key(videoId=video_id, shard=shard) | {"views": 1} for shard in (1, 2, 3)),
        *(VIEW_HOUR.key(videoId=video_id, hour=f"2025-06-{number:03}") for number in range(hours)),
        VIEW_DAY.key(videoId=video_id, day="2025-06-15"),
    )


def _playlist(api: Api, *video_ids: str) -> str:
    """Create a playlist of these videos, and return its id."""
    playlist_id = str(api.post("/v1/playlists", {"title": "t"}).json["playlistId"])
    for video_id in video_ids:
        assert api.post(f"/v1/playlists/{playlist_id}/entries", {"videoId": video_id}).status == 201
    return playlist_id


def _related_video(api: Api, table: Table, objects: Objects, playlists: int = 3) -> list[str]:
    """Store a video with every kind of related item, and return its playlists. Each playlist also contains another
    video."""
    other = api.publish()["videoId"]
    api.publish(videoId=VIDEO_ID)
    _views(table, VIDEO_ID, hours=3)
    _ratings(table, VIDEO_ID, 3)
    _put(
        table,
        CREDIT.key(videoId=VIDEO_ID, personId="nm1"),
        RELEASE.key(videoId=VIDEO_ID, region="NZ", language="en"),
        CAPTION.key(videoId=VIDEO_ID, language="en"),
        CHAPTERS.key(videoId=VIDEO_ID),
        TAG.key(videoId=VIDEO_ID, tag="a"),
        ORDER.key(videoId=VIDEO_ID, order="rating"),
        MARKER.key(videoId=VIDEO_ID),
    )
    objects.put(SOURCES_BUCKET, f"{VIDEO_ID}/0001", b"x", "video/mp4")
    # Caption texts that were replaced or removed stay in S3 until the purge.
    for text in ("1" * 32, "2" * 32):
        objects.put(MEDIA_BUCKET, text_key(VIDEO_ID, text), b"WEBVTT\n", "text/vtt")
    return [_playlist(api, VIDEO_ID, other) for _ in range(playlists)]


def _remaining(table: Table, video_id: str) -> list[tuple[str, str]]:
    return [(pk, sk) for pk, sk in _items(table) if video_id in pk + sk]


def _with_everything(api: Api, background: BackgroundWork, objects: Objects) -> str:
    """Store a video with jobs, views, captions and objects, and return its id."""
    video_id = background.uploaded_film(api)
    api.post(f"/v1/videos/{video_id}/views", user="bob")
    for bucket, key in (
        (SOURCES_BUCKET, f"{video_id}/0001"),
        (MEDIA_BUCKET, f"thumbnails/{video_id}/x/poster.jpg"),
        (MEDIA_BUCKET, f"renditions/{video_id}/x/240p.mp4"),
        (MEDIA_BUCKET, text_key(video_id, "0" * 32)),
    ):
        objects.put(bucket, key, b"x", "video/mp4")
    _put(background.table, CAPTION.key(videoId=video_id, language="en"), CHAPTERS.key(videoId=video_id))
    return video_id


def _keys(objects: Objects) -> list[str]:
    return [
        stored["Key"]
        for bucket in (SOURCES_BUCKET, MEDIA_BUCKET)
        for stored in objects.client.list_objects_v2(Bucket=bucket).get("Contents", [])
    ]


def test_purge_removes_everything_of_the_video_and_nothing_else(
    api: Api, background: BackgroundWork, purge: Run, objects: Objects
) -> None:
    purged, other = (_with_everything(api, background, objects) for _ in range(2))
    background.table.delete(VIDEO.key(videoId=purged))
    background.settle()
    (message,) = background.queues["purge"].take()
    assert purge(message) == {"batchItemFailures": []}
    assert {purged in pk for pk, _ in _items(background.table)} == {False}
    assert len([pk for pk, _ in _items(background.table) if other in pk]) > 5
    assert [other in key for key in _keys(objects)] == [True] * 4


def test_purge_skips_a_recreated_video(api: Api, background: BackgroundWork, purge: Run, objects: Objects) -> None:
    video_id = _with_everything(api, background, objects)
    before = _items(background.table)
    purge(purge_message(video_id))
    assert (_items(background.table), len(_keys(objects))) == (before, 4)


def test_purge_removes_the_view_counter_so_that_the_id_can_be_reused(
    api: Api, background: BackgroundWork, purge: Run, objects: Objects
) -> None:
    video_id = _with_everything(api, background, objects)
    background.table.delete(VIDEO.key(videoId=video_id))
    purge(purge_message(video_id))
    assert api.create("admin", videoId=video_id)["viewCount"] == 0
    assert api.get(f"/v1/videos/{video_id}", user="admin").json["viewCount"] == 0


@pytest.mark.slow
def test_purge_deletes_thousands_of_child_items(table: Table, purge: Run) -> None:
    names = [f"CREDIT#{number:04}" for number in range(2500)]
    for start in range(0, len(names), 25):
        batch = [{"pk": {"S": "VIDEO#v"}, "sk": {"S": name}} for name in names[start : start + 25]]
        requests: Any = {table.name: [{"PutRequest": {"Item": item}} for item in batch]}
        table.client.batch_write_item(RequestItems=requests)
    assert len(_items(table)) == len(names)
    purge(purge_message("v"))
    assert _items(table) == []


def test_purge_deletes_related_items_except_counted_totals(
    api: Api, table: Table, purge: Run, objects: Objects
) -> None:
    playlists = _related_video(api, table, objects)
    table.delete(VIDEO.key(videoId=VIDEO_ID))
    assert purge(purge_message(VIDEO_ID)) == {"batchItemFailures": []}
    assert _remaining(table, VIDEO_ID) == [(f"VIDEO#{VIDEO_ID}", MARKER.sk)]
    assert _keys(objects) == []
    for playlist_id in playlists:
        playlist = api.get(f"/v1/playlists/{playlist_id}").json
        assert (playlist["entryCount"], playlist["version"]) == (1, 4)
        assert len(api.get(f"/v1/playlists/{playlist_id}/entries").json["items"]) == 1


def test_purge_deletes_many_pages_of_ratings_and_memberships(
    api: Api, table: Table, purge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "PAGE", 3)
    api.publish(videoId=VIDEO_ID)
    other = api.publish()["videoId"]
    for video_id in (VIDEO_ID, other):
        _ratings(table, video_id, 20)
    playlists = [_playlist(api, VIDEO_ID, other) for _ in range(8)]
    table.delete(VIDEO.key(videoId=VIDEO_ID))
    purge(purge_message(VIDEO_ID))
    assert _remaining(table, VIDEO_ID) == []
    assert len(_of_ratings(table, other)) == 20
    assert [api.get(f"/v1/playlists/{playlist}").json["entryCount"] for playlist in playlists] == [1] * 8


def test_purge_deletes_view_counts_and_leaves_expiring_viewer_items(table: Table, purge: Run) -> None:
    _views(table, VIDEO_ID, hours=250)
    marker = VIEWER.key(videoId=VIDEO_ID, lane=7, id="bob") | {"purgeAt": 1}
    _put(table, marker)
    assert purge(purge_message(VIDEO_ID)) == {"batchItemFailures": []}
    assert _remaining(table, VIDEO_ID) == [(marker["pk"], marker["sk"])]


def test_purge_deletes_many_pages_of_hours(table: Table, purge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "PAGE", 2)
    _views(table, VIDEO_ID, hours=15)
    queue, rounds = FakeQueue([purge_message(VIDEO_ID)]), 0
    while messages := queue.take():
        assert purge(*messages, queue=queue, context=ShortContext(5)) == {"batchItemFailures": []}
        rounds += 1
    assert rounds > 2
    assert _remaining(table, VIDEO_ID) == []


def test_purge_deletes_memberships_of_deleted_playlists(api: Api, table: Table, purge: Run, objects: Objects) -> None:
    for playlist_id in _related_video(api, table, objects):
        api.delete(f"/v1/playlists/{playlist_id}")
    table.delete(VIDEO.key(videoId=VIDEO_ID))
    purge(purge_message(VIDEO_ID))
    assert _remaining(table, VIDEO_ID) == [(f"VIDEO#{VIDEO_ID}", MARKER.sk)]


def test_purge_message_delivered_twice_succeeds(purge: Run) -> None:
    assert purge(purge_message("v"), purge_message("v")) == {"batchItemFailures": []}


CALLS = 36
"""Number of calls in a purge of a video that has every kind of related item and is in one playlist."""


@pytest.mark.parametrize("at", range(CALLS + 1))
def test_purge_that_fails_at_any_call_completes_when_redelivered(
    api: Api, table: Table, purge: Run, objects: Objects, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    (playlist_id,) = _related_video(api, table, objects, playlists=1)
    table.delete(VIDEO.key(videoId=VIDEO_ID))
    with monkeypatch.context() as patch:
        calls = _Calls(at)
        patch.setattr(table, "_carry_out", calls.counted(table._carry_out))
        patch.setattr(objects, "delete_prefix", calls.counted(objects.delete_prefix))
        broken = purge(purge_message(VIDEO_ID)) != {"batchItemFailures": []}
    assert broken == (at < CALLS)
    assert purge(purge_message(VIDEO_ID)) == {"batchItemFailures": []}
    assert _remaining(table, VIDEO_ID) == [(f"VIDEO#{VIDEO_ID}", MARKER.sk)]
    assert _keys(objects) == []
    assert api.get(f"/v1/playlists/{playlist_id}").json["entryCount"] == 1


class TestShortTime:
    def test_unfinished_purge_is_requeued_until_nothing_is_left(
        self, api: Api, table: Table, purge: Run, objects: Objects, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(purging, "PAGE", 2)
        playlists = _related_video(api, table, objects)
        table.delete(VIDEO.key(videoId=VIDEO_ID))
        queue, rounds, counts = FakeQueue([purge_message(VIDEO_ID)]), 0, [len(_remaining(table, VIDEO_ID))]
        while messages := queue.take():
            response = purge(*messages, queue=queue, context=ShortContext(6))
            assert response == {"batchItemFailures": []}
            rounds += 1
            counts.append(len(_remaining(table, VIDEO_ID)))
        assert _remaining(table, VIDEO_ID) == [(f"VIDEO#{VIDEO_ID}", MARKER.sk)]
        assert _keys(objects) == []
        assert rounds > 2
        assert counts == sorted(counts, reverse=True)
        assert [api.get(f"/v1/playlists/{playlist}").json["entryCount"] for playlist in playlists] == [1, 1, 1]

    def test_purge_without_time_is_requeued_unchanged(
        self, api: Api, table: Table, purge: Run, objects: Objects
    ) -> None:
        _related_video(api, table, objects)
        table.delete(VIDEO.key(videoId=VIDEO_ID))
        queue = FakeQueue()
        messages = [purge_message(VIDEO_ID), purge_playlist_message("p")]
        assert purge(*messages, queue=queue, context=ShortContext(0)) == {"batchItemFailures": []}
        assert queue.take() == messages

    def test_video_recreated_during_a_purge_keeps_new_items(
        self, api: Api, table: Table, purge: Run, objects: Objects
    ) -> None:
        _related_video(api, table, objects)
        table.delete(VIDEO.key(videoId=VIDEO_ID))
        queue = FakeQueue()
        purge(purge_message(VIDEO_ID), queue=queue, context=ShortContext(3))
        # Only a restore of the table by DynamoDB can recreate the video this early; no client can.
        _put(table, VIDEO.key(videoId=VIDEO_ID))
        _put(table, CREDIT.key(videoId=VIDEO_ID, personId="nm2"))
        before = _items(table)
        assert purge(*queue.take(), queue=queue) == {"batchItemFailures": []}
        assert (_items(table), queue.take()) == (before, [])

    def test_video_recreated_between_pages_keeps_remaining_items(
        self, api: Api, table: Table, objects: Objects, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(purging, "PAGE", 3)
        purge = Purge(table, objects, SOURCES_BUCKET, MEDIA_BUCKET)
        api.publish(videoId=VIDEO_ID)
        for _ in range(8):
            _playlist(api, VIDEO_ID)
        _ratings(table, VIDEO_ID, 8)
        item = table.get(VIDEO.key(videoId=VIDEO_ID)) or {}
        batch_delete, forget = table.batch_delete, purge.entries.forget

        def deleted(keys: Any) -> None:
            batch_delete(keys)
            _put(table, item)

        def forgotten(*args: Any) -> None:
            forget(*args)
            _put(table, item)

        table.delete(VIDEO.key(videoId=VIDEO_ID))
        monkeypatch.setattr(table, "batch_delete", deleted)
        assert purge.video(VIDEO_ID, 0, lambda: True)
        assert len(_of_ratings(table, VIDEO_ID)) == 5
        monkeypatch.setattr(table, "batch_delete", batch_delete)
        monkeypatch.setattr(purge.entries, "forget", forgotten)
        table.delete(VIDEO.key(videoId=VIDEO_ID))
        assert purge.video(VIDEO_ID, 0, lambda: True)
        assert len([sk for _, sk in _remaining(table, VIDEO_ID) if sk.startswith("HAS#")]) == 5

    def test_purge_whose_message_cannot_be_sent_is_redelivered(self, api: Api, table: Table, purge: Run) -> None:
        queue = FakeQueue()
        queue.send = _unavailable  # type: ignore[method-assign]
        response = purge(purge_playlist_message("p"), queue=queue, context=ShortContext(0))
        assert response == {"batchItemFailures": [{"itemIdentifier": "m0"}]}


class TestPlaylist:
    def test_entries_of_an_expired_playlist_are_purged(self, api: Api, background: BackgroundWork, purge: Run) -> None:
        video_id = api.publish()["videoId"]
        purged, other = _playlist(api, video_id), _playlist(api, video_id)
        api.delete(f"/v1/playlists/{purged}")
        background.settle()
        assert background.queues["purge"].take() == []
        assert len(_remaining(background.table, purged)) == 3
        background.table.delete(PLAYLIST.key(playlistId=purged))  # as DynamoDB does when the item expires
        background.settle()
        (message,) = background.queues["purge"].take()
        assert purge(message) == {"batchItemFailures": []}
        assert _remaining(background.table, purged) == []
        assert len([sk for pk, sk in _items(background.table) if other in pk]) == 3

    def test_purge_deletes_hundreds_of_entries(self, table: Table, purge: Run) -> None:
        for number in range(250):
            for kind in ("ENTRY#V00000#", "HAS#"):
                _put(table, {"pk": "PLAYLIST#p", "sk": f"{kind}{number}"})
        purge(purge_playlist_message("p"))
        assert _items(table) == []

    def test_existing_playlist_is_not_purged(self, api: Api, table: Table, purge: Run) -> None:
        playlist_id = _playlist(api, api.publish()["videoId"])
        before = _items(table)
        purge(purge_playlist_message(playlist_id))
        assert _items(table) == before
        assert table.get(PLAYLIST.key(playlistId=playlist_id))


def test_purge_message_of_another_kind_is_refused(api: Api, purge: Run) -> None:
    video_id = api.create()["videoId"]
    response = purge({"schema": "video-metadata/job/1", "videoId": video_id}, {"videoId": video_id})
    assert len(response["batchItemFailures"]) == 2


def _unavailable(*_: Any, **__: Any) -> Any:
    raise Unavailable


class _Calls:
    """Counter of calls that makes one call fail."""

    def __init__(self, failing: int) -> None:
        self.failing = failing
        self.count = 0

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count == self.failing + 1:
                raise Unavailable
            return call(*args, **kwargs)

        return counting


def test_id_is_free_after_the_purge(
    api: Api, table: Table, purge: Run, background: BackgroundWork, clock: Clock
) -> None:
    video_id = api.publish(title="old")["videoId"]
    role = {"ordering": 1, "roles": [{"category": "actor"}]}
    assert api.put(f"/v1/videos/{video_id}/credits/p", role).status == 201
    api.delete(f"/v1/videos/{video_id}")
    clock.advance(GRACE_SECONDS)
    body = {"title": "new", "videoId": video_id}
    for _ in range(2):  # refused first because of the video, then because of its leftovers
        assert api.post("/v1/videos", body, user="admin").json["type"].endswith(":being-removed")
    background.settle()
    for message in background.queues["purge"].take():
        assert purge(message) == {"batchItemFailures": []}
    assert api.post("/v1/videos", body, user="admin").status == 201
    assert api.get(f"/v1/videos/{video_id}/credits", user="admin").json["items"] == []
