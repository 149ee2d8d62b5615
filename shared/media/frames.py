"""Conversion of frames to images as a viewer sees them: upright, with square pixels, in sRGB."""

import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import cast

import av
from av.filter import Graph
from av.sidedata.sidedata import SideDataContainer, Type
from av.video.frame import VideoFrame
from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc, Interpolation
from PIL import Image, ImageFilter

WHITE = 203.0
"""Luminance of reference white in HDR, in nits (ITU-R BT.2408). Tone mapping turns this luminance into nearly white,
and compresses brighter light into the remaining range.
"""

PEAK = 1000.0
"""Luminance that tone mapping turns into full white, in nits."""
KNEE = 0.5
"""Brightness above which tone mapping compresses the light, in units of reference white."""
LUT_SIZE = 33
"""Number of grid points, per colour channel, of the lookup table for tone mapping."""

EXACT = Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT
"""Scaler flags for correct colours. Without them white becomes 253, and greys get a green tint."""

_HDR = {ColorTrc.SMPTE2084: "pq", ColorTrc.ARIB_STD_B67: "hlg"}
_MATRICES = {
    1: Colorspace.ITU709,
    4: Colorspace.FCC,
    7: Colorspace.SMPTE240M,
    9: Colorspace.BT2020,
    10: Colorspace.BT2020,
}
_MATRICES |= dict.fromkeys((5, 6), Colorspace.ITU601)

# Keys are the signs of four cells of a display matrix. The first two signs are the screen direction (x, y) of the
# image's right side, and the last two the direction of its bottom. Values are the clockwise rotation in degrees, and
# Pillow's operation.
_ROTATIONS: dict[tuple[int, int, int, int], tuple[int, Image.Transpose | None]] = {
    (1, 0, 0, 1): (0, None),
    (0, 1, -1, 0): (90, Image.Transpose.ROTATE_270),
    (-1, 0, 0, -1): (180, Image.Transpose.ROTATE_180),
    (0, -1, 1, 0): (270, Image.Transpose.ROTATE_90),
    (-1, 0, 0, 1): (0, Image.Transpose.FLIP_LEFT_RIGHT),
    (1, 0, 0, -1): (180, Image.Transpose.FLIP_TOP_BOTTOM),
    (0, 1, 1, 0): (90, Image.Transpose.TRANSPOSE),
    (0, -1, -1, 0): (270, Image.Transpose.TRANSVERSE),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """Display geometry of a frame: size, rotation, and aspect ratio of its pixels."""

    width: int
    """Displayed width in pixels."""
    height: int
    """Displayed height in pixels."""
    rotation: int
    """Clockwise rotation that makes the frame upright, in degrees."""
    transpose: Image.Transpose | None
    """Pillow's operation that makes the frame upright; `None` if the frame is upright."""
    pixel: Fraction
    """Sample aspect ratio: the width of a pixel, divided by its height."""


def shape(frame: VideoFrame, pixel: Fraction | None) -> Shape:
    """Return the display geometry of a frame. `pixel` is the sample aspect ratio; `None` means square pixels."""
    # A ratio beyond 4:1 or 1:4 indicates a damaged header, so square pixels are assumed.
    square = pixel is None or not Fraction(1, 4) <= pixel <= 4
    ratio = Fraction(1) if square or pixel is None else pixel
    width, height = max(1, round(frame.width * ratio)), frame.height
    rotation, transpose = _rotation(frame)
    if rotation % 180:
        width, height = height, width
    return Shape(width, height, rotation, transpose, ratio)


def fitted(shown: Shape, width: int, height: int) -> tuple[int, int]:
    """Return the displayed size in pixels, reduced if necessary to fit into `width` and `height`."""
    scale = min(Fraction(1), Fraction(width, shown.width), Fraction(height, shown.height))
    return max(1, round(shown.width * scale)), max(1, round(shown.height * scale))


def hdr(transfer: int) -> str | None:
    """Return the HDR format of a transfer characteristic (FFmpeg's number): `pq`, `hlg`, or `None` for SDR."""
    return next((name for number, name in _HDR.items() if number == transfer), None)


def image(frame: VideoFrame, shown: Shape, size: tuple[int, int]) -> Image.Image:
    """Return a frame as an upright sRGB image. `size` is the width and height in pixels.

    The frame is scaled first, because all later steps are then faster.
    """
    width, height = reversed(size) if shown.rotation % 180 else size
    alpha = any(component.is_alpha for component in frame.format.components)
    scaled = _progressive(frame).reformat(
        width=width,
        height=height,
        format="rgba" if alpha else "rgb24",
        src_colorspace=_MATRICES.get(frame.colorspace, Colorspace.ITU709 if frame.height >= 720 else Colorspace.ITU601),
        src_color_range=frame.color_range or _unstated_range(frame),
        dst_color_range=ColorRange.JPEG,
        interpolation=(Interpolation.AREA if width < frame.width else Interpolation.BICUBIC) | EXACT,
        threads=1,
    )
    picture = Image.frombytes(
        "RGBA" if alpha else "RGB",
        (width, height),
        bytes(scaled.planes[0]),
        "raw",
        "RGBA" if alpha else "RGB",
        scaled.planes[0].line_size,
    )
    if alpha:
        # JPEG has no transparency; players show it as black.
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "black"), picture).convert("RGB")
    if name := hdr(frame.color_trc):
        picture = picture.filter(_tone_map(name, frame.color_primaries == ColorPrimaries.BT2020))
    return picture if shown.transpose is None else picture.transpose(shown.transpose)


def _rotation(frame: VideoFrame) -> tuple[int, Image.Transpose | None]:
    # The side data is read from a tiny copy of the frame. A frame whose side data was read is part of a reference
    # cycle, and stays in memory until the garbage collector runs. The collector does not account for the 25 MB of a 4K
    # frame.
    stamp = frame.reformat(width=16, height=16, format="gray", src_colorspace=Colorspace.ITU709)
    # The stubs declare a dictionary of motion vectors. In fact, the container has all side data, and can be iterated.
    side_data = cast(SideDataContainer, stamp.side_data)
    data = next((bytes(entry) for entry in side_data if entry.type is Type.DISPLAYMATRIX), b"")
    if len(data) < 36:
        return _ROTATIONS[1, 0, 0, 1]
    matrix = struct.unpack("=9i", data[:36])
    cells = matrix[0], matrix[1], matrix[3], matrix[4]
    largest = max(map(abs, cells)) or 1
    # Rotations are rounded to the nearest right angle.
    a, b, c, d = (round(cell / largest) if abs(cell) * 2 > largest else 0 for cell in cells)
    return _ROTATIONS.get((a, b, c, d), _ROTATIONS[1, 0, 0, 1])


def _unstated_range(frame: VideoFrame) -> ColorRange:
    full = frame.format.name.startswith("yuvj") or frame.format.is_rgb
    return ColorRange.JPEG if full else ColorRange.MPEG


def _progressive(frame: VideoFrame) -> VideoFrame:
    """Return the top field of an interlaced frame, to avoid combing artefacts. Returns other frames unchanged.

    The top field has half of the lines, but thumbnails lose no visible detail.
    """
    if not frame.interlaced_frame or frame.height < 4:
        return frame
    graph = Graph()
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=frame.time_base or Fraction(1, 1000)
    )
    graph.link_nodes(source, graph.add("field", "top"), graph.add("buffersink")).configure()
    try:
        graph.vpush(frame)
        return graph.vpull()
    except av.FFmpegError:
        return frame


@lru_cache(maxsize=4)
def _tone_map(transfer: str, wide: bool) -> ImageFilter.Color3DLUT:
    """Return the lookup table from HDR colours to sRGB. `transfer` is `pq` or `hlg`, and `wide` is whether the colours
    are in BT.2020.

    The service has its own tone mapping, because FFmpeg's needs libzimg, which PyAV does not include.
    """
    linear = [_pq(step / (LUT_SIZE - 1)) for step in range(LUT_SIZE)] if transfer == "pq" else []
    scene = [_hlg(step / (LUT_SIZE - 1)) for step in range(LUT_SIZE)]

    def mapped(red: float, green: float, blue: float) -> tuple[float, float, float]:
        indexes = [round(channel * (LUT_SIZE - 1)) for channel in (red, green, blue)]
        if transfer == "pq":
            light = [linear[index] for index in indexes]
        else:
            colour = [scene[index] for index in indexes]
            luminance = 0.2627 * colour[0] + 0.6780 * colour[1] + 0.0593 * colour[2]
            light = [channel * luminance**0.2 * PEAK / WHITE for channel in colour]
        if wide:
            r, g, b = light
            light = [
                1.6605 * r - 0.5876 * g - 0.0728 * b,
                -0.1246 * r + 1.1329 * g - 0.0083 * b,
                -0.0182 * r - 0.1006 * g + 1.1187 * b,
            ]
        # Each channel is mapped separately. If the brightest channel determined the mapping of all three, greys between
        # grid points would have a visible edge.
        out = [_srgb(_rolled_off(channel)) for channel in light]
        return out[0], out[1], out[2]

    return ImageFilter.Color3DLUT.generate(LUT_SIZE, mapped)


def _pq(code: float) -> float:
    """Convert a PQ code value (SMPTE ST 2084) to linear light.

    The code value is from 0 to 1. A result of 1 is reference white.
    """
    power: float = code ** (1 / 78.84375)
    ratio = max(power - 0.8359375, 0) / (18.8515625 - 18.6875 * power)
    return float(10000 / WHITE * ratio ** (1 / 0.1593017578125))


def _hlg(code: float) -> float:
    """Return the scene light of a hybrid log-gamma code value (ARIB STD-B67). Both are from 0 to 1."""
    if code <= 0.5:
        return code * code / 3
    return float((2.718281828459045 ** ((code - 0.55991073) / 0.17883277) + 0.28466892) / 12)


def _rolled_off(light: float) -> float:
    """Compress light above KNEE by a Möbius curve that turns PEAK into 1. Light up to KNEE is unchanged."""
    peak = PEAK / WHITE
    if light <= KNEE:
        return light
    a = -KNEE * KNEE * (peak - 1) / (KNEE * KNEE - 2 * KNEE + peak)
    b = (KNEE * KNEE - 2 * KNEE * peak + peak) / (peak - 1)
    return min(1.0, (b * b + 2 * b * KNEE + KNEE * KNEE) / (b - a) * (light + a) / (light + b))


def _srgb(light: float) -> float:
    if light <= 0.0031308:
        return max(0.0, 12.92 * light)
    return float(min(1.0, 1.055 * light ** (1 / 2.4) - 0.055))
