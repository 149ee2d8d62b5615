"""Finds out what a film is, and whether all of it is there."""

from fractions import Fraction

import av
from av.stream import Discard

from shared.media import errors
from shared.media.errors import UnreadableFilm
from shared.media.film import Film, boxes, keyframe, opened
from shared.media.frames import hdr
from shared.media.results import Facts
from shared.media.source import Source
from shared.media.subtitles import noted

TAIL_ENTRIES = 1000
TAIL_MS = 1000
MISSING_MS = 2000
"""What the last packet may lack to the length that the header states: muxers round, and tracks end apart."""


def probe(source: Source) -> Facts:
    """Read what a film is from its header, its first picture and its end; raise UnreadableFilm if it is none."""
    with opened(source) as film:
        _refuse_cut_file(film)
        frame = keyframe(film, 0)
        if frame is None:
            raise UnreadableFilm(errors.NO_FRAME)
        shown = film.shape(frame)
        duration = _duration(film)
        rate = film.video.average_rate
        audio = next((stream.codec_context for stream in film.container.streams.audio if stream.codec_context), None)
        return Facts(
            duration=duration,
            file_size=film.file.size,
            format=film.format,
            width=shown.width,
            height=shown.height,
            coded_width=frame.width,
            coded_height=frame.height,
            rotation=shown.rotation,
            sample_aspect_ratio=shown.pixel,
            video_codec=film.video.codec_context.codec.canonical_name,
            audio_codec=audio.codec.canonical_name if audio else None,
            # Beyond it, it is not a frame rate but a damaged header; and no document may have it.
            frame_rate=round(float(rate), 3) if rate and Fraction(1, 1000) <= rate <= 1000 else None,
            hdr=hdr(frame.color_trc),
            pixel_format=frame.format.name,
            subtitles=noted(film),
        )


def _refuse_cut_file(film: Film) -> None:
    """Compare what the container says to be there with the size of the file."""
    name = film.container.format.name
    if name.startswith("mov"):
        _refuse_cut_index(film)
    elif name.startswith("matroska"):
        if _segment_end(film.file.peek(0, 4096)) > film.file.size:
            raise UnreadableFilm(errors.TRUNCATED)
    elif name == "avi":
        head = film.file.peek(0, 8)
        # More than 2 GB are in further parts, which this does not count.
        if int.from_bytes(head[4:8], "little") + 8 > film.file.size:
            raise UnreadableFilm(errors.TRUNCATED)


def _refuse_cut_index(film: Film) -> int:
    """Compare the last samples' places with the size of the file; return where they end."""
    end = 0
    for stream in film.container.streams:
        entries = stream.index_entries
        for entry in entries[max(0, len(entries) - TAIL_ENTRIES) : len(entries)]:
            end = max(end, entry.pos + entry.size)
    if end > film.file.size:
        raise UnreadableFilm(errors.TRUNCATED)
    return end


def _segment_end(head: bytes) -> int:
    """Return where Matroska's outermost element ends; 0 when it does not say, as in a recording of a browser."""
    at = head.find(b"\x18\x53\x80\x67")
    if at < 0 or at + 12 > len(head):
        return 0
    start = at + 4
    length = 9 - head[start].bit_length()
    if length > 8:
        return 0
    value = int.from_bytes(head[start : start + length], "big") & ((1 << (7 * length)) - 1)
    return 0 if value == (1 << (7 * length)) - 1 else start + length + value


def _duration(film: Film) -> int:
    stated = film.container.duration
    if not stated or stated < 0:
        return _measured(film, 0)
    duration = round(stated / 1000)
    # An index was compared with the file's size already. Fragments have each their own, known when they are read; what
    # follows the last is another box, of which FFmpeg says nothing if it is incomplete.
    if film.container.format.name.startswith("mov") and any(kind == b"moof" for kind, _, _ in boxes(film.file)):
        end = _measured(film, duration - TAIL_MS)
        known = _refuse_cut_index(film)
        cut = any(stop > film.file.size for _, _, stop in boxes(film.file, known))
        if cut or duration - end > max(MISSING_MS, duration // 20):
            raise UnreadableFilm(errors.TRUNCATED)
    return duration


def _measured(film: Film, start: int) -> int:
    """Return the end of the last packet from a time on: it reads on to the end, without decoding."""
    end = 0
    for stream in film.container.streams:
        stream.discard = Discard.none
    try:
        film.container.seek(film.timestamp(max(0, start)), stream=film.video)
        for packet in film.packets():
            if packet.pts is not None:
                last = (packet.pts + (packet.duration or 0)) * packet.time_base * 1000
                end = max(end, round(last - Fraction(film.container.start_time or 0, 1000)))
    except av.FFmpegError:
        pass  # what was read until here counts
    finally:
        for stream in film.container.streams:
            stream.discard = Discard.none if stream.index == film.video.index else Discard.all
    return end
