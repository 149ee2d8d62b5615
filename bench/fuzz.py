"""Fuzzer of the video reader: `python -m bench.fuzz [--seconds 600] [--seed 0] [--keep FOLDER]`.

The fuzzer damages videos at random, and reads them. The reader must return a result, or raise UnreadableVideo with a
reason. Any other outcome is a defect. The fuzzer prints a defect with the seed that reproduces it, and exits with status
1. It also counts crashes and timeouts of FFmpeg.
"""

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

from local.testbed import video_files
from shared.media import errors
from shared.media.errors import UnreadableVideo
from shared.media.sandbox import ReaderFailed, Sandbox
from shared.media.source import BytesSource

SECONDS_A_TASK = 20.0
FAILURE_NAMES = {errors.CRASHES: "crash", errors.TOO_SLOW: "slow", errors.TOO_MUCH_MEMORY: "memory"}


def main(arguments: list[str]) -> int:
    """Damage and read videos until the time is up, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.fuzz", description="Read damaged videos, and print the errors of the reader."
    )
    parser.add_argument("--seconds", type=float, default=600, help="seconds after which to stop (default: 600)")
    parser.add_argument("--seed", type=int, default=0, help="first seed of the damage (default: 0)")
    parser.add_argument("--only", help="kind of video, such as mkv (default: all kinds)")
    parser.add_argument("--keep", type=Path, help="folder in which to store the videos that crash or stop the reader")
    options = parser.parse_args(arguments)
    kinds = {name: make() for name, make in video_files.KINDS.items() if options.only in (None, name)}
    results: Counter[tuple[str, str]] = Counter()
    mistakes = 0
    begun, seed = time.monotonic(), options.seed
    reader = Sandbox(seconds=SECONDS_A_TASK)
    while time.monotonic() - begun < options.seconds:
        for name, whole in kinds.items():
            data = video_files.damage(whole, random.Random(f"{name} {seed}"))
            try:
                video_files.read(reader, BytesSource(data))
                result = "read"
            except UnreadableVideo as error:
                result = error.reason
            except ReaderFailed as error:
                mistakes += 1
                result = "unexpected error"
                print(f"{name}, seed {seed}:\n{error}", flush=True)
            results[name, result] += 1
            if options.keep and (result == "unexpected error" or result in FAILURE_NAMES):
                (options.keep / f"{FAILURE_NAMES.get(result, 'mistake')}-{name}-{seed}").write_bytes(data)
        seed += 1
    reader.close()
    print(f"{sum(results.values())} videos, seeds {options.seed} to {seed - 1}, {mistakes} unexpected errors")
    for (name, result), count in sorted(results.items()):
        print(f"  {name:14} {count:6} {result}")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
