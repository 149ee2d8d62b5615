"""Request models of views."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from shared.core.checks import whole
from shared.core.fields import Seconds, VideoId, line
from shared.core.limits import LARGEST_BATCH
from shared.core.periods import DAY_SECONDS
from shared.web.bodies import Content

MAX_WATCHED = DAY_SECONDS * 1000
"""Maximum watch time of one view, in milliseconds."""

ViewerId = Annotated[
    str,
    line(128),
    Field(
        description="Id of the viewer that the caller chooses, such as a session id. Only a hash is stored, and other callers "
        "may use the same id"
    ),
]
Watched = Annotated[
    int,
    Field(strict=True, ge=0, le=MAX_WATCHED, description="Watch time in milliseconds"),
    BeforeValidator(whole),
]


class NewView(Content):
    """The body of `POST /v1/videos/{videoId}/views`."""

    viewerId: ViewerId | None = None
    watchedMs: Watched | None = None
    at: Seconds | None = Field(
        default=None,
        description="Time of the view in epoch seconds, the current time if omitted. A view older than the viewer's last one "
        "does not count",
    )


class QueuedView(Content):
    """A view that a player stored to send it later."""

    id: Annotated[str, line(64), Field(description="Id of this view that the caller chooses; retries must repeat it")]
    videoId: VideoId
    at: Annotated[
        Seconds,
        Field(description="Time of the view in epoch seconds. A view older than the viewer's last one does not count"),
    ]
    viewerId: ViewerId | None = None
    watchedMs: Watched | None = None


def _different(views: list[QueuedView]) -> list[QueuedView]:
    first: dict[str, int] = {}
    for index, view in enumerate(views):
        if first.setdefault(view.id, index) != index:
            raise ValueError(f"must have unique ids, but elements {first[view.id]} and {index} have the same id")
    return views


class QueuedViews(Content):
    """The body of `POST /v1/views`."""

    views: Annotated[list[QueuedView], Field(min_length=1, max_length=LARGEST_BATCH), AfterValidator(_different)]
