"""Tables and picture of docs/scale.md. `python -m bench.scale --docs` writes both, and a test checks that they are current."""

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from bench.scale.model import ScaleModel, ScaleRow
from bench.scale.target import PublishedLimits
from bench.tables import Grid
from local import ROOT
from local.readme import filled
from local.testbed.limits import READS, WRITES

PAGE = ROOT / "docs" / "scale.md"
PICTURE = ROOT / "docs" / "scale.svg"

PARTITIONS = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html"
"""URL of AWS's page about the limits of a partition."""
PARTITION_LIMITS = {"partition_reads": READS, "partition_writes": WRITES}

WIDTH, LEFT, RIGHT, TOP, BAR = 790, 250, 70, 70, 22
"""Dimensions of the picture in pixels: width, margins, and height of a row."""
LEAST, MOST = 0.001, 1000.0
"""Range of the picture's logarithmic scale: load as a fraction of the limit."""
STYLE = (
    "text{fill:#1f2328}.of{fill:#59636e}.line{stroke:#d1d9e0}.limit{stroke:#1f2328}.below{fill:#0969da}.above{fill:#cf222e}"
    "@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.of{fill:#9198a1}.line{stroke:#3d444d}.limit{stroke:#f0f6fc}"
    ".below{fill:#4493f8}.above{fill:#f85149}}"
)
"""Colours for light and for dark pages. The picture has no background."""


def grids(model: ScaleModel) -> dict[str, Grid]:
    """Return the tables of the page, by name."""
    columns = ["First limit", "Lifted by", "Load at the target", "Reached at", "Use"]
    return {
        name: Grid(title, [title, *columns], [_row(row) for row in by_use(rows)], words=3)
        for name, title, rows in (
            ("service", "All together", model.service()),
            ("consumers", "Consumer", model.consumers()),
        )
    } | {"patterns": _patterns(model.patterns())}


def by_use(rows: Sequence[ScaleRow]) -> list[ScaleRow]:
    """Return the rows sorted by load as a fraction of the limit, highest first."""
    return sorted(rows, key=lambda row: (-row.use, row.name))


def _row(row: ScaleRow) -> list[str]:
    name = row.name if " " in row.name else f"`{row.name}`"
    first = row.first
    return [name, first.limit, first.lifted_by, f"{number(row.load)} {row.unit}", number(first.rate), use(row.use)]


def _patterns(rows: Sequence[ScaleRow]) -> Grid:
    lines = []
    for row in rows:
        rate, kind, spread = row.one_key or (0.0, "", None)
        one_key = f"{kind} of `{spread.template}` in `{spread.place}`" if spread else ""
        cells = [f"`{row.name}`", row.first.limit, row.first.lifted_by, one_key, number(row.load)]
        lines.append([*cells, number(row.first.rate), number(rate) if spread else ""])
    columns = ["Request", "First limit of all calls", "Lifted by", "First partition of one key"]
    columns += ["Calls a second at the target", "All calls reach it at", "One key reaches it at"]
    return Grid("Access patterns", columns, lines, words=4)


def number(value: float) -> str:
    """Format a rate or a load. Values below 10 have two significant digits; other values are integers."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def use(value: float) -> str:
    """Format a load as a fraction of a limit. A load that reaches the limit is bold."""
    if value >= 1:
        return f"**x{number(value)}**"
    return f"{number(100 * value)} %"


def updated(text: str, model: ScaleModel) -> str:
    """Return the page `text` with updated tables.

    Raises ValueError if the comments that delimit a generated section are missing.
    """
    tables = {name: grid.markdown() for name, grid in grids(model).items()}
    return filled(text, tables | {"limits": _published(PublishedLimits.load()).markdown()})


def _published(limits: PublishedLimits) -> Grid:
    rows = []
    for name, value in limits.values.items():
        read = f"{limits.date}, not confirmed" if name in limits.unchecked else limits.date
        rows.append([f"[`{name}`]({limits.urls[name]})", read, number(value)])
    rows += [[f"[`{name}`]({PARTITIONS})", limits.date, number(value)] for name, value in PARTITION_LIMITS.items()]
    return Grid("Published limits", ["Limit", "Read on", "Value"], rows, words=2)


def picture(model: ScaleModel) -> str:
    """Return an SVG chart of the load as a fraction of the limit, for the service and for each consumer."""
    rows = by_use([*model.service(), *model.consumers()])
    height = TOP + BAR * len(rows) + 20
    title = "Load at the target as a fraction of the first limit"

    def x(fraction: float) -> float:
        inside = min(max(fraction, LEAST), MOST)
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(inside / LEAST) / math.log(MOST / LEAST)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        f'<text x="10" y="24" font-size="15">{title}</text>',
    ]
    for power in range(round(math.log10(LEAST)), round(math.log10(MOST)) + 1):
        at, is_limit = x(10**power), power == 0
        label = "the limit" if is_limit else f"{10**power * 100:g} %" if power < 0 else f"x{10**power:,}"
        parts.append(f'<path d="M{at:.0f} {TOP - 8}V{height - 20}" class="{"limit" if is_limit else "line"}"/>')
        parts.append(f'<text x="{at:.0f}" y="{TOP - 14}" text-anchor="middle" class="of">{label}</text>')
    for index, row in enumerate(rows):
        y, end = TOP + BAR * index, x(row.use)
        colour = "above" if row.use >= 1 else "below"
        name = escape(row.name.replace("`", ""))
        parts.append(f'<text x="{LEFT - 10}" y="{y + 13}" text-anchor="end">{name}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y + 2}" width="{max(2, end - LEFT):.0f}" height="14" class="{colour}"/>')
        parts.append(f'<text x="{end + 6:.0f}" y="{y + 13}" class="of">{use(row.use).strip("*")}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
