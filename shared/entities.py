"""Types of items that several modules use, so that mypy reports misspelt attributes.

Import these types only under TYPE_CHECKING, because creating the classes would lengthen a cold start. A store casts
each item to its type when it reads the item. Generic code, such as the DynamoDB codec, accepts any Mapping instead.
tests/unit/test_data_model.py compares the attributes with docs/data-model.md and with stored items.
"""

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


class IndexAttributes(TypedDict, total=False):
    """Key attributes of RelationIndex. DynamoDB adds an item to the index only if the item has these attributes."""

    rel: str
    relShard: int
    relSort: int
    relId: str


class Authorship(TypedDict, total=False):
    """Audit fields: time (epoch seconds), author, request id and write id of the last write of an item."""

    updatedAt: int
    updatedBy: str
    updatedFor: str
    writeId: str


class LeaseAttributes(TypedDict, total=False):
    """Lease of a worker: the random id of the lease, and the time in epoch seconds at which the lease expires."""

    lease: str
    leaseUntil: int


class TurnAttributes(TypedDict):
    """Attributes that identify the last write of an item: a counter that each write increments (`turn`), and the random
    id of the write (`writeId`)."""

    turn: int
    writeId: str


class JobAuthorship(Authorship, total=False):
    """Audit fields of a job. They also store the kind of the author."""

    updatedAs: Literal["person", "job"]


class Stored(IndexAttributes, Authorship):
    """Attributes that items of all entities may have."""

    pk: str
    sk: str
    schemaVersion: NotRequired[int]
    purgeAt: NotRequired[int]


class VideoSource(TypedDict):
    """Source file of a video: its upload, the properties that the job `probe` has found, and the wanted and finished
    renditions."""

    uploadId: str
    uri: str
    etag: str
    contentType: str
    fileSize: int
    arrivedAt: int
    media: NotRequired[dict[str, Any]]
    renditions: NotRequired[dict[str, dict[str, Any]]]
    made: NotRequired[dict[str, str]]
    sizes: NotRequired[dict[str, int]]


class VideoFailure(TypedDict):
    """Reason why a video is `failed`: the failed job (or `upload`), a sentence for the owner, and the time in epoch
    seconds."""

    job: str
    reason: str
    at: int


class Video(Stored):
    """Video. A video with `deletedAt` is deleted, and `statusBeforeDelete` is the status that a restore sets."""

    videoId: str
    userId: str
    createdAt: int
    externalId: NotRequired[str]
    slug: NotRequired[str]
    title: str
    description: NotRequired[str]
    duration: NotRequired[int]
    fileSize: NotRequired[int]
    format: NotRequired[str]
    resolution: NotRequired[str]
    videoCodec: NotRequired[str]
    audioCodec: NotRequired[str]
    frameRate: NotRequired[float]
    origins: NotRequired[dict[str, str]]
    resolutions: NotRequired[dict[str, str]]
    tags: NotRequired[set[str]]
    category: NotRequired[str]
    folder: NotRequired[str]
    releaseYear: NotRequired[int]
    language: NotRequired[str]
    seriesId: NotRequired[str]
    season: NotRequired[int]
    episode: NotRequired[int]
    status: str
    visibility: str
    publishAt: NotRequired[int]
    expiresAt: NotRequired[int]
    metadata: NotRequired[dict[str, Any]]
    thumbnails: NotRequired[dict[str, Any]]
    source: NotRequired[VideoSource]
    failure: NotRequired[VideoFailure]
    version: int
    poster: NotRequired[str]
    pictures: NotRequired[dict[str, Any]]
    posterTime: NotRequired[int]
    categoryShard: NotRequired[int]
    orderBy: str
    orderValue: str
    updatedAs: NotRequired[Literal["person", "job"]]
    statusBeforeDelete: NotRequired[str]
    deletedAt: NotRequired[int]


AnyVideo: TypeAlias = Video | dict[str, Any]
"""Type of a video that a function only reads. mypy reports misspelt attributes, but accepts a stored item without a
cast."""


class Upload(Stored):
    """Upload of a source file: its target URI, the type and size that the client declared, and its state."""

    videoId: str
    uploadId: str
    uri: str
    contentType: str
    fileSize: int
    multipartId: NotRequired[str]
    partSize: NotRequired[int]
    state: str
    requestedBy: str
    requestedAt: int


class JobError(TypedDict):
    """Failure of one attempt at a job: the reason, and the time in epoch seconds. `final` is true if no retry can
    succeed."""

    reason: str
    at: int
    attempt: int
    final: NotRequired[bool]


class Job(Stored, LeaseAttributes):
    """Job of a video, with the state of its current attempt."""

    videoId: str
    kind: str
    owner: str
    input: dict[str, Any]
    inputHash: str
    since: str
    spent: NotRequired[int]
    state: str
    attempt: int
    progress: int
    createdAt: int
    queuedAt: int
    sentAt: int
    sends: int
    startedAt: NotRequired[int]
    worker: NotRequired[str]
    output: NotRequired[dict[str, Any]]
    finishedAt: NotRequired[int]
    error: NotRequired[JobError]
    updatedAs: NotRequired[Literal["person", "job"]]


class Rating(Stored):
    """Rating of a video by one user. `value` is absent if the user deleted the rating."""

    userId: str
    videoId: str
    value: NotRequired[int]
    like: NotRequired[bool]
    ratedAt: NotRequired[int]


class ImportedRatings(TypedDict):
    """Average and number (`votes`) of a video's ratings that were imported from another service."""

    average: float
    votes: int


class RatingTotals(Stored, total=False):
    """Totals of a video's ratings. Several kinds of writes can create the item, so each attribute may be absent."""

    videoId: str
    votes: int
    sum: int
    likes: int
    dislikes: int
    imported: ImportedRatings
    owner: str
    version: int
    tally: int
    seen: bytes
    seenUpTo: int


class EntryPosition(TypedDict):
    """Position of a playlist entry: its rank, and the time (epoch seconds) when it was added."""

    rank: str
    addedAt: int


class EntryContent(EntryPosition):
    """Attributes that both items of a playlist entry have: the list item and the membership item."""

    playlistId: str
    videoId: str


class PlaylistEntry(Stored, EntryContent):
    """One of the two items of a playlist entry: the list item or the membership item."""


PlaylistMove = TypedDict(
    "PlaylistMove", {"videoId": str, "from": NotRequired[EntryPosition], "to": NotRequired[EntryPosition]}
)
"""Change of one playlist entry. `from` is absent if the change added the entry, and `to` is absent if it removed the
entry."""


class Playlist(Stored):
    """Playlist of a user. `deletedAt` is present if the playlist is deleted."""

    playlistId: str
    userId: str
    createdAt: int
    title: str
    description: NotRequired[str]
    visibility: str
    entryCount: int
    lastRank: NotRequired[str]
    moves: NotRequired[list[PlaylistMove]]
    deletedAt: NotRequired[int]
    version: int


class DeliveryRestart(IndexAttributes, total=False):
    """Attributes of a webhook's delivery state. A change of the webhook sets these attributes, so that deliveries
    restart."""

    nextAttemptAt: int
    places: dict[str, list[int]]


class Webhook(Stored):
    """Webhook: a URL that receives the changes of the user in `follows`. Without `follows`, it receives the changes of
    all users."""

    webhookId: str
    userId: str
    createdAt: int
    url: str
    types: list[str]
    description: NotRequired[str]
    follows: NotRequired[str]
    paused: bool
    pausedBecause: NotRequired[str]
    generation: int
    rotatedAt: NotRequired[int]
    version: int


class WebhookState(Stored, LeaseAttributes):
    """Delivery state of a webhook. All changes up to the log positions in `places` are delivered. `delivered` has the
    ids of later changes that are also delivered."""

    webhookId: str
    places: dict[str, list[int]]
    delivered: NotRequired[list[str]]
    turn: int
    failures: NotRequired[int]
    failingSince: NotRequired[int]
    tried: NotRequired[dict[str, int]]
    nextAttemptAt: NotRequired[int]
    queuedAt: NotRequired[int]
    wokenAt: NotRequired[int]
    answerMs: NotRequired[int]
    oldestWaiting: NotRequired[int]
    caughtUpAt: NotRequired[int]
    testedAt: NotRequired[int]
    testId: NotRequired[str]
