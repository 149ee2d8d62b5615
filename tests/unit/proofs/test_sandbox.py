"""The sandbox refuses files that would exhaust a worker's time or memory, or crash the worker. Afterwards the sandbox
can read other files."""

import itertools
import os
import signal
import sys
from collections.abc import Iterator

import pytest

from local.testbed import video_files
from shared.media import errors
from shared.media.errors import UnreadableVideo
from shared.media.sandbox import ENDING_SECONDS, LONGEST_SECONDS, ReaderFailed, Sandbox
from shared.media.source import BLOCK, BytesSource
from tests.unit.media.sources import BarrierSource, FailingSource, SourceThrottled, as_large

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="it asks Linux")


class SandboxWithClock(Sandbox):
    """Sandbox whose clock shows `now`, which tests set."""

    def __init__(self, seconds: float = LONGEST_SECONDS) -> None:
        self.now = 0.0
        super().__init__(seconds=seconds, clock=lambda: self.now)

    @property
    def pid(self) -> int:
        """Id of the reader process."""
        assert self._process is not None
        return self._process.pid


class InterruptedSource(BytesSource):
    """Source that calls a function during its first read."""

    def __init__(self, data: bytes, on_first_read: object) -> None:
        super().__init__(data)
        self._on_first_read = on_first_read

    def read(self, start: int, length: int) -> bytes:
        """Call the function, and return the bytes from `start`."""
        assert callable(self._on_first_read)
        self._on_first_read()
        return super().read(start, length)


@pytest.fixture
def reader() -> Iterator[SandboxWithClock]:
    """Return a separate sandbox, because ending a shared sandbox would end calls of other tests."""
    sandbox = SandboxWithClock()
    yield sandbox
    sandbox.close()


def _is_read(reader: Sandbox) -> bool:
    return video_files.read(reader, BytesSource(video_files.film())).resolution == "320x180"


def test_reader_probes_and_makes_every_thumbnail(reader: SandboxWithClock) -> None:
    assert _is_read(reader)


def test_reader_process_is_reused_for_the_next_file(reader: SandboxWithClock) -> None:
    assert _is_read(reader)
    first = reader.pid
    assert _is_read(reader)
    assert reader.pid == first


def test_several_ranges_are_read_concurrently(reader: SandboxWithClock) -> None:
    data = video_files.make_repeated(40, moov_at_start=True)
    facts = as_large(reader.run("probe", BytesSource(data)), 2)
    # The first range has the header, the index and the first keyframe. The other 39 ranges are read concurrently.
    assert reader.run("storyboard", BarrierSource(data, BLOCK, 3), facts).tiles == 40


def test_reason_of_an_unreadable_file_is_passed_on_unchanged(reader: SandboxWithClock) -> None:
    with pytest.raises(UnreadableVideo) as raised:
        reader.run("probe", BytesSource(video_files.make_encrypted()))
    assert raised.value.reason == errors.ENCRYPTED
    assert _is_read(reader)


def test_error_raised_by_a_source_is_reraised_unchanged(reader: SandboxWithClock) -> None:
    with pytest.raises(SourceThrottled, match="slow down"):
        reader.run("probe", FailingSource(video_files.film(), 0))
    assert _is_read(reader)


def test_file_that_takes_too_long_is_refused(reader: SandboxWithClock) -> None:
    def pass_time() -> None:
        reader.now += 1000

    with pytest.raises(UnreadableVideo) as raised:
        reader.run("probe", InterruptedSource(video_files.film(), pass_time))
    assert raised.value.reason == errors.TOO_SLOW
    assert _is_read(reader)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE])
def test_file_that_crashes_the_reader_is_refused(reader: SandboxWithClock, number: int) -> None:
    with pytest.raises(UnreadableVideo) as raised:
        reader.run("probe", InterruptedSource(video_files.film(), lambda: os.kill(reader.pid, number)))
    assert raised.value.reason == errors.CRASHES
    assert _is_read(reader)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ended_reader_does_not_refuse_the_file(reader: SandboxWithClock, number: int) -> None:
    with pytest.raises(ReaderFailed):
        reader.run("probe", InterruptedSource(video_files.film(), lambda: os.kill(reader.pid, number)))
    assert _is_read(reader)


def test_reader_that_ended_between_two_files_is_restarted(reader: SandboxWithClock) -> None:
    assert _is_read(reader)
    os.kill(reader.pid, signal.SIGKILL)
    os.waitid(os.P_PID, reader.pid, os.WEXITED | os.WNOWAIT)
    assert _is_read(reader)


def test_abandoned_reader_ends_at_its_own_timeout() -> None:
    class SlowSandbox(SandboxWithClock):
        def __init__(self) -> None:
            super().__init__(seconds=0.1 - ENDING_SECONDS)
            times = itertools.chain([1000.0], itertools.repeat(0.0))
            self._clock = lambda: next(times)

    sandbox = SlowSandbox()
    # The source never responds, so the reader must end by its own clock.
    with pytest.raises(UnreadableVideo) as raised:
        sandbox.run(
            "probe",
            InterruptedSource(video_files.film(), lambda: os.waitid(os.P_PID, sandbox.pid, os.WEXITED | os.WNOWAIT)),
        )
    assert raised.value.reason == errors.TOO_SLOW


@ON_LINUX
def test_memory_is_limited() -> None:
    # The frame has 36 MB, and the reader uses 70 MB before it decodes.
    sandbox = Sandbox(memory=90 << 20)
    large = video_files.film(0.1, (3000, 3000), codec="qtrle", container="mov", pixels="argb", paint=video_files.black)
    with pytest.raises(UnreadableVideo) as raised:
        video_files.read(sandbox, BytesSource(large))
    assert raised.value.reason in (errors.TOO_MUCH_MEMORY, errors.NO_FRAME, errors.DAMAGED)
    sandbox.close()
    enough = Sandbox()
    assert video_files.read(enough, BytesSource(large)).resolution == "3000x3000"
    enough.close()


@ON_LINUX
def test_reader_process_has_no_credentials(reader: SandboxWithClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert _is_read(reader)
    with open(f"/proc/{reader.pid}/environ", "rb") as environment:  # exists only on Linux
        assert b"AWS_" not in environment.read()
