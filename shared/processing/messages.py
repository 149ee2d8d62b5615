"""Messages of the queues: jobs, totals, counters, purges, reverts, feed notifications and webhook deliveries.

Transcoders outside this service read the queue `transcode`, so its messages are a contract (docs/transcode-queue.md).
New fields may be added to a version of a message. Any other change needs a new version.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.aws.sqs import BadMessage
from shared.core.caller import request_id_of
from shared.job_kinds import KINDS_IN_WORDS, kind_of
from shared.processing.job_states import JobAttempt, rendition_folder
from shared.video_fields import UNIQUE

if TYPE_CHECKING:
    from shared.entities import Job

JOB_SCHEMA: Literal["video-metadata/job/1"] = "video-metadata/job/1"
PURGE_SCHEMA: Literal["video-metadata/purge/1"] = "video-metadata/purge/1"
PURGE_PLAYLIST_SCHEMA: Literal["video-metadata/purge-playlist/1"] = "video-metadata/purge-playlist/1"
AGGREGATES_SCHEMA: Literal["video-metadata/aggregates/1"] = "video-metadata/aggregates/1"
TALLY_SCHEMA: Literal["video-metadata/tally/1"] = "video-metadata/tally/1"
REVERT_SCHEMA: Literal["video-metadata/revert/1"] = "video-metadata/revert/1"
CHANGED_SCHEMA: Literal["video-metadata/changed/1"] = "video-metadata/changed/1"
DELIVER_SCHEMA: Literal["video-metadata/deliver/1"] = "video-metadata/deliver/1"

AGGREGATES_QUEUE, PURGE_QUEUE, REVERTS_QUEUE, TALLIES_QUEUE = "aggregates", "purge", "reverts", "tallies"
"""Queues to which the stream router sends messages other than jobs."""


class Outgoing(NamedTuple):
    """Message to send, with the name of its queue."""

    queue: str
    """Name of the queue."""
    body: Mapping[str, Any]
    delay: int = 0
    """Delivery delay in seconds."""


class _Message(BaseModel):
    # A later release may add fields.
    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class Rendition(_Message):
    """Rendition to create: its name, and its width and height in square pixels, upright."""

    name: str
    width: int = Field(description="Pixels, even")
    height: int = Field(description="Pixels, even")


class JobInput(_Message):
    """Input of a job. `inputHash` in the message is the hash of these values as the table stores them."""

    source: str = Field(description="S3 URI of the source video")
    etag: str = Field(description="ETag of the source video. Read with If-Match, because the file can be replaced")
    fileSize: int = Field(description="Size of the source video in bytes")
    time: int | None = Field(default=None, description="Position of the poster frame in milliseconds")
    rendition: Rendition | None = None


class _OfRequest(_Message):
    correlationId: str | None = Field(
        default=None,
        description="Id of the HTTP request that caused the job, for logs only",
    )


class JobMessage(_OfRequest):
    """Message that asks a worker for one attempt at a job."""

    schema_: Literal["video-metadata/job/1"] = Field(alias="schema")
    videoId: str
    kind: str = Field(description=KINDS_IN_WORDS)
    inputHash: str = Field(description="Repeat it in every report")
    attempt: int = Field(description="Repeat it in every report")
    input: JobInput
    output: str | None = Field(default=None, description="S3 URI to write the rendition to")
    report: str | None = Field(default=None, description="Path of the API to PUT reports to")

    @property
    def job_attempt(self) -> JobAttempt:
        """Identity of the attempt that the message is for."""
        return JobAttempt(self.videoId, self.kind, self.inputHash, self.attempt)


class PurgeMessage(_OfRequest):
    """Message that a video's item was deleted. The worker deletes the video's related items and objects."""

    schema_: Literal["video-metadata/purge/1"] = Field(alias="schema")
    videoId: str
    owner: str = ""
    """User id of the video's owner. Empty if the video has no unique values to release."""
    unique: dict[str, str] = {}
    """Values of the video's unique fields, by field. The worker releases their reservations."""


class PurgePlaylistMessage(_OfRequest):
    """Message that a playlist's item was deleted. The worker deletes the playlist's entries."""

    schema_: Literal["video-metadata/purge-playlist/1"] = Field(alias="schema")
    playlistId: str


class RevertMessage(_OfRequest):
    """Message that starts or continues the revert of a change set. The revert's item in the table stores the
    progress."""

    schema_: Literal["video-metadata/revert/1"] = Field(alias="schema")
    revertId: str


class ChangedMessage(_Message):
    """Message that the feed has new entries. It does not contain the entries, because each consumer has its own
    cursor."""

    schema_: Literal["video-metadata/changed/1"] = Field(alias="schema")
    owners: list[str] = Field(description="Owners of the changed items, without duplicates")


class DeliverMessage(_Message):
    """Message that a webhook may have due deliveries. To find the deliveries, the worker reads the feed from the
    webhook's log positions."""

    schema_: Literal["video-metadata/deliver/1"] = Field(alias="schema")
    webhookId: str
    claimed: tuple[str, str] | None = Field(
        default=None, description="Owner and queue of the concurrency quota that the message occupies"
    )


class AggregatesMessage(_OfRequest):
    """Message that a video changed in a way that affects totals.

    The worker computes the amounts that the video adds to totals, from the video's current state.
    """

    schema_: Literal["video-metadata/aggregates/1"] = Field(alias="schema")
    videoId: str
    entries: bool = Field(
        default=False,
        description="Whether the index positions of the video's entries may have changed",
    )


class TallyMessage(_Message):
    """Message with increments of one video's counters.

    Redelivery is harmless. Views and ratings have deduplication keys. The stored value of a counter at the start of an
    hour is the minimum of all received values.
    """

    schema_: Literal["video-metadata/tally/1"] = Field(alias="schema")
    videoId: str
    views: list[tuple[str, int]] = Field(
        default=[], description="Views to count: deduplication key, milliseconds watched"
    )
    ratings: list[tuple[str, dict[str, int]]] = Field(
        default=[], description="Changed ratings: deduplication key, difference to the totals"
    )
    starts: list[tuple[int, str, bool, dict[str, int]]] = Field(
        default=[],
        description="Hours that began: shard of the counter, hour, whether a day began, and the shard's sums at the start",
    )


def job_message(job: "Job", media_bucket: str) -> dict[str, Any]:
    """Return the message of a queued job's current attempt."""
    message = {
        "schema": JOB_SCHEMA,
        "videoId": job["videoId"],
        "kind": job["kind"],
        "inputHash": job["inputHash"],
        "attempt": int(job["attempt"]),
        "input": job["input"],
    }
    if kind_of(job["kind"]).per_rendition:
        name = job["input"]["rendition"]["name"]
        message["output"] = f"{rendition_folder(media_bucket, job['videoId'], job['inputHash'])}{name}.mp4"
        message["report"] = f"/v1/videos/{job['videoId']}/renditions/{name}"
    return message | _correlation(request_id_of(job))


def purge_message(video_id: str, correlation_id: str | None = None, video: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Return the message that a video's item was deleted. `video` is the deleted item. The worker releases the unique
    values of this item."""
    unique = {name: video[name] for name in UNIQUE if name in video}
    reserved = {"owner": video["userId"], "unique": unique} if unique else {}
    return {"schema": PURGE_SCHEMA, "videoId": video_id, **reserved, **_correlation(correlation_id)}


def purge_playlist_message(playlist_id: str, correlation_id: str | None = None) -> dict[str, Any]:
    """Return the message that a playlist's item was deleted."""
    return {"schema": PURGE_PLAYLIST_SCHEMA, "playlistId": playlist_id, **_correlation(correlation_id)}


def revert_message(revert_id: str) -> dict[str, Any]:
    """Return the message that starts or continues a revert. `revert_id` is the id of the request that started the
    revert."""
    return {"schema": REVERT_SCHEMA, "revertId": revert_id, "correlationId": revert_id}


def changed_message(owners: Sequence[str]) -> dict[str, Any]:
    """Return the message that the feed has new entries of these owners."""
    return {"schema": CHANGED_SCHEMA, "owners": list(owners)}


def deliver_message(webhook_id: str, claimed: tuple[str, str] | None = None) -> dict[str, Any]:
    """Return the message that a webhook may have due deliveries.

    If the webhook already has a slot of a concurrency quota, `claimed` is the owner and the queue of this quota.
    """
    message = {"schema": DELIVER_SCHEMA, "webhookId": webhook_id}
    return message if claimed is None else message | {"claimed": list(claimed)}


def aggregates_message(video_id: str, correlation_id: str | None = None, *, entries: bool = False) -> dict[str, Any]:
    """Return the message that a video changed in a way that affects totals.

    With `entries`, the worker also updates the video's index entries.
    """
    message = {"schema": AGGREGATES_SCHEMA, "videoId": video_id, **({"entries": True} if entries else {})}
    return message | _correlation(correlation_id)


def tally_message(video_id: str, counted: Mapping[str, Sequence[object]]) -> dict[str, Any]:
    """Return the message with the increments of a video's counters.

    `counted` maps names of TallyMessage's lists (`views`, `ratings`, `starts`) to their elements.
    """
    return {"schema": TALLY_SCHEMA, "videoId": video_id, **counted}


def _correlation(correlation_id: str | None) -> dict[str, str]:
    return {} if correlation_id is None else {"correlationId": correlation_id}


_Model = TypeVar(
    "_Model",
    JobMessage,
    PurgeMessage,
    PurgePlaylistMessage,
    RevertMessage,
    ChangedMessage,
    DeliverMessage,
    AggregatesMessage,
    TallyMessage,
)


def parse(model: type[_Model], body: dict[str, Any]) -> _Model:
    """Return a message's body as an instance of `model`; raise BadMessage if the body is invalid."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        # The text has only the names of the fields, because it is logged. Pydantic's text would quote their values.
        pointers = sorted({".".join(map(str, fault["loc"])) for fault in error.errors()})
        raise BadMessage(f"These fields of the message are missing or invalid: {', '.join(pointers)}.") from None
