"""Throughput of the audit function, in changes per second and stream shard: `python -m bench.trail`.

The function uses the table of local/testbed/limits.py, which simulates DynamoDB's limits in virtual time. All shards
have a backlog, so every batch is full. The benchmark measures the processor time of the function while its requests use
a loopback socket. It scales this time to the fraction of a core that the function has on Lambda.
"""

import argparse
import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.stub import stub
from bench.tables import Grid
from functions.audit import handler as audit
from local.stream_records import Raw, stream_record
from local.testbed.harness import NOW, Context, FakeResources
from local.testbed.limits import Simulation
from local.testbed.streams import event
from shared.aws.dynamodb import Table, make_client
from shared.aws.s3 import Objects
from shared.core.caller import Caller
from shared.core.settings import LambdaHandler
from shared.feed.log import OLDEST, Feed, shard_logs
from shared.schema import AUDIT_TABLE_NAME
from shared.videos.video import new_item, stamp

BATCH, MEMORY_MB = 400, 512
"""Maximum number of records per batch, and memory of the deployed function in MB.

infra/jobs_stack.py and infra/function.py set the same values. tests/unit/infra/test_bench_trail.py compares them.
"""
CORE_MB = 1769
"""Memory at which a Lambda function has one full core, in MB."""
SHARDS = 4
"""Number of shards of a new table's stream. A new table accepts 4,000 write units per second."""
BATCHES = 5
"""Number of batches per shard that the function processes."""
SQS_SECONDS, S3_SECONDS = 0.01, 0.03
"""Seconds to send a message to SQS, and seconds to store an object in S3."""
DAYS = 400
SIMULATED_PROCESSOR = 0.0003
"""Processor time of a record on a full core, in seconds, as measured by this benchmark. Simulations with `--shards` use
this constant, so that their results do not depend on the machine."""
IMPORT = Caller.job("import").acting_for("import-0d9a5f0e-6f8e-4f07-9f0c-8f3a1f9f3c55")


@dataclass(frozen=True)
class StreamReader:
    """Configuration of the audit function: records per batch, and whether the function pipelines its requests."""

    batch: int
    is_pipelined: bool


SEQUENTIAL = StreamReader(100, is_pipelined=False)
"""Configuration that sends one request after the other, as releases up to 0.5 did."""
PIPELINED = StreamReader(100, is_pipelined=True)
"""Configuration that sends many requests concurrently."""
DEPLOYED = StreamReader(BATCH, is_pipelined=True)


class SimulatedServices(Objects):
    """Archive bucket and delivery queue that wait for the latency of AWS, and store nothing."""

    def __init__(self, wait: Callable[[float], None]) -> None:
        self._wait = wait

    def put(self, *_: object, **__: object) -> None:
        """Wait as long as S3 needs to store an object."""
        self._wait(S3_SECONDS)

    def send(self, body: Mapping[str, object], delay_seconds: int = 0) -> None:
        """Wait as long as SQS needs to accept a message."""
        self._wait(SQS_SECONDS)

    def send_all(self, bodies: Sequence[Mapping[str, object]]) -> None:
        """Wait as long as SQS needs to accept a batch of messages."""
        self._wait(SQS_SECONDS)


class Shards:
    """A stream with a backlog, and one audit function per shard."""

    def __init__(self, reader: StreamReader, *, owners: int, processor: float = 0.0, shards: int | None = None) -> None:
        """Generate the backlog with videos of `owners` owners. `processor` is the processor time of a record on a full
        core, in seconds. By default, there are SHARDS shards."""
        self._reader, self._processor = reader, processor * CORE_MB / MEMORY_MB
        self._shards = shards or SHARDS
        self._batches = iter(batches(self._shards * BATCHES, reader.batch, owners))
        self.simulation: Simulation[LambdaHandler] = Simulation(
            self._function, writers=self._shards, is_pipelined=reader.is_pipelined
        )

    def _function(self, table: Table) -> LambdaHandler:
        outside = SimulatedServices(lambda seconds: self.simulation.wait(seconds))
        return _audit(table, lambda: self.simulation.time, outside)

    def read(self) -> float:
        """Process the whole backlog, and return the number of changes per second and shard.

        Raises RuntimeError if a call fails.
        """
        done = self.simulation.run(0.01, self._shards * 100, self._work)  # all begin at once
        if done.done != self._shards:
            raise RuntimeError(f"a call failed: {done.failed[:1]} {done.unknown[:1]}")
        return BATCHES * self._reader.batch / done.seconds

    def _work(self, function: LambdaHandler, _: int) -> None:
        for _ in range(BATCHES):
            batch = next(self._batches)
            while batch:
                self.simulation.wait(self._processor * len(batch))
                (*failures,) = function(event(*batch), Context())["batchItemFailures"]
                failed = [failure["itemIdentifier"] for failure in failures]
                batch = batch[[raw["dynamodb"]["SequenceNumber"] for raw in batch].index(failed[0]) :] if failed else []

    def count_logged_changes(self) -> int:
        """Return the number of changes in the shard logs of the feed.

        Raises RuntimeError if a change occurs twice, or if the positions of a log have gaps.
        """
        feed, ids = Feed(self.simulation.table, lambda: self.simulation.time), list[str]()
        for log in shard_logs():
            cursor, positions = OLDEST, list[int]()
            while True:
                page = feed.read(log, cursor, 10_000)
                positions += [entry.position for entry in page.entries]
                ids += [entry.change["id"] for entry in page.entries]
                cursor = page.cursor
                if page.is_end:
                    break
            if positions != list(range(1, len(positions) + 1)):
                raise RuntimeError(f"the positions in the log {log} have gaps")
        if len(ids) != len(set(ids)):
            raise RuntimeError("the feed contains a change twice")
        return len(ids)


def _audit(table: Table, clock: Callable[[], float], outside: SimulatedServices) -> LambdaHandler:
    """Return the handler of the audit function. The handler stores trail and feed in `table`."""
    resources = FakeResources(table, clock, audit=table, objects=outside, queues={"deliveries": outside})
    return resources.make(audit.lambda_handler)


def batches(count: int, size: int, owners: int) -> list[list[Raw]]:
    """Return `count` batches of `size` stream records. Each record is of a new video from an import. The videos have
    `owners` owners."""
    return [
        [_record(number, owners) for number in range(start, start + size)] for start in range(0, count * size, size)
    ]


def _record(number: int, owners: int) -> Raw:
    content = {"title": f"Film {number}", "tags": ["Drama", "Short"], "metadata": {"imdbId": f"tt{number:07}"}}
    item = new_item(
        content | {"visibility": "public", "category": "Drama", "duration": 60_000, "releaseYear": 1999},
        video_id=str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))),
        owner=f"owner-{number % owners}",
        created_at=NOW,
        status="ready",
        origin="import",
    )
    return stream_record(None, stamp(item, caller=IMPORT, now=NOW, version=1), sequence=number + 1)


def processor_seconds() -> float:
    """Measure and return the processor time of one record on this machine, in seconds."""
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    (batch,) = batches(1, BATCH, 1)
    outside, times = SimulatedServices(lambda _: None), []
    with stub() as endpoint:
        os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = endpoint
        table = Table(AUDIT_TABLE_NAME, make_client())
        for _ in range(20):
            function = _audit(table, time.time, outside)
            started = time.process_time()
            function(event(*batch), Context())
            times.append(time.process_time() - started)
    return min(times) / BATCH


def appended(shards: int, batch: int, processor: float) -> float:
    """Return the changes per second of all shards together, if each batch has `batch` changes.

    A function instance per shard appends to four logs, which all shards share. With many shards and small batches, the
    instances therefore conflict.
    """
    small = StreamReader(batch, is_pipelined=True)
    return Shards(small, owners=1_000, processor=processor, shards=shards).read() * shards


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each configuration. Print its changes per second, and their ratio to the changes per second of SEQUENTIAL.
    With `--shards`, measure only that number of shards."""
    parser = argparse.ArgumentParser(prog="python -m bench.trail", description="Throughput of the audit function.")
    parser.add_argument("--shards", type=int, metavar="N", help="measure N shards with the batches of --batch")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="changes of each batch (default: 1)")
    options = parser.parse_args(arguments)
    os.environ |= {"ENVIRONMENT": "bench", "POWERTOOLS_SERVICE_NAME": "audit"}
    logging.disable(logging.INFO)
    if options.shards:
        rate = appended(options.shards, options.batch, SIMULATED_PROCESSOR)
        print(f"{options.shards} shards append {rate:,.0f} changes a second in batches of {options.batch}.")
        return
    processor = processor_seconds()
    print(
        f"A record takes {processor * 1e3:.2f} ms of a core, {processor * 1e3 * CORE_MB / MEMORY_MB:.2f} ms with {MEMORY_MB} MB."
    )
    rows = []
    for name, owners in (("one owner", 1), ("100 owners", 100)):
        rates = [
            Shards(reader, owners=owners, processor=processor).read() for reader in (SEQUENTIAL, PIPELINED, DEPLOYED)
        ]
        rows.append([name, *(f"{rate:,.0f} (x{rate / rates[0]:.1f})" for rate in rates)])
    title = f"Changes a second of one shard of {SHARDS}"
    print(
        Grid(
            title,
            ["videos of", "one request after another", "many at a time", f"and {BATCH} records a batch"],
            rows,
        ).markdown()
    )


if __name__ == "__main__":
    main()
