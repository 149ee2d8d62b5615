"""Validators of video fields that JSON Schema limits cannot express; usable without pydantic."""

from typing import Any

from shared.core.limits import LONGEST_FOLDED_TAG
from shared.videos.tags import normalise_tag


def foldable(tag: str) -> str:
    """Return the tag; raise ValueError if its case-folded form is too long for a key."""
    # NFKC expands some characters to a whole phrase, and a DynamoDB key has a size limit.
    if len(normalise_tag(tag).encode()) > LONGEST_FOLDED_TAG:
        raise ValueError("is too long once its characters are written out in full")
    return tag


def unique(tags: list[str]) -> list[str]:
    """Return the tags; raise ValueError if two of them are equal once case-folded."""
    if len({normalise_tag(tag) for tag in tags}) != len(tags):
        raise ValueError("tags must differ from each other by more than case, spaces and forms of the same letters")
    return tags


def of_series(content: Any) -> Any:
    """Return the content of a video; raise ValueError if it has a season or an episode without a series."""
    if content.seriesId is None and (content.season is not None or content.episode is not None):
        raise ValueError("season and episode need the seriesId that they belong to")
    return content
