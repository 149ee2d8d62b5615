"""Results of media tasks. Importing this module is cheap, because it loads no decoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

SMALL_PIXELS = 1800 * 1920 * 1080
SMALL_FRAMES = 20_000
"""Maximum frames of a small video. Each frame costs decoding time, regardless of its size."""


@dataclass(frozen=True, slots=True)
class MediaInfo:
    """Properties of a source video. `duration` is in milliseconds, `file_size` in bytes.

    `width` and `height` are the display size: upright, with square pixels. `coded_width` and `coded_height` are the
    size of the decoded frames.
    """

    duration: int
    file_size: int
    format: str
    width: int
    height: int
    coded_width: int
    coded_height: int
    rotation: int
    sample_aspect_ratio: Fraction
    video_codec: str
    audio_codec: str | None
    frame_rate: float | None
    hdr: str | None
    pixel_format: str
    subtitles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Languages of the subtitle tracks by codec, as named in the file, such as `{"subrip": ["eng"]}`."""

    @property
    def resolution(self) -> str:
        """Display size as text, such as `1920x1080`."""
        return f"{self.width}x{self.height}"

    def is_small(self, size: int) -> bool:
        """Return whether the video has at most `size` bytes, SMALL_FRAMES frames, and the pixels of a minute of 1080p."""
        return self._need(size) <= 1

    def decode_budget_ms(self, size: int) -> int:
        """Return the milliseconds of this video that cost as much to decode as the largest small video.

        Small is defined as in `is_small`. The calculation assumes a constant bit rate and frame rate.
        """
        return int(self.duration / max(1, self._need(size)))

    def _need(self, size: int) -> float:
        frames = (self.frame_rate or 30) * self.duration / 1000
        pixels = self.coded_width * self.coded_height * frames
        return max(frames / SMALL_FRAMES, pixels / SMALL_PIXELS, self.file_size / size)

    def document(self) -> dict[str, object]:
        """Return the properties as they are stored, without unknown values."""
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
    """An encoded image and its object name."""

    name: str
    content_type: str
    width: int
    height: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Poster:
    """Images of one frame, and its time in milliseconds."""

    time: int
    pictures: list[Picture]


@dataclass(frozen=True, slots=True)
class MediaChapter:
    """A proposed chapter, which ends at the start of the next."""

    start: int
    """Milliseconds."""
    title: str | None = None
    """Title in the container; `None` if the chapter comes from a scene change."""


@dataclass(frozen=True, slots=True)
class Storyboard:
    """Storyboard of a video: a sprite sheet, the WebVTT cues that map times to its tiles, and the proposed chapters.

    The sheet has one tile per interval (milliseconds), row by row.
    """

    sheet: Picture
    cues: str
    tiles: int
    columns: int
    tile_width: int
    tile_height: int
    interval: int
    chapters: Sequence[MediaChapter] = ()


@dataclass(frozen=True, slots=True)
class SubtitleTrack:
    """Subtitle track of a source file: its texts, or the reason why they cannot be used."""

    number: int
    """Index among the file's tracks, from 0."""
    language: str
    """Language as named in the file, such as `eng` (ISO 639-2)."""
    codec: str
    is_forced: bool
    """Whether the track only has texts for viewers who understand the spoken language, such as translated signs."""
    events: Sequence[tuple[int, int, str]]
    """Start and end in milliseconds, and text, sorted by start."""
    fault: str | None = None
    """Reason why `events` is empty, as a sentence for the owner."""


@dataclass(frozen=True, slots=True)
class Subtitles:
    """All subtitle tracks of a file."""

    tracks: Sequence[SubtitleTrack]
