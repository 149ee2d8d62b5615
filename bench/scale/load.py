"""Requests and events per second at the target load, by access pattern, in the proportions of the reference
workload."""

from collections import defaultdict
from collections.abc import Mapping

from bench.cost.background import BackgroundCost
from bench.cost.bill import HOURS_A_DAY, Workload
from bench.cost.run import ARRIVAL, CREATE, PUBLISH, RATE, VIEW
from bench.scale.target import Target
from local.access_patterns import ACCESS_PATTERNS
from local.readme import calls_a_month, pattern_of
from shared.webhooks.delivery import MAX_DELIVERED

SECONDS_A_DAY = 86_400
READING_POSTS = ("/views", "/rating", "/batch-get")
"""Ends of the paths of POST and PUT requests that do not change the catalogue."""
LARGE_REVERT = "POST /v1/changesets/{changesetId}/revert (large)"


def is_http(request: str) -> bool:
    """Return whether a request of an access pattern is an HTTP request."""
    return request.partition(" ")[2].startswith("/")


def is_change(request: str) -> bool:
    """Return whether a request changes the catalogue. Views, ratings and batch reads do not change it."""
    method, _, rest = request.partition(" ")
    path = rest.partition(" (")[0].partition("?")[0]
    return request == ARRIVAL or (is_http(request) and method != "GET" and not path.endswith(READING_POSTS))


class TargetLoad:
    """Requests and events per second at the load that `target` states, in the proportions of the workload."""

    def __init__(self, background: Mapping[str, BackgroundCost], workload: Workload, target: Target) -> None:
        calls = calls_a_month()
        self._workload, self._background = workload, background
        figures = target.figures
        curve = workload.curves[target.curve]
        self.changes = figures["changes_a_day"] / SECONDS_A_DAY * max(curve) * HOURS_A_DAY / sum(curve)
        """Changes per second at the peak of the day."""
        requests = [pattern.request for pattern in ACCESS_PATTERNS]
        weights: dict[str, float] = {}
        for group in (
            [request for request in requests if is_change(request)],
            [request for request in requests if is_http(request) and not is_change(request)],
        ):
            unlisted = [request for request in group if not calls[request]]
            share = figures["unlisted"] * sum(calls[request] for request in group) / len(unlisted)
            weights |= {request: calls[request] or share for request in group}
        audited = sum(workload.calls.get(request, 0) * cost.audited for request, cost in background.items())
        self._per_change = self.changes / audited
        changing = {request: weight * self._per_change for request, weight in weights.items() if is_change(request)}
        others = {request: weight for request, weight in weights.items() if not is_change(request)}
        left = figures["requests"] - sum(rate for request, rate in changing.items() if is_http(request))
        self._per_other = left / sum(others.values())
        self._rates = changing | {request: weight * self._per_other for request, weight in others.items()}

    def behind(self, pattern: str) -> Mapping[str, float]:
        """Return the mean number of events that a request of an access pattern causes, by consumer."""
        requests = [request for request in self._background if pattern_of(request) == pattern]
        times = {request: self._workload.calls.get(request, 0) for request in requests}
        events: dict[str, float] = defaultdict(float)
        for request in requests:
            share = times[request] / sum(times.values()) if any(times.values()) else 1 / len(requests)
            cost = self._background[request]
            caused = {**cost.messages_by_queue, "audit": cost.audited, "stream_router": cost.routed}
            for consumer, number in caused.items():
                events[consumer] += share * number
        # Transcoders are not part of the service.
        return {consumer: number for consumer, number in events.items() if number and consumer != "transcode"}

    def of_pattern(self, request: str) -> float:
        """Return the calls per second of an access pattern that is an HTTP request."""
        return self._rates[request]

    def of_workload(self, request: str) -> float:
        """Return the calls per second of `request`, which is a request in the workload. It may be a special case of an
        access pattern."""
        factor = self._per_change if is_change(request) else self._per_other
        return self._workload.calls.get(request, 0) * factor

    def followed(self, count: Mapping[str, float]) -> float:
        """Return the events per second that the requests in `count` cause at the target load. `count` maps each
        request to the number of events of one call."""
        return sum(self.of_workload(request) * number for request, number in count.items())

    @property
    def messages(self) -> Mapping[str, float]:
        """Messages per second by queue, without deliveries."""
        rates: dict[str, float] = defaultdict(float)
        for request, cost in self._background.items():
            for queue, number in cost.messages_by_queue.items():
                rates[queue] += self.of_workload(request) * number
        return rates

    def rates(self, *, batches: float, deliveries: float, reverts: float) -> dict[str, float]:
        """Return the calls per second of every access pattern.

        `batches` is the number of invocations of the audit function per second. `deliveries` is the number of changes
        that the workers deliver per second. `reverts` is the number of videos that the workers revert per second.
        """
        messages = self.messages
        hours, ratings = self.of_workload(VIEW), self.of_workload(RATE)
        return self._rates | {
            "the stream: aggregates": messages["aggregates"],
            "the stream: aggregates (entries)": self.of_workload(PUBLISH) + self.of_workload(CREATE),
            "the stream: tallies": messages["tallies"] - hours - ratings,
            "the stream: tallies (ratings)": ratings,
            "the stream: tallies (hours)": hours,
            "the stream: the audit trail": self.changes,
            "the queue: reverts": reverts,
            "the queue: reverts (a folder)": 0.0,
            "the queue: deliveries (changes)": batches,
            "the queue: deliveries": deliveries / MAX_DELIVERED,  # busy workers deliver full pages
            "every minute: the search index": 1 / 60,
            "every minute: the search index (a video)": self.changes,
            "every minute: the search index (rebuild)": 0.0,
            "every minute: the sweeper": 1 / 60,
            "every five minutes: the rankings": 1 / 300,
            "every hour: the lists by views (a video)": hours,
        }
