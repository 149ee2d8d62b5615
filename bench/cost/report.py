"""Report of `make cost`: tables for the terminal, Markdown for docs/costs.md, and a JSON object."""

from collections.abc import Iterable, Mapping
from typing import Any

from bench.cost.background import BackgroundCost
from bench.cost.bill import (
    MILLION,
    SERVICES,
    Dollars,
    Prices,
    Workload,
    after,
    background_name,
    break_even_use,
    call,
    capacity_modes,
    gb_seconds,
    idle,
    month,
    of_video,
    search_floors,
    units_cost,
)
from bench.cost.naive import DesignComparison, comparisons
from bench.cost.run import CatalogueSize, MeasuredRequest
from bench.tables import Grid
from local.access_patterns import ACCESS_PATTERNS
from local.testbed.units import CapacityUnits, size

MONTHLY = (
    "DynamoDB",
    "Lambda",
    "API Gateway",
    "Logs",
    "Transfer",
    "SQS",
    "S3",
    "CloudWatch",
    "Cognito",
    "Athena",
    "Secrets, keys",
)


class CostReport:
    """All figures that are computed from one set of measurements, a price list and a workload."""

    def __init__(
        self,
        measured: Mapping[str, MeasuredRequest],
        catalogue: CatalogueSize,
        followed: Mapping[str, BackgroundCost],
        prices: Prices,
        workload: Workload,
    ) -> None:
        self.measured = measured
        self.catalogue = catalogue
        self.followed = followed
        self.prices = prices
        self.workload = workload
        self.bill = month(measured, followed, catalogue, prices, workload)
        self.comparisons = comparisons(measured, catalogue, workload)
        self.modes = capacity_modes(measured, followed, prices, workload)

    def grids(self) -> dict[str, Grid]:
        """Return the tables of the report, by name."""
        return {
            "calls": self._calls(),
            "least": self._least(),
            "behind": self._background(),
            "month": self._month(),
            "idle": self._idle(),
            "search": self._search(),
            "modes": self._modes(),
            "naive": self._naive(),
            "totals": self._totals(),
        }

    def _calls(self) -> Grid:
        rows = []
        for used in self.measured.values():
            cost = call(used, self.prices, self.workload)
            rows.append(
                [
                    f"`{used.request}`",
                    f"{used.units.reads:g}",
                    f"{used.units.writes}",
                    f"{gb_seconds(used, self.workload):.4f}",
                    f"{used.bytes_out / 1000:.1f}",
                    *(_dollars(cost[service] * MILLION) for service in SERVICES),
                    _dollars(sum(cost.values()) * MILLION),
                ]
            )
        columns = ["Request", "RRU", "WRU", "GB-s", "KB out", *SERVICES, "USD per million"]
        return Grid("One call, and US dollars for a million", columns, rows)

    def _least(self) -> Grid:
        rows = []
        for pattern in ACCESS_PATTERNS:
            used = self.measured[pattern.request]
            pairs = [
                (len(used.operations), used.fewest),
                (used.units.reads, used.least.reads),
                (used.units.writes, used.least.writes),
            ]
            cells = [f"{spent:g}" if spent == least else f"{spent:g} ({least:g})" for spent, least in pairs]
            rows.append([f"`{used.request}`", pattern.reason, *cells])
        columns = ["Request", "Reason for more than the minimum", "Requests", "RRU", "WRU"]
        return Grid("Compared with the minimum", columns, rows, words=2)

    def _background(self) -> Grid:
        rows = []
        for request, change in self.followed.items():
            cost = after(change, self.prices, self.workload)
            rows.append(
                [
                    f"`{request}`",
                    f"{change.work.reads:g}",
                    f"{change.work.writes}",
                    f"{change.trail.writes}",
                    f"{change.feed.writes}",
                    f"{change.audited}",
                    f"{change.messages}",
                    f"{change.log_lines + change.metric_lines}",
                    f"{change.trail_stored.table + change.trail_stored.indexes:,.0f}",
                    _dollars(sum(cost.values()) * MILLION),
                ]
            )
        columns = ["After", "RRU", "WRU", "WRU of the trail", "WRU of the feed", "Records", "Messages"]
        columns += ["Log lines", "Bytes of the trail"]
        return Grid("What follows a change", [*columns, "USD per million"], rows)

    def _month(self) -> Grid:
        calls = dict(self.workload.calls) | {
            background_name(request): times for request, times in self.workload.calls.items()
        }
        rows = [
            [
                f"`{name}`" if name in self.workload.calls else name,
                f"{calls[name]:,}" if name in calls else "",
                *(_dollars(cost.get(service, 0)) for service in MONTHLY),
                _dollars(sum(cost.values())),
            ]
            for name, cost in self.bill.items()
        ]
        sums = total(self.bill.values())
        rows.append(
            ["**All**", "", *(_dollars(sums.get(service, 0)) for service in MONTHLY), _dollars(sum(sums.values()))]
        )
        return Grid("A month, in US dollars", ["Purpose", "Times", *MONTHLY, "USD"], rows)

    def _idle(self) -> Grid:
        costs = {env: idle(self.measured, self.prices, each) for env, each in self.workload.environments().items()}
        services = [service for service in MONTHLY if any(cost.get(service) for cost in costs.values())]
        rows = [
            [f"`{env}`", *(_dollars(cost.get(service, 0)) for service in services), _dollars(sum(cost.values()))]
            for env, cost in costs.items()
        ]
        return Grid("An idle month, in US dollars", ["Environment", *services, "USD"], rows)

    def _search(self) -> Grid:
        floors = search_floors(self.prices, self.workload)
        rows = [[choice, f"{dollars:,.2f}"] for choice, dollars in floors.items()]
        return Grid("Search, in US dollars a month without requests", ["Choice", "USD a month"], rows)

    def _modes(self) -> Grid:
        rows = [
            [
                mode.curve,
                _dollars(mode.on_demand),
                _dollars(mode.provisioned),
                f"{mode.use:.0%}".replace("%", " %"),
                f"`{mode.recommended}`",
            ]
            for mode in self.modes
        ]
        columns = ["Load of a day", "USD `onDemand`", "USD `provisioned`", "Use", "Recommended `capacityMode`"]
        return Grid("Capacity modes, for the requests of the month", columns, rows)

    def break_even(self) -> str:
        """Return a sentence with the break-even use of provisioned read and write units, in percent. Above this use,
        provisioned units cost less than on-demand units."""
        uses = " and ".join(f"{100 * use:.1f} % of the {kind}s" for kind, use in break_even_use(self.prices).items())
        return f"Provisioned units cost less than on-demand units if more than {uses} are used."

    def _naive(self) -> Grid:
        rows = [
            [
                comparison.decision,
                comparison.request,
                _units(comparison.ours),
                _units(comparison.naive),
                _factor(comparison.factor(self.prices)),
                _dollars(comparison.times * units_cost(comparison.ours, self.prices)),
                _dollars(comparison.times * units_cost(comparison.naive, self.prices)),
            ]
            for comparison in self.comparisons
        ]
        columns = ["Decision", "Request", "Here", "Naive", "Factor", "USD a month here", "USD a month naive"]
        return Grid("The naive design, by the same rules", columns, rows, words=4)

    def _totals(self) -> Grid:
        ours = sum(total(self.bill.values()).values())
        extra = {comparison.decision: self._extra(comparison) for comparison in self.comparisons}
        scans = next(comparison.decision for comparison in self.comparisons if "scan" in comparison.decision)
        indexed = ours + sum(dollars for decision, dollars in extra.items() if decision != scans)
        scanning = ours + sum(dollars for decision, dollars in extra.items() if "cursor" not in decision)
        named = {"As it is": ours, "Naive, with indexes and offsets": indexed, "Naive, lists by Scan": scanning}
        rows = [[name, _dollars(dollars), _factor(dollars / ours)] for name, dollars in named.items()]
        return Grid("The month in all", ["Design", "USD a month", "Factor"], rows)

    def _extra(self, comparison: DesignComparison) -> float:
        return comparison.times * (units_cost(comparison.naive, self.prices) - units_cost(comparison.ours, self.prices))

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the measured items in bytes, by name."""
        stored = of_video(self.catalogue, self.followed)
        return {
            "video": size(self.catalogue.video),
            "stored for each video": round(stored.table),
            "stored for each video in the indexes": round(stored.indexes),
            "audit entry of a description": size(self.catalogue.trail),
        }

    def machine(self) -> dict[str, Any]:
        """Return all figures as a JSON object. They are not rounded."""
        return {
            "prices": {"date": self.prices.date, "region": self.prices.region, "unchecked": self.prices.unchecked},
            "bytes": self.sizes(),
            "calls": {
                request: {
                    "rru": used.units.reads,
                    "tableWru": used.units.table_writes,
                    "indexWru": used.units.index_writes,
                    "gbSeconds": gb_seconds(used, self.workload),
                    "bytesOut": used.bytes_out,
                    "usd": call(used, self.prices, self.workload),
                }
                for request, used in self.measured.items()
            },
            "behind": {
                request: {
                    "rru": change.work.reads,
                    "wru": change.work.writes,
                    "trailWru": change.trail.writes,
                    "feedWru": change.feed.writes,
                    "messages": change.messages,
                    "usd": after(change, self.prices, self.workload),
                }
                for request, change in self.followed.items()
            },
            "month": self.bill,
            "idle": {env: idle(self.measured, self.prices, each) for env, each in self.workload.environments().items()},
            "search": search_floors(self.prices, self.workload),
            "capacityModes": {
                "breakEvenUse": break_even_use(self.prices),
                "curves": {
                    mode.curve: {
                        "onDemandUsd": mode.on_demand,
                        "provisionedUsd": mode.provisioned,
                        "use": mode.use,
                        "recommended": mode.recommended,
                    }
                    for mode in self.modes
                },
            },
            "naive": [
                {
                    "decision": comparison.decision,
                    "rru": [comparison.ours.reads, comparison.naive.reads],
                    "wru": [comparison.ours.writes, comparison.naive.writes],
                    "factor": comparison.factor(self.prices),
                    "times": comparison.times,
                }
                for comparison in self.comparisons
            ],
        }


def total(bills: Iterable[Mapping[str, float]]) -> Dollars:
    """Return the sum of the bills, by service."""
    sums: Dollars = {}
    for bill in bills:
        for service, dollars in bill.items():
            sums[service] = sums.get(service, 0) + dollars
    return sums


def _dollars(amount: float) -> str:
    return f"{amount:,.2f}" if amount else ""


def _units(units: CapacityUnits) -> str:
    parts = [f"{units.reads:,g} RRU"] if units.reads else []
    return ", ".join([*parts, *([f"{units.writes:,} WRU"] if units.writes else [])])


def _factor(factor: float) -> str:
    return f"x{factor:,.0f}" if factor >= 100 else f"x{factor:.1f}"
