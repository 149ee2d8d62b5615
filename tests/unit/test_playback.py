"""Playback: access, signed URLs and their lifetimes, and the reasons for refusals."""

from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from local.testbed.background import MEDIA, RENDITIONS, BackgroundWork
from local.testbed.harness import (
    LINKS,
    MEDIA_BUCKET,
    NOW,
    SOURCES_BUCKET,
    Api,
    Clock,
    Reply,
    make_api,
    record_operations,
)
from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.s3 import Objects
from shared.captions.models import ChaptersContent
from shared.captions.store import MAX_LANGUAGES, CaptionStore
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.entities import Video
from shared.processing.playback import SECONDS
from shared.schema import VIDEO
from shared.videos.video import add_rendition

TRANSCODER: dict[str, Any] = {"user": "transcoder", "scopes": "videos/transcode"}
SIZES = {"360p": 3_000_000, "240p": 1_500_000}
MINUTE = MEDIA["duration"]
ALICE = Caller("alice", frozenset())
TEXT = "2c26b46b68ffc68ff99b453c1d304134"


@pytest.fixture
def api(table: Table, clock: Clock, objects: Objects) -> Api:
    """Return the service with its buckets."""
    return make_api(table, clock, objects)


@pytest.fixture
def video_id(api: Api, background: BackgroundWork) -> str:
    """Return the id of a public video of alice that is ready. It lasts a minute and has two renditions."""
    video_id = background.uploaded_film(api, visibility="public")
    for name in RENDITIONS:
        _report(api, background, name, fileSize=SIZES[name])
    return video_id


def _report(api: Api, background: BackgroundWork, name: str, file: str = "", **more: Any) -> None:
    """Report a finished rendition, as a transcoder does."""
    message = background.message("transcode", f"transcode.{name}")
    folder = str(message.output).rpartition("/")[0]
    body = {"inputHash": message.inputHash, "attempt": message.attempt, "state": "done", **more}
    body["uri"] = f"{folder}/{file}" if file else message.output
    reply = api.put(f"/v1/videos/{message.videoId}/renditions/{name}", body, **TRANSCODER)
    assert reply.status == 200, reply.body
    background.settle()


def _request_playback(api: Api, video_id: str, user: str = "alice", **options: Any) -> Reply:
    return api.get(f"/v1/videos/{video_id}/playback", user=user, **options)


def _played(api: Api, video_id: str, user: str = "alice") -> dict[str, Any]:
    reply = _request_playback(api, video_id, user)
    assert reply.status == 200, reply.body
    playback: dict[str, Any] = reply.json
    return playback


def _refusal(reply: Reply) -> tuple[int, str, str]:
    return reply.status, reply.slug, reply.json["detail"]


def _signed(url: str) -> tuple[str, str, int, str]:
    """Return bucket, path, lifetime in seconds and content type of a signed URL."""
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    assert (parts.scheme, query["X-Amz-SignedHeaders"], len(query["X-Amz-Signature"])) == ("https", "host", 64)
    bucket = str(parts.hostname).partition(".")[0]
    return bucket, unquote(parts.path), int(query["X-Amz-Expires"]), query["response-content-type"]


def _read(playback: dict[str, Any]) -> list[tuple[str, str]]:
    """Return bucket and path of each object that a response gives access to."""
    return [_signed(entry["url"])[:2] for entry in (playback["source"], *playback["renditions"], *playback["captions"])]


def _caption(table: Table, video_id: str, language: str, text: str = TEXT) -> None:
    """Store captions of alice's video with the hash of a text, without the text itself."""
    content = {"text": text, "cues": 2, "size": 90, "origin": "owner"}
    CaptionStore(table).put(video_id, language, content, ALICE, NOW, lambda _: True)


def _edit(table: Table, video_id: str, **attributes: Any) -> None:
    """Write attributes of a video directly to the table."""
    names, values = {f"#{name}": name for name in attributes}, {f":{name}": attributes[name] for name in attributes}
    change = Expression("SET " + ", ".join(f"#{name} = :{name}" for name in attributes), names, values)
    table.write(table.update(VIDEO.key(videoId=video_id), change))


def _item(table: Table, video_id: str) -> Item:
    item = table.get(VIDEO.key(videoId=video_id))
    assert item
    return item


class TestContent:
    def test_renditions_are_listed_largest_first_with_size_and_bit_rate(self, api: Api, video_id: str) -> None:
        playback = _played(api, video_id, "bob")
        assert [
            {name: rendition[name] for name in rendition if name != "url"} for rendition in playback["renditions"]
        ] == [
            {"name": "360p", "type": "video/mp4", "width": 640, "height": 360, "size": 3_000_000, "bitRate": 400_000},
            {"name": "240p", "type": "video/mp4", "width": 426, "height": 240, "size": 1_500_000, "bitRate": 200_000},
        ]
        assert (playback["videoId"], playback["duration"]) == (video_id, MINUTE)

    def test_every_rendition_url_is_signed_for_one_object_one_hour_and_its_type(
        self, api: Api, table: Table, video_id: str
    ) -> None:
        renditions = _item(table, video_id)["source"]["made"]
        for rendition in _played(api, video_id, "bob")["renditions"]:
            path = renditions[rendition["name"]].removeprefix(f"s3://{MEDIA_BUCKET}")
            assert _signed(rendition["url"]) == (MEDIA_BUCKET, path, SECONDS, "video/mp4")

    def test_owner_and_admins_also_get_the_source_file(self, api: Api, video_id: str) -> None:
        for user in ("alice", "admin"):
            source = _played(api, video_id, user)["source"]
            assert _signed(source.pop("url")) == (SOURCES_BUCKET, f"/{video_id}/0001", SECONDS, "video/mp4")
            facts = {"type": "video/mp4", "width": 640, "height": 360, "size": 1000, "bitRate": 133}
            assert source == facts
        assert "source" not in _played(api, video_id, "bob")

    def test_playback_has_the_poster_and_storyboard_of_the_document(
        self, api: Api, table: Table, video_id: str
    ) -> None:
        folder = f"s3://{MEDIA_BUCKET}/thumbnails/{video_id}/hash"
        pictures: Item = {
            "poster": {"url": f"{folder}/poster-640.jpg", "width": 640, "height": 360, "fileSize": 9, "time": 1000},
            "poster-640.jpg": {"url": f"{folder}/poster-640.jpg", "width": 640, "height": 360, "fileSize": 9},
            "storyboard.vtt": {"url": f"{folder}/storyboard.vtt", "fileSize": 90},
        }
        _edit(table, video_id, pictures=pictures)
        playback, thumbnails = (
            _played(api, video_id, "bob"),
            api.get(f"/v1/videos/{video_id}", user="bob").json["thumbnails"],
        )
        assert (playback["poster"], playback["storyboard"]) == (thumbnails["poster"], thumbnails["storyboard.vtt"])
        assert playback["poster"]["url"].startswith(LINKS.url)

    def test_playback_without_thumbnails_has_none(self, api: Api, video_id: str) -> None:
        assert not {"poster", "storyboard"} & _played(api, video_id).keys()

    def test_unreported_rendition_size_is_omitted(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        _report(api, background, "360p")
        (rendition,) = _played(api, video_id)["renditions"]
        assert rendition.keys() == {"name", "type", "width", "height", "url"}

    def test_renditions_stored_without_sizes_are_listed_without_size(
        self, api: Api, table: Table, video_id: str
    ) -> None:
        source = _item(table, video_id)["source"]
        _edit(table, video_id, source={name: value for name, value in source.items() if name != "sizes"})
        assert all("size" not in rendition for rendition in _played(api, video_id)["renditions"])

    def test_playback_sends_two_table_requests_and_none_to_s3(
        self, api: Api, table: Table, objects: Objects, video_id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(objects.client, "_make_api_call", None)
        with record_operations(table.client) as sent:
            assert len(_played(api, video_id)["renditions"]) == 2
        assert [operation.name for operation in sent] == ["GetItem", "Query"]


class TestCaptionsAndChapters:
    def test_every_caption_url_is_signed_for_one_text_as_webvtt(self, api: Api, table: Table, video_id: str) -> None:
        _caption(table, video_id, "en")
        (captions,) = _played(api, video_id, "bob")["captions"]
        assert (captions["language"], captions["type"]) == ("en", "text/vtt")
        assert _signed(captions["url"]) == (MEDIA_BUCKET, f"/captions/{video_id}/{TEXT}.vtt", SECONDS, "text/vtt")

    def test_caption_urls_expire_with_the_video_for_other_users(self, api: Api, table: Table, video_id: str) -> None:
        _caption(table, video_id, "en")
        api.patch(f"/v1/videos/{video_id}", {"expiresAt": NOW + 60})
        for user, seconds in (("bob", 60), ("alice", SECONDS)):
            assert _signed(_played(api, video_id, user)["captions"][0]["url"])[2] == seconds

    def test_playback_lists_chapters_in_order_with_start_and_title_only(
        self, api: Api, table: Table, video_id: str
    ) -> None:
        chapters = [{"start": 0, "title": "The harbour"}, {"start": 31_500, "title": "Out at sea"}]
        content = ChaptersContent.read({"chapters": chapters})
        CaptionStore(table).put_chapters(video_id, content, ALICE, NOW, lambda _: True)
        playback = _played(api, video_id, "bob")
        assert (playback["chapters"], playback["captions"]) == (chapters, [])

    def test_playback_without_captions_and_chapters_has_empty_lists(self, api: Api, video_id: str) -> None:
        playback = _played(api, video_id)
        assert (playback["captions"], playback["chapters"]) == ([], [])

    @pytest.mark.slow
    def test_playback_lists_all_caption_languages_and_chapters(self, api: Api, table: Table, video_id: str) -> None:
        languages = [f"en-x-{number:03}" for number in range(MAX_LANGUAGES)]
        for language in languages:
            _caption(table, video_id, language)
        content = ChaptersContent.read({"chapters": [{"start": 0, "title": "All of it"}]})
        CaptionStore(table).put_chapters(video_id, content, ALICE, NOW, lambda _: True)
        playback = _played(api, video_id, "bob")
        assert [captions["language"] for captions in playback["captions"]] == languages
        assert len(playback["chapters"]) == 1

    def test_captions_of_a_hidden_video_are_for_owner_and_admins_only(
        self, api: Api, table: Table, video_id: str
    ) -> None:
        _caption(table, video_id, "en")
        api.patch(f"/v1/videos/{video_id}", {"visibility": "private"})
        assert [len(_played(api, video_id, user)["captions"]) for user in ("alice", "admin")] == [1, 1]
        with record_operations(table.client) as sent:
            assert _request_playback(api, video_id, "bob").status == 404
        assert [operation.name for operation in sent] == ["GetItem"]

    def test_captions_of_another_video_are_not_listed(self, api: Api, table: Table, video_id: str) -> None:
        _caption(table, str(api.create()["videoId"]), "en")
        assert _played(api, video_id)["captions"] == []


class TestUrlLifetime:
    def test_response_has_url_expiry_and_is_not_cacheable(self, api: Api, video_id: str) -> None:
        reply = _request_playback(api, video_id, "bob")
        assert reply.json["expiresAt"] == NOW + SECONDS
        assert reply.headers["cache-control"] == "no-store"

    def test_rendition_urls_expire_with_the_video_for_other_users(self, api: Api, video_id: str) -> None:
        assert api.patch(f"/v1/videos/{video_id}", {"expiresAt": NOW + 60}).status == 200
        playback = _played(api, video_id, "bob")
        assert playback["expiresAt"] == NOW + 60
        assert {_signed(rendition["url"])[2] for rendition in playback["renditions"]} == {60}
        assert _played(api, video_id)["expiresAt"] == NOW + SECONDS

    def test_expiry_after_the_url_lifetime_does_not_shorten_it(self, api: Api, video_id: str) -> None:
        api.patch(f"/v1/videos/{video_id}", {"expiresAt": NOW + SECONDS + 1})
        assert _played(api, video_id, "bob")["expiresAt"] == NOW + SECONDS


class TestPermissions:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"visibility": "private"}, "The video is private."),
            ({"publishAt": NOW + 60}, "The video's publishAt is in the future."),
            ({"expiresAt": NOW + 1}, "The video has expired."),
            ({"status": "processing"}, "The video is processing. GET .../why-not-ready gives the reason."),
        ],
    )
    def test_hidden_video_is_playable_by_owner_and_admins_with_the_reason(
        self, api: Api, clock: Clock, video_id: str, change: dict[str, Any], reason: str
    ) -> None:
        assert api.patch(f"/v1/videos/{video_id}", change).status == 200
        clock.advance(1)
        for user in ("alice", "admin"):
            playback = _played(api, video_id, user)
            assert (playback["whyHidden"], len(playback["renditions"]), "source" in playback) == (reason, 2, True)
        assert _refusal(_request_playback(api, video_id, "bob")) == (404, "not-found", "The video does not exist.")

    def test_visible_video_has_no_hidden_reason(self, api: Api, video_id: str) -> None:
        assert not [user for user in ("alice", "bob", "admin") if "whyHidden" in _played(api, video_id, user)]

    def test_playback_of_a_deleted_video_is_refused_with_the_reason(self, api: Api, video_id: str) -> None:
        api.delete(f"/v1/videos/{video_id}")
        assert _refusal(_request_playback(api, video_id)) == (
            409,
            "not-playable",
            "The video is deleted. Restore it first.",
        )
        assert _request_playback(api, video_id, "bob").status == 404

    def test_video_past_its_purge_time_is_404(self, api: Api, video_id: str) -> None:
        api.delete(f"/v1/videos/{video_id}")
        api.clock.advance(91 * 24 * 3600)
        assert _request_playback(api, video_id).status == 404

    def test_video_that_never_existed_is_404(self, api: Api) -> None:
        assert _request_playback(api, "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "admin").status == 404

    def test_no_url_is_signed_for_a_user_without_access(
        self, api: Api, video_id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        api.patch(f"/v1/videos/{video_id}", {"visibility": "private"})
        monkeypatch.setattr(Objects, "presign_get", None)
        assert _request_playback(api, video_id, "bob").status == 404


class TestVideosWithoutFiles:
    def test_playback_without_a_source_is_409(self, api: Api) -> None:
        reply = _request_playback(api, api.create()["videoId"])
        assert _refusal(reply) == (
            409,
            "not-playable",
            "No source video has arrived. Begin an upload by POST .../upload.",
        )

    def test_playback_after_a_refused_upload_has_its_reason(self, api: Api, table: Table) -> None:
        video_id = str(api.create()["videoId"])
        failure = {"job": "upload", "reason": "The uploaded file is empty.", "at": NOW}
        _edit(table, video_id, status="failed", failure=failure)
        detail = "The uploaded file is empty. Upload a file by POST .../upload."
        assert _refusal(_request_playback(api, video_id)) == (409, "not-playable", detail)

    def test_ready_video_without_a_source_has_nothing_to_play(self, api: Api) -> None:
        video_id = api.publish()["videoId"]
        detail = "The video is ready, but has no source video. Begin an upload by POST .../upload."
        assert _refusal(_request_playback(api, video_id)) == (409, "not-playable", detail)
        detail = "The video has no rendition yet. Retry later."
        assert _refusal(_request_playback(api, video_id, "bob")) == (409, "not-playable", detail)

    def test_owner_may_play_the_source_as_soon_as_it_has_arrived(self, api: Api, background: BackgroundWork) -> None:
        video_id = str(api.create(duration=2000)["videoId"])
        background.arrive(video_id)
        playback = _played(api, video_id)
        assert (playback["duration"], playback["renditions"], playback["source"]["size"]) == (2000, [], 1000)
        assert playback["source"]["bitRate"] == 4000

    def test_source_without_known_duration_has_no_bit_rate(self, api: Api, background: BackgroundWork) -> None:
        video_id = str(api.create()["videoId"])
        background.arrive(video_id)
        playback = _played(api, video_id)
        assert "duration" not in playback
        assert playback["source"].keys() == {"type", "size", "url"}

    def test_new_source_file_removes_earlier_renditions(
        self, api: Api, background: BackgroundWork, video_id: str
    ) -> None:
        background.arrive(video_id, upload="0002", etag="e2")
        playback = _played(api, video_id)
        assert (playback["renditions"], urlsplit(playback["source"]["url"]).path) == ([], f"/{video_id}/0002")


class TestForeignUris:
    @pytest.mark.parametrize(
        "uri",
        [
            f"s3://{MEDIA_BUCKET}/renditions/3f2504e0-4f89-41d3-9a0c-0305e82c3301/hash/360p.mp4",
            f"s3://{SOURCES_BUCKET}/3f2504e0-4f89-41d3-9a0c-0305e82c3301/0001",
            "s3://elsewhere/film.mp4",
        ],
    )
    def test_uri_written_by_a_client_is_never_signed(self, api: Api, video_id: str, uri: str) -> None:
        before = _read(_played(api, video_id))
        assert api.patch(f"/v1/videos/{video_id}", {"resolutions": {"360p": uri, "mine": uri}}).status == 200
        assert _read(_played(api, video_id)) == before
        written_id = api.publish(resolutions={"360p": uri})["videoId"]
        assert _request_playback(api, written_id).status == 409

    @pytest.mark.parametrize(
        "uri",
        [
            f"s3://{MEDIA_BUCKET}/renditions/3f2504e0-4f89-41d3-9a0c-0305e82c3301/hash/360p.mp4",
            "s3://media-of-another-deployment/renditions/{video_id}/hash/360p.mp4",
        ],
    )
    def test_rendition_outside_the_folder_of_the_video_is_omitted(
        self, api: Api, table: Table, video_id: str, uri: str
    ) -> None:
        source = _item(table, video_id)["source"]
        renditions = source["made"] | {"360p": uri.format(video_id=video_id)}
        _edit(table, video_id, source=source | {"made": renditions})
        assert [rendition["name"] for rendition in _played(api, video_id)["renditions"]] == ["240p"]

    def test_hostile_rendition_name_is_escaped(self, api: Api, table: Table, video_id: str) -> None:
        source = _item(table, video_id)["source"]
        name = "</script><script>alert(1)//?&#\u202e"
        uri = f"s3://{MEDIA_BUCKET}/renditions/{video_id}/hash/{name}.mp4"
        _edit(table, video_id, source=source | {"made": {name: uri}})
        reply = _request_playback(api, video_id)
        (rendition,) = reply.json["renditions"]
        assert rendition["name"] == name
        # The name is one percent-encoded segment of the path, so it cannot end the path or add a parameter.
        assert _signed(rendition["url"]) == (
            MEDIA_BUCKET,
            f"/renditions/{video_id}/hash/{name}.mp4",
            SECONDS,
            "video/mp4",
        )
        assert not set('<>"# \u202e') & set(rendition["url"])
        assert reply.headers["x-content-type-options"] == "nosniff"

    def test_rendition_uri_outside_the_video_folder_is_refused(self, api: Api, background: BackgroundWork) -> None:
        background.uploaded_film(api)
        message = background.message("transcode", "transcode.360p")
        body = {"inputHash": message.inputHash, "attempt": message.attempt, "state": "done"}
        for file in ("../other/360p.mp4", "a/../../360p.mp4", "a%2f..%2f360p.mp4", "?versionId=1"):
            uri = f"{str(message.output).rpartition('/')[0]}/{file}"
            path = f"/v1/videos/{message.videoId}/renditions/360p"
            assert api.put(path, body | {"uri": uri}, **TRANSCODER).status == 422


class TestSizes:
    def test_a_report_may_be_repeated_and_the_job_shows_the_size(
        self, api: Api, background: BackgroundWork, video_id: str
    ) -> None:
        _report(api, background, "360p", fileSize=SIZES["360p"])
        output = background.job(video_id, "transcode.360p")["output"]
        assert output["fileSize"] == SIZES["360p"]

    def test_replaced_rendition_has_the_size_of_the_last_report(
        self, api: Api, background: BackgroundWork, video_id: str, table: Table
    ) -> None:
        item = cast("Video", _item(table, video_id))
        assert item["source"]["sizes"] == SIZES
        updated = add_rendition(item, "360p", item["source"]["made"]["360p"])
        assert updated["source"]["sizes"] == {"240p": SIZES["240p"]}

    @pytest.mark.parametrize("size", [0, -1, 1.5, "1", 500_000_000_001])
    def test_implausible_rendition_size_is_refused(self, api: Api, background: BackgroundWork, size: Any) -> None:
        background.uploaded_film(api)
        message = background.message("transcode", "transcode.360p")
        body = {"inputHash": message.inputHash, "attempt": message.attempt, "state": "done", "uri": message.output}
        path = f"/v1/videos/{message.videoId}/renditions/360p"
        reply = api.put(path, body | {"fileSize": size}, **TRANSCODER)
        assert (reply.status, [error["pointer"] for error in reply.json["errors"]]) == (422, ["/fileSize"])
