"""`python -m tools archive snapshot`: a snapshot of all videos for SQL, without an export by DynamoDB.

The command reads the table as `export --raw` does. It writes objects in the form of an export by DynamoDB, and then
converts these objects as the compactor does.
"""

import gzip
import json
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from shared.archive.snapshots import FILES, SUMMARY, SnapshotRun, Snapshots
from shared.archive_tables import EXPORTS
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.core.changes import json_of
from shared.schema import PARTITION_KEY, SORT_KEY
from tools.exporting import Export
from tools.progress import Bars

ITEMS = 500_000
"""Maximum number of items of a data file."""
STARTED = f"{EXPORTS}tools/_started"
"""Key of an empty object that each command writes first, to read the clock of S3."""


def snapshot(
    table: Table, objects: Objects, bucket: str, *, bars: Bars, clock: Callable[[], float] = time.time
) -> SnapshotRun:
    """Write a snapshot of all videos, and the view counts of the days before the snapshot. `bucket` is the analytics
    bucket.

    The moment of the snapshot is the start of the command. Changes during the command may be in the snapshot. The
    returned result contains no snapshot if the SQL tables already contain a newer one.
    """
    write_export(table, objects, bucket, bars=bars, clock=clock)
    return Snapshots(objects, bucket, clock).run()


def write_export(table: Table, objects: Objects, bucket: str, *, bars: Bars, clock: Callable[[], float]) -> None:
    """Write the objects of an export. Writes the summary last, so an interrupted export is never converted."""
    objects.put(bucket, STARTED, b"", "text/plain")
    (started,) = objects.list_objects(bucket, STARTED)
    # If the clock is ahead, later exports would be older than this one, and would be skipped.
    moment = min(datetime.fromtimestamp(int(clock()), UTC), started.changed)
    at = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
    prefix = f"{EXPORTS}tools/AWSDynamoDB/{at}/"
    files: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        whole, part = Path(folder) / "all.jsonl.gz", Path(folder) / "part.json.gz"
        Export(table, whole, raw=True, bars=bars, clock=clock).run()
        with gzip.open(whole) as lines:
            items = _distinct(lines)
            while batch := list(islice(items, ITEMS)):
                part.write_bytes(gzip.compress(b"".join(batch)))
                key = f"{prefix}data/{len(files):05}.json.gz"
                objects.put_file(bucket, key, part, "application/gzip")
                files.append({"itemCount": len(batch), "dataFileS3Key": key})
    listed = b"".join(json_of(file) + b"\n" for file in files)
    objects.put(bucket, f"{prefix}{FILES}", listed, "application/json")
    objects.put(bucket, f"{prefix}{SUMMARY}", json_of({"exportTime": at}), "application/json")


def _distinct(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each line, unless an earlier line has the same item. If the status of a video changes during an export, the
    export can contain the video twice."""
    seen: set[tuple[str, str]] = set()
    for line in lines:
        item = json.loads(line)["Item"]
        key = item[PARTITION_KEY]["S"], item[SORT_KEY]["S"]
        if key not in seen:
            seen.add(key)
            yield line
