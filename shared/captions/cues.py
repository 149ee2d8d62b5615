"""Cues of captions, their limits, and the error for invalid text."""

import html
import re
from typing import NamedTuple

MAX_BYTES = 1_000_000
"""Maximum bytes of uploaded captions. It is enough for 10,000 cues of 100 bytes."""
MAX_CUES = 20_000
"""Maximum number of cues in a file. It is enough for ten hours with a cue every two seconds."""
LONGEST_CUE = 2000
"""Maximum number of characters of a cue's payload, including tags. In automatic captions, each word also has a
timestamp and tags, together 21 characters.
"""
LATEST = 360_000_000
"""Latest end of a cue in milliseconds: 100 hours."""
LONGEST_SHOWN = 40
"""Maximum number of characters of an excerpt in an error message."""

_TAG = re.compile(r"<[^<>]*>")


class Cue(NamedTuple):
    """A text and its display time, as in WebVTT (https://www.w3.org/TR/webvtt1/)."""

    start: int
    """Milliseconds from the start of the video."""
    end: int
    """Milliseconds from the start of the video, greater than `start`."""
    text: str
    """WebVTT cue payload: non-empty lines separated by LF, with tags and character references."""
    id: str | None = None
    """Cue identifier: one line without `-->`, unique within the captions."""
    settings: str | None = None
    """WebVTT cue settings (position and alignment) in a fixed order, separated by single spaces."""


class InvalidCaptions(ValueError):
    """The captions are invalid. The message is for the client.

    `line` is the number of the invalid line, from 1; `None` if the whole text is invalid. `reason` is a sentence
    without the line number.
    """

    def __init__(self, line: int | None, reason: str) -> None:
        super().__init__(f"Line {line}: {reason}" if line else reason)
        self.line = line
        self.reason = reason


def plain_text(cue: Cue) -> str:
    """Return the text of a cue for search: without tags, with character references decoded and white space collapsed.

    The result is text, not HTML: `&lt;b&gt;` becomes `<b>`. It includes ruby text (rt), but no voice names (v).
    """
    return " ".join(html.unescape(_TAG.sub("", cue.text)).split())


def format_time(time: int) -> str:
    """Return milliseconds in WebVTT's format, hh:mm:ss.mmm."""
    seconds, milliseconds = divmod(time, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}"


def displayed_text(text: str) -> str:
    """Return an excerpt for an error message: on one line, quoted, with at most LONGEST_SHOWN characters of text."""
    text = text.replace("\n", " ")
    return f'"{text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."}"'


def check_times(start: int, end: int, line: int) -> None:
    """Raise InvalidCaptions if a cue does not end after its start, or ends after LATEST. Times are in milliseconds."""
    if end <= start:
        raise InvalidCaptions(line, f"The end {format_time(end)} is not after the start {format_time(start)}.")
    if end > LATEST:
        raise InvalidCaptions(line, f"The end {format_time(end)} is after {format_time(LATEST)}, the maximum.")


def check_length(text: str, line: int) -> None:
    """Raise InvalidCaptions if `text` has more than LONGEST_CUE characters.

    `line` is the line number at which the cue starts.
    """
    if len(text) > LONGEST_CUE:
        raise InvalidCaptions(
            line, f"The cue must have at most {LONGEST_CUE:,} characters as WebVTT, not {len(text):,}."
        )


def check_count(count: int, line: int) -> None:
    """Raise InvalidCaptions if `count`, the number of cues, is more than MAX_CUES.

    `line` is the line number at which the last cue starts.
    """
    if count > MAX_CUES:
        raise InvalidCaptions(line, f"The captions have more than {MAX_CUES:,} cues, the maximum.")
