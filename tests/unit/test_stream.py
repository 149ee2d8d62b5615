"""Stream records, and the loop over them: what is done, what is tried again, what is given up."""

import logging

import pytest

from shared.aws.stream import Record, process, records
from shared.core.errors import PASSING
from tests.harness import NOW
from tests.streams import EXPIRY, Raw, change, deliver, event, sequence_of

ITEM = {"pk": "VIDEO#v", "sk": "#META", "title": "A film", "tags": {"a", "b"}, "size": 1.5}


class TestRecord:
    def test_it_reads_what_dynamodb_wrote(self) -> None:
        record = Record(change(ITEM, ITEM | {"title": "New"}, sequence=7, at=NOW))
        assert (record.name, record.pk, record.sk) == ("MODIFY", "VIDEO#v", "#META")
        assert (record.event_id, record.sequence) == (f"{7:032x}", f"{7:021}")
        assert (record.old, record.new) == (ITEM, ITEM | {"title": "New"})
        assert record.keys == {"pk": "VIDEO#v", "sk": "#META"}

    @pytest.mark.parametrize(("seconds", "milliseconds"), [(NOW, NOW * 1000), (1750000000.123, 1750000000123)])
    def test_its_time_is_in_milliseconds(self, seconds: float, milliseconds: int) -> None:
        assert Record(change(None, ITEM, at=seconds)).at_ms == milliseconds

    def test_an_image_that_is_not_there_is_an_error_and_not_an_empty_item(self) -> None:
        with pytest.raises(KeyError):
            _ = Record(change(None, ITEM)).old
        with pytest.raises(KeyError):
            _ = Record(change(ITEM, None)).new

    def test_nothing_is_decoded_before_it_is_asked_for(self) -> None:
        raw = change(None, ITEM)
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
        assert Record(change(ITEM, None, identity=identity)).expired is expired


class Reader:
    """Handles records; fails at those in `failing`."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.handled: list[str] = []

    def __call__(self, record: Record) -> None:
        assert record.new
        if record.sequence in self.failing:
            raise OSError("not now")
        self.handled.append(record.sequence)


def _batch(count: int) -> list[Raw]:
    return [change(None, ITEM | {"n": n}, sequence=n) for n in range(count)]


def _poison(raw: Raw) -> Raw:
    return {**raw, "dynamodb": {**raw["dynamodb"], "NewImage": {"what": {"NS": ["1"]}}}}


class TestProcess:
    def test_all_records_are_handled_in_order(self) -> None:
        batch, reader = _batch(5), Reader()
        assert process(event(*batch), reader) == {"batchItemFailures": []}
        assert reader.handled == [sequence_of(raw) for raw in batch]

    def test_nothing_to_do_is_done(self) -> None:
        assert process(event(), Reader()) == {"batchItemFailures": []}

    def test_it_stops_at_the_first_failure_and_reports_it(self) -> None:
        batch = _batch(5)
        reader = Reader(sequence_of(batch[2]), sequence_of(batch[4]))
        assert process(event(*batch), reader) == {"batchItemFailures": [{"itemIdentifier": sequence_of(batch[2])}]}
        assert reader.handled == [sequence_of(raw) for raw in batch[:2]]

    @pytest.mark.parametrize(("error", "level"), [*((error(), "WARNING") for error in PASSING), (OSError(), "ERROR")])
    def test_only_what_does_not_pass_by_itself_is_logged_as_an_error(
        self, caplog: pytest.LogCaptureFixture, error: Exception, level: str
    ) -> None:
        def handle(_: Record) -> None:
            raise error

        (raw,) = _batch(1)
        assert process(event(raw), handle) == {"batchItemFailures": [{"itemIdentifier": sequence_of(raw)}]}
        assert [(record.message, record.levelname) for record in caplog.records] == [("record failed", level)]

    def test_a_single_record_that_fails_is_reported(self) -> None:
        (raw,) = _batch(1)
        answer = process(event(raw), Reader(sequence_of(raw)))
        assert answer == {"batchItemFailures": [{"itemIdentifier": sequence_of(raw)}]}

    def test_a_batch_of_which_nothing_could_be_done_raises_so_that_it_is_bisected(self) -> None:
        batch = _batch(3)
        with pytest.raises(OSError, match="not now"):
            process(event(*batch), Reader(sequence_of(batch[0])))

    @pytest.mark.parametrize("place", range(6))
    def test_good_records_around_a_poison_one_are_all_handled(self, place: int) -> None:
        batch, reader = _batch(6), Reader()
        batch[place] = _poison(batch[place])
        given_up = deliver(batch, lambda e: process(e, reader), retries=3)
        assert given_up == [batch[place]]
        assert list(dict.fromkeys(reader.handled)) == [sequence_of(raw) for raw in batch if raw is not batch[place]]

    @pytest.mark.parametrize("missing", ["eventName", "dynamodb"])
    def test_a_record_without_its_parts_is_poison_too(self, missing: str) -> None:
        batch, handled = _batch(4), []
        batch[2] = {name: value for name, value in batch[2].items() if name != missing}

        def handle(record: Record) -> None:
            handled.append((record.name, record.sequence))

        assert deliver(batch, lambda e: process(e, handle), retries=2) == [batch[2]]
        assert len(set(handled)) == 3

    def test_a_failure_is_logged_with_the_keys_and_without_the_content(self, caplog: pytest.LogCaptureFixture) -> None:
        (raw,) = _batch(1)
        with caplog.at_level(logging.ERROR):
            process(event(raw), Reader(sequence_of(raw)))
        (entry,) = caplog.records
        told = vars(entry)
        assert (told["sequence"], told["keys"]["pk"]) == (sequence_of(raw), {"S": "VIDEO#v"})
        assert "A film" not in repr(told)


def test_records_come_in_the_order_of_the_shard() -> None:
    batch = _batch(3)
    assert [record.raw for record in records(event(*batch))] == batch
