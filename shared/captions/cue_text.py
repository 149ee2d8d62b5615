"""WebVTT cue payload: tags, timestamps and references (https://www.w3.org/TR/webvtt1/#caption-text).

A valid payload has only WebVTT tags, which are closed and properly nested. Therefore no player can interpret it as
HTML.
"""

import html
import re
import unicodedata
from html.entities import html5
from typing import NamedTuple

from shared.captions.cues import InvalidCaptions, check_length, displayed_text, format_time

TAGS = ("c", "i", "b", "u", "ruby", "rt", "v", "lang")
"""Names of WebVTT's tags."""
_ANNOTATED = {"v": "the name of the voice, as in <v Ada>", "lang": "a language, as in <lang de>"}
"""Tags that need an annotation after their name. The value describes the annotation in an error message."""

_TIME = re.compile(r"(?:([0-9]{2,5}):)?([0-5][0-9]):([0-5][0-9])\.([0-9]{3})")
_PIECE = re.compile(r"<([^>]*)(>?)|[^<]+")
_AMPERSAND = re.compile(r"&(#[0-9]{1,7};|#[xX][0-9A-Fa-f]{1,6};|[A-Za-z][A-Za-z0-9]{1,31};)?")
_CLASS = re.compile(r"[^\t &<>.]+")
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*")
"""Syntax of BCP 47 language tags. The language need not exist."""


class _Open(NamedTuple):
    """Start tag that is not closed yet."""

    name: str
    shown: str
    """Excerpt of the tag for an error message."""
    line: int
    """Number of the tag's line, from 1."""
    is_first: bool
    """Whether the tag is at the start of its cue."""


def milliseconds(text: str) -> int | None:
    """Return the milliseconds of a WebVTT timestamp, [hh:]mm:ss.mmm. `None` if the syntax is invalid."""
    parts = _TIME.fullmatch(text)
    if not parts:
        return None
    hours, minutes, seconds, rest = parts.groups(default="0")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1000 + int(rest)


def check_payload(text: str, start: int, end: int, line: int) -> str:
    """Check the payload of a cue, and return it in normalised form. Raises InvalidCaptions if the payload is invalid.

    `start` and `end` are the cue's times in milliseconds. `line` is the line number at which the payload starts.

    Two invalid forms are corrected, because all browsers interpret them in the same way. An `&` outside of a reference
    becomes `&amp;`. Netflix's end tag `</c.name>` becomes `</c>`.
    """
    check_length(text, line)
    checked: list[str] = []
    stack: list[_Open] = []
    first, last = line, start
    for piece in _PIECE.finditer(text):
        body = piece[1]
        if body is None:
            checked.append(_check_references(piece[0], line))
            line += piece[0].count("\n")
        elif not piece[2] or "\n" in body:
            raise _no_tag(piece[0], line)
        elif (time := milliseconds(body)) is not None:
            if not last < time < end:
                since = "the previous time" if last > start else "start of the cue"
                raise InvalidCaptions(
                    line,
                    f"The time <{body}> must be after {format_time(last)} ({since}) and before {format_time(end)} (end of the cue).",
                )
            last = time
            checked.append(piece[0])
        elif body.startswith("/"):
            checked.append(_close_tag(body, stack, line))
        else:
            name, tag = _open_tag(body, stack, line)
            stack.append(_Open(name, displayed_text(piece[0]), line, piece.start() == 0))
            checked.append(tag)
    if stack and not (len(stack) == 1 and stack[0].name == "v" and stack[0].is_first):
        unclosed = stack[-1]
        raise InvalidCaptions(
            unclosed.line,
            f"The tag {unclosed.shown} is not closed by </{unclosed.name}>. Only a <v> around the whole cue may stay open.",
        )
    whole = "".join(checked)
    check_length(whole, first)
    return whole


def _open_tag(body: str, stack: list[_Open], line: int) -> tuple[str, str]:
    """Return the name of a start tag, and the tag in normalised form. `body` is the text between `<` and `>`.

    Raises InvalidCaptions if the tag is invalid.
    """
    head, blank, annotation = body.replace("\t", " ").partition(" ")
    name, *classes = head.split(".")
    # Trailing spaces of the annotation are significant: without them, "-- >" would become the forbidden arrow.
    annotation = annotation.lstrip(" ")
    if name not in TAGS:
        raise _no_tag(f"<{body}>", line)
    if not all(_CLASS.fullmatch(each) for each in classes):
        raise InvalidCaptions(
            line, f"The tag {displayed_text(f'<{body}>')} has an invalid class. Write a name after each dot."
        )
    if name == "rt" and not (stack and stack[-1].name == "ruby"):
        raise InvalidCaptions(line, "The tag <rt> is outside of <ruby>. Put it within <ruby>.")
    if name not in _ANNOTATED:
        if blank:
            raise InvalidCaptions(
                line, f"The tag {displayed_text(f'<{body}>')} must not have text or spaces after its name."
            )
        return name, f"<{head}>"
    if not annotation:
        raise InvalidCaptions(line, f"The tag {displayed_text(f'<{body}>')} needs {_ANNOTATED[name]}.")
    if name == "lang" and not _LANGUAGE.fullmatch(annotation.rstrip(" ")):
        raise InvalidCaptions(
            line, f"The tag {displayed_text(f'<{body}>')} must name a BCP 47 language, such as de or pt-BR."
        )
    return name, f"<{head} {_check_references(annotation, line).replace('<', '&lt;')}>"


def _close_tag(body: str, stack: list[_Open], line: int) -> str:
    """Return an end tag in normalised form, and remove its start tag from `stack`.

    `body` is the text between `<` and `>`. Raises InvalidCaptions if the tag is unknown or closes no open tag.
    """
    name = body[1:].partition(".")[0].rstrip("\t ")
    if name not in TAGS:
        raise _no_tag(f"<{body}>", line)
    if name == "ruby" and len(stack) > 1 and stack[-1].name == "rt":
        stack.pop()  # </rt> is optional before </ruby>
    if not stack or stack[-1].name != name:
        rest = f"Close {stack[-1].shown} first" if stack else "Remove it"
        raise InvalidCaptions(line, f"The tag </{name}> closes no open tag. {rest}.")
    stack.pop()
    return f"</{name}>"


def _check_references(text: str, line: int) -> str:
    """Return the text with `&amp;` for each `&` that begins no valid character reference.

    Raises InvalidCaptions for a numeric reference to a character that is not printable. `line` is the line number at
    which the text starts.
    """
    copied_to = 0
    parts: list[str] = []
    for found in _AMPERSAND.finditer(text):
        reference = found[1]
        if reference and reference[0] == "#":
            character = html.unescape(found[0])
            if character in ("", "\ufffd") or (unicodedata.category(character) == "Cc" and character not in "\t\n\r"):
                at = line + text.count("\n", 0, found.start())
                raise InvalidCaptions(at, f"The reference {found[0]} does not stand for a printable character.")
        elif not (reference and reference in html5):
            parts += text[copied_to : found.start()], "&amp;", reference or ""
            copied_to = found.end()
    return "".join((*parts, text[copied_to:]))


def _no_tag(text: str, line: int) -> InvalidCaptions:
    return InvalidCaptions(
        line,
        f"{displayed_text(text)} is not a WebVTT tag ({', '.join(TAGS)}, or a time). "
        'Write &lt; for a "<" that is text.',
    )
