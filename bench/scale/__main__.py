"""Command line: `python -m bench.scale --help`."""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from app import new_app, synthesize
from bench.cost.background import measure_background
from bench.cost.bill import Workload
from bench.cost.run import measure_lifelike
from bench.scale.deployed import Deployment, deployment
from bench.scale.model import ScaleModel
from bench.scale.page import PAGE, PICTURE, grids, picture, updated
from bench.scale.target import PublishedLimits, Target
from local.templates import NO_PACKAGES

ENVIRONMENT = "prod"
"""Name of the environment whose templates are read."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, compute the limits, and print them or write them to the page. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description="First limits of the service on AWS.")
    parser.add_argument("--docs", action="store_true", help="write the tables and the picture of docs/scale.md")
    options = parser.parse_args(arguments)
    measured, catalogue = measure_lifelike()
    background, workload = measure_background(), Workload.load()
    limits, target = PublishedLimits.load(), Target.load()
    model = ScaleModel(measured, catalogue, background, workload, synthesized(), limits, target)
    if options.docs:
        PAGE.write_text(updated(PAGE.read_text(encoding="utf-8"), model), encoding="utf-8")
        PICTURE.write_text(picture(model), encoding="utf-8")
        return 0
    wide = Console(width=max(Console().width, 170), highlight=False)
    for grid in grids(model).values():
        wide.print(grid)
    wide.print(f"Published limits of {limits.date}; not confirmed on that day: {', '.join(limits.unchecked)}.")
    return 0


def synthesized() -> Deployment:
    """Synthesize ENVIRONMENT, and return its settings."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        synthesize(new_app({"env": ENVIRONMENT, **NO_PACKAGES}, folder))
        return deployment(json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*.template.json"))


if __name__ == "__main__":
    sys.exit(main())
