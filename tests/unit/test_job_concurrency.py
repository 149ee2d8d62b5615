"""Concurrency quota per owner: a hundred source videos of one owner do not delay another owner's jobs."""

from typing import Any

import pytest

from local.testbed.background import BackgroundWork, FakeQueue
from local.testbed.harness import Api, Clock, remove_video
from shared.aws.dynamodb import Table
from shared.aws.quotas import CHECK_SECONDS
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import Unavailable
from shared.entities import Job
from shared.job_kinds import JOB_QUEUES, kind_of
from shared.processing.concurrency import JobQuotas
from shared.processing.job_states import JobAttempt, attempt_of
from shared.processing.messages import JobMessage, parse
from tests.integration.contents import items_of

WORKER = Caller.job("probe")
QUOTA = JOB_QUEUES["probe"]


class JobTestbed:
    """Source videos that wait to be probed, and the messages for their jobs."""

    def __init__(self, api: Api, background: BackgroundWork) -> None:
        self.api = api
        self.background = background

    def upload(self, owner: str) -> str:
        """Create a video of this owner with an arrived source, and return its id."""
        video_id = str(self.api.create(user=owner)["videoId"])
        self.background.arrive(video_id)
        return video_id

    def received(self) -> list[JobMessage]:
        """Return the messages queued since the last call, in order."""
        return [parse(JobMessage, body) for body in self.background.queues["probe"].take()]

    def finish(self, attempt: JobAttempt, *, retry: bool = False) -> Job:
        """Claim a job and fail it. The failure is final unless `retry` is true."""
        now = int(self.background.clock())
        assert self.background.jobs.claim(attempt, WORKER, now)
        ended = self.background.jobs.fail(attempt, "It is not a film.", WORKER, now, retry=retry)
        self.background.settle()
        assert ended
        return ended

    def quota_items(self) -> list[Item]:
        """Return the stored items of concurrency quotas."""
        return [item for item in items_of(self.background.table) if item["pk"].startswith("SHARE#")]


@pytest.fixture
def testbed(api: Api, table: Table, clock: Clock) -> JobTestbed:
    """Return the service without waiting jobs."""
    return JobTestbed(api, BackgroundWork(table, clock))


def _job(number: int, owner: str) -> Any:
    video_id = f"{owner}-{number:04}"
    return {
        "videoId": video_id,
        "kind": "probe",
        "owner": owner,
        "state": "queued",
        "queuedAt": 1_000_000 + number,
    }


def test_hundred_uploads_of_one_owner_do_not_delay_another_owner(table: Table) -> None:
    quotas = JobQuotas(table, JOB_QUEUES)
    queued = [*(_job(number, "alice") for number in range(100)), _job(100, "bob")]
    sent = [job["videoId"] for job in queued if quotas.claim(job, 2_000_000)]
    assert sent == [*(f"alice-{number:04}" for number in range(QUOTA)), "bob-0100"]


def test_finished_job_starts_the_next_of_its_owner_in_arrival_order(testbed: JobTestbed, clock: Clock) -> None:
    videos = []
    for _ in range(QUOTA + 3):
        videos.append(testbed.upload("alice"))
        clock.advance(1)
    begun = testbed.received()
    assert [message.videoId for message in begun] == videos[:QUOTA]
    for number, message in enumerate(begun[:3]):
        testbed.finish(message.job_attempt)
        assert [message.videoId for message in testbed.received()] == [videos[QUOTA + number]]


def test_all_jobs_finish_and_the_quota_is_empty(testbed: JobTestbed) -> None:
    videos = {testbed.upload("alice") for _ in range(3 * QUOTA)}
    done = set()
    while messages := testbed.received():
        assert len(messages) <= QUOTA
        for message in messages:
            testbed.finish(message.job_attempt)
            done.add(message.videoId)
    assert done == videos
    assert [item.get("jobs") for item in testbed.quota_items()] == [None]


def test_waiting_does_not_count_as_an_attempt(testbed: JobTestbed) -> None:
    for _ in range(QUOTA):
        testbed.upload("alice")
    last = testbed.upload("alice")
    for message in testbed.received():
        testbed.finish(message.job_attempt)
    (message,) = testbed.received()
    assert (message.videoId, message.attempt) == (last, 1)


def test_retried_job_keeps_its_slot_in_the_quota(testbed: JobTestbed) -> None:
    testbed.upload("alice")
    (first,) = testbed.received()
    for _ in range(QUOTA):
        testbed.upload("alice")
    assert len(testbed.received()) == QUOTA - 1
    testbed.finish(first.job_attempt, retry=True)
    (retried,) = testbed.received()
    assert (retried.videoId, retried.attempt) == (first.videoId, 2)


def test_job_deleted_while_it_waits_is_skipped(testbed: JobTestbed) -> None:
    videos = [testbed.upload("alice") for _ in range(QUOTA + 2)]
    begun = testbed.received()
    waiting = [video_id for video_id in videos if video_id not in {message.videoId for message in begun}]
    testbed.api.delete(f"/v1/videos/{waiting[0]}")
    testbed.background.settle()
    testbed.finish(begun[0].job_attempt)
    assert [message.videoId for message in testbed.received()] == [waiting[1]]
    assert sum(item["sk"].startswith("WAITS#") for item in testbed.quota_items()) == 0


def test_job_deleted_while_it_holds_a_slot_releases_it(testbed: JobTestbed) -> None:
    for _ in range(QUOTA + 1):
        testbed.upload("alice")
    begun = testbed.received()
    testbed.api.delete(f"/v1/videos/{begun[0].videoId}")
    testbed.background.settle()
    assert len(testbed.received()) == 1


def test_redelivered_records_send_nothing_beyond_the_quota(testbed: JobTestbed) -> None:
    for _ in range(QUOTA + 2):
        testbed.upload("alice")
    before = {message.videoId for message in testbed.received()}
    testbed.background.replay()
    assert {message.videoId for message in testbed.received()} <= before


def test_message_that_could_not_be_sent_is_sent_when_the_record_is_redelivered(
    testbed: JobTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(QUOTA + 1):
        testbed.upload("alice")
    begun = testbed.received()

    def refused(*_: Any, **__: Any) -> None:
        raise Unavailable

    now = int(testbed.background.clock())
    assert testbed.background.jobs.claim(begun[0].job_attempt, WORKER, now)
    assert testbed.background.jobs.fail(begun[0].job_attempt, "It is not a film.", WORKER, now, retry=False)
    records = testbed.background.records()
    with monkeypatch.context() as patch:
        patch.setattr(FakeQueue, "send", refused)
        for record in records:
            testbed.background.replay(record)
    testbed.background.replay(*records)
    assert len(testbed.received()) == 1


def test_unreleased_slot_is_recovered_by_the_sweeper(testbed: JobTestbed, clock: Clock) -> None:
    for _ in range(QUOTA):
        testbed.upload("alice")
    for message in testbed.received():
        now = int(clock())
        assert testbed.background.jobs.claim(message.job_attempt, WORKER, now)
        assert testbed.background.jobs.fail(message.job_attempt, "It is not a film.", WORKER, now, retry=False)
    testbed.background.records()  # these records are lost, so no consumer releases the slots
    last = testbed.upload("alice")
    assert testbed.received() == []
    # The sweeper requeues the message of a waiting job.
    clock.advance(kind_of("probe").patience + 1)
    testbed.background.sweep()
    assert [message.videoId for message in testbed.received()] == [last]


def test_unreleased_slot_is_recovered_by_the_next_upload(testbed: JobTestbed, clock: Clock) -> None:
    for _ in range(QUOTA):
        testbed.upload("alice")
    for message in testbed.received():
        assert testbed.background.jobs.claim(message.job_attempt, WORKER, int(clock()))
        assert testbed.background.jobs.fail(message.job_attempt, "It is not a film.", WORKER, int(clock()), retry=False)
    testbed.background.records()
    clock.advance(CHECK_SECONDS)
    next_one = testbed.upload("alice")
    assert [message.videoId for message in testbed.received()] == [next_one]


def test_job_removed_with_its_video_releases_its_slot(testbed: JobTestbed) -> None:
    videos = [testbed.upload("alice") for _ in range(QUOTA + 1)]
    removed = testbed.received()[0]
    assert testbed.background.jobs.claim(removed.job_attempt, WORKER, int(testbed.background.clock()))
    remove_video(testbed.background.table, removed.videoId)
    testbed.background.settle()
    assert [message.videoId for message in testbed.received()] == [videos[-1]]


def test_kinds_with_one_queue_use_one_quota(testbed: JobTestbed) -> None:
    for _ in range(QUOTA):
        video_id = testbed.upload("alice")
        testbed.background.probe(video_id)
    pictures = testbed.background.queues["thumbnails"].take()
    assert len(pictures) == JOB_QUEUES["thumbnails"]
    assert {body["kind"] for body in pictures} == {"poster", "storyboard"}
    job = testbed.background.job(pictures[0]["videoId"], "poster")
    assert attempt_of(job).number == 1
