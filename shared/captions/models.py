"""What clients send about chapters."""

from itertools import pairwise
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from shared.core.fields import line, whole
from shared.web.bodies import Content

MOST_CHAPTERS = 200
LONGEST_TITLE = 200
"""Characters."""
LATEST = 360_000_000
"""Milliseconds: a hundred hours."""


class Chapter(Content):
    """One chapter of a video, up to the start of the next."""

    start: Annotated[int, Field(strict=True, ge=0, le=LATEST, description="In milliseconds"), BeforeValidator(whole)]
    title: Annotated[str, line(LONGEST_TITLE)]


class ChaptersContent(Content):
    """The body of `PUT /v1/videos/{videoId}/chapters`: all its chapters, each after the one before."""

    chapters: Annotated[list[Chapter], Field(min_length=1, max_length=MOST_CHAPTERS)]

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        starts = [chapter.start for chapter in self.chapters]
        for number, (before, start) in enumerate(pairwise(starts), 1):
            if start <= before:
                raise ValueError(
                    f"chapters must rise: /chapters/{number}/start is {start}, and the one before {before}"
                )
        return self
