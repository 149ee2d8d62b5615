"""Counts that the stream consumer writes, and the starts of hours and days. Each change counts once, even if it is
repeated, late, lost or out of order."""

import itertools
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.tallies import handler
from local.stream_records import Raw, stream_record
from local.testbed import streams
from local.testbed.background import BackgroundWork, FakeQueue
from local.testbed.harness import MEDIA_BUCKET, NOW, Api, Clock, Context, FakeResources, record_operations
from shared import schema
from shared.aws.dynamodb import REQUEST_ATTEMPTS, Table
from shared.aws.records import MAX_ATTEMPTS
from shared.aws.stream import Record
from shared.background import ledger
from shared.background.ledger import AT_ONCE, deduplication_key
from shared.background.stream_router import StreamRouter
from shared.background.tallies import Tallies, least
from shared.core.attributes import Item, encode_item
from shared.core.errors import Unavailable, WriteContention
from shared.core.periods import DAY_SECONDS, HOURS_RETAINED_DAYS, hour_of, start_of
from shared.job_kinds import JOB_QUEUES
from shared.processing.messages import TallyMessage, parse, tally_message
from shared.videos.counters import SUMS, ViewCounters
from tests.integration.contents import items_of
from tests.integration.faults import (
    FaultLine,
    Incident,
    Killed,
    kill_after,
    kill_before,
    lose_request,
    lose_response,
    throttle,
)

VIDEO = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
VIDEO_KEY = schema.VIDEO.key(videoId=VIDEO)
COUNTER_KEY = schema.VIEW_COUNTER.key(videoId=VIDEO, shard=0)
VIDEO_CONTENT = {"userId": "alice", "version": 1, "rel": schema.FEED}
TOTALS_KEY = schema.RATING_TOTALS.key(videoId=VIDEO)
HOUR = hour_of(NOW)
NO_SUMS = dict.fromkeys(SUMS, 0)


def put(table: Table, item: Item) -> None:
    """Write an item without conditions."""
    table.client.put_item(TableName=table.name, Item=encode_item(item))


@pytest.fixture
def video(table: Table) -> Item:
    """Return a public video with a category."""
    item: Item = {
        **VIDEO_KEY,
        "videoId": VIDEO,
        "status": "ready",
        "visibility": "public",
        "category": "drama",
        **VIDEO_CONTENT,
    }
    put(table, item)
    return item


def marker(viewer: str, at: int = NOW, **more: Any) -> Item:
    """Return the item of a viewer's view."""
    lane = schema.lane_of(viewer)
    key = schema.VIEWER.key(videoId=VIDEO, lane=lane, id=viewer)
    return {**key, "videoId": VIDEO, "lane": lane, "at": at, "purgeAt": at + 3600, **more}


def rating(user: str, value: int | None = None, **more: Any) -> Item:
    """Return a user's rating item. Without a value, it is the item that remains after a withdrawal."""
    key = schema.RATING.key(videoId=VIDEO, lane=schema.lane_of(user), userId=user)
    return {**key, "videoId": VIDEO, "userId": user, **({} if value is None else {"value": value}), **more}


def counter(shard: int = 0, **content: Any) -> Item:
    """Return a shard of the view counter."""
    return {**schema.VIEW_COUNTER.key(videoId=VIDEO, shard=shard), **content}


def views(number: int, *, first: int = 0, at: int = NOW, a_second: int = 10) -> list[list[object]]:
    """Return entries of a message: `number` views by different viewers, `a_second` per second. Each viewer watched for
    one second."""
    numbers = range(first, first + number)
    return [[deduplication_key(f"change {number}", at + number // a_second), 1000] for number in numbers]


def message(**lists: Sequence[object]) -> dict[str, Any]:
    """Return a tally message of the video."""
    return tally_message(VIDEO, lists)


class Stream:
    """Stream router that returns the messages for the tallies queue."""

    def __init__(self, table: Table) -> None:
        self.queues = {name: FakeQueue() for name in ("tallies", "aggregates")}
        self.router = StreamRouter(table, JOB_QUEUES, self.queues, MEDIA_BUCKET)
        self._numbers = itertools.count(1)

    def changed(self, old: Item | None, new: Item | None) -> Raw:
        """Return a stream record of a change, with the next sequence number."""
        return stream_record(old, new, sequence=next(self._numbers))

    def sent(self, *raws: Raw) -> list[dict[str, Any]]:
        """Return the messages that the router sends for these records."""
        for raw in raws:
            self.router.route(Record(raw), NOW)
        self.router.flush()
        return self.queues["tallies"].take()

    def starts(self, old: Item | None, new: Item | None) -> list[Any]:
        """Return the starts of hours that the router sends for a change of a counter."""
        messages = self.sent(self.changed(old, new))
        return [start for sent in messages for start in parse(TallyMessage, sent).starts]


@pytest.fixture
def stream(table: Table) -> Stream:
    """Return a router over an empty table."""
    return Stream(table)


class TestRouter:
    def test_router_sends_the_views_of_a_video_in_one_message(self, stream: Stream) -> None:
        other = marker("ann") | {"videoId": "other"}
        first, repeated, another = stream.changed(None, marker("ann")), None, stream.changed(None, other)
        repeated = stream.changed(marker("ann"), marker("ann", NOW + 3600, watched=5000))
        mine, others = stream.sent(first, another, repeated)
        marks = [deduplication_key(raw["eventID"], NOW) for raw in (first, repeated)]
        assert mine == message(views=[[marks[0], 0], [marks[1], 5000]])
        assert (others["videoId"], len(others["views"])) == ("other", 1)
        assert stream.sent() == []

    def test_repeated_record_has_the_same_deduplication_key(self, stream: Stream) -> None:
        raw = stream.changed(None, marker("ann"))
        assert stream.sent(raw) == stream.sent(raw)
        assert stream.sent(raw) != stream.sent(stream.changed(None, marker("ann")))

    @pytest.mark.parametrize(
        "item", [marker("ann"), rating("ann", 8), counter(hour=HOUR)], ids=["view", "rating", "counter"]
    )
    def test_removed_item_counts_nothing(self, stream: Stream, item: Item) -> None:
        assert stream.sent(stream.changed(item, None)) == []

    @pytest.mark.parametrize(
        ("old", "new", "difference"),
        [
            (None, rating("u", 8), (1, 8, 0, 0)),
            (rating("u", 8), rating("u", 3), (0, -5, 0, 0)),
            (rating("u", 8), rating("u", 10, like=True), (0, 2, 1, 0)),
            (rating("u", 10, like=True), rating("u", 1, like=False), (0, -9, -1, 1)),
            (rating("u", 8), rating("u"), (-1, -8, 0, 0)),
            (rating("u"), rating("u", 2), (1, 2, 0, 0)),
        ],
        ids=["given", "changed", "liked", "disliked", "deleted", "rated again"],
    )
    def test_router_sends_the_difference_of_a_changed_rating(
        self, stream: Stream, old: Item | None, new: Item, difference: tuple[int, ...]
    ) -> None:
        (sent,) = stream.sent(stream.changed(old, new))
        ((_, added),) = sent["ratings"]
        assert tuple(added[name] for name in ("votes", "sum", "likes", "dislikes")) == difference

    @pytest.mark.parametrize(
        ("old", "new"),
        [(None, rating("u")), (rating("u", 8), rating("u", 8, ratedAt=NOW)), (rating("u"), rating("u", purgeAt=NOW))],
        ids=["created as deleted", "same value", "deleted again"],
    )
    def test_router_sends_nothing_for_a_rating_without_a_difference(
        self, stream: Stream, old: Item | None, new: Item
    ) -> None:
        assert stream.sent(stream.changed(old, new)) == []

    def test_router_sends_the_sums_of_a_counter_before_a_new_hour(self, stream: Stream) -> None:
        old, new = (
            counter(3, hour="2026-11-22T13", views=7, keyed=2),
            counter(3, hour="2026-11-22T14", views=8, keyed=2),
        )
        assert stream.starts(old, new) == [(3, "2026-11-22T14", False, NO_SUMS | {"views": 7, "keyed": 2})]

    def test_new_counter_starts_from_zero(self, stream: Stream) -> None:
        assert stream.starts(None, counter(views=1, hour=HOUR)) == [(0, HOUR, True, NO_SUMS)]

    def test_imported_counter_starts_from_its_imported_sums(self, stream: Stream) -> None:
        starts = stream.starts(counter(views=42), counter(views=43, hour=HOUR))
        assert starts == [(0, HOUR, True, NO_SUMS | {"views": 42})]

    def test_first_hour_of_a_day_also_starts_the_day(self, stream: Stream) -> None:
        ((_, hour, day_began, _),) = stream.starts(counter(hour="2026-11-22T23"), counter(hour="2026-11-23T05"))
        assert (hour, day_began) == ("2026-11-23T05", True)

    def test_earlier_hour_of_a_slow_clock_starts_nothing(self, stream: Stream) -> None:
        assert stream.starts(counter(hour="2026-11-22T14"), counter(hour="2026-11-22T13", views=1)) == []

    def test_counter_within_the_same_hour_is_not_decoded(self, stream: Stream) -> None:
        """Test the most frequent record of a very popular video: a view within the same hour."""
        raw = stream.changed(counter(hour=HOUR, views=1), counter(hour=HOUR, views=2))
        for image in ("OldImage", "NewImage"):
            raw["dynamodb"][image]["views"] = {"X": "cannot be read"}
        assert stream.sent(raw) == []

    @pytest.mark.parametrize("entity", [schema.VIEW_DAY, schema.VIEW_HOUR], ids=lambda entity: entity.name)
    def test_router_sends_nothing_for_other_items_of_view_partitions(
        self, stream: Stream, entity: schema.Entity
    ) -> None:
        item = {**entity.key(videoId=VIDEO, hour=HOUR, day=HOUR[:10]), "hour": HOUR}
        assert stream.sent(stream.changed(None, item)) == []

    def test_failed_flush_discards_its_messages(self, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
        """Test that no message remains for the next flush, because Lambda delivers the records again."""
        raw = stream.changed(None, marker("ann"))

        def busy(_: Sequence[Mapping[str, object]]) -> None:
            raise Unavailable

        with monkeypatch.context() as patch:
            patch.setattr(stream.queues["tallies"], "send_all", busy)
            with pytest.raises(Unavailable):
                stream.sent(raw)
        assert stream.sent() == []


class Counting:
    """The tallies function with injected faults. Failed messages are delivered again, as SQS does."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.tallies = FakeResources(table, Clock()).make(handler.lambda_handler)
        self.line = FaultLine(table.client)

    def deliver(self, *bodies: Mapping[str, Any]) -> None:
        """Deliver messages until none of them fails."""
        records = streams.sqs_event(*bodies)["Records"]
        for _ in range(20):
            with suppress(Killed):
                failed = self.tallies({"Records": records}, Context())["batchItemFailures"]
                ids = {failure["itemIdentifier"] for failure in failed}
                records = [record for record in records if record["messageId"] in ids]
                if not records:
                    return
            self.line.disarm()
        raise AssertionError("it never gets done")

    def deliver_with_incident(self, incident: Incident, at: int, *bodies: Mapping[str, Any]) -> None:
        """Deliver messages, with an incident at one of the requests."""
        self.line.arm(incident, at)
        self.deliver(*bodies)
        self.line.disarm()

    def counter(self, video_id: str = VIDEO) -> Item:
        """Return shard 0 of a counter, or `{}`."""
        return self.table.get(schema.VIEW_COUNTER.key(videoId=video_id, shard=0)) or {}

    def totals(self) -> Item:
        """Return the rating totals, or `{}`."""
        return self.table.get(TOTALS_KEY) or {}

    def pages(self) -> list[Item]:
        """Return the pages of processed ids that totals store in separate items."""
        return [item for item in items_of(self.table) if item["pk"].startswith("SEEN#")]


@pytest.fixture
def counting(table: Table, video: Item) -> Counting:
    """Return the function, and a video for its counts."""
    return Counting(table)


class TestViewsAndRatings:
    def test_views_are_added_to_the_stored_sums(self, counting: Counting, table: Table) -> None:
        put(table, counter(views=5, keyed=1, watched=10, hour=HOUR))
        counting.deliver(message(views=views(3)))
        assert counting.counter().items() >= {"views": 5, "keyed": 4, "watched": 3010, "hour": HOUR}.items()
        assert ViewCounters(table).read([VIDEO])[VIDEO].views == 9

    def test_rating_totals_have_audit_fields(self, counting: Counting) -> None:
        contribution, changed = (
            {"votes": 1, "sum": 8, "likes": 0, "dislikes": 0},
            {"votes": 0, "sum": -5, "likes": 0, "dislikes": 0},
        )
        counting.deliver(
            message(ratings=[["00" * 12, contribution], ["01" * 12, contribution]]),
            message(ratings=[["02" * 12, changed]]),
        )
        signed = {
            "updatedBy": "job:tallies",
            "updatedAt": NOW,
            "videoId": VIDEO,
            "schemaVersion": schema.SCHEMA_VERSION,
        }
        expected = {"votes": 2, "sum": 11, "likes": 0, "dislikes": 0, "version": 1} | signed
        assert counting.totals().items() >= expected.items()

    def test_views_count_in_the_current_hour(self, counting: Counting, table: Table) -> None:
        put(table, counter(views=5, hour="2025-06-15T09"))
        counting.deliver(message(views=views(1)))
        assert counting.counter()["hour"] == HOUR

    def test_repeated_message_counts_and_writes_nothing(self, counting: Counting, table: Table) -> None:
        contribution = {"votes": 1, "sum": 8, "likes": 0, "dislikes": 0}
        bodies = [message(views=views(5)), message(ratings=[["00" * 12, contribution]])]
        counting.deliver(*bodies)
        before = items_of(table)
        with record_operations(table.client) as operations:
            counting.deliver(*bodies)
        assert {operation.name for operation in operations} == {"GetItem", "BatchGetItem"}
        assert items_of(table) == before

    def test_processed_ids_beyond_the_first_query_pages_are_recognized(
        self, counting: Counting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ledger, "PAGES", 2)
        for _ in range(2):
            counting.deliver(message(views=views(200, a_second=200)))
        assert counting.counter()["keyed"] == 200

    def test_new_views_in_a_partly_repeated_message_are_counted(self, counting: Counting) -> None:
        counting.deliver(message(views=views(5)))
        counting.deliver(message(views=views(5, first=3)), message(views=views(2)))
        assert counting.counter()["keyed"] == 8

    @pytest.mark.parametrize("exists", [True, False], ids=["with a counter", "without a counter"])
    @pytest.mark.parametrize(
        "incident", [kill_before, kill_after, lose_request, lose_response, throttle], ids=lambda it: it.__name__
    )
    def test_fault_at_any_request_does_not_change_the_count(
        self, counting: Counting, table: Table, incident: Incident, exists: bool
    ) -> None:
        bodies = [message(views=views(50)), message(views=views(45, first=40))]
        for at in range(12):
            table.client.delete_item(TableName=table.name, Key=encode_item(COUNTER_KEY))
            for page in counting.pages():
                table.delete({name: page[name] for name in ("pk", "sk")})
            if exists:
                put(table, counter(views=1, hour=HOUR))
            counting.deliver_with_incident(incident, at, *bodies)
            assert counting.counter()["keyed"] == 85

    def test_concurrent_worker_on_the_same_video_is_retried_and_nothing_counts_twice(
        self, counting: Counting, table: Table
    ) -> None:
        """Run two workers on one video. A slow worker can still be running when SQS delivers its messages to another
        worker."""
        interrupted = False
        other = Tallies(table)

        def count_before(send: Any) -> None:
            nonlocal interrupted
            if not interrupted and counting.line.calls[-1] == "UpdateItem":
                interrupted = True
                other.apply([parse(TallyMessage, message(views=views(10)))], NOW)

        counting.line.arm(count_before)
        counting.deliver(message(views=views(20)))
        assert interrupted
        assert counting.counter()["keyed"] == 20

    def test_page_of_a_killed_worker_is_not_confused_with_a_later_page(
        self, small_pages: None, counting: Counting
    ) -> None:
        """Create the page of a killed worker. A later page begins with the same change, but has one change more."""
        changes: list[list[object]] = sorted(views(9, a_second=9))
        early, late = changes[1], [change for change in changes if change is not changes[1]]
        counting.deliver(message(views=late[:2]), message(views=late[2:4]))
        counting.line.arm(kill_before, at=2)
        with pytest.raises(Killed):
            counting.tallies(streams.sqs_event(message(views=late[4:6])), Context())
        counting.line.disarm()
        assert counting.pages()
        counting.deliver(message(views=[early]))
        counting.deliver(message(views=late[4:]))
        counting.deliver(message(views=changes))
        assert counting.counter()["keyed"] == 9

    def test_worker_that_loses_every_race_raises_write_contention(self, counting: Counting, table: Table) -> None:
        numbers = itertools.count(1)

        def count_before(_: Any) -> None:
            if counting.line.calls[-1] == "UpdateItem":
                put(table, counter(tally=next(numbers)))

        counting.line.arm(count_before)
        with pytest.raises(WriteContention):
            Tallies(table).apply([parse(TallyMessage, message(views=views(1)))], NOW)
        assert next(numbers) == MAX_ATTEMPTS + 1

    @pytest.mark.parametrize("removed", [True, False], ids=["gone", "past its purgeAt"])
    def test_no_item_is_created_for_a_removed_video(
        self, counting: Counting, table: Table, video: Item, removed: bool
    ) -> None:
        if removed:
            table.delete(VIDEO_KEY)
        else:
            put(table, video | {"purgeAt": NOW})
        before = items_of(table)
        contribution = {"votes": 1, "sum": 8, "likes": 0, "dislikes": 0}
        starts = [[0, HOUR, True, NO_SUMS]]
        counting.deliver(message(views=views(2), ratings=[["00" * 12, contribution]], starts=starts))
        assert items_of(table) == before

    def test_counter_purged_concurrently_is_not_created_again(self, counting: Counting, table: Table) -> None:
        counting.deliver(message(views=views(1)))

        def purge_before(_: Any) -> None:
            if counting.line.calls[-1] == "UpdateItem":
                table.client.delete_item(TableName=table.name, Key=encode_item(VIDEO_KEY))
                table.client.delete_item(TableName=table.name, Key=encode_item(COUNTER_KEY))

        counting.line.arm(purge_before)
        counting.deliver(message(views=views(2)))
        assert counting.counter() == {}

    def test_restored_table_counts_changes_of_its_new_stream(self, counting: Counting, table: Table) -> None:
        """Deliver changes of a restored table. Its stream has a new ARN, so its sequence numbers do not collide with
        earlier ones."""
        counting.deliver(message(views=views(3)))
        stream = Stream(table)
        raw = stream.changed(None, marker("ann"))
        raw["eventSourceARN"] = raw["eventSourceARN"].replace("2026-01-01", "2027-01-01")
        sent = stream.sent(raw)
        counting.deliver(*sent)
        counting.deliver(*sent)
        assert counting.counter()["keyed"] == 4


class TestCost:
    def test_messages_of_one_batch_take_one_read_and_one_write(self, counting: Counting, table: Table) -> None:
        put(table, counter(views=1, hour=HOUR))
        parts = [message(views=views(AT_ONCE // 2, first=number)) for number in (0, AT_ONCE // 2)]
        with record_operations(table.client) as operations:
            counting.deliver(*parts)
        assert [operation.name for operation in operations] == ["GetItem", "UpdateItem"]

    def test_500_views_take_16_writes_and_15_pages(self, counting: Counting, table: Table) -> None:
        put(table, counter(views=1, hour=HOUR))
        with record_operations(table.client) as operations:
            counting.deliver(*(message(views=views(50, first=first)) for first in range(0, 500, 50)))
        names = [operation.name for operation in operations]
        assert {name: names.count(name) for name in set(names)} == {"GetItem": 1, "UpdateItem": 16, "PutItem": 15}
        assert counting.counter()["keyed"] == 500

    def test_every_write_costs_one_unit(self, counting: Counting, table: Table) -> None:
        """Test a counter with the largest possible values of a very popular video. A unit is 1 KB."""
        large = 10**12
        merged = dict.fromkeys(SUMS, large)
        put(table, counter(**merged, shards=1, spread=64, folded=merged, calmedAt=NOW, hour=HOUR))
        for first in range(0, 300, 10):
            counting.deliver(message(views=views(10, first=first)))
            assert size(counting.counter()) < 1024
        assert max(map(size, counting.pages())) < 1024

    def test_video_with_few_viewers_needs_no_page(self, counting: Counting, table: Table) -> None:
        """Test that ids of messages that can no longer be redelivered are deleted."""
        for day in range(3):
            for number in range(30):
                at = NOW + day * 26 * 3600
                counting.deliver(message(views=[[deduplication_key(f"{day} {number}", at), 0]]))
        assert counting.counter()["keyed"] == 90
        assert counting.pages() == []

    def test_pages_are_deleted_when_their_messages_can_no_longer_be_redelivered(self, counting: Counting) -> None:
        counting.deliver(message(views=views(100)))
        assert {page["purgeAt"] for page in counting.pages()} == {NOW + 6 * 86400}


def size(item: Item) -> int:
    """Return an upper estimate of an item's size in bytes, by DynamoDB's rules."""
    total = 0
    for name, value in encode_item(item).items():
        ((type_, content),) = value.items()
        total += len(name) + 1
        total += size(item[name]) + 3 if type_ == "M" else len(content) // 2 + 2 if type_ == "N" else len(content)
    return total


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits of the ledger, so that a few changes fill pages."""
    for name, value in {"ROOM": 5, "RETAINED": 2, "AT_ONCE": 3}.items():
        monkeypatch.setattr(ledger, name, value)


IDS = map("video {}".format, itertools.count())
INCIDENTS = (kill_before, kill_after, lose_request, lose_response, throttle)
TIMES = (NOW, NOW + 1, NOW + 1, NOW + 2, NOW + 59, NOW + 61, NOW + 4000, NOW + 80_000)
"""Times of changes: within a second, within a minute, and within the day in which a change may be redelivered."""


@st.composite
def _deliveries(draw: st.DrawFn) -> tuple[dict[str, int], list[list[list[str]]]]:
    """Draw the times of changes by id, and batches of messages. Each change is in at least one message, in any
    order."""
    changes = {f"change {number}": draw(st.sampled_from(TIMES)) for number in range(draw(st.integers(1, 14)))}
    ids = st.sampled_from(sorted(changes))
    order = [*draw(st.permutations(sorted(changes))), *draw(st.lists(ids, max_size=14))]
    draw(st.randoms()).shuffle(order)
    batches: list[list[list[str]]] = []
    while order:
        messages = []
        for length in draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)):
            messages.append(order[:length])
            order = order[length:]
        batches.append([some for some in messages if some])
    return changes, batches


class TestAnyDelivery:
    """Every order, repetition and split into messages and batches, with a fault at any request."""

    @pytest.mark.slow
    @given(delivered=_deliveries(), incident=st.sampled_from(INCIDENTS), at=st.integers(0, 25))
    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    def test_views_count_once(
        self,
        small_pages: None,
        counting: Counting,
        delivered: tuple[dict[str, int], list[list[list[str]]]],
        incident: Incident,
        at: int,
    ) -> None:
        changes, batches = delivered
        video_id = next(IDS)
        put(counting.table, {**schema.VIDEO.key(videoId=video_id), "videoId": video_id, **VIDEO_CONTENT})
        counting.line.arm(incident, at)
        for batch in batches:
            counting.deliver(
                *(
                    tally_message(
                        video_id, {"views": [[deduplication_key(id_, changes[id_]), 1 << int(id_[7:])] for id_ in ids]}
                    )
                    for ids in batch
                )
            )
        counting.line.disarm()
        counted = counting.counter(video_id)
        assert (counted["keyed"], counted["watched"]) == (len(changes), (1 << len(changes)) - 1)

    @pytest.mark.slow
    @given(delivered=_deliveries(), incident=st.sampled_from(INCIDENTS), at=st.integers(0, 25))
    @settings(
        max_examples=15,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    def test_ratings_count_once(
        self,
        small_pages: None,
        counting: Counting,
        delivered: tuple[dict[str, int], list[list[list[str]]]],
        incident: Incident,
        at: int,
    ) -> None:
        changes, batches = delivered
        video_id = next(IDS)
        put(counting.table, {**schema.VIDEO.key(videoId=video_id), "videoId": video_id, **VIDEO_CONTENT})
        differences = {
            id_: {
                "votes": (1, 0, -1)[number % 3],
                "sum": (1 << number) * (-1) ** number,
                "likes": 0,
                "dislikes": number % 2,
            }
            for number, id_ in enumerate(changes)
        }
        counting.line.arm(incident, at)
        for batch in batches:
            counting.deliver(
                *(
                    tally_message(
                        video_id, {"ratings": [[deduplication_key(id_, changes[id_]), differences[id_]] for id_ in ids]}
                    )
                    for ids in batch
                )
            )
        counting.line.disarm()
        totals = counting.table.get(schema.RATING_TOTALS.key(videoId=video_id)) or {}
        for name in ("votes", "sum", "likes", "dislikes"):
            assert totals.get(name, 0) == sum(difference[name] for difference in differences.values())


START = tuple[int, str, bool, dict[str, int]]


def _start(shard: int, hour: str, began: bool, views: int) -> START:
    return shard, hour, began, NO_SUMS | {"views": views, "keyed": views // 2}


STARTS = [
    _start(0, "2026-11-22T13", True, 0),
    _start(0, "2026-11-22T14", False, 10),
    _start(0, "2026-11-22T14", False, 12),
    _start(1, "2026-11-22T14", False, 0),
    _start(1, "2026-11-22T14", True, 4),
    _start(0, "2026-11-23T00", True, 30),
]
"""Starts of hours and days in two shards. A slow clock repeated one start."""


class TestStarts:
    def test_starts_are_stored_with_index_attributes_of_the_video(self, counting: Counting, table: Table) -> None:
        counting.deliver(message(starts=STARTS[:2]))
        hour = table.get(schema.VIEW_HOUR.key(videoId=VIDEO, hour="2026-11-22T14")) or {}
        day = table.get(schema.VIEW_DAY.key(videoId=VIDEO, day="2026-11-22")) or {}
        number = {
            "relShard": schema.shard_of(VIDEO),
            "relId": VIDEO,
            "videoId": VIDEO,
            "category": "drama",
            "userId": "alice",
        }
        assert hour.items() >= ({"rel": schema.viewed_relation("2026-11-22T14"), "relSort": 15} | number).items()
        assert hour["starts"] == {"0": NO_SUMS | {"views": 10, "keyed": 5}}
        assert hour["purgeAt"] == start_of("2026-11-22T14") + HOURS_RETAINED_DAYS * DAY_SECONDS
        assert day.items() >= ({"rel": schema.viewed_relation("2026-11-22"), "relSort": 0} | number).items()
        assert day["starts"] == {"0": NO_SUMS}
        assert "purgeAt" not in day

    def test_start_keeps_the_first_category(self, counting: Counting, table: Table, video: Item) -> None:
        counting.deliver(message(starts=STARTS[2:3]))
        put(table, video | {"category": "comedy"})
        counting.deliver(message(starts=STARTS[1:2]))
        hour = table.get(schema.VIEW_HOUR.key(videoId=VIDEO, hour="2026-11-22T14")) or {}
        assert (hour["category"], hour["relSort"]) == ("drama", 15)

    def test_order_and_repetition_of_starts_do_not_matter(self, table: Table, video: Item) -> None:
        stored = []
        orders = random.Random(15).sample(list(itertools.permutations(STARTS)), 20)
        for number, order in enumerate(orders):
            repeated = random.Random(number).choices(STARTS, k=4)
            for entity in (schema.VIEW_HOUR, schema.VIEW_DAY):
                for hour in {start[1] for start in STARTS}:
                    table.delete(entity.key(videoId=VIDEO, hour=hour, day=hour[:10]))
            tallies = Tallies(table)
            for starts in ([*order][:2], [*order][2:], repeated):
                tallies.apply([parse(TallyMessage, message(starts=[start])) for start in starts], NOW)
            stored.append(_without_ids(table))
        assert len(stored[0]) == 5
        assert all(items == stored[0] for items in stored)

    @pytest.mark.parametrize(
        "incident", [kill_before, kill_after, lose_request, lose_response, throttle], ids=lambda it: it.__name__
    )
    def test_fault_at_any_request_does_not_change_the_starts(
        self, counting: Counting, table: Table, incident: Incident
    ) -> None:
        counting.deliver(*(message(starts=[start]) for start in STARTS))
        expected = _without_ids(table)
        for at in range(8):
            for item in items_of(table):
                if item["pk"].startswith("VIEWS#"):
                    table.delete({name: item[name] for name in ("pk", "sk")})
            counting.deliver_with_incident(incident, at, *(message(starts=[start]) for start in STARTS))
            assert _without_ids(table) == expected

    def test_repeated_start_writes_nothing(self, counting: Counting, table: Table) -> None:
        counting.deliver(message(starts=STARTS))
        before = items_of(table)
        counting.deliver(message(starts=STARTS))
        assert items_of(table) == before

    def test_concurrent_writes_to_the_same_hour_are_all_retained(self, counting: Counting, table: Table) -> None:
        others = iter(STARTS[2:4])

        def keep_before(_: Any) -> None:
            other = next(others, None) if counting.line.calls[-1] == "PutItem" else None
            if other:
                Tallies(table).apply([parse(TallyMessage, message(starts=[other]))], NOW)

        counting.line.arm(keep_before)
        counting.deliver(message(starts=STARTS[1:2]))
        hour = table.get(schema.VIEW_HOUR.key(videoId=VIDEO, hour="2026-11-22T14")) or {}
        assert {shard: sums["views"] for shard, sums in hour["starts"].items()} == {"0": 10, "1": 0}

    def test_least_of_two_starts_does_not_depend_on_their_order(self) -> None:
        one, other = {"0": NO_SUMS | {"views": 3}}, {"0": NO_SUMS | {"views": 2, "keyed": 1}, "5": NO_SUMS}
        assert least(one, other) == least(other, one) == {"0": NO_SUMS | {"views": 2}, "5": NO_SUMS}


def _without_ids(table: Table) -> list[Item]:
    """Return the items of hours and days, without the ids of their last writes."""
    view_items = [item for item in items_of(table) if item["pk"] == f"VIEWS#{VIDEO}"]
    return [{name: value for name, value in item.items() if name != "writeId"} for item in view_items]


class TestEndToEnd:
    """The path from a written item through the stream and the router to the totals."""

    @pytest.fixture
    def background(self, table: Table, clock: Clock) -> BackgroundWork:
        """Return the stream, the router and the worker."""
        return BackgroundWork(table, clock)

    @pytest.fixture
    def records(self, api: Api, background: BackgroundWork, table: Table) -> list[Raw]:
        """Return stream records of a video with ten ratings and 40 viewers. Two viewers viewed the video twice, and one
        user withdrew the rating."""
        put(table, {**VIDEO_KEY, "videoId": VIDEO, "status": "ready", "visibility": "public"} | VIDEO_CONTENT)
        background.settle()
        for number in range(42):
            put(table, marker(f"viewer {number % 40}", NOW + number, watched=100))
        for number in range(10):
            put(table, rating(f"user {number}", number + 1))
        put(table, rating("user 9"))
        return background.records()

    def _assert_counted(self, table: Table) -> None:
        totals = table.get(TOTALS_KEY) or {}
        counted = table.get(COUNTER_KEY) or {}
        assert (counted["keyed"], counted["watched"]) == (42, 4200)
        assert (totals["votes"], totals["sum"]) == (9, 45)

    def test_views_are_counted_and_start_an_hour(
        self, records: list[Raw], background: BackgroundWork, table: Table
    ) -> None:
        assert background.router({"Records": records}, Context()) == {"batchItemFailures": []}
        background.tally(*background.queues["tallies"].take())
        background.settle()
        self._assert_counted(table)
        assert (table.get(schema.VIEW_HOUR.key(videoId=VIDEO, hour=HOUR)) or {})["starts"] == {"0": NO_SUMS}

    @pytest.mark.parametrize("seed", range(5))
    def test_reordered_and_repeated_batches_do_not_change_the_counts(
        self, records: list[Raw], background: BackgroundWork, table: Table, seed: int
    ) -> None:
        """Deliver batches in any order, because Lambda guarantees only the order of records of one item."""
        chance = random.Random(seed)
        batches = [records[start : start + 7] for start in range(0, len(records), 7)]
        # batches that failed half-way, which Lambda delivers again
        halves = [batch[: len(batch) // 2] for batch in batches]
        deliveries = [*batches, *halves, *chance.choices(batches, k=4)]
        chance.shuffle(deliveries)
        for batch in deliveries:
            background.router({"Records": batch}, Context())
            if chance.random() < 0.4:
                background.tally(*background.queues["tallies"].take())
        messages = background.queues["tallies"].take()
        background.tally(*messages)
        background.tally(*reversed(messages))
        self._assert_counted(table)


class TestFunction:
    def test_failed_message_holds_back_only_later_messages_of_its_video(self, counting: Counting, table: Table) -> None:
        put(table, {**schema.VIDEO.key(videoId="other"), "videoId": "other", **VIDEO_CONTENT})
        other = tally_message("other", {"views": views(2)})
        bad = {"schema": "video-metadata/tally/2", "videoId": VIDEO}
        response = counting.tallies(
            streams.sqs_event(message(views=views(1)), bad, other, message(views=views(2))), Context()
        )
        assert response == {"batchItemFailures": [{"itemIdentifier": "m1"}, {"itemIdentifier": "m3"}]}
        assert counting.counter()["keyed"] == 1
        assert counting.counter("other")["keyed"] == 2

    def test_throttled_messages_of_a_video_are_all_redelivered(self, counting: Counting) -> None:
        counting.line.arm(throttle)
        response = counting.tallies(streams.sqs_event(message(views=views(1)), message(views=views(2))), Context())
        assert response == {"batchItemFailures": [{"itemIdentifier": "m0"}, {"itemIdentifier": "m1"}]}
        assert counting.line.calls == ["GetItem"] * REQUEST_ATTEMPTS
