"""Request models of views."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from shared.core.checks import whole
from shared.core.fields import Seconds, VideoId, line
from shared.core.limits import LARGEST_BATCH
from shared.core.periods import DAY_SECONDS
from shared.web.bodies import Content

MOST_WATCHED = DAY_SECONDS * 1000
"""Maximum watch time of one view, in milliseconds."""

ViewerId = Annotated[
    str,
    line(128),
    Field(
        description="Who watches, by a name of your own, such as the id of a session: it is stored as a hash only, and means "
        "nothing to other callers"
    ),
]
Watched = Annotated[
    int,
    Field(strict=True, ge=0, le=MOST_WATCHED, description="How long was watched, in milliseconds"),
    BeforeValidator(whole),
]


class NewView(Content):
    """The body of `POST /v1/videos/{videoId}/views`."""

    viewerId: ViewerId | None = None
    watchedMs: Watched | None = None
    at: Seconds | None = Field(default=None, description="When it was, in epoch seconds; now when left out")


class QueuedView(Content):
    """A view that a player kept until it could send it."""

    id: Annotated[str, line(64), Field(description="A name of your own for this view; a retry has the same")]
    videoId: VideoId
    at: Annotated[Seconds, Field(description="When it was, in epoch seconds")]
    viewerId: ViewerId | None = None
    watchedMs: Watched | None = None


def _different(views: list[QueuedView]) -> list[QueuedView]:
    first: dict[str, int] = {}
    for place, view in enumerate(views):
        if first.setdefault(view.id, place) != place:
            raise ValueError(f"each view needs an id of its own, but {first[view.id]} and {place} have the same")
    return views


class QueuedViews(Content):
    """The body of `POST /v1/views`."""

    views: Annotated[list[QueuedView], Field(min_length=1, max_length=LARGEST_BATCH), AfterValidator(_different)]
