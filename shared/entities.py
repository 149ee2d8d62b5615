"""Types of the items that several modules share, so that mypy reports a misspelt attribute.

Import them under TYPE_CHECKING, so that a cold start creates none of these classes. A store casts each item once, where it
reads it. Generic code, such as the codec, expressions and Table, accepts any Mapping. tests/unit/test_data_model.py compares
the attributes with docs/data-model.md and with stored items.
"""

from typing import Any, Literal, NotRequired, TypedDict


class IndexAttributes(TypedDict, total=False):
    """Attributes that project an item into RelationIndex."""

    rel: str
    relShard: int
    relSort: int
    relId: str


class Authorship(TypedDict, total=False):
    """Attributes that each write sets: its author, time (epoch seconds) and id."""

    updatedAt: int
    updatedBy: str
    updatedFor: str
    writeId: str


class JobAuthorship(Authorship, total=False):
    """Attributes that each write of a job sets: as Authorship, and the kind of the author."""

    updatedAs: Literal["person", "job"]


class Stored(IndexAttributes, Authorship):
    """Attributes that an item of any entity may have."""

    pk: str
    sk: str
    schemaVersion: NotRequired[int]
    purgeAt: NotRequired[int]


class Upload(Stored):
    """Upload of a source file: the URI, type and size that the client announced, and the state of the upload."""

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
    """Reason why an attempt at a job failed."""

    reason: str
    at: int
    attempt: int
    final: NotRequired[bool]


class Job(Stored):
    """Job, with the state of its current attempt."""

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
    """Rating of a video by one user; without `value`, the user withdrew it."""

    userId: str
    videoId: str
    value: NotRequired[int]
    like: NotRequired[bool]
    ratedAt: NotRequired[int]


class ImportedRatings(TypedDict):
    """Average and number of ratings that were imported from another service."""

    average: float
    votes: int


class RatingTotals(Stored, total=False):
    """Totals of a video's ratings. Whichever write is first creates the item, so each attribute may be missing."""

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
