"""Tests of the endpoints of captions and chapters."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from local.testbed.background import BackgroundWork
from local.testbed.harness import MEDIA_BUCKET, Api, Clock, Reply, make_api, record_operations
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.captions import store
from shared.captions.store import captions_folder, text_hash, text_key
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.schema import CAPTION, CHAPTERS

VTT = "WEBVTT\n\n00:00:01.000 --> 00:00:03.500\nThe tide is out.\n"
OTHER = VTT.replace("out", "in")
SRT = "1\r\n00:00:01,000 --> 00:00:03,500\r\nThe tide is out.\r\n"
WEBVTT, SUBRIP = "text/vtt", "application/x-subrip"
CHAPTERS_SENT: list[dict[str, Any]] = [{"start": 0, "title": "The beach"}, {"start": 90_000, "title": "The letter"}]


@pytest.fixture
def api(table: Table, objects: Objects, clock: Clock) -> Api:
    """Return the service with an empty table and empty buckets."""
    return make_api(table, clock, objects)


@pytest.fixture
def video_id(api: Api) -> str:
    """Publish a video of alice's, and return its id."""
    return str(api.publish("alice")["videoId"])


def put(
    api: Api,
    video_id: str,
    text: str | bytes = VTT,
    language: str = "en",
    kind: str = WEBVTT,
    headers: dict[str, str] | None = None,
    **options: Any,
) -> Reply:
    path = f"/v1/videos/{video_id}/captions/{language}"
    return api.request("PUT", path, body=text, headers={"Content-Type": kind, **(headers or {})}, **options)


def read(api: Api, video_id: str, language: str = "en", **options: Any) -> Reply:
    return api.get(f"/v1/videos/{video_id}/captions/{language}", **options)


def listed(api: Api, video_id: str, **options: Any) -> Reply:
    return api.get(f"/v1/videos/{video_id}/captions", **options)


def remove(api: Api, video_id: str, language: str = "en", **options: Any) -> Reply:
    return api.delete(f"/v1/videos/{video_id}/captions/{language}", **options)


def put_chapters(api: Api, video_id: str, chapters: Any = None, **options: Any) -> Reply:
    content = CHAPTERS_SENT if chapters is None else chapters
    return api.put(f"/v1/videos/{video_id}/chapters", {"chapters": content}, **options)


def chapters_of(api: Api, video_id: str, **options: Any) -> Reply:
    return api.get(f"/v1/videos/{video_id}/chapters", **options)


def texts(objects: Objects, video_id: str) -> list[str]:
    """Return the object keys of a video's caption texts."""
    listed = objects.client.list_objects_v2(Bucket=MEDIA_BUCKET, Prefix=captions_folder(video_id))
    return [content["Key"] for content in listed.get("Contents", [])]


# Captions: writing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "text"), [(WEBVTT, VTT), (SUBRIP, SRT), ("Text/VTT; charset=UTF-8", "\ufeff" + VTT)])
def test_captions_are_returned_as_webvtt(api: Api, video_id: str, kind: str, text: str) -> None:
    reply = put(api, video_id, text, kind=kind)

    assert reply.status == 201
    assert reply.json == {
        "videoId": video_id,
        "language": "en",
        "cues": 1,
        "size": len(VTT),
        "origin": "owner",
        "version": 1,
        "updatedAt": int(api.clock()),
    }
    fetched = read(api, video_id, user="bob")
    assert (fetched.status, fetched.body.decode(), fetched.etag) == (200, VTT, reply.etag)
    assert fetched.headers["content-type"] == "text/vtt; charset=utf-8"
    assert fetched.headers["x-content-type-options"] == "nosniff"


def test_second_put_replaces_captions_and_retains_the_former_text(api: Api, video_id: str, objects: Objects) -> None:
    put(api, video_id)

    reply = put(api, video_id, OTHER)

    assert (reply.status, reply.json["version"]) == (200, 2)
    assert read(api, video_id).body.decode() == OTHER
    assert sorted(texts(objects, video_id)) == sorted(
        text_key(video_id, text_hash(text.encode())) for text in (VTT, OTHER)
    )


@pytest.mark.parametrize(("kind", "text"), [(WEBVTT, VTT), (SUBRIP, SRT)])
def test_identical_put_of_captions_writes_nothing(
    api: Api, video_id: str, table: Table, objects: Objects, kind: str, text: str
) -> None:
    first = put(api, video_id)
    api.clock.advance(10)

    with record_operations(table.client) as of_table, record_operations(objects.client) as of_objects:
        repeated = put(api, video_id, text, kind=kind)

    assert (repeated.status, repeated.json, repeated.etag) == (200, first.json, first.etag)
    assert [operation.name for operation in of_table] == ["BatchGetItem"]
    assert [operation.name for operation in of_objects] == ["GetObject"]


@pytest.mark.parametrize("kind", ["application/xml", "text/plain", "", "text/vtt; charset=iso-8859-1"])
def test_unsupported_content_type_is_415_with_the_supported_types(api: Api, video_id: str, kind: str) -> None:
    reply = put(api, video_id, kind=kind)
    assert (reply.status, reply.slug) == (415, "unsupported-media-type")
    assert WEBVTT in reply.json["detail"]
    assert SUBRIP in reply.json["detail"]


@pytest.mark.parametrize(("kind", "text"), [("vtt", VTT), ("srt", SRT)])
def test_captions_in_json_are_stored_like_those_in_a_file(api: Api, video_id: str, kind: str, text: str) -> None:
    path = f"/v1/videos/{video_id}/captions/en"
    assert api.put(path, {"format": kind, "text": text}).status == 201
    stored = read(api, video_id).body
    assert put(api, video_id, text, kind=WEBVTT if kind == "vtt" else SUBRIP).status == 200
    assert read(api, video_id).body == stored


@pytest.mark.parametrize(
    ("body", "status", "errors"),
    [
        ({"format": "vtt", "text": VTT[8:]}, 422, [("/text", 1)]),
        ({"format": "vtt", "text": VTT.replace("-->", "->")}, 422, [("/text", 3)]),
        ({"format": "ass", "text": VTT}, 422, [("/format", None)]),
        ({"text": VTT}, 422, [("/format", None)]),
        ({"format": "vtt", "text": VTT, "language": "en"}, 422, [("/language", None)]),
        ({"format": "vtt", "text": "\ud800"}, 400, []),
    ],
)
def test_fault_in_json_is_named_with_its_pointer_and_line(
    api: Api, video_id: str, body: dict[str, str], status: int, errors: list[tuple[str, int | None]]
) -> None:
    reply = api.put(f"/v1/videos/{video_id}/captions/en", body)
    assert reply.status == status
    assert [(fault["pointer"], fault.get("line")) for fault in reply.json.get("errors", ())] == errors


def test_captions_over_a_million_bytes_are_413(api: Api, video_id: str) -> None:
    note = "NOTE " + "x" * (1_000_000 - len(VTT) - 7) + "\n\n"
    largest = VTT.replace("\n\n", f"\n\n{note}", 1)
    assert put(api, video_id, largest).status == 201
    assert put(api, video_id, largest + "\n").status == 413


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        (b"", WEBVTT, 1),
        (SRT, WEBVTT, 1),
        (VTT.replace("03.500", "03,500"), WEBVTT, 3),
        (VTT.replace("00:00:03.500", "00:00:01.000"), WEBVTT, 3),
        (VTT.encode("utf-16"), WEBVTT, 1),
        (VTT.encode().replace(b"tide", b"t\xefde"), WEBVTT, 4),
        (SRT.replace("-->", "->"), SUBRIP, 2),
    ],
)
def test_fault_in_captions_is_named_with_its_line(
    api: Api, video_id: str, objects: Objects, text: str | bytes, kind: str, line: int
) -> None:
    reply = put(api, video_id, text, kind=kind)

    assert (reply.status, reply.slug) == (422, "invalid-content")
    (fault,) = reply.json["errors"]
    assert (fault["line"], bool(fault["detail"])) == (line, True)
    assert read(api, video_id).status == 404
    assert texts(objects, video_id) == []


@pytest.mark.slow
def test_captions_may_have_twenty_thousand_cues_and_no_more(api: Api, video_id: str) -> None:
    cue = "00:00.000 --> 00:01.000\nx\n\n"
    assert put(api, video_id, "WEBVTT\n\n" + cue * 20_000).json["cues"] == 20_000

    reply = put(api, video_id, "WEBVTT\n\n" + cue * 20_001)

    assert (reply.status, reply.json["errors"][0]["line"]) == (422, 3 + 3 * 20_000)


def test_fault_without_a_line_is_reported_for_the_whole_text(api: Api, video_id: str) -> None:
    grows = "".join(f"{number}\n00:00:00,000 --> 00:00:01,000\n{'&' * 390}\n\n" for number in range(2000))
    for text, kind in (("WEBVTT\n", WEBVTT), (grows, SUBRIP)):
        (fault,) = put(api, video_id, text, kind=kind).json["errors"]
        assert (fault.keys(), fault["detail"][0].isupper()) == ({"detail"}, True)
    assert read(api, video_id).status == 404


@pytest.mark.parametrize(("sent", "stored"), [("EN-nz", "en-NZ"), ("ZH-hant-tw", "zh-Hant-TW"), ("DE", "de")])
def test_language_tags_are_compared_case_insensitively(api: Api, video_id: str, sent: str, stored: str) -> None:
    assert put(api, video_id, language=sent).json["language"] == stored
    assert read(api, video_id, stored.upper()).status == 200
    assert put(api, video_id, OTHER, language=stored).json["version"] == 2


@pytest.mark.parametrize("language", ["e_n", "en-", "x" * 36, "1"])
def test_invalid_language_is_400(api: Api, video_id: str, language: str) -> None:
    for reply in (
        put(api, video_id, language=language),
        read(api, video_id, language),
        remove(api, video_id, language),
    ):
        assert (reply.status, reply.json["errors"][0]["parameter"]) == (400, "language")


def test_stale_if_match_is_refused_and_stores_no_text(api: Api, video_id: str, objects: Objects) -> None:
    first = put(api, video_id)
    put(api, video_id, OTHER)

    late = put(api, video_id, VTT.replace("tide", "moon"), headers={"If-Match": first.etag})

    assert (late.status, late.slug) == (412, "version-mismatch")
    assert read(api, video_id).body.decode() == OTHER
    assert len(texts(objects, video_id)) == 2
    assert put(api, video_id, headers={"If-Match": '"2"'}).status == 200


def test_if_none_match_creates_and_never_replaces(api: Api, video_id: str) -> None:
    assert put(api, video_id, headers={"If-None-Match": "*"}).status == 201
    assert put(api, video_id, OTHER, headers={"If-None-Match": "*"}).status == 412


def test_captions_are_writable_by_owner_and_admins_only(api: Api, video_id: str, objects: Objects) -> None:
    private = str(api.create("alice")["videoId"])
    assert put(api, video_id, user="bob").status == 403
    assert put(api, private, user="bob").status == 404
    assert texts(objects, video_id) == texts(objects, private) == []
    assert put(api, private).status == 201
    assert put(api, video_id, user="admin").status == 201
    assert remove(api, video_id, user="bob").status == 403


def test_captions_are_readable_by_callers_who_may_read_the_video(api: Api, video_id: str) -> None:
    private = str(api.create("alice")["videoId"])
    for id_, status in ((video_id, 200), (private, 404)):
        put(api, id_)
        put_chapters(api, id_)
        replies = [read_reply(api, id_, user="bob") for read_reply in (read, listed, chapters_of)]
        assert [reply.status for reply in replies] == [status] * 3


def test_deleted_video_accepts_no_captions_and_retains_existing_ones(api: Api, video_id: str, objects: Objects) -> None:
    put(api, video_id)
    put_chapters(api, video_id)
    api.delete(f"/v1/videos/{video_id}")

    for reply in (
        put(api, video_id, OTHER),
        remove(api, video_id),
        put_chapters(api, video_id, CHAPTERS_SENT[:1]),
        api.delete(f"/v1/videos/{video_id}/chapters"),
    ):
        assert (reply.status, reply.slug) == (409, "illegal-transition")
    assert len(texts(objects, video_id)) == 1
    assert read(api, video_id).body.decode() == VTT
    assert chapters_of(api, video_id).json["chapters"] == CHAPTERS_SENT


def test_number_of_caption_languages_is_limited(api: Api, video_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_LANGUAGES", 2)
    put(api, video_id, language="de")
    put(api, video_id)

    refused = put(api, video_id, language="fr")

    assert (refused.status, refused.slug) == (409, "limit-reached")
    assert put(api, video_id, OTHER).status == 200


# Captions: faults during a write -----------------------------------------------------------------------------------


def _failing(code: str, status: int) -> Callable[..., None]:
    def fail(*_: Any) -> None:
        raise ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Any")  # type: ignore[typeddict-item]

    return fail


@pytest.mark.parametrize(("code", "status"), [("SlowDown", 503), ("InternalError", 500)])
def test_failed_s3_write_changes_no_captions(api: Api, video_id: str, objects: Objects, code: str, status: int) -> None:
    put(api, video_id)
    undo = intercept(objects.client, _failing(code, status))
    for reply in (put(api, video_id, OTHER), put(api, video_id), read(api, video_id)):
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    undo()

    assert read(api, video_id).body.decode() == VTT
    assert listed(api, video_id).json["items"][0]["version"] == 1


def test_write_interrupted_after_its_text_leaves_captions_unchanged(
    api: Api, video_id: str, table: Table, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(api, video_id)
    with monkeypatch.context() as patch:
        patch.setattr(Table, "write", _failing("CrashedHere", 400))
        assert put(api, video_id, OTHER).status == 500

    assert (len(texts(objects, video_id)), read(api, video_id).body.decode()) == (2, VTT)
    assert put(api, video_id, OTHER).json["version"] == 2


def test_write_with_a_lost_response_counts_once(
    api: Api, video_id: str, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_item, losses = table.client.put_item, [True]

    def lose_the_first_response(**parameters: Any) -> Any:
        response = put_item(**parameters)
        if losses.pop() if losses else False:
            raise ReadTimeoutError(endpoint_url="dynamodb")
        return response

    monkeypatch.setattr(table.client, "put_item", lose_the_first_response)
    reply = put(api, video_id)
    assert (reply.status, reply.json["version"]) == (201, 1)


def test_missing_text_is_reported_and_restored_by_another_put(api: Api, video_id: str, objects: Objects) -> None:
    put(api, video_id)
    objects.delete_prefix(MEDIA_BUCKET, captions_folder(video_id))
    assert (read(api, video_id).status, listed(api, video_id).status) == (404, 200)

    repeated = put(api, video_id)

    assert (repeated.status, repeated.json["version"], read(api, video_id).body.decode()) == (200, 1, VTT)


# Captions: reading and removing -------------------------------------------------------------------------------------


def test_captions_are_listed_by_language_in_pages(api: Api, video_id: str) -> None:
    for language in ("fr", "de", "en-NZ"):
        put(api, video_id, language=language)
    put_chapters(api, video_id)

    first = listed(api, video_id, query="limit=2").json
    last_page = listed(api, video_id, query=f"limit=2&cursor={first['nextCursor']}").json

    assert [item["language"] for item in (*first["items"], *last_page["items"])] == ["de", "en-NZ", "fr"]
    assert (len(first["items"]), last_page["nextCursor"]) == (2, None)


def test_matching_etag_of_captions_returns_304(api: Api, video_id: str, objects: Objects) -> None:
    tag = put(api, video_id).etag

    with record_operations(objects.client) as operations:
        reply = read(api, video_id, headers={"If-None-Match": tag})

    assert (reply.status, reply.body, reply.etag, operations) == (304, b"", tag, [])
    put(api, video_id, OTHER)
    assert read(api, video_id, headers={"If-None-Match": tag}).status == 200


def test_captions_are_removed_once_and_their_text_is_retained(
    api: Api, video_id: str, objects: Objects, table: Table
) -> None:
    tag = put(api, video_id).etag
    assert remove(api, video_id, headers={"If-Match": '"9"'}).status == 412
    assert remove(api, video_id, headers={"If-Match": tag}).status == 204
    assert (remove(api, video_id).status, read(api, video_id).status) == (404, 404)
    assert table.get(CAPTION.key(videoId=video_id, language="en")) is None
    assert len(texts(objects, video_id)) == 1


# Chapters -----------------------------------------------------------------------------------------------------------


PROPOSED: list[dict[str, Any]] = [{"start": 0}, {"start": 20_000, "title": "The letter"}]


def propose_chapters(
    background: BackgroundWork, video_id: str, upload: str = "0001", output: Item | None = None
) -> None:
    """Process a source video up to its storyboard, whose job proposes chapters. `output` replaces the job's output."""
    background.arrive(video_id, upload)
    background.probe(video_id)
    attempt, worker, now = background.message("thumbnails", "storyboard").job_attempt, Caller.job("thumbnails"), 1
    job_output = {"pictures": [], "chapters": PROPOSED} if output is None else output
    assert background.jobs.claim(attempt, worker, now)
    assert background.jobs.complete(attempt, job_output, worker, now, lambda item: item)


def test_proposed_chapters_are_shown_only_to_owner_and_admins(
    api: Api, video_id: str, background: BackgroundWork
) -> None:
    propose_chapters(background, video_id)

    for user in ("alice", "admin"):
        reply = chapters_of(api, video_id, user=user)
        assert (reply.status, reply.json) == (200, {"videoId": video_id, "chapters": [], "proposed": PROPOSED})
        assert "etag" not in reply.headers
    assert chapters_of(api, video_id, user="bob").status == 404


def test_proposed_chapters_are_shown_with_written_ones_and_do_not_change_the_etag(
    api: Api, video_id: str, background: BackgroundWork
) -> None:
    propose_chapters(background, video_id)
    written = put_chapters(api, video_id, CHAPTERS_SENT[:1], headers={"If-None-Match": "*"})
    assert written.status == 201

    reply = chapters_of(api, video_id)
    assert reply.json == written.json | {"proposed": PROPOSED}
    assert (reply.etag, chapters_of(api, video_id, headers={"If-None-Match": reply.etag}).status) == (written.etag, 200)
    assert put_chapters(api, video_id, CHAPTERS_SENT[:1], headers={"If-Match": reply.etag}).status == 200


def test_no_chapters_are_proposed_for_an_earlier_file_or_a_single_scene(
    api: Api, video_id: str, background: BackgroundWork
) -> None:
    propose_chapters(background, video_id)
    background.arrive(video_id, "0002", "e2")
    assert chapters_of(api, video_id).status == 404
    propose_chapters(background, video_id, "0003", output={"pictures": []})
    assert chapters_of(api, video_id).status == 404


def test_chapters_are_written_read_replaced_and_removed(api: Api, video_id: str, table: Table) -> None:
    first = put_chapters(api, video_id)
    assert (first.status, first.json["chapters"], first.json["version"]) == (201, CHAPTERS_SENT, 1)
    reply = chapters_of(api, video_id, user="bob")
    assert (reply.json, reply.etag) == (first.json, first.etag)
    assert chapters_of(api, video_id, headers={"If-None-Match": first.etag}).status == 304
    api.clock.advance(1)
    assert put_chapters(api, video_id).json == first.json
    assert (put_chapters(api, video_id, CHAPTERS_SENT[:1]).json["version"]) == 2
    assert put_chapters(api, video_id, headers={"If-Match": first.etag}).status == 412
    assert put_chapters(api, video_id, headers={"If-None-Match": "*"}).status == 412

    assert api.delete(f"/v1/videos/{video_id}/chapters").status == 204
    assert api.delete(f"/v1/videos/{video_id}/chapters").status == 404
    assert chapters_of(api, video_id).status == 404
    assert table.get(CHAPTERS.key(videoId=video_id)) is None
    assert put_chapters(api, video_id, headers={"If-Match": "*"}).status == 412


@pytest.mark.parametrize(
    ("chapters", "pointer"),
    [
        ([], "/chapters"),
        ([{"start": number, "title": "t"} for number in range(201)], "/chapters"),
        ([{"start": 5, "title": "t"}, {"start": 4, "title": "u"}], "/chapters/1/start"),
        ([{"start": 5, "title": "t"}, {"start": 5, "title": "u"}], "/chapters/1/start"),
        ([{"start": -1, "title": "t"}], "/chapters/0/start"),
        ([{"start": 1.5, "title": "t"}], "/chapters/0/start"),
        ([{"start": "1", "title": "t"}], "/chapters/0/start"),
        ([{"start": 360_000_001, "title": "t"}], "/chapters/0/start"),
        ([{"start": 0, "title": ""}], "/chapters/0/title"),
        ([{"start": 0, "title": "x" * 201}], "/chapters/0/title"),
        ([{"start": 0, "title": "a\nb"}], "/chapters/0/title"),
        ([{"start": 0, "title": "t", "end": 5}], "/chapters/0/end"),
    ],
)
def test_invalid_chapters_are_refused_with_a_pointer(api: Api, video_id: str, chapters: Any, pointer: str) -> None:
    reply = put_chapters(api, video_id, chapters)
    assert reply.status == 422
    assert pointer in [error["pointer"] for error in reply.json["errors"]]
    assert chapters_of(api, video_id).status == 404


def test_two_hundred_chapters_with_the_longest_titles_are_accepted(api: Api, video_id: str) -> None:
    most = [{"start": number, "title": "𝄞" * 200} for number in range(200)]
    assert put_chapters(api, video_id, most).status == 201
    assert chapters_of(api, video_id).json["chapters"] == most


def test_chapter_must_start_before_the_end_of_the_video(api: Api) -> None:
    video_id = str(api.publish("alice", duration=90_000)["videoId"])

    reply = put_chapters(api, video_id)

    assert reply.status == 422
    assert reply.json["errors"][0]["pointer"] == "/chapters/1/start"
    assert put_chapters(api, video_id, [CHAPTERS_SENT[0], {"start": 89_999, "title": "The letter"}]).status == 201
