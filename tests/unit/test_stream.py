"""Stream records and batches of them: processed, retried and discarded records."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from local.stream_records import EXPIRY, Raw, stream_record
from local.testbed.harness import NOW
from local.testbed.streams import deliver, event, sequence_of
from shared.aws import runtime
from shared.aws.stream import Record, StoringProcessor, StreamProcessor
from shared.core.errors import TRANSIENT_ERRORS

ITEM = {"pk": "VIDEO#v", "sk": "#META", "title": "A film", "tags": {"a", "b"}, "size": 1.5}


class TestRecord:
    def test_record_exposes_the_fields_that_dynamodb_wrote(self) -> None:
        record = Record(stream_record(ITEM, ITEM | {"title": "New"}, sequence=7, at=NOW))
        assert (record.name, record.pk, record.sk) == ("MODIFY", "VIDEO#v", "#META")
        assert (record.event_id, record.sequence) == (f"{7:032x}", f"{7:021}")
        assert (record.old, record.new) == (ITEM, ITEM | {"title": "New"})

    @pytest.mark.parametrize(("seconds", "milliseconds"), [(NOW, NOW * 1000), (1750000000.123, 1750000000123)])
    def test_record_time_is_in_milliseconds(self, seconds: float, milliseconds: int) -> None:
        assert Record(stream_record(None, ITEM, at=seconds)).at_ms == milliseconds

    def test_missing_image_is_an_error(self) -> None:
        with pytest.raises(KeyError):
            _ = Record(stream_record(None, ITEM)).old
        with pytest.raises(KeyError):
            _ = Record(stream_record(ITEM, None)).new

    def test_record_images_are_decoded_lazily(self) -> None:
        raw = stream_record(None, ITEM)
        raw["dynamodb"]["NewImage"] = {"what": {"NS": ["1"]}}
        record = Record(raw)
        assert record.pk == "VIDEO#v"
        with pytest.raises(TypeError):
            _ = record.new

    @pytest.mark.parametrize(
        ("identity", "expired"),
        [
            (EXPIRY, True),
            (None, False),
            ({"type": "Service", "principalId": "replication.dynamodb.amazonaws.com"}, False),
            ({"type": "User", "principalId": "dynamodb.amazonaws.com"}, False),
        ],
    )
    def test_an_expiry_is_distinguished_from_a_deletion(self, identity: dict[str, str] | None, expired: bool) -> None:
        assert Record(stream_record(ITEM, None, identity=identity)).expired is expired


def process(event: dict[str, Any], handle: Callable[[Record], object]) -> dict[str, Any]:
    """Process a batch, and return the report of failures."""
    return runtime.process(event, handle, StreamProcessor())


class Reader:
    """Handler that records sequence numbers, and fails for those in `failing`."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.handled: list[str] = []

    def __call__(self, record: Record) -> None:
        assert record.new
        if record.sequence in self.failing:
            raise OSError("not now")
        self.handled.append(record.sequence)


def _batch(count: int) -> list[Raw]:
    return [stream_record(None, ITEM | {"n": n}, sequence=n) for n in range(count)]


def _poison(raw: Raw) -> Raw:
    return {**raw, "dynamodb": {**raw["dynamodb"], "NewImage": {"what": {"NS": ["1"]}}}}


class TestProcess:
    def test_all_records_are_handled_in_order(self) -> None:
        batch, reader = _batch(5), Reader()
        assert process(event(*batch), reader) == {"batchItemFailures": []}
        assert reader.handled == [sequence_of(raw) for raw in batch]

    def test_process_accepts_an_empty_batch(self) -> None:
        assert process(event(), Reader()) == {"batchItemFailures": []}

    def test_process_stops_at_the_first_failure_and_reports_it(self) -> None:
        batch = _batch(5)
        reader = Reader(sequence_of(batch[2]), sequence_of(batch[4]))
        assert process(event(*batch), reader) == {"batchItemFailures": [{"itemIdentifier": sequence_of(batch[2])}]}
        assert reader.handled == [sequence_of(raw) for raw in batch[:2]]

    @pytest.mark.parametrize(
        ("error", "level"), [*((error(), "WARNING") for error in TRANSIENT_ERRORS), (OSError(), "ERROR")]
    )
    def test_process_logs_transient_errors_as_warnings_and_others_as_errors(
        self, caplog: pytest.LogCaptureFixture, error: Exception, level: str
    ) -> None:
        def handle(_: Record) -> None:
            raise error

        (raw,) = _batch(1)
        assert process(event(raw), handle) == {"batchItemFailures": [{"itemIdentifier": sequence_of(raw)}]}
        assert [(record.message, record.levelname) for record in caplog.records] == [("record failed", level)]

    def test_a_single_record_that_fails_is_reported(self) -> None:
        (raw,) = _batch(1)
        response = process(event(raw), Reader(sequence_of(raw)))
        assert response == {"batchItemFailures": [{"itemIdentifier": sequence_of(raw)}]}

    def test_batch_whose_first_record_fails_raises_so_that_lambda_bisects_it(self) -> None:
        batch = _batch(3)
        with pytest.raises(BatchProcessingError, match="not now"):
            process(event(*batch), Reader(sequence_of(batch[0])))

    @pytest.mark.parametrize("position", range(6))
    def test_all_records_except_a_poison_record_are_handled(self, position: int) -> None:
        batch, reader = _batch(6), Reader()
        batch[position] = _poison(batch[position])
        discarded = deliver(batch, lambda e: process(e, reader), retries=3)
        assert discarded == [batch[position]]
        assert list(dict.fromkeys(reader.handled)) == [sequence_of(raw) for raw in batch if raw is not batch[position]]

    @pytest.mark.parametrize("missing", ["eventName", "dynamodb"])
    def test_record_without_required_attributes_is_a_poison_record(self, missing: str) -> None:
        batch, handled = _batch(4), []
        batch[2] = {name: value for name, value in batch[2].items() if name != missing}

        def handle(record: Record) -> None:
            handled.append((record.name, record.sequence))

        assert deliver(batch, lambda e: process(e, handle), retries=2) == [batch[2]]
        assert len(set(handled)) == 3

    def test_failure_is_logged_with_keys_and_without_content(self, caplog: pytest.LogCaptureFixture) -> None:
        (raw,) = _batch(1)
        with caplog.at_level(logging.ERROR):
            process(event(raw), Reader(sequence_of(raw)))
        (entry,) = caplog.records
        logged = vars(entry)
        assert (logged["sequence"], logged["keys"]["pk"]) == (sequence_of(raw), {"S": "VIDEO#v"})
        assert "A film" not in repr(logged)


class Store:
    """Store of the sequence numbers of records.

    It fails for the numbers in `failing`, and processes at most `more` records after a failure.
    """

    def __init__(self, *failing: str, more: int = 0) -> None:
        self.failing, self.more = failing, more
        self.stored: list[str] = []
        self.finished: list[list[str]] = []

    def read(self, record: Record) -> str | None:
        """Return the record's sequence number, or `None` if the record needs no work."""
        return record.sequence if record.new.get("wanted", True) else None

    def store(self, work: Sequence[tuple[Record, str]]) -> list[Exception | None]:
        """Return the outcome of each record, up to the last one processed."""
        outcomes: list[Exception | None] = []
        remaining = None
        for record, sequence in work:
            assert record.sequence == sequence
            if sequence in self.failing:
                outcomes.append(OSError("not now"))
                remaining = self.more if remaining is None else remaining
            elif remaining == 0:
                break
            else:
                outcomes.append(None)
                self.stored.append(sequence)
                remaining = remaining and remaining - 1
        return outcomes

    def __call__(self, event_: dict[str, Any]) -> dict[str, Any]:
        return self.process(event_, self.store)

    def process(self, event_: dict[str, Any], store: Callable[[Any], Sequence[Exception | None]]) -> dict[str, Any]:
        """Process a batch with another store function, and return the report of failures."""
        processor = StoringProcessor[str](store, lambda done: self.finished.append(list(done)))
        return runtime.process(event_, self.read, processor)


class TestProcessBatch:
    def test_all_records_are_stored_and_finished_in_order(self) -> None:
        batch, store = _batch(5), Store()
        assert store(event(*batch)) == {"batchItemFailures": []}
        assert store.stored == [sequence_of(raw) for raw in batch]
        assert store.finished == [store.stored]

    def test_batch_without_work_stores_nothing(self) -> None:
        batch, store = [stream_record(None, ITEM | {"wanted": False})], Store()
        assert store(event(*batch)) == {"batchItemFailures": []}
        assert (store.stored, store.finished) == ([], [[]])

    @pytest.mark.parametrize("more", [0, 1, 5])
    def test_first_record_not_stored_is_reported_and_earlier_records_are_finished(self, more: int) -> None:
        batch = _batch(6)
        batch[1] = stream_record(None, ITEM | {"wanted": False}, sequence=1)
        store = Store(sequence_of(batch[3]), sequence_of(batch[5]), more=more)
        assert store(event(*batch)) == {"batchItemFailures": [{"itemIdentifier": sequence_of(batch[3])}]}
        assert store.finished == [[sequence_of(batch[0]), sequence_of(batch[2])]]

    def test_records_before_an_unreadable_record_are_stored(self) -> None:
        batch, store = _batch(5), Store()
        batch[2] = _poison(batch[2])
        assert store(event(*batch)) == {"batchItemFailures": [{"itemIdentifier": sequence_of(batch[2])}]}
        assert store.stored == [sequence_of(raw) for raw in batch[:2]]
        assert store.finished == [store.stored]

    def test_failure_before_an_unreadable_record_is_reported(self) -> None:
        batch = _batch(5)
        batch[4], store = _poison(batch[4]), Store(sequence_of(batch[2]))
        assert store(event(*batch)) == {"batchItemFailures": [{"itemIdentifier": sequence_of(batch[2])}]}

    def test_a_batch_whose_first_record_is_not_stored_raises_and_finishes_nothing(self) -> None:
        batch = _batch(3)
        store = Store(sequence_of(batch[0]), more=2)
        with pytest.raises(BatchProcessingError, match="not now"):
            store(event(*batch))
        assert store.finished == []

    def test_store_that_raises_finishes_no_record(self) -> None:
        def broken(_: Sequence[tuple[Record, str]]) -> list[Exception | None]:
            raise OSError("broken")

        store = Store()
        (raw,) = _batch(1)
        assert store.process(event(raw), broken) == {"batchItemFailures": [{"itemIdentifier": sequence_of(raw)}]}
        assert store.finished == [[]]
        with pytest.raises(BatchProcessingError, match="broken"):
            store.process(event(*_batch(2)), broken)

    @pytest.mark.parametrize("position", range(6))
    def test_all_records_except_a_poison_record_are_stored(self, position: int) -> None:
        batch, store = _batch(6), Store()
        batch[position] = _poison(batch[position])
        assert deliver(batch, store, retries=3) == [batch[position]]
        assert list(dict.fromkeys(store.stored)) == [sequence_of(raw) for raw in batch if raw is not batch[position]]
