"""Background work in tests: the table's stream, the router, queues and workers. They run only when a test calls them."""

import atexit
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import Mock

from functions.aggregates import handler as aggregates
from functions.audit import handler as audit
from functions.stream_router import handler as stream_router
from functions.sweeper import handler as sweeper
from functions.tallies import handler as tallies
from local.testbed.harness import JOBS_PER_DAY, MEDIA_BUCKET, VARIABLES, Clock, Context, FakeResources
from local.testbed.lean_moto import stream_records
from local.testbed.streams import sqs_event
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import QuotaExceeded
from shared.core.settings import LambdaHandler
from shared.entities import Job, VideoSource
from shared.media.sandbox import Sandbox
from shared.processing.daily_quota import QuotaStore
from shared.processing.job_store import JobStore
from shared.processing.messages import JobMessage, parse
from shared.videos import video
from shared.videos.store import VideoStore

MEDIA: Item = {"duration": 60_000, "width": 640, "height": 360}
FIELDS: Item = {"duration": 60_000, "format": "mp4", "resolution": "640x360"}
DAYS = 400
"""Retention of trail entries, in days."""
RENDITIONS: Item = {"360p": {"width": 640, "height": 360}, "240p": {"width": 426, "height": 240}}

READER = Sandbox.within(int(VARIABLES["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]))
"""Sandbox that reads source files. All tests of a process use the same one, because starting a sandbox is slow."""
atexit.register(READER.close)


@dataclass
class FakeQueue:
    """Queue that stores messages until a test takes them. `delays` has the delay of each message in seconds."""

    sent: list[dict[str, Any]] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)

    def send(self, body: Mapping[str, object], delay_seconds: int = 0) -> None:
        """Store a message."""
        self.sent.append(dict(body))
        self.delays.append(delay_seconds)

    def send_all(self, bodies: Sequence[Mapping[str, object]]) -> None:
        """Store messages."""
        for body in bodies:
            self.send(body)

    def take(self) -> list[dict[str, Any]]:
        """Return and remove all stored messages."""
        taken, self.sent = self.sent, []
        return taken


def make_audit(
    entries: Table,
    clock: Clock | None = None,
    *,
    queue: FakeQueue | None = None,
    objects: Objects | None = None,
) -> LambdaHandler:
    """Return the audit function. It writes to the table `entries`. `queue` and `objects` default to fakes."""
    queues = {"deliveries": queue or FakeQueue()}
    resources = FakeResources(entries, clock or Clock(), audit=entries, objects=objects or Mock(Objects), queues=queues)
    return resources.make(audit.lambda_handler, ARCHIVE_BUCKET=MEDIA_BUCKET)


class BackgroundWork:
    """Router, queues and workers that process the stream of a table."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self.table = table
        self.clock = clock
        self.jobs = JobStore(table)
        self.videos = VideoStore(table)
        self.queues: defaultdict[str, FakeQueue] = defaultdict(FakeQueue)
        resources = FakeResources(table, clock, queues=self.queues)
        self.router = resources.make(stream_router.lambda_handler)
        self.sweeper = resources.make(sweeper.lambda_handler)
        self.aggregates = resources.make(aggregates.lambda_handler)
        self.tallies = resources.make(tallies.lambda_handler)
        self.seen_records: list[dict[str, Any]] = []
        """All stream records that were processed, in order."""
        self._taken = 0
        """Number of records that were read from the stream."""

    def records(self) -> list[dict[str, Any]]:
        """Return the stream's new records, in Lambda's format."""
        new = stream_records(self.table.name, self._taken)
        self._taken += len(new)
        at = {"ApproximateCreationDateTime": self.clock.now}
        return [raw | {"dynamodb": raw["dynamodb"] | at} for raw in new]

    def settle(self) -> None:
        """Process stream records with the router, and messages with the tallies worker, until no record and no message
        is left."""
        records = self.records()
        while records or self.queues["tallies"].sent:
            self.seen_records += records
            if records:
                assert self.router({"Records": records}, Context()) == {"batchItemFailures": []}
            self.tally(*self.queues["tallies"].take())
            records = self.records()

    def tally(self, *messages: dict[str, Any]) -> None:
        """Deliver messages to the worker that counts views and ratings, in batches of ten."""
        for start in range(0, len(messages), 10):
            assert self.tallies(sqs_event(*messages[start : start + 10]), Context()) == {"batchItemFailures": []}

    def settle_totals(self) -> None:
        """Process all stream records, then run the worker that updates totals."""
        self.settle()
        self.count(*self.queues["aggregates"].take())
        self.settle()

    def count(self, *messages: dict[str, Any]) -> None:
        """Deliver messages to the worker that updates totals, in batches of ten."""
        for start in range(0, len(messages), 10):
            event = sqs_event(*messages[start : start + 10])
            assert self.aggregates(event, Context()) == {"batchItemFailures": []}

    def replay(self, *records: dict[str, Any]) -> None:
        """Deliver records to the router again, one by one. By default, these are all records that were processed
        before."""
        for record in records or self.seen_records:
            self.router({"Records": [record]}, Context())
        self.settle()

    def sweep(self) -> dict[str, Any]:
        """Run the sweeper, then the router."""
        swept = self.sweeper({}, Context())
        self.settle()
        return swept

    def attach(self, video_id: str, upload: str = "0001", etag: str = "e1", size: int = 1000) -> None:
        """Attach an uploaded source file to a video. A later `settle` creates the jobs of the video."""
        source: VideoSource = {
            "uploadId": upload,
            "uri": f"s3://sources/{video_id}/{upload}",
            "etag": etag,
            "fileSize": size,
            "contentType": "video/mp4",
            "arrivedAt": int(self.clock()),
        }
        self.videos.change(
            video_id, Caller.job("arrivals"), int(self.clock()), lambda item: video.attach_source(item, source)
        )

    def arrive(self, video_id: str, upload: str = "0001", etag: str = "e1", size: int = 1000) -> None:
        """Attach an uploaded source file to a video, and process the resulting stream records."""
        self.attach(video_id, upload, etag, size)
        self.settle()

    def message(self, queue: str, kind: str) -> JobMessage:
        """Return the last message that a queue received for a job of this kind."""
        return parse(JobMessage, [body for body in self.queues[queue].sent if body["kind"] == kind][-1])

    def probe(self, video_id: str, renditions: Item | None = None, **fields: Any) -> None:
        """Complete the probe job of a video. The results are MEDIA and FIELDS; `fields` override FIELDS. `renditions`
        default to RENDITIONS."""
        message = self.message("probe", "probe")
        assert message.videoId == video_id
        worker, now = Caller.job("probe"), int(self.clock())
        assert self.jobs.claim(message.job_attempt, worker, now)
        wanted = RENDITIONS if renditions is None else renditions
        assert self.jobs.complete(
            message.job_attempt, {}, worker, now, lambda item: video.apply_probe(item, MEDIA, FIELDS | fields, wanted)
        )
        self.settle()

    def uploaded_film(self, api: Any, **fields: Any) -> str:
        """Create a video with a probed source file, and return its id. The owner is alice."""
        video_id = str(api.create(**fields)["videoId"])
        self.arrive(video_id)
        self.probe(video_id)
        return video_id

    def job(self, video_id: str, kind: str) -> Job:
        """Return a job as it is stored in the table."""
        return {job["kind"]: job for job in self.jobs.list_for_video(video_id)}[kind]

    def states(self, video_id: str) -> dict[str, str]:
        """Return the state of each job of a video."""
        return {job["kind"]: job["state"] for job in self.jobs.list_for_video(video_id)}

    def spend_quota(self, owner: str) -> None:
        """Use up an owner's remaining daily quota."""
        store = QuotaStore(self.table, JOBS_PER_DAY)
        for count in (100, 10, 1):
            with suppress(QuotaExceeded):
                while True:
                    store.reserve(owner, count, int(self.clock()))
