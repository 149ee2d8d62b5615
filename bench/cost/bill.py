"""Conversion of measured units to US dollars, for one call and for a month."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.cost.background import BackgroundCost
from bench.cost.run import ARRIVAL, CatalogueSize, MeasuredRequest
from local.testbed.units import CapacityUnits, StoredSize
from shared.core.telemetry import METRICS as EMITTED
from shared.job_kinds import JOB_QUEUES, KINDS

HERE = Path(__file__).parent
PRICES = HERE / "prices-2026-11-21.toml"
WORKLOAD = HERE / "workload-2026-11-21.toml"
MILLION, GB = 1_000_000, 1_000_000_000
DAYS_A_MONTH = 30
SECONDS_BETWEEN_POLLS = 20
HOURS_A_DAY, SECONDS_AN_HOUR = 24, 3600

SWEEPER, RANKINGS = "every minute: the sweeper", "every five minutes: the rankings"
INDEX = "every minute: the search index"
SCHEDULED = {SWEEPER: "sweeps", RANKINGS: "rankings", INDEX: "index_runs"}
"""Names of figures in the workload, by access pattern of a scheduled function. Each figure is the number of the
function's runs per month."""
DELIVERY = "the queue: deliveries"
SIGN_IN, METRICS, QUERIES, SNAPSHOTS = "Sign-in", "Metrics while in use", "SQL over the archive", "Nightly snapshots"
SERVICES = ("DynamoDB", "Lambda", "API Gateway", "Logs", "Transfer")
OPTIONAL_METRICS = ("SnapshotAge",)
"""Metrics that only deployments with a certain setting emit."""
Dollars = dict[str, float]
"""US dollars by service."""


class InvalidWorkload(Exception):
    """Error for an invalid workload or an invalid figure of a workload. The message is a sentence for the user."""


@dataclass(frozen=True)
class Prices:
    """Price list of one region on one date."""

    date: str
    region: str
    usd: Mapping[str, float]
    unchecked: tuple[str, ...]
    """Names of the prices that AWS's price pages did not confirm on the date of the list."""

    @classmethod
    def load(cls, path: Path = PRICES) -> "Prices":
        """Read a price list from a TOML file."""
        listed = tomllib.loads(path.read_text(encoding="utf-8"))
        prices = listed["prices"]
        return cls(
            listed["date"],
            listed["region"],
            {name: price["usd"] for name, price in prices.items()},
            tuple(name for name, price in prices.items() if not price["checked"]),
        )


@dataclass(frozen=True)
class Workload:
    """Numbers of calls in a month, and further assumptions such as sizes and durations."""

    figures: Mapping[str, float]
    calls: Mapping[str, int]
    idle: Mapping[str, Mapping[str, float]]
    """Figures of an idle month in environments other than production, by environment. An entry has only the figures
    that differ from production."""
    curves: Mapping[str, Sequence[float]]
    """Relative load in each hour of a day, by name of the curve."""

    @classmethod
    def load(cls, path: Path = WORKLOAD, changed: Mapping[str, float] | None = None) -> "Workload":
        """Read the figures of a TOML file. The figures in `changed` replace the file's figures.

        Raises InvalidWorkload if the file is invalid or a changed figure does not exist.
        """
        figures: dict[str, Any] = {"metrics": _emitted_metrics()}
        try:
            figures |= tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidWorkload(f"{path} cannot be read as a workload: {error}.") from error
        calls, idle, curves = figures.pop("calls"), figures.pop("idle", {}), figures.pop("curves", {})
        for name, curve in curves.items():
            if len(curve) != HOURS_A_DAY or min(curve) < 0 or not any(curve):
                raise InvalidWorkload(
                    f"The curve {name!r} must have {HOURS_A_DAY} numbers of at least 0, one of them above 0."
                )
        for name, value in (changed or {}).items():
            group = next((names for names in (figures, calls) if name in names), None)
            if group is None:
                raise InvalidWorkload(
                    f"The workload has no figure {name!r}. Use a request, or one of {', '.join(figures)}."
                )
            group[name] = value
        return cls(figures, calls, idle, curves)

    def environments(self) -> dict[str, "Workload"]:
        """Return the workload of each environment, production last."""
        other_environments = {env: replace(self, figures={**self.figures, **given}) for env, given in self.idle.items()}
        return {**other_environments, "prod": self}


def call(used: MeasuredRequest, prices: Prices, workload: Workload) -> Dollars:
    """Return the cost of one call, by service."""
    usd = prices.usd
    is_http = used.request.partition(" ")[2].startswith("/")
    return {
        "DynamoDB": units_cost(used.units, prices),
        "Lambda": invocation(used, prices, workload),
        "API Gateway": usd["api_request"] / MILLION if is_http else 0.0,
        "Logs": logs(1, used.log_lines, used.metric_lines, prices, workload),
        "Transfer": used.bytes_out / GB * usd["transfer_out"],
    }


def units_cost(units: CapacityUnits, prices: Prices) -> float:
    """Return the cost of DynamoDB units."""
    return (units.reads * prices.usd["dynamodb_read"] + units.writes * prices.usd["dynamodb_write"]) / MILLION


def gb_seconds(used: MeasuredRequest, workload: Workload) -> float:
    """Return the GB-seconds of one Lambda invocation, including waits for DynamoDB and for receivers of webhooks."""
    figures = workload.figures
    waits = used.trips * figures["dynamodb_ms"] + figures["receiver_ms"] * (used.request == DELIVERY)
    memory_gb = figures["index_gb" if used.request == INDEX else "memory_gb"]
    return memory_gb * (figures["own_ms"] + waits) / 1000


def invocation(used: MeasuredRequest, prices: Prices, workload: Workload) -> float:
    """Return the cost of one Lambda invocation: the request and its GB-seconds."""
    seconds = gb_seconds(used, workload) * prices.usd["lambda_gb_second"]
    return seconds + prices.usd["lambda_request"] / MILLION


def logs(invocations: float, lines: int, metric_lines: int, prices: Prices, workload: Workload) -> float:
    """Return the cost of the logs of this number of invocations, with `lines` log lines and `metric_lines` metric lines
    in total."""
    figures = workload.figures
    bytes_ = invocations * figures["log_bytes"] + lines * figures["line_bytes"] + metric_lines * figures["metric_bytes"]
    return bytes_ / GB * prices.usd["log_ingestion"]


def after(followed: BackgroundCost, prices: Prices, workload: Workload) -> Dollars:
    """Return the cost of the background work of one request, by service.

    The work consists of writing audit entries, running jobs, sending messages and updating totals.
    """
    usd, figures = prices.usd, workload.figures
    together = figures["changes_together"]
    invocations = (followed.routed + followed.audited + followed.delivery_messages) / together + followed.worked
    trips = followed.trips + followed.delivery_trips / together
    seconds = (invocations * figures["own_ms"] + trips * figures["dynamodb_ms"]) / 1000
    return {
        "DynamoDB": units_cost(followed.work + followed.trail + followed.feed, prices)
        + units_cost(followed.delivery_checks, prices) / together,
        "Lambda": seconds * figures["memory_gb"] * usd["lambda_gb_second"]
        + invocations * usd["lambda_request"] / MILLION,
        "Logs": logs(invocations, followed.log_lines, followed.metric_lines, prices, workload),
        # Each message is sent, received and deleted.
        "SQS": queue_requests(
            3 * (followed.messages - followed.fifo_messages + followed.delivery_messages / together),
            3 * followed.fifo_messages,
            prices,
        ),
        "S3": followed.audited / together * usd["s3_put"] / MILLION,
    }


def queue_requests(standard: float, fifo: float, prices: Prices) -> float:
    """Return the cost of requests to standard queues and to FIFO queues."""
    return (standard * prices.usd["sqs_request"] + fifo * prices.usd["sqs_fifo_request"]) / MILLION


def month(
    measured: Mapping[str, MeasuredRequest],
    followed: Mapping[str, BackgroundCost],
    catalogue: CatalogueSize,
    prices: Prices,
    workload: Workload,
) -> dict[str, Dollars]:
    """Return the costs of a month, by purpose and by service."""
    bill: dict[str, Dollars] = {}
    for request, times in workload.calls.items():
        bill[request] = scaled(call(measured[request], prices, workload), times)
    for request in [request for request in workload.calls if request in followed]:
        bill[background_name(request)] = scaled(after(followed[request], prices, workload), workload.calls[request])
    stored = of_video(catalogue, followed).times(workload.figures["videos"])
    bill["Storage of videos, with point-in-time recovery"] = storage(stored, prices)
    bill["Storage of the audit trail, with point-in-time recovery"] = storage(_trail(followed, workload), prices)
    bill["Storage of the feed, with point-in-time recovery"] = storage(_feed(followed, workload), prices)
    bill[SIGN_IN] = sign_in(prices, workload)
    bill[METRICS] = {"CloudWatch": metrics_of_work(workload) * prices.usd["metric"]}
    queries = workload.figures["sql_queries"] if any(workload.calls.values()) else 0
    bill[QUERIES] = {"Athena": queries * workload.figures["sql_query_gb"] / 1000 * prices.usd["athena"]}
    if workload.figures["snapshots"]:
        bill[SNAPSHOTS] = snapshots(stored, prices, workload)
    bill["Idle"] = idle(measured, prices, workload)
    return bill


def snapshots(stored: StoredSize, prices: Prices, workload: Workload) -> Dollars:
    """Return the monthly cost of snapshots of all videos: exports of the table, and their conversion.

    Point-in-time recovery is not included. `storage` includes it, because every deployment has it.
    """
    usd, figures = prices.usd, workload.figures
    seconds = figures["videos"] / MILLION * figures["snapshot_seconds"]
    return {
        "DynamoDB": figures["snapshots"] * stored.table / GB * usd["dynamodb_export"],
        "Lambda": figures["snapshots"] * seconds * figures["compactor_gb"] * usd["lambda_gb_second"],
        "CloudWatch": usd["metric"] + usd["alarm"],
    }


def sign_in(prices: Prices, workload: Workload) -> Dollars:
    """Return the monthly cost of Cognito: users who sign in, and tokens for programs. The function `idle`
    returns the cost of app clients."""
    usd, figures = prices.usd, workload.figures
    charged = max(0, figures["users"] - figures["free_users"])
    return {"Cognito": charged * usd["cognito_user"] + figures["tokens"] / 1000 * usd["cognito_token"]}


def _emitted_metrics() -> int:
    """Return the number of custom metrics of an environment. Each value of a dimension counts, because CloudWatch bills
    it as a metric."""
    values = {"": 1, "kind": len(KINDS), "queue": len(JOB_QUEUES)}
    return sum(values[dimension] for name, (_, dimension) in EMITTED.items() if name not in OPTIONAL_METRICS)


def metrics_of_work(workload: Workload) -> float:
    """Return the number of custom metrics that exist only in a month with calls, and not in an idle month."""
    figures = workload.figures
    return figures["metrics"] - figures["idle_metrics"] if any(workload.calls.values()) else 0


def background_name(request: str) -> str:
    """Return the name under which a month's bill lists the background work of a request."""
    return f"work after {request}"


def of_video(catalogue: CatalogueSize, followed: Mapping[str, BackgroundCost]) -> StoredSize:
    """Return the storage of one video that has a source file, including all related items."""
    return catalogue.stored + followed[ARRIVAL].stored


def storage(stored: StoredSize, prices: Prices) -> Dollars:
    """Return the monthly cost of storage.

    AWS charges point-in-time recovery only for the table, because indexes can be rebuilt from the table.
    """
    usd = prices.usd
    return {
        "DynamoDB": (stored.table * (usd["dynamodb_storage"] + usd["dynamodb_pitr"]) / GB)
        + stored.indexes * usd["dynamodb_storage"] / GB
    }


def _trail(followed: Mapping[str, BackgroundCost], workload: Workload) -> StoredSize:
    """Return the storage of the audit trail in a steady state, in which as many entries expire as are added."""
    monthly = (change.trail_stored.times(workload.calls.get(request, 0)) for request, change in followed.items())
    return sum(monthly, StoredSize()).times(workload.figures["audit_days"] / DAYS_A_MONTH)


def _feed(followed: Mapping[str, BackgroundCost], workload: Workload) -> StoredSize:
    """Return the storage of the change feed, which retains the changes of one month."""
    return sum(
        (change.feed_stored.times(workload.calls.get(request, 0)) for request, change in followed.items()), StoredSize()
    )


def idle(measured: Mapping[str, MeasuredRequest], prices: Prices, workload: Workload) -> Dollars:
    """Return the cost of a month without calls."""
    usd, figures = prices.usd, workload.figures
    sweeps, ranked, indexed = (
        scaled(call(measured[name], prices, workload), figures[runs]) for name, runs in SCHEDULED.items()
    )
    seconds = figures["compaction_seconds"] * figures["compactor_gb"] * usd["lambda_gb_second"]
    compacted = {
        "Lambda": figures["compactions"] * (seconds + usd["lambda_request"] / MILLION),
        "S3": figures["compactions"] * figures["compaction_puts"] * usd["s3_put"] / MILLION,
    }
    polls = figures["pollers"] * DAYS_A_MONTH * 86_400 / SECONDS_BETWEEN_POLLS
    standard_queues = figures["polled_queues"] - figures["polled_fifo_queues"]
    watching = (
        figures["idle_metrics"] * usd["metric"]
        + figures["alarm_metrics"] * usd["alarm"]
        + figures["dashboards"] * usd["dashboard"]
    )
    return {
        **{
            service: dollars + ranked[service] + indexed[service] + compacted.get(service, 0)
            for service, dollars in sweeps.items()
            if dollars
        },
        "S3": compacted["S3"],
        "SQS": queue_requests(standard_queues * polls, figures["polled_fifo_queues"] * polls, prices),
        "CloudWatch": watching,
        "Cognito": figures["machine_clients"] * usd["cognito_client"],
        "Secrets, keys": figures["secrets"] * usd["secret"] + figures["kms_keys"] * usd["kms_key"],
    }


def search_floors(prices: Prices, workload: Workload) -> Dollars:
    """Return the monthly cost of search in a deployment that receives no requests, by search option.

    With OpenSearch, the function `indexer` runs all the time, and its cost is included.
    """
    usd, figures = prices.usd, workload.figures
    hours = DAYS_A_MONTH * HOURS_A_DAY
    nodes = hours * usd["opensearch_node_hour"] + figures["opensearch_disk_gb"] * usd["opensearch_storage"]
    domain = figures["opensearch_nodes"] * nodes + figures["domain_alarms"] * usd["alarm"]
    units = hours * figures["opensearch_ocus"] * usd["opensearch_ocu_hour"]
    collection = units + figures["collection_alarms"] * usd["alarm"]
    indexer = figures["indexer_gb"] * hours * SECONDS_AN_HOUR * usd["lambda_gb_second"]
    instance = figures["search_gb"] * hours * SECONDS_AN_HOUR * usd["lambda_provisioned_gb_second"]
    return {
        "`searchEngine` `embedded`": 0.0,
        "each of its `searchInstances`": instance,
        "`openSearch` `domain`": domain + indexer,
        "`openSearch` `collection`": collection + indexer,
    }


@dataclass(frozen=True)
class ModeComparison:
    """Monthly cost of DynamoDB requests in both capacity modes, for one load curve."""

    curve: str
    on_demand: float
    """US dollars, without storage."""
    provisioned: float
    """US dollars, without storage, with the alarms of auto scaling."""
    use: float
    """Fraction of the provisioned capacity that requests use, weighted by price, from 0 to 1."""

    @property
    def recommended(self) -> str:
        """Value of `capacityMode` for this load."""
        return "provisioned" if self.provisioned < self.on_demand else "onDemand"


def break_even_use(prices: Prices) -> Mapping[str, float]:
    """Return, for `read` and for `write` units, the fraction of provisioned units at which both capacity modes cost the
    same. If requests use a smaller fraction, on-demand units are cheaper."""
    usd = prices.usd
    return {
        kind: usd[f"dynamodb_{kind}_hour"] / (SECONDS_AN_HOUR * usd[f"dynamodb_{kind}"] / MILLION)
        for kind in ("read", "write")
    }


def capacity_modes(
    measured: Mapping[str, MeasuredRequest],
    followed: Mapping[str, BackgroundCost],
    prices: Prices,
    workload: Workload,
) -> tuple[ModeComparison, ...]:
    """Compare the capacity modes for each curve of the workload.

    Auto scaling reacts within minutes and scales in late. So the capacity of an hour must also suffice for the hours
    before and after it. If the load rises faster than auto scaling reacts, `capacitySteps` can raise the minimum
    capacity at a fixed time.
    """
    usd, figures = prices.usd, workload.figures
    units = month_units(measured, followed, workload)
    least = figures["minimum_units"] * figures["scalable_targets"] / len(units)
    alarms = figures["scalable_targets"] * figures["scaling_alarms"] * usd["alarm"]
    on_demand = sum(number * usd[f"dynamodb_{kind}"] / MILLION for kind, number in units.items())
    modes = []
    for name, curve in workload.curves.items():
        used = provisioned = 0.0
        for kind, number in units.items():
            per_second = number / (DAYS_A_MONTH * SECONDS_AN_HOUR * sum(curve))
            peaks = [max(curve[hour - 1], curve[hour], curve[(hour + 1) % HOURS_A_DAY]) for hour in range(HOURS_A_DAY)]
            capacity = [max(least, math.ceil(peak * per_second / figures["target_use"])) for peak in peaks]
            price = DAYS_A_MONTH * usd[f"dynamodb_{kind}_hour"]
            used += sum(curve) * per_second * price
            provisioned += sum(capacity) * price
        modes.append(ModeComparison(name, on_demand, provisioned + alarms, used / provisioned))
    return tuple(modes)


def month_units(
    measured: Mapping[str, MeasuredRequest], followed: Mapping[str, BackgroundCost], workload: Workload
) -> dict[str, float]:
    """Return the `read` and `write` units of a month on both tables and their indexes."""
    figures = workload.figures
    runs = {name: figures[times] for name, times in SCHEDULED.items()}
    units = {"read": 0.0, "write": 0.0}

    def add(used: CapacityUnits, times: float) -> None:
        units["read"] += used.reads * times
        units["write"] += used.writes * times

    for request, times in (*workload.calls.items(), *runs.items()):
        add(measured[request].units, times)
        if request in followed:
            change = followed[request]
            add(change.work + change.trail + change.feed, times)
            add(change.delivery_checks, times / figures["changes_together"])
    return units


def scaled(cost: Mapping[str, float], times: float) -> Dollars:
    """Return the costs multiplied by `times`."""
    return {service: dollars * times for service, dollars in cost.items()}
