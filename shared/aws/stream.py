"""Records of the table's stream, and processors for the batches of records that Lambda passes to a stream consumer.

https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord

from shared.core.attributes import Item, decode_item, read_item
from shared.core.caller import UPDATED_FOR
from shared.core.telemetry import log_failure, use_correlation_id
from shared.schema import PARTITION_KEY, SORT_KEY

_Work = TypeVar("_Work")
_TTL_PRINCIPAL = "dynamodb.amazonaws.com"


class Record(DynamoDBRecord):
    """Stream record: one change of one item.

    Extends Powertools' class, but decodes items to the same Python values as the stores.

    The images are the item before and after the change. They are decoded at first access. Therefore a record that
    cannot be decoded does not block other records, and a record that no handler needs costs no CPU time.
    """

    @property
    def event_id(self) -> str:
        """Id of the change. The id is the same at each delivery of the record."""
        return str(self["eventID"])

    @property
    def name(self) -> str:
        """Kind of the change: INSERT, MODIFY or REMOVE."""
        return str(self["eventName"])

    @property
    def sequence(self) -> str:
        """Sequence number of up to 40 digits. A later change of the same item has a greater number."""
        return str(self._change["SequenceNumber"])

    @property
    def at_ms(self) -> int:
        """Time of the change in epoch milliseconds. DynamoDB's precision is one second."""
        seconds: float = self._change["ApproximateCreationDateTime"]
        return round(seconds * 1000)

    @cached_property
    def _key(self) -> Item:
        return decode_item(self._change["Keys"])

    @property
    def pk(self) -> str:
        """The item's partition key."""
        return str(self._key[PARTITION_KEY])

    @property
    def sk(self) -> str:
        """The item's sort key."""
        return str(self._key[SORT_KEY])

    @cached_property
    def old(self) -> Item:
        """The item before the change; raises KeyError for an INSERT."""
        return read_item(self._change["OldImage"])

    @property
    def before(self) -> Item | None:
        """The item before the change; `None` for an INSERT."""
        return None if self.name == "INSERT" else self.old

    @cached_property
    def new(self) -> Item:
        """The item after the change; raises KeyError for a REMOVE."""
        return read_item(self._change["NewImage"])

    def text(self, image: Literal["OldImage", "NewImage"], name: str) -> str | None:
        """Return a text attribute of an image without decoding the rest. `None` if the image or the attribute is absent."""
        value: str | None = self._change.get(image, {}).get(name, {}).get("S")
        return value

    @property
    def expired(self) -> bool:
        """Whether DynamoDB deleted the item because its TTL had passed."""
        identity = self.user_identity
        return identity.get("type") == "Service" and identity.get("principalId") == _TTL_PRINCIPAL

    @property
    def correlation_id(self) -> str | None:
        """Correlation id of the request that wrote the item; `None` if the item was not written by a request.

        For a deletion, this is the id of the last write before the deletion.
        """
        change = self.get("dynamodb") or {}
        image = change.get("NewImage") or change.get("OldImage") or {}
        id_: str | None = image.get(UPDATED_FOR, {}).get("S")
        return id_

    @property
    def _change(self) -> Mapping[str, Any]:
        change: Mapping[str, Any] = self["dynamodb"]
        return change


class StreamProcessor(BatchProcessor):
    """Processor of ordered records. It stops at the first record that fails. Extends Powertools' processor.

    Powertools' processor would continue after a failure. Lambda redelivers all records from the first failed record.
    Therefore a later change of an item could be processed before an earlier change.

    If a batch has several records and its first record fails, the processor raises BatchProcessingError, because Lambda
    halves a batch only after an error. Thus a record that always fails is finally alone in a batch, and Lambda sends
    only this record to the on-failure destination. Otherwise Lambda would also send all later records of the batch to
    that destination. https://docs.aws.amazon.com/lambda/latest/dg/services-ddb-batchfailurereporting.html

    `finish` is called once per batch, after the last record that was handled, even if that record failed. If `finish`
    raises an error, all records of the batch fail.

        process(event, lambda record: print(record.new), StreamProcessor())
    """

    def __init__(self, finish: Callable[[], None] = lambda: None) -> None:
        super().__init__(EventType.DynamoDBStreams)
        self._finish = finish

    def __call__(
        self, records: list[dict[str, Any]], handler: Callable[[Record], object], lambda_context: Any = None
    ) -> "StreamProcessor":
        """Set the batch, and the handler that is called with one record at a time.

        Log lines of the handler have the correlation id of the record.
        """

        def handle(record: DynamoDBRecord) -> object:
            change = Record(record.raw_event)
            with use_correlation_id(change.correlation_id):
                try:
                    return handler(change)
                except Exception as error:
                    self._log(change, error)
                    raise

        super().__call__(records, handle, lambda_context)
        return self

    def process(self) -> list[tuple[Any, ...]]:
        """Handle the records up to the first failed record. Return one result per handled record, in Powertools' form."""
        results = self._handle_in_order()
        try:
            self._finish()
        except Exception as error:  # any error, including a bug: Lambda redelivers the batch
            log_failure("batch failed", error, batch=len(self.records))
            self._fail_at(0, error)
        return results

    def _handle_in_order(self) -> list[tuple[Any, ...]]:
        results: list[tuple[Any, ...]] = []
        for record in self.records:
            results.append(self._process_record(record))
            if self.fail_messages:
                break
        return results

    def _fail_at(self, position: int, error: Exception) -> None:
        """Report the record at `position` as the first failed record. Lambda redelivers this record and all later ones."""
        del self.success_messages[position:]
        self.fail_messages.clear()
        self.exceptions.clear()
        self.failure_handler(DynamoDBRecord(self.records[position]), (type(error), error, error.__traceback__))

    def _entire_batch_failed(self) -> bool:
        return len(self.records) > 1 and not self.success_messages

    def _log(self, record: Record, error: Exception) -> None:
        change = record.get("dynamodb") or {}
        position = next(number for number, raw in enumerate(self.records) if raw is record.raw_event)
        log_failure(
            "record failed",
            error,
            event_id=record.get("eventID"),
            sequence=change.get("SequenceNumber"),
            keys=change.get("Keys"),
            position=position,
            batch=len(self.records),
        )


class StoringProcessor(StreamProcessor, Generic[_Work]):
    """Processor that handles all records up to the first failure, and then stores their results together.

    - The handler returns the result of a record, or `None` if there is nothing to store.
    - `store` receives all results with their records. It returns a list with one element for each result, in order:
      `None` if it stored the result, otherwise an error. The elements after an error may be omitted.
    - `finish` receives all results before the first result that was not stored. Later results are excluded, even if
      they were stored, because Lambda redelivers their records.
    """

    def __init__(
        self,
        store: Callable[[Sequence[tuple[Record, _Work]]], Sequence[Exception | None]],
        finish: Callable[[Sequence[_Work]], None],
    ) -> None:
        super().__init__()
        self._store, self._finish_stored = store, finish

    def process(self) -> list[tuple[Any, ...]]:
        """Handle the records, store their results, and call `finish`. Return one result per handled record."""
        results = self._handle_in_order()
        work = [
            (position, result)
            for position, (outcome, result, _) in enumerate(results)
            if outcome == "success" and result is not None
        ]
        done = len(work)
        try:
            outcomes = self._store([(Record(self.records[index]), result) for index, result in work]) if work else ()
        except Exception as error:  # any error, including a bug: assume that nothing was stored
            outcomes = (error,)
        for number, failure in enumerate(outcomes):
            if failure:
                done, index = number, work[number][0]
                record = Record(self.records[index])
                with use_correlation_id(record.correlation_id):
                    self._log(record, failure)
                self._fail_at(index, failure)
                break
        if not (self.fail_messages and self._entire_batch_failed()):
            self._finish_stored([result for _, result in work[:done]])
        return results
