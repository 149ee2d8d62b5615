"""Report of a run: tables for the terminal and docs/performance.md, and a chart. Ratios are shown with their quartiles."""

from collections.abc import Iterable, Sequence
from html import escape
from statistics import quantiles

from bench.performance.measure import APPS, Measurement, Measurements, State
from bench.performance.workload import BASE, COMMON, OURS, OVER_TLS, OWN, PEERS
from bench.tables import Grid

BASE_START = COMMON[0].name
"""Name of the only operation that the app BASE implements. The starts of BASE are measured with this operation."""


class PerformanceReport:
    """Tables and chart of one run."""

    def __init__(self, measured: Measurements) -> None:
        self._measured = measured
        self._counted = all(measurements.instructions is not None for measurements in measured.taken.values())

    def grids(self) -> dict[str, Grid]:
        """Return the tables of the report, by name."""
        return {"calls": self._calls(), "own": self._own(), "starts": self._starts()}

    def _calls(self) -> Grid:
        rows = []
        for operation in (*COMMON, OVER_TLS):
            ours = self._measured.of("warm", OURS, operation.name)
            theirs = [self._measured.of("warm", peer, operation.name) for peer in PEERS]
            rows += self._rows(operation.name, ours, theirs)
        return Grid("A call of ours, in calls of another", ("Call", "By", "Ours", *PEERS), rows, words=2)

    def _own(self) -> Grid:
        rows = []
        first = self._measured.of("warm", OURS, COMMON[0].name)
        for operation in OWN:
            ours = self._measured.of("warm", OURS, operation.name)
            rows += self._rows(operation.name, ours, [first])
        return Grid("Other calls of ours", ("Call", "By", "Ours", "in GETs of ours"), rows, words=2)

    def _starts(self) -> Grid:
        base = self._measured.of("cold", BASE, BASE_START)
        rows = []
        for operation in (*COMMON, OVER_TLS):
            starts = [self._measured.of("cold", app, operation.name) for app in APPS]
            if self._counted:
                rows.append([operation.name, "instructions", *(_counted(start, base) for start in starts)])
            rows.append([operation.name, "CPU time", *(_timed(start, base) for start in starts)])
        title = "A start, from import to the first answer, in starts of the base"
        return Grid(title, ("First call", "By", *APPS), rows, words=2)

    def _rows(self, name: str, ours: Measurement, theirs: Sequence[Measurement]) -> list[list[str]]:
        rows = []
        if self._counted:
            rows.append(
                [name, "instructions", f"{_millions(ours):.2f} M", *(_counted(ours, other) for other in theirs)]
            )
        milliseconds = quartiles(seconds * 1e3 for seconds in ours.seconds)[1]
        return [*rows, [name, "CPU time", f"{milliseconds:.2f} ms", *(_timed(ours, other) for other in theirs)]]

    def picture(self) -> str:
        """Return an SVG bar chart of calls and cold starts. The bars show instructions if they were counted, otherwise
        CPU time."""
        panels = [
            (f"Calls, by {self._unit()}: the tutorial's are 1", self._bars("warm", "tutorial")),
            (f"Starts, by {self._unit()}: that of the base is 1", self._bars("cold", BASE)),
        ]
        return _drawn(panels)

    def _unit(self) -> str:
        return "instructions" if self._counted else "CPU time"

    def _bars(self, state: State, reference: str) -> list[tuple[str, list[float]]]:
        bars = []
        for operation in COMMON:
            one = self._measured.of(state, reference, BASE_START if reference == BASE else operation.name)
            measurements = [self._measured.of(state, app, operation.name) for app in APPS]
            bars.append((operation.name, [self._amount(app) / self._amount(one) for app in measurements]))
        return bars

    def _amount(self, count: Measurement) -> float:
        return count.instructions if count.instructions is not None else quartiles(count.seconds)[1]


def _millions(count: Measurement) -> float:
    return (count.instructions or 0) / 1e6


def _counted(one: Measurement, other: Measurement) -> str:
    return f"{_millions(one) / _millions(other):.2f}"


def _timed(one: Measurement, other: Measurement) -> str:
    low, middle, high = quotients(one.seconds, other.seconds)
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def quotients(ones: Sequence[float], peers_: Sequence[float]) -> tuple[float, float, float]:
    """Return the quartiles of the ratio of an app's time to a peer's time. `ones` has the time of the app in each
    round, and `peers_` the time of the peer. Each round contributes one ratio."""
    return quartiles(one / other for one, other in zip(ones, peers_, strict=True))


def quartiles(values: Iterable[float]) -> tuple[float, float, float]:
    """Return the first quartile, the median and the third quartile. For a single value, all three are that value."""
    several = list(values)
    low, middle, high = quantiles(several if len(several) > 1 else several * 2, method="inclusive")
    return low, middle, high


COLORS = ("#0969da", "#8c959f", "#bf8700", "#8250df", "#2da44e")
WIDTH, LABELS, BAR, GAP, HEAD = 860, 110, 14, 12, 40
"""Dimensions of the chart in pixels."""


def _drawn(panels: Sequence[tuple[str, Sequence[tuple[str, Sequence[float]]]]]) -> str:
    """Return an SVG chart of panels, one below the other. A panel has groups of horizontal bars, one bar per app."""
    parts: list[str] = []
    top = 30
    for index, app in enumerate(APPS):
        start_x = LABELS + 130 * index
        parts.append(f'<rect x="{start_x}" y="8" width="12" height="12" fill="{COLORS[index]}"/>')
        parts.append(f'<text x="{start_x + 18}" y="18">{escape(app)}</text>')
    for title, groups in panels:
        longest = max(amount for _, amounts in groups for amount in amounts)
        scale = (WIDTH - LABELS - 60) / longest
        parts.append(f'<text x="{LABELS}" y="{top + 24}" font-weight="bold">{escape(title)}</text>')
        top += HEAD
        begin = top
        for name, amounts in groups:
            middle = top + BAR * len(amounts) / 2 + 4
            parts.append(f'<text x="{LABELS - 8}" y="{middle:.0f}" text-anchor="end">{escape(name)}</text>')
            for index, amount in enumerate(amounts):
                y, length = top + BAR * index, amount * scale
                parts.append(
                    f'<rect x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{COLORS[index]}"/>'
                )
                parts.append(f'<text x="{LABELS + length + 4:.1f}" y="{y + 10}" font-size="10">{amount:.2f}</text>')
            top += BAR * len(amounts) + GAP
        x = LABELS + scale
        parts.append(
            f'<line x1="{x:.1f}" y1="{begin - 4}" x2="{x:.1f}" y2="{top - 8}" stroke="#57606a" stroke-dasharray="3"/>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top + 10}" font-family="sans-serif" '
        f'font-size="12">\n<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
