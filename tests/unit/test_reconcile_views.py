"""Reconciliation of views: compares stored counts and repairs certain errors. It never counts a view or loses one."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from local.testbed.harness import NOW, Api, record_operations
from shared import schema
from shared.aws.dynamodb import Key, Table
from shared.background.reconcile import SECONDS_BETWEEN, Discrepancy, Reconcile
from shared.background.view_comparison import ViewComparison
from shared.core.attributes import Item
from shared.core.periods import DAY_SECONDS, HOUR_SECONDS, day_of, hour_of
from shared.schema import lane_of
from shared.videos.counters import SUMS, ViewCounters, sums_of
from tests.integration.contents import items_of

VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
YESTERDAY = NOW - DAY_SECONDS


def counter(shard: int = 0) -> Key:
    return schema.VIEW_COUNTER.key(videoId=VIDEO_ID, shard=shard)


def hour(time: int) -> Key:
    return schema.VIEW_HOUR.key(videoId=VIDEO_ID, hour=hour_of(time))


def day(time: int) -> Key:
    return schema.VIEW_DAY.key(videoId=VIDEO_ID, day=day_of(time))


def sums(**values: int) -> dict[str, int]:
    return dict.fromkeys(SUMS, 0) | values


class Viewed:
    """Counter of a viewed video, and the hour and day items that the stream consumer writes. `starts` of such an item
    are the sums of each shard before its first view in that hour or day."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def add(self, now: int, shard: int = 0, **additions: int) -> None:
        """Add views to a shard of the counter."""
        before = self.table.get(counter(shard)) or {}
        self._put(counter(shard), {**before, "hour": hour_of(now), "schemaVersion": 3, **self._sums(before, additions)})
        if before.get("hour") != hour_of(now):
            self._begin(hour(now), schema.viewed_relation(hour_of(now)), shard, before)
        if str(before.get("hour", ""))[:10] != day_of(now):
            self._begin(day(now), schema.viewed_relation(day_of(now)), shard, before)

    def mark_viewers(self, *names: str, purge_at: int = NOW + 1) -> None:
        """Store the items that mark these viewers as counted."""
        for name in names:
            key = schema.VIEWER.key(videoId=VIDEO_ID, lane=lane_of(name), id=name)
            self._put(key, {"videoId": VIDEO_ID, "purgeAt": purge_at})

    def corrupt(self, key: Key, **attributes: Any) -> None:
        """Write attributes directly to an item."""
        self._put(key, {**(self.table.get(key) or {}), **attributes})

    def _sums(self, before: Item, additions: Mapping[str, int]) -> dict[str, int]:
        return {name: int(before.get(name, 0)) + value for name, value in additions.items()}

    def _begin(self, key: Key, rel: str, shard: int, before: Item) -> None:
        item = self.table.get(key) or {"starts": {}, "rel": rel, "relShard": 0, "relId": VIDEO_ID, "writeId": "w"}
        starts = {**item["starts"], str(shard): sums_of(before)}
        count = sum(started["views"] + started["keyed"] for started in starts.values())
        self._put(key, {**item, "starts": starts, "relSort": count})

    def _put(self, key: Key, item: Item) -> None:
        self.table.write(self.table.put({**item, **key}))


@pytest.fixture
def viewed(api: Api, table: Table) -> Viewed:
    """Return a video with views of yesterday and today: anonymous views, and views of three named viewers. Its counter
    is merged."""
    api.publish(videoId=VIDEO_ID)
    Reconcile(table, clock=api.clock).run(True, lambda _: None)
    viewed = Viewed(table)
    for time in (YESTERDAY - 5 * HOUR_SECONDS, YESTERDAY, NOW - HOUR_SECONDS, NOW):
        viewed.add(time, views=4, watched=900, owner=1)
        viewed.add(time, keyed=1)
        viewed.add(time, shard=1, views=2)
    viewed.mark_viewers("ann", "ben", "cleo")
    viewed.corrupt(counter(), spread=2, folded={"views": 8})
    return viewed


class Runs:
    """Runner of repeated reconciliations."""

    def __init__(self, table: Table) -> None:
        self.findings: list[Discrepancy] = []
        self.waited: list[float] = []
        self.before_second_comparison: Callable[[], object] = lambda: None
        self._reconcile = Reconcile(table, clock=lambda: NOW, sleep=self._sleep)

    def __call__(self, *, repair: bool = False) -> list[str]:
        self.findings, self.waited = [], []
        self._reconcile.run(repair, self.findings.append)
        assert {finding.id for finding in self.findings if finding.kind == "views"} <= {VIDEO_ID}
        assert {finding.kind for finding in self.findings} <= {"views"}
        return [finding.outcome for finding in self.findings]

    def _sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.before_second_comparison()


@pytest.fixture
def run(table: Table) -> Runs:
    return Runs(table)


def test_run_without_discrepancies_finds_nothing_and_does_not_wait(table: Table, viewed: Viewed, run: Runs) -> None:
    before = items_of(table)
    assert run(repair=True) == []
    assert run.waited == []
    assert items_of(table) == before


Corruption = Callable[[Viewed], None]


def _starts(key: Key, *shards: dict[str, int], **attributes: Any) -> Corruption:
    return lambda viewed: viewed.corrupt(
        key, starts={str(shard): started for shard, started in enumerate(shards)}, **attributes
    )


FIRST, SECOND, THIRD = (sums(views=4 * n, keyed=n, watched=900 * n, owner=n) for n in (1, 2, 3))
CERTAIN: dict[str, Corruption] = {
    "an hour began with more than the next one": _starts(hour(YESTERDAY), THIRD, sums(views=2)),
    "an hour began with more than there is now": _starts(hour(NOW), sums(views=99), sums(views=6), relSort=105),
    "a day began with more than its first hour": _starts(day(NOW), THIRD, sums(views=4)),
    "a shard of an hour began with more than it has": _starts(hour(NOW), THIRD, sums(views=9), relSort=24),
    "an hour has the wrong sort position": lambda viewed: viewed.corrupt(hour(NOW), relSort=1),
    "the other shards hold more than was folded": lambda viewed: viewed.corrupt(counter(), folded={"views": 7}),
}
DOUBTFUL: dict[str, Corruption] = {
    "more viewers have a marker than were counted": lambda viewed: viewed.mark_viewers("dora", "emil"),
    "more was folded than the other shards hold": lambda viewed: viewed.corrupt(counter(), folded={"views": 9}),
    "an hour is lost": lambda viewed: viewed.table.delete(hour(NOW - HOUR_SECONDS)),
    "the hour of the last view is lost": lambda viewed: viewed.table.delete(hour(NOW)),
    "a day is lost": lambda viewed: viewed.table.delete(day(NOW)),
    "a day began with less than its first hour": _starts(day(NOW), FIRST, sums(views=4), relSort=9),
}


@pytest.mark.parametrize("damage", CERTAIN)
def test_certain_damage_is_found_and_repaired(table: Table, viewed: Viewed, run: Runs, damage: str) -> None:
    CERTAIN[damage](viewed)
    before = items_of(table)
    assert run() == ["found"]
    assert run.waited == [SECONDS_BETWEEN]
    assert items_of(table) == before
    counters = ViewCounters(table).read([VIDEO_ID])
    assert run(repair=True) == ["repaired"]
    assert run(repair=True) == []
    # The repair changed no count.
    assert ViewCounters(table).read([VIDEO_ID]) == counters


@pytest.mark.parametrize("damage", DOUBTFUL)
def test_difference_that_may_be_lag_or_loss_is_found_and_not_repaired(
    table: Table, viewed: Viewed, run: Runs, damage: str
) -> None:
    DOUBTFUL[damage](viewed)
    before = items_of(table)
    assert run(repair=True) == ["found"]
    assert items_of(table) == before


def test_start_above_the_next_start_is_lowered_to_it(table: Table, viewed: Viewed, run: Runs) -> None:
    CERTAIN["an hour began with more than the next one"](viewed)
    run(repair=True)
    lowered = table.get(hour(YESTERDAY)) or {}
    assert lowered["starts"] == {"0": SECOND, "1": sums(views=2)}
    assert lowered["relSort"] == 12
    assert lowered["writeId"] != "w"
    (finding,) = run.findings
    stored = finding.found[hour(YESTERDAY)["sk"]]
    assert stored["starts"]["0"] == THIRD


def test_difference_resolved_by_the_stream_is_not_a_finding(table: Table, viewed: Viewed, run: Runs) -> None:
    viewed.mark_viewers("dora", "emil")
    run.before_second_comparison = lambda: viewed.add(NOW, keyed=1)
    assert run() == []
    assert run.waited == [SECONDS_BETWEEN]


def test_start_that_changed_before_the_repair_is_compared_again(
    table: Table, viewed: Viewed, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    CERTAIN["an hour began with more than the next one"](viewed)
    update = table.update

    def read_after_a_view(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(table, "update", update)
        viewed.corrupt(hour(YESTERDAY), starts={"0": FIRST, "1": sums(views=2)}, relSort=7)
        return update(*arguments, **options)

    monkeypatch.setattr(table, "update", read_after_a_view)
    assert run(repair=True) == []
    assert (table.get(hour(YESTERDAY)) or {})["starts"]["0"] == FIRST


def test_expired_viewer_items_are_not_compared(viewed: Viewed, run: Runs) -> None:
    viewed.mark_viewers(*"abcdefgh", purge_at=NOW)
    assert run() == []


def test_expired_hours_are_not_a_finding(api: Api, table: Table, run: Runs) -> None:
    api.publish(videoId=VIDEO_ID)
    Reconcile(table, clock=api.clock).run(True, lambda _: None)
    viewed = Viewed(table)
    for days in (60, 59, 2):
        viewed.add(NOW - days * DAY_SECONDS, views=1)
    for days in (60, 59):
        table.delete(hour(NOW - days * DAY_SECONDS))
    assert run() == []


def test_unviewed_videos_are_compared_with_one_request(api: Api, table: Table) -> None:
    video_ids = [api.publish()["videoId"] for _ in range(3)]
    with record_operations(table.client) as operations:
        assert ViewComparison(table, lambda: NOW).viewed(video_ids) == set()
    assert [operation.name for operation in operations] == ["BatchGetItem"]
