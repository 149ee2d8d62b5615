"""Reconciliation of the table: finds, reports and repairs discrepancies, and skips items that are being written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from local.testbed.background import BackgroundWork
from local.testbed.harness import NOW, Api, record_operations
from local.testbed.lean_moto import restore_tables
from shared import schema
from shared.aws.dynamodb import Key, Table, Write
from shared.aws.expressions import Expression
from shared.background import ledger
from shared.background.aggregates import Aggregates
from shared.background.comparison import INDEX_SECONDS
from shared.background.reconcile import (
    MAX_COMPARISONS,
    RECENTLY,
    SECONDS_BETWEEN,
    SECONDS_FOR_STREAM,
    Discrepancy,
    Reconcile,
    ReconcileSummary,
)
from shared.background.totals import folder_count_key
from shared.captions.store import CaptionStore
from shared.core.attributes import Item, encode_item
from shared.core.caller import Caller
from shared.core.errors import InternalError, NotApplied, Unavailable
from shared.relations.ratings import RatingChoice, RatingStore
from tests.integration.contents import items_of
from tests.rating_totals import settle_ratings

EXTERNAL_ID = "film-1"


@dataclass
class Runs:
    """Runner of reconciliations on one table. It does not wait between comparisons."""

    table: Table
    findings: list[Discrepancy] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    before_second_comparison: Callable[[], object] = lambda: None

    def __call__(self, *, repair: bool = False) -> list[tuple[str, str, str]]:
        """Run a reconciliation, and return kind, id and outcome of each finding."""
        self.findings.clear()

        def sleep(seconds: float) -> None:
            self.waited.append(seconds)
            self.before_second_comparison()

        run = Reconcile(self.table, clock=lambda: NOW, sleep=sleep)
        self.summary = run.run(repair, self.findings.append)
        assert sum(self.summary.outcomes.values()) == len(self.findings)
        return [(finding.kind, finding.id, finding.outcome) for finding in self.findings]


@pytest.fixture
def run(table: Table) -> Runs:
    """Return a runner of reconciliations."""
    return Runs(table)


@pytest.fixture(scope="module")
def filled(fill_once: Callable[[Callable[[Api], str]], tuple[bytes, str]]) -> tuple[bytes, str]:
    """Return the serialised tables that `video_id` needs, and the id."""
    return fill_once(_fill)


@pytest.fixture
def video_id(filled: tuple[bytes, str], api: Api, background: BackgroundWork) -> str:
    """Return the id of a video that has every compared item, and captions and chapters, which are not compared. The
    tables contain no discrepancy."""
    tables, video_id = filled
    restore_tables(tables)
    background.records()  # discards the records that created these items
    return video_id


def _fill(api: Api) -> str:
    fields: dict[str, Any] = {
        "fileSize": 7,
        "duration": 9,
        "releaseYear": 1999,
        "expiresAt": NOW + 1000,
        "folder": "a/b",
    }
    video_id = str(api.publish(tags=["Drama", "b"], externalId=EXTERNAL_ID, **fields)["videoId"])
    api.create("bob", tags=["b"])
    for person in ("nm1", "nm2"):
        credit = {"ordering": 1, "roles": [{"category": "actor"}]}
        assert api.put(f"/v1/videos/{video_id}/credits/{person}", credit).status == 201
    assert api.put(f"/v1/videos/{video_id}/releases/NZ", {"titles": [{"title": "Elsewhere"}]}).status == 201
    chapters = {"chapters": [{"start": 0, "title": "All of it"}]}
    assert api.put(f"/v1/videos/{video_id}/chapters", chapters).status == 201
    captions: Item = {"text": "0" * 32, "cues": 1, "size": 40, "origin": "owner"}
    CaptionStore(api.table).put(video_id, "en", captions, Caller("alice", frozenset()), NOW, lambda _: True)
    for user, body in (("alice", {"value": 7}), ("bob", {"like": True}), ("carol", {"like": False})):
        assert api.put(f"/v1/videos/{video_id}/rating", body, user=user).status == 200
    BackgroundWork(api.table, api.clock).settle_totals()
    return video_id


def corrupt(table: Table, key: Key, **attributes: Any) -> None:
    """Write attributes directly to the table."""
    change = Expression(
        "SET " + ", ".join(f"#{name} = :{name}" for name in attributes),
        {f"#{name}": name for name in attributes},
        {f":{name}": value for name, value in attributes.items()},
    )
    table.write(table.update(key, change))


def comparable(table: Table) -> list[Item]:
    """Return all items, without the attributes that every write changes."""
    noise = ("version", "updatedAt", "updatedBy", "updatedFor", "writeId", *ledger.ATTRIBUTES)
    items = [{name: value for name, value in item.items() if name not in noise} for item in items_of(table)]
    return sorted(items, key=lambda item: (item["pk"], item["sk"]))


def reservation_key(value: str = EXTERNAL_ID) -> Key:
    """Return the key of the reservation of alice's external id."""
    return schema.RESERVATION.key(userId="alice", field="externalId", value=value)


CORRUPTED: dict[str, tuple[Callable[[Table, str], None], str]] = {
    "a tag's entry is missing": (lambda t, v: t.delete(schema.TAG.key(videoId=v, tag="drama")), "entries"),
    "a tag's entry has the wrong sort position": (
        lambda t, v: corrupt(t, schema.TAG.key(videoId=v, tag="drama"), relSort=1),
        "entries",
    ),
    "a credit has the wrong sort position": (
        lambda t, v: corrupt(t, schema.CREDIT.key(videoId=v, personId="nm2"), relSort=1950),
        "entries",
    ),
    "a release has the wrong sort position": (
        lambda t, v: corrupt(t, schema.RELEASE.key(videoId=v, region="NZ", language="-"), relSort=1),
        "entries",
    ),
    "a video is in the wrong folder": (
        lambda t, v: corrupt(t, schema.FOLDER.key(videoId=v), relId=f"b//{NOW:012}/{v}"),
        "entries",
    ),
    "a folder's counts are wrong": (
        lambda t, _: corrupt(t, folder_count_key("alice", "a/b"), count=5, direct=-5),
        "folder",
    ),
    "a folder's counts are missing": (lambda t, _: t.delete(folder_count_key("alice", "a/b")), "folder"),
    "a sort entry has the category of an earlier version": (
        lambda t, v: corrupt(t, schema.ORDER.key(videoId=v, order="rating"), category="X", categoryShard=0),
        "entries",
    ),
    "a reservation is missing": (lambda t, _: t.delete(reservation_key()), "reservations"),
    "a reservation is stale": (lambda t, _: corrupt(t, reservation_key(), videoId="0" * 36), "reservations"),
    "the schedule is missing": (lambda t, v: t.delete(schema.SCHEDULE.key(videoId=v)), "entries"),
    "the votes are wrong": (lambda t, v: corrupt(t, schema.RATING_TOTALS.key(videoId=v), votes=9, sum=1), "ratings"),
    "the likes are wrong": (lambda t, v: corrupt(t, schema.RATING_TOTALS.key(videoId=v), likes=0), "ratings"),
    "the ratings' totals are missing": (lambda t, v: t.delete(schema.RATING_TOTALS.key(videoId=v)), "ratings"),
    "a user's totals are wrong": (
        lambda t, _: corrupt(t, schema.PROFILE.key(userId="alice"), ready=5, bytes=0),
        "user",
    ),
    "a user's totals are missing": (lambda t, _: t.delete(schema.PROFILE.key(userId="alice")), "user"),
    "a tag's count is wrong": (
        lambda t, _: corrupt(t, schema.TAG_COUNT.key(tag="drama"), count=5, relSort=5),
        "tag-count",
    ),
    "a tag's count is missing": (lambda t, _: t.delete(schema.TAG_COUNT.key(tag="drama")), "tag-count"),
}


class TestFinding:
    def test_run_without_discrepancies_finds_nothing_and_does_not_wait(
        self, table: Table, video_id: str, run: Runs
    ) -> None:
        before = items_of(table)
        assert run(repair=True) == []
        assert run.summary.agrees
        assert (run.summary.videos, run.summary.users, run.summary.tags) == (2, 2, 2)
        assert run.waited == []
        assert items_of(table) == before

    def test_an_empty_table_has_no_discrepancies(self, run: Runs) -> None:
        assert run() == []
        assert run.summary.agrees

    @pytest.mark.parametrize("damage", CORRUPTED)
    def test_damage_is_reported_and_unchanged_without_repair(
        self, table: Table, video_id: str, run: Runs, damage: str
    ) -> None:
        corrupt_it, kind = CORRUPTED[damage]
        corrupt_it(table, video_id)
        before = items_of(table)
        assert [(kind, outcome) for kind, _, outcome in run()] == [(kind, "found")]
        assert not run.summary.agrees
        assert items_of(table) == before
        assert run.waited == [SECONDS_FOR_STREAM if kind in ("entries", "ratings") else SECONDS_BETWEEN]

    @pytest.mark.slow
    @pytest.mark.parametrize("damage", CORRUPTED)
    def test_repair_restores_the_undamaged_items(self, table: Table, video_id: str, run: Runs, damage: str) -> None:
        before = comparable(table)
        CORRUPTED[damage][0](table, video_id)
        assert [outcome for _, _, outcome in run(repair=True)] == ["repaired"]
        assert run.summary.agrees
        assert comparable(table) == before
        assert run() == []

    def test_value_of_two_videos_is_reported_as_busy_and_changed_for_neither(
        self, table: Table, api: Api, video_id: str, run: Runs
    ) -> None:
        other = api.create(externalId="film-2")["videoId"]
        Aggregates(table).settle([other], NOW)
        corrupt(table, schema.VIDEO.key(videoId=other), externalId=EXTERNAL_ID)
        before = comparable(table)
        assert run(repair=True) == [("reservations", other, "busy")]
        assert comparable(table) == before

    def test_a_finding_has_the_expected_and_the_stored_values(self, table: Table, video_id: str, run: Runs) -> None:
        corrupt(table, schema.PROFILE.key(userId="alice"), ready=5, bytes=0)
        run()
        expected = {"ready": 1, "bytes": 7}
        assert run.findings == [Discrepancy("user", "alice", expected, {"ready": 5, "bytes": 0}, "found")]

    def test_an_entry_of_a_tag_that_the_video_does_not_have_is_removed(
        self, table: Table, video_id: str, run: Runs
    ) -> None:
        before = comparable(table)
        (entry,) = [item for item in items_of(table) if item["sk"] == "TAG#drama"]
        stray = entry | schema.TAG.key(videoId=video_id, tag="x") | {"tag": "x", "rel": schema.tag_relation("x")}
        table.client.put_item(TableName=table.name, Item=encode_item(stray))
        assert run(repair=True) == [("entries", video_id, "repaired")]
        assert comparable(table) == before

    def test_videos_of_the_previous_schema_version_are_upgraded(self, table: Table, api: Api, run: Runs) -> None:
        video_id = api.publish(tags=["a"])["videoId"]
        Aggregates(table).settle([video_id], NOW)
        corrupt(table, schema.VIDEO.key(videoId=video_id), schemaVersion=2, tags={"a", "A"})
        assert run() == [("entries", video_id, "found")]
        assert (run.findings[0].expected, run.findings[0].found) == ({"schemaVersion": 3}, {"schemaVersion": 2})
        assert run(repair=True) == [("entries", video_id, "repaired")]
        assert run() == []
        body = api.get(f"/v1/videos/{video_id}").json
        assert (body["schemaVersion"], body["tags"], body["version"]) == (3, ["A"], 2)

    def test_hidden_videos_are_removed_from_lists(self, table: Table, api: Api, run: Runs) -> None:
        video_id = api.publish(tags=["a"], publishAt=NOW + 3600)["videoId"]
        corrupt(table, schema.VIDEO.key(videoId=video_id), rel=schema.FEED)
        assert ("entries", video_id, "repaired") in run(repair=True)
        assert (run(), api.get("/v1/tags").json["items"]) == ([], [])
        assert table.get(schema.SCHEDULE.key(videoId=video_id))

    def test_repair_applies_a_lost_message(self, table: Table, api: Api, run: Runs) -> None:
        video_id = api.publish(tags=["a"], fileSize=3)["videoId"]
        assert run() == [("marker", video_id, "found")]
        assert run(repair=True) == [("marker", video_id, "repaired")]
        assert api.get("/v1/users/alice").json["bytes"] == 3
        assert api.get("/v1/tags").json["items"] == [{"tag": "a", "count": 1}]

    def test_repair_applies_a_lost_message_of_a_deletion(
        self, table: Table, api: Api, video_id: str, run: Runs
    ) -> None:
        table.delete(schema.VIDEO.key(videoId=video_id))
        assert run() == [("marker", video_id, "found")]
        assert ("marker", video_id, "repaired") in run(repair=True)
        assert api.get("/v1/users/alice").json["videos"]["total"] == 0
        assert api.get("/v1/tags").json["items"] == []
        assert run() == []

    def test_the_playlists_of_a_user_are_counted(self, api: Api, table: Table, run: Runs) -> None:
        assert api.post("/v1/playlists", {"title": "One"}).status == 201
        assert run() == []
        corrupt(table, schema.PROFILE.key(userId="alice"), playlists=0)
        assert run(repair=True) == [("user", "alice", "repaired")]
        assert api.get("/v1/users/alice").json["playlists"] == 1

    def test_repair_of_rating_totals_keeps_imported_ratings(self, table: Table, video_id: str, run: Runs) -> None:
        RatingStore(table).set_imported(video_id, 7.1, 99, Caller.job("import"), NOW)
        corrupt(table, schema.RATING_TOTALS.key(videoId=video_id), votes=1)
        run(repair=True)
        stored = table.get(schema.RATING_TOTALS.key(videoId=video_id)) or {}
        assert (stored["imported"], stored["votes"]) == ({"average": 7.1, "votes": 99}, 3)

    def test_reconcile_sends_no_scan(self, table: Table, video_id: str, run: Runs) -> None:
        with record_operations(table.client) as operations:
            run()
        assert {operation.name for operation in operations} == {"Query", "GetItem", "BatchGetItem"}

    def test_progress_is_reported(self, table: Table, video_id: str) -> None:
        reports: list[tuple[int, int, int]] = []

        def progress(summary: ReconcileSummary) -> None:
            reports.append((summary.videos, summary.users, summary.tags))

        Reconcile(table).run(False, lambda _: None, progress)
        assert reports == [(1, 0, 0), (2, 0, 0), (2, 1, 0), (2, 2, 0), (2, 2, 1), (2, 2, 2)]


class TestUnreadableItems:
    @pytest.mark.parametrize(
        ("key", "damage", "kind", "id_"),
        [
            (schema.PROFILE.key(userId="alice"), {"ready": "many"}, "user", "alice"),
            (schema.TAG_COUNT.key(tag="drama"), {"count": "many", "relSort": 7}, "tag-count", "drama"),
        ],
        ids=["profile", "count of a tag"],
    )
    @pytest.mark.parametrize("repair", [False, True])
    def test_unreadable_item_is_reported_and_the_run_continues(
        self, table: Table, video_id: str, run: Runs, key: Key, damage: Item, kind: str, id_: str, repair: bool
    ) -> None:
        corrupt(table, key, **damage)
        corrupt(table, schema.PROFILE.key(userId="bob"), ready=9)
        assert set(run(repair=repair)) == {
            (kind, id_, "unreadable"),
            ("user", "bob", "repaired" if repair else "found"),
        }
        assert "ValueError" in next(
            finding.found["error"] for finding in run.findings if finding.outcome == "unreadable"
        )
        assert not run.summary.agrees
        assert (run.summary.videos, run.summary.users, run.summary.tags) == (2, 2, 2)

    def test_unreadable_video_does_not_stop_the_comparison_of_others(
        self, table: Table, api: Api, video_id: str, run: Runs
    ) -> None:
        broken = api.publish("bob")["videoId"]
        drop = Expression("REMOVE writeId, title SET tags = :tags", {}, {":tags": 7})
        table.write(table.update(schema.VIDEO.key(videoId=broken), drop))
        corrupt(table, schema.RATING_TOTALS.key(videoId=video_id), votes=9)
        findings = run()
        assert ("video", broken, "unreadable") in findings
        assert ("ratings", video_id, "found") in findings

    def test_profile_whose_name_is_too_long_for_a_key_is_reported(
        self, table: Table, video_id: str, run: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Test a name that fits into the index key. It is too long for the table's key, in which it is escaped."""
        longest = "#" * 900
        index_key = {"rel": schema.USERS, "relShard": 0, "relSort": 0, "relId": longest}
        table.client.put_item(
            TableName=table.name, Item=encode_item({"pk": "USER#long", "sk": "#PROFILE", **index_key})
        )
        get = table.get

        def refusing(key: Key, **options: Any) -> Item | None:
            if len(key["pk"]) > 2048:
                raise InternalError("DynamoDB refused a request with ValidationException")
            return get(key, **options)

        monkeypatch.setattr(table, "get", refusing)
        assert run() == [("user", longest, "unreadable")]
        assert run.summary.users == 3

    def test_unavailable_table_ends_the_run(
        self, table: Table, video_id: str, run: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def busy(*_: Any, **__: Any) -> None:
            raise Unavailable

        monkeypatch.setattr(table, "get", busy)
        with pytest.raises(Unavailable):
            run()

    def test_throttled_repair_is_retried_at_the_next_comparison(
        self, table: Table, api: Api, run: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video_id = api.publish(tags=["a"])["videoId"]
        transact, refusals = table.transact, iter([NotApplied(), NotApplied()])

        def throttled(writes: Sequence[Write]) -> None:
            for refusal in refusals:
                raise refusal
            transact(writes)

        monkeypatch.setattr(table, "transact", throttled)
        assert ("marker", video_id, "repaired") in run(repair=True)


class TestUnderTraffic:
    def test_difference_absent_in_the_second_comparison_is_not_a_finding(
        self, table: Table, api: Api, run: Runs, background: BackgroundWork
    ) -> None:
        api.publish(tags=["a"])
        run.before_second_comparison = background.settle_totals
        assert run() == []
        assert run.waited == [SECONDS_FOR_STREAM]

    @pytest.mark.parametrize("repair", [False, True])
    def test_ratings_still_in_the_stream_are_no_finding_and_count_once(
        self, table: Table, api: Api, video_id: str, run: Runs, repair: bool
    ) -> None:
        for user in ("yan", "zoe"):
            RatingStore(table).rate(video_id, Caller(user, frozenset()), RatingChoice(2), NOW)
        run.before_second_comparison = partial(settle_ratings, table)
        assert run(repair=repair) == []
        assert run.waited == [SECONDS_FOR_STREAM]
        assert api.get(f"/v1/videos/{video_id}/rating").json["votes"] == 5

    def test_a_repair_waits_for_the_stream_even_after_the_maximum_of_waits(
        self, table: Table, video_id: str, run: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.background.reconcile.MAX_WAITS", 0)
        RatingStore(table).rate(video_id, Caller("zoe", frozenset()), RatingChoice(2), NOW)
        run.before_second_comparison = partial(settle_ratings, table)
        assert run(repair=True) == []

    def test_one_wait_for_the_stream_serves_all_videos(self, api: Api, run: Runs) -> None:
        late = {("marker", api.publish(tags=["a"])["videoId"], "found") for _ in range(5)}
        assert set(run()) == late
        assert run.waited == [SECONDS_FOR_STREAM]

    def test_difference_that_keeps_changing_is_busy(self, api: Api, run: Runs) -> None:
        path = f"/v1/videos/{api.publish()['videoId']}"
        run.before_second_comparison = lambda: api.patch(path, {"fileSize": len(run.waited)})
        assert [(kind, outcome) for kind, _, outcome in run()] == [("marker", "busy")]
        assert run.waited == [SECONDS_FOR_STREAM] * (MAX_COMPARISONS - 1)

    def test_number_of_waits_for_the_stream_is_limited(
        self, api: Api, run: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.background.reconcile.VIDEOS_AHEAD", 1)
        monkeypatch.setattr("shared.background.reconcile.MAX_WAITS", 2)
        for _ in range(4):
            api.publish()
        assert len(run()) == 4
        assert run.waited == [SECONDS_FOR_STREAM] * 2

    @pytest.mark.parametrize(("age", "recent"), [(RECENTLY - 1, 1), (RECENTLY, 0)])
    def test_recent_findings_are_counted_separately(
        self, api: Api, run: Runs, age: int, recent: int, table: Table
    ) -> None:
        video_id = api.publish(tags=["a"])["videoId"]
        corrupt(table, schema.VIDEO.key(videoId=video_id), updatedAt=NOW - age)
        run()
        assert (run.summary.outcomes["found"], run.summary.recent) == (1, recent)

    def test_lagging_marker_is_repaired_without_waiting(self, api: Api, run: Runs) -> None:
        video_id = api.publish(tags=["a"])["videoId"]
        assert run(repair=True) == [("marker", video_id, "repaired")]
        assert run.waited == []

    def test_repair_that_is_overtaken_at_every_comparison_is_busy(self, table: Table, video_id: str, run: Runs) -> None:
        def rate() -> None:
            choice = RatingChoice(len(run.waited) % 9 + 1)
            RatingStore(table).rate(video_id, Caller("zoe", frozenset()), choice, NOW)
            settle_ratings(table)

        corrupt(table, schema.RATING_TOTALS.key(videoId=video_id), votes=9)
        run.before_second_comparison = rate
        assert run(repair=True) == [("ratings", video_id, "busy")]
        assert not run.summary.agrees
        assert len(run.waited) == MAX_COMPARISONS - 1
        run.before_second_comparison = lambda: None
        assert run(repair=True) == [("ratings", video_id, "repaired")]

    @pytest.mark.parametrize("kind", ["ratings", "user", "tag-count"])
    def test_a_change_just_before_the_repair_is_not_undone(
        self,
        table: Table,
        api: Api,
        video_id: str,
        run: Runs,
        monkeypatch: pytest.MonkeyPatch,
        kind: str,
    ) -> None:
        match kind:
            case "ratings":
                corrupt(table, schema.RATING_TOTALS.key(videoId=video_id), votes=9)
            case "user":
                corrupt(table, schema.PROFILE.key(userId="alice"), ready=9)
            case _:
                corrupt(table, schema.TAG_COUNT.key(tag="drama"), count=9, relSort=9)
        write = table.write

        def write_between(*arguments: Any, **options: Any) -> Item:
            monkeypatch.setattr(table, "write", write)
            RatingStore(table).rate(video_id, Caller("zoe", frozenset()), RatingChoice(2), NOW)
            settle_ratings(table)
            another = api.publish(tags=["drama"])["videoId"]
            Aggregates(table).settle([another], NOW)
            return write(*arguments, **options)

        monkeypatch.setattr(table, "write", write_between)
        assert [(reported_kind, outcome) for reported_kind, _, outcome in run(repair=True)] == [(kind, "repaired")]
        assert run() == []
        assert api.get("/v1/users/alice").json["videos"]["ready"] == 2
        assert api.get("/v1/tags").json["items"][0] == {"tag": "drama", "count": 2}
        assert api.get(f"/v1/videos/{video_id}/rating").json["votes"] == 4


class TestTotalsOfAllVideos:
    """Totals of the service. Each total is the sum of an attribute in four items."""

    def _corrupt_totals(self, table: Table, **attributes: int) -> None:
        """Change attributes of the first of the four items directly. Date all four items back, so that the comparison
        includes them."""
        corrupt(table, schema.SERVICE_TOTALS.key(shard=0), updatedAt=NOW - INDEX_SECONDS, **attributes)
        for item in items_of(table):
            if schema.SERVICE_TOTALS.has_sort_key(item["sk"]):
                corrupt(table, {"pk": item["pk"], "sk": item["sk"]}, updatedAt=NOW - INDEX_SECONDS)

    def _total(self, table: Table, name: str) -> int:
        return sum(int(item.get(name, 0)) for item in items_of(table) if item["sk"] == schema.SERVICE_TOTALS.sk)

    def test_wrong_totals_are_found_and_repaired(self, table: Table, video_id: str, run: Runs) -> None:
        before = self._total(table, "ready")
        self._corrupt_totals(table, ready=5)
        wrong = self._total(table, "ready")
        assert wrong != before
        assert run() == [("service", "all", "found")]
        assert run.findings[0].expected == {"ready": before}
        assert run.findings[0].found == {"ready": wrong}
        assert run(repair=True) == [("service", "all", "repaired")]
        assert self._total(table, "ready") == before
        assert run() == []
        assert run.summary.is_service_compared

    def test_totals_that_changed_a_moment_ago_are_not_compared(self, table: Table, video_id: str, run: Runs) -> None:
        self._corrupt_totals(table, ready=5)
        corrupt(table, schema.SERVICE_TOTALS.key(shard=1), updatedAt=NOW)
        assert run(repair=True) == []
        assert not run.summary.is_service_compared
