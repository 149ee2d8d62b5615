"""Ratings: one per user and video. The totals equal the ratings after the stream is processed."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from local.stream_records import stream_record
from local.testbed.harness import NOW, Api, Clock, record_operations
from local.testbed.limits import WRITES, SimulatedRun, Simulation
from local.testbed.meter import Meter
from local.testbed.units import CapacityUnits
from shared import schema
from shared.aws.dynamodb import Table, Write, make_client
from shared.aws.failures import ConditionFailed
from shared.aws.records import MAX_ATTEMPTS
from shared.aws.stream import Record
from shared.background.tallies import Collector, Tallies
from shared.core.attributes import Item, decode_item
from shared.core.caller import Caller
from shared.core.errors import WriteContention
from shared.processing.messages import TallyMessage, parse
from shared.relations.ratings import (
    DAYS_WITHDRAWN,
    TOTALS,
    RatingChoice,
    RatingStore,
    rating_contribution,
    ratings_document,
)
from tests.integration.contents import items_of
from tests.rating_totals import settle_ratings

LIKE, DISLIKE = {"like": True}, {"like": False}
IMPORTER = Caller.job("import")


@pytest.fixture
def video_id(api: Api) -> str:
    """Create a published video of alice, and return its id."""
    return str(api.publish()["videoId"])


@pytest.fixture
def path(video_id: str) -> str:
    """Return the path of the caller's own rating."""
    return f"/v1/videos/{video_id}/rating"


def ratings(table: Table, video_id: str) -> list[Any]:
    """Return the ratings of a video without the withdrawn ones."""
    return [item for item in of_ratings(table, video_id) if "value" in item]


def of_ratings(table: Table, video_id: str) -> list[Item]:
    """Return all items in the rating partitions of a video, including withdrawn ratings."""
    return [item for item in items_of(table) if item["pk"].startswith(f"RATINGS#{video_id}#")]


def totals(table: Table, video_id: str) -> Any:
    """Return the stored totals of a video, or `{}` if there are none."""
    return table.get(schema.RATING_TOTALS.key(videoId=video_id), consistent=True) or {}


def assert_exact(table: Table, video_id: str) -> None:
    """Assert that the totals equal the ratings after the stream is processed."""
    settle_ratings(table)
    stored = totals(table, video_id)
    contributions = [rating_contribution(RatingChoice.of(rating)) for rating in ratings(table, video_id)]
    assert {name: stored.get(name, 0) for name in ("votes", "sum", "likes", "dislikes")} == {
        name: sum(counts[name] for counts in contributions) for name in ("votes", "sum", "likes", "dislikes")
    }


class TestRating:
    def test_unrated_video_has_no_average(self, api: Api, path: str, video_id: str) -> None:
        reply = api.get(path)
        assert (reply.status, reply.json) == (
            200,
            {"videoId": video_id, "average": None, "votes": 0, "likes": 0, "dislikes": 0},
        )

    def test_rating_response_has_the_rating_and_the_totals(self, api: Api, path: str, video_id: str) -> None:
        api.put(path, {"value": 9}, user="bob")
        settle_ratings(api.table)
        reply = api.put(path, {"value": 6})
        expected = {
            "videoId": video_id,
            "own": {"value": 6, "ratedAt": NOW},
            "average": 7.5,
            "votes": 2,
            "likes": 0,
            "dislikes": 0,
        }
        assert (reply.status, reply.json) == (200, expected)
        settle_ratings(api.table)
        assert api.get(path).json == expected

    def test_other_users_see_the_totals_but_not_the_ratings_of_others(self, api: Api, path: str) -> None:
        api.put(path, {"value": 9}, user="bob")
        assert api.get(path, user="carol").json["votes"] == 0
        settle_ratings(api.table)
        body = api.get(path, user="carol").json
        assert body["votes"] == 1
        assert "own" not in body

    def test_average_is_rounded_to_two_decimals_and_stored_exactly(self, api: Api, path: str, video_id: str) -> None:
        for user, value in (("a", 10), ("b", 9), ("c", 9)):
            body = api.put(path, {"value": value}, user=user).json
            settle_ratings(api.table)
        assert body["average"] == 9.33
        assert totals(api.table, video_id)["sum"] == 28

    @pytest.mark.parametrize("is_counted", [True, False])
    def test_second_rating_replaces_the_first(
        self, api: Api, clock: Clock, path: str, video_id: str, is_counted: bool
    ) -> None:
        api.put(path, {"value": 2})
        if is_counted:
            settle_ratings(api.table)
        clock.advance(5)
        changed = api.put(path, {"value": 10}).json
        assert (changed["average"], changed["votes"]) == (10, 1)
        assert changed["own"] == {"value": 10, "ratedAt": NOW + 5}
        assert_exact(api.table, video_id)

    def test_second_rating_keeps_its_index_position(self, api: Api, clock: Clock, path: str, video_id: str) -> None:
        positions = []
        for value in (2, 10):
            api.put(path, {"value": value})
            clock.advance(5)
            (rating,) = ratings(api.table, video_id)
            positions.append([rating[name] for name in ("rel", "relShard", "relSort", "relId")])
        assert positions[0] == positions[1]  # a new index position would cost two more write units

    def test_repeated_rating_writes_nothing(self, api: Api, clock: Clock, path: str, table: Table) -> None:
        first = api.put(path, {"value": 7}).json
        clock.advance(5)
        with record_operations(table.client) as operations:
            repeated = api.put(path, {"value": 7})
        assert (repeated.status, repeated.json) == (200, first)
        assert [operation.name for operation in operations] == ["BatchGetItem"]

    def test_like_is_stored_as_10_and_dislike_as_1(self, api: Api, path: str) -> None:
        liked = api.put(path, LIKE).json
        assert (liked["own"], liked["likes"]) == ({"value": 10, "like": True, "ratedAt": NOW}, 1)
        settle_ratings(api.table)
        both = api.put(path, DISLIKE, user="bob").json
        assert (both["own"]["value"], both["own"]["like"]) == (1, False)
        assert (both["average"], both["likes"], both["dislikes"]) == (5.5, 1, 1)

    def test_a_like_can_become_a_dislike_and_a_value(self, api: Api, path: str, video_id: str) -> None:
        api.put(path, LIKE)
        disliked = api.put(path, DISLIKE).json
        assert (disliked["likes"], disliked["dislikes"], disliked["average"]) == (0, 1, 1)
        valued = api.put(path, {"value": 1}).json
        assert (valued["likes"], valued["dislikes"], valued["votes"]) == (0, 0, 1)
        assert "like" not in valued["own"]
        assert_exact(api.table, video_id)

    def test_rating_of_a_hidden_video_can_be_withdrawn(self, api: Api, path: str, video_id: str) -> None:
        api.put(path, {"value": 1}, user="bob")
        api.patch(f"/v1/videos/{video_id}", {"visibility": "private"})
        assert api.delete(path, user="bob").status == 204
        settle_ratings(api.table)
        assert api.get(path).json["votes"] == 0
        assert api.delete(path, user="bob").status == 404

    def test_repeated_withdrawal_of_a_rating_succeeds(self, api: Api, path: str, video_id: str) -> None:
        api.put(path, LIKE)
        api.put(path, {"value": 4}, user="bob")
        for _ in range(2):
            reply = api.delete(path)
            assert (reply.status, reply.body) == (204, b"")
        settle_ratings(api.table)
        after = api.get(path).json
        assert (after["votes"], after["average"], after["likes"]) == (1, 4, 0)
        assert "own" not in after
        assert_exact(api.table, video_id)

    def test_no_rating_item_has_attributes_of_a_video_index(
        self, api: Api, path: str, video_id: str, table: Table
    ) -> None:
        api.put(path, LIKE)
        settle_ratings(table)
        (rating,) = ratings(table, video_id)
        for item in (rating, totals(table, video_id)):
            assert not {"userId", "createdAt", "videoId"} <= item.keys()
            assert {"schemaVersion", "updatedAt", "updatedBy"} <= item.keys()


class TestPermissions:
    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"value": 0},
            {"value": 11},
            {"value": 7.5},
            {"value": "7"},
            {"value": True},
            {"value": None},
            {"like": 1},
            {"like": "yes"},
            {"value": 7, "like": True},
            {"value": 7, "more": 1},
            [],
        ],
        ids=str,
    )
    def test_invalid_rating_is_refused_and_changes_nothing(
        self, api: Api, path: str, video_id: str, table: Table, body: Any
    ) -> None:
        assert api.put(path, body).status == 422
        settle_ratings(table)
        assert of_ratings(table, video_id) == []
        assert totals(table, video_id) == {}


class TestImported:
    def test_imported_totals_are_shown_separately_from_own_votes(
        self, api: Api, path: str, video_id: str, table: Table
    ) -> None:
        store = RatingStore(table)
        api.put(path, {"value": 3})
        assert store.set_imported(video_id, 7.8, 1200, IMPORTER, NOW)
        body = api.put(path, {"value": 4}).json
        assert body["imported"] == {"average": 7.8, "votes": 1200}
        assert (body["average"], body["votes"]) == (4, 1)

    def test_repeated_import_of_ratings_writes_nothing(self, video_id: str, table: Table) -> None:
        store = RatingStore(table)
        assert store.set_imported(video_id, 7.8, 1200, IMPORTER, NOW)
        before = items_of(table)
        assert not store.set_imported(video_id, 7.8, 1200, IMPORTER, NOW + 1)
        assert items_of(table) == before
        assert store.set_imported(video_id, 7.9, 1201, IMPORTER, NOW + 1)
        assert ratings_document(totals(table, video_id))["imported"] == {"average": 7.9, "votes": 1201}


class TestUnits:
    """Capacity units of a rating, computed by DynamoDB's rules from the requests."""

    @pytest.fixture
    def meter(self, table: Table) -> Meter:
        """Return a meter that adds up the capacity units of all requests to the table."""
        return Meter(table.client, make_client())

    def test_first_rating_costs_one_item_and_one_index_entry(self, api: Api, path: str, meter: Meter) -> None:
        with meter.measure() as used:
            api.put(path, {"value": 2})
        assert used.operations == ["BatchGetItem", "PutItem"]
        assert used.units == CapacityUnits(reads=3, table_writes=1, index_writes=1)

    def test_changed_rating_writes_one_item(self, api: Api, clock: Clock, path: str, meter: Meter) -> None:
        api.put(path, {"value": 2})
        clock.advance(5)
        with meter.measure() as used:
            api.put(path, LIKE)
        assert used.units == CapacityUnits(reads=3, table_writes=1, index_writes=0)

    def test_withdrawn_rating_is_removed_from_the_index(
        self, api: Api, path: str, meter: Meter, table: Table, video_id: str
    ) -> None:
        api.put(path, {"value": 2})
        with meter.measure() as used:
            api.delete(path)
        assert used.units == CapacityUnits(reads=3, table_writes=1, index_writes=1)
        with meter.measure() as used:
            api.delete(path)
        assert used.operations == ["BatchGetItem"]
        (withdrawn,) = of_ratings(table, video_id)
        assert withdrawn["purgeAt"] == NOW + DAYS_WITHDRAWN * 86_400

    def test_no_partition_receives_all_ratings_of_a_video(
        self, api: Api, path: str, table: Table, video_id: str
    ) -> None:
        for number in range(100):
            api.put(path, {"value": 2}, user=f"user-{number}")
        stored_ratings = ratings(table, video_id)
        assert len({rating["pk"] for rating in stored_ratings}) > schema.LANES * 0.8
        assert {rating["relShard"] for rating in stored_ratings} == set(range(schema.SHARDS))


class TestManyRaters:
    """Many ratings of one video, within DynamoDB's limits for items and index partitions."""

    PER_SECOND, SECONDS = 1_000, 1

    @pytest.fixture
    def simulation(self, table: Table, video_id: str) -> Simulation[RatingStore]:
        """Return a simulation of 64 instances of the service that rate one video."""
        simulation = Simulation(RatingStore, writers=64, burst=0.1)
        simulation.table.write(simulation.table.put(table.get(schema.VIDEO.key(videoId=video_id)) or {}))
        simulation.items.changes.clear()
        return simulation

    def rate(self, simulation: Simulation[RatingStore], video_id: str, users: int) -> SimulatedRun:
        """Send `PER_SECOND` ratings a second for `SECONDS` seconds, from this number of users in turn."""
        numbers = iter(range(self.PER_SECOND * self.SECONDS))

        def rate(store: RatingStore, now: int) -> None:
            time, user = divmod(next(numbers), users)
            # The choice differs each time, because an unchanged rating is not written.
            choice = RatingChoice((user + time) % 10 + 1) if user % 5 else RatingChoice.liked(time % 2 == 0)
            body = store.rate(video_id, Caller(f"user-{user}", frozenset()), choice, now)
            assert (body["own"]["value"], body["votes"] > 0) == (choice.value, True)

        return simulation.run(self.SECONDS, self.PER_SECOND, rate)

    @pytest.mark.slow
    @pytest.mark.parametrize("users", [1_000, 200], ids=["one rating each", "repeated ratings"])
    def test_a_thousand_ratings_a_second_are_counted_and_none_is_refused(
        self, table: Table, video_id: str, simulation: Simulation[RatingStore], users: int
    ) -> None:
        run = self.rate(simulation, video_id, users)
        assert (run.done, run.failed, run.unknown, run.requests["throttled"]) == (1_000, [], [], 0)
        assert run.seconds < self.SECONDS + 1
        assert run.writes == 1_000 + users  # each rating, and once per user the index position
        assert max(units for (partition, _), units in simulation.peaks.items()) < 0.4 * WRITES

        stored_ratings: list[Any] = [
            item for item in simulation.items.stored() if item["pk"].startswith(f"RATINGS#{video_id}#")
        ]
        assert len(stored_ratings) == users
        deliver(simulation, table)
        deliver(simulation, table)  # the stream may deliver records twice
        stored = totals(table, video_id)
        contributions = [rating_contribution(RatingChoice.of(rating)) for rating in stored_ratings]
        assert {name: stored.get(name, 0) for name in TOTALS} == {
            name: sum(part[name] for part in contributions) for name in TOTALS
        }


def deliver(simulation: Simulation[RatingStore], table: Table) -> None:
    """Add the stream records of a simulation to the totals, in batches of 500."""
    tallies = Tallies(table)
    changes = [[None if item is None else decode_item(item) for item in change] for change in simulation.items.changes]
    records = [Record(stream_record(old, new, sequence=number)) for number, (old, new) in enumerate(changes)]
    for start in range(0, len(records), 500):
        collector = Collector()
        for record in records[start : start + 500]:
            if record.name != "REMOVE":
                collector.rated(record)
        for message in collector.drain():
            tallies.apply([parse(TallyMessage, message)], NOW)


class TestConcurrentRatings:
    def test_concurrent_identical_ratings_count_once(
        self, table: Table, video_id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store, caller = RatingStore(table), Caller("bob", frozenset())
        write = table.write

        def write_between(change: Write) -> Item:
            monkeypatch.setattr(table, "write", write)
            RatingStore(table).rate(video_id, caller, RatingChoice(3), NOW)
            return write(change)

        monkeypatch.setattr(table, "write", write_between)
        body = store.rate(video_id, caller, RatingChoice(8), NOW)
        assert (body["own"]["value"], body["votes"], body["average"]) == (8, 1, 8)
        assert_exact(table, video_id)

    def test_rating_with_a_lost_response_is_recognised(
        self, table: Table, video_id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        caller = Caller("bob", frozenset())
        write = table.write

        def twice(change: Write) -> Item:
            monkeypatch.setattr(table, "write", write)
            write(change)
            return write(change)

        monkeypatch.setattr(table, "write", twice)
        body = RatingStore(table).rate(video_id, caller, RatingChoice(8), NOW)
        assert (body["own"]["value"], body["votes"]) == (8, 1)
        assert_exact(table, video_id)

    def test_concurrent_change_by_the_same_user_is_retried(
        self, table: Table, video_id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write = table.write
        failures = [ConditionFailed({"value": 2, "writeId": "another"})] * (MAX_ATTEMPTS - 2) + [ConditionFailed(None)]

        def changing(change: Write) -> Item:
            if failures:
                raise failures.pop(0)
            return write(change)

        monkeypatch.setattr(table, "write", changing)
        body = RatingStore(table).rate(video_id, Caller("bob", frozenset()), RatingChoice(8), NOW)
        assert body["votes"] == 1

    def test_lasting_concurrent_change_is_409_contention(
        self, api: Api, table: Table, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def changed(_: Write) -> Item:
            raise ConditionFailed({"value": 2, "writeId": "another"})

        monkeypatch.setattr(table, "write", changed)
        with pytest.raises(WriteContention):
            RatingStore(table).rate(path.split("/")[3], Caller("bob", frozenset()), RatingChoice(8), NOW)
        for reply in (api.put(path, {"value": 8}), api.delete(path)):
            assert (reply.status, reply.headers["retry-after"]) == (409, "1")

    def test_rating_response_tolerates_missing_totals(self, api: Api, path: str, table: Table, video_id: str) -> None:
        api.put(path, {"value": 10})
        settle_ratings(table)
        api.put(path, {"value": 1})
        body = api.put(path, LIKE).json
        assert (body["average"], body["votes"], body["likes"]) == (10, 1, 1)
        assert_exact(table, video_id)


ACTIONS = st.sampled_from(
    [None, RatingChoice(1), RatingChoice(5), RatingChoice(10), RatingChoice.liked(True), RatingChoice.liked(False)]
)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from("abc"), ACTIONS), max_size=12))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_totals_equal_the_ratings_after_any_sequence_of_faults(
    api: Api, table: Table, steps: list[tuple[str, RatingChoice | None]]
) -> None:
    video_id = str(api.publish()["videoId"])
    store = RatingStore(table)
    expected: dict[str, RatingChoice] = {}
    for user, choice in steps:
        caller = Caller(user, frozenset())
        if choice:
            store.rate(video_id, caller, choice, NOW)
            expected[user] = choice
        else:
            store.delete(video_id, caller, NOW)
            expected.pop(user, None)
    assert_exact(table, video_id)
    assert {rating["userId"]: RatingChoice.of(rating) for rating in ratings(table, video_id)} == expected
