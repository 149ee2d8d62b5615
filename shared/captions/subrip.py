"""SubRip (SRT) reader, as lenient as players. The format has no standard; https://en.wikipedia.org/wiki/SubRip
describes it.

A cue has a line with its number, a line with its times, and lines of text. It ends at a blank line. The reader drops
the numbers, coordinates after the times (X1:...), and colours and fonts (`<font>`).

The reader also drops SubStation Alpha codes (`{\\...}`), except `{\\an7}` to `{\\an9}`. These place the text at the
upper edge, and become WebVTT's setting `line:0`. All tags except `<i>`, `<b>` and `<u>` are read as text.
"""

import re

from shared.captions.cues import Cue, InvalidCaptions, check_count, check_length, check_times, displayed_text
from shared.captions.lines import Block, split_blocks, split_lines

_NUMBER = re.compile(r"[0-9]+")
_TIME = r"([0-9]{1,5}):([0-5]?[0-9]):([0-5]?[0-9])[,.]([0-9]{3})"
_TIMINGS = re.compile(rf"{_TIME}[\t ]*-->[\t ]*{_TIME}(?:[\t ]+X1:.*)?")
_MARKUP = re.compile(r"<(/?)([ibu])[\t ]*>|</?font(?:[\t ][^<>]*)?>|\{(\\[^{}]*)\}", re.IGNORECASE)
_UPPER = re.compile(r"\\an[789](?![0-9])")
_OTHER_FORMATS = (
    ("WEBVTT", "The file is WebVTT, not SubRip (SRT). Send it as text/vtt."),
    ("[Script Info]", "The file is SubStation Alpha (ASS or SSA). Export it as SubRip (SRT) or WebVTT."),
    ("<", "The file is XML or HTML, such as TTML or SAMI. Export it as SubRip (SRT) or WebVTT."),
    ("{", "The file may be MicroDVD. Export it as SubRip (SRT) or WebVTT."),
)
"""Texts at the start of files in other formats, with the error message for each format."""


def read(text: str) -> list[Cue]:
    """Return the cues of a SubRip file, sorted by start.

    Raises InvalidCaptions if a line is invalid or the file has no cue.
    """
    lines = split_lines(text)
    for begin, reason in _OTHER_FORMATS:
        if lines[0].startswith(begin):
            raise InvalidCaptions(1, reason)
    cues: list[Cue] = []
    # Players treat a line of spaces as blank in SubRip, but not in WebVTT.
    for block in split_blocks(lines, lambda line: not line.strip("\t ")):
        check_count(len(cues) + 1, block.line)
        cues.append(_cue(block))
    if not cues:
        raise InvalidCaptions(None, "The file has no cues. Send at least one.")
    return sorted(cues, key=lambda cue: cue.start)


def payload(text: str) -> tuple[str, str | None]:
    """Return the text of a SubRip cue as a WebVTT payload, and the WebVTT cue settings (`None` without settings).

    All tags in the payload are closed and properly nested. The payload has at most five times as many characters as
    `text`, and a few more for end tags.
    """
    converted: list[str] = []
    stack: list[str] = []
    settings = None
    at = 0
    for found in _MARKUP.finditer(text):
        converted.append(_escape(text[at : found.start()]))
        at = found.end()
        slash, name, codes = found.groups()
        if name is not None:
            converted.append(_tag(name.lower(), stack, is_end=bool(slash)))
        elif codes is not None and _UPPER.search(codes):
            settings = "line:0"
    converted += _escape(text[at:]), *(f"</{name}>" for name in reversed(stack))
    # An empty line would end the cue. Lines with only dropped markup have become empty.
    return "\n".join(line for line in "".join(converted).split("\n") if line.strip("\t ")), settings


def _cue(block: Block) -> Cue:
    number, *rest = (line.strip("\t ") for line in block.lines[:2])
    if not _NUMBER.fullmatch(number):
        raise InvalidCaptions(
            block.line,
            f"{displayed_text(number)} is not the number of a cue. Write its number, then its times on the next line, then its "
            "text without blank lines.",
        )
    line = block.line + 1
    timings = _TIMINGS.fullmatch(rest[0]) if rest else None
    if not timings:
        fault = f"{displayed_text(rest[0])} has no valid times" if rest else "The cue has no times after its number"
        raise InvalidCaptions(line, f"{fault}. Write 00:00:01,000 --> 00:00:02,000.")
    start, end = _milliseconds(*timings.groups()[:4]), _milliseconds(*timings.groups()[4:])
    check_times(start, end, line)
    for at, each in enumerate(block.lines[2:], line + 1):
        if "-->" in each and _TIMINGS.fullmatch(each.strip("\t ")):
            raise InvalidCaptions(at, "The times of another cue follow the text. Put a blank line before its number.")
    raw = "\n".join(block.lines[2:])
    check_length(raw, line + 1)
    text, settings = payload(raw)
    check_length(text, line + 1)
    return Cue(start, end, text, settings=settings)


def _milliseconds(hours: str, minutes: str, seconds: str, rest: str) -> int:
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1000 + int(rest)


def _tag(name: str, stack: list[str], *, is_end: bool) -> str:
    """Return a start or end tag as WebVTT. If nesting requires it, include tags that close and reopen other open tags.

    `stack` has the names of the open tags, and is updated. Returns an empty string for the start of a tag that is
    already open, and for the end of a tag that is not open.
    """
    if not is_end:
        if name in stack:
            return ""
        stack.append(name)
        return f"<{name}>"
    if name not in stack:
        return ""
    depth = stack.index(name)
    within = stack[depth + 1 :]
    del stack[depth]
    ends = "".join(f"</{each}>" for each in reversed(within))
    return f"{ends}</{name}>{''.join(f'<{each}>' for each in within)}"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
