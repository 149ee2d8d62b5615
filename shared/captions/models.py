"""Request bodies for captions and chapters."""

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field

from shared.core.checks import whole
from shared.core.errors import InvalidContent
from shared.core.fields import line
from shared.web.bodies import Content
from shared.web.prebuilt_model import MAX_ERRORS

MAX_CHAPTERS = 200
"""Maximum number of chapters of a video."""
LONGEST_TITLE = 200
"""Maximum number of characters of a chapter's title."""
LATEST = 360_000_000
"""Maximum start of a chapter in milliseconds: 100 hours."""


class CaptionsContent(Content):
    """Body of `PUT /v1/videos/{videoId}/captions/{language}` as JSON."""

    format: Literal["vtt", "srt"] = Field(description="WebVTT or SubRip")
    text: str = Field(description="Content of the file")


class Chapter(Content):
    """Chapter of a video. It ends at the start of the next chapter."""

    start: Annotated[
        int, Field(strict=True, ge=0, le=LATEST, description="Start in milliseconds"), BeforeValidator(whole)
    ]
    title: Annotated[str, line(LONGEST_TITLE)]


class ChaptersContent(Content):
    """Body of `PUT /v1/videos/{videoId}/chapters`: all chapters, in ascending order of `start`."""

    chapters: Annotated[list[Chapter], Field(min_length=1, max_length=MAX_CHAPTERS)]

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Return the parsed body. Raises the errors of `Content.parse`.

        Also raises InvalidContent if a chapter does not start later than the previous chapter starts. The error has
        JSON Pointers to the starts of such chapters.
        """
        content = super().parse(body)
        starts = [chapter.start for chapter in content.chapters]
        errors = [
            {
                "pointer": f"/chapters/{number}/start",
                "detail": f"must be more than {before}, the start of the previous chapter",
            }
            for number, (before, start) in enumerate(pairwise(starts), 1)
            if start <= before
        ]
        if errors:
            shown = errors[:MAX_ERRORS]
            raise InvalidContent("Each chapter must start after the previous one.", errors=shown)
        return content
