"""Request models of credits, releases, ratings and playlists."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from shared.core.checks import whole
from shared.core.fields import Description, Title, VideoId, Visibility, line
from shared.core.limits import BEST_RATING
from shared.web.bodies import Content, merging

MAX_ROLES = 20
MAX_TITLES = 20

LARGEST_ROLES = 8_000
LARGEST_TITLES = 4_000
"""Maximum size of a release's titles, in bytes as counted by `content_bytes`. LARGEST_ROLES is the maximum size of a
credit's roles.

With these limits, a response with 100 credits or releases fits Lambda's limit and is cheap to read.
"""

_Part = TypeVar("_Part", bound=Content)


def content_bytes(parts: Sequence[Mapping[str, Any]]) -> int:
    """Return the size in bytes of a credit's roles or a release's titles, as compact JSON in UTF-8."""
    return len(json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode())


def _within(largest: int) -> AfterValidator:
    def check(parts: list[_Part]) -> list[_Part]:
        size = content_bytes([part.model_dump(exclude_none=True) for part in parts])
        if size > largest:
            raise ValueError(f"must have at most {largest:,} bytes in total as compact JSON, not {size:,}")
        return parts

    return AfterValidator(check)


class Role(Content):
    """One role of a person in a video."""

    category: Annotated[str, line(64), Field(description="Kind of role, such as `actor`, `director` or `writer`")]
    job: Annotated[str, line(300)] | None = Field(default=None, description="Details, such as `based on the novel`")
    characters: Annotated[list[Annotated[str, line(300)]], Field(max_length=20)] = Field(default=[])


class CreditContent(Content):
    """The body of `PUT /v1/videos/{videoId}/credits/{personId}`: all roles of one person in the video."""

    name: Annotated[str, line(200)] | None = Field(default=None, description="Name as credited")
    ordering: Annotated[
        int, Field(strict=True, ge=1, le=100_000, description="Position in the credits"), BeforeValidator(whole)
    ]
    roles: Annotated[
        list[Role],
        Field(
            min_length=1,
            max_length=MAX_ROLES,
            description=f"At most {LARGEST_ROLES} bytes in total, as compact JSON in UTF-8",
        ),
        _within(LARGEST_ROLES),
    ]


class LocalTitle(Content):
    """One title of a video in one region and language."""

    title: Title
    types: Annotated[list[Annotated[str, line(64)]], Field(max_length=10)] = Field(
        default=[], description="Kinds of title, such as `original`, `imdbDisplay` or `working`"
    )
    attributes: Annotated[list[Annotated[str, line(200)]], Field(max_length=10)] = Field(
        default=[], description="Further attributes, such as `literal title`"
    )


class ReleaseContent(Content):
    """The body of `PUT /v1/videos/{videoId}/releases/{region}[/{language}]`: the titles of the release, most common
    first."""

    titles: Annotated[
        list[LocalTitle],
        Field(
            min_length=1,
            max_length=MAX_TITLES,
            description=f"At most {LARGEST_TITLES} bytes in total, as compact JSON in UTF-8",
        ),
        _within(LARGEST_TITLES),
    ]


class RatingContent(Content):
    """The body of `PUT /v1/videos/{videoId}/rating`: either a value, or whether the user likes the video. A like counts
    as the value 10, and a dislike as 1."""

    value: Annotated[int, Field(strict=True, ge=1, le=BEST_RATING), BeforeValidator(whole)] | None = None
    like: bool | None = None

    @model_validator(mode="after")
    def _require_one_choice(self) -> Self:
        if (self.value is None) == (self.like is None):
            raise ValueError("must have either `value` or `like`")
        return self


class NewPlaylist(Content):
    """The body of `POST /v1/playlists`."""

    title: Title
    description: Description | None = None
    visibility: Visibility = "private"


class PlaylistPatch(Content):
    """The body of `PATCH /v1/playlists/{playlistId}`: a JSON Merge Patch (RFC 7396)."""

    __annotations__ = merging(NewPlaylist)


class NewEntry(Content):
    """The body of `POST /v1/playlists/{playlistId}/entries`."""

    videoId: VideoId


class EntryMove(Content):
    """The body of `PATCH /v1/playlists/{playlistId}/entries/{videoId}`: the new position of the entry, after or before
    another entry."""

    after: VideoId | None = Field(
        default=None, description="The entry to place this one after; `null` moves it to the beginning"
    )
    before: VideoId | None = Field(
        default=None, description="The entry to place this one before; `null` moves it to the end"
    )

    @model_validator(mode="after")
    def _require_one_neighbour(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("must have either `after` or `before`")
        return self
