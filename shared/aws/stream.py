"""Records of the table's stream as Lambda hands them over, and the loop that both of its readers share.

https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from shared.core.attributes import Item, decode_item
from shared.core.caller import UPDATED_FOR
from shared.core.telemetry import correlated, log_failure
from shared.schema import PARTITION_KEY, SORT_KEY

_TTL_PRINCIPAL = "dynamodb.amazonaws.com"


@dataclass(frozen=True)
class Record:
    """One change of one item. Everything is read from the event when it is asked for.

    So a record that cannot be read fails the reader that needs it, and not the whole batch; and one that is of
    no interest costs nothing.
    """

    raw: Mapping[str, Any]
    """As Lambda made it."""

    @property
    def event_id(self) -> str:
        """Unique to the change, and the same each time that it is delivered."""
        return str(self.raw["eventID"])

    @property
    def name(self) -> str:
        """INSERT, MODIFY or REMOVE."""
        return str(self.raw["eventName"])

    @property
    def sequence(self) -> str:
        """A number of up to 40 digits that grows within a shard, and so from one change of an item to the next."""
        return str(self._change["SequenceNumber"])

    @property
    def at_ms(self) -> int:
        """When the change was made: epoch milliseconds, though DynamoDB gives whole seconds."""
        seconds: float = self._change["ApproximateCreationDateTime"]
        return round(seconds * 1000)

    @cached_property
    def keys(self) -> Item:
        """The item's primary key."""
        return decode_item(self._change["Keys"])

    @property
    def pk(self) -> str:
        """The item's partition key."""
        return str(self.keys[PARTITION_KEY])

    @property
    def sk(self) -> str:
        """The item's sort key."""
        return str(self.keys[SORT_KEY])

    @cached_property
    def old(self) -> Item:
        """The item before the change; raises KeyError for an INSERT."""
        return decode_item(self._change["OldImage"])

    @cached_property
    def new(self) -> Item:
        """The item after the change; raises KeyError for a REMOVE."""
        return decode_item(self._change["NewImage"])

    def text(self, image: Literal["OldImage", "NewImage"], name: str) -> str | None:
        """A text of the item before or after the change, without reading the rest of it; None if there is none."""
        value: str | None = self._change.get(image, {}).get(name, {}).get("S")
        return value

    @property
    def expired(self) -> bool:
        """Whether DynamoDB removed the item because its time (TTL) had come, and nobody deleted it."""
        identity = self.raw.get("userIdentity") or {}
        return identity.get("type") == "Service" and identity.get("principalId") == _TTL_PRINCIPAL

    @property
    def correlation_id(self) -> str | None:
        """Of the request that the item was written for: of a removal, the last one before it. None if it names none."""
        change = self.raw.get("dynamodb") or {}
        image = change.get("NewImage") or change.get("OldImage") or {}
        id_: str | None = image.get(UPDATED_FOR, {}).get("S")
        return id_

    @property
    def _change(self) -> Mapping[str, Any]:
        change: Mapping[str, Any] = self.raw["dynamodb"]
        return change


def records(event: Mapping[str, Any]) -> list[Record]:
    """The records of an event, in the order in which a shard has them."""
    return [Record(raw) for raw in event["Records"]]


def process(
    event: Mapping[str, Any], handle: Callable[[Record], None], finish: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Handle the records in order up to the first that fails, and answer as ReportBatchItemFailures asks for.

    `finish` does what those that were handled have left for the end of the batch; when it fails, all have failed.

    What stands before the failed record is done, and Lambda tries again from that record on. It does so with the
    batch as it is; at the last try, everything from the failed record on goes to the on-failure destination, good
    records too. Only an invocation that raises is bisected. So when the very first of several records fails, its
    exception is raised: then a record that always fails ends up alone in a batch, and it alone is given up.
    https://docs.aws.amazon.com/lambda/latest/dg/services-ddb-batchfailurereporting.html

    Each is logged under the id of the request that it was written for.
    """
    batch = records(event)
    failures: list[dict[str, str]] = []
    for position, record in enumerate(batch):
        with correlated(record.correlation_id):
            try:
                handle(record)
            except Exception as error:  # also a bug: what stands before the record is done, and must not be lost
                change = record.raw.get("dynamodb") or {}
                log_failure(
                    "record failed",
                    error,
                    event_id=record.raw.get("eventID"),
                    sequence=change.get("SequenceNumber"),
                    keys=change.get("Keys"),
                    position=position,
                    batch=len(batch),
                )
                if position == 0 and len(batch) > 1:
                    raise
                failures = [{"itemIdentifier": record.sequence}]
                break
    try:
        finish()
    except Exception as error:  # also a bug: then the batch comes again
        log_failure("batch failed", error, batch=len(batch))
        if len(batch) > 1:
            raise
        failures = [{"itemIdentifier": record.sequence} for record in batch]
    return {"batchItemFailures": failures}
