"""Processing over HTTP, from the upload to the generated files, with real queues, functions and a real transcoder."""

import io
import re
import time
from typing import Any
from urllib.parse import urljoin

import av
import pytest
from PIL import Image

from local.example_data import SOURCES_BUCKET
from local.testbed.video_files import clip, film
from tests.e2e.conftest import Service
from tests.polling import eventually

pytestmark = pytest.mark.xdist_group("e2e")

SETTLED = ("ready", "failed")


@pytest.fixture(scope="module")
def service(own_service: Service) -> Service:
    """Return the service with users of this file."""
    return own_service


@pytest.fixture(scope="module")
def ready(service: Service) -> dict[str, Any]:
    """Return a video of alice with a real clip. Tests must not change it."""
    video = service.create(title="Bikes")
    service.upload(video, clip("bikes").read_bytes())
    return _settled(service, video)


def _path(video: dict[str, Any]) -> str:
    return f"/v1/videos/{video['videoId']}"


def _get(service: Service, video: dict[str, Any], below: str = "", user: str = "alice") -> dict[str, Any]:
    reply = service.request("GET", _path(video) + below, user)
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


def _settled(service: Service, video: dict[str, Any]) -> dict[str, Any]:
    """Return the video as soon as it is ready or has failed, and no job is queued or running."""
    eventually(lambda: _get(service, video, "/why-not-ready"), lambda report: report["status"] in SETTLED)
    eventually(lambda: _states(service, video), lambda states: not {"queued", "running"} & set(states.values()))
    return _get(service, video)


def _states(service: Service, video: dict[str, Any]) -> dict[str, str]:
    return {job["kind"]: job["state"] for job in _get(service, video, "/jobs")["items"]}


def _s3(service: Service) -> Any:
    return _client(service, "s3")


def _client(service: Service, name: Any) -> Any:
    return service.aws.client(name)


def _objects(service: Service, video: dict[str, Any]) -> list[str]:
    """Return the keys of a video's objects in all buckets except the archive, which retains everything.

    The bucket of `example_data` is excluded, because another test deletes it.
    """
    s3 = _s3(service)
    buckets = {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]} - {SOURCES_BUCKET}
    keys = []
    for bucket in buckets:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            keys += [stored["Key"] for stored in page.get("Contents", []) if video["videoId"] in stored["Key"]]
    return [key for key in keys if not key.startswith("audit/")]


class TestRealClip:
    def test_probe_fills_in_its_facts_and_every_job_is_done(self, service: Service, ready: dict[str, Any]) -> None:
        assert ready["status"] == "ready"
        facts = {name: ready[name] for name in ("duration", "format", "resolution", "videoCodec", "frameRate")}
        assert facts == {
            "duration": 10000,
            "format": "mp4",
            "resolution": "640x272",
            "videoCodec": "h264",
            "frameRate": 25,
        }
        assert ready["fileSize"] == clip("bikes").stat().st_size
        assert set(ready["origins"].values()) == {"job"}
        jobs = _get(service, ready, "/jobs")["items"]
        assert {job["kind"] for job in jobs} == {"probe", "poster", "storyboard", "transcode.240p"}
        assert {(job["state"], job["progress"]) for job in jobs} == {("done", 100)}

    def test_posters_are_images_of_the_declared_type_and_size(self, service: Service, ready: dict[str, Any]) -> None:
        pictures = {name: picture for name, picture in ready["thumbnails"].items() if name.startswith("poster")}
        assert {name.rpartition(".")[2] for name in pictures} == {"poster", "jpg", "webp"}
        for name, picture in pictures.items():
            reply = service.http.get(picture["url"])
            with Image.open(io.BytesIO(reply.content)) as image:
                assert image.format == ("WEBP" if name.endswith("webp") else "JPEG")
                assert image.size == (picture["width"], picture["height"])
                image.load()
            assert len(reply.content) == picture["fileSize"]
            assert picture["time"] == 1000
            assert "immutable" in reply.headers["cache-control"]

    def test_storyboard_cues_refer_to_tiles_of_its_sheet(self, service: Service, ready: dict[str, Any]) -> None:
        url = ready["thumbnails"]["storyboard.vtt"]["url"]
        cues = service.http.get(url)
        assert cues.headers["content-type"].startswith("text/vtt")
        lines = re.findall(r"(\S+) --> (\S+)\n(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)", cues.text)
        assert cues.text.startswith("WEBVTT\n")
        assert len(lines) == 10
        assert (lines[0][0], lines[-1][1]) == ("00:00:00.000", "00:00:10.000")
        sheet = service.http.get(urljoin(url, lines[0][2]))
        with Image.open(io.BytesIO(sheet.content)) as image:
            for _, _, _, *rectangle in lines:
                x, top, width, height = map(int, rectangle)
                assert x + width <= image.width
                assert top + height <= image.height

    def test_history_names_the_author_of_each_step_in_order(self, service: Service, ready: dict[str, Any]) -> None:
        def list_steps() -> list[tuple[str, str, str]]:
            entries = _get(service, ready, "/audit?order=asc&limit=100")["items"]
            return [(entry.get("kind", "video"), entry["action"], entry["by"]["id"]) for entry in entries]

        expected = [
            ("video", "created", service.subjects["alice"]),
            ("video", "changed", "job:arrivals"),
            ("probe", "queued", "job:router"),
            ("probe", "done", "job:probe"),
            ("transcode.240p", "queued", "job:router"),
            ("transcode.240p", "done", "local-transcoder"),
        ]
        poster = ("poster", "done", "job:thumbnails")
        story = eventually(list_steps, lambda entries: {*expected, poster} <= {*entries})
        assert [entry for entry in story if entry in expected] == expected


def test_chosen_position_replaces_the_poster(service: Service) -> None:
    video = service.create()
    service.upload(video, film())
    before = _settled(service, video)["thumbnails"]["poster"]
    poster = service.http.get(before["url"]).content
    at = _get(service, video)["duration"] * 3 // 4
    assert service.request("POST", f"{_path(video)}/thumbnail", json={"position": at}).status_code == 202
    after = eventually(
        lambda: _get(service, video)["thumbnails"]["poster"], lambda poster: poster["time"] != before["time"]
    )
    assert service.http.get(after["url"]).content != poster


class TestPlayback:
    """Playback by a player, which has the URLs but no token, and sends range requests."""

    def test_rendition_plays_in_ranges_in_pages_of_the_console(self, service: Service, ready: dict[str, Any]) -> None:
        playback = _get(service, ready, "/playback")
        (rendition,) = playback["renditions"]
        part = service.http.get(rendition["url"], headers={"Origin": service.base_url, "Range": "bytes=0-1023"})
        assert (part.status_code, len(part.content)) == (206, 1024)
        assert part.headers["content-range"] == f"bytes 0-1023/{rendition['size']}"
        assert part.headers["content-type"] == rendition["type"] == "video/mp4"
        assert part.headers["access-control-allow-origin"] in ("*", service.base_url)
        assert {"*", "content-range"} & {*part.headers["access-control-expose-headers"].lower().split(", ")}
        complete = service.http.get(rendition["url"])
        assert (complete.status_code, len(complete.content)) == (200, rendition["size"])
        with av.open(io.BytesIO(complete.content)) as container:
            video = container.streams.video[0]
            assert (video.width, video.height) == (rendition["width"], rendition["height"])
        assert rendition["bitRate"] == round(rendition["size"] * 8000 / playback["duration"])

    def test_source_plays_in_ranges_for_its_owner(self, service: Service, ready: dict[str, Any]) -> None:
        source = _get(service, ready, "/playback")["source"]
        data = clip("bikes").read_bytes()
        part = service.http.get(source["url"], headers={"Range": "bytes=-100"})
        assert (part.status_code, part.content) == (206, data[-100:])
        assert (source["size"], source["type"]) == (len(data), part.headers["content-type"])

    def test_playback_url_reads_nothing_else_and_writes_nothing(self, service: Service, ready: dict[str, Any]) -> None:
        playback = _get(service, ready, "/playback")
        url = playback["renditions"][0]["url"]
        assert service.http.get(url.replace("240p.mp4", "other.mp4")).status_code == 403
        assert service.http.get(url.replace("video%2Fmp4", "text%2Fhtml")).status_code == 403
        assert service.http.put(url, content=b"x").status_code == 403
        assert service.http.delete(url).status_code == 403


def test_expired_video_leaves_no_item_and_no_object(service: Service) -> None:
    video = service.create()
    service.upload(video, film())
    assert _settled(service, video)["status"] == "ready"
    service.request("POST", f"{_path(video)}/views", "alice")
    assert len(_objects(service, video)) > 5
    dynamodb = _client(service, "dynamodb")
    partition = {"S": f"VIDEO#{video['videoId']}"}
    dynamodb.update_item(
        TableName="VideoMetadata",
        Key={"pk": partition, "sk": {"S": "#META"}},
        UpdateExpression="SET purgeAt = :past",
        ExpressionAttributeValues={":past": {"N": str(int(time.time()) - 1)}},
    )
    eventually(lambda: _objects(service, video), lambda keys: not keys)
    eventually(
        lambda: dynamodb.query(
            TableName="VideoMetadata",
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": partition},
        )["Count"],
        lambda count: count == 0,
    )
    entries = eventually(
        lambda: _get(service, video, "/audit?limit=100", "admin")["items"],
        lambda entries: entries[0]["action"] == "expired",
    )
    assert entries[0]["by"] == {"kind": "service", "id": "dynamodb.amazonaws.com"}
