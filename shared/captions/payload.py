"""The text within a cue of WebVTT: its tags, its times and its references (https://www.w3.org/TR/webvtt1/#caption-text).

Nothing but the tags of WebVTT gets through, each closed and in its order, so that no player can take the text for HTML.
"""

import html
import re
import unicodedata
from html.entities import html5
from typing import NamedTuple

from shared.captions.cues import InvalidCaptions, check_length, clock, shown

TAGS = ("c", "i", "b", "u", "ruby", "rt", "v", "lang")
_ANNOTATED = {"v": "the name of the voice, as in <v Ada>", "lang": "a language, as in <lang de>"}
"""The tags that need something after their name."""

_TIME = re.compile(r"(?:([0-9]{2,5}):)?([0-5][0-9]):([0-5][0-9])\.([0-9]{3})")
_PIECE = re.compile(r"<([^>]*)(>?)|[^<]+")
_AMPERSAND = re.compile(r"&(#[0-9]{1,7};|#[xX][0-9A-Fa-f]{1,6};|[A-Za-z][A-Za-z0-9]{1,31};)?")
_CLASS = re.compile(r"[^\t &<>.]+")
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*")
"""The form of BCP 47, without its registry."""


class _Open(NamedTuple):
    name: str
    shown: str
    line: int
    is_first: bool
    """Whether nothing comes before it in its cue."""


def milliseconds(text: str) -> int | None:
    """A time as WebVTT writes it, [hh:]mm:ss.mmm; None if it is written otherwise."""
    parts = _TIME.fullmatch(text)
    if not parts:
        return None
    hours, minutes, seconds, rest = parts.groups(default="0")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1000 + int(rest)


def checked(text: str, start: int, end: int, line: int) -> str:
    """The payload of a cue from `start` to `end` (milliseconds), as it is kept; its first line has the number `line`.

    Raises InvalidCaptions. What browsers read without doubt, but the specification wants otherwise, is kept as it should
    be: an `&` that begins no reference as `&amp;`, and `</c.name>`, as Netflix ends a class, as `</c>`.
    """
    check_length(text, line)
    kept: list[str] = []
    stack: list[_Open] = []
    first, last = line, start
    for piece in _PIECE.finditer(text):
        body = piece[1]
        if body is None:
            kept.append(_referenced(piece[0], line))
            line += piece[0].count("\n")
        elif not piece[2] or "\n" in body:
            raise _no_tag(piece[0], line)
        elif (time := milliseconds(body)) is not None:
            if not last < time < end:
                since = "the time before it" if last > start else "the cue's start"
                raise InvalidCaptions(
                    line,
                    f"the time <{body}> is not after {since}, {clock(last)}, and before the cue's end, {clock(end)}.",
                )
            last = time
            kept.append(piece[0])
        elif body.startswith("/"):
            kept.append(_closed(body, stack, line))
        else:
            name, tag = _opened(body, stack, line)
            stack.append(_Open(name, shown(piece[0]), line, piece.start() == 0))
            kept.append(tag)
    if stack and not (len(stack) == 1 and stack[0].name == "v" and stack[0].is_first):
        left = stack[-1]
        raise InvalidCaptions(
            left.line,
            f"the tag {left.shown} is not closed by </{left.name}>; only a <v> around the whole cue may stay open.",
        )
    whole = "".join(kept)
    check_length(whole, first)
    return whole


def _opened(body: str, stack: list[_Open], line: int) -> tuple[str, str]:
    """The name of a start tag, and the tag as it is kept."""
    head, blank, annotation = body.replace("\t", " ").partition(" ")
    name, *classes = head.split(".")
    # What follows a name stays as it is: without its last spaces, "-- >" would be the arrow that a text must not have.
    annotation = annotation.lstrip(" ")
    if name not in TAGS:
        raise _no_tag(f"<{body}>", line)
    if not all(_CLASS.fullmatch(each) for each in classes):
        raise InvalidCaptions(
            line, f"the tag {shown(f'<{body}>')} has an invalid class: after each dot comes its name."
        )
    if name == "rt" and not (stack and stack[-1].name == "ruby"):
        raise InvalidCaptions(line, "the tag <rt> stands within <ruby> only.")
    if name not in _ANNOTATED:
        if blank:
            raise InvalidCaptions(line, f"the tag {shown(f'<{body}>')} takes nothing after its name, and no space.")
        return name, f"<{head}>"
    if not annotation:
        raise InvalidCaptions(line, f"the tag {shown(f'<{body}>')} needs {_ANNOTATED[name]}.")
    if name == "lang" and not _LANGUAGE.fullmatch(annotation.rstrip(" ")):
        raise InvalidCaptions(line, f"the tag {shown(f'<{body}>')} names no language of BCP 47, such as de or pt-BR.")
    return name, f"<{head} {_referenced(annotation, line).replace('<', '&lt;')}>"


def _closed(body: str, stack: list[_Open], line: int) -> str:
    """An end tag as it is kept; what it ends is taken from the stack."""
    name = body[1:].partition(".")[0].rstrip("\t ")
    if name not in TAGS:
        raise _no_tag(f"<{body}>", line)
    if name == "ruby" and len(stack) > 1 and stack[-1].name == "rt":
        stack.pop()  # whose end tag may be left out there
    if not stack or stack[-1].name != name:
        rest = f"close {stack[-1].shown} first" if stack else "no tag is open"
        raise InvalidCaptions(line, f"the tag </{name}> closes nothing here: {rest}.")
    stack.pop()
    return f"</{name}>"


def _referenced(text: str, line: int) -> str:
    """Text with its references as they are, and every other `&` as one; raises InvalidCaptions."""
    kept = 0
    parts: list[str] = []
    for found in _AMPERSAND.finditer(text):
        reference = found[1]
        if reference and reference[0] == "#":
            character = html.unescape(found[0])
            if character in ("", "\ufffd") or (unicodedata.category(character) == "Cc" and character not in "\t\n\r"):
                at = line + text.count("\n", 0, found.start())
                raise InvalidCaptions(at, f"the reference {found[0]} stands for no character that can be shown.")
        elif not (reference and reference in html5):
            parts += text[kept : found.start()], "&amp;", reference or ""
            kept = found.end()
    return "".join((*parts, text[kept:]))


def _no_tag(text: str, line: int) -> InvalidCaptions:
    return InvalidCaptions(
        line,
        f"{shown(text)} is no tag of WebVTT ({', '.join(TAGS)}, or a time; in small letters): "
        'write &lt; for a "<" that is text.',
    )
