"""View counters: one item at normal load, several shards at peak load, and one item again afterwards."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from local.testbed.harness import NOW, Api, record_operations
from local.testbed.limits import SimulatedRun, Simulation
from local.testbed.units import WRITE_BYTES, size
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.aws.lean.client import ErrorResponse, ResponseLost
from shared.background.ledger import KEY_BYTES, ROOM, SEEN, SEEN_UP_TO, TALLY
from shared.core.attributes import Item, encode_item
from shared.core.errors import NotApplied, Throttled, Unavailable
from shared.schema import MAX_VIEW_SHARDS, PARTITION_KEY, SCHEMA_VERSION, VIEW_COUNTER
from shared.videos.counters import (
    CACHE_SECONDS,
    LOOK_SECONDS,
    MAX_MERGED_RATE,
    MERGE_SECONDS,
    SUMS,
    ViewCounters,
    sums_of,
)

VIDEO = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
OTHER = "9d1f2c7e-0b1a-4c53-8f0e-6a2f4f1f0a11"
ONE = {"views": 1}
KEY = VIEW_COUNTER.key(videoId=VIDEO, shard=0)


@pytest.fixture
def counters(table: Table) -> ViewCounters:
    return ViewCounters(table)


@pytest.fixture
def last_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `random` always choose the last shard that a writer has cached."""
    monkeypatch.setattr("random.randrange", lambda _, stop: stop - 1)


def _store(table: Table, shard: int, *, video_id: str = VIDEO, **attributes: Any) -> None:
    table.client.put_item(
        TableName=table.name, Item=encode_item(VIEW_COUNTER.key(videoId=video_id, shard=shard) | attributes)
    )


def _shard_0(table: Table) -> Item:
    item = table.get(KEY, consistent=True)
    assert item is not None
    return item


def _control(table: Table) -> Item:
    """Return the attributes of shard 0 that control sharding."""
    control = ("shards", "spread", "folded", "calmedAt", "checked", "checkedAt")
    return {name: value for name, value in _shard_0(table).items() if name in control}


@contextmanager
def throttling(table: Table, *shards: int, exempt: Callable[[Any], bool] = lambda _: False) -> Iterator[list[int]]:
    """Throttle all writes to these shards in the context. Yields a list that contains, for each view, the shard to
    which it was sent."""
    sent: list[int] = []
    hot = {VIEW_COUNTER.key(videoId=VIDEO, shard=shard)[PARTITION_KEY] for shard in shards}

    def between(operation: str, parameters: Any, send: Callable[..., Any]) -> Any:
        if operation == "UpdateItem" and "ADD" in parameters["UpdateExpression"]:
            sent.append(int(parameters["Key"][PARTITION_KEY]["S"].rpartition("#")[2]))
        if operation == "UpdateItem" and parameters["Key"][PARTITION_KEY]["S"] in hot and not exempt(parameters):
            raise ErrorResponse(400, {"__type": "ThrottlingException", "message": ""})
        return send()

    undo = intercept(table.client, between)
    try:
        yield sent
    finally:
        undo()


def _doubles(parameters: Any) -> bool:
    return "doubled" in parameters.get("UpdateExpression", "")


class TestOneItem:
    """A counter is one item, and each view is one request, unless DynamoDB throttles the item."""

    def test_view_is_one_write_that_returns_the_exact_count(self, counters: ViewCounters, table: Table) -> None:
        with record_operations(table.client) as operations:
            assert [counters.add(VIDEO, ONE, NOW) for _ in range(3)] == [1, 2, 3]
        assert [operation.name for operation in operations] == ["UpdateItem"] * 3

    def test_several_sums_are_added_at_once(self, counters: ViewCounters) -> None:
        assert counters.add(VIDEO, {"views": 2, "owner": 1}, NOW) == 2
        assert counters.read([VIDEO])[VIDEO].sums == dict.fromkeys(SUMS, 0) | {"views": 2, "owner": 1}

    def test_unsharded_counter_has_no_shard_attributes(self, counters: ViewCounters, table: Table) -> None:
        counters.add(VIDEO, ONE, NOW)
        assert _shard_0(table) == KEY | ONE | {"hour": "2025-06-15T15", "schemaVersion": SCHEMA_VERSION}

    def test_count_without_a_view_is_one_read(self, counters: ViewCounters, table: Table) -> None:
        counters.add(VIDEO, ONE, NOW)
        with record_operations(table.client) as operations:
            assert (counters.count(VIDEO, NOW), counters.count(OTHER, NOW)) == (1, 0)
        assert [operation.name for operation in operations] == ["BatchGetItem"] * 2

    def test_counts_of_unsharded_counters_take_no_request(self, counters: ViewCounters, table: Table) -> None:
        with record_operations(table.client) as operations:
            assert counters.counts({VIDEO: {"views": 5, "keyed": 2}, OTHER: None}) == {VIDEO: 7, OTHER: 0}
        assert operations == []


class TestThrottled:
    """The shards of a throttled counter are doubled, and the throttled view is counted in one of them."""

    def test_throttled_view_doubles_the_shards_and_is_counted_in_a_new_one(
        self, counters: ViewCounters, table: Table
    ) -> None:
        counters.add(VIDEO, ONE, NOW)
        with throttling(table, 0, exempt=_doubles) as sent:
            assert counters.add(VIDEO, ONE, NOW) == 2
        assert _control(table) == {"shards": 2, "spread": 2}
        assert sent[-1] == 1
        assert [sums["views"] for sums in counters.read([VIDEO])[VIDEO].shards.values()] == [1, 1]

    def test_throttled_shards_double_until_a_write_succeeds(self, counters: ViewCounters, table: Table) -> None:
        with throttling(table, *range(8), exempt=_doubles):
            assert counters.add(VIDEO, ONE, NOW) == 1
        assert _control(table) == {"shards": 16, "spread": 16}

    def test_number_of_shards_has_a_maximum(self, counters: ViewCounters, table: Table) -> None:
        with throttling(table, *range(2 * MAX_VIEW_SHARDS), exempt=_doubles), pytest.raises(NotApplied):
            counters.add(VIDEO, ONE, NOW)
        assert _control(table) == {"shards": MAX_VIEW_SHARDS, "spread": MAX_VIEW_SHARDS}
        assert counters.read([VIDEO])[VIDEO].views == 0

    def test_view_that_every_shard_throttles_is_not_counted(self, counters: ViewCounters, table: Table) -> None:
        with throttling(table, 0) as sent, pytest.raises(Throttled):
            counters.add(VIDEO, ONE, NOW)
        assert sent == [0] * 4
        assert table.get(KEY) is None

    def test_throttled_writer_adopts_a_doubling_by_another_writer(self, counters: ViewCounters, table: Table) -> None:
        _store(table, 0, views=1, shards=8, spread=8)
        with throttling(table, 0) as sent:
            assert counters.add(VIDEO, ONE, NOW) == 2
        assert _control(table) == {"shards": 8, "spread": 8}
        assert len(sent) <= 3

    def test_lost_race_to_double_adopts_the_new_shard_count(self, counters: ViewCounters, table: Table) -> None:
        counters.add(VIDEO, ONE, NOW)

        def between(operation: str, parameters: Any, send: Callable[..., Any]) -> Any:
            if _doubles(parameters):
                undo()
                _store(table, 0, views=1, shards=4, spread=4)
            elif operation == "UpdateItem":
                raise ErrorResponse(400, {"__type": "ThrottlingException", "message": ""})
            return send()

        undo = intercept(table.client, between)
        assert counters.add(VIDEO, ONE, NOW) == 2
        assert _control(table) == {"shards": 4, "spread": 4}

    def test_shards_throttled_by_writers_with_an_old_shard_count_do_not_double(
        self, counters: ViewCounters, table: Table
    ) -> None:
        _store(table, 0, views=1, shards=8, spread=8)
        with throttling(table, *range(4)):
            assert [counters.add(VIDEO, ONE, NOW) for _ in range(20)] == [*range(2, 22)]
        assert _control(table)["shards"] == 8

    def test_lost_response_is_not_retried_on_another_shard(self, counters: ViewCounters, table: Table) -> None:
        def between(operation: str, parameters: Any, send: Callable[..., Any]) -> Any:
            send()
            raise ResponseLost

        undo = intercept(table.client, between)
        with pytest.raises(Unavailable) as raised:
            counters.add(VIDEO, ONE, NOW)
        undo()
        assert type(raised.value) is Unavailable
        assert counters.read([VIDEO])[VIDEO].views == 1

    def test_throttled_table_does_not_double_the_shards(self, counters: ViewCounters, table: Table) -> None:
        refusals = ["TableWriteMaxOnDemandThroughputExceeded"]

        def between(operation: str, parameters: Any, send: Callable[..., Any]) -> Any:
            if refusals:
                reasons = [{"reason": refusals.pop()}]
                raise ErrorResponse(400, {"__type": "ThrottlingException", "throttlingReasons": reasons})
            return send()

        undo = intercept(table.client, between)
        assert counters.add(VIDEO, ONE, NOW) == 1
        undo()
        assert _control(table) == {}


class TestSpread:
    """The count of a sharded counter is the sum over all its shards, at the cost of at most one more read."""

    @pytest.fixture(autouse=True)
    def sharded(self, table: Table) -> None:
        _store(table, 0, views=10, keyed=5, shards=4, spread=4)
        for shard, views in ((1, 100), (2, 1000)):  # shard 3 has no item yet
            _store(table, shard, views=views)

    def test_views_are_spread_over_all_shards(self, counters: ViewCounters) -> None:
        for _ in range(80):
            counters.add(VIDEO, ONE, NOW)
        shards = counters.read([VIDEO])[VIDEO].shards
        assert all(shards[shard]["views"] > before for shard, before in enumerate((10, 100, 1000, 0)))
        assert sum(sums["views"] for sums in shards.values()) == 1190

    def test_instance_reads_other_shards_at_most_once_a_second(self, counters: ViewCounters, table: Table) -> None:
        with record_operations(table.client) as operations:
            assert [counters.add(VIDEO, ONE, NOW + call // 10) for call in range(20)] == [*range(1116, 1136)]
        names = [operation.name for operation in operations]
        assert (names.count("UpdateItem"), names.count("BatchGetItem"), len(names)) == (20, 2, 22)

    def test_view_count_of_other_shards_is_at_most_a_second_old(self, counters: ViewCounters, table: Table) -> None:
        assert counters.add(VIDEO, ONE, NOW) == 1116
        ViewCounters(table).add(VIDEO, {"views": 50}, NOW)
        assert counters.add(VIDEO, ONE, NOW + 1) == 1167

    def test_count_without_a_view_reads_other_shards_at_most_once_a_second(
        self, counters: ViewCounters, table: Table
    ) -> None:
        with record_operations(table.client) as operations:
            assert [counters.count(VIDEO, NOW) for _ in range(3)] == [1115] * 3
        assert [operation.name for operation in operations] == ["BatchGetItem"] * 2
        assert counters.add(VIDEO, ONE, NOW) == counters.count(VIDEO, NOW) == 1116

    def test_unreadable_shards_do_not_lose_the_view(self, counters: ViewCounters, table: Table) -> None:
        def between(operation: str, parameters: Any, send: Callable[..., Any]) -> Any:
            if operation == "BatchGetItem":
                raise ErrorResponse(400, {"__type": "ThrottlingException", "message": ""})
            return send()

        assert counters.add(VIDEO, ONE, NOW) == 1116
        undo = intercept(table.client, between)
        assert counters.add(VIDEO, ONE, NOW + 1) == 1117
        undo()
        assert counters.read([VIDEO])[VIDEO].views == 1117

    @pytest.mark.usefixtures("last_shard")
    def test_writer_reads_shard_0_again_after_a_while(self, counters: ViewCounters, table: Table) -> None:
        with throttling(table) as sent:
            for now in (NOW, NOW + CACHE_SECONDS - 1, NOW + 2 * CACHE_SECONDS - 1, NOW + 2 * CACHE_SECONDS - 1):
                counters.add(VIDEO, ONE, now)
        assert sent == [0, 3, 0, 3]

    @pytest.mark.usefixtures("last_shard")
    def test_cache_of_an_instance_evicts_the_longest_unused_video(
        self, counters: ViewCounters, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.videos.counters.MAX_CACHED", 1)
        _store(table, 0, video_id=OTHER, views=1, shards=4, spread=4)
        with throttling(table) as sent:
            for video_id in (VIDEO, VIDEO, OTHER, VIDEO):
                counters.add(video_id, ONE, NOW)
        assert sent == [0, 3, 0, 0]

    def test_readers_sum_all_shards_with_one_more_request(self, counters: ViewCounters, table: Table) -> None:
        with record_operations(table.client) as operations:
            counts = counters.counts({VIDEO: _shard_0(table), OTHER: {"views": 3}})
        assert counts == {VIDEO: 1115, OTHER: 3}
        assert [operation.name for operation in operations] == ["GetItem", "BatchGetItem"]

    def test_sums_of_each_shard_can_be_read(self, counters: ViewCounters) -> None:
        read = counters.read([VIDEO, OTHER], consistent=True)
        assert {shard: sums["views"] + sums["keyed"] for shard, sums in read[VIDEO].shards.items()} == {
            0: 15,
            1: 100,
            2: 1000,
        }
        assert (read[VIDEO].views, read[OTHER].views, read[OTHER].shards) == (1115, 0, {})


class TestMerge:
    """A counter with little traffic is merged into one item, without losing views."""

    LATER = NOW + LOOK_SECONDS
    MERGED = LATER + MERGE_SECONDS

    @pytest.fixture(autouse=True)
    def sharded(self, table: Table) -> None:
        _store(table, 0, views=10, keyed=5, shards=2, spread=4)
        for shard, views in ((1, 100), (2, 1000), (3, 10_000)):
            _store(table, shard, views=views, owner=1)

    @pytest.fixture
    def merging(self, counters: ViewCounters) -> None:
        """Merge twice, so that writers use one item again. The other shards are not merged yet."""
        counters.merge_shards(VIDEO, NOW)
        counters.merge_shards(VIDEO, self.LATER)

    @pytest.fixture
    def merged(self, counters: ViewCounters, merging: None) -> None:
        counters.merge_shards(VIDEO, self.MERGED)

    def test_first_merge_call_records_the_count(self, counters: ViewCounters, table: Table) -> None:
        counters.merge_shards(VIDEO, NOW)
        assert _control(table) == {"shards": 2, "spread": 4, "checked": 11_113, "checkedAt": NOW}

    def test_second_merge_call_after_too_short_a_time_changes_nothing(
        self, counters: ViewCounters, table: Table
    ) -> None:
        counters.merge_shards(VIDEO, NOW)
        counters.merge_shards(VIDEO, self.LATER - 1)
        assert _control(table)["checkedAt"] == NOW

    @pytest.mark.parametrize(
        ("views", "has_few_views"),
        [(MAX_MERGED_RATE * LOOK_SECONDS - 1, True), (MAX_MERGED_RATE * LOOK_SECONDS, False)],
    )
    def test_writers_return_to_one_item_when_views_are_few(
        self, counters: ViewCounters, table: Table, views: int, *, has_few_views: bool
    ) -> None:
        counters.merge_shards(VIDEO, NOW)
        counters.add(VIDEO, {"views": views}, NOW)
        counters.merge_shards(VIDEO, self.LATER)
        expected = (
            {"calmedAt": self.LATER}
            if has_few_views
            else {"shards": 2, "checked": 11_113 + views, "checkedAt": self.LATER}
        )
        assert _control(table) == {"spread": 4} | expected

    def test_counts_added_by_the_stream_do_not_prevent_the_return_to_one_item(
        self, counters: ViewCounters, table: Table
    ) -> None:
        counters.merge_shards(VIDEO, NOW)
        counters.add(VIDEO, {"keyed": 10 * MAX_MERGED_RATE * LOOK_SECONDS}, NOW)
        counters.merge_shards(VIDEO, self.LATER)
        assert "calmedAt" in _control(table)

    def test_readers_sum_all_shards_while_writers_return_to_fewer(
        self, counters: ViewCounters, table: Table, merging: None
    ) -> None:
        assert counters.counts({VIDEO: _shard_0(table)}) == {VIDEO: 11_115}
        assert counters.add(VIDEO, ONE, self.LATER) == 11_116

    @pytest.mark.usefixtures("merging", "last_shard")
    def test_writer_unaware_of_the_merge_loses_no_view(self, table: Table, counters: ViewCounters) -> None:
        _store(table, 0, views=10, shards=4, spread=4)
        late = ViewCounters(table)
        late.add(VIDEO, ONE, self.LATER)
        _store(table, 0, views=11, spread=4, calmedAt=self.LATER)
        with throttling(table) as sent:
            for _ in range(20):
                late.add(VIDEO, ONE, self.LATER)
        assert set(sent) == {3}
        counters.merge_shards(VIDEO, self.MERGED)
        assert counters.counts({VIDEO: _shard_0(table)}) == {VIDEO: counters.read([VIDEO])[VIDEO].views}
        assert counters.read([VIDEO])[VIDEO].views == 11_131

    def test_merge_waits_until_no_writer_has_cached_the_shards(
        self, counters: ViewCounters, table: Table, merging: None
    ) -> None:
        counters.merge_shards(VIDEO, self.MERGED - 1)
        assert "folded" not in _control(table)
        assert MERGE_SECONDS > 10 * CACHE_SECONDS

    @pytest.mark.usefixtures("merged")
    def test_merged_counter_is_one_item(self, counters: ViewCounters, table: Table) -> None:
        assert _control(table) == {"spread": 4, "folded": {"views": 11_100, "owner": 3}}
        with record_operations(table.client) as operations:
            assert counters.add(VIDEO, ONE, self.MERGED) == 11_116
            assert counters.counts({VIDEO: _shard_0(table)}) == {VIDEO: 11_116}
        assert [operation.name for operation in operations] == ["UpdateItem", "GetItem"]

    def test_reader_with_cached_shards_counts_none_twice_after_a_merge(
        self, counters: ViewCounters, table: Table
    ) -> None:
        other = ViewCounters(table)
        assert counters.count(VIDEO, NOW) == 11_115
        for now in (NOW, self.LATER, self.MERGED):
            other.merge_shards(VIDEO, now)
        assert "folded" in _control(table)
        assert counters.count(VIDEO, self.MERGED) == 11_115

    @pytest.mark.usefixtures("merged")
    def test_every_shard_is_still_readable_after_a_merge(self, counters: ViewCounters) -> None:
        read = counters.read([VIDEO])[VIDEO]
        assert [read.shards[shard]["views"] for shard in range(4)] == [10, 100, 1000, 10_000]
        assert read.views == 11_115

    @pytest.mark.usefixtures("merged")
    def test_further_merge_calls_change_nothing(self, counters: ViewCounters, table: Table) -> None:
        before = _shard_0(table)
        counters.merge_shards(VIDEO, self.MERGED + MERGE_SECONDS)
        counters.merge_shards(OTHER, NOW)
        assert (_shard_0(table), table.get(VIEW_COUNTER.key(videoId=OTHER, shard=0))) == (before, None)

    @pytest.mark.parametrize("step", ["merging", "merged"])
    def test_throttling_during_or_after_a_merge_opens_the_shards_again(
        self, counters: ViewCounters, table: Table, request: pytest.FixtureRequest, step: str
    ) -> None:
        request.getfixturevalue(step)
        with throttling(table, 0, exempt=_doubles):
            assert counters.add(VIDEO, ONE, self.MERGED) == 11_116
        assert _control(table) == {"shards": 2, "spread": 4}
        assert counters.counts({VIDEO: _shard_0(table)}) == {VIDEO: 11_116}

    @pytest.mark.usefixtures("merging")
    def test_load_peak_during_a_merge_prevents_it(self, counters: ViewCounters, table: Table) -> None:
        def between(operation: str, parameters: Any, send: Callable[..., Any]) -> Any:
            if operation == "UpdateItem":
                undo()
                with throttling(table, 0, exempt=_doubles):
                    ViewCounters(table).add(VIDEO, ONE, self.MERGED)
            return send()

        undo = intercept(table.client, between)
        counters.merge_shards(VIDEO, self.MERGED)
        assert _control(table) == {"shards": 2, "spread": 4}
        assert counters.counts({VIDEO: _shard_0(table)}) == {VIDEO: 11_116}

    def test_view_of_the_busiest_merged_counter_takes_one_unit(self) -> None:
        millions = dict.fromkeys(SUMS, 987_654_321)
        stream = {TALLY: 987_654_321, SEEN: bytes(ROOM * KEY_BYTES), SEEN_UP_TO: NOW}
        other_attributes = {"hour": "2026-11-22T13", "schemaVersion": SCHEMA_VERSION}
        item = KEY | millions | stream | other_attributes | {"spread": 64, "folded": millions}
        assert size(encode_item(item)) <= WRITE_BYTES


class TestReaders:
    """Every reader returns the sum over all shards. A sharded counter costs one more request."""

    def _read(self, api: Api, table: Table) -> tuple[list[int], list[list[str]]]:
        """Return the view count that each endpoint shows, and the operations that it sent."""
        counts, sent = [], []
        for query in ("", "include=tags", "fields=viewCount"):
            with record_operations(table.client) as operations:
                counts.append(api.get(f"/v1/videos/{VIDEO}", query=query).json["viewCount"])
            sent.append([operation.name for operation in operations])
        with record_operations(table.client) as operations:
            (item,) = api.post("/v1/videos/batch-get", {"videoIds": [VIDEO]}).json["items"]
        return [*counts, item["viewCount"]], [*sent, [operation.name for operation in operations]]

    @pytest.fixture(autouse=True)
    def published(self, api: Api) -> None:
        api.publish(videoId=VIDEO)

    @pytest.mark.parametrize("is_merged", [False, True])
    def test_unspread_counter_takes_no_further_reads(self, api: Api, table: Table, *, is_merged: bool) -> None:
        control: Item = {"spread": 8, "folded": {"views": 90}} if is_merged else {}
        _store(table, 0, views=7, keyed=3, **control)
        counts, sent = self._read(api, table)
        assert counts == [100 if is_merged else 10] * 4
        assert sent == [["BatchGetItem"], ["Query", "GetItem"], ["BatchGetItem"], ["BatchGetItem"]]

    def test_sharded_counter_takes_one_more_read(self, api: Api, table: Table) -> None:
        _store(table, 0, views=7, keyed=3, shards=2, spread=4)
        for shard in (1, 2, 3):
            _store(table, shard, views=30)
        counts, sent = self._read(api, table)
        assert counts == [100] * 4
        assert sent == [
            ["BatchGetItem"] * 2,
            ["Query", "GetItem", "BatchGetItem"],
            ["BatchGetItem"] * 2,
            ["BatchGetItem"] * 2,
        ]

    def test_counter_of_a_video_hidden_from_the_caller_is_not_read(self, api: Api, table: Table) -> None:
        _store(table, 0, views=7, shards=2, spread=2)
        api.patch(f"/v1/videos/{VIDEO}", {"visibility": "private"})
        with record_operations(table.client) as operations:
            api.post("/v1/videos/batch-get", {"videoIds": [VIDEO]}, user="bob")
        assert [operation.name for operation in operations] == ["BatchGetItem"]


class TestSimulatedLoad:
    """Simulation of DynamoDB's limits: 64 instances send views of one video as fast as they can."""

    @staticmethod
    def _view(counters: ViewCounters, now: int) -> None:
        counters.add(VIDEO, ONE, now)

    @staticmethod
    def _counted(simulation: Simulation[ViewCounters]) -> int:
        """Return the sum of the views stored in all shards."""
        return sum(sums_of(item)["views"] for item in simulation.items.stored())

    def _merge_repeatedly(
        self, simulation: Simulation[ViewCounters], per_second: float
    ) -> tuple[list[SimulatedRun], list[Item]]:
        """Call `merge_shards` four times, with runs of `per_second` views before and after each call. Return the runs, and
        shard 0's control attributes after each call."""
        runs, firsts = [], []
        for _ in range(4):
            runs.append(simulation.run(1, per_second, self._view))
            simulation.rest(LOOK_SECONDS if len(runs) < 3 else MERGE_SECONDS)
            ViewCounters(simulation.table).merge_shards(VIDEO, simulation.now)
            runs.append(simulation.run(1, per_second, self._view))
            firsts.append(_control(simulation.table))
        return runs, firsts

    @pytest.mark.slow
    def test_20_000_views_a_second_are_all_counted(self) -> None:
        simulation = Simulation(ViewCounters, writers=64, burst=0.1)
        storm = simulation.run(0.5, 20_000, self._view)

        assert storm.unknown == []
        assert len(storm.failed) < 0.01 * storm.calls
        assert self._counted(simulation) == storm.done == storm.calls - len(storm.failed)
        assert storm.done / storm.seconds > 16_000
        first = _shard_0(simulation.table)
        assert 20 <= first["shards"] == first["spread"] <= MAX_VIEW_SHARDS
        # With enough shards, a view is one request and one unit. An instance reads the other shards once a second.
        after = simulation.run(0.1, 20_000, self._view)
        assert (after.failed, after.requests["throttled"], after.writes) == ([], 0, after.done)
        assert after.requests.keys() <= {"UpdateItem", "BatchGetItem", "throttled"}

        runs, firsts = self._merge_repeatedly(simulation, 100)
        assert "folded" in firsts[-1]
        runs += [storm, after]
        assert all(run.failed == run.unknown == [] for run in runs)
        assert self._counted(simulation) == sum(run.done for run in runs)
        assert ViewCounters(simulation.table).counts({VIDEO: _shard_0(simulation.table)}) == {
            VIDEO: self._counted(simulation)
        }

    @pytest.mark.slow
    def test_video_with_few_views_has_one_counter_item(self) -> None:
        simulation = Simulation(ViewCounters, writers=64, burst=0.1)
        run = simulation.run(4, 500, self._view)
        assert (run.done, run.writes, run.reads) == (2000, 2000, 0)
        assert run.requests == {"UpdateItem": 2000}
        assert (self._counted(simulation), _control(simulation.table)) == (2000, {})
