"""Stream consumer: calls the handlers of each changed item's entity, and sends the messages that the handlers return."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from shared.aws.dynamodb import Table
from shared.aws.sqs import Sender
from shared.aws.stream import Record
from shared.background import aggregates, purge
from shared.background.tallies import Collector
from shared.captions.embedded_store import EmbeddedCaptionStore
from shared.core.telemetry import service_logger, use_correlation_id
from shared.history import revert_runs
from shared.job_kinds import JOB_QUEUES
from shared.processing.job_events import JobEvents
from shared.processing.messages import AGGREGATES_QUEUE, PURGE_QUEUE, REVERTS_QUEUE, TALLIES_QUEUE, Outgoing
from shared.schema import JOB, PLAYLIST, RATING, REVERT, VIDEO, VIEW_COUNTER, VIEWER, Entity

QUEUES = (*JOB_QUEUES, AGGREGATES_QUEUE, PURGE_QUEUE, REVERTS_QUEUE, TALLIES_QUEUE)
"""Names of the queues that the router sends to."""

Event = Literal["INSERT", "MODIFY", "REMOVE"]
Handler = Callable[[Record, int], Iterable[Outgoing]]
"""Function that receives a record and the time (epoch seconds), and returns the messages to send. If the function is a
generator, the router sends each message before it requests the next message.
"""

_LOGGED = {
    "videoId": "video_id",
    "playlistId": "playlist_id",
    "revertId": "revert_id",
    "kind": "kind",
    "attempt": "attempt",
}
"""Fields of a message that its log line also has. Maps the name in the message to the name in the log line."""


class StreamRouter:
    """Router of stream records to handlers. A record may be routed repeatedly, and records may be routed in any order.

    `shares` has the maximum number of concurrent jobs of one owner, by queue. `queues` contains a Sender for each name
    in QUEUES.
    """

    def __init__(
        self, table: Table, shares: Mapping[str, int], queues: Mapping[str, Sender], media_bucket: str
    ) -> None:
        self._queues = queues
        self._totals: list[Mapping[str, Any]] = []
        """Messages to the queue `aggregates` that `flush` has not sent yet."""
        self._tallied = tallied = Collector()
        """Collector of the views and ratings that `flush` has not sent yet."""
        self._logger = service_logger()
        captions, jobs = EmbeddedCaptionStore(table), JobEvents(table, shares, media_bucket)
        self._handlers = _by_partition(
            {
                # The handler for totals is last. If an earlier handler fails, the record is delivered again, and its
                # message for totals is not collected twice.
                (VIDEO, "INSERT"): (jobs.video_changed, aggregates.video_changed),
                (VIDEO, "MODIFY"): (captions.video_changed, jobs.video_changed, aggregates.video_changed),
                (VIDEO, "REMOVE"): (purge.video_removed, aggregates.video_removed),
                (JOB, "INSERT"): (jobs.job_changed,),
                (JOB, "MODIFY"): (jobs.job_changed,),
                (JOB, "REMOVE"): (jobs.job_removed,),
                (PLAYLIST, "REMOVE"): (purge.playlist_removed,),
                (REVERT, "INSERT"): (revert_runs.run_begun,),
                # Removals need no handler, because these items were counted when they were written.
                (VIEW_COUNTER, "INSERT"): (tallied.counter_changed,),
                (VIEW_COUNTER, "MODIFY"): (tallied.counter_changed,),
                (VIEWER, "INSERT"): (tallied.viewed,),
                (VIEWER, "MODIFY"): (tallied.viewed,),
                (RATING, "INSERT"): (tallied.rated,),
                (RATING, "MODIFY"): (tallied.rated,),
            }
        )

    def route(self, record: Record, now: int) -> None:
        """Call the handlers of one record, and send their messages. `now` is in epoch seconds.

        Messages to the queues `aggregates` and `tallies` are collected until `flush`. Raises Unavailable and
        WriteContention, after which the record must be delivered again.
        """
        partition, hash_, _ = record.pk.partition("#")
        for entity, event, handlers in self._handlers.get(partition + hash_, ()):
            if event == record.name and entity.has_sort_key(record.sk):
                for handle in handlers:
                    for message in handle(record, now):
                        if message.queue == AGGREGATES_QUEUE:
                            self._totals.append(message.body)
                        else:
                            self._queues[message.queue].send(message.body, delay_seconds=message.delay)
                            self._log(message.queue, message.body)

    def flush(self) -> None:
        """Send the collected messages in batches.

        Raises Unavailable, after which all records since the last `flush` must be delivered again.

        Batches save 90 % of the requests. An import causes thousands of these messages, and no caller waits for them.
        """
        messages, self._totals = self._totals, []
        tallies = self._tallied.drain()
        self._queues[TALLIES_QUEUE].send_all(tallies)
        self._queues[AGGREGATES_QUEUE].send_all(messages)
        for message in messages:
            with use_correlation_id(message.get("correlationId")):
                self._log(AGGREGATES_QUEUE, message)

    def _log(self, queue: str, message: Mapping[str, Any]) -> None:
        about = {name: message[field] for field, name in _LOGGED.items() if field in message}
        self._logger.info("message sent", extra={"queue": queue, **about})


def _by_partition(
    handlers: Mapping[tuple[Entity, Event], Sequence[Handler]],
) -> Mapping[str, Sequence[tuple[Entity, Event, Sequence[Handler]]]]:
    """Return the handlers by the first part of the partition key, such as `VIDEO#`, for fast lookups."""
    index: dict[str, list[tuple[Entity, Event, Sequence[Handler]]]] = {}
    for (entity, event), row in handlers.items():
        index.setdefault(entity.partition_prefix, []).append((entity, event, row))
    return index
