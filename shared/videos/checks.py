"""Validators of video fields for rules that JSON Schema cannot express. They do not import pydantic."""

from typing import Any

from shared.core.limits import LONGEST_FOLDED_TAG
from shared.videos.tags import normalise_tag


def foldable(tag: str) -> str:
    """Return the tag unchanged. Raises ValueError if the case-folded tag is too long for a key."""
    # NFKC expands some characters to a whole phrase, and a DynamoDB key has a size limit.
    size = len(normalise_tag(tag).encode())
    if size > LONGEST_FOLDED_TAG:
        raise ValueError(f"must have at most {LONGEST_FOLDED_TAG} bytes in UTF-8 after normalisation, not {size:,}")
    return tag


def unique(tags: list[str]) -> list[str]:
    """Return the tags unchanged. Raises ValueError if two of them are equal after case folding."""
    if len({normalise_tag(tag) for tag in tags}) != len(tags):
        raise ValueError("must not have duplicates; case, spaces and forms of the same letter do not count")
    return tags


def of_series(content: Any) -> Any:
    """Return the content of a video unchanged. Raises ValueError if it has a season or an episode without a series."""
    if content.seriesId is None and (content.season is not None or content.episode is not None):
        raise ValueError("must have `seriesId` with `season` or `episode`")
    return content
