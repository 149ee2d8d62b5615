"""Concurrency quota per owner: a thousand source videos of one owner do not delay another owner's."""

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
from shared.processing.job_states import JobAttempt, ticket_of
from shared.processing.messages import JobMessage, parse
from tests.integration.contents import items_of

WORKER = Caller.job("probe")
QUOTA = JOB_QUEUES["probe"]


class Work:
    """Source videos of several owners that wait to be probed, and workers that start the queued jobs."""

    def __init__(self, api: Api, background: BackgroundWork) -> None:
        self.api = api
        self.background = background

    def upload(self, owner: str) -> str:
        """Create a video of this owner whose source arrives, and return its id."""
        video_id = str(self.api.create(user=owner)["videoId"])
        self.background.arrive(video_id)
        return video_id

    def received(self) -> list[JobMessage]:
        """Return the messages that were queued since the last call, in order."""
        return [parse(JobMessage, body) for body in self.background.queues["probe"].take()]

    def finish(self, ticket: JobAttempt, *, retry: bool = False) -> Job:
        """Start a job and fail it, permanently unless `retry` is true."""
        now = int(self.background.clock())
        assert self.background.jobs.claim(ticket, WORKER, now)
        ended = self.background.jobs.fail(ticket, "It is not a film.", WORKER, now, retry=retry)
        self.background.settle()
        assert ended
        return ended

    def quota_items(self) -> list[Item]:
        """Return the stored quota items."""
        return [item for item in items_of(self.background.table) if item["pk"].startswith("SHARE#")]


@pytest.fixture
def work(api: Api, table: Table, clock: Clock) -> Work:
    """A service without waiting jobs."""
    return Work(api, BackgroundWork(table, clock))


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


def test_finished_job_starts_the_next_of_its_owner_in_arrival_order(work: Work, clock: Clock) -> None:
    videos = []
    for _ in range(QUOTA + 3):
        videos.append(work.upload("alice"))
        clock.advance(1)
    begun = work.received()
    assert [message.videoId for message in begun] == videos[:QUOTA]
    for number, message in enumerate(begun[:3]):
        work.finish(message.ticket)
        assert [message.videoId for message in work.received()] == [videos[QUOTA + number]]


def test_all_jobs_finish_and_the_quota_is_empty(work: Work) -> None:
    videos = {work.upload("alice") for _ in range(3 * QUOTA)}
    done = set()
    while messages := work.received():
        assert len(messages) <= QUOTA
        for message in messages:
            work.finish(message.ticket)
            done.add(message.videoId)
    assert done == videos
    assert [item.get("jobs") for item in work.quota_items()] == [None]


def test_waiting_is_not_an_attempt(work: Work) -> None:
    for _ in range(QUOTA):
        work.upload("alice")
    last = work.upload("alice")
    for message in work.received():
        work.finish(message.ticket)
    (message,) = work.received()
    assert (message.videoId, message.attempt) == (last, 1)


def test_retried_job_keeps_its_slot_in_the_quota(work: Work) -> None:
    work.upload("alice")
    (first,) = work.received()
    for _ in range(QUOTA):
        work.upload("alice")
    assert len(work.received()) == QUOTA - 1
    work.finish(first.ticket, retry=True)
    (retried,) = work.received()
    assert (retried.videoId, retried.attempt) == (first.videoId, 2)


def test_job_deleted_while_it_waits_is_skipped(work: Work) -> None:
    videos = [work.upload("alice") for _ in range(QUOTA + 2)]
    begun = work.received()
    waiting = [video_id for video_id in videos if video_id not in {message.videoId for message in begun}]
    work.api.delete(f"/v1/videos/{waiting[0]}")
    work.background.settle()
    work.finish(begun[0].ticket)
    assert [message.videoId for message in work.received()] == [waiting[1]]
    assert sum(item["sk"].startswith("WAITS#") for item in work.quota_items()) == 0


def test_job_deleted_while_it_holds_a_slot_releases_it(work: Work) -> None:
    for _ in range(QUOTA + 1):
        work.upload("alice")
    begun = work.received()
    work.api.delete(f"/v1/videos/{begun[0].videoId}")
    work.background.settle()
    assert len(work.received()) == 1


def test_redelivered_records_send_nothing_beyond_the_quota(work: Work) -> None:
    for _ in range(QUOTA + 2):
        work.upload("alice")
    before = {message.videoId for message in work.received()}
    work.background.replay()
    assert {message.videoId for message in work.received()} <= before


def test_message_that_could_not_be_sent_is_sent_when_the_record_is_redelivered(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(QUOTA + 1):
        work.upload("alice")
    begun = work.received()

    def refused(*_: Any, **__: Any) -> None:
        raise Unavailable

    now = int(work.background.clock())
    assert work.background.jobs.claim(begun[0].ticket, WORKER, now)
    assert work.background.jobs.fail(begun[0].ticket, "It is not a film.", WORKER, now, retry=False)
    records = work.background.records()
    with monkeypatch.context() as patch:
        patch.setattr(FakeQueue, "send", refused)
        for record in records:
            work.background.replay(record)
    work.background.replay(*records)
    assert len(work.received()) == 1


def test_unreleased_slot_is_recovered_by_the_sweeper(work: Work, clock: Clock) -> None:
    for _ in range(QUOTA):
        work.upload("alice")
    for message in work.received():
        now = int(clock())
        assert work.background.jobs.claim(message.ticket, WORKER, now)
        assert work.background.jobs.fail(message.ticket, "It is not a film.", WORKER, now, retry=False)
    work.background.records()  # lost: no consumer receives that they ended
    last = work.upload("alice")
    assert work.received() == []
    # The sweeper has the message of one that waits sent once more.
    clock.advance(kind_of("probe").patience + 1)
    work.background.sweep()
    assert [message.videoId for message in work.received()] == [last]


def test_unreleased_slot_is_recovered_by_the_next_upload(work: Work, clock: Clock) -> None:
    for _ in range(QUOTA):
        work.upload("alice")
    for message in work.received():
        assert work.background.jobs.claim(message.ticket, WORKER, int(clock()))
        assert work.background.jobs.fail(message.ticket, "It is not a film.", WORKER, int(clock()), retry=False)
    work.background.records()
    clock.advance(CHECK_SECONDS)
    next_one = work.upload("alice")
    assert [message.videoId for message in work.received()] == [next_one]


def test_job_removed_with_its_video_releases_its_slot(work: Work) -> None:
    videos = [work.upload("alice") for _ in range(QUOTA + 1)]
    removed = work.received()[0]
    assert work.background.jobs.claim(removed.ticket, WORKER, int(work.background.clock()))
    remove_video(work.background.table, removed.videoId)
    work.background.settle()
    assert [message.videoId for message in work.received()] == [videos[-1]]


def test_kinds_with_one_queue_use_one_quota(work: Work) -> None:
    for _ in range(QUOTA):
        video_id = work.upload("alice")
        work.background.probe(video_id)
    pictures = work.background.queues["thumbnails"].take()
    assert len(pictures) == JOB_QUEUES["thumbnails"]
    assert {body["kind"] for body in pictures} == {"poster", "storyboard"}
    job = work.background.job(pictures[0]["videoId"], "poster")
    assert ticket_of(job).attempt == 1
