"""Extraction of text subtitles. The index of an MP4 shows where the texts are; other files are read completely."""

import re
from collections.abc import Iterable, Sequence

from av.packet import Packet
from av.stream import Discard, Disposition, Stream

from shared.media import errors
from shared.media.errors import UnreadableVideo
from shared.media.results import Subtitles, SubtitleTrack
from shared.media.source import BLOCK, Range, Source
from shared.media.source_video import BUFFER, SourceVideo, open_video

UNKNOWN = "und"
"""ISO 639-2 code for a track without a language."""
MAX_READ = 4 << 30
"""Maximum bytes of a file that must be read completely, because it is not an MP4. S3 delivers about this amount within
a task's time limit."""
AHEAD = 4 * BLOCK
"""Maximum bytes of one request."""
GAP = 64 * 1024
"""Maximum number of bytes between two samples for which one request fetches both samples. It is faster to read these
bytes than to send another request."""
MAX_GAPS = 2
"""Maximum number of MP4 samples per text. A text may be followed by an empty sample, which separates it from the next
text."""
SHOWN_MS = 5000
"""Maximum milliseconds for which a text without a stated duration is shown. The text ends earlier if another text
starts."""
_NEVER = 1 << 62
"""Time after the end of any video, in milliseconds."""

_FORMATS = ("subrip", "text", "webvtt", "mov_text", "ass")
"""FFmpeg's names of the text formats that this module reads."""
_FIELDS_OF_ASS = 8
"""Number of fields before the text in a SubStation Alpha packet."""
_COMMENT = re.compile(r"\{[^\\{}][^{}]*\}|\{\}")
_DRAWING = re.compile(r"\{[^{}]*\\p[1-9]")
_BREAK = re.compile(r"\\[Nn]")

Event = tuple[int, int, str]
"""Start and end of a text in milliseconds, and the text."""


def noted(source_video: SourceVideo) -> dict[str, list[str]]:
    """Return the language codes of the subtitle tracks, by codec. Codes are as in the file, such as `eng`."""
    found: dict[str, list[str]] = {}
    for stream in source_video.container.streams.subtitles:
        found.setdefault(_codec(stream), []).append(_language(stream))
    return found


def subtitles(source: Source, most_bytes: int, most_events: int) -> Subtitles:
    """Return the texts of each subtitle track.

    Raises UnreadableVideo if the file is invalid, or too large to be read completely.

    `most_bytes` and `most_events` are the maximum bytes and the maximum number of texts of one track. A track that
    exceeds these limits, has an unsupported format, or is not UTF-8, has a `fault` instead of texts. The other tracks
    are read nevertheless.
    """
    with open_video(source) as source_video:
        streams = list(source_video.container.streams.subtitles)
        readers = {stream.index: _Reader(stream, most_bytes, most_events) for stream in streams}
        readable = [stream for stream in streams if not readers[stream.index].fault]
        if readable:
            for stream in source_video.container.streams:
                stream.discard = Discard.none if stream in readable else Discard.all
            _expect(source_video, readable)
            for packet in source_video.packets(*readable):
                readers[packet.stream.index].add(source_video, packet)
        return Subtitles([reader.track() for reader in readers.values()])


class _Reader:
    """Collector of the texts of one subtitle track."""

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
        return errors.TOO_MUCH_TEXT if self._stream.frames > MAX_GAPS * self._events else None

    def add(self, source_video: SourceVideo, packet: "Packet[Stream]") -> None:
        """Add the text of a packet. Set `fault` if the track exceeds the limits or is not UTF-8."""
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
        start = source_video.seconds(packet.pts, packet.time_base)
        end = source_video.seconds(packet.pts + packet.duration, packet.time_base) if packet.duration else None
        self._found.append((round(start * 1000), None if end is None else round(end * 1000), text))

    def track(self) -> SubtitleTrack:
        """Return the track with all collected texts, sorted by start. A track with a `fault` has no texts."""
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


def _expect(source_video: SourceVideo, streams: Iterable[Stream]) -> None:
    """Announce the byte ranges that will be read, because announced ranges are fetched concurrently.

    Raises UnreadableVideo if the whole file must be read, but exceeds MAX_READ.
    """
    if source_video.container.format.name.startswith("mov"):
        entries = (stream.index_entries for stream in streams)
        samples = ((each.pos, each.size) for every in entries for each in every)
        source_video.file.expect(_joined(sorted(samples)))
    elif source_video.file.size > MAX_READ:
        raise UnreadableVideo(errors.TOO_LONG_TO_READ)
    else:
        source_video.file.expect([(start, AHEAD) for start in range(0, source_video.file.size, AHEAD)])


def _joined(samples: Sequence[Range]) -> list[Range]:
    """Return byte ranges that contain these samples.

    Samples with a gap of at most GAP bytes share a range, unless the range would be larger than AHEAD bytes.
    Each range has at least BUFFER bytes, because FFmpeg never reads fewer bytes.
    """
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
    """Return the text of a packet in a codec of `_FORMATS`. Raises UnicodeDecodeError for text that is not UTF-8."""
    match codec:
        case "mov_text":  # length, text, and boxes with its style (3GPP TS 26.245)
            data = data[2 : 2 + int.from_bytes(data[:2], "big")]
            return data.decode("utf-16" if data[:2] in (b"\xfe\xff", b"\xff\xfe") else "utf-8")
        case "ass":
            text = data.decode().split(",", _FIELDS_OF_ASS)[-1]
            return "" if _DRAWING.search(text) else _BREAK.sub("\n", _COMMENT.sub("", text)).replace(r"\h", " ")
        case _:
            return data.decode()
