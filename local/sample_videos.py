"""Generated sample videos for the demo and the screenshots: hills under a sun that rises and sets."""

import io
import math
from dataclasses import dataclass
from fractions import Fraction

import av
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from PIL import Image, ImageDraw

SIZE = (640, 360)
RATE = 12
SECONDS = 8

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Scene:
    """Sample video with its texts and colours."""

    title: str
    category: str
    tags: tuple[str, ...]
    description: str
    said: tuple[str, str]
    """Captions of the video: the text of the first half, and the text of the second half."""
    sky: tuple[Colour, Colour]
    """Colours of the sky at the top and at the horizon."""
    land: Colour
    sun: Colour


SCENES = (
    Scene(
        "Low tide",
        "nature",
        ("sea", "morning"),
        "An hour at the shore, in eight seconds.",
        ("The water has gone out a mile.", "It will be back before breakfast."),
        ((38, 84, 124), (255, 209, 148)),
        (31, 60, 72),
        (255, 240, 200),
    ),
    Scene(
        "The night ferry",
        "travel",
        ("sea", "night"),
        "From the quay to the open water.",
        ("All aboard who are coming aboard.", "Behind us, the lights of the harbour."),
        ((9, 12, 38), (54, 58, 105)),
        (12, 16, 30),
        (244, 241, 222),
    ),
    Scene(
        "Harvest",
        "nature",
        ("fields", "summer"),
        "The last field before the rain.",
        ("One more field, and then the rain.", "My grandfather sowed this one."),
        ((242, 142, 54), (255, 232, 170)),
        (110, 74, 26),
        (255, 250, 214),
    ),
    Scene(
        "First snow",
        "nature",
        ("mountains", "winter"),
        "It came early that year.",
        ("Listen: you can hear nothing at all.", "By noon the pass was closed."),
        ((120, 150, 178), (236, 242, 246)),
        (196, 210, 222),
        (255, 255, 255),
    ),
    Scene(
        "Desert line",
        "travel",
        ("desert", "railway"),
        "Twelve hundred kilometres without a curve.",
        ("The driver has not touched the wheel since Tuesday.", "There is no wheel."),
        ((70, 130, 180), (250, 214, 165)),
        (196, 120, 62),
        (255, 244, 214),
    ),
    Scene(
        "Evening in the valley",
        "nature",
        ("mountains", "evening"),
        "The light goes, the bells stay.",
        ("First the goats come down, then the dark.", "Seven bells, and one is missing."),
        ((68, 34, 84), (250, 128, 114)),
        (46, 26, 58),
        (255, 214, 165),
    ),
    Scene(
        "Green room",
        "studio",
        ("portrait",),
        "A rehearsal, seen from the door.",
        ("Again, from the second verse.", "Nobody look at the camera."),
        ((12, 66, 54), (122, 196, 150)),
        (8, 40, 34),
        (224, 255, 220),
    ),
    Scene(
        "Red planet",
        "animation",
        ("space", "short"),
        "A rover, its shadow, and nobody else.",
        ("Day four hundred and six.", "There was water here once."),
        ((58, 16, 12), (226, 112, 76)),
        (120, 40, 24),
        (255, 224, 196),
    ),
    Scene(
        "Northern line",
        "travel",
        ("railway", "winter"),
        "Where the map ends, the train goes on.",
        ("Next stop, in three hours, if we stop.", "The rails sing before you see the train."),
        ((20, 44, 60), (120, 220, 190)),
        (16, 34, 44),
        (226, 255, 244),
    ),
    Scene(
        "Lagoon",
        "nature",
        ("sea", "summer"),
        "Five metres of clear water.",
        ("You can count the stones through the water.", "Somebody has: there are nine thousand."),
        ((0, 119, 182), (144, 224, 239)),
        (2, 62, 108),
        (255, 255, 230),
    ),
    Scene(
        "Paper moon",
        "animation",
        ("short", "night"),
        "Cut out by hand, frame by frame.",
        ("The moon is made of two sheets of paper.", "The scissors are not in the film."),
        ((44, 44, 84), (240, 200, 120)),
        (30, 30, 60),
        (255, 246, 190),
    ),
    Scene(
        "After the storm",
        "news",
        ("sea", "evening"),
        "What the wind left on the beach.",
        ("It came over the wall at four in the morning.", "The water took the boats, and left the bell."),
        ((72, 84, 98), (222, 196, 160)),
        (52, 56, 62),
        (255, 232, 190),
    ),
)


def captions(scene: Scene) -> str:
    """Return the captions of a scene as WebVTT."""
    return "WEBVTT\n\n00:01.000 --> 00:03.500\n{}\n\n00:04.500 --> 00:07.500\n{}\n".format(*scene.said)


def film(scene: Scene) -> bytes:
    """Return the scene as an MP4 file."""
    written = io.BytesIO()
    with av.open(written, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"g": str(RATE), "crf": "20"})
        if not isinstance(stream, VideoStream):
            raise TypeError(stream)
        stream.width, stream.height = SIZE
        stream.pix_fmt = "yuv420p"
        sky = _sky(scene)
        for number in range(RATE * SECONDS):
            image = painted(scene, sky, number / (RATE * SECONDS)).convert("RGBA")
            frame = VideoFrame.from_bytes(image.tobytes(), *SIZE, format="rgba")
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return written.getvalue()


def still(scene: Scene, share: float) -> Image.Image:
    """Return the frame of a scene at the position `share`, a fraction of the duration from 0 to 1."""
    return painted(scene, _sky(scene), share)


def _sky(scene: Scene) -> Image.Image:
    top, horizon = scene.sky
    column = Image.new("RGB", (1, SIZE[1]))
    for y in range(SIZE[1]):
        share = y / SIZE[1]
        column.putpixel((0, y), _between(top, horizon, share))
    return column.resize(SIZE)


def painted(scene: Scene, sky: Image.Image, share: float) -> Image.Image:
    """Return a frame of a scene. `share` is the position of the frame as a fraction of the duration, from 0 to 1."""
    image = sky.copy()
    draw = ImageDraw.Draw(image)
    width, height = SIZE
    place = SCENES.index(scene)
    begin = (place * 0.37) % 0.8
    x, y = width * (0.1 + begin + 0.3 * share), height * (0.42 - 0.22 * math.sin(math.pi * min(begin + share, 1)))
    for radius, strength in ((70, 0.12), (52, 0.25), (36, 1.0)):
        colour = _between(_between(*scene.sky, y / height), scene.sun, strength)
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
    for layer in range(4):
        base = height * (0.55 + 0.11 * layer)
        colour = _between(scene.sky[1], scene.land, 0.45 + 0.18 * layer)
        moved = share * (layer + 1) * 0.9
        points = [(px, base + _hill(px / width + place, layer, moved) * height) for px in range(0, width + 8, 8)]
        draw.polygon([*points, (width, height), (0, height)], fill=colour)
    return image


def _hill(x: float, layer: int, moved: float) -> float:
    return 0.06 * math.sin(5 * x + 2.1 * layer + moved) + 0.03 * math.sin(13 * x + 5 * layer + 1.7 * moved)


def _between(first: Colour, second: Colour, share: float) -> Colour:
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue
