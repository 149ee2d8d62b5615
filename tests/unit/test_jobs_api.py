"""Tests of the job endpoints: lists, retries, reasons for failure, the poster frame, and a transcoder's reports."""

from typing import Any

import pytest

from local.testbed.background import RENDITIONS, BackgroundWork
from local.testbed.harness import Api, Clock, Reply, remove_video
from shared.aws.dynamodb import Table
from shared.core.attributes import without
from shared.core.caller import Caller
from shared.core.errors import WriteContention
from shared.job_kinds import kind_of
from shared.processing.job_states import LAST_ATTEMPT
from shared.processing.job_store import JobStore
from shared.schema import JOB, VIDEO
from shared.videos import video

TRANSCODER: dict[str, Any] = {"user": "transcoder", "scopes": "videos/transcode"}


def _report(api: Api, background: BackgroundWork, name: str = "360p", **fields: Any) -> Reply:
    """Send a transcoder's report on the latest message for a rendition, and return the response."""
    message = background.message("transcode", f"transcode.{name}")
    body = {"inputHash": message.inputHash, "attempt": message.attempt, **fields}
    reply = api.request("PUT", f"/v1/videos/{message.videoId}/renditions/{name}", json_body=body, **TRANSCODER)
    background.settle()
    return reply


def _done(api: Api, background: BackgroundWork, name: str) -> Reply:
    return _report(api, background, name, state="done", uri=background.message("transcode", f"transcode.{name}").output)


def _why_not_ready(api: Api, video_id: str) -> dict[str, Any]:
    reply = api.get(f"/v1/videos/{video_id}/why-not-ready")
    assert reply.status == 200
    explanation: dict[str, Any] = reply.json
    return explanation


class TestListing:
    def test_owner_sees_each_job_with_its_progress(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        _report(api, background, state="running", progress=40)
        items = api.get(f"/v1/videos/{video_id}/jobs").json["items"]
        assert {job["kind"]: (job["state"], job["attempts"], job["progress"]) for job in items} == {
            "probe": ("done", 1, 100),
            "poster": ("queued", 1, 0),
            "storyboard": ("queued", 1, 0),
            "transcode.240p": ("queued", 1, 0),
            "transcode.360p": ("running", 1, 40),
        }

    def test_jobs_of_an_earlier_video_with_the_same_id_are_not_listed(
        self, api: Api, background: BackgroundWork, table: Table
    ) -> None:
        video_id = background.uploaded_film(api)
        removed = remove_video(table, video_id)
        api.create("admin", videoId=video_id, userId="bob")
        for job in removed:
            if job["sk"].startswith("JOB#"):  # a late worker wrote the job after the removal
                table.write(table.put(job))
        assert api.get(f"/v1/videos/{video_id}/jobs", user="bob").json == {"items": []}

    def test_video_without_a_source_lists_no_jobs(self, api: Api) -> None:
        assert api.get(f"/v1/videos/{api.create()['videoId']}/jobs").json == {"items": []}


class TestWhyNotReady:
    def test_why_not_ready_explains_a_missing_source(self, api: Api) -> None:
        explanation = _why_not_ready(api, api.create()["videoId"])
        assert (explanation["ready"], explanation["blocker"]) == (False, None)
        assert explanation["reason"] == "No source video has arrived. Begin an upload by POST .../upload."

    def test_why_not_ready_explains_a_waiting_probe(self, api: Api, background: BackgroundWork, clock: Clock) -> None:
        video_id = api.create()["videoId"]
        background.arrive(video_id)
        clock.advance(7)
        explanation = _why_not_ready(api, video_id)
        assert explanation["blocker"]["kind"] == "probe"
        expected = f"Probing has been waiting for a worker for 7 seconds (attempt 1 of {LAST_ATTEMPT})."
        assert explanation["reason"] == expected

    def test_why_not_ready_names_a_failed_job_before_a_running_one(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        _report(api, background, "360p", state="running", progress=40)
        explanation = _why_not_ready(api, video_id)
        assert explanation["reason"] == f"Creating the rendition 360p is running (40 %, attempt 1 of {LAST_ATTEMPT})."
        _report(api, background, "240p", state="failed", reason="No codec.")
        explanation = _why_not_ready(api, video_id)
        assert (explanation["status"], explanation["blocker"]["kind"]) == ("failed", "transcode.240p")
        assert explanation["reason"] == (
            "Creating the rendition 240p failed: No codec. Upload a different file, or POST .../jobs/transcode.240p/retry."
        )

    def test_retried_job_has_the_reason_of_its_last_failure(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        for name in RENDITIONS:
            _report(api, background, name, state="failed", reason="Out of disk.", retry=True)
        assert _why_not_ready(api, video_id)["reason"].endswith("Last error: Out of disk.")

    def test_why_not_ready_explains_a_job_that_the_stream_consumer_has_not_created(
        self, api: Api, background: BackgroundWork, table: Table
    ) -> None:
        video_id = background.uploaded_film(api)
        for job in background.jobs.list_for_video(video_id):
            table.delete({"pk": job["pk"], "sk": job["sk"]})
        assert _why_not_ready(api, video_id)["reason"].startswith("Probing starts within 10 seconds.")

    def test_wait_starts_at_the_change_that_the_stream_has_not_delivered(
        self, api: Api, background: BackgroundWork, table: Table
    ) -> None:
        video_id = str(api.create()["videoId"])
        background.arrive(video_id)
        table.delete(JOB.key(videoId=video_id, kind="probe"))
        api.clock.advance(540)
        assert _why_not_ready(api, video_id)["reason"] == (
            "Probing has been waiting for 540 seconds behind older changes, such as an import. After an hour, "
            "POST .../jobs/probe/retry."
        )

    def test_rendition_waits_since_its_source_was_probed(
        self, api: Api, background: BackgroundWork, table: Table
    ) -> None:
        video_id = str(api.create()["videoId"])
        background.arrive(video_id)
        api.clock.advance(540)
        background.probe(video_id)
        for name in RENDITIONS:
            table.delete(JOB.key(videoId=video_id, kind=f"transcode.{name}"))
        assert _why_not_ready(api, video_id)["reason"] == "Creating the rendition 240p starts within 10 seconds."
        api.clock.advance(60)
        assert (
            "Creating the rendition 240p has been waiting for 60 seconds behind older changes"
            in _why_not_ready(api, video_id)["reason"]
        )

    def test_why_not_ready_ignores_jobs_of_an_earlier_source_file(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        for name in RENDITIONS:
            _done(api, background, name)
        source: Any = (background.table.get(VIDEO.key(videoId=video_id)) or {})["source"]
        newer = without(source, "media", "renditions", "made") | {"uploadId": "0002", "etag": "e2"}
        background.videos.change(
            video_id,
            Caller.job("arrivals"),
            1,
            lambda item: video.attach_source(item, newer),
        )
        assert _why_not_ready(api, video_id)["reason"].startswith("Probing starts within 10 seconds.")

    def test_why_not_ready_explains_a_ready_deleted_or_manually_changed_video(
        self, api: Api, background: BackgroundWork
    ) -> None:
        video_id = background.uploaded_film(api)
        for name in RENDITIONS:
            _done(api, background, name)
        assert _why_not_ready(api, video_id) == {
            "videoId": video_id,
            "status": "ready",
            "ready": True,
            "reason": "The video is ready.",
            "blocker": None,
        }
        api.patch(f"/v1/videos/{video_id}", {"status": "processing"})
        assert _why_not_ready(api, video_id)["reason"].startswith(
            "All required jobs are done, but a PATCH set the status"
        )
        api.delete(f"/v1/videos/{video_id}")
        assert _why_not_ready(api, video_id)["reason"] == "The video is deleted. Restore it first."


class TestRetry:
    def test_retry_requeues_a_failed_job(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        _report(api, background, state="failed", reason="No codec.")
        reply = api.post(f"/v1/videos/{video_id}/jobs/transcode.360p/retry")
        assert (reply.status, reply.json["state"], reply.json["attempts"]) == (202, "queued", 1)
        response = api.post(f"/v1/videos/{video_id}/jobs/transcode.360p/retry")
        assert (response.status, response.json["state"]) == (202, "queued")

    def test_retry_resends_a_lost_message(self, api: Api, background: BackgroundWork, clock: Clock) -> None:
        video_id = background.uploaded_film(api)
        path = f"/v1/videos/{video_id}/jobs/transcode.360p/retry"
        background.queues["transcode"].take()
        for seconds, sent in ((30, 0), (30, 1), (30, 0)):
            clock.advance(seconds)
            reply = api.post(path)
            background.settle()
            assert (reply.status, len(background.queues["transcode"].take())) == (202, sent)
        assert background.job(video_id, "transcode.360p")["attempt"] == 1

    @pytest.mark.parametrize(
        ("kind", "status"), [("probe", 409), ("transcode.4320p", 404), ("nothing", 400), ("transcode.", 400)]
    )
    def test_retry_of_a_finished_or_unknown_job_is_refused(
        self, api: Api, background: BackgroundWork, kind: str, status: int
    ) -> None:
        video_id = background.uploaded_film(api)
        assert api.post(f"/v1/videos/{video_id}/jobs/{kind}/retry").status == status

    def test_retry_beyond_the_daily_quota_is_429(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        for _ in range(2):
            _report(api, background, state="failed", reason="No codec.")
            api.post(f"/v1/videos/{video_id}/jobs/transcode.360p/retry")
            background.settle()
        _report(api, background, state="failed", reason="No codec.")
        background.spend_quota("alice")
        reply = api.post(f"/v1/videos/{video_id}/jobs/transcode.360p/retry")
        assert reply.status == 429
        assert 0 < int(reply.headers["retry-after"]) <= 86400
        assert background.job(video_id, "transcode.360p")["state"] == "failed"


class TestPosterFrame:
    def _choose(self, api: Api, video_id: str, position: Any, **options: Any) -> Reply:
        return api.post(f"/v1/videos/{video_id}/thumbnail", {"position": position}, **options)

    def test_chosen_frame_creates_a_new_poster(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        before = background.message("thumbnails", "poster")
        reply = self._choose(api, video_id, 12_500)
        assert (reply.status, reply.json) == (202, {"videoId": video_id, "kind": "poster", "position": 12_500})
        background.settle()
        after = background.message("thumbnails", "poster")
        assert (before.input.time, after.input.time) == (None, 12500)
        assert before.inputHash != after.inputHash
        assert len([body for body in background.queues["thumbnails"].sent if body["kind"] == "storyboard"]) == 1

    def test_same_poster_frame_creates_no_job(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        self._choose(api, video_id, 12_500)
        background.settle()
        sent = len(background.queues["thumbnails"].sent)
        assert self._choose(api, video_id, 12_500).status == 202
        background.settle()
        assert len(background.queues["thumbnails"].sent) == sent

    def test_chosen_poster_frame_replaces_a_poster_set_by_the_owner(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api, thumbnails={"poster": {"url": "https://mine/p.jpg"}})
        self._choose(api, video_id, 1)
        assert "poster" not in api.get(f"/v1/videos/{video_id}").json["thumbnails"]

    @pytest.mark.parametrize("position", [60_000, 60_500, 1_000_000_000_000])
    def test_poster_frame_must_be_within_the_video(self, api: Api, background: BackgroundWork, position: int) -> None:
        reply = self._choose(api, background.uploaded_film(api), position)
        detail = f"must be less than 60000, the milliseconds of the source video, not {position}"
        assert (reply.status, reply.json["errors"]) == (422, [{"pointer": "/position", "detail": detail}])

    @pytest.mark.parametrize("position", [-1, "12", None, [1], 1.5])
    def test_position_of_a_poster_frame_must_be_a_number_of_milliseconds(
        self, api: Api, background: BackgroundWork, position: Any
    ) -> None:
        assert self._choose(api, background.uploaded_film(api), position).status == 422

    def test_chosen_poster_frame_replaces_every_size_of_the_poster(self, api: Api, background: BackgroundWork) -> None:
        url = {"url": "https://mine/p.jpg"}
        mine = {"poster": url, "poster-320.webp": url, "posterior": url}
        video_id = background.uploaded_film(api, thumbnails=mine)
        self._choose(api, video_id, 1)
        assert set(api.get(f"/v1/videos/{video_id}").json["thumbnails"]) == {"posterior"}

    def test_poster_frame_requires_a_source(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.create()["videoId"]
        assert self._choose(api, video_id, 1).status == 409
        background.arrive(video_id)
        assert self._choose(api, video_id, 1).status == 409

    def test_choosing_a_poster_frame_requires_the_owner_and_quota(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        assert self._choose(api, video_id, 1, user="bob").status == 404
        background.spend_quota("alice")
        assert self._choose(api, video_id, 1).status == 429


class TestReports:
    def test_reported_progress_is_stored(self, api: Api, background: BackgroundWork) -> None:
        background.uploaded_film(api)
        first = _report(api, background, state="running")
        assert (first.status, first.json["state"], first.json["progress"]) == (200, "running", 0)
        assert _report(api, background, state="running", progress=70).json["progress"] == 70

    def test_report_without_progress_keeps_lease_and_earlier_progress(
        self, api: Api, background: BackgroundWork, clock: Clock
    ) -> None:
        video_id = background.uploaded_film(api)
        _report(api, background, state="running", progress=70)
        clock.advance(60)
        assert _report(api, background, state="running").json["progress"] == 70
        assert background.job(video_id, "transcode.360p")["leaseUntil"] == int(clock()) + kind_of("transcode").lease

    def test_report_on_another_input_or_attempt_is_refused(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        _report(api, background, state="running", progress=70)
        for change in ({"inputHash": "0" * 32}, {"attempt": 2}):
            assert _report(api, background, state="running", **change).status == 409
        assert background.job(video_id, "transcode.360p")["progress"] == 70

    def test_report_by_another_worker_than_the_lease_holder_is_409(self, api: Api, background: BackgroundWork) -> None:
        background.uploaded_film(api)
        assert _report(api, background, state="running", worker="one").status == 200
        assert _report(api, background, state="running", worker="two").status == 409
        assert _report(api, background, state="running", progress=5).status == 409
        assert _report(api, background, state="running", worker="one", progress=5).status == 200

    def test_report_under_write_contention_is_503_so_that_the_worker_retries(
        self, api: Api, background: BackgroundWork, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        background.uploaded_film(api)

        def contended(*_: object) -> None:
            raise WriteContention

        monkeypatch.setattr(JobStore, "claim", contended)
        reply = _report(api, background, state="running")
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")

    def test_last_rendition_makes_the_video_ready(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        for name in RENDITIONS:
            reply = _done(api, background, name)
            assert (reply.status, reply.json["state"]) == (200, "done")
        document = api.get(f"/v1/videos/{video_id}").json
        assert document["status"] == "ready"
        assert set(document["resolutions"]) == set(RENDITIONS)

    def test_duplicate_reports_get_the_same_response(self, api: Api, background: BackgroundWork) -> None:
        background.uploaded_film(api)
        assert _done(api, background, "360p").json == _done(api, background, "360p").json
        failed = [_report(api, background, "240p", state="failed", reason="No.") for _ in range(2)]
        assert failed[0].json == failed[1].json

    def test_progress_after_the_result_is_refused(self, api: Api, background: BackgroundWork) -> None:
        background.uploaded_film(api)
        _done(api, background, "360p")
        late: tuple[dict[str, Any], ...] = ({}, {"progress": 0}, {"progress": 99})
        for progress in late:
            assert _report(api, background, state="running", **progress).status == 409

    def test_report_without_progress_extends_the_lease_and_keeps_the_progress(
        self, api: Api, background: BackgroundWork, clock: Clock
    ) -> None:
        video_id = background.uploaded_film(api)
        _report(api, background, state="running", progress=40)
        before = background.job(video_id, "transcode.360p")
        clock.advance(60)
        assert _report(api, background, state="running").json["progress"] == 40
        assert background.job(video_id, "transcode.360p")["leaseUntil"] == before["leaseUntil"] + 60

    def test_report_on_another_source_is_refused(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        stale = background.message("transcode", "transcode.360p")
        background.arrive(video_id, upload="0002", etag="e2")
        background.probe(video_id)
        for state in (
            {"state": "running"},
            {"state": "running", "progress": 5},
            {"state": "done", "uri": stale.output},
            {"state": "failed", "reason": "No."},
        ):
            body = {"inputHash": stale.inputHash, "attempt": stale.attempt, **state}
            reply = api.request("PUT", f"/v1/videos/{video_id}/renditions/360p", json_body=body, **TRANSCODER)
            assert reply.status == 409, state
        assert background.job(video_id, "transcode.360p")["state"] == "queued"

    def test_failure_report_may_request_a_retry(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        reply = _report(api, background, state="failed", reason="Out of disk.", retry=True)
        assert (reply.json["state"], reply.json["attempts"]) == ("queued", 2)
        assert background.message("transcode", "transcode.360p").attempt == 2
        assert api.get(f"/v1/videos/{video_id}").json["status"] == "processing"

    def test_report_on_an_earlier_attempt_cannot_fail_a_later_attempt(
        self, api: Api, background: BackgroundWork
    ) -> None:
        video_id = background.uploaded_film(api)
        stale = background.message("transcode", "transcode.360p")
        _report(api, background, state="failed", reason="Out of disk.", retry=True)
        body = {"inputHash": stale.inputHash, "attempt": 1, "state": "failed", "reason": "Late."}
        reply = api.request("PUT", f"/v1/videos/{video_id}/renditions/360p", json_body=body, **TRANSCODER)
        assert reply.status == 409
        assert background.job(video_id, "transcode.360p")["state"] == "queued"

    @pytest.mark.parametrize(
        "body",
        [
            {"state": "done"},
            {"state": "failed"},
            {"state": "queued"},
            {"state": "done", "uri": "https://example.com/x.mp4"},
            {"state": "done", "uri": "s3://somebody-elses/360p.mp4"},
            {"state": "done", "uri": "{folder}../../x.mp4"},
            {"state": "done", "uri": "{folder}x.mp4?versionId=1"},
            {"state": "done", "uri": "{folder}a b.mp4"},
            {"state": "done", "uri": "{folder}folder/"},
            {"state": "running", "progress": 101},
            {"state": "running", "inputHash": "x"},
            {"state": "running", "attempt": 0},
        ],
        ids=str,
    )
    def test_report_must_have_the_fields_of_its_state(
        self, api: Api, background: BackgroundWork, body: dict[str, Any]
    ) -> None:
        background.uploaded_film(api)
        output = background.message("transcode", "transcode.360p").output or ""
        uri = {"uri": body["uri"].format(folder=output.removesuffix("360p.mp4"))} if "uri" in body else {}
        assert _report(api, background, **body | uri).status == 422

    def test_second_result_that_differs_is_refused(self, api: Api, background: BackgroundWork) -> None:
        background.uploaded_film(api)
        _done(api, background, "360p")
        other = str(background.message("transcode", "transcode.360p").output).replace("360p.mp4", "other.mp4")
        assert _report(api, background, state="done", uri=other).status == 409

    def test_report_on_an_unknown_rendition_is_refused(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        body = {"inputHash": "0" * 32, "attempt": 1, "state": "running"}
        for path, status in ((f"{video_id}/renditions/4320p", 404), (f"{video_id}/renditions/a%20b", 400)):
            assert api.request("PUT", f"/v1/videos/{path}", json_body=body, **TRANSCODER).status == status
