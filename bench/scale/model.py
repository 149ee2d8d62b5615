"""First limit that each access pattern, each consumer and the whole service reach, and the load at which they reach it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from bench.cost.background import FIFO_QUEUES, BackgroundCost
from bench.cost.bill import GB, Workload, of_video
from bench.cost.run import ARRIVAL, RATE, UNDO, VIEW, CatalogueSize, MeasuredRequest
from bench.scale.deployed import DeployedConsumer, Deployment
from bench.scale.load import LARGE_REVERT, TargetLoad, is_http
from bench.scale.partitions import PartitionUse, Spread, SpreadUse
from bench.scale.target import PublishedLimits, Target
from functions.compactor.handler import SECONDS_TO_STOP
from local.access_patterns import ACCESS_PATTERNS
from shared.core.periods import HOUR_SECONDS, WINDOWS
from shared.history.parts import CONCURRENT_PARTS
from shared.schema import WEBHOOK
from shared.views.rankings import MAX_ENTRIES
from shared.webhooks.transport import CONCURRENT_REQUESTS

QUOTA, NOTHING = "quota of the account", "no setting, because stored keys contain the partition"
LIFTS = {"reads": "no setting; use a cache of responses", "writes": NOTHING}
"""Ways to raise the limit of a partition that many requests share, for `reads` and for `writes`."""
MERGES = 2
"""Space that the search index needs, as a multiple of the index's size: a merge of segments copies the index."""
LEAST_USE = 0.01
"""Minimum load, as a fraction of the limit, at which docs/scale.md lists a table, an index or a partition."""
NOTIFIED = "the queue: deliveries (changes)"

_Key = TypeVar("_Key")


@dataclass(frozen=True)
class Ceiling:
    """A limit, and the load at which it is reached."""

    limit: str
    """Limit, in Markdown."""
    rate: float
    """Load at which the limit is reached, in the unit of the ScaleRow."""
    lifted_by: str
    """Setting or quota that lifts the limit, in Markdown."""


@dataclass(frozen=True)
class ScaleRow:
    """Row of a table in docs/scale.md: a load, and the limit that the load reaches first if it grows.

    An access pattern, a consumer or the whole service causes this load, at the size and traffic in `Target`.
    """

    name: str
    unit: str
    """Unit of the load, such as `requests a second`."""
    load: float
    first: Ceiling
    one_key: tuple[float, str, Spread] | None = None
    """Limit that the partition of a single key, such as one video or user, reaches first. The tuple has three elements:
    the requests per second that reach the limit, the kind of the limit (`reads` or `writes`), and the partition. `None`
    if the requests have no such partition."""

    @property
    def use(self) -> float:
        """Target load as a fraction of the first limit. If it is above 1, the target load exceeds the limit."""
        return round(self.load / self.first.rate, 9)  # sums of rates are not exact


def lowest(ceilings: Iterable[Ceiling]) -> Ceiling:
    """Return the limit that is reached first."""
    return min(ceilings, key=lambda ceiling: ceiling.rate)


class ScaleModel:
    """Limits of a deployment at the target load, computed from one set of measurements."""

    def __init__(
        self,
        measured: Mapping[str, MeasuredRequest],
        catalogue: CatalogueSize,
        background: Mapping[str, BackgroundCost],
        workload: Workload,
        deployment: Deployment,
        limits: PublishedLimits,
        target: Target,
    ) -> None:
        self.measured, self.background, self.deployment = measured, background, deployment
        self.limits, self.target = limits.values, target.figures
        self._ms, self._figures = workload.figures, target.figures
        self.load = TargetLoad(background, workload, target)
        self._uses = {pattern.request: PartitionUse.of(measured[pattern.request]) for pattern in ACCESS_PATTERNS}
        # Measured with one webhook. For each batch of changes, the worker reads the states of all webhooks.
        self._uses[NOTIFIED] = self._uses[NOTIFIED].repeated(WEBHOOK.pk, self._figures["webhooks"])
        self.stored_gb = of_video(catalogue, background).table * self._figures["videos"] / GB
        """Storage of the table in GB, without its indexes."""
        self.shards = max(4, round(self.stored_gb / self.limits["partition_gb"]))
        """Number of shards of the table's stream: one for each partition of the table. A new table has four partitions.
        """
        self.batches = min(self.load.changes, self.shards / max(1, deployment.consumers["audit"].window))
        """Invocations of the audit function per second. Each invocation has the changes of one shard in one batch
        window."""
        self.deliveries = self.load.changes * self._figures["webhooks"]
        """Deliveries of changes to webhooks per second."""
        self.reverted = self.load.of_pattern(LARGE_REVERT) * self._figures["reverted_videos"]
        """Videos per second that the workers revert."""
        self._rates: Mapping[str, float] = self.load.rates(
            batches=self.batches, deliveries=self.deliveries, reverts=self.reverted
        )

        self._capacities = {row.name: row.first for row in self.consumers()}

    def patterns(self) -> list[ScaleRow]:
        """Return a row for each access pattern."""
        return [self._pattern(pattern.request) for pattern in ACCESS_PATTERNS]

    def consumers(self) -> list[ScaleRow]:
        """Return a row for each function that a stream, a queue or a schedule invokes.

        Raises KeyError if the model does not contain a function of the deployment.
        """
        models = self._consumers()
        return [models[folder](consumer) for folder, consumer in sorted(self.deployment.consumers.items())]

    def service(self) -> list[ScaleRow]:
        """Return a row for each limit that all requests and events together can reach."""
        api = sum(rate for request, rate in self._rates.items() if is_http(request))
        concurrency = sum(rate * self._seconds(self.measured[request]) for request, rate in self._rates.items())
        throttle = Ceiling("`throttleRate`", self.deployment.throttle, "`throttleRate` in `cdk.json`")
        calls = self.limits["concurrency"] * self.limits["calls_per_execution"]
        growth = Ceiling("new instances of a function", self.limits["concurrency_growth"], "`coldStart: provisioned:N`")
        rows = [
            ScaleRow("Gateway of the service", "requests a second", api, throttle),
            ScaleRow(
                "API Gateway", "requests a second", api, self._published("requests of an account", "api_requests")
            ),
            ScaleRow("Requests to Lambda", "requests a second", api, Ceiling("calls of an account", calls, QUOTA)),
            ScaleRow(
                "Concurrency in Lambda",
                "executions at a time",
                concurrency,
                self._published("executions of an account", "concurrency"),
            ),
            ScaleRow("Start of all instances", "instances in ten seconds", concurrency, growth),
        ]
        for place, use in sorted(self._together(lambda each: each.places).items()):
            rows += [
                ScaleRow(f"{kind} of `{place}`", "units a second", units, self._units(kind.lower(), place, units))
                for kind, units in (("Reads", use.reads), ("Writes", use.writes))
                if units >= LEAST_USE * self.limits[f"new_table_{kind.lower()}"]
            ]
        shared = self._together(lambda each: each.spreads)
        for spread, use in sorted(shared.items(), key=lambda each: each[0].template):
            rows += [
                ScaleRow(
                    f"{kind.capitalize()} of the partition `{spread.template}`",
                    "units a second",
                    units,
                    Ceiling(f"{kind} of a partition", limit, LIFTS[kind]),
                )
                for kind, units, limit in use.of_partition(spread)
                if spread.is_shared and units >= LEAST_USE * limit
            ]
        return rows

    def _units(self, kind: str, place: str, units: float) -> Ceiling:
        """Return the initial limit of a new table or index. If the load `units` exceeds the quota of a table, return
        that quota instead."""
        new = self.limits[f"new_table_{kind}"]
        if units <= self.limits["table_units"]:
            return Ceiling(f"{kind} of a new table or index", new, "`warmThroughput`, or growth over 30 minutes")
        return Ceiling(f"{kind} of a table or index", self.limits["table_units"], QUOTA)

    def _together(self, part: Callable[[PartitionUse], Mapping[_Key, SpreadUse]]) -> dict[_Key, SpreadUse]:
        """Return the units per second of all access patterns together. The result has the keys that `part` returns:
        names of tables and indexes, or sets of partitions."""
        sums: dict[_Key, SpreadUse] = {}
        for request, used in self._uses.items():
            for key, use in part(used).items():
                total = sums.setdefault(key, SpreadUse())
                total.reads += use.reads * self._rates[request]
                total.writes += use.writes * self._rates[request]
        return sums

    def _seconds(self, request: MeasuredRequest) -> float:
        return (self._ms["own_ms"] + request.trips * self._ms["dynamodb_ms"]) / 1000

    def _published(self, limit: str, name: str) -> Ceiling:
        return Ceiling(limit, self.limits[name], QUOTA)

    def _pattern(self, request: str) -> ScaleRow:
        use, measured = self._uses[request], self.measured[request]
        ceilings = [Ceiling("executions of an account", self.limits["concurrency"] / self._seconds(measured), QUOTA)]
        if is_http(request):
            ceilings.append(self._published("requests of an account", "api_requests"))
        for place, units in use.places.items():
            for kind, number in (("reads", units.reads), ("writes", units.writes)):
                if number:
                    ceilings.append(Ceiling(f"{kind} of `{place}`", self.limits["table_units"] / number, QUOTA))
        shared = use.first(lambda spread: spread.is_shared)
        if shared:
            rate, kind, spread = shared
            ceilings.append(Ceiling(f"{kind} of the partition `{spread.template}`", rate, LIFTS[kind]))
        for folder, events in self.load.behind(request).items():
            first = self._capacities[folder]
            ceilings.append(Ceiling(f"consumer `{folder}`", first.rate / events, first.lifted_by))
        one_key = use.first(lambda spread: not spread.is_shared)
        return ScaleRow(request, "calls a second", self._rates[request], lowest(ceilings), one_key)

    def _consumers(self) -> Mapping[str, Callable[[DeployedConsumer], ScaleRow]]:
        return {
            "stream_router": self._router,
            "audit": self._audit,
            "arrivals": self._arrivals,
            "probe": lambda consumer: self._decoder(consumer, "probe_s"),
            "thumbnails": lambda consumer: self._decoder(consumer, "thumbnails_s"),
            "purge": self._purge,
            "aggregates": self._aggregates,
            "tallies": self._tallies,
            "reverts": self._reverts,
            "deliveries": self._deliveries,
            "sweeper": self._sweeper,
            "rankings": self._rankings,
            "indexer": self._indexer,
            "compactor": self._compactor,
        }

    def _router(self, consumer: DeployedConsumer) -> ScaleRow:
        routed = self.load.followed({request: cost.routed for request, cost in self.background.items()})
        trips = self.load.followed({request: cost.routed_trips for request, cost in self.background.items()})
        of_record = self._figures["record_ms"] + trips / routed * self._ms["dynamodb_ms"]
        seconds = (self._ms["own_ms"] + consumer.batch * of_record) / 1000
        lanes = self.shards * consumer.lanes
        ceilings = (
            Ceiling(
                f"{consumer.lanes} batches of each of {self.shards} shards at a time",
                lanes * consumer.batch / seconds,
                "more shards, which DynamoDB adds with writes and data",
            ),
            Ceiling("executions of an account", self.limits["concurrency"] * consumer.batch / seconds, QUOTA),
        )
        return ScaleRow("stream_router", "records a second", routed, lowest(ceilings))

    def _audit(self, consumer: DeployedConsumer) -> ScaleRow:
        appended = self._uses["the stream: the audit trail"].first(lambda spread: spread.is_shared)
        if appended is None:
            raise RuntimeError("the audit function appends to no shard log")
        ceilings = (
            Ceiling(
                f"one batch of each of {self.shards} shards at a time",
                self.shards * self._figures["audited_per_shard"],
                "more shards, which DynamoDB adds with writes and data",
            ),
            Ceiling(f"{appended[1]} of the partition `{appended[2].template}` of the feed", appended[0], NOTHING),
            Ceiling(
                "appends of single changes to the feed",
                self._figures["single_appends"],
                "larger batches, which form while changes wait",
            ),
        )
        return ScaleRow("audit", "changes a second", self.load.changes, lowest(ceilings))

    def _arrivals(self, consumer: DeployedConsumer) -> ScaleRow:
        at_a_time = min(self.limits["queue_batches"], self.limits["concurrency"])
        ceiling = Ceiling("executions of an account", at_a_time / self._seconds(self.measured[ARRIVAL]), QUOTA)
        return ScaleRow("arrivals", "files a second", self._rates[ARRIVAL], ceiling)

    def _decoder(self, consumer: DeployedConsumer, seconds: str) -> ScaleRow:
        rate = self._at_a_time(consumer) / self._figures[seconds]
        return self._worker(consumer, "jobs a second", self.load.messages[consumer.folder], rate, "`DECODERS`")

    def _purge(self, consumer: DeployedConsumer) -> ScaleRow:
        seconds = (self._ms["own_ms"] + self._figures["purge_trips"] * self._ms["dynamodb_ms"]) / 1000
        deleted = self._rates["DELETE /v1/videos/{videoId}"] + self._rates["DELETE /v1/playlists/{playlistId}"]
        rate = self._at_a_time(consumer) / seconds
        return self._worker(consumer, "deletions a second", deleted, rate, "`PURGES_AT_A_TIME`")

    def _aggregates(self, consumer: DeployedConsumer) -> ScaleRow:
        rate = self._at_a_time(consumer) * consumer.batch / self._figures["aggregates_s"]
        load = self.load.messages["aggregates"]
        return self._worker(consumer, "videos a second", load, rate, "`AGGREGATES_AT_A_TIME`")

    def _tallies(self, consumer: DeployedConsumer) -> ScaleRow:
        messages = sum(self.load.messages[queue] for queue in FIFO_QUEUES)
        hours, ratings = self.load.of_workload(VIEW), self.load.of_workload(RATE)
        rates = {
            "the stream: tallies": messages - hours - ratings,
            "the stream: tallies (hours)": hours,
            "the stream: tallies (ratings)": ratings,
        }
        mean = sum(self.measured[name].trips * rate for name, rate in rates.items()) / messages
        seconds = (self._ms["own_ms"] / consumer.batch + mean * self._ms["dynamodb_ms"]) / 1000
        ceilings = (
            Ceiling(
                f"{self._at_a_time(consumer)} invocations at a time",
                self._at_a_time(consumer) / seconds,
                "`TALLIES_AT_A_TIME` in `infra/jobs_stack.py`",
            ),
            Ceiling("requests to a FIFO queue", self.limits["fifo_requests"], QUOTA),
        )
        return ScaleRow("tallies", "messages a second", messages, lowest(ceilings))

    def _reverts(self, consumer: DeployedConsumer) -> ScaleRow:
        many, one = self.measured[UNDO], self.measured["the queue: reverts"]
        trips = (len(many.operations) - len(one.operations)) / (int(UNDO.rpartition("(")[2].split()[0]) - 1)
        seconds = trips * self._ms["dynamodb_ms"] / 1000 / CONCURRENT_PARTS
        rate = self._at_a_time(consumer) / seconds
        return self._worker(consumer, "videos a second", self.reverted, rate, "`REVERTS_AT_A_TIME`")

    def _deliveries(self, consumer: DeployedConsumer) -> ScaleRow:
        rate = self._at_a_time(consumer) * CONCURRENT_REQUESTS / (self._ms["receiver_ms"] / 1000)
        row = self._worker(consumer, "deliveries a second", self.deliveries, rate, "`deliveryWorkers`")
        return ScaleRow(
            row.name, row.unit, row.load, Ceiling(row.first.limit, rate, "`deliveryWorkers` in `cdk.json`, up to 1,000")
        )

    def _sweeper(self, consumer: DeployedConsumer) -> ScaleRow:
        # The sweeper checks each overdue job once. In the worst case, all jobs are overdue.
        jobs = sum(self.load.messages[queue] for queue in ("probe", "thumbnails", "transcode"))
        seconds = 2 * self._ms["dynamodb_ms"] / 1000
        rate = consumer.timeout / seconds / 60
        ceiling = Ceiling(f"{consumer.timeout} seconds of each minute", rate, "`SWEEPER_TIMEOUT` and `SWEEP_EVERY`")
        return ScaleRow("sweeper", "overdue jobs a second", jobs, ceiling)

    def _rankings(self, consumer: DeployedConsumer) -> ScaleRow:
        viewed = self.load.of_workload(VIEW)
        # The day's list compares the entries of its hours with the entries of the same number of earlier hours.
        hours = 2 * max(window.periods for window in WINDOWS.values() if window.period_seconds == HOUR_SECONDS)
        ceiling = Ceiling(
            f"{MAX_ENTRIES:,} entries in {hours} hours",
            MAX_ENTRIES / hours / HOUR_SECONDS,
            "`MAX_ENTRIES` in `shared/views/rankings.py`, with `RANKINGS_MB`",
        )
        return ScaleRow("rankings", "entries a second", viewed, ceiling)

    def _indexer(self, consumer: DeployedConsumer) -> ScaleRow:
        videos = consumer.storage_mb * 1e6 / MERGES / (self._figures["index_kb"] * 1000)
        ceiling = Ceiling(
            f"{consumer.storage_mb:,} MB of disk", videos, "`INDEX_STORAGE`, up to 10 GB; then a search cluster"
        )
        return ScaleRow("indexer", "videos without captions", self._figures["videos"], ceiling)

    def _compactor(self, consumer: DeployedConsumer) -> ScaleRow:
        seconds = consumer.timeout - SECONDS_TO_STOP
        ceiling = Ceiling(
            f"{seconds} seconds of each hour",
            seconds / HOUR_SECONDS / (self._figures["compacted_ms"] / 1000),
            "`COMPACT_EVERY`, or concurrent runs for different days",
        )
        return ScaleRow("compactor", "changes a second", self.load.changes, ceiling)

    def _worker(self, consumer: DeployedConsumer, unit: str, load: float, rate: float, constant: str) -> ScaleRow:
        ceiling = Ceiling(
            f"{self._at_a_time(consumer)} invocations at a time", rate, f"{constant} in `infra/jobs_stack.py`"
        )
        return ScaleRow(consumer.folder, unit, load, ceiling)

    def _at_a_time(self, consumer: DeployedConsumer) -> int:
        return consumer.max_concurrency or self.limits["queue_batches"]
