"""Results of media tasks. This module loads no decoder, so its import is fast."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

SMALL_PIXELS = 1800 * 1920 * 1080
"""Maximum number of pixels of a small video, in all frames together: a minute of 1080p at 30 frames per second."""
SMALL_FRAMES = 20_000
"""Maximum number of frames of a small video. Each frame costs decoding time, even if it has few pixels."""


@dataclass(frozen=True, slots=True)
class MediaInfo:
    """Properties of a source video.

    `width` and `height` are the displayed size in pixels: upright, with square pixels. `coded_width` and `coded_height`
    are the size of the decoded frames.
    """

    duration: int
    """Duration in milliseconds."""
    file_size: int
    """Size of the file in bytes."""
    format: str
    """Container format, such as `mp4`."""
    width: int
    height: int
    coded_width: int
    coded_height: int
    rotation: int
    """Clockwise rotation that makes the frames upright, in degrees."""
    sample_aspect_ratio: Fraction
    """Width of a pixel, divided by its height."""
    video_codec: str
    audio_codec: str | None
    frame_rate: float | None
    """Average number of frames per second; `None` if unknown."""
    hdr: str | None
    """HDR format: `pq`, `hlg`, or `None` for SDR."""
    pixel_format: str
    subtitles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Language codes of the subtitle tracks, by codec. Codes are as in the file, such as `{"subrip": ["eng"]}`."""

    @property
    def resolution(self) -> str:
        """Displayed size as text, such as `1920x1080`."""
        return f"{self.width}x{self.height}"

    def is_small(self, size: int) -> bool:
        """Return whether the video is small: at most `size` bytes, SMALL_FRAMES frames and SMALL_PIXELS pixels."""
        return self._need(size) <= 1

    def decode_budget_ms(self, size: int) -> int:
        """Return the duration, in milliseconds, of the longest part of this video that is within the limits of a small
        video.

        Callers use it as a budget for decoding. `size` is the maximum bytes of a small video (see `is_small`). The
        calculation assumes a constant bit rate and a constant frame rate.
        """
        return int(self.duration / max(1, self._need(size)))

    def _need(self, size: int) -> float:
        frames = (self.frame_rate or 30) * self.duration / 1000
        pixels = self.coded_width * self.coded_height * frames
        return max(frames / SMALL_FRAMES, pixels / SMALL_PIXELS, self.file_size / size)

    def document(self) -> dict[str, object]:
        """Return the properties as stored in the table and shown by the API. Unknown properties are omitted."""
        ratio = self.sample_aspect_ratio
        facts: dict[str, object | None] = {
            "duration": self.duration,
            "fileSize": self.file_size,
            "format": self.format,
            "resolution": self.resolution,
            "width": self.width,
            "height": self.height,
            "codedWidth": self.coded_width,
            "codedHeight": self.coded_height,
            "rotation": self.rotation,
            "sampleAspectRatio": f"{ratio.numerator}:{ratio.denominator}",
            "videoCodec": self.video_codec,
            "audioCodec": self.audio_codec,
            "frameRate": self.frame_rate,
            "hdr": self.hdr,
            "pixelFormat": self.pixel_format,
            "subtitles": {codec: [*languages] for codec, languages in self.subtitles.items()} or None,
        }
        return {name: value for name, value in facts.items() if value is not None}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "MediaInfo":
        """Parse the properties from a stored `document`."""
        rate = document.get("frameRate")
        return cls(
            duration=int(document["duration"]),
            file_size=int(document["fileSize"]),
            format=str(document["format"]),
            width=int(document["width"]),
            height=int(document["height"]),
            coded_width=int(document["codedWidth"]),
            coded_height=int(document["codedHeight"]),
            rotation=int(document["rotation"]),
            sample_aspect_ratio=Fraction(document["sampleAspectRatio"].replace(":", "/")),
            video_codec=str(document["videoCodec"]),
            audio_codec=document.get("audioCodec"),
            frame_rate=None if rate is None else float(rate),
            hdr=document.get("hdr"),
            pixel_format=str(document["pixelFormat"]),
            subtitles=document.get("subtitles", {}),
        )


@dataclass(frozen=True, slots=True)
class Picture:
    """Encoded image."""

    name: str
    """File name, the last part of the object's key."""
    content_type: str
    width: int
    """Width in pixels."""
    height: int
    """Height in pixels."""
    data: bytes
    """Content of the file."""


@dataclass(frozen=True, slots=True)
class Poster:
    """Poster of a video: images of one frame in several sizes and formats."""

    time: int
    """Time of the frame in milliseconds."""
    pictures: list[Picture]


@dataclass(frozen=True, slots=True)
class MediaChapter:
    """Proposed chapter. It ends at the start of the next chapter."""

    start: int
    """Milliseconds from the start of the video."""
    title: str | None = None
    """Title of the chapter in the container; `None` for a chapter without a title, or from a scene change."""


@dataclass(frozen=True, slots=True)
class Storyboard:
    """Storyboard of a video, and the proposed chapters."""

    sheet: Picture
    """Sprite sheet with all tiles, row by row."""
    cues: str
    """WebVTT file that maps each interval of the video to a tile of the sheet."""
    tiles: int
    """Number of tiles."""
    columns: int
    """Number of tiles in a row."""
    tile_width: int
    """Width of a tile in pixels."""
    tile_height: int
    """Height of a tile in pixels."""
    interval: int
    """Milliseconds of video per tile."""
    chapters: Sequence[MediaChapter] = ()
    """Proposed chapters."""


@dataclass(frozen=True, slots=True)
class SubtitleTrack:
    """Subtitle track of a source file: texts, or the reason why the texts cannot be used."""

    number: int
    """Index of the track in the file, from 0."""
    language: str
    """Language code in the file, such as `eng` (ISO 639-2)."""
    codec: str
    is_forced: bool
    """Whether the track only has texts for viewers who understand the spoken language, such as translated signs."""
    events: Sequence[tuple[int, int, str]]
    """Texts with their start and end in milliseconds, sorted by start."""
    fault: str | None = None
    """Reason why `events` is empty, as a sentence for the owner; `None` for a usable track."""


@dataclass(frozen=True, slots=True)
class Subtitles:
    """All subtitle tracks of a file."""

    tracks: Sequence[SubtitleTrack]
