"""Tables of docs/costs.md. `python -m bench.cost --docs` writes the tables, and a test checks that they are current."""

from bench.cost.report import CostReport
from local import ROOT
from local.readme import filled

PAGE = ROOT / "docs" / "costs.md"


def updated(text: str, report: CostReport) -> str:
    """Return the page `text` with updated tables.

    Raises ValueError if the comments that delimit a generated section are missing.
    """
    sizes = "".join(f"- {name}: {bytes_:,} bytes\n" for name, bytes_ in report.sizes().items())
    tables = {name: grid.markdown() for name, grid in report.grids().items()}
    tables["modes"] += f"\n{report.break_even()}\n"
    return filled(text, {"sizes": sizes} | tables)
