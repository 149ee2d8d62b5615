"""Captions and chapters by their API."""

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
    """The service over an empty table and empty buckets."""
    return make_api(table, clock, objects)


@pytest.fixture
def film(api: Api) -> str:
    """Publish a video of alice's and return its id."""
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


def divide(api: Api, video_id: str, chapters: Any = None, **options: Any) -> Reply:
    content = CHAPTERS_SENT if chapters is None else chapters
    return api.put(f"/v1/videos/{video_id}/chapters", {"chapters": content}, **options)


def chapters_of(api: Api, video_id: str, **options: Any) -> Reply:
    return api.get(f"/v1/videos/{video_id}/chapters", **options)


def texts(objects: Objects, video_id: str) -> list[str]:
    """Return the keys of the stored texts of a video's captions."""
    answer = objects.client.list_objects_v2(Bucket=MEDIA_BUCKET, Prefix=captions_folder(video_id))
    return [content["Key"] for content in answer.get("Contents", [])]


# Captions: writing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "text"), [(WEBVTT, VTT), (SUBRIP, SRT), ("Text/VTT; charset=UTF-8", "\ufeff" + VTT)])
def test_captions_come_back_in_webvtt(api: Api, film: str, kind: str, text: str) -> None:
    reply = put(api, film, text, kind=kind)

    assert reply.status == 201
    assert reply.json == {
        "videoId": film,
        "language": "en",
        "cues": 1,
        "size": len(VTT),
        "origin": "owner",
        "version": 1,
        "updatedAt": int(api.clock()),
    }
    shown = read(api, film, user="bob")
    assert (shown.status, shown.body.decode(), shown.etag) == (200, VTT, reply.etag)
    assert shown.headers["content-type"] == "text/vtt; charset=utf-8"
    assert shown.headers["x-content-type-options"] == "nosniff"


def test_putting_captions_again_replaces_them_and_keeps_the_text_of_before(
    api: Api, film: str, objects: Objects
) -> None:
    put(api, film)

    reply = put(api, film, OTHER)

    assert (reply.status, reply.json["version"]) == (200, 2)
    assert read(api, film).body.decode() == OTHER
    assert sorted(texts(objects, film)) == sorted(text_key(film, text_hash(text.encode())) for text in (VTT, OTHER))


@pytest.mark.parametrize(("kind", "text"), [(WEBVTT, VTT), (SUBRIP, SRT)])
def test_the_same_captions_once_more_write_nothing(
    api: Api, film: str, table: Table, objects: Objects, kind: str, text: str
) -> None:
    first = put(api, film)
    api.clock.advance(10)

    with record_operations(table.client) as of_table, record_operations(objects.client) as of_objects:
        again = put(api, film, text, kind=kind)

    assert (again.status, again.json, again.etag) == (200, first.json, first.etag)
    assert [operation.name for operation in of_table] == ["BatchGetItem"]
    assert [operation.name for operation in of_objects] == ["GetObject"]


@pytest.mark.parametrize("kind", ["application/xml", "text/plain", "", "text/vtt; charset=iso-8859-1"])
def test_unsupported_content_type_is_415_with_the_supported_types(api: Api, film: str, kind: str) -> None:
    reply = put(api, film, kind=kind)
    assert (reply.status, reply.slug) == (415, "unsupported-media-type")
    assert WEBVTT in reply.json["detail"]
    assert SUBRIP in reply.json["detail"]


@pytest.mark.parametrize(("kind", "text"), [("vtt", VTT), ("srt", SRT)])
def test_captions_in_json_are_stored_as_those_in_a_file(api: Api, film: str, kind: str, text: str) -> None:
    path = f"/v1/videos/{film}/captions/en"
    assert api.put(path, {"format": kind, "text": text}).status == 201
    stored = read(api, film).body
    assert put(api, film, text, kind=WEBVTT if kind == "vtt" else SUBRIP).status == 200
    assert read(api, film).body == stored


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
def test_a_mistake_in_json_is_named_with_its_pointer_and_line(
    api: Api, film: str, body: dict[str, str], status: int, errors: list[tuple[str, int | None]]
) -> None:
    reply = api.put(f"/v1/videos/{film}/captions/en", body)
    assert reply.status == status
    assert [(fault["pointer"], fault.get("line")) for fault in reply.json.get("errors", ())] == errors


def test_captions_of_more_than_a_million_bytes_are_refused(api: Api, film: str) -> None:
    note = "NOTE " + "x" * (1_000_000 - len(VTT) - 7) + "\n\n"
    largest = VTT.replace("\n\n", f"\n\n{note}", 1)
    assert put(api, film, largest).status == 201
    assert put(api, film, largest + "\n").status == 413


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
def test_a_mistake_is_named_with_its_line(
    api: Api, film: str, objects: Objects, text: str | bytes, kind: str, line: int
) -> None:
    reply = put(api, film, text, kind=kind)

    assert (reply.status, reply.slug) == (422, "invalid-content")
    (fault,) = reply.json["errors"]
    assert (fault["line"], bool(fault["detail"])) == (line, True)
    assert read(api, film).status == 404
    assert texts(objects, film) == []


def test_captions_may_have_twenty_thousand_cues_and_no_more(api: Api, film: str) -> None:
    cue = "00:00.000 --> 00:01.000\nx\n\n"
    assert put(api, film, "WEBVTT\n\n" + cue * 20_000).json["cues"] == 20_000

    reply = put(api, film, "WEBVTT\n\n" + cue * 20_001)

    assert (reply.status, reply.json["errors"][0]["line"]) == (422, 3 + 3 * 20_000)


def test_a_text_of_which_no_line_is_at_fault_is_refused_as_a_whole(api: Api, film: str) -> None:
    grows = "".join(f"{number}\n00:00:00,000 --> 00:00:01,000\n{'&' * 390}\n\n" for number in range(2000))
    for text, kind in (("WEBVTT\n", WEBVTT), (grows, SUBRIP)):
        (fault,) = put(api, film, text, kind=kind).json["errors"]
        assert (fault.keys(), fault["detail"][0].isupper()) == ({"detail"}, True)
    assert read(api, film).status == 404


@pytest.mark.parametrize(("sent", "known"), [("EN-nz", "en-NZ"), ("ZH-hant-tw", "zh-Hant-TW"), ("DE", "de")])
def test_a_language_is_the_same_however_it_is_spelled(api: Api, film: str, sent: str, known: str) -> None:
    assert put(api, film, language=sent).json["language"] == known
    assert read(api, film, known.upper()).status == 200
    assert put(api, film, OTHER, language=known).json["version"] == 2


@pytest.mark.parametrize("language", ["e_n", "en-", "x" * 36, "1"])
def test_invalid_language_is_400(api: Api, film: str, language: str) -> None:
    for reply in (put(api, film, language=language), read(api, film, language), remove(api, film, language)):
        assert (reply.status, reply.json["errors"][0]["parameter"]) == (400, "language")


def test_if_match_keeps_a_change_of_somebody_else_and_no_text_is_stored(api: Api, film: str, objects: Objects) -> None:
    first = put(api, film)
    put(api, film, OTHER)

    late = put(api, film, VTT.replace("tide", "moon"), headers={"If-Match": first.etag})

    assert (late.status, late.slug) == (412, "version-mismatch")
    assert read(api, film).body.decode() == OTHER
    assert len(texts(objects, film)) == 2
    assert put(api, film, headers={"If-Match": '"2"'}).status == 200


def test_if_none_match_creates_and_never_replaces(api: Api, film: str) -> None:
    assert put(api, film, headers={"If-None-Match": "*"}).status == 201
    assert put(api, film, OTHER, headers={"If-None-Match": "*"}).status == 412


def test_captions_are_writable_by_owner_and_admins_only(api: Api, film: str, objects: Objects) -> None:
    private = str(api.create("alice")["videoId"])
    assert put(api, film, user="bob").status == 403
    assert put(api, private, user="bob").status == 404
    assert texts(objects, film) == texts(objects, private) == []
    assert put(api, private).status == 201
    assert put(api, film, user="admin").status == 201
    assert remove(api, film, user="bob").status == 403


def test_whoever_sees_a_video_reads_its_captions(api: Api, film: str) -> None:
    private = str(api.create("alice")["videoId"])
    for video_id, status in ((film, 200), (private, 404)):
        put(api, video_id)
        divide(api, video_id)
        replies = [ask(api, video_id, user="bob") for ask in (read, listed, chapters_of)]
        assert [reply.status for reply in replies] == [status] * 3


def test_a_deleted_video_takes_no_captions_and_keeps_those_that_it_has(api: Api, film: str, objects: Objects) -> None:
    put(api, film)
    divide(api, film)
    api.delete(f"/v1/videos/{film}")

    for reply in (
        put(api, film, OTHER),
        remove(api, film),
        divide(api, film, CHAPTERS_SENT[:1]),
        api.delete(f"/v1/videos/{film}/chapters"),
    ):
        assert (reply.status, reply.slug) == (409, "illegal-transition")
    assert len(texts(objects, film)) == 1
    assert read(api, film).body.decode() == VTT
    assert chapters_of(api, film).json["chapters"] == CHAPTERS_SENT


def test_a_video_has_captions_in_so_many_languages(api: Api, film: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_LANGUAGES", 2)
    put(api, film, language="de")
    put(api, film)

    refused = put(api, film, language="fr")

    assert (refused.status, refused.slug) == (409, "limit-reached")
    assert put(api, film, OTHER).status == 200


# Captions: what fails on the way ------------------------------------------------------------------------------------


def _failing(code: str, status: int) -> Callable[..., None]:
    def fail(*_: Any) -> None:
        raise ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Any")  # type: ignore[typeddict-item]

    return fail


@pytest.mark.parametrize(("code", "status"), [("SlowDown", 503), ("InternalError", 500)])
def test_when_s3_fails_nothing_has_changed(api: Api, film: str, objects: Objects, code: str, status: int) -> None:
    put(api, film)
    undo = intercept(objects.client, _failing(code, status))
    for reply in (put(api, film, OTHER), put(api, film), read(api, film)):
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    undo()

    assert read(api, film).body.decode() == VTT
    assert listed(api, film).json["items"][0]["version"] == 1


def test_a_write_that_breaks_off_behind_its_text_leaves_what_was_there(
    api: Api, film: str, table: Table, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(api, film)
    with monkeypatch.context() as patch:
        patch.setattr(Table, "write", _failing("CrashedHere", 400))
        assert put(api, film, OTHER).status == 500

    assert (len(texts(objects, film)), read(api, film).body.decode()) == (2, VTT)
    assert put(api, film, OTHER).json["version"] == 2


def test_a_write_whose_answer_was_lost_counts_once(
    api: Api, film: str, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_item, lost = table.client.put_item, [True]

    def lose_the_first_answer(**parameters: Any) -> Any:
        answer = put_item(**parameters)
        if lost.pop() if lost else False:
            raise ReadTimeoutError(endpoint_url="dynamodb")
        return answer

    monkeypatch.setattr(table.client, "put_item", lose_the_first_answer)
    reply = put(api, film)
    assert (reply.status, reply.json["version"]) == (201, 1)


def test_a_text_that_is_missing_is_said_to_be_and_comes_back_when_it_is_put_again(
    api: Api, film: str, objects: Objects
) -> None:
    put(api, film)
    objects.delete_prefix(MEDIA_BUCKET, captions_folder(film))
    assert (read(api, film).status, listed(api, film).status) == (404, 200)

    again = put(api, film)

    assert (again.status, again.json["version"], read(api, film).body.decode()) == (200, 1, VTT)


# Captions: reading and removing -------------------------------------------------------------------------------------


def test_captions_are_listed_by_language_in_pages(api: Api, film: str) -> None:
    for language in ("fr", "de", "en-NZ"):
        put(api, film, language=language)
    divide(api, film)

    first = listed(api, film, query="limit=2").json
    rest = listed(api, film, query=f"limit=2&cursor={first['nextCursor']}").json

    assert [item["language"] for item in (*first["items"], *rest["items"])] == ["de", "en-NZ", "fr"]
    assert (len(first["items"]), rest["nextCursor"]) == (2, None)


def test_a_reader_who_has_the_captions_is_not_sent_them_again(api: Api, film: str, objects: Objects) -> None:
    tag = put(api, film).etag

    with record_operations(objects.client) as operations:
        reply = read(api, film, headers={"If-None-Match": tag})

    assert (reply.status, reply.body, reply.etag, operations) == (304, b"", tag, [])
    put(api, film, OTHER)
    assert read(api, film, headers={"If-None-Match": tag}).status == 200


def test_captions_are_removed_once_and_their_text_stays(api: Api, film: str, objects: Objects, table: Table) -> None:
    tag = put(api, film).etag
    assert remove(api, film, headers={"If-Match": '"9"'}).status == 412
    assert remove(api, film, headers={"If-Match": tag}).status == 204
    assert (remove(api, film).status, read(api, film).status) == (404, 404)
    assert table.get(CAPTION.key(videoId=film, language="en")) is None
    assert len(texts(objects, film)) == 1


# Chapters -----------------------------------------------------------------------------------------------------------


PROPOSED: list[dict[str, Any]] = [{"start": 0}, {"start": 20_000, "title": "The letter"}]


def proposing(backstage: BackgroundWork, video_id: str, upload: str = "0001", output: Item | None = None) -> None:
    """A source video arrives, and its storyboard proposes chapters."""
    backstage.arrive(video_id, upload)
    backstage.probe(video_id)
    ticket, worker, now = backstage.message("thumbnails", "storyboard").ticket, Caller.job("thumbnails"), 1
    made = {"pictures": [], "chapters": PROPOSED} if output is None else output
    assert backstage.jobs.claim(ticket, worker, now)
    assert backstage.jobs.complete(ticket, made, worker, now, lambda item: item)


def test_chapters_that_are_proposed_are_shown_to_the_owner_and_admins(
    api: Api, film: str, background: BackgroundWork
) -> None:
    proposing(background, film)

    for user in ("alice", "admin"):
        reply = chapters_of(api, film, user=user)
        assert (reply.status, reply.json) == (200, {"videoId": film, "chapters": [], "proposed": PROPOSED})
        assert "etag" not in reply.headers
    assert chapters_of(api, film, user="bob").status == 404


def test_proposed_chapters_are_shown_with_written_ones_and_do_not_change_the_etag(
    api: Api, film: str, background: BackgroundWork
) -> None:
    proposing(background, film)
    written = divide(api, film, CHAPTERS_SENT[:1], headers={"If-None-Match": "*"})
    assert written.status == 201

    shown = chapters_of(api, film)
    assert shown.json == written.json | {"proposed": PROPOSED}
    assert (shown.etag, chapters_of(api, film, headers={"If-None-Match": shown.etag}).status) == (written.etag, 200)
    assert divide(api, film, CHAPTERS_SENT[:1], headers={"If-Match": shown.etag}).status == 200


def test_chapters_of_an_earlier_file_or_of_one_scene_are_not_proposed(
    api: Api, film: str, background: BackgroundWork
) -> None:
    proposing(background, film)
    background.arrive(film, "0002", "e2")
    assert chapters_of(api, film).status == 404
    proposing(background, film, "0003", output={"pictures": []})
    assert chapters_of(api, film).status == 404


def test_chapters_are_written_read_replaced_and_removed(api: Api, film: str, table: Table) -> None:
    first = divide(api, film)
    assert (first.status, first.json["chapters"], first.json["version"]) == (201, CHAPTERS_SENT, 1)
    shown = chapters_of(api, film, user="bob")
    assert (shown.json, shown.etag) == (first.json, first.etag)
    assert chapters_of(api, film, headers={"If-None-Match": first.etag}).status == 304
    api.clock.advance(1)
    assert divide(api, film).json == first.json
    assert (divide(api, film, CHAPTERS_SENT[:1]).json["version"]) == 2
    assert divide(api, film, headers={"If-Match": first.etag}).status == 412
    assert divide(api, film, headers={"If-None-Match": "*"}).status == 412

    assert api.delete(f"/v1/videos/{film}/chapters").status == 204
    assert api.delete(f"/v1/videos/{film}/chapters").status == 404
    assert chapters_of(api, film).status == 404
    assert table.get(CHAPTERS.key(videoId=film)) is None
    assert divide(api, film, headers={"If-Match": "*"}).status == 412


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
def test_chapters_that_are_not_valid_are_refused_with_a_pointer(
    api: Api, film: str, chapters: Any, pointer: str
) -> None:
    reply = divide(api, film, chapters)
    assert reply.status == 422
    assert pointer in [error["pointer"] for error in reply.json["errors"]]
    assert chapters_of(api, film).status == 404


def test_two_hundred_chapters_with_the_longest_titles_are_taken(api: Api, film: str) -> None:
    most = [{"start": number, "title": "𝄞" * 200} for number in range(200)]
    assert divide(api, film, most).status == 201
    assert chapters_of(api, film).json["chapters"] == most


def test_a_chapter_starts_before_the_end_of_the_film(api: Api) -> None:
    film = str(api.publish("alice", duration=90_000)["videoId"])

    reply = divide(api, film)

    assert reply.status == 422
    assert reply.json["errors"][0]["pointer"] == "/chapters/1/start"
    assert divide(api, film, [CHAPTERS_SENT[0], {"start": 89_999, "title": "The letter"}]).status == 201
