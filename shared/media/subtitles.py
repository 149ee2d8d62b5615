"""Takes the text out of a film's subtitle tracks: of an MP4 by its index, of other containers by reading on to their end."""

import re
from collections.abc import Iterable, Sequence

from av.packet import Packet
from av.stream import Discard, Disposition, Stream

from shared.media import errors
from shared.media.errors import UnreadableFilm
from shared.media.film import BUFFER, Film, opened
from shared.media.results import Subtitles, SubtitleTrack
from shared.media.source import BLOCK, Range, Source

UNKNOWN = "und"
"""The language of a track that names none, in ISO 639-2."""
MOST_READ = 4 << 30
"""Bytes of a film whose tracks are found only by reading all of it: what comes from S3 in the time that a task has."""
AHEAD = 4 * BLOCK
GAP = 64 * 1024
"""Bytes between two texts that are read with them, as another request would cost more."""
MOST_GAPS = 2
"""Samples of an MP4's track for each text: an empty one stands between two of them."""
SHOWN_MS = 5000
"""How long a text is shown, if the film does not say it and no other follows."""
_NEVER = 1 << 62

_FORMATS = ("subrip", "text", "webvtt", "mov_text", "ass")
_FIELDS_OF_ASS = 8
"""Fields of SubStation Alpha before the text, as containers have it."""
_COMMENT = re.compile(r"\{[^\\{}][^{}]*\}|\{\}")
_DRAWING = re.compile(r"\{[^{}]*\\p[1-9]")
_BREAK = re.compile(r"\\[Nn]")

Event = tuple[int, int, str]


def noted(film: Film) -> dict[str, list[str]]:
    """The languages of a film's subtitle tracks by their codecs, both as the film has them."""
    found: dict[str, list[str]] = {}
    for stream in film.container.streams.subtitles:
        found.setdefault(_codec(stream), []).append(_language(stream))
    return found


def subtitles(source: Source, most_bytes: int, most_events: int) -> Subtitles:
    """Read the text of each subtitle track, up to these limits for each; raise UnreadableFilm.

    A track that gives none has a `fault` instead, which does not keep the others from being read.
    """
    with opened(source) as film:
        streams = list(film.container.streams.subtitles)
        readers = {stream.index: _Reader(stream, most_bytes, most_events) for stream in streams}
        wanted = [stream for stream in streams if not readers[stream.index].fault]
        if wanted:
            for stream in film.container.streams:
                stream.discard = Discard.none if stream in wanted else Discard.all
            _expect(film, wanted)
            for packet in film.packets(*wanted):
                readers[packet.stream.index].take(film, packet)
        return Subtitles([reader.track() for reader in readers.values()])


class _Reader:
    """Gathers the events of one track."""

    def __init__(self, stream: Stream, most_bytes: int, most_events: int) -> None:
        self._stream = stream
        self._bytes, self._events = most_bytes, most_events
        self._found: list[tuple[int, int | None, str]] = []
        self.fault = self._refusal()

    def _refusal(self) -> str | None:
        context: object | None = self._stream.codec_context
        if context is not None and self._stream.codec_context.codec.bitmap_sub:
            return errors.PICTURES
        if _codec(self._stream) not in _FORMATS:
            return errors.NO_TEXT_FORMAT
        return errors.TOO_MUCH_TEXT if self._stream.frames > MOST_GAPS * self._events else None

    def take(self, film: Film, packet: "Packet[Stream]") -> None:
        """Add what a packet says; a track that says too much, or what is no text, is given up."""
        if self.fault or packet.pts is None or not packet.size:
            return
        self._bytes -= packet.size
        try:
            text = _text(_codec(self._stream), bytes(packet))
        except UnicodeDecodeError:
            self.fault = errors.NOT_UTF_8
            return
        if not text.strip():
            return
        self._events -= 1
        if self._bytes < 0 or self._events < 0:
            self.fault = errors.TOO_MUCH_TEXT
            return
        start = film.seconds(packet.pts, packet.time_base)
        end = film.seconds(packet.pts + packet.duration, packet.time_base) if packet.duration else None
        self._found.append((round(start * 1000), None if end is None else round(end * 1000), text))

    def track(self) -> SubtitleTrack:
        """What was found, in the order of the starts."""
        found = [] if self.fault else sorted(self._found, key=lambda event: event[0])
        following = [start for start, _, _ in found[1:]] + [_NEVER]
        events = [
            (start, min(start + SHOWN_MS, later) if end is None else end, text)
            for (start, end, text), later in zip(found, following, strict=False)
        ]
        forced = bool(self._stream.disposition & Disposition.forced)
        return SubtitleTrack(
            self._stream.index, _language(self._stream), _codec(self._stream), forced, events, self.fault
        )


def _expect(film: Film, streams: Iterable[Stream]) -> None:
    """Say what will be read, so that it is fetched side by side."""
    if film.container.format.name.startswith("mov"):
        entries = (stream.index_entries for stream in streams)
        samples = ((each.pos, each.size) for every in entries for each in every)
        film.file.expect(_joined(sorted(samples)))
    elif film.file.size > MOST_READ:
        raise UnreadableFilm(errors.TOO_LONG_TO_READ)
    else:
        film.file.expect([(start, AHEAD) for start in range(0, film.file.size, AHEAD)])


def _joined(samples: Sequence[Range]) -> list[Range]:
    """The ranges of samples, those that lie near each other as one; FFmpeg reads a whole buffer of each."""
    ranges: list[Range] = []
    for start, size in samples:
        end = start + max(size, BUFFER)
        if ranges and start - sum(ranges[-1]) <= GAP and end - ranges[-1][0] <= AHEAD:
            ranges[-1] = ranges[-1][0], max(sum(ranges[-1]), end) - ranges[-1][0]
        else:
            ranges.append((start, end - start))
    return ranges


def _codec(stream: Stream) -> str:
    context: object | None = stream.codec_context
    return UNKNOWN if context is None else stream.codec_context.codec.canonical_name


def _language(stream: Stream) -> str:
    return (stream.metadata.get("language") or UNKNOWN)[:35]


def _text(codec: str, data: bytes) -> str:
    """The text of a packet; raises UnicodeDecodeError."""
    match codec:
        case "mov_text":  # its length, the text, and boxes that say how it is shown (3GPP TS 26.245)
            data = data[2 : 2 + int.from_bytes(data[:2], "big")]
            return data.decode("utf-16" if data[:2] in (b"\xfe\xff", b"\xff\xfe") else "utf-8")
        case "ass":
            text = data.decode().split(",", _FIELDS_OF_ASS)[-1]
            return "" if _DRAWING.search(text) else _BREAK.sub("\n", _COMMENT.sub("", text)).replace(r"\h", " ")
        case _:
            return data.decode()
