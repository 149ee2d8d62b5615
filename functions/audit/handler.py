"""The audit trail's writer, a reader of the table's stream. Its role may add entries and objects, and nothing else."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shared.audit import Archive, AuditStore, entry
from shared.aws.dynamodb import Table, make_client
from shared.aws.s3 import Objects
from shared.aws.s3 import make_client as make_s3_client
from shared.aws.stream import Record, process
from shared.core.attributes import Item
from shared.core.settings import LambdaHandler, archive_bucket, audit_days, audit_table_name, entry_point
from shared.core.telemetry import emit, logged, service_logger
from shared.kinds import base_of

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

LOGGED = {"video_id": "videoId", "entity": "entity", "kind": "kind", "action": "action"}
"""What a log line says of an entry, by its names there: not who, nor from what to what."""

VIDEO_METRICS = {
    "created": "VideosCreated",
    "deleted": "VideosDeleted",
    "expired": "VideosRemoved",
    "removed": "VideosRemoved",
}
JOB_METRICS = {"done": "JobsDone", "failed": "JobsFailed"}
"""What is counted of the changes, by their action."""


def make(store: AuditStore, archive: Archive, days: int) -> LambdaHandler:
    """The handler over a store and an archive; entries are kept for `days` days."""

    logger = service_logger()

    def handle(event: dict[str, Any], _: "LambdaContext") -> dict[str, Any]:
        done: list[Item] = []
        new: list[Item] = []

        def keep(record: Record) -> None:
            kept = entry(record, days)
            if kept:
                is_new = store.add(kept)
                done.append(kept)
                logger.info(
                    "entry kept" if is_new else "entry is there",
                    extra={name: kept.get(field) for name, field in LOGGED.items()},
                )
                if is_new:
                    new.append(kept)

        answer = process(event, keep)
        # Before the archive: what is new is so once, and the archive may fail.
        _measure(new)
        # Only what is done, and last: when this fails, Lambda delivers all of it again.
        archive.write(done)
        return answer

    return logged(handle)


def _measure(entries: Sequence[Item]) -> None:
    """Count what has happened; each change once, however often it is delivered."""
    videos = Counter(VIDEO_METRICS.get(change["action"]) for change in entries if change["entity"] == "video")
    emit({metric: count for metric, count in videos.items() if metric})
    # Without the name of a rendition: each value of a dimension is a metric that is paid for.
    jobs = Counter(
        (base_of(change["kind"]), JOB_METRICS.get(change["action"])) for change in entries if change["entity"] == "job"
    )
    for kind in {kind for kind, _ in jobs}:
        emit({metric: count for (of, metric), count in jobs.items() if metric and of == kind}, kind=kind)


def _deployed() -> LambdaHandler:
    store = AuditStore(Table(audit_table_name(), make_client()))
    return make(store, Archive(Objects(make_s3_client()), archive_bucket()), audit_days())


lambda_handler = entry_point(_deployed)
