"""SourceFile, which reads a source as a file with few range requests."""

import random
from pathlib import Path

import pytest

from shared.media.source import (
    BLOCK,
    CACHED_BYTES,
    CONCURRENT_BYTES,
    LARGEST_BLOCK,
    BytesSource,
    FileSource,
    SourceFile,
)
from tests.unit.media.sources import BarrierSource, CountingSource, FailingSource, SourceThrottled

DATA = random.Random(3).randbytes(20 * BLOCK + 77)


def test_source_file_reads_like_a_file() -> None:
    file, mirror = SourceFile(BytesSource(DATA)), memoryview(DATA)
    rng = random.Random(5)
    for _ in range(400):
        start, length = rng.randrange(len(DATA) + 100), rng.randrange(1, 3 * BLOCK // 2)
        assert file.seek(start) == file.tell() == start
        assert file.read(length) == mirror[start : start + length]
        assert file.tell() == max(start, min(len(DATA), start + length))


def test_source_file_seeks_from_start_position_and_end() -> None:
    file = SourceFile(BytesSource(b"0123456789"))
    assert file.seek(4) == 4
    assert file.seek(2, 1) == 6
    assert file.seek(-1, 2) == 9
    assert file.read() == b"9"
    assert file.read(5) == b""


def test_block_read_again_is_fetched_once() -> None:
    source = CountingSource(DATA)
    file = SourceFile(source)
    for start in (100, 5000, 100, BLOCK - 10):
        file.seek(start)
        assert file.read(10) == DATA[start : start + 10]
    assert source.requests == [(100, BLOCK)]


def test_range_starts_at_the_read_position_and_ends_before_a_cached_block() -> None:
    source = CountingSource(DATA)
    file = SourceFile(source)
    for start in (BLOCK + 7, 100_000):
        file.seek(start)
        file.read(10)
    assert source.requests == [(BLOCK + 7, BLOCK), (100_000, BLOCK + 7 - 100_000)]


def test_sequential_reads_fetch_larger_ranges_in_bounded_memory() -> None:
    data = bytes(100 * BLOCK)
    source = CountingSource(data)
    file = SourceFile(source)
    while file.read(32 * 1024):
        pass
    lengths = [length for _, length in source.requests]
    assert lengths[0] == BLOCK
    assert max(lengths) == LARGEST_BLOCK
    assert len(lengths) < 25
    assert sum(lengths) == len(data) == file.fetched
    assert file.requests == len(lengths)
    assert file._cached_bytes <= CACHED_BYTES


def test_expected_ranges_are_fetched_concurrently_and_exactly() -> None:
    expected = [(number * BLOCK, 1000 + number) for number in range(1, 6)]
    source = BarrierSource(DATA, 0, len(expected))
    file = SourceFile(source)
    file.expect(expected)
    for start, length in expected:
        file.seek(start)
        assert file.read(length) == DATA[start : start + length]
    assert sorted(source.requests) == expected


def test_expected_ranges_are_fetched_ahead_within_the_buffer_limit() -> None:
    expected = [(number * BLOCK, BLOCK) for number in range(20)]
    source = CountingSource(DATA)
    file = SourceFile(source)
    file.expect(expected)
    for start, length in expected:
        file.seek(start)
        file.read(length)
        assert len(source.requests) * BLOCK <= start + BLOCK + CONCURRENT_BYTES
    assert sorted(source.requests) == expected


def test_invalid_expected_ranges_are_ignored() -> None:
    source = CountingSource(DATA)
    file = SourceFile(source)
    file.expect([(-5, 10), (100, -3), (len(DATA), 10), (200, 0), (300, 10), (len(DATA) - 5, 100)])
    file.seek(300)
    assert file.read(10) == DATA[300:310]
    assert sorted(source.requests) == [(300, 10), (len(DATA) - 5, 5)]
    file.seek(1000)
    assert file.read(10) == DATA[1000:1010]


def test_failed_request_ends_the_file_permanently_and_is_recorded() -> None:
    source = FailingSource(DATA, at=1)
    file = SourceFile(source)
    assert file.read(10) == DATA[:10]
    file.seek(5 * BLOCK)
    assert file.read(10) == b""
    assert isinstance(file.failure, SourceThrottled)
    source.at = 99
    assert file.read(10) == b"", "a failed file sends no more requests"


def test_file_source_reads_ranges_of_a_local_file(tmp_path: Path) -> None:
    path = tmp_path / "film"
    path.write_bytes(DATA)
    source = FileSource(path)
    assert source.size == len(DATA)
    assert source.read(7, 100) == DATA[7:107]
    with pytest.raises(FileNotFoundError):
        FileSource(tmp_path / "none")
