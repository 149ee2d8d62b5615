"""Command line: `python -m bench.performance --help`."""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console

from bench.performance.lab import prepare
from bench.performance.measure import measure
from bench.performance.report import PerformanceReport
from local import ROOT
from local.readme import filled

PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "performance.svg"


def main(arguments: Sequence[str] | None = None) -> int:
    """Install the peers, measure, print the tables, and return the exit status."""
    options = _parser().parse_args(arguments)
    console = Console(width=max(Console().width, 120), highlight=False)
    console.print("Installing the peers and a Python for them below .local/bench ...")
    lab = prepare()
    rounds, starts = (5, 1) if options.quick else (60, 9)
    measured = measure(lab, rounds, starts, lambda step: console.print(f"{step} ..."))
    report = PerformanceReport(measured)
    for grid in report.grids().values():
        console.print(grid)
    console.print(
        f"Measured on {measured.python}: median and quartiles of the CPU time of {rounds} rounds of calls and {starts} "
        "of starts. docs/performance.md describes the measurement."
    )
    if options.docs:
        sections = {"python": f"Measured on {measured.python}.\n"}
        sections |= {name: grid.markdown() for name, grid in report.grids().items()}
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), sections), encoding="utf-8")
        PICTURE.write_text(report.picture(), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.performance",
        description="Measure the processor time of calls and cold starts, and compare it with alternatives.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="run fewer rounds, which takes half of the time and varies more"
    )
    parser.add_argument("--docs", action="store_true", help="write the tables and the picture of docs/performance.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
