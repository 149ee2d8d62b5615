"""Consumer of the table's stream that writes the audit trail, the feed and the archive.

The function's role permits it to add entries, but neither to change nor to delete them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from shared.aws.runtime import BackgroundResources, EntryPoint, Resources, process
from shared.aws.stream import Record, StoringProcessor
from shared.core.attributes import Item
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import emit, service_logger, use_correlation_id
from shared.feed.change import Change, change_of
from shared.feed.log import Feed
from shared.history.entries import entry
from shared.history.trail import Archive, AuditStore
from shared.job_kinds import base_of
from shared.processing.messages import changed_message

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


LOGGED = {"video_id": "videoId", "playlist_id": "playlistId", "entity": "entity", "kind": "kind", "action": "action"}
"""Fields of audit entries that are logged. Maps the name in the log line to the name of the field. Users and values are
not logged."""

VIDEO_METRICS = {
    "created": "VideosCreated",
    "deleted": "VideosDeleted",
    "expired": "VideosRemoved",
    "removed": "VideosRemoved",
}
"""Names of the metrics that count changes of videos, by action."""
JOB_METRICS = {"done": "JobsDone", "failed": "JobsFailed"}
"""Names of the metrics that count changes of jobs, by action."""


class AuditSettings(Settings):
    audit_table_name: str
    audit_days: int
    """Days after which an audit entry expires."""
    archive_bucket: str
    deliveries_queue_url: str


class AuditedRecord(NamedTuple):
    """Change that a stream record describes, in two forms: as an entry of the audit trail, and as a change in the
    feed."""

    entry: Item
    change: Change


def make(settings: AuditSettings, resources: Resources) -> LambdaHandler:
    """Return the Lambda handler. The entry point calls this function once, before the first event."""
    table, queue = resources.table(settings.audit_table_name), resources.queue(settings.deliveries_queue_url)
    store, feed = AuditStore(table), Feed(table, resources.clock)
    archive = Archive(resources.objects, settings.archive_bucket)
    logger = service_logger()

    def read(record: Record) -> AuditedRecord | None:
        audit_entry = entry(record, settings.audit_days)
        return AuditedRecord(audit_entry, change_of(audit_entry)) if audit_entry else None

    def handle(event: dict[str, Any], _: "LambdaContext") -> dict[str, Any]:
        repeated: set[str] = set()

        def store_entries(audited: Sequence[tuple[Record, AuditedRecord]]) -> list[Exception | None]:
            feed.prepare(record_audit.change for _, record_audit in audited)
            outcomes = store.add_all([record_audit.entry for _, record_audit in audited])
            new: list[Item] = []
            for (record, record_audit), is_new in zip(audited, outcomes, strict=False):
                if isinstance(is_new, Exception):
                    continue
                if is_new:
                    new.append(record_audit.entry)
                else:
                    repeated.add(record_audit.change["id"])
                with use_correlation_id(record.correlation_id):
                    logger.info(
                        "entry stored" if is_new else "entry already stored",
                        extra={
                            name: record_audit.entry[field]
                            for name, field in LOGGED.items()
                            if field in record_audit.entry
                        },
                    )
            # Emitted now, because a later step may fail. After a redelivery, these entries would not be new.
            _measure(new)
            return [outcome if isinstance(outcome, Exception) else None for outcome in outcomes]

        def finish(done: Sequence[AuditedRecord]) -> None:
            if done:
                feed.append([audited.change for audited in done], repeated)
                # The message is sent even if all entries were already stored, because an earlier invocation may have
                # stopped before it sent the message.
                owners = {audited.change["userId"] for audited in done if "userId" in audited.change}
                queue.send(changed_message(sorted(owners)))
            # The archive is last: if it fails, Lambda redelivers all records.
            archive.write([audited.entry for audited in done])

        return process(event, read, StoringProcessor(store_entries, finish))

    return service_logger().inject_lambda_context(handle)


def _measure(entries: Sequence[Item]) -> None:
    """Emit the metrics of new audit entries. Entries that were already stored are excluded, so each change is counted once."""
    videos = Counter(VIDEO_METRICS.get(change["action"]) for change in entries if change["entity"] == "video")
    emit({metric: count for metric, count in videos.items() if metric})
    # Without the name of the rendition, because CloudWatch charges for each value of a dimension as a separate metric.
    jobs = Counter(
        (base_of(change["kind"]), JOB_METRICS.get(change["action"])) for change in entries if change["entity"] == "job"
    )
    for kind in {kind for kind, _ in jobs}:
        emit({metric: count for (of, metric), count in jobs.items() if metric and of == kind}, kind=kind)


lambda_handler = EntryPoint(AuditSettings, make, resources=BackgroundResources)
