"""Time and memory of reading source videos by byte ranges: `python -m bench.media`.

The source has about the latency and throughput of S3 in the same region: 20 ms per request, and 80 MB per second.
"""

import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from unittest.mock import patch

import av
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from bench.measure import compare
from local.testbed.video_files import clip
from shared.media.poster import WEBP_EFFORT, poster
from shared.media.probe import probe
from shared.media.results import MediaInfo, Poster
from shared.media.source import BytesSource, FileSource, Range, Source
from shared.media.storyboard import storyboard

REQUEST_SECONDS = 0.02
BYTES_A_SECOND = 80e6

OPERATIONS: dict[str, Callable[[Source, MediaInfo], object]] = {
    "probe": lambda source, facts: probe(source),
    "poster": poster,
    "poster at a time": lambda source, facts: poster(source, facts, facts.duration * 3 // 5),
    "storyboard": storyboard,
}


class Remote(FileSource):
    """A file that has the latency and throughput of S3, and counts requests and bytes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.requests = 0
        self.fetched = 0

    def read(self, start: int, length: int) -> bytes:
        """Return `length` bytes from `start`, after the latency of a request."""
        data = super().read(start, length)
        self.requests += 1
        self.fetched += len(data)
        seconds = REQUEST_SECONDS + len(data) / BYTES_A_SECOND
        time.sleep(seconds)  # simulates the latency of a request to S3
        return data


class OneByOne(Remote):
    """A remote file that reads ranges one after another instead of concurrently."""

    def read_all(self, ranges: Sequence[Range]) -> list[bytes]:
        """Return the bytes of each range, in order."""
        return [self.read(*range_) for range_ in ranges]


def main() -> None:
    """Print the requests, bytes, time and peak memory of each operation. Then compare the times of alternatives, such as
    a whole download and byte ranges."""
    with tempfile.TemporaryDirectory() as folder:
        results = {
            "1080p, 5 minutes, 8-bit H.264": _sample_video(
                Path(folder) / "hd.mp4", (1920, 1080), "libx264", "yuv420p", 60
            ),
            "the same with a keyframe every 2 seconds": _sample_video(
                Path(folder) / "hd2.mp4", (1920, 1080), "libx264", "yuv420p", 150, frames=50
            ),
            "75 seconds of it with a keyframe every 10 seconds": _sample_video(
                Path(folder) / "long.mp4", (1920, 1080), "libx264", "yuv420p", 15, keyframe_every=2
            ),
            "2160p, 3 minutes, 10-bit HEVC in HDR": _sample_video(
                Path(folder) / "uhd.mp4", (3840, 2160), "libx265", "yuv420p10le", 36
            ),
        }
        for title, path in results.items():
            facts = probe(FileSource(path))
            print(f"{title}: {path.stat().st_size / 1e6:.0f} MB")
            print(f"  {'':20} {'requests':>9} {'of the file':>12} {'seconds':>8} {'peak MB':>8}")
            print(f"  {'(start)':20} {'':9} {'':12} {'':8} {_peak(path, 'nothing'):8}")
            for name, operation in OPERATIONS.items():
                remote = Remote(path)
                started = time.perf_counter()
                operation(remote, facts)
                seconds = time.perf_counter() - started
                share = 100 * remote.fetched / remote.size
                print(f"  {name:20} {remote.requests:9} {share:11.2f}% {seconds:8.2f} {_peak(path, name):8}")
            keyframes, share = _count_keyframes(path, facts)
            print(f"  {'its keyframes alone':20} {keyframes:9} {100 * share:11.2f}%")
        path = next(iter(results.values()))
        facts = probe(FileSource(path))
        compare(
            "The poster of the first",
            {
                "whole download": lambda: poster(BytesSource(Remote(path).read(0, path.stat().st_size)), facts),
                "by ranges": lambda: poster(Remote(path), facts),
            },
            calls=1,
            rounds=5,
        )
        compare(
            "Its storyboard",
            {
                "one range after the other": lambda: storyboard(OneByOne(path), facts),
                "side by side": lambda: storyboard(Remote(path), facts),
            },
            calls=1,
            rounds=5,
        )
        near = FileSource(path)
        compare(
            "Its poster without the wait",
            {f"WebP effort {effort}": partial(_poster_with, near, facts, effort) for effort in (4, WEBP_EFFORT)},
            calls=1,
            rounds=5,
        )
        sizes = [
            sum(len(picture.data) for picture in _poster_with(near, facts, effort).pictures[::2])
            for effort in (4, WEBP_EFFORT)
        ]
        print(f"  its WebP pictures: {sizes[0]} and {sizes[1]} bytes")


def _count_keyframes(path: Path, facts: MediaInfo) -> tuple[int, float]:
    """Return the number of keyframes that a storyboard must read, and their total size as a fraction of the file's
    size.

    Each tile shows the last keyframe before the middle of an interval, so these keyframes are the minimum.
    """
    board = storyboard(FileSource(path), facts)
    with av.open(path) as container:
        video = container.streams.video[0]
        index, base = video.index_entries, video.time_base or Fraction(1)
        middles = (Fraction((2 * tile + 1) * board.interval, 2000) for tile in range(board.tiles))
        shown = {index.search_timestamp(round(middle / base)) for middle in middles}
        return len(shown), sum(index[number].size for number in shown) / path.stat().st_size


def _poster_with(source: Source, facts: MediaInfo, effort: int) -> Poster:
    with patch("shared.media.poster.WEBP_EFFORT", effort):
        return poster(source, facts)


def _sample_video(
    path: Path,
    size: tuple[int, int],
    codec: str,
    pixels: str,
    times: int,
    *,
    frames: int = 125,
    keyframe_every: int = 1,
) -> Path:
    """Create a video that repeats the first frames of a real clip `times` times, scaled to `size`. Returns the path.

    `frames` is the number of frames in a repetition. Every `keyframe_every`th repetition begins with a keyframe.
    """
    once = io.BytesIO()
    options = {"libx264": {"preset": "ultrafast", "crf": "26"}}
    options["libx265"] = {"preset": "ultrafast", "crf": "30", "x265-params": "log-level=none"}
    with av.open(clip(), "r") as source, av.open(once, "w", format="mp4") as output:
        stream = output.add_stream(codec, rate=25)
        if not isinstance(stream, VideoStream):
            raise TypeError(codec)
        stream.width, stream.height, stream.pix_fmt = *size, pixels
        stream.codec_context.options = options[codec]
        if pixels != "yuv420p":
            stream.codec_context.color_trc, stream.codec_context.color_primaries = 16, 9
            stream.codec_context.colorspace = 9
        for number, frame in enumerate(source.decode(video=0)):
            if number >= frames:
                break
            scaled: VideoFrame = frame.reformat(width=size[0], height=size[1], format=pixels)
            scaled.pts, scaled.time_base = number, Fraction(1, 25)
            output.mux(stream.encode(scaled))
        output.mux(stream.encode())
    once.seek(0)
    with av.open(once, "r") as source, av.open(str(path), "w", format="mp4") as output:
        packets = [
            (bytes(packet), packet.pts or 0, packet.dts or 0, packet.is_keyframe)
            for packet in source.demux(video=0)
            if packet.size
        ]
        original = source.streams.video[0]
        base = original.time_base or Fraction(1)
        copy = output.add_stream_from_template(original)
        for number in range(times):
            for data, pts, dts, is_keyframe in packets:
                packet = av.Packet(data)
                packet.stream, packet.time_base = copy, base
                packet.is_keyframe = is_keyframe and number % keyframe_every == 0
                packet.pts, packet.dts = (stamp + round(Fraction(frames * number, 25) / base) for stamp in (pts, dts))
                output.mux(packet)
    return path


def _peak(path: Path, name: str) -> int:
    """Return the peak memory of an operation in MB, measured in a separate process."""
    # The script does not use getrusage, because that would include this process's memory at the fork.
    script = """
import sys
from bench.media import OPERATIONS
from shared.media.probe import probe
from shared.media.source import FileSource
source = FileSource(sys.argv[1])
if sys.argv[2] in OPERATIONS:
    OPERATIONS[sys.argv[2]](source, probe(source))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    done = subprocess.run([sys.executable, "-c", script, str(path), name], capture_output=True, text=True, check=True)
    return int(done.stdout) // 1024


if __name__ == "__main__":
    main()
