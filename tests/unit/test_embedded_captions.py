"""Tests of the job that extracts captions from a source video."""

from collections.abc import Callable
from typing import Any

import pytest

from local.testbed.background import READER, BackgroundWork
from local.testbed.harness import Clock, make_api
from local.testbed.video_files import TINY, SubtitleSpec, film, make_subtitled
from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.s3 import Objects
from shared.captions import embedded_store, webvtt
from shared.captions.embedded import extract_cues, extract_texts
from shared.captions.languages import language_tag
from shared.captions.store import captions_folder
from shared.core.attributes import Item
from shared.core.errors import Unavailable
from shared.job_kinds import kind_of
from shared.media import errors, subtitles
from shared.media.results import SubtitleTrack
from shared.media.sandbox import Sandbox
from shared.media.source import Source
from shared.processing.job_store import JobStore
from shared.schema import AUDIT, CAPTION, CHANGESET
from tests.reverting import RevertTestbed
from tests.workers import ProcessingWorkers

ENGLISH = "WEBVTT\n\n00:00:00.500 --> 00:00:01.500\nThe tide is out.\n\n00:00:02.000 --> 00:00:03.000\nIt comes back.\n"
SENT = "WEBVTT\n\n00:00:01.000 --> 00:00:03.500\nMine.\n"
GERMAN = SubtitleSpec("ger", ((0, 900, "Ebbe <i>und</i> Flut & Strand"),))


@pytest.fixture
def workers(table: Table, clock: Clock, objects: Objects) -> ProcessingWorkers:
    """Return the processing functions with an empty table and empty buckets."""
    return ProcessingWorkers(make_api(table, clock, objects), BackgroundWork(table, clock), objects)


def uploaded(
    workers: ProcessingWorkers, *tracks: SubtitleSpec, video_id: str | None = None, upload: str = "0001", **options: Any
) -> str:
    """Create a video of alice's whose source has the given subtitle tracks, process it, and return its id."""
    video_id = workers.upload(make_subtitled(*tracks, **options) if tracks else film(1, TINY), video_id, upload)
    workers.work()
    return video_id


def listed(workers: ProcessingWorkers, video_id: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = workers.api.get(f"/v1/videos/{video_id}/captions").json["items"]
    return items


def captions_text(workers: ProcessingWorkers, video_id: str, language: str = "en") -> str:
    return workers.api.get(f"/v1/videos/{video_id}/captions/{language}").body.decode()


def send(workers: ProcessingWorkers, video_id: str, language: str = "en", text: str = SENT) -> int:
    path = f"/v1/videos/{video_id}/captions/{language}"
    return workers.api.request("PUT", path, body=text, headers={"Content-Type": "text/vtt"}).status


def output(workers: ProcessingWorkers, video_id: str) -> Item:
    job = workers.background.job(video_id, "captions")
    assert job["state"] == "done"
    job_output: Item = job["output"]
    return job_output


# The job ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("container", "codec"), [("matroska", "subrip"), ("mp4", "mov_text")])
def test_subtitle_tracks_become_captions(workers: ProcessingWorkers, container: str, codec: str) -> None:
    video_id = uploaded(workers, SubtitleSpec(codec=codec), container=container)
    (captions,) = listed(workers, video_id)
    assert captions == {
        "videoId": video_id,
        "language": "en",
        "cues": 2,
        "size": len(ENGLISH),
        "origin": "film",
        "version": 1,
        "updatedAt": int(workers.background.clock()),
    }
    assert captions_text(workers, video_id) == ENGLISH
    assert output(workers, video_id) == {"captions": [{"track": 1, "language": "en", "cues": 2}], "skipped": []}


def test_every_subtitle_language_is_extracted_under_its_normalised_tag(workers: ProcessingWorkers) -> None:
    video_id = uploaded(
        workers, SubtitleSpec("eng"), GERMAN, SubtitleSpec("pt-br"), SubtitleSpec("haw"), SubtitleSpec("?")
    )
    assert [item["language"] for item in listed(workers, video_id)] == ["de", "en", "haw", "pt-BR", "und"]
    assert captions_text(workers, video_id, "de").endswith("\nEbbe <i>und</i> Flut &amp; Strand\n")


def test_source_without_subtitles_has_no_captions_job(workers: ProcessingWorkers) -> None:
    video_id = uploaded(workers)
    assert "captions" not in workers.background.states(video_id)


def test_skipped_tracks_have_a_reason(workers: ProcessingWorkers) -> None:
    pictures = SubtitleSpec("fra", codec="dvdsub", texts=())
    video_id = uploaded(
        workers, SubtitleSpec(forced=True), SubtitleSpec(), pictures, SubtitleSpec("spa", ((0, 900, " "),))
    )
    assert output(workers, video_id) == {
        "captions": [{"track": 2, "language": "en", "cues": 2}],
        "skipped": [
            {"track": 3, "language": "fr", "codec": "dvd_subtitle", "reason": errors.PICTURES},
            {"track": 4, "language": "es", "codec": "subrip", "reason": "The track has no text for captions."},
            {
                "track": 1,
                "language": "en",
                "codec": "subrip",
                "reason": "Another track of the file has the same language.",
            },
        ],
    }


def test_uploaded_captions_are_not_replaced_by_a_track(workers: ProcessingWorkers) -> None:
    video_id = str(workers.api.create()["videoId"])
    assert send(workers, video_id) == 201
    uploaded(workers, SubtitleSpec(), GERMAN, video_id=video_id)
    assert [(item["language"], item["origin"]) for item in listed(workers, video_id)] == [
        ("de", "film"),
        ("en", "owner"),
    ]
    assert captions_text(workers, video_id) == SENT
    (skipped,) = output(workers, video_id)["skipped"]
    assert (skipped["language"], skipped["reason"]) == ("en", "The owner uploaded captions in this language.")


def test_uploaded_captions_replace_those_extracted_from_the_file(workers: ProcessingWorkers) -> None:
    video_id = uploaded(workers, SubtitleSpec())
    assert send(workers, video_id) == 200
    assert [(item["origin"], item["version"]) for item in listed(workers, video_id)] == [("owner", 2)]


@pytest.mark.slow
def test_new_source_file_replaces_only_extracted_captions(workers: ProcessingWorkers) -> None:
    video_id = uploaded(workers, SubtitleSpec(), GERMAN)
    send(workers, video_id, "mi")
    other = SubtitleSpec("eng", ((0, 900, "Another film."),))
    uploaded(workers, other, SubtitleSpec("fra"), video_id=video_id, upload="0002")
    assert [(item["language"], item["origin"], item["version"]) for item in listed(workers, video_id)] == [
        ("en", "film", 1),
        ("fr", "film", 1),
        ("mi", "owner", 1),
    ]
    assert "Another film." in captions_text(workers, video_id)


@pytest.mark.slow
def test_source_file_without_subtitles_removes_extracted_captions(workers: ProcessingWorkers) -> None:
    video_id = uploaded(workers, SubtitleSpec(), GERMAN)
    send(workers, video_id, "de")
    workers.upload(film(1, TINY), video_id, "0002")
    assert [(item["language"], item["origin"]) for item in listed(workers, video_id)] == [("de", "owner")]
    workers.background.replay()
    assert [item["language"] for item in listed(workers, video_id)] == ["de"]


@pytest.mark.slow
def test_late_record_of_an_earlier_file_removes_no_current_captions(workers: ProcessingWorkers) -> None:
    video_id = uploaded(workers, GERMAN)
    uploaded(workers, SubtitleSpec(), video_id=video_id, upload="0002")
    workers.background.replay()
    assert [item["language"] for item in listed(workers, video_id)] == ["en"]


def test_late_captions_job_of_an_earlier_source_writes_nothing(workers: ProcessingWorkers) -> None:
    video_id = workers.upload(make_subtitled(GERMAN))
    workers.deliver("probe")
    late = [body for body in workers.background.queues["thumbnails"].take() if body["kind"] == "captions"]
    workers.upload(make_subtitled(SubtitleSpec()), video_id, "0002")
    workers.deliver("thumbnails", *late)
    workers.work()
    assert [item["language"] for item in listed(workers, video_id)] == ["en"]


def test_failed_captions_job_does_not_fail_the_video(
    workers: ProcessingWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subtitles, "MAX_READ", 0)
    monkeypatch.setattr(Sandbox, "within", lambda _: _InProcess())
    workers.restart()
    video_id = uploaded(workers, SubtitleSpec(), container="matroska")
    job = workers.background.job(video_id, "captions")
    assert (job["state"], job["error"]["reason"], job["error"]["final"]) == ("failed", errors.TOO_LONG_TO_READ, True)
    assert (workers.document(video_id)["status"], "failure" in workers.document(video_id)) == ("processing", False)
    assert "captions" not in workers.api.get(f"/v1/videos/{video_id}/why-not-ready").json["reason"]


class _InProcess(Sandbox):
    """Sandbox that reads subtitles in this process, where tests can patch the limits."""

    def run(self, task: str, source: Source, *arguments: Any) -> Any:
        return subtitles.subtitles(source, *arguments) if task == "subtitles" else READER.run(task, source, *arguments)


# Limits -------------------------------------------------------------------------------------------------------------


def test_tracks_beyond_the_language_limit_are_skipped(
    workers: ProcessingWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_store, "MAX_LANGUAGES", 2)
    video_id = str(workers.api.create()["videoId"])
    send(workers, video_id, "mi")
    uploaded(workers, SubtitleSpec(), GERMAN, video_id=video_id)
    assert [item["language"] for item in listed(workers, video_id)] == ["en", "mi"]
    assert [pending["language"] for pending in output(workers, video_id)["skipped"]] == ["de"]


def track(*texts: tuple[int, int, str], codec: str = "subrip", number: int = 1, language: str = "eng") -> SubtitleTrack:
    return SubtitleTrack(number, language, codec, False, texts)


def test_languages_beyond_one_transaction_are_skipped() -> None:
    names = [f"q{one}{two}" for one in "abcdefghi" for two in "klmnopqrstu"]
    tracks = [track((0, 900, "a"), number=number, language=name) for number, name in enumerate(names, 1)]
    texts, skipped = extract_texts(tracks)
    assert (len(texts), len(skipped), skipped[0]["reason"]) == (90, 9, "The file has more than 90 languages.")


def test_cue_outside_the_caption_limits_is_omitted() -> None:
    valid_cue = (1000, 2000, "Kept.")
    invalid_cues = [(0, 900, "x" * 2001), (5, 5, "never shown"), (9, 360_000_001, "too late"), (0, 900, "{\\b1}")]
    assert [cue.text for cue in extract_cues(track(*invalid_cues, valid_cue, valid_cue))] == ["Kept."]


@pytest.mark.parametrize(
    ("codec", "text", "payload"),
    [
        ("subrip", "<i>in</i>\r\n\r\nline\x00 2 <x> --> &", "<i>in</i>\nline 2 &lt;x&gt; --&gt; &amp;"),
        ("ass", r"{\b1}bold{\b0} & plain", "bold &amp; plain"),
        ("mov_text", "a < b", "a &lt; b"),
        ("webvtt", "<v Ada>Hello\n\n<c.loud>you</c>", "<v Ada>Hello\n<c.loud>you</c>"),
        ("webvtt", "<script>1</script> --> <b>x", "&lt;script&gt;1&lt;/script&gt; --&gt; <b>x</b>"),
        ("webvtt", "<b>never closed", "<b>never closed</b>"),
    ],
)
def test_subtitle_text_is_converted_to_a_valid_webvtt_payload(codec: str, text: str, payload: str) -> None:
    (cue,) = extract_cues(track((0, 900, text), codec=codec))
    assert cue.text == payload
    assert webvtt.read(webvtt.write([cue])) == [cue]


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        *(("eng", "en"), ("ENG", "en"), ("deu", "de"), ("ger", "de"), ("zho", "zh"), ("chi", "zh"), ("haw", "haw")),
        *(("en", "en"), ("en-nz", "en-NZ"), ("zh_hant", "zh-Hant"), ("por-BR", "pt-BR"), ("und", "und")),
        *(("", "und"), ("English", "english"), ("no language", "und"), ("e#g", "und")),
    ],
)
def test_language_of_a_track_is_converted_to_a_language_tag(name: str, tag: str) -> None:
    assert language_tag(name) == tag


# Repeats, faults and races ------------------------------------------------------------------------------------------


def test_duplicate_captions_message_writes_once(workers: ProcessingWorkers) -> None:
    video_id = workers.upload(make_subtitled(SubtitleSpec()))
    workers.deliver("probe")
    bodies = workers.background.queues["thumbnails"].take()
    workers.deliver("thumbnails", *bodies, *bodies)
    assert [item["version"] for item in listed(workers, video_id)] == [1]


@pytest.mark.parametrize("applied", [False, True], ids=["lost", "applied"])
def test_crash_at_the_last_write_is_completed_by_the_next_worker(
    workers: ProcessingWorkers, clock: Clock, monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    video_id = workers.upload(make_subtitled(SubtitleSpec()))
    workers.deliver("probe")
    with monkeypatch.context() as patch:
        transact = workers.background.table.client.transact_write_items

        def ended(**parameters: Any) -> Any:
            if len(parameters["TransactItems"]) > 2 and applied:
                transact(**parameters)
            raise SystemExit

        patch.setattr(workers.background.table.client, "transact_write_items", ended)
        captions = [body for body in workers.background.queues["thumbnails"].take() if body["kind"] == "captions"]
        with pytest.raises(SystemExit):
            workers.deliver("thumbnails", *captions)
    for _ in range(2):
        clock.advance(kind_of("captions").lease + 1)
        workers.background.sweep()
        workers.work()
    assert [item["version"] for item in listed(workers, video_id)] == [1]
    assert captions_text(workers, video_id) == ENGLISH


def test_failed_store_of_a_text_is_retried(workers: ProcessingWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    video_id = workers.upload(make_subtitled(SubtitleSpec()))
    workers.deliver("probe")
    put = workers.objects.put

    def refused(bucket: str, key: str, *args: Any, **options: Any) -> None:
        if key.startswith(captions_folder(video_id)):
            raise Unavailable
        put(bucket, key, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(workers.objects, "put", refused)
        workers.deliver("thumbnails")
    assert (listed(workers, video_id), workers.background.states(video_id)["captions"]) == ([], "queued")
    workers.work()
    assert captions_text(workers, video_id) == ENGLISH


def run_before_last_write(
    monkeypatch: pytest.MonkeyPatch, workers: ProcessingWorkers, action: Callable[[], object]
) -> None:
    """Call `action` once, directly before the final write of the job."""
    transact, pending = JobStore._write_both, [action]

    def late(store: JobStore, *args: Any) -> None:
        if len(args) > 4 and args[4] and pending:
            pending.pop()()
        transact(store, *args)

    monkeypatch.setattr(JobStore, "_write_both", late)


def test_captions_uploaded_while_the_job_ends_are_kept(
    workers: ProcessingWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    video_id = workers.upload(make_subtitled(SubtitleSpec(), GERMAN))
    run_before_last_write(monkeypatch, workers, lambda: send(workers, video_id))
    workers.work()
    assert [(item["language"], item["origin"]) for item in listed(workers, video_id)] == [
        ("de", "film"),
        ("en", "owner"),
    ]
    assert [pending["language"] for pending in output(workers, video_id)["skipped"]] == ["en"]


@pytest.mark.slow
def test_source_that_arrives_while_the_job_ends_wins(
    workers: ProcessingWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    video_id = workers.upload(make_subtitled(GERMAN))
    run_before_last_write(
        monkeypatch, workers, lambda: workers.upload(make_subtitled(SubtitleSpec()), video_id, "0002")
    )
    workers.work()
    workers.work()
    assert [item["language"] for item in listed(workers, video_id)] == ["en"]


def test_captions_job_does_not_write_the_video(workers: ProcessingWorkers) -> None:
    video_id = workers.upload(make_subtitled(SubtitleSpec()))
    workers.deliver("probe")
    captions = [body for body in workers.background.queues["thumbnails"].take() if body["kind"] == "captions"]
    before = workers.document(video_id)["version"]
    workers.deliver("thumbnails", *captions)
    assert workers.document(video_id)["version"] == before
    assert len(listed(workers, video_id)) == 1


def test_extracted_captions_record_their_author_and_request(workers: ProcessingWorkers, table: Table) -> None:
    video_id = uploaded(workers, SubtitleSpec())
    item = table.get(CAPTION.key(videoId=video_id, language="en"))
    assert item is not None
    job = workers.background.job(video_id, "captions")
    assert (item["updatedBy"], item.get("updatedFor")) == ("job:thumbnails", job.get("updatedFor"))


# Audit trail and reverts --------------------------------------------------------------------------------------------


@pytest.fixture
def reverts(table: Table, clock: Clock, objects: Objects) -> RevertTestbed:
    """Return the service with an audit trail of its changes."""
    return RevertTestbed(make_api(table, clock, objects))


def entries_of(testbed: RevertTestbed, video_id: str) -> list[dict[str, Any]]:
    """Return the audit entries of a video's captions, oldest first."""
    items = testbed.api.get(f"/v1/videos/{video_id}/audit", query="limit=100").json["items"]
    return [entry for entry in reversed(items) if entry["entity"] == "captions"]


@pytest.mark.slow
def test_audit_trail_records_captions_written_by_jobs(reverts: RevertTestbed, objects: Objects) -> None:
    workers = ProcessingWorkers(reverts.api, reverts, objects)
    video_id = uploaded(workers, SubtitleSpec(), GERMAN)
    reverts.clock.advance(1)
    uploaded(workers, SubtitleSpec(), video_id=video_id, upload="0002")
    audited = [(entry["action"], entry["language"], entry["by"]) for entry in entries_of(reverts, video_id)]
    thumbnails, router = ({"kind": "job", "id": f"job:{name}"} for name in ("thumbnails", "router"))
    assert sorted(audited[:2], key=str) == [("created", "de", thumbnails), ("created", "en", thumbnails)]
    assert sorted(audited[2:4], key=str) == [("removed", "de", router), ("removed", "en", router)]
    assert audited[4:] == [("created", "en", thumbnails)]


def test_revert_restores_replaced_track_captions_and_keeps_job_captions(
    reverts: RevertTestbed, objects: Objects
) -> None:
    workers = ProcessingWorkers(reverts.api, reverts, objects)
    video_id = uploaded(workers, SubtitleSpec())
    reverts.clock.advance(1)
    assert send(workers, video_id) == 200
    reverts.settle()
    of_video = Expression.of("#pk = :pk", pk=AUDIT.key(videoId=video_id, at="", sequence="")["pk"])
    entries = reverts.trail.table.query(index=None, condition=of_video, limit=100).items
    sets = [entry.get(CHANGESET) for entry in entries if entry["entity"] == "captions"]
    assert sets == [None, reverts.last_changeset(video_id)]
    assert reverts.revert_and_settle(reverts.last_changeset(video_id))["reverted"] == 1
    assert captions_text(workers, video_id) == ENGLISH
    assert [item["origin"] for item in listed(workers, video_id)] == ["film"]
