"""Tests of the change feed: appends, redelivery, reads, `GET /v1/changes`, and the audit function as its writer.

Each change is appended exactly once to its logs, at the next position, despite concurrent writers and faults.
"""

import json
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack
from urllib.parse import quote

import jsonschema_rs
import pytest

from local.stream_records import Raw, stream_record
from local.testbed import streams
from local.testbed.background import FakeQueue, make_audit
from local.testbed.feed_changes import append_changes, change
from local.testbed.harness import NOW, Api, Clock, Context, Reply, record_operations
from shared.aws.dynamodb import QueryPage, QueryRequest, Table, Write
from shared.core.attributes import Item
from shared.core.change_types import TYPES
from shared.core.errors import Gone, Unavailable
from shared.feed import log, reader
from shared.feed.change import LONGEST_FIELDS, Change, change_of, has_type
from shared.feed.log import DAYS_KEPT, OLDEST, Feed, LogCursor, logs_of, owner_log, shard_logs
from shared.openapi.document import document
from shared.routes import CHANGES, READ
from shared.schema import AUDIT_TABLE_NAME, VIDEO, shard_of
from tests.integration import faults
from tests.integration.contents import items_of
from tests.integration.faults import FaultLine, Incident, Killed
from tests.logs import metrics

ALICE_LOG = owner_log("alice")
VIDEO_IDS = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(40)]
READ_ALL_CHANGES = f"{READ} {CHANGES}"
INCIDENTS = (
    faults.throttle,
    faults.fail,
    faults.lose_request,
    faults.kill_before,
    faults.lose_response,
    faults.kill_after,
)
DAY = 86_400


@pytest.fixture
def trail(table: Table) -> Table:
    """Return the audit table, without automatic retries. It also contains the feed."""
    return Table(AUDIT_TABLE_NAME, table.client, attempts=1, sleep=lambda _: None)


@pytest.fixture
def feed(trail: Table, clock: Clock) -> Feed:
    """Return a feed that uses the test clock."""
    return Feed(trail, clock)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close a tail after two or three changes."""
    monkeypatch.setattr(log, "LARGEST_TAIL", 300)


def read_all(feed: Feed, name: str = ALICE_LOG, cursor: LogCursor = OLDEST, step: int = 1000) -> list[tuple[int, str]]:
    """Return the positions and ids of all changes after a cursor, read `step` at a time."""
    read_changes: list[tuple[int, str]] = []
    while True:
        page = feed.read(name, cursor, step)
        read_changes += [(one.position, one.change["id"]) for one in page.entries]
        cursor = page.cursor
        if page.is_end:
            return read_changes


def dense(*numbers: int) -> list[tuple[int, str]]:
    """Return these changes with the positions 1, 2, 3 ..."""
    return [(position, change(number)["id"]) for position, number in enumerate(numbers, 1)]


def blocks_of(trail: Table, name: str = ALICE_LOG) -> list[Item]:
    """Return the stored blocks of a log. The tail is last."""
    return sorted((item for item in items_of(trail) if item["pk"] == name), key=lambda item: str(item["sk"]))


class TestChangeContent:
    def test_change_is_in_the_log_of_its_subject_and_of_its_owner(self) -> None:
        assert logs_of(change()) == (shard_logs()[shard_of(change()["videoId"])], ALICE_LOG)
        without_owner = change(playlistId=VIDEO_IDS[0])
        del without_owner["videoId"], without_owner["userId"]
        assert logs_of(without_owner) == (shard_logs()[shard_of(VIDEO_IDS[0])],)

    def test_shard_logs_are_appended_before_the_owner_log(self, trail: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        """Test that a consumer that has read a change in the owner's log finds the same change in a shard log."""
        order: list[str] = []
        monkeypatch.setattr(Feed, "_append", lambda _, changes: order.extend(changes))
        append_changes(Feed(trail), *(change(number, videoId=video_id) for number, video_id in enumerate(VIDEO_IDS)))
        assert order[-1] == ALICE_LOG
        assert set(order[:-1]) <= set(shard_logs())

    def test_change_has_field_names_without_values(self) -> None:
        entry = {"pk": "p", "sk": "s", "entity": "video", "action": "changed", "owner": "alice", "videoId": "v"}
        feed_change = change_of(entry | {"changes": [{"field": "/title", "from": "secret", "to": "secret"}]})
        assert (feed_change["type"], feed_change["userId"], feed_change["fields"]) == (
            "video.changed",
            "alice",
            ["/title"],
        )
        assert "secret" not in json.dumps(feed_change)
        assert "fieldsOmitted" not in feed_change
        assert feed_change == change_of(entry | {"changes": [{"field": "/title"}]}), (
            "two changes of the same entry must be equal"
        )

    def test_change_of_captions_has_language_and_fields_and_of_chapters_only_fields(self) -> None:
        entry = {"pk": "p", "sk": "s", "action": "changed", "owner": "alice", "videoId": "v", "version": 2}
        texts = [{"field": f"/{name}", "from": "1", "to": "2"} for name in ("cues", "size", "text")]
        captions = change_of(entry | {"entity": "captions", "language": "mi", "changes": texts})
        chapters = change_of(entry | {"entity": "chapters", "changes": [{"field": "/chapters", "to": []}]})
        same = {"videoId": "v", "version": 2, "userId": "alice"}
        expected = same | {"type": "captions.changed", "language": "mi", "fields": ["/cues", "/size", "/text"]}
        assert {name: value for name, value in captions.items() if name != "id"} == expected
        expected = same | {"type": "chapters.changed", "fields": ["/chapters"]}
        assert {name: value for name, value in chapters.items() if name != "id"} == expected
        assert [has_type(captions, [type_]) for type_ in ("captions.*", "chapters.*", "captions.changed")] == [
            *(True, False, True)
        ]

    @pytest.mark.parametrize(
        ("lengths", "named"), [([LONGEST_FIELDS], 1), ([LONGEST_FIELDS + 1], 0), ([600, 400], 2), ([600, 401, 1], 1)]
    )
    def test_names_of_changed_fields_have_a_total_length_limit(self, lengths: list[int], named: int) -> None:
        entry = {"pk": "p", "sk": "s", "entity": "video", "action": "changed"}
        feed_change = change_of(entry | {"changes": [{"field": "x" * length} for length in lengths]})
        assert len(feed_change["fields"]) == named
        assert feed_change.get("fieldsOmitted", False) == (named < len(lengths))

    def test_change_of_a_truncated_entry_has_fields_omitted(self) -> None:
        entry = {"pk": "p", "sk": "s", "entity": "video", "action": "changed", "changes": [], "omitted": 3}
        assert change_of(entry)["fieldsOmitted"]

    def test_id_of_a_change_is_unique_to_its_entry(self) -> None:
        ids = {change_of({"pk": "p", "sk": str(n), "entity": "video", "action": "changed"})["id"] for n in range(100)}
        assert len(ids) == 100
        assert {len(id_) for id_ in ids} == {20}

    def test_change_matches_its_type_and_its_group(self) -> None:
        assert has_type(change(), ())
        assert has_type(change(), ("video.changed",))
        assert has_type(change(), ("job.done", "video.*"))
        assert not has_type(change(), ("video.created", "playlist.*"))


@pytest.mark.usefixtures("small_blocks")
class TestAppending:
    def test_positions_are_dense_across_blocks(self, feed: Feed, trail: Table) -> None:
        for number in range(1, 31):
            append_changes(feed, change(number))
        assert read_all(feed) == dense(*range(1, 31))
        assert len(blocks_of(trail)) > 5

    @pytest.mark.parametrize("step", [1, 2, 3, 7])
    def test_reading_in_steps_returns_the_same_changes(self, feed: Feed, step: int) -> None:
        for number in range(1, 31):
            append_changes(feed, change(number))
        assert read_all(feed, step=step) == dense(*range(1, 31))

    def test_batch_is_one_write_for_each_block_of_a_log(self, feed: Feed, trail: Table) -> None:
        append_changes(feed, change(1))
        with record_operations(trail.client) as operations:
            append_changes(feed, *(change(number) for number in range(2, 12)))
        # Each of the two logs closes its tail, and begins a new tail with all ten changes.
        assert [operation.name for operation in operations] == ["PutItem"] * 4
        assert read_all(feed) == dense(*range(1, 12))

    def test_batch_of_large_changes_fits_into_one_item(self, feed: Feed, trail: Table) -> None:
        large = [
            change(number, fields=["/" + random.Random(number).randbytes(LONGEST_FIELDS).hex()[: LONGEST_FIELDS - 1]])
            for number in range(200)
        ]
        append_changes(feed, *large)
        append_changes(feed, change(200))
        assert max(len(item["changes"]) for item in blocks_of(trail)) < 400_000
        assert read_all(feed) == dense(*range(201))

    @pytest.mark.slow
    def test_concurrent_appends_are_serialised(self, trail: Table, clock: Clock) -> None:
        chance, writers = random.Random(1), [Feed(trail, clock) for _ in range(5)]
        for number in range(1, 101):
            append_changes(chance.choice(writers), change(number))
        assert read_all(writers[0]) == dense(*range(1, 101))

    def test_writer_with_a_stale_tail_never_replaces_a_longer_block(
        self, trail: Table, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = logs_of(change())[0]  # `append` writes this log first
        current, stale = Feed(trail, clock), Feed(trail, clock)
        append_changes(current, change(1))
        stale.prepare([change(9)])  # the cached tail has one change
        monkeypatch.setattr(log, "LARGEST_TAIL", 10_000)
        append_changes(current, change(2))
        append_changes(current, change(3))
        monkeypatch.setattr(log, "LARGEST_TAIL", 1)
        with monkeypatch.context() as patch:
            patch.setattr(stale, "_caught_up", _kill)
            with pytest.raises(Killed):
                stale.append([change(9)])  # crashes after it wrote its block, before the tail
        block, tail = blocks_of(trail, name)
        assert (block["count"], tail["count"]) == (1, 3)
        assert read_all(current, name) == dense(1, 2, 3), "each change must be read once"
        assert read_all(current, name, step=2) == dense(1, 2, 3)
        append_changes(current, change(4))
        assert blocks_of(trail, name)[0]["count"] == 3, "the longer block must replace the shorter one"
        stale.append([change(9)])
        assert blocks_of(trail, name)[0]["count"] == 3, "the shorter block must not replace the longer one"
        assert read_all(current, name) == dense(1, 2, 3, 4, 9)

    @pytest.mark.parametrize("call", range(8))
    @pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.__name__)
    def test_redelivered_changes_are_appended_once_when_any_call_fails(
        self, feed: Feed, trail: Table, clock: Clock, incident: Incident, call: int
    ) -> None:
        append_changes(feed, change(1), change(2))
        line = FaultLine(trail.client)
        line.arm(incident, call)
        batch = [change(3), change(4)]
        for writer in (Feed(trail, clock), Feed(trail, clock)):
            try:
                append_changes(writer, *batch, repeated=[change_["id"] for change_ in batch] if line.calls else ())
            except (Killed, Unavailable):
                continue
            break
        line.disarm()
        append_changes(Feed(trail, clock), *batch, repeated=[change_["id"] for change_ in batch])
        for name in logs_of(change()):
            assert read_all(feed, name) == dense(1, 2, 3, 4)

    def test_repeated_change_in_a_batch_is_appended_once(self, feed: Feed) -> None:
        append_changes(feed, change(1), change(2), change(1), repeated=[change(1)["id"]])
        assert read_all(feed) == dense(1, 2)

    def test_writer_ahead_of_a_restored_log_fails_once_and_then_appends(self, feed: Feed, trail: Table) -> None:
        for number in range(1, 12):
            append_changes(feed, change(number))
        for item in items_of(trail):
            trail.delete({name: item[name] for name in ("pk", "sk")})
        with pytest.raises(Gone):
            append_changes(feed, change(12))
        append_changes(feed, change(12), repeated=[change(12)["id"]])
        assert read_all(feed) == dense(12)


@pytest.mark.usefixtures("small_blocks")
class TestRedelivery:
    """A feed with one change per minute, and redeliveries of some changes. One Query reads five blocks of two or three
    changes."""

    @pytest.fixture(autouse=True)
    def small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log, "MAX_BLOCKS", 5)

    @pytest.fixture
    def reads(self, trail: Table, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """Return a list to which each Query of ALICE_LOG appends the number of items that it read."""
        counted: list[int] = []
        begin_query = trail.begin_query

        def count(**request: Unpack[QueryRequest]) -> Callable[[], QueryPage]:
            finish = begin_query(**request)

            def page() -> QueryPage:
                read_changes = finish()
                if request["condition"].values[":log"] == ALICE_LOG:
                    counted.append(read_changes.examined)
                return read_changes

            return page

        monkeypatch.setattr(trail, "begin_query", count)
        return counted

    def change_at(self, number: int) -> Change:
        """Return the change of the given minute."""
        return change(number, at=(NOW + 60 * number) * 1000)

    def fill(self, feed: Feed, clock: Clock, numbers: Sequence[int]) -> None:
        """Append the changes of these minutes, each at its own time."""
        for number in numbers:
            clock.now = max(clock.now, NOW + 60 * number)
            append_changes(feed, self.change_at(number))

    def redeliver(self, trail: Table, clock: Clock, *numbers: int) -> None:
        """Redeliver changes to a new instance without cached state."""
        ids = [self.change_at(number)["id"] for number in numbers]
        append_changes(Feed(trail, clock), *map(self.change_at, numbers), repeated=ids)

    @pytest.mark.slow
    @pytest.mark.parametrize("count", [60, 240])
    def test_redelivered_batch_reads_a_logarithmic_number_of_blocks(
        self, feed: Feed, trail: Table, clock: Clock, reads: list[int], count: int
    ) -> None:
        self.fill(feed, clock, range(1, count + 1))
        reads.clear()
        batches = range(1, count + 1, 6)
        for first in batches:
            self.redeliver(trail, clock, *range(first, first + 6))
        assert read_all(feed) == dense(*range(1, count + 1))
        # A batch takes one Query backwards, a binary search by time (one block for each doubling of the log), and one
        # or two Queries forwards.
        doublings = count.bit_length()
        assert len(reads) <= len(batches) * (doublings + 4)
        assert sum(reads) <= len(batches) * (doublings + 4 * log.MAX_BLOCKS)

    def test_immediate_retry_takes_one_query(self, feed: Feed, trail: Table, clock: Clock, reads: list[int]) -> None:
        self.fill(feed, clock, range(1, 61))
        reads.clear()
        self.redeliver(trail, clock, 58, 59, 60)
        assert reads == [5]

    @pytest.mark.parametrize("at", [2, 20, 40, 59, 60])
    def test_redelivered_change_appended_late_is_not_appended_again(
        self, feed: Feed, trail: Table, clock: Clock, at: int
    ) -> None:
        self.fill(feed, clock, [1, *range(3, at + 1)])
        self.redeliver(trail, clock, 2)  # the first writer died before it appended the change
        self.fill(feed, clock, range(at + 1, 61))
        expected = read_all(feed)
        assert sorted(expected, key=lambda one: one[1]) != expected or at == 2
        for _ in range(2):
            self.redeliver(trail, clock, 1, 2, 3)
            assert read_all(feed) == expected

    def test_redelivered_change_never_appended_is_appended_at_the_end(
        self, feed: Feed, trail: Table, clock: Clock
    ) -> None:
        self.fill(feed, clock, [1, *range(3, 61)])
        self.redeliver(trail, clock, 1, 2, 3)
        assert read_all(feed) == dense(1, *range(3, 61), 2)
        self.redeliver(trail, clock, 1, 2, 3)
        assert read_all(feed) == dense(1, *range(3, 61), 2)

    def test_redelivered_change_appended_by_a_slow_clock_is_not_appended_again(
        self, feed: Feed, trail: Table, clock: Clock
    ) -> None:
        self.fill(feed, clock, range(1, 30))
        append_changes(feed, self.change_at(34))
        self.fill(feed, clock, [*range(30, 34), *range(35, 61)])
        expected = read_all(feed)
        self.redeliver(trail, clock, 34)
        assert read_all(feed) == expected


def _kill(*_: object) -> Any:
    raise Killed


def _querying(table: Table) -> Callable[..., QueryPage]:
    """Return the unpatched query of the table."""
    begin_query = table.begin_query
    return lambda **request: begin_query(**request)()


@pytest.mark.usefixtures("small_blocks")
class TestReading:
    def test_tail_closed_during_a_query_is_reread(
        self, feed: Feed, trail: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append_changes(feed, change(1))
        page_ = feed.read(ALICE_LOG, OLDEST, 1)
        query, hidden = _querying(trail), list[str]()

        def miss_a_block(**request: Unpack[QueryRequest]) -> QueryPage:
            page = query(**request)
            if hidden:
                return page
            hidden.append("once")
            return QueryPage([item for item in page.items if item["sk"] == "TAIL"], page.examined, None)

        for number in range(2, 8):
            append_changes(feed, change(number))
        monkeypatch.setattr(trail, "begin_query", lambda **request: partial(miss_a_block, **request))
        assert read_all(feed, cursor=page_.cursor) == dense(*range(1, 8))[1:]
        assert hidden

    @pytest.mark.parametrize("cursor", [OLDEST, LogCursor(1, 0), LogCursor(1, 2)])
    def test_tail_closed_after_a_query_passed_it_is_not_skipped(
        self, feed: Feed, trail: Table, monkeypatch: pytest.MonkeyPatch, cursor: LogCursor
    ) -> None:
        append_changes(feed, *(change(number) for number in range(1, 6)))
        query, appended = _querying(trail), list[str]()

        def append_after_query(**request: Unpack[QueryRequest]) -> QueryPage:
            page = query(**request)
            if not appended:  # the Query is past the block's position when the block is written
                appended.append("once")
                for number in range(6, 10):
                    append_changes(Feed(Table(trail.name, trail.client)), change(number))
                page = query(**request)
                page.items[:] = [item for item in page.items if item["sk"] == "TAIL"]
            return page

        monkeypatch.setattr(trail, "begin_query", lambda **request: partial(append_after_query, **request))
        assert read_all(feed, cursor=cursor) == dense(*range(1, 10))[cursor.skip :]

    def test_missing_block_ends_the_page(self, feed: Feed, trail: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        for number in range(1, 21):
            append_changes(feed, change(number))
        query, missing = _querying(trail), blocks_of(trail)[2]["sk"]

        def miss_a_block(**request: Unpack[QueryRequest]) -> QueryPage:
            page = query(**request)
            items = page.items if request.get("consistent") else [item for item in page.items if item["sk"] != missing]
            return QueryPage(items, page.examined, page.last_key)

        monkeypatch.setattr(trail, "begin_query", lambda **request: partial(miss_a_block, **request))
        assert not feed.read(ALICE_LOG, OLDEST, 1000).is_end
        assert read_all(feed) == dense(*range(1, 21))

    def test_expired_changes_are_gone_before_dynamodb_deletes_them(self, feed: Feed, clock: Clock) -> None:
        append_changes(feed, change(1))
        cursor = feed.read(ALICE_LOG, OLDEST, 1000).cursor
        for number in range(2, 12):
            append_changes(feed, change(number))
        clock.advance(DAYS_KEPT * DAY + 1)
        with pytest.raises(Gone, match="30 days"):
            feed.read(ALICE_LOG, cursor, 1000)

    def test_tail_of_an_idle_log_never_expires(self, feed: Feed, clock: Clock, trail: Table) -> None:
        for number in range(1, 12):
            append_changes(feed, change(number))
        end = feed.end(ALICE_LOG)
        clock.advance(400 * DAY)
        for item in blocks_of(trail)[:-1]:
            trail.delete({name: item[name] for name in ("pk", "sk")})
        first = blocks_of(trail)[0]["first"]
        assert read_all(feed) == dense(*range(1, 12))[first - 1 :]
        assert read_all(feed, cursor=end) == []
        append_changes(Feed(trail, clock), change(12))
        assert read_all(feed, cursor=end) == [(12, "change-0012")]

    def test_oldest_unexpired_change_is_found_after_many_expired_blocks(self, feed: Feed, clock: Clock) -> None:
        for number in range(1, 161):
            append_changes(feed, change(number))
        clock.advance(DAYS_KEPT * DAY - 10)
        for number in range(161, 171):
            append_changes(feed, change(number))
        clock.advance(11)
        read_changes = read_all(feed)
        assert read_changes == dense(*range(1, 171))[-len(read_changes) :]
        assert 10 <= len(read_changes) < 20

    def test_cursor_beyond_the_end_of_a_restored_log_is_gone(self, feed: Feed) -> None:
        append_changes(feed, change(1), change(2))
        assert feed.read(ALICE_LOG, LogCursor(1, 2), 1).is_end
        with pytest.raises(Gone):
            feed.read(ALICE_LOG, LogCursor(1, 3), 1)

    def test_cursor_before_the_first_change_is_gone_when_that_change_expires(self, feed: Feed, clock: Clock) -> None:
        cursor = feed.read(ALICE_LOG, OLDEST, 1000).cursor
        for number in range(1, 12):
            append_changes(feed, change(number))
        assert read_all(feed, cursor=cursor) == dense(*range(1, 12))
        clock.advance(DAYS_KEPT * DAY + 1)
        with pytest.raises(Gone):
            feed.read(ALICE_LOG, cursor, 1000)

    def test_cursor_is_found_by_time(self, feed: Feed, clock: Clock) -> None:
        assert feed.at_time(ALICE_LOG, NOW * 1000) == feed.end(ALICE_LOG)
        times = []
        for number in range(1, 41):
            clock.advance(60)
            times.append(int(clock() * 1000))
            append_changes(feed, change(number))
        for number, at in enumerate(times, 1):
            read_changes = [position for position, _ in read_all(feed, cursor=feed.at_time(ALICE_LOG, at))]
            assert number in read_changes, "no change may be missing"
            assert len(read_changes) < 40 - number + 5, "at most five earlier changes may be read"
        assert feed.at_time(ALICE_LOG, times[-1] + 1) == feed.end(ALICE_LOG)
        assert read_all(feed, cursor=feed.at_time(ALICE_LOG, 0)) == dense(*range(1, 41))


GetChanges = Callable[..., Reply]


@pytest.fixture
def get_changes(api: Api) -> GetChanges:
    """Return a function that sends GET /v1/changes. The default user may read the changes of all users."""

    def send(query: str = "", user: str = "search", scopes: str = READ_ALL_CHANGES) -> Reply:
        return api.get("/v1/changes", query=query, user=user, scopes=scopes)

    return send


def all_items(get_changes: GetChanges, query: str = "", **options: Any) -> list[dict[str, Any]]:
    """Return the items of all pages."""
    items: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = get_changes(f"{query}{cursor}", **options).json
        items += page["items"]
        cursor = f"&after={page['nextCursor']}"
        if page["caughtUp"]:
            return items


@pytest.mark.usefixtures("small_blocks")
class TestGetChanges:
    @pytest.fixture
    def changes(self, feed: Feed) -> list[Change]:
        """Append 120 changes of forty videos of alice's and bob's, and return the changes in order."""
        appended = [
            change(number, videoId=VIDEO_IDS[number % 40], userId=("alice", "bob")[number % 2], type=TYPES[number % 7])
            for number in range(1, 121)
        ]
        for one in appended:
            append_changes(feed, one)
        return appended

    @pytest.mark.slow
    @pytest.mark.parametrize("limit", [1, 7, 25, 100])
    def test_pages_have_each_change_once_in_shard_order(
        self, get_changes: GetChanges, changes: list[Change], limit: int
    ) -> None:
        items = all_items(get_changes, f"limit={limit}")
        assert sorted(item["id"] for item in items) == [change_["id"] for change_ in changes]
        for shard in range(4):
            own = [item for item in items if item["shard"] == shard]
            assert [item["position"] for item in own] == list(range(1, len(own) + 1))
            assert [item["id"] for item in own] == [
                change_["id"] for change_ in changes if shard_of(change_["videoId"]) == shard
            ]

    def test_page_is_ordered_by_time(self, get_changes: GetChanges, changes: list[Change]) -> None:
        assert [item["id"] for item in get_changes("limit=100").json["items"]] == [
            change_["id"] for change_ in changes[:100]
        ]

    def test_feed_item_has_all_change_fields_with_shard_and_position(
        self, get_changes: GetChanges, changes: list[Change]
    ) -> None:
        (first,) = get_changes("limit=1").json["items"]
        assert first == changes[0] | {"shard": shard_of(VIDEO_IDS[1]), "position": 1}

    def test_owner_log_has_only_own_changes(self, get_changes: GetChanges, changes: list[Change]) -> None:
        items = all_items(get_changes, "userId=alice&limit=7", user="alice", scopes=READ)
        assert [item["id"] for item in items] == [change_["id"] for change_ in changes if change_["userId"] == "alice"]
        assert [(item["shard"], item["position"]) for item in items] == [(0, n) for n in range(1, 61)]

    @pytest.mark.parametrize("types", ["video.created", "video.created,video.expired", "credit.*", "video.*,credit.*"])
    def test_types_and_groups_filter_the_changes(
        self, get_changes: GetChanges, changes: list[Change], types: str
    ) -> None:
        items = all_items(get_changes, f"types={types}&limit=5")
        expected = sorted(change_["id"] for change_ in changes if has_type(change_, types.split(",")))
        assert sorted(item["id"] for item in items) == expected

    def test_page_is_short_after_the_maximum_number_of_examined_changes(
        self, get_changes: GetChanges, changes: list[Change], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reader, "MAX_EXAMINED", 10)
        page = get_changes("types=video.created").json
        assert len(page["items"]) < 10
        assert not page["caughtUp"]
        expected = sorted(change_["id"] for change_ in changes if change_["type"] == "video.created")
        assert sorted(item["id"] for item in all_items(get_changes, "types=video.created")) == expected

    def test_page_is_caught_up_only_when_nothing_was_cut_off(
        self, get_changes: GetChanges, changes: list[Change]
    ) -> None:
        page = get_changes("limit=100").json
        assert (len(page["items"]), page["caughtUp"]) == (100, False)
        last_page = get_changes(f"limit=20&after={page['nextCursor']}").json
        assert len(last_page["items"]) == len(changes) - 100
        empty_page = get_changes(f"after={last_page['nextCursor']}").json
        assert (empty_page["items"], empty_page["caughtUp"]) == ([], True)

    @pytest.mark.usefixtures("changes")
    def test_cursor_now_skips_all_existing_changes(self, get_changes: GetChanges, feed: Feed) -> None:
        page = get_changes("after=now").json
        assert (page["items"], page["caughtUp"]) == ([], True)
        append_changes(feed, change(999))
        (item,) = get_changes(f"after={page['nextCursor']}").json["items"]
        assert item["id"] == "change-0999"

    def test_cursor_of_an_empty_feed_can_be_continued(self, get_changes: GetChanges, feed: Feed) -> None:
        pages = [get_changes(query).json["nextCursor"] for query in ("", "after=now")]
        append_changes(feed, change())
        for cursor in pages:
            assert len(get_changes(f"after={cursor}").json["items"]) == 1

    @pytest.mark.usefixtures("changes")
    def test_response_has_a_link_to_the_next_page(self, get_changes: GetChanges) -> None:
        reply = get_changes("limit=3&types=video.*")
        assert reply.headers["link"] == (
            f'<?limit=3&types=video.%2A&after={quote(reply.json["nextCursor"], safe="")}>; rel="next"'
        )

    @pytest.mark.usefixtures("changes")
    @pytest.mark.parametrize(
        ("user", "query"),
        [("other", ""), ("search", "types=video.*"), ("search", "userId=alice"), ("search", "userId=bob")],
    )
    def test_feed_cursor_is_valid_for_one_caller_and_query(
        self, get_changes: GetChanges, user: str, query: str
    ) -> None:
        cursor = get_changes().json["nextCursor"]
        reply = get_changes(f"{query}&after={cursor}", user=user)
        assert (reply.status, reply.slug) == (400, "invalid-cursor")

    @pytest.mark.usefixtures("changes")
    def test_feed_cursor_is_valid_for_any_order_of_the_same_types(self, get_changes: GetChanges) -> None:
        cursor = get_changes("types=video.*,job.done").json["nextCursor"]
        assert get_changes(f"types=job.done,video.*&after={cursor}").status == 200

    def test_feed_cursor_is_valid_while_the_next_changes_are_retained(
        self, get_changes: GetChanges, feed: Feed, clock: Clock
    ) -> None:
        append_changes(feed, change(1))
        cursor = get_changes().json["nextCursor"]
        clock.advance(DAYS_KEPT * DAY - 1)
        for number in range(2, 12):
            append_changes(feed, change(number))
        assert len(get_changes(f"after={cursor}").json["items"]) == 10
        clock.advance(DAYS_KEPT * DAY + 1)
        reply = get_changes(f"after={cursor}")
        assert reply.status == 410
        assert "`after=now`" in reply.json["detail"]
        assert "export" in reply.json["detail"]
        begun = get_changes("after=now").json["nextCursor"]
        assert get_changes(f"after={begun}").json["caughtUp"]

    @pytest.mark.parametrize(
        ("query", "parameter"),
        [
            *((f"types={types}", "types") for types in ("video.exploded", "videos.*", "*", "video", "")),
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("cursor=x", "cursor"),
            ("userId=%0a", "userId"),
        ],
    )
    def test_invalid_parameter_is_400_with_its_name(self, get_changes: GetChanges, query: str, parameter: str) -> None:
        reply = get_changes(query)
        assert reply.status == 400
        assert [fault["parameter"] for fault in reply.json["errors"]] == [parameter]

    @pytest.mark.parametrize("query", ["", "limit=1", "after=now"])
    def test_feed_pages_match_the_openapi_document(
        self, get_changes: GetChanges, changes: list[Change], query: str
    ) -> None:
        schema = {"$ref": "#/components/schemas/ChangePage", "components": document()["components"]}
        jsonschema_rs.Draft202012Validator(schema).validate(get_changes(query).json)

    @pytest.mark.parametrize(
        ("user", "scopes", "query", "status"),
        [
            ("alice", READ, "userId=alice", 200),
            ("alice", READ, "", 403),
            ("alice", READ, "userId=bob", 403),
            ("search", READ_ALL_CHANGES, "", 200),
            ("search", READ_ALL_CHANGES, "userId=alice", 200),
            ("search", CHANGES, "", 403),
            ("root", "videos/read videos/admin", "", 200),
            ("root", "videos/read videos/admin", "userId=alice", 200),
        ],
    )
    def test_changes_of_all_users_require_the_changes_scope(
        self, get_changes: GetChanges, user: str, scopes: str, query: str, status: int
    ) -> None:
        assert get_changes(query, user=user, scopes=scopes).status == status


class BrokenQueue(FakeQueue):
    """A queue that raises Unavailable for the first `failures` messages."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.failures = failures

    def send(self, body: Any, delay_seconds: int = 0) -> None:
        """Store a message, or raise Unavailable."""
        if self.failures:
            self.failures -= 1
            raise Unavailable
        super().send(body, delay_seconds)


def records(count: int) -> list[Raw]:
    """Return the stream records of created videos."""
    return [
        stream_record(
            None,
            VIDEO.key(videoId=video_id) | {"videoId": video_id, "userId": "alice", "title": "t", "version": 1},
            sequence=number,
        )
        for number, video_id in enumerate(VIDEO_IDS[:count], 1)
    ]


class TestAuditFunction:
    def invoke(self, trail: Table, clock: Clock, queue: FakeQueue, raws: Sequence[Raw]) -> None:
        """Run a new instance of the audit function on records. Asserts that no record fails."""
        function = make_audit(trail, clock, queue=queue)
        assert function(streams.event(*raws), Context()) == {"batchItemFailures": []}

    def test_audit_function_appends_stored_entries_and_notifies_subscribers(
        self, trail: Table, clock: Clock, feed: Feed
    ) -> None:
        queue = FakeQueue()
        self.invoke(trail, clock, queue, records(3))
        assert [position for position, _ in read_all(feed)] == [1, 2, 3]
        assert queue.sent == [{"schema": "video-metadata/changed/1", "owners": ["alice"]}]

    def test_batch_without_changes_publishes_nothing(self, trail: Table, clock: Clock) -> None:
        queue = FakeQueue()
        item = VIDEO.key(videoId=VIDEO_IDS[0]) | {"videoId": VIDEO_IDS[0], "userId": "alice", "version": 1}
        self.invoke(trail, clock, queue, [stream_record(item, item | {"rel": "X"})])
        assert (queue.sent, items_of(trail)) == ([], [])

    @pytest.mark.parametrize("call", range(14))
    @pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.__name__)
    def test_each_change_is_published_once_when_any_call_fails(
        self, trail: Table, clock: Clock, feed: Feed, incident: Incident, call: int
    ) -> None:
        queue, line = FakeQueue(), FaultLine(trail.client)
        line.arm(incident, call)
        function = make_audit(trail, clock, queue=queue)
        discarded = streams.deliver(records(3), lambda event: function(event, Context()), retries=5)
        line.disarm()
        assert discarded == []
        assert [position for position, _ in read_all(feed)] == [1, 2, 3]
        assert len({id_ for _, id_ in read_all(feed)}) == 3
        assert queue.sent

    @pytest.mark.parametrize("after", range(5))
    def test_concurrent_invocation_with_the_same_batch_publishes_each_change_once(
        self, trail: Table, clock: Clock, feed: Feed, monkeypatch: pytest.MonkeyPatch, after: int
    ) -> None:
        begin_write, done = trail.begin_write, list[Write]()

        def overtaken(write: Write) -> Callable[[], None]:
            finish = begin_write(write)
            done.append(write)
            if len(done) == after + 1:
                self.invoke(Table(trail.name, trail.client), clock, FakeQueue(), records(3))
            return finish

        monkeypatch.setattr(trail, "begin_write", overtaken)
        self.invoke(trail, clock, FakeQueue(), records(3))
        assert len(done) > after
        assert [position for position, _ in read_all(feed)] == [1, 2, 3]
        assert len({id_ for _, id_ in read_all(feed)}) == 3

    def test_subscribers_are_notified_again_after_a_failed_notification(
        self, trail: Table, clock: Clock, feed: Feed
    ) -> None:
        queue = BrokenQueue(failures=1)
        with pytest.raises(Unavailable):
            self.invoke(trail, clock, queue, records(2))
        self.invoke(trail, clock, queue, records(2))
        assert len(read_all(feed)) == 2
        assert len(queue.sent) == 1

    def test_created_video_is_counted_once_although_its_append_failed(
        self, trail: Table, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Feed, "append", _unavailable)
            with pytest.raises(Unavailable):
                self.invoke(trail, clock, FakeQueue(), records(2))
        self.invoke(trail, clock, FakeQueue(), records(2))
        assert [line["VideosCreated"] for line in metrics(capsys) if "VideosCreated" in line] == [2]


def _unavailable(*_: object) -> None:
    raise Unavailable
