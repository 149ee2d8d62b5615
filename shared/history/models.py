"""Request bodies of the revert operations."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from shared.core.changes import split_pointer
from shared.core.checks import whole
from shared.core.fields import Folder, Pointer, UserId
from shared.core.limits import LARGEST_INTEGER
from shared.videos.documents import FIELDS
from shared.web.bodies import Content

MAX_POINTERS = 100
"""Maximum number of JSON Pointers in `fields`, and in `force`."""


def _known_field(pointer: str) -> str:
    if not set(split_pointer(pointer)[:1]) <= {*FIELDS, "posterTime", "pictures"}:
        raise ValueError("must begin with a field of a video, such as /title")
    return pointer


Force = Annotated[
    list[Pointer],
    Field(
        max_length=MAX_POINTERS,
        description='Pointers to revert with everything below them, even if another user changed them since; `""` is the '
        "whole entity",
    ),
]


class NewRevert(Content):
    """Body of `POST /v1/changesets/{changesetId}/revert`."""

    force: Force = Field(default=[])


class NewFolderMove(Content):
    """Body of `POST /v1/folder-moves`."""

    folder: Annotated[Folder, Field(description="Path of the folder to move")]
    to: Annotated[Folder, Field(description="New path of the folder, which is merged with a folder that has this path")]
    userId: UserId | None = Field(default=None, description="The owner, for admins; you if omitted")


class Revert(Content):
    """Body of `POST /v1/videos/{videoId}/revert`."""

    toVersion: Annotated[
        int,
        Field(strict=True, ge=1, le=LARGEST_INTEGER, description="An earlier version of the video"),
        BeforeValidator(whole),
    ]
    fields: list[Annotated[Pointer, AfterValidator(_known_field)]] = Field(
        default=[""],
        min_length=1,
        max_length=MAX_POINTERS,
        description="JSON Pointers to revert with everything below them, in the form of the audit trail; omitted: the whole "
        "video",
    )
    force: Force = Field(default=[])
