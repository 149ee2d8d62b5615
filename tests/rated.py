"""What follows ratings: the table's stream is read, and what it has of them is added to their totals."""

from functools import cache
from typing import Any

import boto3

from shared.aws.dynamodb import Table
from shared.aws.stream import Record
from shared.core.caller import Caller
from shared.relations.ratings import addition, difference
from shared.schema import RATING, RATING_TOTALS
from tests.harness import NOW

TALLIES = Caller.job("tallies")


class Tallies:
    """Reads the stream of one table from its beginning, each record once."""

    def __init__(self, table: Table, streams: Any = None) -> None:
        """`streams` is a client of the table's streams; None: that of unit tests."""
        self.table = table
        self._streams = streams = streams or _unit_streams()
        stream = table.client.describe_table(TableName=table.name)["Table"]["LatestStreamArn"]
        shard = streams.describe_stream(StreamArn=stream)["StreamDescription"]["Shards"][0]["ShardId"]
        started = streams.get_shard_iterator(StreamArn=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
        self._iterator = started["ShardIterator"]

    def settle(self) -> None:
        """Add to the totals what ratings have changed since the last time."""
        while records := self._records():
            for record in records:
                if record.pk.startswith(RATING.partition_prefix) and record.name != "REMOVE":
                    old, new = None if record.name == "INSERT" else record.old, record.new
                    change = addition(new["videoId"], difference(old, new), TALLIES, NOW)
                    self.table.write(self.table.update(RATING_TOTALS.key(videoId=new["videoId"]), change))

    def _records(self) -> list[Record]:
        page = self._streams.get_records(ShardIterator=self._iterator)
        self._iterator = page["NextShardIterator"]
        return [Record(raw) for raw in page["Records"]]


@cache
def _unit_streams() -> Any:
    """One for all tests: making one takes longer than many of them."""
    return boto3.client("dynamodbstreams")
