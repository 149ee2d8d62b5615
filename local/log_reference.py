"""Descriptions of log messages and metrics, for the tables of docs/logs-and-metrics.md."""

from collections.abc import Mapping
from typing import NamedTuple


class LogMessage(NamedTuple):
    """Entry of the log reference: a message, the functions that write it, and its meaning."""

    text: str
    """Value of `message` in the log line."""
    functions: str
    """Functions that write the line, in Markdown."""
    meaning: str
    """Cause of the line and its consequence."""


HTTP = "HTTP functions"
CONSUMERS = "consumers of the stream and the queues"
AGAIN = "`WARN` if DynamoDB throttled or another writer conflicted, otherwise `ERROR`"

MESSAGES: tuple[LogMessage, ...] = (
    LogMessage("unavailable", HTTP, "The function returned 503. `detail` and `cause` give the reason."),
    LogMessage("unhandled error", HTTP, "The function returned 500. `exception` contains the cause."),
    LogMessage("batch part failed", HTTP, "One operation of a batch failed with an unexpected exception."),
    LogMessage("object created", "`arrivals`", "An uploaded file arrived. `outcome` is the result."),
    LogMessage(
        "object not processed", "`arrivals`", "The registration of a file failed. SQS delivers the message again."
    ),
    LogMessage("job created", "`stream_router`", "A change of a video requires this job."),
    LogMessage("job cancelled", "`stream_router`", "The video was deleted, or its file replaced."),
    LogMessage(
        "job waits for the quota", "`stream_router`", "The owner already has the maximum number of jobs in the queue."
    ),
    LogMessage("message sent", "`stream_router`", "A message to `queue` was sent."),
    LogMessage("entry stored", "`audit`", "The audit trail has a new entry."),
    LogMessage("entry already stored", "`audit`", "Lambda delivered a record again. Nothing was written."),
    LogMessage("job done", "`probe`, `thumbnails`", "The job succeeded."),
    LogMessage("job obsolete", "`probe`, `thumbnails`", "Another attempt replaced this one, or the job is not needed."),
    LogMessage(
        "result obsolete", "`probe`, `thumbnails`", "The file changed during the job. The result was discarded."
    ),
    LogMessage(
        "source file not usable", "`probe`, `thumbnails`", "The job failed because of the file. It is not retried."
    ),
    LogMessage("job failed", "`probe`, `thumbnails`", "The attempt failed. Another attempt may follow."),
    LogMessage("totals updated", "`aggregates`", "Totals were updated for a change of a video."),
    LogMessage("totals not updated", "`aggregates`", "Another writer conflicted. SQS delivers the message again."),
    LogMessage(
        "remaining messages not sent", "`aggregates`", "The function had no time left. SQS delivers the message again."
    ),
    LogMessage("leftovers purged", "`purge`", "All remaining items and objects were deleted."),
    LogMessage("leftovers purged in part", "`purge`", "Another message continues the work."),
    LogMessage("nothing left to revert", "`reverts`", "The revert was already complete."),
    LogMessage("change set reverted in part", "`reverts`", "Another message continues the work."),
    LogMessage("job overdue", "`sweeper`", "A job did not end in time. `outcome` is the action of the sweeper."),
    LogMessage("not swept", "`sweeper`", "The sweeper failed to process a job, and tries again in a minute."),
    LogMessage("webhook paused", "`deliveries`", "The service paused a webhook. `reason` is the cause."),
    LogMessage(
        "attempts not stored", "`deliveries`", "The function sent changes, but the API does not list these attempts."
    ),
    LogMessage("event bus refused changes", "`deliveries`", "The function sends the changes again."),
    LogMessage("changes expired", "`deliveries`", "The event bus did not receive some changes within 30 days."),
    LogMessage("message not sent", "`deliveries`, `webhooks`", "The sweeper sends the message within a minute."),
    LogMessage("rankings computed", "`rankings`", "The lists of the most viewed videos were computed."),
    LogMessage(
        "too many videos to rank",
        "`rankings`",
        "The lists of the most viewed videos omit the start of their windows.",
    ),
    LogMessage(
        "index copied",
        "`search`",
        "The instance copied `generation` of the search index, with `videos` videos, in `seconds` s.",
    ),
    LogMessage(
        "index built",
        "`indexer`",
        "`outcome` is `published`, `unfinished` (the next run continues) or `busy` (another run builds the index).",
    ),
    LogMessage(
        "lease lost to another builder or a rebuild request",
        "`indexer`",
        "Another run builds the index, or a rebuild was requested. This run stopped.",
    ),
    LogMessage(
        "index not resumable",
        "`indexer`",
        "The function builds the index from scratch. The reason is `Gone` (the change feed no longer contains the next "
        "change), `IncompatibleIndex`, `DamagedFile` or `ObjectMissing`.",
    ),
    LogMessage(
        "captions not readable",
        "`indexer`, `search`",
        "The file of the captions is damaged, so searches do not find their words.",
    ),
    LogMessage(
        "archive compacted",
        "`compactor`",
        "`sources` new objects of the archive, with `entries` entries, were added to the SQL tables.",
    ),
    LogMessage(
        "snapshots converted",
        "`compactor`",
        "The function converted `files` exported files, and finished `snapshots` snapshots.",
    ),
    LogMessage("record failed", CONSUMERS, f"Lambda delivers the record again. The level is {AGAIN}."),
    LogMessage("batch failed", CONSUMERS, f"AWS delivers the batch again. The level is {AGAIN}."),
    LogMessage("message failed", CONSUMERS, f"SQS delivers the message again. The level is {AGAIN}."),
    LogMessage("metrics not emitted", "functions with metrics", "The function did its work, but wrote no metrics."),
)


class MetricDescription(NamedTuple):
    """Origin and meaning of a metric. `shared.core.telemetry.METRICS` has its unit and dimension."""

    functions: str
    """Functions that emit the metric, in Markdown."""
    value: str
    """Meaning of the value, in Markdown."""


METRIC_DESCRIPTIONS: Mapping[str, MetricDescription] = {
    name: MetricDescription(functions, value)
    for name, functions, value in (
        ("VideosCreated", "`audit`", "new videos, including imported videos"),
        ("VideosDeleted", "`audit`", "deleted videos that users can restore"),
        ("VideosRemoved", "`audit`", "videos removed from the table"),
        ("JobsDone", "`audit`", "finished jobs by [kind](jobs.md)"),
        ("JobsFailed", "`audit`", "permanently failed jobs"),
        ("ViewsCounted", "`views`", "counted views"),
        ("OpenJobs", "`sweeper`", "open jobs, each minute"),
        ("OldestJobSeconds", "`sweeper`", "age of the oldest open job including all its attempts, each minute"),
        ("JobsRequeued", "`sweeper`", "jobs queued again because their lease expired"),
        ("JobsResent", "`sweeper`", "messages sent again"),
        ("JobsGivenUp", "`sweeper`", "jobs that the sweeper set to `failed`, because no worker finished them"),
        ("JobsSkipped", "`sweeper`", "jobs that the sweeper could not process; it tries again in a minute"),
        ("DeliveriesDone", "`deliveries`", "changes accepted by a receiver or the event bus"),
        ("DeliveriesFailed", "`deliveries`", "failed attempts"),
        ("WebhooksPaused", "`deliveries`", "webhooks [paused by the service](webhooks.md#change-pause-resume)"),
        (
            "DeliveryLag",
            "`deliveries`",
            "time from a change to its delivery at the first attempt: the maximum of a page of changes",
        ),
        (
            "DeliveryWait",
            "`deliveries`, `sweeper`",
            "time that a webhook with new changes waits for a worker; while the event bus fails, time since its first failure",
        ),
        ("NewerItems", "all", "items that were refused because a newer release wrote them"),
        (
            "IndexLag",
            "`indexer`",
            "time by which the search index lags behind the feed, each minute; during the first build, time since its start",
        ),
        ("IndexBytes", "`indexer`", "size of the published search index, each minute"),
        ("IndexGrowth", "`indexer`", "mean daily growth of the search index in the last week; 0 on the first day"),
        (
            "ArchiveLag",
            "`compactor`",
            "age of the oldest object of the archive that the SQL tables lack, each hour; 0 if none",
        ),
        ("SnapshotAge", "`compactor`", "age of the newest snapshot of videos, each hour; only with `snapshotDays`"),
    )
}
