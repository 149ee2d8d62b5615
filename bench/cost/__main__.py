"""Command line: `python -m bench.cost --help`."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.cost.background import measure_background
from bench.cost.bill import WORKLOAD, InvalidWorkload, Prices, Workload
from bench.cost.page import PAGE, updated
from bench.cost.report import CostReport
from bench.cost.run import measure_lifelike


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, compute the costs, and print them or write them to a file. Returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        prices, workload = Prices.load(), Workload.load(options.workload, dict(options.set))
    except InvalidWorkload as error:
        print(error, file=sys.stderr)
        return 1
    report = CostReport(*measure_lifelike(), measure_background(), prices, workload)
    if options.docs:
        PAGE.write_text(updated(PAGE.read_text(encoding="utf-8"), report), encoding="utf-8")
    elif options.json:
        print(json.dumps(report.machine(), indent=2))
    else:
        _show(report)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.cost", description="Calculate the cost of the service on AWS."
    )
    parser.add_argument(
        "--workload",
        type=Path,
        default=WORKLOAD,
        metavar="FILE",
        help=f"workload of a month, as TOML (default: {WORKLOAD.name})",
    )
    parser.add_argument(
        "--set",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="replace a figure of the workload; may be repeated",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print all figures as JSON")
    output.add_argument("--docs", action="store_true", help="write the tables of docs/costs.md")
    return parser


def _setting(text: str) -> tuple[str, float]:
    # Split at the last equals sign, because names of requests contain others.
    name, separator, value = text.rpartition("=")
    try:
        number = float(value.replace("_", ""))
    except ValueError:
        separator = ""
    if not separator or number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=VALUE with a number of at least 0")
    return name, number


def _show(report: CostReport) -> None:
    wide = Console(width=max(Console().width, 170), highlight=False)
    sizes = ", ".join(f"{name} {bytes_:,} bytes" for name, bytes_ in report.sizes().items())
    wide.print(f"Measured: {sizes}.")
    for grid in report.grids().values():
        wide.print(grid)
    wide.print(report.break_even())
    prices = report.prices
    wide.print(
        f"List prices of {prices.region} on {prices.date}, without free tiers; not confirmed on that day: "
        f"{', '.join(prices.unchecked)}. Nothing was measured on AWS; docs/costs.md describes the method."
    )


if __name__ == "__main__":
    sys.exit(main())
