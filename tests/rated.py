"""Lets the totals of ratings follow, as router, queue and the function `tallies` have them follow."""

from functools import cache
from typing import Any

import boto3

from shared.aws.dynamodb import Table
from shared.aws.stream import Record
from shared.films.messages import TallyMessage, parse
from shared.schema import RATING
from shared.upkeep.tallies import Collector, Tallies
from tests.harness import NOW


def settle_ratings(table: Table, streams: Any = None) -> None:
    """Apply all that the table's stream has of ratings; what was applied before is known, and counts nothing.

    `streams` is a client of DynamoDB's streams; None: that of unit tests.
    """
    collector, tallies = Collector(), Tallies(table)
    for record in _records(table, streams or _unit_streams()):
        if record.pk.startswith(RATING.partition_prefix):
            collector.collect(record)
    for message in collector.take():
        tallies.apply([parse(TallyMessage, message)], NOW)


def _records(table: Table, streams: Any) -> list[Record]:
    stream = table.client.describe_table(TableName=table.name)["Table"]["LatestStreamArn"]
    records: list[Record] = []
    for shard in streams.describe_stream(StreamArn=stream)["StreamDescription"]["Shards"]:
        iterator = streams.get_shard_iterator(
            StreamArn=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while iterator:
            page = streams.get_records(ShardIterator=iterator)
            # All of one time, as the clock of a test stands still.
            timed = [
                {**raw, "dynamodb": raw["dynamodb"] | {"ApproximateCreationDateTime": NOW}} for raw in page["Records"]
            ]
            records += map(Record, timed)
            iterator = page.get("NextShardIterator") if page["Records"] else None
    return records


@cache
def _unit_streams() -> Any:
    """One for all tests: making one takes longer than many of them."""
    return boto3.client("dynamodbstreams")
