"""Time until an instance of `search` has its index: `python -m bench.index_copy` (a minute, 2 GB of disk).

The benchmark runs the code with which `search` copies a generation. An HTTP server on loopback, in place of S3, serves
generations of several sizes. The files have random content, because the time depends only on the sizes of the files.
The benchmark also prints ratios of the measured times. It alternates the sizes in one run, so that these ratios do not
depend on the load of the machine. On Lambda, the network adds to these times.
"""

import hashlib
import http.server
import json
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import boto3
from botocore import UNSIGNED
from botocore.config import Config

from bench.tables import Grid
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects, make_client
from shared.search.generations import FOLDER, Generations, LocalCopy

BUCKET = "media"
SIZES_MB = (64, 256, 512)
FILES = 100
"""Number of files of a generation, as an index usually has."""
ROUNDS = 5


class _Files(http.server.SimpleHTTPRequestHandler):
    """Object store that returns files of a folder. It writes no log, because a log would hide the results."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any, **__: Any) -> None:
        """Write no log."""


@contextmanager
def object_store(folder: Path) -> Iterator[Objects]:
    """Serve the files of `folder/<bucket>` as objects, and yield a client of the server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"

        def create(_: str, config: Config) -> Any:
            unsigned = config.merge(Config(signature_version=UNSIGNED))
            return boto3.client("s3", endpoint_url=endpoint, config=unsigned, region_name="us-east-1")

        yield Objects(make_client(create))
        server.shutdown()


def write_generation(folder: Path, name: str, files: Mapping[str, int], before: str = "") -> None:
    """Write a generation with files of these sizes in bytes.

    If `before` is the name of an earlier generation, the first half of the files is not written. Instead, the manifest
    refers to the files of the same names in that generation.
    """
    root = folder / BUCKET / FOLDER / name
    root.mkdir(parents=True)
    listed = []
    for number, (file, size) in enumerate(files.items()):
        owner = before if before and number < len(files) // 2 else name
        path = folder / BUCKET / FOLDER / owner / file
        if owner == name:
            path.write_bytes(os.urandom(size))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        listed.append({"name": file, "key": f"{FOLDER}{owner}/{file}", "size": size, "sha256": digest})
    manifest = {"generation": name, "files": listed}
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def measure(sizes_mb: tuple[int, ...] = SIZES_MB, rounds: int = ROUNDS) -> Grid:
    """Copy generations of these sizes, and return the median times."""
    with TemporaryDirectory() as place:
        store = Path(place, "store")
        for size in sizes_mb:
            files = {f"segment-{number}": size * 2**20 // FILES for number in range(FILES)}
            write_generation(store, f"{size}-first", files)
            write_generation(store, f"{size}-next", files, before=f"{size}-first")
        seconds: dict[tuple[int, str], list[float]] = {}
        with object_store(store) as objects:
            generations = Generations(cast(Table, None), objects, BUCKET)
            for number in range(rounds):
                for size in sizes_mb:
                    copy = LocalCopy(Path(place, f"copy-{size}-{number}"))
                    for step in ("first", "next"):
                        copy_generation = partial(generations.copy_of, f"{size}-{step}", copy)
                        seconds.setdefault((size, step), []).append(_seconds(copy_generation))
                    copy.keep(())
    medians = {key: statistics.median(times) for key, times in seconds.items()}
    base = medians[sizes_mb[0], "first"] / sizes_mb[0]
    rows = [
        [
            f"{size} MB",
            f"{medians[size, 'first']:.2f}",
            f"{medians[size, 'first'] / size / base:.2f}",
            f"{medians[size, 'next'] / medians[size, 'first']:.2f}",
        ]
        for size in sizes_mb
    ]
    columns = ["Index", "Seconds of a copy", "Per MB, to the first size", "Half of its files new, to the copy"]
    return Grid("Copy of the index to a new instance, from an object store on loopback", columns, rows)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    """Measure, and print the table."""
    print(measure().markdown())


if __name__ == "__main__":
    main()
