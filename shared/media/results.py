"""What is known of a film and made of it. Importing it costs nothing: no decoder comes with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

SMALL_PIXELS = 1800 * 1920 * 1080
SMALL_FRAMES = 20_000
"""Each frame costs some time, however small it is."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a film is. Sizes are as it is shown: upright and with square pixels, except the coded ones."""

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
    """The languages of its subtitle tracks by their codecs, both as the film has them, such as `{"subrip": ["eng"]}`."""

    @property
    def resolution(self) -> str:
        """The size as people write it."""
        return f"{self.width}x{self.height}"

    def is_small(self, size: int) -> bool:
        """Whether a film of at most this many bytes may be read and decoded whole: not more than a minute of 1080p."""
        return self._need(size) <= 1

    def affordable_ms(self, size: int) -> int:
        """Return how many milliseconds of the film are as much work as the longest that is small, at its mean rates."""
        return int(self.duration / max(1, self._need(size)))

    def _need(self, size: int) -> float:
        frames = (self.frame_rate or 30) * self.duration / 1000
        pixels = self.coded_width * self.coded_height * frames
        return max(frames / SMALL_FRAMES, pixels / SMALL_PIXELS, self.file_size / size)

    def document(self) -> dict[str, object]:
        """Return the facts as they are stored; what is not known is left out."""
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
    def of(cls, document: Mapping[str, Any]) -> "Facts":
        """Return the facts as `document` gave them."""
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
    """A picture as it is stored."""

    name: str
    content_type: str
    width: int
    height: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Poster:
    """A frame's pictures, and the time it is shown at, in milliseconds."""

    time: int
    pictures: list[Picture]


@dataclass(frozen=True, slots=True)
class Chapter:
    """A chapter that is proposed, up to the start of the next."""

    start: int
    """In milliseconds."""
    title: str | None = None
    """If the film has one."""


@dataclass(frozen=True, slots=True)
class Storyboard:
    """A sheet of tiles, row by row, one for each interval; the cues that point into it; and the chapters that the frames suggest."""

    sheet: Picture
    cues: str
    tiles: int
    columns: int
    tile_width: int
    tile_height: int
    interval: int
    chapters: Sequence[Chapter] = ()


@dataclass(frozen=True, slots=True)
class SubtitleTrack:
    """The texts of a film's subtitle track, or why there are none."""

    number: int
    """Among the film's tracks, from 0."""
    language: str
    """As the film has it, such as `eng` (ISO 639-2)."""
    codec: str
    is_forced: bool
    """Whether it has only what viewers need who understand the film, such as signs."""
    events: Sequence[tuple[int, int, str]]
    """When each text is shown and until when, in milliseconds, in the order of the starts; and what it says."""
    fault: str | None = None
    """Why it has no texts: a sentence for its owner."""


@dataclass(frozen=True, slots=True)
class Subtitles:
    """All subtitle tracks of a film."""

    tracks: Sequence[SubtitleTrack]
