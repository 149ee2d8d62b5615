"""What captions are made of: cues, their limits, and why a text is refused."""

import html
import re
from typing import NamedTuple

MOST_BYTES = 1_000_000
"""Bytes of a text as it comes in: 10,000 cues of 100 bytes."""
MOST_CUES = 20_000
"""Cues of one text: more than one every two seconds for ten hours."""
LONGEST_CUE = 2000
"""Characters of a cue's payload, tags included: automatic captions time each word, with 21 characters each."""
LATEST = 360_000_000
"""Milliseconds at which the last cue may end: 100 hours."""
LONGEST_SHOWN = 40
"""Characters of a text that a refusal repeats."""

_TAG = re.compile(r"<[^<>]*>")


class Cue(NamedTuple):
    """A text and the time at which it is shown, as WebVTT has it (https://www.w3.org/TR/webvtt1/)."""

    start: int
    """Milliseconds from the start of the film."""
    end: int
    """Milliseconds; more than `start`."""
    text: str
    """WebVTT's cue payload: lines with LF between them, none of them empty, with their tags and references."""
    id: str | None = None
    """One line without `-->`, that no other cue of the text has."""
    settings: str | None = None
    """Where the text is shown: WebVTT's settings in a fixed order, with one space between them."""


class InvalidCaptions(ValueError):
    """A text that is not taken as captions; the message is a sentence for whoever sent it."""

    def __init__(self, line: int | None, reason: str) -> None:
        """`line` counts from 1; None: the text as a whole is at fault. `reason` is a sentence without its line."""
        super().__init__(f"Line {line}: {reason}" if line else f"{reason[:1].upper()}{reason[1:]}")
        self.line = line
        self.reason = reason


def plain(cue: Cue) -> str:
    """The words of a cue, for search: without tags, references decoded, each run of white space as one space.

    It is text, not HTML: `&lt;b&gt;` comes back as `<b>`. Readings above words (rt) stay; names of voices (v) do not.
    """
    return " ".join(html.unescape(_TAG.sub("", cue.text)).split())


def clock(time: int) -> str:
    """Milliseconds as WebVTT writes them: hh:mm:ss.mmm."""
    seconds, milliseconds = divmod(time, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}"


def shown(text: str) -> str:
    """A part of a text as a refusal repeats it: on one line, in quotes, LONGEST_SHOWN characters at most."""
    text = text.replace("\n", " ")
    return f'"{text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."}"'


def check_times(start: int, end: int, line: int) -> None:
    """Raise InvalidCaptions unless a cue ends after its start (both in milliseconds), and by LATEST."""
    if end <= start:
        raise InvalidCaptions(line, f"the end {clock(end)} is not after the start {clock(start)}.")
    if end > LATEST:
        raise InvalidCaptions(line, f"the end {clock(end)} is later than {clock(LATEST)}, the latest that is taken.")


def check_length(text: str, line: int) -> None:
    """Raise InvalidCaptions if a cue whose text begins on this line has more than LONGEST_CUE characters."""
    if len(text) > LONGEST_CUE:
        raise InvalidCaptions(
            line, f"the cue's text, as WebVTT, has {len(text):,} characters; {LONGEST_CUE:,} is the most."
        )


def check_count(count: int, line: int) -> None:
    """Raise InvalidCaptions if the cue that begins on this line is one more than MOST_CUES."""
    if count > MOST_CUES:
        raise InvalidCaptions(line, f"this is one cue more than {MOST_CUES:,}, which is the most.")
