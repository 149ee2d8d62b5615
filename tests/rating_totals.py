"""Updates totals of ratings from the stream, as the router, the queue and the function `tallies` do."""

from typing import Any

from local.testbed.harness import NOW
from shared.aws.dynamodb import Table
from shared.aws.stream import Record
from shared.background.tallies import Collector, Tallies
from shared.processing.messages import TallyMessage, parse
from shared.schema import RATING


def settle_ratings(table: Table, streams: Any = None) -> None:
    """Apply every change of a rating in the table's stream. Changes that were applied before do not count again.

    `streams` is a client of DynamoDB Streams, or `None` for the stream of moto's table in unit tests.
    """
    collector, tallies = Collector(), Tallies(table)
    for record in _records(table, streams):
        if record.name != "REMOVE" and record.pk.startswith(RATING.partition_prefix):
            collector.rated(record)
    for message in collector.drain():
        tallies.apply([parse(TallyMessage, message)], NOW)


def _records(table: Table, streams: Any) -> list[Record]:
    raws = _read(table, streams) if streams else _unit_records(table.name)
    # All records have the same time, because the clock of a test is constant.
    return [Record({**raw, "dynamodb": raw["dynamodb"] | {"ApproximateCreationDateTime": NOW}}) for raw in raws]


def _read(table: Table, streams: Any) -> list[Any]:
    stream = table.client.describe_table(TableName=table.name)["Table"]["LatestStreamArn"]
    records: list[Any] = []
    for shard in streams.describe_stream(StreamArn=stream)["StreamDescription"]["Shards"]:
        iterator = streams.get_shard_iterator(
            StreamArn=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while iterator:
            page = streams.get_records(ShardIterator=iterator)
            records += page["Records"]
            iterator = page.get("NextShardIterator") if page["Records"] else None
    return records


def _unit_records(table: str) -> list[Any]:
    from local.testbed.lean_moto import stream_records  # loads moto, which integration tests do not need

    return stream_records(table, 0)
