"""Files that are no films, films that are broken, and sources that fail."""

import io
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from shared.media import errors
from shared.media.errors import UnreadableFilm
from shared.media.poster import poster
from shared.media.probe import probe
from shared.media.source import BytesSource, Source
from shared.media.storyboard import storyboard
from tests import films
from tests.unit.media.sources import Failing, Throttled, picture


def image(form: str) -> bytes:
    """Make a picture's file."""
    data = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(data, form)
    return data.getvalue()


def cut(data: bytes, share: float) -> bytes:
    """Leave only the first part."""
    return data[: int(len(data) * share)]


def wave() -> bytes:
    """Make the head of a sound file."""
    return b"RIFF\x24\0\0\0WAVEfmt " + bytes(400)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: b"", errors.EMPTY),
        (lambda: b"Once upon a time there was a file. " * 100, errors.NO_FILM),
        (lambda: bytes(5000), errors.NO_FILM),
        (lambda: b"x", errors.NO_FILM),
        (lambda: image("JPEG"), errors.PICTURE),
        (lambda: image("PNG"), errors.PICTURE),
        (lambda: image("GIF"), errors.PICTURE),
        (lambda: image("WEBP"), errors.PICTURE),
        (lambda: image("AVIF"), errors.PICTURE),
        (lambda: films.sound(), errors.NO_VIDEO),
        (wave, errors.NO_VIDEO),
        (lambda: films.encrypted(), errors.ENCRYPTED),
        (lambda: cut(films.film(), 0.05), errors.NO_INDEX),
        (lambda: cut(films.film(), 0.3), errors.NO_INDEX),
        (lambda: cut(films.film(), 0.9), errors.NO_INDEX),
        (lambda: cut(films.moov_first(audio=True), 0.1), errors.NO_INDEX),
        (lambda: cut(films.repeated(4, moov_at_start=True), 0.3), errors.TRUNCATED),
        (lambda: films.moov_first(audio=True)[:-1], errors.TRUNCATED),
        (lambda: cut(films.fragmented(seconds=6), 0.4), errors.TRUNCATED),
        (lambda: cut(films.film(6, container="matroska"), 0.5), errors.TRUNCATED),
        (lambda: cut(films.film(6, container="avi", codec="mpeg4"), 0.5), errors.TRUNCATED),
        (lambda: films.film().replace(b"avc1", b"zzzz"), errors.UNSUPPORTED),
        (lambda: films.undecodable(), errors.NO_FRAME),
    ],
)
def test_a_reason_is_given(made: Callable[[], bytes], reason: str) -> None:
    with pytest.raises(UnreadableFilm) as raised:
        probe(BytesSource(made()))
    assert raised.value.reason == reason


def test_reasons_are_sentences_without_internals() -> None:
    reasons = [value for name, value in vars(errors).items() if name.isupper()]
    assert len(reasons) > 8
    for reason in reasons:
        assert re.fullmatch(r"[A-Z][^/\\\n]{10,200}\.", reason), reason


def test_a_play_list_opens_no_other_file(tmp_path: Path) -> None:
    other = tmp_path / "other.mp4"
    other.write_bytes(films.film())
    for text in (f"#EXTM3U\n#EXTINF:2,\n{other}\n", f"ffconcat version 1.0\nfile '{other}'\n"):
        with pytest.raises(UnreadableFilm) as raised:
            probe(BytesSource(text.encode()))
        assert raised.value.reason == errors.NO_FILM


def test_a_hole_in_the_middle_costs_only_the_middle() -> None:
    data = bytearray(films.film(20, paint=films.counted))
    middle = len(data) // 3
    data[middle : middle + 1500] = bytes(1500)
    source = BytesSource(bytes(data))
    facts = probe(source)
    assert picture(poster(source, facts)).size == (320, 180)
    assert storyboard(source, facts).tiles == 20


@pytest.mark.parametrize("made", [films.film, films.moov_first, films.fragmented])
def test_what_a_source_raises_comes_out_as_it_is(made: Callable[..., bytes]) -> None:
    data = made(audio=True)
    facts = probe(BytesSource(data))
    calls: list[Callable[[Source], object]] = [
        probe,
        lambda source: poster(source, facts),
        lambda source: poster(source, facts, 1000),
        lambda source: storyboard(source, facts),
    ]
    for call in calls:
        with pytest.raises(Throttled, match="slow down"):
            call(Failing(data, 0))


def test_a_source_may_fail_at_any_request() -> None:
    data = films.repeated(20, spread=30)
    facts = probe(BytesSource(data))
    calls: list[Callable[[Source], object]] = [
        probe,
        lambda source: poster(source, facts),
        lambda source: poster(source, facts, 300_000),
        lambda source: storyboard(source, facts),
    ]
    for call in calls:
        whole = Failing(data, 1 << 30)
        call(whole)
        for at in range(len(whole.requests)):
            with pytest.raises(Throttled, match="slow down"):
                call(Failing(data, at))


SEEDS = range(12)


@pytest.mark.parametrize(
    "made",
    [
        lambda: films.film(audio=True),
        lambda: films.moov_first(),
        lambda: films.fragmented(seconds=3),
        lambda: films.film(container="matroska", audio=True),
        lambda: films.film(container="mpegts"),
        lambda: films.film(container="avi", codec="mpeg4"),
        lambda: films.film(container="flv", codec="flv"),
        lambda: films.film(container="mov", codec="qtrle", pixels="argb"),
    ],
    ids=["mp4", "moov first", "fragments", "mkv", "ts", "avi", "flv", "mov"],
)
def test_bytes_that_flip_break_nothing_but_the_film(made: Callable[[], bytes]) -> None:
    whole, refused = made(), 0
    for seed in SEEDS:
        rng = random.Random(seed)
        data = bytearray(whole)
        for _ in range(rng.choice((1, 3, 10, 50))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if seed % 2 and (at := data.find(b"moov")) >= 0:
            for _ in range(3):
                data[min(len(data) - 1, at + rng.randrange(500))] = rng.choice((0, 127, 255))
        source = BytesSource(bytes(data))
        try:
            facts = probe(source)
            assert facts.width > 0
            assert facts.duration >= 0
            assert poster(source, facts).pictures
            assert poster(source, facts, 1000).pictures
            assert storyboard(source, facts).tiles >= 1
        except UnreadableFilm:
            refused += 1
    assert refused < len(SEEDS), "some of them can still be read"


def test_it_needs_neither_numpy_nor_aws(tmp_path: Path) -> None:
    # scikit-video brings numpy into this environment; the asset of the functions has none.
    script = """
import sys
for name in ("numpy", "boto3", "botocore"):
    sys.modules[name] = None
from shared.media.poster import poster
from shared.media.probe import probe
from shared.media.source import FileSource
from shared.media.storyboard import storyboard
from shared.media.transcode import transcode
source = FileSource(sys.argv[1])
facts = probe(source)
transcode(source, sys.argv[2], width=32, height=24, progress=lambda percent: None)
print(len(poster(source, facts).pictures), storyboard(source, facts).tiles)
"""
    files = [str(films.clip("carphone_distorted")), str(tmp_path / "out.mp4")]
    done = subprocess.run([sys.executable, "-c", script, *files], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", "2 4\n")
