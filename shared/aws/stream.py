"""Records of the table's stream as Lambda hands them over, and how its two readers work through a batch and answer.

https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

from shared.core.attributes import Item, decode_item
from shared.core.caller import UPDATED_FOR
from shared.core.telemetry import correlated, log_failure
from shared.schema import PARTITION_KEY, SORT_KEY

_Work = TypeVar("_Work")
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

    @property
    def before(self) -> Item | None:
        """The item before the change; `None` for an INSERT."""
        return None if self.name == "INSERT" else self.old

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
                failures = _failed(batch, position, error)
                break
    try:
        finish()
    except Exception as error:  # also a bug: then the batch comes again
        log_failure("batch failed", error, batch=len(batch))
        if len(batch) > 1:
            raise
        failures = [{"itemIdentifier": record.sequence} for record in batch]
    return {"batchItemFailures": failures}


def process_together(
    event: Mapping[str, Any],
    read: Callable[[Record], _Work | None],
    store: Callable[[Sequence[tuple[Record, _Work]]], Sequence[Exception | None]],
    finish: Callable[[Sequence[_Work]], None],
) -> dict[str, Any]:
    """Read the records up to the first unreadable one, store the results together, and answer as `process` does.

    `read` returns None for a record that there is nothing to store of. `store` returns an error or None for each result, in their
    order; a result beyond the end of that list counts as not stored. `finish` is called with the results before the first one
    that was not stored, whether or not later ones were: Lambda delivers those again.
    """
    batch = records(event)
    work: list[tuple[Record, _Work]] = []
    places: list[int] = []
    failed, failure = len(batch), Exception()
    for position, record in enumerate(batch):
        with correlated(record.correlation_id):
            try:
                result = read(record)
            except Exception as error:  # also a bug, as in `process`
                failed, failure = position, error
                break
        if result is not None:
            work.append((record, result))
            places.append(position)
    done = len(work)
    try:
        outcomes = store(work) if work else ()
    except Exception as error:
        outcomes = (error,)
    for number, outcome in enumerate(outcomes):
        if outcome:
            done, failed, failure = number, places[number], outcome
            break
    failures: list[dict[str, str]] = []
    if failed < len(batch):
        with correlated(batch[failed].correlation_id):
            failures = _failed(batch, failed, failure)
    finish([result for _, result in work[:done]])
    return {"batchItemFailures": failures}


def _failed(batch: Sequence[Record], position: int, error: Exception) -> list[dict[str, str]]:
    """Log why a record failed, and return what reports it; raises the error if it is the first of several."""
    record = batch[position]
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
        raise error
    return [{"itemIdentifier": record.sequence}]
