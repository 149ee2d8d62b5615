"""Parsing of captions from uploaded bytes."""

import codecs
from collections.abc import Callable, Mapping
from typing import Literal

from shared.captions import subrip, webvtt
from shared.captions.cues import MAX_BYTES, Cue, InvalidCaptions

Kind = Literal["vtt", "srt"]

_READERS: Mapping[Kind, Callable[[str], list[Cue]]] = {"vtt": webvtt.read, "srt": subrip.read}
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def parse_captions(content: bytes, kind: Kind) -> list[Cue]:
    """Return the cues of an uploaded WebVTT (vtt) or SubRip (srt) file. Raises InvalidCaptions if the file is invalid.

    The file must be UTF-8 and have at most MAX_BYTES. The run time is linear in the number of bytes. Use `webvtt.read`
    for stored captions, which can exceed MAX_BYTES because `webvtt.write` escapes text.
    """
    if len(content) > MAX_BYTES:
        raise InvalidCaptions(None, f"The captions must have at most {MAX_BYTES:,} bytes, not {len(content):,}.")
    return _READERS[kind](_decode(content))


def _decode(content: bytes) -> str:
    if content.startswith(_UTF_16):
        raise InvalidCaptions(1, "The text is UTF-16. Save it as UTF-8.")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        raise InvalidCaptions(
            before.count(b"\n") + 1,
            f"The byte 0x{content[error.start]:02X}, number {error.start + 1:,} of the file, is not UTF-8. Save the file as UTF-8.",
        ) from None
