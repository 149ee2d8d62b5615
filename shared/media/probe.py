"""Probing of a source file: returns the media properties, and rejects incomplete files."""

from fractions import Fraction

import av
from av.stream import Discard

from shared.media import errors
from shared.media.errors import UnreadableVideo
from shared.media.frames import hdr
from shared.media.results import MediaInfo
from shared.media.source import Source
from shared.media.source_video import SourceVideo, boxes, keyframe, open_video
from shared.media.subtitles import noted

TAIL_ENTRIES = 1000
"""Number of entries at the end of an index that the probe compares with the size of the file."""
TAIL_MS = 1000
"""Length, in milliseconds, of the part at the end of a fragmented video from which the probe reads all packets."""
MISSING_MS = 2000
"""Maximum milliseconds from the end of a complete file's last packet to the stated end of the video. For videos of
more than 40 seconds, the maximum is 5 % of the duration instead. The two ends differ because muxers round times, and
tracks have different lengths.
"""


def probe(source: Source) -> MediaInfo:
    """Return the properties of a video file. Reads the header, the first frame and the end of the file.

    Raises UnreadableVideo if the file is truncated, or is not a readable video.
    """
    with open_video(source) as source_video:
        _require_whole_file(source_video)
        frame = keyframe(source_video, 0)
        if frame is None:
            raise UnreadableVideo(errors.NO_FRAME)
        shown = source_video.shape(frame)
        duration = _duration(source_video)
        rate = source_video.video.average_rate
        audio = next(
            (stream.codec_context for stream in source_video.container.streams.audio if stream.codec_context), None
        )
        return MediaInfo(
            duration=duration,
            file_size=source_video.file.size,
            format=source_video.format,
            width=shown.width,
            height=shown.height,
            coded_width=frame.width,
            coded_height=frame.height,
            rotation=shown.rotation,
            sample_aspect_ratio=shown.pixel,
            video_codec=source_video.video.codec_context.codec.canonical_name,
            audio_codec=audio.codec.canonical_name if audio else None,
            # Values outside of this range come from a damaged header, and API documents do not allow them.
            frame_rate=round(float(rate), 3) if rate and Fraction(1, 1000) <= rate <= 1000 else None,
            hdr=hdr(frame.color_trc),
            pixel_format=frame.format.name,
            subtitles=noted(source_video),
        )


def _require_whole_file(source_video: SourceVideo) -> None:
    """Raise UnreadableVideo if the file is truncated, that is, shorter than its container states."""
    name = source_video.container.format.name
    if name.startswith("mov"):
        _require_whole_index(source_video)
    elif name.startswith("matroska"):
        if _segment_end(source_video.file.peek(0, 4096)) > source_video.file.size:
            raise UnreadableVideo(errors.TRUNCATED)
    elif name == "avi":
        head = source_video.file.peek(0, 8)
        # This checks only the first RIFF chunk. AVI files of more than 2 GB have further chunks.
        if int.from_bytes(head[4:8], "little") + 8 > source_video.file.size:
            raise UnreadableVideo(errors.TRUNCATED)


def _require_whole_index(source_video: SourceVideo) -> int:
    """Return the offset at which the last samples in the index end. Raises UnreadableVideo if the file ends before this
    offset."""
    end = 0
    for stream in source_video.container.streams:
        entries = stream.index_entries
        for entry in entries[max(0, len(entries) - TAIL_ENTRIES) : len(entries)]:
            end = max(end, entry.pos + entry.size)
    if end > source_video.file.size:
        raise UnreadableVideo(errors.TRUNCATED)
    return end


def _segment_end(head: bytes) -> int:
    """Return the offset of the end of Matroska's segment element. `head` is the start of the file.

    Returns 0 if there is no such element, or if its length is unknown, as in recordings by browsers.
    """
    at = head.find(b"\x18\x53\x80\x67")
    if at < 0 or at + 12 > len(head):
        return 0
    start = at + 4
    length = 9 - head[start].bit_length()
    if length > 8:
        return 0
    value = int.from_bytes(head[start : start + length], "big") & ((1 << (7 * length)) - 1)
    return 0 if value == (1 << (7 * length)) - 1 else start + length + value


def _duration(source_video: SourceVideo) -> int:
    stated = source_video.container.duration
    if not stated or stated < 0:
        return _measured(source_video, 0)
    duration = round(stated / 1000)
    # The index was already compared with the file's size. Fragments have their own indexes, which FFmpeg reads later.
    # FFmpeg does not report an incomplete box after the last complete fragment.
    if source_video.container.format.name.startswith("mov") and any(
        kind == b"moof" for kind, _, _ in boxes(source_video.file)
    ):
        end = _measured(source_video, duration - TAIL_MS)
        indexed_end = _require_whole_index(source_video)
        is_truncated = any(stop > source_video.file.size for _, _, stop in boxes(source_video.file, indexed_end))
        if is_truncated or duration - end > max(MISSING_MS, duration // 20):
            raise UnreadableVideo(errors.TRUNCATED)
    return duration


def _measured(source_video: SourceVideo, start: int) -> int:
    """Return the end time of the last packet, in milliseconds.

    Reads all packets from the time `start` (milliseconds), without decoding them.
    """
    end = 0
    for stream in source_video.container.streams:
        stream.discard = Discard.none
    try:
        source_video.container.seek(source_video.timestamp(max(0, start)), stream=source_video.video)
        for packet in source_video.packets():
            if packet.pts is not None:
                last = (packet.pts + (packet.duration or 0)) * packet.time_base * 1000
                end = max(end, round(last - Fraction(source_video.container.start_time or 0, 1000)))
    except av.FFmpegError:
        pass  # the packets read so far determine the end
    finally:
        for stream in source_video.container.streams:
            stream.discard = Discard.none if stream.index == source_video.video.index else Discard.all
    return end
