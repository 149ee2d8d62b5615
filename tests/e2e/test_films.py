"""Films over HTTP, from the upload to what is made of them, through queues, functions and a transcoder that really run."""

import io
import re
import time
from typing import Any
from urllib.parse import urljoin

import av
import pytest
from PIL import Image

from shared.media.errors import NO_FILM
from tests.e2e.conftest import Service
from tests.films import clip, film
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("e2e")

SETTLED = ("ready", "failed")
REPORT = {"inputHash": "0" * 32, "attempt": 1, "state": "running", "progress": 1}


@pytest.fixture(scope="module")
def ready(service: Service) -> dict[str, Any]:
    """A video of alice's, made of a real clip; tests leave it as it is, but for its poster."""
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
    """The video once it is ready or has failed, and nothing is under way any more."""
    eventually(lambda: _get(service, video, "/why-not-ready"), lambda told: told["status"] in SETTLED)
    eventually(lambda: _states(service, video), lambda states: not {"queued", "running"} & set(states.values()))
    return _get(service, video)


def _states(service: Service, video: dict[str, Any]) -> dict[str, str]:
    return {job["kind"]: job["state"] for job in _get(service, video, "/jobs")["items"]}


def _s3(service: Service) -> Any:
    return _client(service, "s3")


def _client(service: Service, name: Any) -> Any:
    return service.aws.client(name)


def _objects(service: Service, video: dict[str, Any]) -> list[str]:
    """The keys in all buckets that belong to a video, but for the archive, which keeps everything."""
    s3 = _s3(service)
    keys = []
    for bucket in s3.list_buckets()["Buckets"]:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket["Name"]):
            keys += [stored["Key"] for stored in page.get("Contents", []) if video["videoId"] in stored["Key"]]
    return [key for key in keys if not key.startswith("audit/")]


class TestProcessing:
    def test_a_clip_becomes_ready_with_its_facts_and_all_jobs_done(
        self, service: Service, ready: dict[str, Any]
    ) -> None:
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
        told = _get(service, ready, "/why-not-ready")
        assert (told["ready"], told["blocker"]) == (True, None)

    def test_posters_are_served_as_the_images_they_are_described_as(
        self, service: Service, ready: dict[str, Any]
    ) -> None:
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

    def test_the_storyboard_has_a_cue_and_a_place_for_each_second(
        self, service: Service, ready: dict[str, Any]
    ) -> None:
        url = ready["thumbnails"]["storyboard.vtt"]["url"]
        cues = service.http.get(url)
        assert cues.headers["content-type"].startswith("text/vtt")
        lines = re.findall(r"(\S+) --> (\S+)\n(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)", cues.text)
        assert cues.text.startswith("WEBVTT\n")
        assert len(lines) == 10
        assert (lines[0][0], lines[-1][1]) == ("00:00:00.000", "00:00:10.000")
        sheet = service.http.get(urljoin(url, lines[0][2]))
        with Image.open(io.BytesIO(sheet.content)) as image:
            for _, _, _, *place in lines:
                left, top, width, height = map(int, place)
                assert left + width <= image.width
                assert top + height <= image.height

    def test_the_audit_trail_names_the_actor_of_each_step_in_order(
        self, service: Service, ready: dict[str, Any]
    ) -> None:
        def seen() -> list[tuple[str, str, str]]:
            entries = _get(service, ready, "/audit?order=asc&limit=100")["items"]
            return [(entry.get("kind", "video"), entry["action"], entry["by"]["id"]) for entry in entries]

        story = eventually(seen, lambda entries: ("transcode.240p", "done", "local-transcoder") in entries)
        expected = [
            ("video", "created", "alice"),
            ("video", "changed", "job:arrivals"),
            ("probe", "queued", "job:router"),
            ("probe", "done", "job:probe"),
            ("transcode.240p", "queued", "job:router"),
            ("transcode.240p", "done", "local-transcoder"),
        ]
        assert [entry for entry in story if entry in expected] == expected
        assert ("poster", "done", "job:thumbnails") in eventually(
            seen, lambda entries: ("poster", "done", "job:thumbnails") in entries
        )

    def test_a_chosen_time_creates_a_new_poster(self, service: Service, ready: dict[str, Any]) -> None:
        before = service.http.get(ready["thumbnails"]["poster"]["url"]).content
        assert service.request("POST", f"{_path(ready)}/thumbnail", json={"time": 10}).status_code == 422
        reply = service.request("POST", f"{_path(ready)}/thumbnail", json={"time": 7.52})
        assert reply.status_code == 202
        after = eventually(
            lambda: _get(service, ready)["thumbnails"]["poster"], lambda poster: poster["time"] in (7500, 7520)
        )
        assert service.http.get(after["url"]).content != before
        assert _get(service, ready)["status"] == "ready"


class TestPlaying:
    """As a player does: it knows the URLs, has no token for them, and asks for ranges."""

    def test_a_rendition_and_the_source_play_in_ranges(self, service: Service, ready: dict[str, Any]) -> None:
        answer = _get(service, ready, "/playback")
        (rendition,) = answer["renditions"]
        part = service.http.get(rendition["url"], headers={"Origin": service.base_url, "Range": "bytes=0-1023"})
        assert (part.status_code, len(part.content)) == (206, 1024)
        assert part.headers["content-range"] == f"bytes 0-1023/{rendition['size']}"
        assert part.headers["content-type"] == rendition["type"] == "video/mp4"
        assert part.headers["access-control-allow-origin"] in ("*", service.base_url)
        assert {"*", "content-range"} & {*part.headers["access-control-expose-headers"].lower().split(", ")}
        whole = service.http.get(rendition["url"])
        assert (whole.status_code, len(whole.content)) == (200, rendition["size"])
        with av.open(io.BytesIO(whole.content)) as film:
            video = film.streams.video[0]
            assert (video.width, video.height) == (rendition["width"], rendition["height"])
        assert rendition["bitRate"] == round(rendition["size"] * 8000 / answer["duration"])
        source = answer["source"]
        data = clip("bikes").read_bytes()
        part = service.http.get(source["url"], headers={"Range": "bytes=-100"})
        assert (part.status_code, part.content) == (206, data[-100:])
        assert (source["size"], source["type"]) == (len(data), part.headers["content-type"])

    def test_other_users_play_a_public_video_without_its_source(self, service: Service, ready: dict[str, Any]) -> None:
        place = f"{_path(ready)}/playback"
        assert service.request("GET", place, "bob").status_code == 404
        assert _get(service, ready, "/playback")["whyHidden"] == "The video is private."
        service.request("PATCH", _path(ready), json={"visibility": "public"})
        try:
            answer = _get(service, ready, "/playback", "bob")
            assert {"source", "whyHidden"}.isdisjoint(answer)
            reply = service.http.get(answer["renditions"][0]["url"], headers={"Range": "bytes=0-9"})
            assert reply.status_code == 206
        finally:
            service.request("PATCH", _path(ready), json={"visibility": "private"})

    def test_a_playback_url_reads_no_other_object_and_writes_nothing(
        self, service: Service, ready: dict[str, Any]
    ) -> None:
        answer = _get(service, ready, "/playback")
        url = answer["renditions"][0]["url"]
        assert service.http.get(url.replace("240p.mp4", "other.mp4")).status_code == 403
        assert service.http.get(url.replace("video%2Fmp4", "text%2Fhtml")).status_code == 403
        assert service.http.put(url, content=b"x").status_code == 403
        assert service.http.delete(url).status_code == 403


class TestFilesThatAreNotFilms:
    def test_a_file_that_is_no_film_fails_with_a_reason_until_another_is_uploaded(self, service: Service) -> None:
        video = service.create()
        service.upload(video, b"Dear diary, today I filmed nothing at all.")
        failed = _settled(service, video)
        assert (failed["status"], failed["failure"]["job"]) == ("failed", "probe")
        assert failed["failure"]["reason"] == NO_FILM
        assert NO_FILM in _get(service, video, "/why-not-ready")["reason"]

        again = service.request("POST", f"{_path(video)}/jobs/probe/retry")
        assert again.status_code == 202
        assert _settled(service, video)["failure"]["reason"] == NO_FILM

        service.upload(video, film())
        eventually(lambda: _get(service, video), lambda now: now["status"] == "ready")
        repaired = _settled(service, video)
        assert (repaired["resolution"], "failure" in repaired) == ("320x180", False)

    def test_an_empty_file_is_refused_when_announced_and_when_it_arrives(self, service: Service) -> None:
        video = service.create()
        wanted = {"contentType": "video/mp4", "fileSize": 0}
        assert service.request("POST", f"{_path(video)}/upload", json=wanted).status_code == 422
        begun = service.request("POST", f"{_path(video)}/upload", json=wanted | {"fileSize": 1000}).json()
        assert service.http.put(begun["url"], content=b"", headers=begun["headers"]).status_code == 403
        # What no signature keeps out, as from one who may write to the bucket, is found out afterwards.
        bucket, key = re.findall(r"//[^/]+/([^/]+)/([^?]+)", begun["url"])[0]
        _s3(service).put_object(Bucket=bucket, Key=key, Body=b"", ContentType="video/mp4")
        failed = eventually(lambda: _get(service, video), lambda now: now["status"] == "failed")
        assert failed["failure"]["reason"] == "The uploaded file is empty."


class TestUploads:
    def test_an_upload_of_another_size_or_type_than_announced_is_refused(self, service: Service) -> None:
        video = service.create()
        wanted = {"contentType": "video/mp4", "fileSize": 10}
        begun = service.request("POST", f"{_path(video)}/upload", json=wanted).json()
        for body, headers in (
            (b"0123456789more", begun["headers"]),
            (b"0123456789", begun["headers"] | {"Content-Type": "text/html"}),
            (b"0123456789", {"Content-Type": "video/mp4"}),
        ):
            assert service.http.put(begun["url"], content=body, headers=headers).status_code == 403

    def test_a_large_film_is_uploaded_in_parts(self, service: Service) -> None:
        video = service.create()
        data = film()
        # A box that players skip makes it large.
        size = 101_000_000
        free = size - len(data)
        data += free.to_bytes(4, "big") + b"free" + bytes(free - 8)
        wanted = {"contentType": "video/mp4", "fileSize": size}
        url = f"{service.base_url}{_path(video)}/upload"
        begun = service.request("POST", f"{_path(video)}/upload", json=wanted).json()
        parts, start = [], 0
        for part in begun["parts"]:
            sent = service.http.put(part["url"], content=data[start : start + part["size"]])
            assert sent.status_code == 200, sent.text
            parts.append({"partNumber": part["partNumber"], "etag": sent.headers["etag"]})
            start += part["size"]
        assert (start, len(parts)) == (size, 4)
        owner = {"Authorization": f"Bearer {service.tokens['alice']}"}
        complete = urljoin(url, begun["complete"])
        for _ in range(2):
            done = service.http.post(complete, json={"parts": parts}, headers=owner)
            assert (done.status_code, done.json().get("state")) == (200, "received")
        assert service.http.delete(urljoin(url, begun["abort"]), headers=owner).status_code == 409
        ready = _settled(service, video)
        assert (ready["status"], ready["fileSize"], ready["resolution"]) == ("ready", size, "320x180")

    def test_an_aborted_upload_takes_no_more_parts(self, service: Service) -> None:
        video = service.create()
        wanted = {"contentType": "video/mp4", "fileSize": 200_000_000}
        url = f"{service.base_url}{_path(video)}/upload"
        begun = service.request("POST", f"{_path(video)}/upload", json=wanted).json()
        owner = {"Authorization": f"Bearer {service.tokens['alice']}"}
        for _ in range(2):
            assert service.http.delete(urljoin(url, begun["abort"]), headers=owner).status_code == 204
        assert service.http.put(begun["parts"][0]["url"], content=bytes(begun["partSize"])).status_code == 404
        parts = [{"partNumber": part["partNumber"], "etag": '"e"'} for part in begun["parts"]]
        late = service.http.post(urljoin(url, begun["complete"]), json={"parts": parts}, headers=owner)
        assert late.status_code == 409


class TestTheEnd:
    def test_an_expired_video_leaves_no_items_and_no_objects(self, service: Service) -> None:
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
        assert service.request("GET", f"{_path(video)}/audit").status_code == 404


def test_only_a_transcoder_reports_renditions_and_it_reads_no_video(service: Service) -> None:
    video = service.create()
    place = f"{_path(video)}/renditions/240p"
    assert service.request("PUT", place, "alice", json=REPORT).status_code == 403
    if "transcoder" in service.tokens:
        assert service.request("PUT", place, "transcoder", json=REPORT).status_code == 404
        assert service.request("GET", _path(video), "transcoder").status_code == 403
