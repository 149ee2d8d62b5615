"""Types of the items that several modules share, so that mypy reports a misspelt attribute.

Other modules import them under TYPE_CHECKING: a cold start creates none of these classes. A store casts what the table returns,
once. Generic code, such as the codec, expressions and Table, takes any Mapping. tests/unit/test_data_model.py compares the
attributes with docs/data-model.md and with the items that are stored.
"""

from typing import Any, Literal, NotRequired, TypedDict


class Place(TypedDict, total=False):
    """Attributes that project an item into RelationIndex."""

    rel: str
    relShard: int
    relSort: int
    relId: str


class Authorship(TypedDict, total=False):
    """Attributes that a write sets: its author, time and id."""

    updatedAt: int
    updatedBy: str
    updatedFor: str
    writeId: str


class JobAuthorship(Authorship, total=False):
    """The same of a job, also the kind of its author."""

    updatedAs: Literal["person", "job"]


class Stored(Place, Authorship):
    """Attributes that items of all entities may have."""

    pk: str
    sk: str
    schemaVersion: NotRequired[int]
    purgeAt: NotRequired[int]


class Upload(Stored):
    """An announced film."""

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
    """The reason why an attempt at a job failed."""

    reason: str
    at: int
    attempt: int
    final: NotRequired[bool]


class Job(Stored):
    """A job, and its progress."""

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
    lease: NotRequired[str]
    leaseUntil: NotRequired[int]
    output: NotRequired[dict[str, Any]]
    finishedAt: NotRequired[int]
    error: NotRequired[JobError]
    updatedAs: NotRequired[Literal["person", "job"]]


class Rating(Stored):
    """One user's rating of a video; without `value` it was taken back."""

    userId: str
    videoId: str
    value: NotRequired[int]
    like: NotRequired[bool]
    ratedAt: NotRequired[int]


class ImportedRatings(TypedDict):
    """The ratings of another service's users."""

    average: float
    votes: int


class RatingTotals(Stored, total=False):
    """The totals of a video's ratings; the first write creates them, whichever it is."""

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
