"""Totals of ratings, totals of users and tags, and the years of credits are exact after concurrent, interleaved and
failed writes."""

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from local.testbed.harness import NOW, Api, Clock, Reply, make_api
from shared import schema
from shared.aws.dynamodb import REQUEST_ATTEMPTS, Table
from shared.background.aggregates import Aggregates, contribution
from shared.background.reconcile import Reconcile
from shared.background.totals import PROFILE_COUNTS
from shared.core.attributes import Item
from shared.core.errors import WriteContention
from shared.relations.entry_updates import EntryUpdater
from shared.relations.ratings import TOTALS, RatingChoice, rating_contribution
from tests.integration import faults
from tests.integration.concurrency import Request, run_concurrently
from tests.integration.contents import items_of
from tests.integration.faults import FaultLine, Incident, Killed
from tests.rating_totals import settle_ratings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
PATH = f"/v1/videos/{VIDEO_ID}/rating"
THREADS = 8


def through_line(
    table: Table, recorded_client: tuple["DynamoDBClient", FaultLine], attempts: int = REQUEST_ATTEMPTS
) -> Table:
    """Return a Table with the same items, whose client has a fault line."""
    return Table(table.name, recorded_client[0], attempts=attempts, sleep=lambda _: None)


def rating(user: str, value: int) -> Request:
    return lambda api: api.put(PATH, {"value": value}, user=user)


def liking(user: str, like: bool) -> Request:
    return lambda api: api.put(PATH, {"like": like}, user=user)


def unrating(user: str) -> Request:
    return lambda api: api.delete(PATH, user=user)


def own_ratings(table: Table) -> dict[str, RatingChoice]:
    """Return each user's rating."""
    ratings: list[Any] = [item for item in items_of(table) if item["pk"].startswith(schema.RATING.partition_prefix)]
    return {item["userId"]: choice for item in ratings if (choice := RatingChoice.of(item))}


def assert_exact_ratings(table: Table, streams: Any) -> None:
    """Assert that the totals equal the ratings after the stream is processed."""
    settle_ratings(table, streams)
    sums: Counter[str] = Counter()
    for choice in own_ratings(table).values():
        sums.update(rating_contribution(choice))
    totals = table.get(schema.RATING_TOTALS.key(videoId=VIDEO_ID), consistent=True) or {}
    assert {name: totals.get(name, 0) for name in TOTALS} == {name: sums[name] for name in TOTALS}


class TestConcurrentRatings:
    def test_concurrent_ratings_of_many_users_are_all_counted(
        self, api: Api, table: Table, clock: Clock, streams: Any
    ) -> None:
        api.publish(videoId=VIDEO_ID)
        each = 6

        def run(thread: int) -> list[Reply]:
            own_api = make_api(Table(table.name, table.client), clock)
            return [rating(f"user-{thread}-{n}", (thread + n) % 10 + 1)(own_api) for n in range(each)]

        replies = [
            reply for batch in run_concurrently(*(lambda t=t: run(t) for t in range(THREADS))) for reply in batch
        ]

        assert {reply.status for reply in replies} == {200}
        # a response counts only the caller's own rating before the stream is processed
        assert {reply.json["votes"] for reply in replies} == {1}
        assert_exact_ratings(table, streams)
        values = [(thread + n) % 10 + 1 for thread in range(THREADS) for n in range(each)]
        body = api.get(PATH).json
        assert (body["votes"], body["average"]) == (len(values), round(sum(values) / len(values), 2))

    def test_last_of_concurrent_ratings_by_one_user_counts_once(
        self, api: Api, table: Table, clock: Clock, streams: Any
    ) -> None:
        api.publish(videoId=VIDEO_ID)

        def run(value: int) -> Reply:
            return rating("bob", value)(make_api(Table(table.name, table.client), clock))

        replies = run_concurrently(*(lambda v=v: run(v) for v in range(1, THREADS + 1)))

        assert {reply.status for reply in replies} <= {200, 409}
        assert len(own_ratings(table)) == 1
        assert_exact_ratings(table, streams)

    def test_totals_equal_the_ratings_after_concurrent_requests(
        self, api: Api, table: Table, clock: Clock, streams: Any
    ) -> None:
        api.publish(videoId=VIDEO_ID)

        def run(seed: int) -> None:
            chance, own_api = random.Random(seed), make_api(Table(table.name, table.client), clock)
            for _ in range(12):
                user = chance.choice("abcd")
                request = chance.choice([rating(user, chance.randint(1, 10)), liking(user, True), unrating(user)])
                assert request(own_api).status in (200, 204, 409)

        run_concurrently(*(lambda s=s: run(s) for s in range(THREADS)))

        assert_exact_ratings(table, streams)

    def test_concurrent_repair_reverts_no_rating(self, api: Api, table: Table, clock: Clock, streams: Any) -> None:
        api.publish(videoId=VIDEO_ID)
        Aggregates(table).settle([VIDEO_ID], NOW)

        def rate(thread: int) -> int:
            own_api = make_api(Table(table.name, table.client), clock)
            return max(rating(f"u{thread}-{n % 3}", n % 10 + 1)(own_api).status for n in range(10))

        def repair() -> int:
            run = Reconcile(table, clock=lambda: NOW, sleep=lambda _: settle_ratings(table, streams))
            return max(200 + run.run(True, lambda _: None).outcomes["repaired"] for _ in range(10))

        assert run_concurrently(*(lambda t=t: rate(t) for t in range(4)), repair) == [200] * 5
        assert_exact_ratings(table, streams)


STATES: dict[str, Sequence[Request]] = {
    "no rating": (),
    "ratings": (rating("bob", 3), liking("carol", True)),
}
REQUESTS: dict[str, Request] = {
    "rate": rating("bob", 8),
    "like": liking("bob", True),
    "take back": unrating("bob"),
    "another rates": rating("carol", 5),
}
MAX_CALLS = 5


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("other", REQUESTS)
@pytest.mark.parametrize("one", REQUESTS)
def test_interleaved_ratings_are_serializable(
    api: Api,
    table: Table,
    recorded_client: tuple["DynamoDBClient", FaultLine],
    line: FaultLine,
    streams: Any,
    one: str,
    other: str,
    state: str,
) -> None:
    api.publish(videoId=VIDEO_ID)

    def prepare() -> None:
        for request in (unrating("bob"), unrating("carol"), *STATES[state]):
            assert request(api).status < 300

    def after(*names: str) -> dict[str, RatingChoice]:
        prepare()
        for name in names:
            assert REQUESTS[name](api).status < 300
        return own_ratings(table)

    possible = (after(one, other), after(other, one))
    for call in range(MAX_CALLS):
        prepare()
        replies: list[Reply] = []

        def intrude(replies: list[Reply] = replies) -> None:
            replies.append(REQUESTS[other](api))

        line.arm(faults.run_before_request(intrude), at=call)
        assert REQUESTS[one](make_api(through_line(table, recorded_client))).status < 300
        line.disarm()
        if not replies:
            break  # the request sends no further calls
        assert own_ratings(table) in possible
    assert_exact_ratings(table, streams)  # an error in any of the calls would remain in the totals


INCIDENTS = (faults.throttle, faults.fail, faults.lose_request, faults.lose_response)
FATAL = (faults.kill_before, faults.kill_after)


def named(incidents: Sequence[Incident]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("incident", incidents, ids=lambda incident: incident.__name__)


class TestBrokenCalls:
    @pytest.mark.parametrize("attempts", [1, REQUEST_ATTEMPTS], ids=["first", "deployed"])
    @named((*INCIDENTS, *FATAL))
    def test_interrupted_rating_is_completed_by_its_retry_and_counted_once(
        self,
        api: Api,
        table: Table,
        recorded_client: tuple["DynamoDBClient", FaultLine],
        line: FaultLine,
        streams: Any,
        attempts: int,
        incident: Incident,
    ) -> None:
        api.publish(videoId=VIDEO_ID)
        cases: Sequence[tuple[Request, RatingChoice | None]] = (
            (rating("bob", 8), RatingChoice(8)),
            (unrating("bob"), None),
        )
        for (request, choice), call in product(cases, range(MAX_CALLS)):
            rating("bob", 3)(api)
            line.arm(incident, at=call)
            try:
                reply = request(make_api(through_line(table, recorded_client, attempts)))
                if len(line.calls) <= call:
                    continue  # the request sends no further calls
                assert reply.status == 503 if attempts == 1 else reply.status in (200, 204)
            except Killed:
                assert incident in FATAL
            line.disarm()

            assert request(api).status in (200, 204)
            assert own_ratings(table).get("bob") == choice
        assert_exact_ratings(table, streams)  # an error in any of the calls would remain in the totals

    @pytest.mark.parametrize("conflicts", [1, REQUEST_ATTEMPTS - 1])
    def test_conflicts_with_an_import_are_retried(
        self,
        api: Api,
        table: Table,
        recorded_client: tuple["DynamoDBClient", FaultLine],
        line: FaultLine,
        streams: Any,
        conflicts: int,
    ) -> None:
        api.publish(videoId=VIDEO_ID)
        conflicts_left = [faults.conflict] * conflicts

        def conflicting(send: Any) -> Any:
            return conflicts_left.pop()(send) if conflicts_left and line.calls[-1] == "PutItem" else None

        line.arm(conflicting)
        assert rating("bob", 8)(make_api(through_line(table, recorded_client))).status == 200
        assert_exact_ratings(table, streams)

    def test_lasting_conflict_with_an_import_is_409_with_retry_after(
        self,
        api: Api,
        table: Table,
        recorded_client: tuple["DynamoDBClient", FaultLine],
        line: FaultLine,
        streams: Any,
    ) -> None:
        api.publish(videoId=VIDEO_ID)
        line.arm(lambda send: faults.conflict(send) if line.calls[-1] == "PutItem" else None)
        reply = rating("bob", 8)(make_api(through_line(table, recorded_client)))
        assert (reply.status, reply.headers["retry-after"]) == (409, "1")
        assert line.calls.count("PutItem") == REQUEST_ATTEMPTS
        assert_exact_ratings(table, streams)


def assert_exact_totals(table: Table) -> None:
    """Assert that every total of a user or tag equals the sum over the videos."""
    items = items_of(table)
    users: dict[str, Counter[str]] = {}
    tags: Counter[str] = Counter()
    for item in items:
        part = contribution(item) if item["sk"] == schema.VIDEO.sk else None
        if part:
            users.setdefault(part.user_id, Counter()).update(part.counts())
            tags.update(part.tags)
    profiles = {item["userId"]: item for item in items if item["sk"] == schema.PROFILE.sk}
    for user in users.keys() | profiles.keys():
        present: Item = profiles.get(user, {})
        assert {name: present.get(name, 0) for name in PROFILE_COUNTS} == {
            name: users.get(user, Counter())[name] for name in PROFILE_COUNTS
        }
    counts = {item["tag"]: item["count"] for item in items if item["sk"] == schema.TAG_COUNT.sk}
    assert {tag: count for tag, count in counts.items() if count} == dict(tags)


class TestTotals:
    def test_concurrent_workers_count_every_video_once(self, api: Api, table: Table, clock: Clock) -> None:
        video_ids = [api.publish(f"user-{n % 3}", tags=["a", f"t{n % 4}"], fileSize=n)["videoId"] for n in range(12)]

        def settle(seed: int) -> None:
            chance, worker = random.Random(seed), Aggregates(Table(table.name, table.client))
            for _ in range(4):
                worker.settle(chance.sample(video_ids, 5), NOW)
            worker.settle(video_ids, NOW)

        def change(seed: int) -> None:
            chance, own_api = random.Random(seed), make_api(Table(table.name, table.client), clock)
            worker = Aggregates(Table(table.name, table.client))
            for _ in range(8):
                video_id = chance.choice(video_ids)
                body = {"tags": chance.sample("abcd", 2), "fileSize": chance.randint(0, 99)}
                assert own_api.patch(f"/v1/videos/{video_id}", body, user="admin").status in (200, 409)
                worker.settle([video_id], NOW)

        run_concurrently(*(lambda s=s: settle(s) for s in range(3)), *(lambda s=s: change(s) for s in range(3)))

        assert_exact_totals(table)

    def test_repair_counts_uncounted_videos_concurrently(self, api: Api, table: Table) -> None:
        video_ids = [api.publish(f"user-{n % 3}", tags=["a", f"t{n % 4}"], fileSize=n)["videoId"] for n in range(24)]
        waited: list[float] = []
        findings: list[tuple[str, str]] = []

        Reconcile(table, clock=lambda: NOW, sleep=waited.append).run(
            True, lambda finding: findings.append((finding.kind, finding.id))
        )

        assert sorted(findings) == sorted(("marker", video_id) for video_id in video_ids)
        assert waited == []
        assert_exact_totals(table)

    @named((*INCIDENTS, *FATAL))
    def test_interrupted_worker_is_completed_by_the_next_delivery(
        self,
        api: Api,
        table: Table,
        recorded_client: tuple["DynamoDBClient", FaultLine],
        line: FaultLine,
        incident: Incident,
    ) -> None:
        video_id = api.publish(tags=["a", "b"], fileSize=3)["videoId"]
        for call in range(3):
            api.patch(f"/v1/videos/{video_id}", {"tags": ["b", f"c{call}"], "fileSize": call})
            line.arm(incident, at=call)
            try:
                Aggregates(through_line(table, recorded_client)).settle([video_id], NOW)
            except Killed:
                assert incident in FATAL
            line.disarm()

            Aggregates(table).settle([video_id], NOW)
            assert_exact_totals(table)


def create_credits(api: Api, people: int = 3) -> None:
    """Publish a video of the year 1990 with the credits of some people."""
    api.publish(videoId=VIDEO_ID, releaseYear=1990)
    for number in range(people):
        body = {"ordering": number + 1, "roles": [{"category": "actor"}]}
        assert api.put(f"/v1/videos/{VIDEO_ID}/credits/nm{number}", body).status == 201


def set_year(api: Api, year: int | None) -> int:
    return api.patch(f"/v1/videos/{VIDEO_ID}", {"releaseYear": year}).status


def credit_years(table: Table) -> set[int]:
    return {int(item["relSort"]) for item in items_of(table) if item["sk"].startswith("CREDIT#")}


@pytest.fixture
def two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit a move to two credits per step, so that it takes several steps."""
    monkeypatch.setattr("shared.relations.entry_updates.MOVED_AT_A_TIME", 2)


@pytest.mark.usefixtures("two_at_a_time")
class TestYears:
    def test_credits_end_at_the_last_year_when_each_change_is_followed_by_a_move(
        self, api: Api, table: Table, clock: Clock
    ) -> None:
        create_credits(api, people=7)

        def run(seed: int) -> None:
            chance, client = random.Random(seed), table.client
            own_api, worker = make_api(Table(table.name, client), clock), EntryUpdater(Table(table.name, client))
            for _ in range(6):
                assert set_year(own_api, chance.choice([1990, 1991, 1992, None])) in (200, 409, 503)
                while True:  # SQS delivers a failed message again
                    with suppress(WriteContention):
                        assert worker.update_entries(VIDEO_ID, NOW) is None
                        break

        run_concurrently(*(lambda s=s: run(s) for s in range(4)))

        assert credit_years(table) == {api.get(f"/v1/videos/{VIDEO_ID}").json.get("releaseYear", 0)}

    @pytest.mark.parametrize("year", [1990, 2001, None])
    def test_change_of_the_year_during_a_move_is_not_reverted(
        self,
        api: Api,
        table: Table,
        recorded_client: tuple["DynamoDBClient", FaultLine],
        line: FaultLine,
        year: int | None,
    ) -> None:
        create_credits(api)
        for call in range(9):
            assert set_year(api, 1990) == 200
            EntryUpdater(table).update_entries(VIDEO_ID, NOW)
            assert set_year(api, 2000) == 200
            replies: list[int] = []

            def intrude(replies: list[int] = replies) -> None:
                replies.append(set_year(api, year))
                EntryUpdater(table).update_entries(VIDEO_ID, NOW)

            line.arm(faults.run_before_request(intrude), at=call)
            assert EntryUpdater(through_line(table, recorded_client)).update_entries(VIDEO_ID, NOW) is None
            line.disarm()
            if not replies:
                assert call == 8  # for the video, its sort entries, its tags, and two pages of credits
                return
            assert credit_years(table) == {year or 0}
        pytest.fail("the update sent too many calls")

    @named((*INCIDENTS, *FATAL))
    def test_interrupted_move_is_completed_by_the_next_delivery(
        self,
        api: Api,
        table: Table,
        recorded_client: tuple["DynamoDBClient", FaultLine],
        line: FaultLine,
        incident: Incident,
    ) -> None:
        create_credits(api)
        for call in range(5):
            assert set_year(api, 2000 + call) == 200
            line.arm(incident, at=call)
            try:
                assert EntryUpdater(through_line(table, recorded_client)).update_entries(VIDEO_ID, NOW) is None
            except Killed:
                assert incident in FATAL
            line.disarm()

            assert EntryUpdater(table).update_entries(VIDEO_ID, NOW) is None
            assert credit_years(table) == {2000 + call}
