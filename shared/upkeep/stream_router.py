"""What the table's stream sets in motion: jobs that a video asks for, messages of jobs that wait, totals, counts, purges, and
change sets that are taken back.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from shared.aws.stream import Record
from shared.captions.film_store import FilmCaptions
from shared.core.attributes import Item
from shared.core.caller import request_of
from shared.core.telemetry import correlated, service_logger
from shared.films.job import PENDING, delay_before, tries
from shared.films.jobs import ROUTER, JobStore
from shared.films.messages import (
    aggregates_message,
    job_message,
    purge_message,
    purge_playlist_message,
    revert_message,
)
from shared.films.shares import ShareStore
from shared.films.wants import input_hash, wanted
from shared.kinds import JOB_QUEUES, kind_of
from shared.schema import JOB, PLAYLIST, REVERT, VIDEO
from shared.upkeep.aggregates import counts_otherwise
from shared.upkeep.tallies import Collector, is_tallied
from shared.videos.access import is_published
from shared.videos.entries import place_of
from shared.videos.video import is_listed

AGGREGATES, PURGE, REVERTS, TALLIES = "aggregates", "purge", "reverts", "tallies"
QUEUES = (*JOB_QUEUES, AGGREGATES, PURGE, REVERTS, TALLIES)
"""The queues that the router sends to."""


class Sender(Protocol):
    """A queue, as far as the router needs it."""

    def send(self, body: Mapping[str, object], delay_seconds: int = 0) -> None:
        """Send one message; raises Unavailable."""

    def send_all(self, bodies: Sequence[Mapping[str, object]]) -> None:
        """Send several messages; raises Unavailable, after which some may have been sent."""


class StreamRouter:
    """Carries out what one stream record asks for. Doing it again, or in another order, ends in the same state."""

    def __init__(self, jobs: JobStore, shares: ShareStore, queues: Mapping[str, Sender], media_bucket: str) -> None:
        self.jobs = jobs
        self.shares = shares
        self.queues = queues
        self.media_bucket = media_bucket
        self._counted: list[dict[str, Any]] = []
        """Messages of videos whose totals are to move, which no `flush` has sent yet."""
        self._tallied = Collector()
        """What is to be counted of videos, likewise."""
        self._logger = service_logger()

    def flush(self) -> None:
        """Send what the routed records have collected. After Unavailable they must be delivered again.

        Nobody waits for totals, and an import has thousands: together they take a tenth of the requests, and leave the
        stream to those who wait for a job.
        """
        messages, self._counted = self._counted, []
        tallies = self._tallied.take()
        self.queues[TALLIES].send_all(tallies)
        self.queues[AGGREGATES].send_all(messages)
        for message in messages:
            with correlated(message.get("correlationId")):
                self._logger.info("message sent", extra={"queue": AGGREGATES, "video_id": message["videoId"]})

    def route(self, record: Record, now: int) -> None:
        """Handle one record, up to a `flush`. After Unavailable or WriteContention it must be delivered again."""
        if is_tallied(record):
            self._tallied.collect(record)
        elif record.pk.startswith(PLAYLIST.partition_prefix):
            if record.sk == PLAYLIST.sk and record.name == "REMOVE":
                playlist_id = record.old["playlistId"]
                self._send(PURGE, purge_playlist_message(playlist_id, record.correlation_id), playlist_id=playlist_id)
        elif record.pk.startswith(REVERT.partition_prefix):
            if record.sk == REVERT.sk and record.name == "INSERT" and not record.new["attended"]:
                revert_id = record.new["revertId"]
                self._send(REVERTS, revert_message(revert_id), revert_id=revert_id)
        elif not record.pk.startswith(VIDEO.partition_prefix):
            return
        elif record.sk == VIDEO.sk:
            if record.name == "REMOVE":
                video_id = record.old["videoId"]
                self._send(PURGE, purge_message(video_id, record.correlation_id), video_id=video_id)
                self._counted.append(aggregates_message(video_id, record.correlation_id))
            else:
                self._video_changed(None if record.name == "INSERT" else record.old, record.new, now)
        elif record.sk.startswith(JOB.sk.partition("{")[0]):
            if record.name == "REMOVE":
                self._job_ended(record.old, record.old, now)
            else:
                self._job_changed(None if record.name == "INSERT" else record.old, record.new, now)

    def _video_changed(self, old: Item | None, new: Item, now: int) -> None:
        if "source" in new:
            self._wishes_changed(old, new, now)
        moved = _has_moved(old, new, now)
        if moved or counts_otherwise(old, new):  # last: a record that fails leaves nothing behind, as it comes again
            self._counted.append(aggregates_message(new["videoId"], request_of(new), entries=moved))

    def _wishes_changed(self, old: Item | None, new: Item, now: int) -> None:
        if old and "source" in old and old["source"]["uploadId"] != new["source"]["uploadId"]:
            FilmCaptions(self.jobs.table).leave(new, ROUTER.acting_for(request_of(new)), now)
        before, after = wanted(old), wanted(new)
        for kind, job_input in after.items():
            if kind not in before or input_hash(before[kind]) != input_hash(job_input):
                self.jobs.want(new, kind, job_input, now)
                self._logger.info("job wanted", extra={"video_id": new["videoId"], "kind": kind})
        replaced = new["status"] != "deleted"
        for kind in before.keys() - after.keys():
            self.jobs.withdraw(new, kind, now, even_done=replaced)
            self._logger.info("job no longer wanted", extra={"video_id": new["videoId"], "kind": kind})

    def _job_changed(self, old: Item | None, new: Item, now: int) -> None:
        if new["state"] not in PENDING:
            self._job_ended(old, new, now)
        elif new["state"] == "queued" and (old is None or _attempt(old) != _attempt(new)):
            if self.shares.claim(new, now):
                self._send_job(new)
            else:
                log = {"video_id": new["videoId"], "kind": new["kind"], "attempt": int(new["attempt"])}
                self._logger.info("job waits for its owner's share", extra=log)

    def _job_ended(self, old: Item | None, job: Item, now: int) -> None:
        for waiting in self.shares.free(old, job, now):
            self._send_job(waiting)

    def _send_job(self, new: Item) -> None:
        delay = delay_before(tries(new)) if new["sentAt"] == new["queuedAt"] else 0
        self._send(
            kind_of(new["kind"]).queue,
            job_message(new, self.media_bucket),
            delay,
            video_id=new["videoId"],
            kind=new["kind"],
            attempt=int(new["attempt"]),
        )

    def _send(self, queue: str, message: Mapping[str, object], delay: int = 0, **log: object) -> None:
        self.queues[queue].send(message, delay_seconds=delay)
        self._logger.info("message sent", extra={"queue": queue, **log})


def _has_moved(old: Item | None, new: Item, now: int) -> bool:
    """Whether a video's entries or its schedule may have to move."""
    if old is None:
        # It has no entries yet but those that were written with it.
        return bool({"publishAt", "expiresAt"} & new.keys())
    # A change that began before the video's time came may have been written after the move that it brought.
    is_late = is_listed(new) != is_published(new, now)
    return is_late or place_of(old) != place_of(new)


def _attempt(job: Item) -> tuple[object, ...]:
    """What a new message depends on: the attempt, and `sentAt`, which moves when the message must be sent once more."""
    return job["state"], job["inputHash"], job["attempt"], job["sentAt"]
