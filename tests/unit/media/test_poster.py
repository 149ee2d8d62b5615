"""Posters: the chosen frame and the rendered image."""

import io
from collections.abc import Callable

import pytest
from PIL import Image

from local.testbed import video_files
from shared.media.poster import poster
from shared.media.probe import probe
from shared.media.results import Poster
from shared.media.source import BytesSource, FileSource
from shared.media.storyboard import storyboard
from tests.unit.media.sources import CountingSource, as_large, colour, near, picture

POSITIONS = {
    "top left": (0.25, 0.25),
    "top right": (0.75, 0.25),
    "bottom left": (0.25, 0.75),
    "bottom right": (0.75, 0.75),
}


def make_poster(data: bytes, at_ms: int | None = None) -> Poster:
    """Return the poster of a video file."""
    source = BytesSource(data)
    return poster(source, probe(source), at_ms)


def dark_first(number: int, size: tuple[int, int]) -> Image.Image:
    """Paint a black frame in the first ten seconds, and `quarters` afterwards."""
    return Image.new("RGB", size) if number < 10 * video_files.RATE else video_files.quarters(number, size)


def corners(image: Image.Image) -> dict[str, str]:
    """Return, for each corner of an image, the name of the source's corner with the same colour. If no corner matches,
    the value is the colour in RGB."""
    names = {}
    for position, point in POSITIONS.items():
        found_colour = colour(image, *point)
        names[position] = next(
            (name for name, expected in video_files.CORNERS.items() if near(found_colour, expected)), str(found_colour)
        )
    return names


UPRIGHT = {name: name for name in POSITIONS}
CLOCKWISE = {
    "top right": "top left",
    "bottom right": "top right",
    "bottom left": "bottom right",
    "top left": "bottom left",
}


def test_poster_has_two_encodings_in_several_widths() -> None:
    result = make_poster(video_files.film(0.5, (1920, 1080), matrix=1))
    assert [(variant.name, variant.content_type, variant.width, variant.height) for variant in result.pictures] == [
        ("poster-320.webp", "image/webp", 320, 180),
        ("poster-320.jpg", "image/jpeg", 320, 180),
        ("poster-640.webp", "image/webp", 640, 360),
        ("poster-640.jpg", "image/jpeg", 640, 360),
        ("poster-1280.webp", "image/webp", 1280, 720),
        ("poster-1280.jpg", "image/jpeg", 1280, 720),
    ]
    for variant in result.pictures:
        image = Image.open(io.BytesIO(variant.data))
        assert (image.size, f"image/{str(image.format).lower()}") == (
            (variant.width, variant.height),
            variant.content_type,
        )
        assert corners(image.convert("RGB")) == UPRIGHT


@pytest.mark.parametrize(
    ("size", "widths"),
    [((200, 120), [200]), ((500, 300), [320, 500]), ((64, 1024), [64]), ((2048, 32), [320, 640, 1280])],
)
def test_poster_is_never_larger_than_the_source(size: tuple[int, int], widths: list[int]) -> None:
    assert [variant.width for variant in make_poster(video_files.film(0.2, size)).pictures[::2]] == widths


@pytest.mark.parametrize(
    ("data", "expected_corners"),
    [
        (lambda: video_files.film(), UPRIGHT),
        (lambda: video_files.film(rotation=90), CLOCKWISE),
        (lambda: video_files.film(rotation=180), {position: CLOCKWISE[CLOCKWISE[position]] for position in POSITIONS}),
        (lambda: video_files.film(rotation=270), {name: position for position, name in CLOCKWISE.items()}),
        (
            lambda: video_files.film(mirrored=True),
            {
                position: position.replace("left", "-").replace("right", "left").replace("-", "right")
                for position in POSITIONS
            },
        ),
        (lambda: video_files.film(sar=(4, 3)), UPRIGHT),
        (lambda: video_files.film(0.5, (853, 479), pixels="yuv444p"), UPRIGHT),
        (lambda: video_files.film(0.5, (1280, 720), matrix=1), UPRIGHT),
        (lambda: video_files.film(full_range=True), UPRIGHT),
        (lambda: video_files.film(encoder=(("x264-params", "tff=1"),)), UPRIGHT),
        (lambda: video_files.film(container="webm", codec="libvpx-vp9"), UPRIGHT),
        (lambda: video_files.film(container="mpegts"), UPRIGHT),
        (lambda: video_files.film(container="avi", codec="mpeg4"), UPRIGHT),
        (lambda: video_files.film(container="mov", codec="qtrle", pixels="argb"), UPRIGHT),
    ],
    ids=["plain", "90", "180", "270", "mirror", "pixels", "odd", "709", "full", "fields", "webm", "ts", "avi", "alpha"],
)
def test_poster_is_upright_and_has_the_colours_of_the_source(
    data: Callable[[], bytes], expected_corners: dict[str, str]
) -> None:
    assert corners(picture(make_poster(data()))) == expected_corners


def test_transparent_pixels_are_black_on_the_poster() -> None:
    data = video_files.film(container="mov", codec="qtrle", pixels="argb", paint=video_files.half_transparent)
    image = picture(make_poster(data))
    assert near(colour(image, 0.75, 0.5), (0, 0, 0))
    assert near(colour(image, 0.25, 0.5), (255, 255, 255))


@pytest.mark.slow
def test_poster_of_interlaced_video_is_deinterlaced() -> None:
    data = video_files.film(0.3, (320, 240), paint=video_files.combed, encoder=(("x264-params", "tff=1"), ("crf", "5")))
    rows = {colour(picture(make_poster(data)), 0.5, row / 240)[0] for row in range(100, 140)}
    assert max(rows) - min(rows) < 20


@pytest.mark.parametrize(
    ("code", "transfer", "brightness"),
    [
        (64, 16, (0, 4)),
        (300, 16, (40, 65)),  # 3 nits: dark, but not black
        (436, 16, (90, 125)),  # 26 nits: a grey card
        (572, 16, (215, 235)),  # 203 nits: white paper
        (723, 16, (250, 255)),  # 1000 nits: a reflection of the sun
        (940, 16, (254, 255)),
        (64, 18, (0, 4)),
        (397, 18, (90, 125)),
        (721, 18, (215, 235)),
        (940, 18, (254, 255)),
    ],
)
def test_poster_of_hdr_video_has_the_expected_brightness(code: int, transfer: int, brightness: tuple[int, int]) -> None:
    grey = colour(picture(make_poster(video_files.grey_hdr(code, transfer))), 0.25, 0.5)
    assert max(grey) - min(grey) <= 3, "grey must stay grey"
    assert brightness[0] <= grey[1] <= brightness[1]


def test_poster_is_by_default_the_frame_at_a_tenth_of_the_duration() -> None:
    result = make_poster(video_files.film(4, paint=video_files.counted))
    assert result.time == 400
    assert near(colour(picture(result), 0.5, 0.25), (32, 32, 32))


@pytest.mark.parametrize(
    ("at", "frame"), [(0, 0), (1200, 1200), (1299, 1200), (1300, 1300), (3_999, 3900), (60_000, 3900)]
)
@pytest.mark.parametrize("container", ["mp4", "matroska", "mpegts", "avi"])
def test_poster_at_a_chosen_time_is_the_frame_shown_then(at: int, frame: int, container: str) -> None:
    codec = "mpeg4" if container == "avi" else "libx264"
    result = make_poster(
        video_files.film(4, paint=video_files.counted, keyframes=40, container=container, codec=codec), at
    )
    assert result.time == frame
    grey = frame // 100 * 8 % 248
    assert near(colour(picture(result), 0.5, 0.25), (grey, grey, grey))


def test_chosen_frame_is_the_poster_although_it_is_black() -> None:
    result = make_poster(video_files.film(6, paint=video_files.black_first), 500)
    assert result.time == 500
    assert near(colour(picture(result), 0.25, 0.25), (0, 0, 0))


def test_default_poster_is_not_a_black_frame() -> None:
    result = make_poster(video_files.film(6, paint=video_files.black_first))
    assert result.time >= 2000
    assert corners(picture(result)) == UPRIGHT


def test_poster_of_a_black_video_is_black() -> None:
    assert near(colour(picture(make_poster(video_files.film(paint=video_files.black))), 0.5, 0.5), (0, 0, 0))


def test_poster_of_a_real_clip_has_many_shades() -> None:
    source = FileSource(video_files.clip())
    result = poster(source, probe(source))
    assert result.time == 520
    assert len(set(picture(result).resize((16, 9)).convert("L").tobytes())) > 30


@pytest.mark.parametrize("moov_at_start", [False, True])
def test_poster_reads_at_most_two_percent_of_a_large_file(moov_at_start: bool) -> None:
    source = CountingSource(video_files.make_repeated(80, moov_at_start=moov_at_start))
    facts = probe(BytesSource(video_files.make_repeated(80, moov_at_start=moov_at_start)))
    assert source.size > 30_000_000
    assert poster(source, facts).time == 8000
    assert source.fraction_read <= 0.02
    assert len(source.requests) <= 3


@pytest.mark.parametrize(
    ("minutes", "keyframes", "time"),
    [
        (2, 1000, 4000),  # frame 0 is the only keyframe, so frames are decoded up to the candidate time
        (2, 21, 2100),  # the keyframe is after half of the candidate time, so it is the poster
        (50, 1000, 800),  # the file counts as 50 minutes and the limit is one, so 0.8 of the 40 seconds are decoded
    ],
)
def test_large_file_is_decoded_after_the_keyframe_up_to_the_candidate_within_the_limit(
    minutes: int, keyframes: int, time: int
) -> None:
    source = BytesSource(video_files.film(40, (64, 36), paint=video_files.counted, keyframes=keyframes))
    result = poster(source, as_large(probe(source), minutes))
    assert result.time == time
    grey = time // 100 * 8 % 248
    assert near(colour(picture(result), 0.5, 0.25), (grey, grey, grey))


@pytest.mark.parametrize(("minutes", "time"), [(1.01, 11_700), (2, 3000)])
def test_candidates_of_a_large_file_share_the_limit_of_decoding(minutes: float, time: int) -> None:
    # The first ten seconds are black. The candidates are 3, 6, 9 and 12 seconds after the only keyframe.
    # The limit is one minute of 1080p video. If the file counts as 1.01 minutes, 29.7 of its 30 seconds may be decoded:
    # the first three candidates use 18 seconds, so 11.7 seconds are left for the fourth. If the file counts as 2
    # minutes, the limit is 15 seconds: the first two candidates use 9, so 6 are left for the third, which is black.
    source = BytesSource(video_files.film(30, (64, 36), paint=dark_first, keyframes=1000))
    assert poster(source, as_large(probe(source), minutes)).time == time


@pytest.mark.slow
@pytest.mark.parametrize("size", [(16, 65_000), (65_000, 16), (320, 17_000)])
def test_very_tall_or_wide_video_has_a_poster_and_a_storyboard(size: tuple[int, int]) -> None:
    source = BytesSource(video_files.film(0.2, size, codec="ffv1", container="matroska", paint=video_files.black))
    facts = probe(source)
    assert (facts.width, facts.height) == size
    for stored in poster(source, facts).pictures:
        with Image.open(io.BytesIO(stored.data)) as opened:
            assert opened.size == (stored.width, stored.height)
            assert max(opened.size) <= 16_383
    with Image.open(io.BytesIO(storyboard(source, facts).sheet.data)) as sheet:
        assert min(sheet.size) >= 1
