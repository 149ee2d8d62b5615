"""WebVTT: strict reader, and writer of a canonical form (https://www.w3.org/TR/webvtt1/#syntax).

The reader drops:

- header text after WEBVTT and on the lines below it, such as YouTube's `Kind:` and `Language:`
- HLS's `X-TIMESTAMP-MAP`; its offset is not applied to the times of cues
- comments (NOTE)
- style sheets and regions (STYLE, REGION), because players have their own
"""

import re
from collections.abc import Iterable

from shared.captions import cue_text
from shared.captions.cues import Cue, InvalidCaptions, check_count, check_times, displayed_text, format_time
from shared.captions.lines import Block, split_blocks, split_lines

_HEADER = re.compile(r"WEBVTT(?:[\t ].*)?")
_COMMENT = re.compile(r"NOTE(?:[\t ].*)?")
_DEFINITION = re.compile(r"(STYLE|REGION)[\t ]*")
_TIMINGS = re.compile(r"([0-9:.]{1,20})[\t ]+-->[\t ]+([0-9:.]{1,20})(?:[\t ]+(.*))?")
_COMMA = re.compile(r"[0-9:]{1,20},[0-9]{3}[\t ]*-->")
"""Pattern of the beginning of a SubRip timing line, in which a comma precedes the milliseconds."""

_PERCENTAGE = r"(?:100(?:\.0{1,20})?|[0-9]{1,2}(?:\.[0-9]{1,20})?)%"
_SETTINGS = {
    "vertical": re.compile(r"rl|lr"),
    "line": re.compile(rf"({_PERCENTAGE}|-?[0-9]{{1,4}})(?:,(start|center|middle|end))?"),
    "position": re.compile(rf"({_PERCENTAGE})(?:,(line-left|center|line-right|start|middle|end))?"),
    "size": re.compile(_PERCENTAGE),
    "align": re.compile(r"start|center|middle|end|left|right"),
    "region": re.compile(r".+"),
}
"""Valid values of each setting, in output order (https://www.w3.org/TR/webvtt1/#cue-settings)."""
_RENAMED = {
    "line": {"middle": "center"},
    "position": {"start": "line-left", "middle": "center", "end": "line-right"},
    "align": {"middle": "center"},
}
"""Current names of alignments, by setting and old name. Drafts of WebVTT until 2015 had the old names, and many
programs still write them."""


def read(text: str) -> list[Cue]:
    """Return the cues of a WebVTT file, sorted by start.

    Raises InvalidCaptions if a line is invalid or the file has no cue.
    """
    lines = split_lines(text)
    if not _HEADER.fullmatch(lines[0]):
        raise InvalidCaptions(1, _without_header(lines))
    header = next((number for number, line in enumerate(lines) if not line), len(lines))
    if early := next((number for number in range(header) if "-->" in lines[number]), 0):
        raise InvalidCaptions(early + 1, "A blank line is missing after the header, which begins with WEBVTT.")
    cues: list[Cue] = []
    named: dict[str, int] = {}
    for block in split_blocks(lines, lambda line: not line, after=header):
        if _is_skipped(block, is_first=not cues):
            continue
        check_count(len(cues) + 1, block.line)
        cue = _cue(block)
        if cues and cue.start < cues[-1].start:
            raise InvalidCaptions(
                block.line + (cue.id is not None),
                f"The start {format_time(cue.start)} is before {format_time(cues[-1].start)}, the start of the previous cue. "
                "Sort the cues by start.",
            )
        if cue.id is not None and (other := named.setdefault(cue.id, block.line)) != block.line:
            raise InvalidCaptions(
                block.line,
                f"The cue on line {other} has the same identifier {displayed_text(cue.id)}. Make identifiers unique.",
            )
        cues.append(cue)
    if not cues:
        raise InvalidCaptions(None, "The file has no cues. Send at least one.")
    return cues


def write(cues: Iterable[Cue]) -> str:
    """Return cues as a WebVTT file: LF line ends, times as hh:mm:ss.mmm, one blank line between cues.

    If `read` returned these cues, then reading the written file returns equal cues. The written file can be five times
    as long as the original file, because `&` becomes `&amp;`.
    """
    return "\n\n".join(("WEBVTT", *map(_block, cues))) + "\n"


def _block(cue: Cue) -> str:
    times = f"{format_time(cue.start)} --> {format_time(cue.end)}"
    return "\n".join(filter(None, (cue.id, f"{times} {cue.settings}" if cue.settings else times, cue.text)))


def _without_header(lines: list[str]) -> str:
    if any(_COMMA.match(line) for line in lines[:10]):
        return "The file is SubRip (SRT), without the header WEBVTT and with commas in times. Send it as application/x-subrip."
    return "The header is missing. Begin the first line with WEBVTT, in capitals."


def _is_skipped(block: Block, *, is_first: bool) -> bool:
    """Return whether the reader drops the block, because it is a comment, a style sheet or a region.

    Raises InvalidCaptions if the block is invalid, or if a style sheet or region follows a cue. `is_first` is whether
    no cue precedes the block.
    """
    begin = block.lines[0]
    definition = _DEFINITION.fullmatch(begin)
    if not definition and not _COMMENT.fullmatch(begin):
        return False
    kind = definition[1] if definition else "NOTE"
    if definition and not is_first:
        raise InvalidCaptions(block.line, f"{kind} follows a cue. Move it before the first cue.")
    for number, line in enumerate(block.lines, block.line):
        if "-->" in line:
            raise InvalidCaptions(number, f'The block {kind} contains "-->". Put a blank line after the block.')
    return True


def _cue(block: Block) -> Cue:
    lines, line = block.lines, block.line
    name = None
    if "-->" not in lines[0]:
        if len(lines) == 1 or "-->" not in lines[1]:
            raise InvalidCaptions(line, _no_cue(lines[0]))
        # A line of only white space is not an identifier.
        name = lines[0] if lines[0].strip() else None
        lines, line = lines[1:], line + 1
    timings = _TIMINGS.fullmatch(lines[0])
    start = cue_text.milliseconds(timings[1]) if timings else None
    end = cue_text.milliseconds(timings[2]) if timings else None
    if timings is None or start is None or end is None:
        raise InvalidCaptions(line, _no_times(lines[0]))
    check_times(start, end, line)
    settings = _settings(timings[3] or "", line)
    for number, each in enumerate(lines[1:], line + 1):
        if "-->" in each:
            raise InvalidCaptions(
                number,
                'The text of a cue contains "-->". Write --&gt;, or put an empty line after the previous cue.',
            )
    text = cue_text.check_payload("\n".join(lines[1:]), start, end, line + 1)
    return Cue(start, end, text, name, settings)


def _no_cue(begin: str) -> str:
    if _HEADER.fullmatch(begin):
        return "A second header (WEBVTT) begins here. Send one file, not several joined."
    return (
        f"{displayed_text(begin)} begins no cue, because neither this line nor the next has times. "
        "Remove blank lines within cues and the header; begin comments with NOTE."
    )


def _no_times(line: str) -> str:
    hint = "Write 00:00:01.000 --> 00:00:02.000, with spaces around the arrow"
    if _COMMA.match(line):
        hint = "Write a dot before the milliseconds; a comma is SubRip (SRT)"
    return f"{displayed_text(line)} has no valid times. {hint}."


def _settings(text: str, line: int) -> str | None:
    """Return the settings of a cue in canonical order, without the region. `None` if no settings remain.

    Raises InvalidCaptions for unknown, invalid or repeated settings.
    """
    found: dict[str, str] = {}
    for setting in text.replace("\t", " ").split(" "):
        if not setting:
            continue
        name, colon, value = setting.partition(":")
        if name not in _SETTINGS or not colon:
            raise InvalidCaptions(
                line, f"The setting {displayed_text(setting)} is unknown. Use {', '.join(_SETTINGS)}."
            )
        if not _SETTINGS[name].fullmatch(value):
            raise InvalidCaptions(line, f"The setting {displayed_text(setting)} has an invalid value.")
        if name in found:
            raise InvalidCaptions(line, f"The setting {name} is repeated. Keep one.")
        number, comma, alignment = value.rpartition(",")
        found[name] = f"{number}{comma}{_RENAMED.get(name, {}).get(alignment, alignment)}"
    settings = [f"{name}:{found[name]}" for name in _SETTINGS if name in found and name != "region"]
    return " ".join(settings) or None
