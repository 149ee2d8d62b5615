"""Totals that the stream maintains. They converge to the sums over all videos, even if records are repeated, late, lost
or reordered."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from pydantic import ValidationError

from functions.aggregates import handler
from functions.stream_router import handler as stream_router
from local.stream_records import EXPIRY, stream_record
from local.testbed import streams
from local.testbed.background import BackgroundWork, FakeQueue
from local.testbed.harness import NOW, Api, Clock, Context, FakeResources, ShortContext, record_operations
from shared import schema
from shared.aws.dynamodb import LARGEST_TRANSACTION, Table, Write
from shared.aws.failures import ConditionFailed, TransactionConflict
from shared.aws.records import MAX_ATTEMPTS
from shared.aws.stream import Record
from shared.background.aggregates import UPLOADS_RETAINED_DAYS, Aggregates, contribution
from shared.background.stream_router import StreamRouter
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import InternalError, Unavailable, WriteContention
from shared.core.folders import ancestors
from shared.core.periods import DAY_SECONDS, hour_of
from shared.core.settings import LambdaHandler
from shared.processing.messages import aggregates_message
from shared.relations.credits import credit_item
from shared.relations.entry_updates import EntryUpdater
from shared.relations.models import CreditContent
from shared.video_fields import PROJECTION
from shared.videos.models import NewVideo
from shared.videos.store import VideoStore
from shared.videos.video import STATUSES
from tests.integration.contents import items_of

JOB = Caller.job("test")
VIDEO: Item = {
    **schema.VIDEO.key(videoId="v"),
    "videoId": "v",
    "userId": "alice",
    "status": "ready",
    "visibility": "public",
    "fileSize": 10,
    "duration": 20,
    "tags": {"Drama"},
    "rel": schema.FEED,
    "schemaVersion": 3,
}


FOLDERS = ("a", "a/b", "a/b/c", "a/bc", "d")
DELETED: Item = {"status": "deleted", "rel": schema.status_relation("deleted")}


def assert_exact(table: Table) -> None:
    """Assert that every total equals the sum over the existing videos, and that each counted video has one MARKER
    item."""
    items = items_of(table)
    parts = [part for item in items if item["sk"] == "#META" if (part := contribution(item))]
    users: dict[str, Counter[str]] = {}
    tags: Counter[str] = Counter()
    folders: Counter[tuple[str, str, str]] = Counter()
    for part in parts:
        for path in ancestors(part.folder):
            folders.update([(part.user_id, path, "count")])
        folders.update([(part.user_id, part.folder, "direct")] if part.folder else [])
        users.setdefault(part.user_id, Counter()).update(part.counts())
        tags.update(part.tags)
    names = (*STATUSES, "bytes", "milliseconds")
    service: Counter[str] = Counter()
    for item in items:
        if schema.SERVICE_TOTALS.has_sort_key(item["sk"]):
            service.update({name: int(item.get(name, 0)) for name in names})
        if item["sk"] == "#PROFILE":
            expected = users.pop(item["userId"], Counter())
            assert {name: item.get(name, 0) for name in names} == {name: expected[name] for name in names}
        if item["sk"] == "#COUNT":
            assert (item["count"], item["relSort"]) == (tags[item["tag"]], tags.pop(item["tag"], 0))
        if item["pk"].startswith("FOLDERS#"):
            for name in ("count", "direct"):
                assert item.get(name, 0) == folders.pop((item["userId"], item["folder"], name), 0)
    assert not users
    assert not tags
    assert not folders
    assert service == sum((Counter(part.counts()) for part in parts), Counter(dict.fromkeys(names, 0)))
    assert len([item for item in items if item["sk"] == "AGG"]) == len(parts)


def marker(table: Table, video_id: str) -> Item:
    """Return the video's MARKER item, which stores the amounts that the totals contain. Empty if the video is not
    counted."""
    return table.get(schema.MARKER.key(videoId=video_id), consistent=True) or {}


def remove(table: Table, video_id: str) -> None:
    """Delete the item of a video, as DynamoDB's TTL does."""
    table.delete(schema.VIDEO.key(videoId=video_id))


class TestContribution:
    def test_listed_video_counts_with_its_tags_and_sizes(self) -> None:
        part = contribution(VIDEO)
        assert part
        assert (part.user_id, part.tags) == ("alice", frozenset({"drama"}))
        assert part.counts() == {"ready": 1, "bytes": 10, "milliseconds": 20}

    def test_tags_of_an_unlisted_video_do_not_count(self) -> None:
        part = contribution(VIDEO | {"rel": schema.status_relation("ready")})
        assert part
        assert not part.tags
        assert part.sizes == (10, 20)

    @pytest.mark.parametrize(
        "times",
        [{"publishAt": NOW + 1}, {"createdAt": NOW - 1, "expiresAt": NOW}],
        ids=["not yet published", "expired"],
    )
    def test_tags_of_a_listed_video_outside_its_time_window_do_not_count(
        self, api: Api, table: Table, times: Item
    ) -> None:
        video_id = api.publish(tags=["drama"], **times)["videoId"]
        part = contribution(table.get(schema.VIDEO.key(videoId=video_id)))
        assert part
        assert not part.tags

    def test_totals_count_the_uploaded_file_and_not_fields_written_by_users(self) -> None:
        part = contribution(VIDEO | {"source": {"fileSize": 4000}})
        assert part
        assert part.counts()["bytes"] == 4000

    def test_deleted_video_counts_only_as_deleted(self) -> None:
        part = contribution(VIDEO | DELETED)
        assert part
        assert part.counts() == {"deleted": 1, "bytes": 0, "milliseconds": 0}
        assert not part.tags

    def test_a_video_counts_in_its_folder_and_in_all_folders_above_unless_it_is_deleted(self) -> None:
        video = VIDEO | {"folder": "a/b"}
        part, deleted = contribution(video), contribution(video | DELETED)
        assert part
        assert deleted
        assert dict(part.folder_counts()) == {"a": {"count": 1, "direct": 0}, "a/b": {"count": 1, "direct": 1}}
        assert dict(deleted.folder_counts()) == {}

    def test_absent_video_has_no_contribution(self) -> None:
        assert contribution(None) is None


class TestRouter:
    def _sent(self, raw: Any) -> dict[str, list[dict[str, Any]]]:
        queues = {name: FakeQueue() for name in ("aggregates", "purge", "tallies")}
        routing = StreamRouter(None, {}, queues, "media")  # type: ignore[arg-type]
        routing.route(Record(raw), NOW)
        routing.flush()
        return {name: queue.sent for name, queue in queues.items() if queue.sent}

    def test_new_video_queues_an_aggregate_message(self) -> None:
        assert self._sent(stream_record(None, VIDEO)) == {"aggregates": [aggregates_message("v")]}

    @pytest.mark.parametrize("change", [{"tags": {"x"}}, {"fileSize": 11}, {"duration": 1}], ids=str)
    def test_change_of_tags_size_or_duration_queues_an_aggregate_message(self, change: Item) -> None:
        assert self._sent(stream_record(VIDEO, VIDEO | change)) == {"aggregates": [aggregates_message("v")]}

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (VIDEO, VIDEO | {"releaseYear": 1999}),
            (VIDEO | {"releaseYear": 1999}, VIDEO | {"releaseYear": 2000}),
            (VIDEO, VIDEO | DELETED),
            (VIDEO | DELETED, VIDEO),
            (VIDEO, VIDEO | {"expiresAt": NOW + 1}),
            (None, VIDEO | {"expiresAt": NOW + 1}),
            # a write that began before the deletion, and ended after it
            (VIDEO | DELETED, VIDEO | {"rel": schema.status_relation("ready")}),
        ],
        ids=["year added", "year changed", "deleted", "restored", "expiry added", "created with expiry", "late write"],
    )
    def test_change_that_moves_entries_also_queues_their_update(self, old: Item | None, new: Item) -> None:
        assert self._sent(stream_record(old, new)) == {"aggregates": [aggregates_message("v", entries=True)]}

    @pytest.mark.parametrize("change", [{"title": "t"}, {"tags": {"DRAMA"}}, {"version": 7}], ids=str)
    def test_any_other_change_sends_nothing(self, change: Item) -> None:
        assert self._sent(stream_record(VIDEO, VIDEO | change)) == {}

    @pytest.mark.parametrize("identity", [None, EXPIRY], ids=["deleted by a writer", "expired"])
    def test_removed_video_queues_an_aggregate_and_a_purge_message(self, identity: dict[str, str] | None) -> None:
        sent = self._sent(stream_record(VIDEO, None, identity=identity))
        assert sent == {
            "aggregates": [aggregates_message("v")],
            "purge": [{"schema": "video-metadata/purge/1", "videoId": "v"}],
        }

    def test_removed_playlist_queues_a_purge_message(self) -> None:
        playlist = {**schema.PLAYLIST.key(playlistId="p"), "playlistId": "p", "title": "t"}
        message = {"schema": "video-metadata/purge-playlist/1", "playlistId": "p"}
        assert self._sent(stream_record(playlist, None)) == {"purge": [message]}
        assert self._sent(stream_record(None, playlist)) == {}
        assert self._sent(stream_record(playlist, playlist | {"title": "u"})) == {}

    def test_playlist_entries_markers_totals_and_profiles_queue_nothing(self) -> None:
        for key in (
            schema.MEMBERSHIP.key(playlistId="p", videoId="v"),
            schema.MARKER.key(videoId="v"),
            schema.RATING_TOTALS.key(videoId="v"),
            schema.PROFILE.key(userId="u"),
        ):
            assert self._sent(stream_record({**key}, None)) == {}
            assert self._sent(stream_record(None, {**key})) == {}

    def test_records_before_a_failing_record_are_sent(self, table: Table) -> None:
        queues: defaultdict[str, FakeQueue] = defaultdict(FakeQueue)
        handle = FakeResources(table, Clock(), queues=queues).make(stream_router.lambda_handler)
        unreadable = stream_record(None, VIDEO, sequence=2)
        del unreadable["dynamodb"]["NewImage"]
        report = handle(streams.event(stream_record(None, VIDEO), unreadable), Context())
        assert report == {"batchItemFailures": [{"itemIdentifier": streams.sequence_of(unreadable)}]}
        assert queues["aggregates"].sent == [aggregates_message("v")]

    def test_records_are_redelivered_while_the_queue_is_busy(self, table: Table) -> None:
        queue = _BusyAtFirst()
        queues = defaultdict[str, FakeQueue](FakeQueue, aggregates=queue)
        handle = FakeResources(table, Clock(), queues=queues).make(stream_router.lambda_handler)
        change = stream_record(None, VIDEO)
        report = {"batchItemFailures": [{"itemIdentifier": streams.sequence_of(change)}]}
        assert handle(streams.event(change), Context()) == report
        assert handle(streams.event(change), Context()) == {"batchItemFailures": []}
        assert queue.sent == [aggregates_message("v")]
        # The handler raises for a batch of several records, because Lambda then halves the batch.
        queue.is_busy = True
        with pytest.raises(BatchProcessingError):
            handle(streams.event(change, change), Context())


class _BusyAtFirst(FakeQueue):
    """A queue that rejects the first batch with Unavailable."""

    is_busy = True

    def send_all(self, bodies: Sequence[Mapping[str, object]]) -> None:
        """Store the messages. Raises Unavailable while `is_busy` is set, and then resets `is_busy`."""
        was_busy, self.is_busy = self.is_busy, False
        if was_busy:
            raise Unavailable
        super().send_all(bodies)


class TestSettling:
    def test_totals_stay_exact_after_each_change_of_a_video(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = api.create(tags=["a", "b"], fileSize=5)["videoId"]
        background.settle_totals()
        assert_exact(table)
        for change in (
            {"status": "processing"},
            {"status": "ready", "visibility": "public", "duration": 9},
            {"tags": ["B", "c"]},
            {"fileSize": None},
            {"visibility": "private"},
        ):
            assert api.patch(f"/v1/videos/{video_id}", change).status == 200
            background.settle_totals()
            assert_exact(table)
        api.delete(f"/v1/videos/{video_id}")
        background.settle_totals()
        assert_exact(table)
        api.post(f"/v1/videos/{video_id}/restore")
        background.settle_totals()
        assert_exact(table)

    def test_removed_video_leaves_the_totals(self, api: Api, table: Table, background: BackgroundWork) -> None:
        video_id = api.publish(tags=["a"], fileSize=5)["videoId"]
        background.settle_totals()
        remove(table, video_id)
        background.settle_totals()
        assert marker(table, video_id) == {}
        assert_exact(table)
        assert api.get("/v1/users/alice").json["videos"]["total"] == 0

    @pytest.mark.slow
    def test_messages_may_be_duplicated_late_and_reordered(
        self, api: Api, table: Table, clock: Clock, background: BackgroundWork
    ) -> None:
        chance = random.Random(4)
        messages: list[dict[str, Any]] = []
        alive: list[str] = []
        for step in range(40):
            match chance.choice(["create", "patch", "delete", "remove"]) if alive else "create":
                case "create":
                    tags, folder = chance.sample(["a", "b", "c"], 2), chance.choice(FOLDERS)
                    owner = chance.choice(["alice", "bob"])
                    alive.append(api.publish(owner, tags=tags, fileSize=step, folder=folder)["videoId"])
                case "patch":
                    body: Item = {"visibility": chance.choice(["public", "private"]), "tags": chance.sample("abcd", 2)}
                    body["folder"] = chance.choice([None, *FOLDERS])
                    api.patch(f"/v1/videos/{chance.choice(alive)}", body, user="admin")
                case "delete":
                    api.delete(f"/v1/videos/{chance.choice(alive)}", user="admin")
                case _:
                    remove(table, alive.pop(chance.randrange(len(alive))))
            background.settle()
            messages += background.queues["aggregates"].take()
            if chance.random() < 0.3:
                background.count(*chance.choices(messages, k=3))
        chance.shuffle(messages)
        background.count(*messages, *messages[:10])
        assert_exact(table)

    def test_repeated_message_writes_nothing(self, api: Api, table: Table, background: BackgroundWork) -> None:
        video_id = api.publish(tags=["a"])["videoId"]
        background.settle_totals()
        before = items_of(table)
        assert Aggregates(table).settle([video_id], NOW + 1) == 0
        assert items_of(table) == before

    def test_videos_of_one_batch_are_settled_in_one_transaction(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_ids = [api.publish(tags=["a", f"t{n}"])["videoId"] for n in range(10)]
        with record_operations(table.client) as operations:
            assert Aggregates(table).settle([*video_ids, *video_ids], NOW) == 10
        names = [operation.name for operation in operations]
        assert names == ["BatchGetItem", "TransactWriteItems", "BatchGetItem"]
        assert_exact(table)

    def test_videos_are_settled_in_transactions_of_limited_size(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.background.aggregates.LARGEST_TRANSACTION", 10)
        video_ids = [api.publish(tags=[f"t{n}-{m}" for m in range(3)])["videoId"] for n in range(5)]
        with record_operations(table.client) as operations:
            Aggregates(table).settle(video_ids, NOW)
        sizes = [
            len(operation.parameters["TransactItems"])
            for operation in operations
            if operation.name == "TransactWriteItems"
        ]
        # A video has a MARKER item and three tags. The totals of the user and of the service are two items per transaction.
        assert sizes == [2 * 4 + 2, 2 * 4 + 2, 4 + 2]
        assert_exact(table)

    def test_largest_change_of_one_video_fits_one_transaction(self) -> None:
        NewVideo.model_validate({"title": "t", "tags": [f"t{n}" for n in range(30)]})
        with pytest.raises(ValidationError):
            NewVideo.model_validate({"title": "t", "tags": [f"t{n}" for n in range(31)]})
        # The MARKER item, the totals of two users, and all old and new tags.
        assert LARGEST_TRANSACTION >= 1 + 2 + 2 * 30

    def test_no_totals_item_has_attributes_of_a_video_index(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        api.publish(tags=["a"])
        background.settle_totals()
        counted_items = [item for item in items_of(table) if item["sk"] in ("AGG", "#PROFILE", "#COUNT")]
        assert len(counted_items) == 3
        for item in counted_items:
            assert not {"userId", "createdAt", "videoId"} <= item.keys()
            assert {"schemaVersion", "updatedAt", "updatedBy", "version"} <= item.keys()

    def test_changed_total_rewrites_only_projected_attributes(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = api.publish(tags=["a"])["videoId"]
        background.settle_totals()

        def projected() -> list[Item]:
            keys = [key.name for index in schema.INDEXES for key in (*index.partition, *index.sort)]
            counted_items = [item for item in items_of(table) if item["sk"] in ("AGG", "#PROFILE")]
            return [{name: item[name] for name in (*keys, *PROJECTION) if name in item} for item in counted_items]

        before = projected()
        api.patch(f"/v1/videos/{video_id}", {"duration": 77, "fileSize": 7, "status": "processing"})
        background.settle_totals()
        assert projected() == before


class _InterruptedTable:
    """A table that runs an action before its next transaction, or on which every transaction raises an error."""

    def __init__(self, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        self.table = table
        self.patch = monkeypatch
        self.transact = table.transact

    def before(self, action: Any) -> None:
        def transact(writes: Sequence[Write]) -> None:
            self.patch.setattr(self.table, "transact", self.transact)
            action()
            self.transact(writes)

        self.patch.setattr(self.table, "transact", transact)

    def always(self, error: Exception) -> list[int]:
        attempts: list[int] = []

        def transact(_: Sequence[Write]) -> None:
            attempts.append(1)
            raise error

        self.patch.setattr(self.table, "transact", transact)
        return attempts


@pytest.fixture
def interrupted(table: Table, monkeypatch: pytest.MonkeyPatch) -> _InterruptedTable:
    """Return the table, with hooks that run between the read and the write of a settlement."""
    return _InterruptedTable(table, monkeypatch)


class TestConcurrentSettling:
    def test_concurrent_worker_with_the_same_message_counts_nothing_twice(
        self, api: Api, table: Table, interrupted: _InterruptedTable
    ) -> None:
        video_id = api.publish(tags=["a"])["videoId"]
        interrupted.before(lambda: Aggregates(table).settle([video_id], NOW))
        Aggregates(table).settle([video_id], NOW)
        assert_exact(table)

    @pytest.mark.parametrize("is_settled", [True, False], ids=["counted concurrently", "not counted yet"])
    def test_change_between_read_and_write_is_counted(
        self, api: Api, table: Table, interrupted: _InterruptedTable, is_settled: bool
    ) -> None:
        video_id = api.publish(tags=["a"], fileSize=1)["videoId"]

        def change() -> None:
            api.patch(f"/v1/videos/{video_id}", {"fileSize": 2})
            if is_settled:
                Aggregates(table).settle([video_id], NOW)

        interrupted.before(change)
        Aggregates(table).settle([video_id], NOW)
        assert_exact(table)

    def test_video_removed_between_read_and_write_is_not_counted(
        self, api: Api, table: Table, interrupted: _InterruptedTable
    ) -> None:
        video_id = api.publish(tags=["a"])["videoId"]

        def remove_video() -> None:
            remove(table, video_id)
            assert Aggregates(table).settle([video_id], NOW) == 0

        interrupted.before(remove_video)
        Aggregates(table).settle([video_id], NOW)
        assert marker(table, video_id) == {}
        assert_exact(table)

    def test_reused_id_counts_as_the_new_video(self, api: Api, table: Table, interrupted: _InterruptedTable) -> None:
        video_id = api.publish(tags=["a"], fileSize=1)["videoId"]
        Aggregates(table).settle([video_id], NOW)
        api.patch(f"/v1/videos/{video_id}", {"fileSize": 5})

        def replace_video() -> None:
            remove(table, video_id)
            Aggregates(table).settle([video_id], NOW)
            table.delete(schema.TAG.key(videoId=video_id, tag="a"))  # as the purge of the removed video does
            api.publish("bob", videoId=video_id, fileSize=3)
            Aggregates(table).settle([video_id], NOW)

        interrupted.before(replace_video)
        Aggregates(table).settle([video_id], NOW)
        assert_exact(table)

    @pytest.mark.parametrize("error", [ConditionFailed(None), TransactionConflict()], ids=["condition", "conflict"])
    def test_write_contention_is_raised_after_the_maximum_number_of_attempts(
        self, api: Api, table: Table, interrupted: _InterruptedTable, error: Exception
    ) -> None:
        video_id = api.publish()["videoId"]
        attempts = interrupted.always(error)
        with pytest.raises(WriteContention):
            Aggregates(table).settle([video_id], NOW)
        assert len(attempts) == MAX_ATTEMPTS


def _years(table: Table, video_id: str) -> list[int]:
    """Return the years by which RelationIndex sorts a video's credits. 0 is a video without a year."""
    prefix, pk = "CREDIT#", schema.VIDEO.key(videoId=video_id)["pk"]
    return [int(item["relSort"]) for item in items_of(table) if item["pk"] == pk and item["sk"].startswith(prefix)]


def _credit(api: Api, video_id: str, *people: str, ordering: int = 1) -> None:
    for person in people:
        body = {"ordering": ordering, "roles": [{"category": "actor"}]}
        assert api.put(f"/v1/videos/{video_id}/credits/{person}", body).status in (200, 201)


def _credited(api: Api, **fields: Any) -> str:
    """Create a video with three credits and return its id."""
    video_id = str(api.publish(**fields)["videoId"])
    _credit(api, video_id, "nm1", "nm2", "nm3")
    return video_id


def _date(api: Api, video_id: str, year: int | None) -> None:
    assert api.patch(f"/v1/videos/{video_id}", {"releaseYear": year}).status == 200


class TestYearsOfCredits:
    def test_sort_year_of_credits_follows_the_release_year_of_the_video(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = _credited(api, releaseYear=1999)
        for year in (2001, None, 1950):
            _date(api, video_id, year)
            background.settle_totals()
            assert _years(table, video_id) == [year or 0] * 3

    def test_change_without_a_new_year_reads_no_credits(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = _credited(api, releaseYear=1999)
        background.settle_totals()
        api.patch(f"/v1/videos/{video_id}", {"fileSize": 7})
        with record_operations(table.client) as operations:
            background.settle_totals()
        assert [operation.name for operation in operations] == ["BatchGetItem", "TransactWriteItems", "BatchGetItem"]

    @pytest.mark.slow
    def test_entries_are_moved_in_transactions_of_limited_size(self, api: Api, table: Table) -> None:
        video = api.publish(releaseYear=1999)
        content = CreditContent.model_validate({"ordering": 1, "roles": [{"category": "actor"}]})
        credits_ = [credit_item(video, f"nm{n}", content, caller=JOB, now=NOW) for n in range(LARGEST_TRANSACTION)]
        table.transact([table.put(item) for item in credits_])
        _date(api, video["videoId"], 2001)
        with record_operations(table.client) as operations:
            assert EntryUpdater(table).update_entries(video["videoId"], NOW) is None
        sizes = [
            len(operation.parameters["TransactItems"])
            for operation in operations
            if operation.name == "TransactWriteItems"
        ]
        assert sizes == [LARGEST_TRANSACTION, 2]  # the first also has the condition check of the video
        assert _years(table, video["videoId"]) == [2001] * LARGEST_TRANSACTION

    def test_overtaken_move_does_not_restore_the_former_year(
        self, api: Api, table: Table, interrupted: _InterruptedTable
    ) -> None:
        video_id = _credited(api, releaseYear=1999)
        _date(api, video_id, 2000)

        def overtake() -> None:
            _date(api, video_id, 2001)
            assert EntryUpdater(table).update_entries(video_id, NOW) is None

        interrupted.before(overtake)
        assert EntryUpdater(table).update_entries(video_id, NOW) is None
        assert _years(table, video_id) == [2001] * 3

    def test_credit_written_during_a_year_change_has_the_final_year(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = _credited(api, releaseYear=1999)
        background.settle_totals()
        _date(api, video_id, 2000)
        _credit(api, video_id, "nm4")
        _date(api, video_id, 1999)
        background.settle_totals()
        assert _years(table, video_id) == [1999] * 4

    @pytest.mark.parametrize("year", [1999, 2001, None])
    def test_entries_are_complete_after_an_interrupted_move(
        self, api: Api, table: Table, background: BackgroundWork, monkeypatch: pytest.MonkeyPatch, year: int | None
    ) -> None:
        monkeypatch.setattr("shared.relations.entry_updates.MOVED_AT_A_TIME", 1)
        video_id = _credited(api, releaseYear=1999)
        background.settle_totals()
        _date(api, video_id, 2000)
        assert EntryUpdater(table).update_entries(video_id, NOW, iter([True, False]).__next__) == 0
        assert _years(table, video_id) == [2000, 1999, 1999]
        _date(api, video_id, year)
        background.settle_totals()
        assert _years(table, video_id) == [year or 0] * 3

    def test_concurrently_removed_credit_does_not_block_other_moves(
        self, api: Api, table: Table, interrupted: _InterruptedTable
    ) -> None:
        video_id = _credited(api, releaseYear=1999)
        _date(api, video_id, 2000)
        interrupted.before(lambda: api.delete(f"/v1/videos/{video_id}/credits/nm2"))
        assert EntryUpdater(table).update_entries(video_id, NOW) is None
        assert _years(table, video_id) == [2000] * 2

    def test_entry_written_concurrently_does_not_stop_the_move_of_the_others(
        self, api: Api, table: Table, interrupted: _InterruptedTable
    ) -> None:
        video_id = _credited(api, releaseYear=1999)
        _date(api, video_id, 2000)
        interrupted.before(lambda: _credit(api, video_id, "nm2", ordering=9))
        assert EntryUpdater(table).update_entries(video_id, NOW) is None
        assert _years(table, video_id) == [2000] * 3

    @pytest.mark.parametrize("year", [2000, None])
    def test_entries_of_a_removed_video_are_not_moved(
        self, api: Api, table: Table, interrupted: _InterruptedTable, year: int | None
    ) -> None:
        video_id = _credited(api, releaseYear=1999)
        _date(api, video_id, year)
        interrupted.before(lambda: remove(table, video_id))
        assert EntryUpdater(table).update_entries(video_id, NOW) is None
        assert EntryUpdater(table).update_entries(video_id, NOW) is None
        assert _years(table, video_id) == [1999] * 3

    @pytest.mark.parametrize("error", [ConditionFailed(None, 1), TransactionConflict()], ids=["condition", "conflict"])
    def test_write_contention_is_raised_after_the_maximum_number_of_attempts(
        self, api: Api, table: Table, interrupted: _InterruptedTable, error: Exception
    ) -> None:
        video_id = _credited(api, releaseYear=1999)
        _date(api, video_id, 2000)
        attempts = interrupted.always(error)
        with pytest.raises(WriteContention):
            EntryUpdater(table).update_entries(video_id, NOW)
        assert len(attempts) == MAX_ATTEMPTS


def _worker(table: Table, queue: FakeQueue | None = None) -> LambdaHandler:
    """Return the Lambda handler over a table. It sends messages to `queue`."""
    queues = {"aggregates": queue or FakeQueue()}
    return FakeResources(table, lambda: NOW, queues=queues).make(handler.lambda_handler)


class TestWorker:
    def _message(self, video_id: str, *, entries: bool = False) -> str:
        return json.dumps(aggregates_message(video_id, entries=entries))

    def test_invalid_message_fails_alone(self, api: Api, table: Table) -> None:
        good = api.publish()["videoId"]
        worker = _worker(table)
        event = streams.sqs_event(self._message(good), "no json", '{"schema": "other"}', self._message("absent"))
        assert worker(event, Context()) == {"batchItemFailures": [{"itemIdentifier": "m1"}, {"itemIdentifier": "m2"}]}
        assert_exact(table)

    def test_video_that_cannot_be_counted_does_not_block_others(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        good, bad = api.publish()["videoId"], api.publish()["videoId"]
        settle = Aggregates.settle

        def failing(aggregates: Aggregates, video_ids: Sequence[str], *arguments: Any) -> int:
            if bad in video_ids:
                raise InternalError("It broke.")
            return settle(aggregates, video_ids, *arguments)

        monkeypatch.setattr(Aggregates, "settle", failing)
        event = streams.sqs_event(self._message(good), self._message(bad))
        assert _worker(table)(event, Context()) == {"batchItemFailures": [{"itemIdentifier": "m1"}]}
        assert marker(table, good)
        assert not marker(table, bad)

    def test_all_messages_are_redelivered_when_the_table_is_busy(
        self, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = []

        def busy(_: Aggregates, video_ids: Sequence[str], *__: object) -> int:
            calls.append(video_ids)
            raise Unavailable

        monkeypatch.setattr(Aggregates, "settle", busy)
        event = streams.sqs_event(self._message("a"), self._message("b"))
        response = _worker(table)(event, Context())
        assert response == {"batchItemFailures": [{"itemIdentifier": "m0"}, {"itemIdentifier": "m1"}]}
        assert calls == [["a", "b"]]

    def test_totals_are_settled_before_years_and_the_remainder_is_requeued(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.relations.entry_updates.MOVED_AT_A_TIME", 1)
        large, other, without_entries = _credited(api), _credited(api), str(api.publish()["videoId"])
        for video_id in (large, other):
            _date(api, video_id, 2000)
        queue = FakeQueue()
        worker = _worker(table, queue)
        messages = [
            self._message(large, entries=True),
            self._message(other, entries=True),
            self._message(without_entries),
        ]

        # The time suffices for the totals of all videos and for two entries.
        assert worker(streams.sqs_event(*messages), ShortContext(3)) == {"batchItemFailures": []}

        assert_exact(table)
        assert queue.sent == [aggregates_message(large, entries=True), aggregates_message(other, entries=True)]
        assert _years(table, large) == [2000, 2000, 0]
        for unfinished in ([other], []):
            redelivered = streams.sqs_event(*map(json.dumps, queue.take()))
            assert worker(redelivered, ShortContext(3)) == {"batchItemFailures": []}
            assert queue.sent == [aggregates_message(video_id, entries=True) for video_id in unfinished]
        assert _years(table, large) == _years(table, other) == [2000] * 3

    def test_totals_not_settled_in_time_are_requeued(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.background.aggregates.LARGEST_TRANSACTION", 4)
        video_ids = [str(api.publish(tags=[f"t{n}"])["videoId"]) for n in range(3)]
        queue = FakeQueue()
        worker = _worker(table, queue)
        messages = [self._message(video_id, entries=video_id == video_ids[2]) for video_id in video_ids]

        assert worker(streams.sqs_event(*messages), ShortContext(1)) == {"batchItemFailures": []}

        assert [bool(marker(table, video_id)) for video_id in video_ids] == [True, False, False]
        # The first video is also requeued, because the worker did not read it again after the write.
        assert queue.sent == [json.loads(message) for message in messages]
        assert worker(streams.sqs_event(*map(json.dumps, queue.take())), Context()) == {"batchItemFailures": []}
        assert_exact(table)
        assert not queue.sent

    def test_messages_that_cannot_be_requeued_are_redelivered(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video_id = _credited(api)
        _date(api, video_id, 2000)
        event = streams.sqs_event(self._message(video_id, entries=True), self._message(str(api.publish()["videoId"])))
        worker = _worker(table, _BusyAtFirst())
        assert worker(event, ShortContext(1)) == {"batchItemFailures": [{"itemIdentifier": "m0"}]}
        assert_exact(table)

    def test_entries_of_a_video_are_moved_once_for_several_messages(self, api: Api, table: Table) -> None:
        video_id = _credited(api)
        _date(api, video_id, 2000)
        event = streams.sqs_event(*[self._message(video_id, entries=True)] * 3)
        worker = _worker(table)
        with record_operations(table.client) as operations:
            assert worker(event, Context()) == {"batchItemFailures": []}
        # One transaction for the totals, and one for the entries.
        assert [operation.name for operation in operations].count("TransactWriteItems") == 2
        assert _years(table, video_id) == [2000] * 3

    def test_messages_with_write_conflicts_are_redelivered_and_others_are_not(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.background.aggregates.VIDEOS_AT_A_TIME", 1)
        good, bad = str(api.publish("alice")["videoId"]), str(api.publish("bob")["videoId"])
        transact = table.transact

        def conflicting(writes: Sequence[Write]) -> None:
            if any(
                write.parameters.get("Key") == {"pk": {"S": "USER#bob"}, "sk": {"S": "#PROFILE"}} for write in writes
            ):
                raise TransactionConflict
            transact(writes)

        monkeypatch.setattr(table, "transact", conflicting)
        worker = _worker(table)
        event = streams.sqs_event(self._message(good), self._message(bad), self._message(bad))
        assert worker(event, Context()) == {"batchItemFailures": [{"itemIdentifier": id_} for id_ in ("m1", "m2")]}
        assert (bool(marker(table, good)), bool(marker(table, bad))) == (True, False)

    def test_video_whose_credits_cannot_be_moved_does_not_block_others(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        good, bad = _credited(api), _credited(api)
        for video_id in (good, bad):
            _date(api, video_id, 2000)
        move_entries = EntryUpdater.update_entries

        def failing(updater: EntryUpdater, video_id: str, now: int, in_time: Callable[[], bool]) -> int | None:
            if video_id == bad:
                raise Unavailable
            return move_entries(updater, video_id, now, in_time)

        monkeypatch.setattr(EntryUpdater, "update_entries", failing)
        event = streams.sqs_event(self._message(bad, entries=True), self._message(good, entries=True))
        assert _worker(table)(event, Context()) == {"batchItemFailures": [{"itemIdentifier": "m0"}]}
        assert _years(table, good) == [2000] * 3
        assert_exact(table)

    def test_years_are_not_moved_when_totals_are_redelivered(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video_id = _credited(api)
        _date(api, video_id, 2000)

        def busy(*_: Any) -> int:
            raise Unavailable

        monkeypatch.setattr(Aggregates, "settle", busy)
        event = streams.sqs_event(self._message(video_id, entries=True))
        response = _worker(table)(event, Context())
        assert response == {"batchItemFailures": [{"itemIdentifier": "m0"}]}
        assert _years(table, video_id) == [0] * 3


def test_videos_changed_by_jobs_are_counted(table: Table, api: Api, background: BackgroundWork) -> None:
    video_id = api.create()["videoId"]
    VideoStore(table).change(video_id, JOB, NOW, lambda item: item | {"duration": 1234})
    background.settle_totals()
    assert api.get("/v1/users/alice").json["duration"] == 1234


class TestUploads:
    """Uploads per hour, which the totals' transaction also counts."""

    def _uploads(self, table: Table) -> dict[str, int]:
        counted: Counter[str] = Counter()
        for item in items_of(table):
            if schema.UPLOAD_HOUR.has_sort_key(item["sk"]):
                counted[item["sk"].partition("#")[2]] += item["uploads"]
                assert item["purgeAt"] > NOW
        return dict(counted)

    def _arrive(self, table: Table, video_id: str, at: int) -> None:
        source = {"source": {"fileSize": 1, "arrivedAt": at}}
        video = table.get(schema.VIDEO.key(videoId=video_id)) or {}
        table.write(table.put(video | source))

    def test_each_file_counts_once_in_the_hour_in_which_it_arrived(self, api: Api, table: Table) -> None:
        first, second = (api.create()["videoId"] for _ in range(2))
        aggregates = Aggregates(table)
        aggregates.settle([first, second], NOW)
        assert self._uploads(table) == {}
        for video_id, at in ((first, NOW), (second, NOW - 3600)):
            self._arrive(table, video_id, at)
        for _ in range(2):
            aggregates.settle([first, second], NOW)
        assert self._uploads(table) == {hour_of(NOW): 1, hour_of(NOW - 3600): 1}
        self._arrive(table, first, NOW + 1)
        aggregates.settle([first], NOW)
        assert self._uploads(table) == {hour_of(NOW): 2, hour_of(NOW - 3600): 1}

    def test_file_that_arrived_long_ago_does_not_count(self, api: Api, table: Table) -> None:
        video_id = api.create()["videoId"]
        self._arrive(table, video_id, NOW - UPLOADS_RETAINED_DAYS * DAY_SECONDS)
        Aggregates(table).settle([video_id], NOW)
        assert self._uploads(table) == {}
        assert_exact(table)
