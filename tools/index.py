"""`python -m tools index`: rebuilds the search index, and prints its status."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.core.errors import Gone
from shared.feed.log import Feed
from shared.schema import TABLE_NAME
from shared.search.builder import SOURCES, BuildPosition, IndexBuilder
from shared.search.document import FORM
from shared.search.generations import (
    EmbeddedStore,
    GenerationPointer,
    Generations,
    LocalCopy,
    PointerStore,
    current_engine,
)
from shared.search.loader import DocumentLoader
from tools import ToolError
from tools.progress import Bars

DEFAULT_ENV = "dev"
"""Name of the environment that has tables without a name suffix."""

SECONDS_BETWEEN_TRIES = 5
"""Seconds between two attempts to start while another builder holds the lease."""


def rebuild(
    table: Table,
    feed: Feed,
    objects: Objects,
    bucket: str,
    folder: Path,
    *,
    bars: Bars,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> int:
    """Rebuild the search index from the table, and publish it. Returns the number of videos in the index.

    Resumes an interrupted rebuild. Searches use the current index until the new one is published. Waits while another
    builder holds the lease. `folder` stores the index while it is built.
    """
    generations = Generations(table, objects, bucket, clock)
    with bars.bar("Videos", None, counted=True) as advance:
        films = DocumentLoader(table, objects, bucket, generations.pointer().limits, clock)
        store = EmbeddedStore(generations, LocalCopy(folder))
        builder = IndexBuilder(store, table, feed, films, clock=clock, report_progress=advance)
        while builder.run(from_scratch=True).outcome == "busy":
            sleep(SECONDS_BETWEEN_TRIES)
    return generations.pointer().video_count


def request_rebuild(table: Table, clock: Callable[[], float] = time.time) -> bool:
    """Request a rebuild from the function `indexer` if the index is in OpenSearch. Returns whether the index is in
    OpenSearch.

    The tool cannot rebuild such an index, because only the role of `indexer` may write to the cluster. If no index is
    published yet, the tool requests nothing, because `indexer` is building the first one.
    """
    if current_engine(table) != "opensearch":
        return False
    pointers = PointerStore(table, clock, engine="opensearch")
    if pointers.pointer().generation is not None:
        pointers.request_rebuild()
    return True


def status(table: Table, feed: Feed, clock: Callable[[], float] = time.time) -> list[str]:
    """Return lines of text that describe the published index, pending changes, an unfinished rebuild and the lease."""
    pointer, now = PointerStore(table, clock, engine=current_engine(table)).pointer(), clock()
    lines = []
    if pointer.generation is None:
        lines.append("No index has been published yet.")
    else:
        lines.append(
            f"Generation {pointer.generation}: {pointer.video_count:,} videos, {pointer.bytes / 1e6:,.1f} MB, "
            f"published {_at(pointer.published_at)}."
        )
        if pointer.readable is None:
            lines.append(f"Its format version is {pointer.form}, and this release requires {FORM}: rebuild the index.")
        lines.extend(size_lines(pointer))
        lines.append(_followed(feed, pointer))
    if pointer.draft:
        at = BuildPosition.of(pointer.draft.at)
        lines.append(f"A rebuild started at {_at(at.begun)}: {at.source} of {len(SOURCES)} parts are read.")
    if pointer.rebuild_at:
        lines.append(f"A rebuild was requested at {_at(pointer.rebuild_at)}.")
    if pointer.lease.until > now:
        lines.append(f"A builder holds the lease until {_at(pointer.lease.until)}, unless it renews it.")
    return lines


def size_lines(pointer: GenerationPointer) -> list[str]:
    """Return a list with one line about the size of the index and the days until it is full. The list is empty if the
    maximum size is unknown."""
    if not pointer.limits.bytes:
        return []
    used = f"It has {100 * pointer.bytes / pointer.limits.bytes:.1f} % of its maximum size"
    growth, days = pointer.growth, pointer.days_left
    if growth is None:
        return [f"{used}. Its growth is known after a day."]
    if days is None:
        return [f"{used}, and does not grow."]
    return [f"{used}, and grows by {growth / 1e6:,.1f} MB a day: it is full in {days:,.0f} days."]


def _followed(feed: Feed, pointer: GenerationPointer) -> str:
    waiting = 0
    for log, place in pointer.places.items():
        end = feed.end(log)
        waiting += end.next - place.next
    try:
        for log, place in pointer.places.items():
            feed.read(log, place, 1)
    except Gone:
        return f"{waiting:,} changes are pending, and the next ones have expired: the index will be rebuilt."
    if not waiting:
        return "No changes are pending."
    return f"{waiting:,} changes of all kinds are pending; the index contains all changes until {_at(pointer.as_of // 1000)}."


def _at(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def require_bucket(bucket: str, s3: Any) -> None:
    """Raise ToolError if the bucket does not exist or is not readable. Costs one HeadBucket request."""
    try:
        s3.head_bucket(Bucket=bucket)
    except (BotoCoreError, ClientError) as error:
        is_absent = isinstance(error, ClientError) and error.response["Error"]["Code"] in ("404", "NoSuchBucket")
        if isinstance(error, ParamValidationError):
            why = "the name is not valid"
        else:
            why = "it does not exist" if is_absent else str(error).removesuffix(".")
        raise ToolError(f"The bucket {bucket} cannot be read: {why}. Name the media bucket with --bucket.") from error


def bucket_of(table: str, cloudformation: Any, output: str = "MediaBucket") -> str:
    """Return the name of a bucket in the deployment to which a table belongs. The media stack's output `output`
    contains the name.

    Raises ToolError if the stack cannot be read, or has no such output.
    """
    advice = " Name the bucket with --bucket." if output == "MediaBucket" else ""
    stack = f"{TABLE_NAME}-{table.removeprefix(TABLE_NAME).removeprefix('-') or DEFAULT_ENV}-Media"
    try:
        (made,) = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    except (BotoCoreError, ClientError) as error:
        raise ToolError(f"The stack {stack}, which names the bucket, cannot be read: {error}.{advice}") from error
    found = {named["OutputKey"]: named["OutputValue"] for named in made.get("Outputs", [])}
    if output not in found:
        raise ToolError(f"The stack {stack} has no output {output}.{advice}")
    return str(found[output])
