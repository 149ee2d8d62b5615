"""Opening of video files, and decoding of single frames."""

import itertools
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Discard, Disposition, Stream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from shared.media import errors
from shared.media.errors import UnreadableVideo
from shared.media.frames import Shape, shape
from shared.media.results import SMALL_FRAMES
from shared.media.source import BLOCK, LARGEST_BLOCK, Range, Source, SourceFile

DEMUXERS = "mov,matroska,avi,flv,mpegts,mpeg,asf,ogg,mxf"
"""FFmpeg's names of the accepted containers. Playlist formats are excluded, because FFmpeg would open the files that a
playlist names."""

MAX_PIXELS = 8192 * 4320
"""Maximum number of pixels of a frame."""
MAX_FRAMES = 5_000_000
"""Maximum number of frames of a video: 23 hours at 60 frames per second. Also the maximum number of packets to read
from a file."""
MAX_DECODED = 10 * SMALL_FRAMES
"""Maximum number of packets of one file that are decoded. A file with a correct header needs fewer."""
MAX_TRACKS = 100
"""Maximum number of tracks of a file."""
MAX_BOXES = 64
"""Maximum number of boxes that are read at one level of an ISO file."""
MAX_DEPTH = 8
"""Maximum depth of nested boxes in a track of an ISO file."""
STEPS_BACK = (0, 5_000, 30_000, 1 << 40)
"""Milliseconds before the requested time, one value per attempt. Each attempt seeks to the requested time minus its
value."""
BUFFER = 8 * 1024
"""Minimum bytes of a read by FFmpeg. If a keyframe is larger, FFmpeg reads exactly to its last byte."""
INDEXED = ("mov", "matroska", "avi")
"""FFmpeg's names of containers with a reliable index. For MPEG streams, FFmpeg only guesses an index while it seeks."""
INDEX_GAP_MS = 2000
"""Maximum milliseconds from the last entry in the index of an MP4 to the end of the video. A larger gap shows that the
index is incomplete: in a fragmented file, FFmpeg only has the index of the fragments that it has read.
"""
RESYNC_PACKETS = 300
"""Maximum number of packets to read in search of a keyframe, and maximum number of consecutive undecodable packets."""

_PICTURES = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*")
_PICTURE_BRANDS = (b"heic", b"heix", b"heim", b"mif1", b"avif", b"avis", b"msf1", b"hevc")
_SOUNDS = (b"ID3", b"fLaC", b"\xff\xfb", b"\xff\xf3", b"\xff\xf1", b"\xff\xf9", b"#!AMR")
_ISO_BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot")
_ENCRYPTED = (b"encv", b"enca", b"drmi", b"drms")


class _ReferencedFile(Exception):
    """The container refers to another file."""


@dataclass(frozen=True, slots=True)
class SourceVideo:
    """Video file that is open until the `with` block of `open_video` ends."""

    file: SourceFile
    container: InputContainer
    video: VideoStream
    """Stream of the video track that players show by default."""
    format: str
    """Name of the container format, such as `mp4`."""
    _shapes: dict[tuple[int, int], Shape] = field(default_factory=dict)
    _packets: Iterator[int] = field(default_factory=lambda: iter(range(MAX_FRAMES)))
    _decodes: Iterator[int] = field(default_factory=lambda: iter(range(MAX_DECODED)))

    def packets(self, *streams: Stream) -> Iterator["Packet[Stream]"]:
        """Yield the packets of these streams from the current position.

        Raises UnreadableVideo after MAX_FRAMES packets of this file.
        """
        for packet in self.container.demux(*streams):
            if next(self._packets, None) is None:
                raise UnreadableVideo(errors.TOO_MANY_FRAMES)
            yield packet

    def decoded(self, packet: "Packet[Stream]") -> list[VideoFrame]:
        """Decode a packet of the video stream, and return the frames.

        Raises UnreadableVideo after MAX_DECODED packets of this file, and the errors of FFmpeg.
        """
        if next(self._decodes, None) is None:
            raise UnreadableVideo(errors.TOO_MANY_FRAMES)
        return self.video.decode(packet)

    def shape(self, frame: VideoFrame) -> Shape:
        """Return the display geometry of a frame. The result is cached by the frame's size."""
        size = frame.width, frame.height
        if size not in self._shapes:
            self._shapes[size] = shape(frame, self.video.sample_aspect_ratio)
        return self._shapes[size]

    def milliseconds(self, timestamp: int) -> int:
        """Return the milliseconds from the start of the file to a timestamp of the video stream."""
        return round(self.seconds(timestamp) * 1000)

    def seconds(self, timestamp: int, base: Fraction | None = None) -> Fraction:
        """Return the seconds from the start of the file to a timestamp, at least 0.

        `base` is the time base of the timestamp. The default is the video stream's time base.
        """
        return max(Fraction(0), timestamp * (base or self._base) - self._start)

    def timestamp(self, milliseconds: int) -> int:
        """Return the timestamp of the video stream for a time in milliseconds from the start of the file."""
        return round((Fraction(milliseconds, 1000) + self._start) / self._base)

    @property
    def _base(self) -> Fraction:
        return self.video.time_base or Fraction(1, av.time_base)

    @property
    def _start(self) -> Fraction:
        return Fraction(self.container.start_time or 0, av.time_base)


@dataclass(frozen=True, slots=True)
class GroupOfPictures:
    """Group of pictures (GOP): a keyframe, and the frames up to the next keyframe."""

    start: int
    """Time of the keyframe in milliseconds."""
    end: int
    """Time of the next keyframe, or end of the video, in milliseconds."""
    keyframe: Range
    """Byte range of the keyframe. The length is estimated if the index does not contain it."""


@contextmanager
def open_video(source: Source) -> Iterator[SourceVideo]:
    """Open a video file for the duration of the `with` block.

    Raises UnreadableVideo for invalid files and for all errors of FFmpeg and PyAV. Raises the errors of `source`,
    although FFmpeg treats these as the end of the file.
    """
    file = SourceFile(source)
    if not file.size:
        raise UnreadableVideo(errors.EMPTY)
    try:
        kind = _sniff(file)
        _refuse_huge_index(file, kind)
        with _container(file, kind) as container:
            _refuse_many_tracks(container)
            _refuse_encrypted(file, container)
            yield SourceVideo(file, container, _video(container), _format(file, container))
    except Exception as error:  # errors that are not about the file are raised again
        if file.failure is not None:
            raise file.failure from None
        # Some FFmpeg errors are subclasses of MemoryError or EOFError, but their cause is the file.
        if isinstance(error, av.FFmpegError | _ReferencedFile) or _is_raised_by_pyav(error):
            raise UnreadableVideo(errors.DAMAGED) from error
        raise
    if file.failure is not None:
        raise file.failure


def keyframe(source_video: SourceVideo, milliseconds: int) -> VideoFrame | None:
    """Return the last keyframe at or before a time. If it is damaged, return the next frame that can be decoded.

    Returns `None` if no frame can be decoded.
    """
    _seek(source_video, milliseconds)
    for packet in itertools.islice(source_video.packets(source_video.video), RESYNC_PACKETS):
        if not packet.is_keyframe or not packet.size:
            continue
        try:
            frames = source_video.decoded(packet)
            # Some decoders return a frame only after more packets. A flush returns the frame immediately.
            frames = frames or source_video.video.decode(None)
        except av.FFmpegError:
            frames = []
        if frames:
            return frames[0]
        break
    _seek(source_video, milliseconds)
    return next(itertools.islice(_frames(source_video), 1), None)


def groups(source_video: SourceVideo, times: Sequence[int], duration: int) -> list[GroupOfPictures] | None:
    """Return the group of pictures at each time (milliseconds), in the order of `times`.

    `duration` is in milliseconds. Returns `None` if the container has no index that covers the whole video.
    """
    name = source_video.container.format.name
    if not name.startswith(INDEXED):
        return None
    _seek(source_video, 0)  # FFmpeg reads Matroska's index at the first seek
    index = source_video.video.index_entries
    if len(index) <= 1:
        return None
    if name.startswith("mov") and source_video.milliseconds(index[len(index) - 1].timestamp) < duration - INDEX_GAP_MS:
        return None
    found = []
    for time in times:
        timestamp = source_video.timestamp(time)
        number = max(0, index.search_timestamp(timestamp))
        entry, following = index[number], index.search_timestamp(timestamp + 1, backward=False)
        end = source_video.milliseconds(index[following].timestamp) if following >= 0 else duration
        length = min(
            max(entry.size, BUFFER) if entry.size else BLOCK, LARGEST_BLOCK, source_video.file.size - entry.pos
        )
        found.append(GroupOfPictures(source_video.milliseconds(entry.timestamp), end, (entry.pos, length)))
    return found


def frame_at(source_video: SourceVideo, milliseconds: int) -> VideoFrame | None:
    """Return the frame that a player shows at the time `milliseconds`; `None` if no frame can be decoded.

    Decodes all frames from the last keyframe before this time.
    """
    # In files without an index, such as MPEG streams, a seek can end after the requested time. The next attempt seeks
    # to an earlier time.
    for back in STEPS_BACK:
        shown = None
        _seek(source_video, max(0, milliseconds - back))
        for frame in _frames(source_video):
            # Times are rounded to milliseconds, so a frame up to half a millisecond later is the requested one.
            if frame.pts is None or source_video.milliseconds(frame.pts) > milliseconds:
                if shown is not None or back >= milliseconds:
                    return shown or frame
                break
            shown = frame
        if shown is not None:
            return shown
    return None


def frames(source_video: SourceVideo, milliseconds: int = 0) -> Iterator[VideoFrame]:
    """Yield all frames, starting with the keyframe before a time (milliseconds). Skips frames that cannot be decoded."""
    _seek(source_video, milliseconds)
    yield from _frames(source_video)


def _frames(source_video: SourceVideo) -> Iterator[VideoFrame]:
    failed = 0
    for packet in source_video.packets(source_video.video):
        try:
            decoded = source_video.decoded(packet)
        except av.FFmpegError:
            failed += 1
            if failed > RESYNC_PACKETS:
                return
            continue
        if decoded:
            failed = 0
        yield from decoded


def _seek(source_video: SourceVideo, milliseconds: int) -> None:
    target, first = source_video.timestamp(milliseconds), source_video.video.start_time
    # If a seek to the requested time fails, as in a file without an index, seek to the start of the video, or else to
    # the start of the file. The video may begin slightly after the audio.
    for timestamp, any_frame in (
        (target, False),
        (target if first is None else first, False),
        (source_video.timestamp(0), True),
    ):
        try:
            source_video.container.seek(timestamp, stream=source_video.video, any_frame=any_frame)
        except av.FFmpegError:
            continue
        return
    source_video.video.codec_context.flush_buffers()  # no seek succeeded: continue from the current position


def _sniff(file: SourceFile) -> bytes:
    """Return the first 4 KB of a file. Raises UnreadableVideo if these bytes show that the file is an image, or that it
    has only sound."""
    head = file.peek(0, 4096)
    if head.startswith(_PICTURES) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        raise UnreadableVideo(errors.PICTURE)
    if head[4:8] == b"ftyp" and head[8:12] in _PICTURE_BRANDS:
        raise UnreadableVideo(errors.PICTURE)
    if head.startswith(_SOUNDS) or (head[:4] == b"RIFF" and head[8:12] == b"WAVE"):
        raise UnreadableVideo(errors.NO_VIDEO)
    return head


def _container(file: SourceFile, head: bytes) -> InputContainer:
    iso = head[4:8] in _ISO_BOXES
    options = {"format_whitelist": DEMUXERS}
    if iso:
        # The index describes the streams completely, so probing the media data for them is unnecessary.
        options |= {"probesize": "65536", "fpsprobesize": "0"}
    try:
        return av.open(
            file,
            "r",
            container_options=options,
            buffer_size=BUFFER,
            metadata_errors="replace",
            io_open=_no_other_file,
        )
    except av.FFmpegError as error:
        ends = {kind: end for kind, _, end in boxes(file)} if iso else {}
        if iso and (b"moov" not in ends or ends[b"moov"] > file.size):
            raise UnreadableVideo(errors.NO_INDEX) from error
        recognised = iso or head.startswith(
            (b"\x1aE\xdf\xa3", b"RIFF", b"FLV", b"OggS", b"\0\0\1\xba", b"\x30\x26\xb2")
        )
        raise UnreadableVideo(errors.DAMAGED if recognised else errors.NOT_A_VIDEO) from error


def _refuse_huge_index(file: SourceFile, head: bytes) -> None:
    """Raise UnreadableVideo if the index of a video track has more than MAX_FRAMES samples.

    FFmpeg would allocate memory for all samples at once. `head` is the start of the file.
    """
    if head[4:8] not in _ISO_BOXES:
        return
    for track in _tracks(file):
        # Audio tracks are not checked. They may have more samples, but for PCM, FFmpeg allocates memory per chunk of
        # samples instead of per sample.
        if track.handler == b"vide" and track.samples > MAX_FRAMES:
            raise UnreadableVideo(errors.TOO_MANY_FRAMES)


def _refuse_many_tracks(container: InputContainer) -> None:
    if len(container.streams) > MAX_TRACKS:
        raise UnreadableVideo(errors.TOO_MANY_TRACKS)
    if any(stream.frames > MAX_FRAMES for stream in container.streams.video):
        raise UnreadableVideo(errors.TOO_MANY_FRAMES)


def _is_raised_by_pyav(error: Exception) -> bool:
    """Return whether PyAV raised `error`.

    For damaged files, PyAV also raises errors that are not FFmpeg's, such as IndexError.
    """
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    # Compiled modules have file names relative to PyAV's source tree.
    return frame.f_code.co_filename.startswith(("av/", str(Path(av.__file__).parent)))


def _no_other_file(url: str, flags: int, options: object) -> object:
    """Raise an error instead of opening a file to which the container refers. The reference may be to any local file or
    address."""
    raise _ReferencedFile(url)


def _video(container: InputContainer) -> VideoStream:
    # The cover image of an audio file is also a video stream.
    streams = [stream for stream in container.streams.video if not stream.disposition & Disposition.attached_pic]
    if not streams:
        raise UnreadableVideo(errors.NO_VIDEO)
    video = next((stream for stream in streams if stream.disposition & Disposition.default), streams[0])
    decoder: object | None = video.codec_context
    if decoder is None:
        raise UnreadableVideo(errors.UNSUPPORTED)
    width, height = video.codec_context.width, video.codec_context.height
    if width * height > MAX_PIXELS:
        raise UnreadableVideo(errors.TOO_LARGE)
    video.codec_context.options = {"max_pixels": str(MAX_PIXELS)}
    for stream in container.streams:
        stream.discard = Discard.none if stream.index == video.index else Discard.all
    return video


def _refuse_encrypted(file: SourceFile, container: InputContainer) -> None:
    # With Common Encryption, FFmpeg reports the codec below the encryption, and would decode noise. An encrypted WebM
    # has a key id in its metadata.
    protected = container.format.name.startswith("mov") and any(
        entry in _ENCRYPTED for track in _tracks(file) for entry in track.entries
    )
    if protected or any("enc_key_id" in stream.metadata for stream in container.streams):
        raise UnreadableVideo(errors.ENCRYPTED)


def _format(file: SourceFile, container: InputContainer) -> str:
    """Return the name of the format, such as `mp4`.

    FFmpeg's name is not sufficient: it is the same for QuickTime, MP4 and 3GP, and the same for Matroska and WebM.
    """
    name = container.format.name
    head = file.peek(0, 4096)
    if name.startswith("mov"):
        brand = head[8:12] if head[4:8] == b"ftyp" else b"qt  "
        if brand == b"qt  ":
            return "mov"
        return "3gp" if brand[:2] == b"3g" else "mp4"
    if name.startswith("matroska"):
        return "webm" if b"\x42\x82\x84webm" in head[:256] else "mkv"
    return {"mpegts": "ts", "mpeg": "mpg", "asf": "wmv", "ogg": "ogv"}.get(name, name)


def boxes(file: SourceFile, start: int = 0, end: int | None = None) -> Iterator[tuple[bytes, int, int]]:
    """Yield type, content offset and end offset of each box between two offsets of an ISO file.

    The boxes are not validated. Stops after the first fragment (`moof`), and after MAX_BOXES boxes.
    """
    end = file.size if end is None else end
    for _ in range(MAX_BOXES):
        header = file.peek(start, 16) if start + 8 <= end else b""
        if len(header) < 8:
            return
        length, kind, content = int.from_bytes(header[:4], "big"), header[4:8], 8
        if length == 1:
            length, content = int.from_bytes(header[8:16], "big"), 16
        elif length == 0:
            length = end - start
        yield kind, start + content, start + length
        if length < content or kind == b"moof":
            return
        start += length


@dataclass(slots=True)
class _Track:
    """Track of an ISO file. The values are not verified."""

    handler: bytes = b""
    """Handler type: `vide`, `soun` or another."""
    entries: list[bytes] = field(default_factory=list)
    """Types of the track's sample entries."""
    samples: int = 0
    """Number of samples in the index."""


def _tracks(file: SourceFile) -> Iterator[_Track]:
    """Yield the tracks of an ISO file (ISO/IEC 14496-12, sections 8.3 to 8.7)."""
    for kind, content, stop in boxes(file):
        if kind == b"moov":
            for inner, start, end in boxes(file, content, stop):
                if inner == b"trak":
                    track = _Track()
                    _fill(track, file, start, end)
                    yield track


def _fill(track: _Track, file: SourceFile, start: int, end: int, depth: int = 0) -> None:
    for kind, content, stop in boxes(file, start, end):
        match kind:
            case b"stsd":
                track.entries += [entry for entry, _, _ in boxes(file, content + 8, stop)]
            case b"stsz" | b"stz2":
                track.samples = max(track.samples, int.from_bytes(file.peek(content + 8, 4), "big"))
            case b"hdlr" if not track.handler:
                track.handler = file.peek(content + 8, 4)
            case b"mdia" | b"minf" | b"stbl" if depth < MAX_DEPTH:
                _fill(track, file, content, stop, depth + 1)
