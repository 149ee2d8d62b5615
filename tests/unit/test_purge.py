"""What a removed video leaves behind is removed too."""

import json
from typing import Any

import pytest

from functions.purge import handler
from shared.dynamodb import Table
from shared.errors import Unavailable
from shared.messages import purge_message
from shared.objects import Objects
from shared.purging import Purge
from shared.schema import VIDEO
from tests.backstage import Backstage
from tests.harness import MEDIA_BUCKET, SOURCES_BUCKET, Api, Clock, Context


@pytest.fixture
def purge(table: Table, objects: Objects) -> Purge:
    """The purge over the tests' stores."""
    return Purge(table, objects, SOURCES_BUCKET, MEDIA_BUCKET)


def _run(purge: Purge, *bodies: dict[str, Any]) -> dict[str, Any]:
    records = [{"messageId": str(number), "body": json.dumps(body)} for number, body in enumerate(bodies)]
    return handler.make(purge)({"Records": records}, Context())


def _items(table: Table) -> list[tuple[str, str]]:
    found = table.client.scan(TableName=table.name)["Items"]
    return sorted((item["pk"]["S"], item["sk"]["S"]) for item in found)


def _with_everything(api: Api, backstage: Backstage, objects: Objects) -> str:
    """A video with jobs, views and objects."""
    video_id = backstage.uploaded_film(api)
    api.post(f"/v1/videos/{video_id}/views")
    for bucket, key in (
        (SOURCES_BUCKET, f"{video_id}/0001"),
        (MEDIA_BUCKET, f"thumbnails/{video_id}/x/poster.jpg"),
        (MEDIA_BUCKET, f"renditions/{video_id}/x/240p.mp4"),
    ):
        objects.put(bucket, key, b"x", "video/mp4")
    return video_id


def _keys(objects: Objects) -> list[str]:
    return [
        found["Key"]
        for bucket in (SOURCES_BUCKET, MEDIA_BUCKET)
        for found in objects.client.list_objects_v2(Bucket=bucket).get("Contents", [])
    ]


@pytest.fixture
def backstage(table: Table, clock: Clock) -> Backstage:
    """The router and its queues."""
    return Backstage(table, clock)


def test_nothing_of_it_is_left_and_nothing_else_is_touched(
    api: Api, backstage: Backstage, purge: Purge, objects: Objects
) -> None:
    gone, kept = (_with_everything(api, backstage, objects) for _ in range(2))
    backstage.table.delete(VIDEO.key(videoId=gone))
    backstage.settle()
    (message,) = backstage.queues["purge"].take()
    assert _run(purge, message) == {"batchItemFailures": []}
    assert {gone in pk for pk, _ in _items(backstage.table)} == {False}
    assert len([pk for pk, _ in _items(backstage.table) if kept in pk]) > 5
    assert [kept in key for key in _keys(objects)] == [True] * 3


def test_a_video_that_exists_again_is_left_alone(
    api: Api, backstage: Backstage, purge: Purge, objects: Objects
) -> None:
    video_id = _with_everything(api, backstage, objects)
    before = _items(backstage.table)
    _run(purge, purge_message(video_id))
    assert (_items(backstage.table), len(_keys(objects))) == (before, 3)


def test_its_counter_goes_too_so_that_the_id_can_begin_again(
    api: Api, backstage: Backstage, purge: Purge, objects: Objects
) -> None:
    video_id = _with_everything(api, backstage, objects)
    backstage.table.delete(VIDEO.key(videoId=video_id))
    _run(purge, purge_message(video_id))
    assert api.create("admin", videoId=video_id)["viewCount"] == 0
    assert api.get(f"/v1/videos/{video_id}", user="admin").json["viewCount"] == 0


def test_hundreds_of_children_go(table: Table, purge: Purge) -> None:
    for number in range(250):
        table.client.put_item(TableName=table.name, Item={"pk": {"S": "VIDEO#v"}, "sk": {"S": f"CREDIT#{number:03}"}})
    _run(purge, purge_message("v"))
    assert _items(table) == []


def test_delivered_twice_it_does_nothing_the_second_time(purge: Purge) -> None:
    assert _run(purge, purge_message("v"), purge_message("v")) == {"batchItemFailures": []}


@pytest.mark.parametrize("at", range(4))
def test_broken_off_anywhere_it_is_finished_the_next_time(
    api: Api, backstage: Backstage, purge: Purge, objects: Objects, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    video_id = _with_everything(api, backstage, objects)
    backstage.table.delete(VIDEO.key(videoId=video_id))
    with monkeypatch.context() as patch:
        name, target = [
            ("delete", backstage.table),
            ("delete_prefix", objects),
            ("query", backstage.table),
            ("get", backstage.table),
        ][at]
        patch.setattr(target, name, _unavailable)
        assert _run(purge, purge_message(video_id)) == {"batchItemFailures": [{"itemIdentifier": "0"}]}
    assert _run(purge, purge_message(video_id)) == {"batchItemFailures": []}
    assert not [pk for pk, _ in _items(backstage.table) if video_id in pk]
    assert _keys(objects) == []


def test_a_message_of_another_kind_is_not_carried_out(api: Api, purge: Purge) -> None:
    video_id = api.create()["videoId"]
    answer = _run(purge, {"schema": "video-metadata/job/1", "videoId": video_id}, {"videoId": video_id})
    assert len(answer["batchItemFailures"]) == 2


def _unavailable(*_: Any, **__: Any) -> Any:
    raise Unavailable
