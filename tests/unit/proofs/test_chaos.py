"""Views, ratings and totals equal the users' actions, even if requests fail, and records and messages are repeated or
reordered."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from functions.aggregates import handler as aggregates
from functions.stream_router import handler as stream_router
from functions.tallies import handler as tallies
from local.testbed import streams
from local.testbed.background import BackgroundWork, FakeQueue
from local.testbed.harness import Api, Clock, Context, FakeResources, Reply
from shared.aws.dynamodb import Table
from shared.background.reconcile import Discrepancy, Reconcile
from shared.core.errors import Unavailable
from shared.core.periods import DAY_SECONDS, HOUR_SECONDS, hour_of, start_of
from shared.core.settings import LambdaHandler
from shared.relations.ratings import RatingChoice, rating_contribution
from shared.schema import RATING_TOTALS, VIEW_HOUR
from shared.videos.counters import LOOK_SECONDS, MERGE_SECONDS, ViewCounters
from shared.views.store import WINDOW_SECONDS
from tests.integration import faults
from tests.integration.contents import items_of
from tests.integration.faults import FaultLine, Incident, Killed

REFUSED = (faults.throttle, faults.fail, faults.lose_request, faults.kill_before)
DONE = (faults.lose_response, faults.kill_after)
"""Incidents that occur after DynamoDB has applied the request."""
USERS = ("bob", "carol", "dave")
VIEWERS = ("tv", "phone", "tablet")


class UnreliableQueue(FakeQueue):
    """Queue that sometimes fails before or after it has accepted some messages."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance

    def send_all(self, bodies: Sequence[Mapping[str, object]]) -> None:
        """Accept all messages, or accept only the first messages and then fail."""
        breaks = bool(bodies) and self.chance.random() < 0.2
        super().send_all(bodies[: self.chance.randint(0, len(bodies))] if breaks else bodies)
        if breaks:
            raise self.chance.choice([Unavailable, Killed])


@dataclass
class Expected:
    """Expected counts, computed from the users' actions."""

    views: Counter[str] = field(default_factory=Counter)
    """Number of views without viewer and key, by video."""
    by_hour: Counter[tuple[str, str]] = field(default_factory=Counter)
    keyed: Counter[str] = field(default_factory=Counter)
    watched: Counter[str] = field(default_factory=Counter)
    last: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """Time of a viewer's last counted view, by video, user and viewer."""
    ratings: dict[tuple[str, str], int] = field(default_factory=dict)
    """Ratings by video and user."""


class Chaos:
    """Users, stream and queues, with random faults."""

    def __init__(self, api: Api, background: BackgroundWork, seed: int) -> None:
        self.api, self.table, self.clock = api, api.table, api.clock
        self.chance = random.Random(seed)
        self.line = FaultLine(self.table.client)
        self.expected = Expected()
        self.queues = defaultdict[str, UnreliableQueue](lambda: UnreliableQueue(self.chance))
        self.incidents: Counter[str] = Counter()
        self._records = background.records
        self._keys = iter(range(10**6))
        self.videos = [f"{number}0000000-0000-4000-8000-000000000000" for number in range(3)]
        for number, video_id in enumerate(self.videos):
            api.publish(f"owner-{number % 2}", videoId=video_id, tags=["a", f"b{number}"], category="drama")

    # Users -----------------------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Send a request of a random user. Requests that can be repeated are retried until they succeed."""
        self.clock.advance(self.chance.choice([1, 60, 600, HOUR_SECONDS]))
        video_id, user = self.chance.choice(self.videos), self.chance.choice(USERS)
        action = self.chance.choice(
            [self._view, self._view, self._view_by_key, self._view_by_viewer, self._rate, self._tag]
        )
        action(video_id, user)

    def _view(self, video_id: str, user: str) -> None:
        """Send a view without a key, once. It is expected in the counts if DynamoDB applied its write.

        The response does not matter: a later call, for example the read of other shards, may have failed.
        """
        watched = self.chance.choice([0, 500])
        body = {"watchedMs": watched} if watched else None
        reply, incident = self._broken(lambda: self.api.post(f"/v1/videos/{video_id}/views", body, user=user))
        calls = self.line.calls if incident in DONE else self.line.calls[:-1]
        if (reply and reply.status == 200) or (incident and "UpdateItem" in calls):
            self._counted(video_id, watched)

    def split_counters(self) -> None:
        """Throttle each counter once, so that later views use more shards."""
        for video_id in self.videos:
            self.clock.advance(HOUR_SECONDS)
            for number in range(8):
                if number == 0:
                    self.line.arm(faults.throttle, at=1)
                assert self.api.post(f"/v1/videos/{video_id}/views", user="bob").json["counted"]
                self.line.disarm()
                self._counted(video_id, 0)

    def _counted(self, video_id: str, watched: int) -> None:
        self.expected.views[video_id] += 1
        self.expected.by_hour[video_id, hour_of(int(self.clock()))] += 1
        self.expected.watched[video_id] += watched

    def _view_by_key(self, video_id: str, user: str) -> None:
        headers = {"Idempotency-Key": f"key-{next(self._keys)}"}
        self._until_done(
            lambda: self.api.post(f"/v1/videos/{video_id}/views", {"watchedMs": 70}, headers=headers, user=user)
        )
        self.expected.keyed[video_id] += 1
        self.expected.watched[video_id] += 70

    def _view_by_viewer(self, video_id: str, user: str) -> None:
        viewer, now = self.chance.choice(VIEWERS), int(self.clock())
        body = {"viewerId": viewer, "at": now}
        self._until_done(lambda: self.api.post(f"/v1/videos/{video_id}/views", body, user=user))
        last = self.expected.last.get((video_id, user, viewer))
        if last is None or now >= last + WINDOW_SECONDS:
            self.expected.last[video_id, user, viewer] = now
            self.expected.keyed[video_id] += 1

    def _rate(self, video_id: str, user: str) -> None:
        path, value = f"/v1/videos/{video_id}/rating", self.chance.randint(0, 10)
        if value:
            self._until_done(lambda: self.api.put(path, {"value": value}, user=user))
            self.expected.ratings[video_id, user] = value
        else:
            self._until_done(lambda: self.api.delete(path, user=user))
            self.expected.ratings.pop((video_id, user), None)

    def _tag(self, video_id: str, _: str) -> None:
        tags = self.chance.sample("abcd", 2)
        self._until_done(lambda: self.api.patch(f"/v1/videos/{video_id}", {"tags": tags}, user="admin"))

    def _until_done(self, send: Callable[[], Reply]) -> None:
        while True:
            reply, _ = self._broken(send)
            if reply and reply.status < 300:
                return
            assert reply is None or reply.status in (409, 503), reply.body

    def _broken(self, send: Callable[[], Any]) -> tuple[Any, Incident | None]:
        """Call a function with a random incident. Return its result and the incident that occurred.

        The result is `None` if the process was killed. The incident is `None` if none occurred.
        """
        incident = self.chance.choice([*REFUSED, *DONE, None, None])
        at = self.chance.randrange(4)
        if incident:
            self.line.arm(incident, at)
        try:
            response = send()
        except Killed:
            response = None
        except Unavailable:  # a worker raised it, so all its messages are delivered again
            response = None
        finally:
            self.line.disarm()
        occurred = incident if incident and len(self.line.calls) > at else None
        self.line.calls[at + 1 :] = []
        if occurred:
            self.incidents[occurred.__name__] += 1
        return response, occurred

    # Background work -------------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Deliver stream records and messages until none is left."""
        while records := self._records():
            self._deliver_records(records)

    def _deliver_records(self, records: list[dict[str, Any]]) -> None:
        """Deliver records in batches, in random order, and some of them twice."""
        self.chance.shuffle(records)
        records += self.chance.sample(records, len(records) // 3)
        while records:
            size = self.chance.randint(1, 12)
            batch, records = records[:size], records[size:]
            if self.chance.random() < 0.5:
                batch.reverse()
            assert streams.deliver(batch, self._route, retries=100) == []
        resources = FakeResources(self.table, self.clock, queues=self.queues)
        counting = resources.make(tallies.lambda_handler)
        settling = resources.make(aggregates.lambda_handler)
        self._work(self.queues["tallies"], counting)
        while self.queues["aggregates"].sent:
            self._work(self.queues["aggregates"], settling)

    def _route(self, event: dict[str, Any]) -> dict[str, Any]:
        """Route records with a new instance, because a killed instance loses its memory."""
        resources = FakeResources(self.table, self.clock, queues=self.queues)
        return resources.make(stream_router.lambda_handler)(event, Context())

    def _work(self, queue: FakeQueue, worker: LambdaHandler) -> None:
        """Deliver messages in batches until all are processed. Some messages are delivered twice."""
        waiting = streams.sqs_event(*queue.take())["Records"]
        waiting += self.chance.sample(waiting, len(waiting) // 4)
        while waiting:
            size = self.chance.randint(1, 10)
            batch, waiting = waiting[:size], waiting[size:]
            report, _ = self._broken(partial(worker, {"Records": batch}, Context()))
            failed = {failure["itemIdentifier"] for failure in report["batchItemFailures"]} if report else None
            waiting = [record for record in batch if failed is None or record["messageId"] in failed] + waiting

    # Final state -----------------------------------------------------------------------------------------------------

    def assert_exact(self) -> None:
        """Assert that all counts equal the users' actions, and that reconciliation finds no discrepancy."""
        counted = ViewCounters(self.table).read(self.videos)
        for video_id in self.videos:
            sums = counted[video_id].sums
            expected = {name: getattr(self.expected, name)[video_id] for name in ("views", "keyed", "watched")}
            assert {name: sums[name] for name in expected} == expected
            view_count = self.api.get(f"/v1/videos/{video_id}", user="bob").json["viewCount"]
            assert view_count == expected["views"] + expected["keyed"]
            assert dict(self._hours(video_id, counted[video_id].shards)) == {
                hour: count for (viewed, hour), count in self.expected.by_hour.items() if viewed == video_id
            }
            totals: Counter[str] = Counter()
            for (rated, _), value in self.expected.ratings.items():
                totals.update(rating_contribution(RatingChoice(value)) if rated == video_id else {})
            stored_totals = self.table.get(RATING_TOTALS.key(videoId=video_id), consistent=True) or {}
            assert {name: stored_totals.get(name, 0) for name in rating_contribution(None)} == {
                name: totals[name] for name in rating_contribution(None)
            }
        findings: list[Discrepancy] = []
        Reconcile(self.table, clock=self.clock, sleep=lambda _: None).run(False, findings.append)
        assert findings == []

    def _hours(self, video_id: str, live: Mapping[int, Mapping[str, int]]) -> Iterator[tuple[str, int]]:
        """Yield each hour that has views without viewer and key, and their number.

        The number is the difference between the counters at the start of an hour and at the start of the next.
        """
        pk = VIEW_HOUR.key(videoId=video_id, hour="")["pk"]
        hours = sorted((item for item in items_of(self.table) if item["pk"] == pk and "HOUR#" in item["sk"]), key=str)
        shard_views = {str(shard): sums["views"] for shard, sums in live.items()}
        after = sum(shard_views.values())
        for item in sorted(hours, key=lambda item: start_of(item["sk"].partition("#")[2]), reverse=True):
            shard_views |= {shard: int(sums["views"]) for shard, sums in item["starts"].items()}
            before = sum(shard_views.values())
            if after > before:
                yield item["sk"].partition("#")[2], after - before
            after = before
        assert after == 0


@pytest.mark.parametrize("seed", range(3))
def test_views_ratings_and_totals_are_exact_after_a_day_of_failures(
    api: Api, table: Table, clock: Clock, seed: int
) -> None:
    chaos = Chaos(api, BackgroundWork(table, clock), seed)
    for _ in range(4):
        for _ in range(15):
            chaos.act()
        chaos.follow()
    chaos.assert_exact()
    # The seed must cause faults of several kinds.
    assert len(chaos.incidents) >= 5


def test_totals_stay_exact_when_counters_are_merged(api: Api, table: Table, clock: Clock) -> None:
    chaos = Chaos(api, BackgroundWork(table, clock), seed=7)
    for _ in range(40):
        chaos.act()
    chaos.split_counters()
    chaos.follow()
    for _ in range(3):
        for video_id in chaos.videos:
            ViewCounters(table).merge_shards(video_id, int(clock()))
        clock.advance(max(MERGE_SECONDS, LOOK_SECONDS))
    assert any("folded" in item for item in items_of(table))
    chaos.assert_exact()
    for _ in range(20):
        chaos.act()
    chaos.follow()
    clock.advance(DAY_SECONDS)
    chaos.assert_exact()
