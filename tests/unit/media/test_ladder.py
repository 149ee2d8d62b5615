"""Choice of renditions and their sizes by the resolution of the video."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.media.ladder import SIZES, RenditionSize, most_bits, select_renditions


@pytest.mark.parametrize(
    ("size", "names", "expected"),
    [
        ((1920, 1080), ["240p", "1080p"], [("1080p", 1920, 1080), ("240p", 426, 240)]),
        ((1280, 720), ["1080p", "720p", "480p"], [("720p", 1280, 720), ("480p", 854, 480)]),
        ((1080, 1920), ["720p"], [("720p", 720, 1280)]),
        ((853, 479), ["480p", "360p"], [("360p", 642, 360)]),
        ((193, 144), ["480p", "240p"], [("240p", 192, 144)]),
        ((2, 1), ["240p"], [("240p", 2, 2)]),
        ((1920, 1080), ["240p", "240p"], [("240p", 426, 240)]),
        ((1920, 1080), [], []),
    ],
)
def test_renditions_are_not_larger_than_the_source(
    size: tuple[int, int], names: list[str], expected: list[tuple[str, int, int]]
) -> None:
    assert select_renditions(*size, names) == [RenditionSize(*fields) for fields in expected]


def test_unknown_rendition_name_raises_key_error() -> None:
    with pytest.raises(KeyError):
        select_renditions(100, 100, ["999p"])


@given(st.integers(1, 8192), st.integers(1, 8192), st.sets(st.sampled_from(sorted(SIZES)), min_size=1))
def test_every_resolution_has_a_rendition_with_even_positive_sides(width: int, height: int, names: set[str]) -> None:
    renditions = select_renditions(width, height, names)
    assert renditions
    for rendition in renditions:
        assert rendition.name in names
        assert rendition.width % 2 == rendition.height % 2 == 0
        assert rendition.width >= 2
        assert rendition.height >= 2
        assert min(rendition.width, rendition.height) <= min(width, height) + 1


def test_rendition_sides_are_within_the_limit_of_the_encoder() -> None:
    (rendition,) = select_renditions(16, 65_000, ["240p"])
    assert (rendition.name, rendition.height) == ("240p", 16_384)
    assert rendition.width % 2 == 0


@pytest.mark.parametrize(
    ("size", "bits"),
    [((1920, 1080), 6_000_000), ((1280, 720), 3_265_986), ((426, 240), 627_000), ((240, 426), 627_000)],
)
def test_maximum_bit_rate_decreases_with_the_rendition_size(size: tuple[int, int], bits: int) -> None:
    assert most_bits(*size) == pytest.approx(bits, rel=0.01)
