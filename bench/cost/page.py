"""The tables of docs/costs.md, which `python -m bench.cost --docs` writes and a test compares."""

from bench.cost.report import Report
from local import ROOT

PAGE = ROOT / "docs" / "costs.md"


def updated(text: str, report: Report) -> str:
    """The page with its tables rewritten; raises ValueError when the marks of one are missing."""
    sizes = "".join(f"- {name}: {bytes_:,} bytes\n" for name, bytes_ in report.sizes().items())
    sections = {"sizes": sizes} | {name: grid.markdown() for name, grid in report.grids().items()}
    for name, content in sections.items():
        begin, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->\n"
        before, opened, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (opened and closed):
            raise ValueError(f"docs/costs.md has no marks for {name!r}")
        text = f"{before}{begin}{content}{end}{after}"
    return text
