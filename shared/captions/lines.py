"""Splitting of text into lines, and of lines into blocks. Blank lines separate blocks."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from shared.captions.cues import InvalidCaptions

_UNWANTED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Surrogates, because UTF-8 cannot encode them, and all control characters except tab, LF and CR."""


class Block(NamedTuple):
    """Consecutive lines of a text, none of them blank."""

    line: int
    """Number of the first line, from 1."""
    lines: list[str]


def clean(text: str) -> str:
    """Return the text of a subtitle packet with LF line ends and without control characters."""
    return _UNWANTED.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\ufeff", ""))


def split_lines(text: str) -> list[str]:
    """Return the lines of a text, without a byte order mark. Raises InvalidCaptions for a control character.

    Lines end with LF, CRLF or CR. Other Unicode line separators, such as U+2028, do not end a line in WebVTT.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if unwanted := _UNWANTED.search(text):
        line = text.count("\n", 0, unwanted.start()) + 1
        advice = "Save the file as UTF-8, not UTF-16" if unwanted[0] == "\0" else "Remove it"
        raise InvalidCaptions(line, f"The control character U+{ord(unwanted[0]):04X} is not allowed. {advice}.")
    return text.split("\n")


def split_blocks(lines: list[str], is_blank: Callable[[str], bool], *, after: int = 0) -> Iterator[Block]:
    """Yield the blocks of `lines`. Ignores the first `after` lines, but includes them in line numbers."""
    block: list[str] = []
    for number, line in enumerate(lines[after:], after + 1):
        if not is_blank(line):
            block.append(line)
        elif block:
            yield Block(number - len(block), block)
            block = []
    if block:
        yield Block(len(lines) - len(block) + 1, block)
