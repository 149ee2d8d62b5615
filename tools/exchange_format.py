"""Parser and writer of the service's exchange format: JSON lines, each with an `entity` and the item's attributes.

Lines omit everything that an import can derive: keys, index attributes, tag entries, totals and memberships. See
docs/import-export.md.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from shared.captions.models import ChaptersContent
from shared.core.attributes import Item
from shared.core.caller import UPDATED_FOR
from shared.core.checks import whole
from shared.core.errors import ServiceError
from shared.core.fields import Language, Milliseconds, Name, Seconds, UserId, VideoId
from shared.core.limits import BEST_RATING, LARGEST_INTEGER
from shared.core.regions import language, region
from shared.relations.item_store import OWNER, REMOVING
from shared.relations.models import (
    CreditContent,
    NewPlaylist,
    ReleaseContent,
)
from shared.relations.playlists import MOVES
from shared.relations.ranks import LONGEST, WIDTH
from shared.schema import PARTITION_KEY, RELATION_INDEX, SCHEMA_VERSION, SORT_KEY
from shared.videos.documents import SOURCE_FIELDS
from shared.videos.models import VideoContent
from shared.web.bodies import Content
from tools.imdb import RowRefused

ENTITY = "entity"
DUE = "dueAt"
"""Name of a member in the line of a job: the time of the sweeper's next check, in epoch seconds.

The table stores this time as an index attribute.
"""

MADE = (
    PARTITION_KEY,
    SORT_KEY,
    "categoryShard",
    "orderBy",
    "orderValue",
    *(attribute.name for attribute in (*RELATION_INDEX.partition, *RELATION_INDEX.sort)),
)
"""Names of the attributes that an import derives. Lines must not have them."""
OF_THE_TRAIL: Mapping[str, tuple[str, ...]] = {
    "Credit": (OWNER, REMOVING),
    "Release": (OWNER, REMOVING),
    "Captions": (OWNER, REMOVING),
    "Chapters": (OWNER, REMOVING),
    "Playlist": (MOVES,),
}
"""Names of the attributes that only the audit trail uses, by entity. Exports omit them."""


def _existing_region(code: str) -> str:
    if region(code) is None:
        raise ValueError("must be the code of a region")
    return code


Count = Annotated[int, Field(strict=True, ge=0, le=LARGEST_INTEGER), BeforeValidator(whole)]
Version = Annotated[int, Field(strict=True, ge=1, le=LARGEST_INTEGER), BeforeValidator(whole)]
SchemaVersion = Annotated[int, Field(strict=True, ge=1, le=SCHEMA_VERSION), BeforeValidator(whole)]
Rank = Annotated[str, StringConstraints(pattern=rf"^[0-9A-Za-z]{{{WIDTH},{LONGEST}}}$")]


class _Stamped(Content):
    version: Version = 1
    schemaVersion: SchemaVersion = 1
    updatedAt: Seconds = 0
    updatedBy: UserId = "-"
    writeId: str = "-"


class _OfVideo(_Stamped):
    videoId: VideoId


class VideoLine(VideoContent, _OfVideo):
    userId: UserId
    createdAt: Seconds = 0
    status: Literal["uploaded", "processing", "ready", "failed", "deleted"]
    deletedAt: Seconds | None = None
    statusBeforeDelete: Literal["uploaded", "processing", "ready", "failed"] | None = None
    purgeAt: Seconds | None = None
    origins: dict[str, str] = Field(default={})
    source: dict[str, Any] | None = None
    failure: dict[str, Any] | None = None
    pictures: dict[str, Any] | None = None
    posterTime: Milliseconds | None = None
    poster: str | None = None
    importDigest: str | None = None
    updatedAs: str | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.status == "deleted" and (self.deletedAt is None or self.statusBeforeDelete is None):
            raise ValueError("a deleted video needs deletedAt and statusBeforeDelete")
        if self.source is not None and not set(SOURCE_FIELDS) <= self.source.keys():
            raise ValueError(f"a source needs {', '.join(SOURCE_FIELDS)}")
        return self


class CreditLine(CreditContent, _OfVideo):
    personId: Name


class ReleaseLine(ReleaseContent, _OfVideo):
    region: Annotated[str, AfterValidator(_existing_region)]
    language: Language | None = None


class CaptionsLine(_OfVideo):
    language: Language
    text: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    cues: Count
    size: Count
    origin: Literal["owner", "film"]


class ChaptersLine(ChaptersContent, _OfVideo):
    pass


class RatingLine(_OfVideo):
    userId: UserId
    value: Annotated[int, Field(strict=True, ge=1, le=BEST_RATING), BeforeValidator(whole)]
    like: bool | None = None
    ratedAt: Seconds = 0


class Imported(Content):
    average: Annotated[float, Field(strict=True, ge=0, le=BEST_RATING)]
    votes: Count


class ImportedRatingLine(_OfVideo):
    imported: Imported


class JobLine(_OfVideo):
    kind: Name
    owner: UserId
    state: Literal["queued", "running", "done", "failed", "withdrawn"]
    dueAt: Seconds | None = None
    input: dict[str, Any]
    inputHash: str
    since: str
    attempt: Count
    spent: Count | None = None
    progress: Count | None = None
    output: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    worker: str | None = None
    lease: str | None = None
    leaseUntil: Seconds | None = None
    sends: Count | None = None
    sentAt: Seconds | None = None
    createdAt: Seconds | None = None
    queuedAt: Seconds | None = None
    startedAt: Seconds | None = None
    finishedAt: Seconds | None = None
    updatedAs: str | None = None

    @model_validator(mode="after")
    def _is_due(self) -> Self:
        if (self.dueAt is not None) != (self.state in DUE_STATES):
            raise ValueError(f"must have dueAt if, and only if, the state is {' or '.join(DUE_STATES)}")
        return self


class ViewsLine(_OfVideo):
    views: Count
    watched: Count | None = None
    repeated: Count | None = None
    owner: Count | None = None
    unpublished: Count | None = None
    expired: Count | None = None
    deleted: Count | None = None


class PlaylistLine(NewPlaylist, _Stamped):
    playlistId: VideoId
    userId: UserId
    createdAt: Seconds = 0
    entryCount: Count = 0
    lastRank: Rank | None = None


class EntryLine(_OfVideo):
    playlistId: VideoId
    rank: Rank | None = None
    addedAt: Seconds = 0


DUE_STATES = ("queued", "running", "failed")
LINES: Mapping[str, type[Content]] = {
    "Video": VideoLine,
    "Credit": CreditLine,
    "Release": ReleaseLine,
    "Captions": CaptionsLine,
    "Chapters": ChaptersLine,
    "ImportedRating": ImportedRatingLine,
    "Rating": RatingLine,
    "Job": JobLine,
    "Views": ViewsLine,
    "Playlist": PlaylistLine,
    "Entry": EntryLine,
}
"""Models of lines, by entity. Exports write the lines of a video or playlist in this order."""


@dataclass(frozen=True)
class ItemLine:
    """A valid line of an export, with its line number and the name of its entity."""

    line: int
    entity: str
    attributes: Item
    """Stored attributes, except the derived ones. Times and versions exist only if the line has them."""

    @property
    def home(self) -> tuple[str, str]:
        """Id of the video or playlist that the line belongs to, as a pair such as `("videoId", "3f25...")`."""
        name = "playlistId" if self.entity in ("Playlist", "Entry") else "videoId"
        return name, self.attributes[name]


def line_of(entity: str, item: Item) -> Item:
    """Convert a stored item to a line. Omits derived attributes, attributes of the audit trail, and request ids, which
    are valid in one deployment only."""
    left_out = (*MADE, *OF_THE_TRAIL.get(entity, ()), UPDATED_FOR)
    kept = {name: value for name, value in item.items() if name not in left_out}
    if entity == "Job" and RELATION_INDEX.sort[0].name in item:
        kept[DUE] = item[RELATION_INDEX.sort[0].name]
    return {ENTITY: entity} | {
        name: sorted(value) if isinstance(value, set) else value for name, value in sorted(kept.items())
    }


def parse_line(number: int, content: bytes | None) -> ItemLine:
    """Parse a line. `content` is `None` if the line is too long. Raises RowRefused if the line is invalid."""
    if content is None:
        raise RowRefused("the line is too long")
    try:
        attributes = json.loads(content.decode(), parse_constant=_refuse_constant)
        json.dumps(attributes, ensure_ascii=False).encode()  # half a surrogate pair is not text
    except UnicodeError as error:
        raise RowRefused("the line is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise RowRefused("the line is not JSON", str(error)) from error
    if not isinstance(attributes, dict):
        raise RowRefused("the line is not a JSON object")
    entity = attributes.pop(ENTITY, None)
    model = LINES.get(entity) if isinstance(entity, str) else None
    if model is None:
        raise RowRefused("unknown entity", str(entity))
    made = [name for name in MADE if name in attributes]
    if made:
        raise RowRefused("the line has keys or index attributes, which the import creates", ", ".join(made))
    try:
        model.parse(json.dumps(attributes).encode())
    except ServiceError as error:
        first = error.errors[0] if error.errors else {"pointer": "", "detail": error.detail}
        raise RowRefused(f"not a valid {entity}", f"{first['pointer']}: {first['detail']}") from error
    for name in ("videoId", "playlistId", "seriesId"):
        if attributes.get(name):
            attributes[name] = attributes[name].lower()
    return ItemLine(number, str(entity), _as_stored(str(entity), attributes))


def _as_stored(entity: str, attributes: Item) -> Item:
    """Convert a line's members to stored attributes: remove nulls, normalise codes, and convert the tags to a set."""
    kept = {name: value for name, value in attributes.items() if value is not None}
    if entity == "Release":
        spoken = {"language": language(kept["language"])} if "language" in kept else {}
        return kept | {"region": region(kept["region"])} | spoken
    if entity == "Captions":
        return kept | {"language": language(kept["language"])}
    if entity == "Video":
        tags = set(kept.pop("tags", ()))
        return kept | ({"tags": tags} if tags else {})
    return kept


def _refuse_constant(name: str) -> Callable[[], None]:
    raise ValueError(f"{name} is not a JSON number")
