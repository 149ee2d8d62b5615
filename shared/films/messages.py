"""What the queues carry: attempts at jobs, videos whose totals are to move, what is counted of videos, what is removed,
change sets that are taken back, and who is to be told of changes.

The queue `transcode` is read by transcoders that are not part of this service, so its messages are a contract
(docs/transcode-queue.md): a field may be added within a version, everything else makes a new one.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.aws.sqs import BadMessage
from shared.core.caller import request_of
from shared.films.job import Ticket, rendition_folder
from shared.kinds import KINDS_IN_WORDS, kind_of

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
"""Queues of the stream router whose messages do not stand for jobs."""


class Outgoing(NamedTuple):
    """A message to send."""

    queue: str
    """The name of its queue."""
    body: Mapping[str, Any]
    delay: int = 0
    """Seconds."""


class _Message(BaseModel):
    # A later release may add fields.
    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class Rendition(_Message):
    """The rendition to make of the film; its pixels are square, and it stands upright."""

    name: str
    width: int = Field(description="Pixels, even")
    height: int = Field(description="Pixels, even")


class JobInput(_Message):
    """What a job works on. It is hashed as it stands in the table: `inputHash`."""

    source: str = Field(description="S3 URI of the film")
    etag: str = Field(description="Its ETag: read with If-Match, because a film can be replaced")
    fileSize: int = Field(description="Its size in bytes")
    time: int | None = Field(default=None, description="Milliseconds into the film, for a poster")
    rendition: Rendition | None = None


class _OfRequest(_Message):
    correlationId: str | None = Field(
        default=None,
        description="The id of the HTTP request that it all began with; of use for logs, and for nothing else",
    )


class JobMessage(_OfRequest):
    """One attempt at one job."""

    schema_: Literal["video-metadata/job/1"] = Field(alias="schema")
    videoId: str
    kind: str = Field(description=KINDS_IN_WORDS)
    inputHash: str = Field(description="To be given back with every report")
    attempt: int = Field(description="To be given back with every report")
    input: JobInput
    output: str | None = Field(default=None, description="S3 URI that the rendition is to be written to")
    report: str | None = Field(default=None, description="Path of the API that takes the reports, by PUT")

    @property
    def ticket(self) -> Ticket:
        """The attempt that the message is for."""
        return Ticket(self.videoId, self.kind, self.inputHash, self.attempt)


class PurgeMessage(_OfRequest):
    """A video that was removed, and whose belongings are removed next."""

    schema_: Literal["video-metadata/purge/1"] = Field(alias="schema")
    videoId: str


class PurgePlaylistMessage(_OfRequest):
    """A playlist that was removed, and whose entries are removed next."""

    schema_: Literal["video-metadata/purge-playlist/1"] = Field(alias="schema")
    playlistId: str


class RevertMessage(_OfRequest):
    """A run that takes a change set back. The run itself says how far it is."""

    schema_: Literal["video-metadata/revert/1"] = Field(alias="schema")
    revertId: str


class ChangedMessage(_Message):
    """Changes that were appended to the feed. It says not which: those who follow know how far they are."""

    schema_: Literal["video-metadata/changed/1"] = Field(alias="schema")
    owners: list[str] = Field(description="Whose things were changed, each once")


class DeliverMessage(_Message):
    """A webhook that may have something to deliver. Its place says what."""

    schema_: Literal["video-metadata/deliver/1"] = Field(alias="schema")
    webhookId: str
    claimed: tuple[str, str] | None = Field(
        default=None, description="Owner and queue of the concurrency quota in which a place is claimed for it"
    )


class AggregatesMessage(_OfRequest):
    """A video that counts for something else than before. It says not what: the present state is what counts."""

    schema_: Literal["video-metadata/aggregates/1"] = Field(alias="schema")
    videoId: str
    entries: bool = Field(
        default=False,
        description="Whether its entries may stand elsewhere now: by its release year, and by whether it is listed",
    )


class TallyMessage(_Message):
    """What the stream counts of one video. All of it may come again: a change is known by its mark, a start by its hour."""

    schema_: Literal["video-metadata/tally/1"] = Field(alias="schema")
    videoId: str
    views: list[tuple[str, int]] = Field(
        default=[], description="Views that a marker stands for: mark, milliseconds watched"
    )
    ratings: list[tuple[str, dict[str, int]]] = Field(
        default=[], description="Ratings given, changed or taken back: mark, and the difference to the totals"
    )
    starts: list[tuple[int, str, bool, dict[str, int]]] = Field(
        default=[],
        description="Hours that began: shard of the counter, the hour, whether its day began too, and the shard's sums then",
    )


def job_message(job: "Job", media_bucket: str) -> dict[str, Any]:
    """The message of a queued job's present attempt."""
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
    return message | _correlation(request_of(job))


def purge_message(video_id: str, correlation_id: str | None = None) -> dict[str, Any]:
    """The message of a removed video."""
    return {"schema": PURGE_SCHEMA, "videoId": video_id, **_correlation(correlation_id)}


def purge_playlist_message(playlist_id: str, correlation_id: str | None = None) -> dict[str, Any]:
    """The message of a removed playlist."""
    return {"schema": PURGE_PLAYLIST_SCHEMA, "playlistId": playlist_id, **_correlation(correlation_id)}


def revert_message(revert_id: str) -> dict[str, Any]:
    """The message of a run, which has the id of the request that asked for it."""
    return {"schema": REVERT_SCHEMA, "revertId": revert_id, "correlationId": revert_id}


def changed_message(owners: Sequence[str]) -> dict[str, Any]:
    """The message of changes that were appended to the feed: whose things were changed."""
    return {"schema": CHANGED_SCHEMA, "owners": list(owners)}


def deliver_message(webhook_id: str, claimed: tuple[str, str] | None = None) -> dict[str, Any]:
    """The message of a webhook that may have something to deliver."""
    message = {"schema": DELIVER_SCHEMA, "webhookId": webhook_id}
    return message if claimed is None else message | {"claimed": list(claimed)}


def aggregates_message(video_id: str, correlation_id: str | None = None, *, entries: bool = False) -> dict[str, Any]:
    """The message of a video whose totals are to move, and with `entries` its entries as well."""
    message = {"schema": AGGREGATES_SCHEMA, "videoId": video_id, **({"entries": True} if entries else {})}
    return message | _correlation(correlation_id)


def tally_message(video_id: str, counted: Mapping[str, Sequence[object]]) -> dict[str, Any]:
    """The message of what is counted of a video, by the names of its lists."""
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
    """A message's body as its model; raises BadMessage."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        # Their places and not the error itself, which quotes the message: this is logged.
        places = sorted({".".join(map(str, fault["loc"])) for fault in error.errors()})
        raise BadMessage(f"These fields of the message are missing or not valid: {', '.join(places)}") from None
