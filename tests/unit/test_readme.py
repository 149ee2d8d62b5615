"""What the README says is so."""

import re
import tomllib
from pathlib import Path

import pytest

from local import readme, tour
from shared import schema
from shared.access_patterns import ACCESS_PATTERNS

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_generated_tables_are_up_to_date() -> None:
    text = readme.README.read_text(encoding="utf-8")
    assert readme.updated(text) == text, "run: python -m local.readme"


def test_a_missing_section_is_no_up_to_date_section() -> None:
    with pytest.raises(ValueError, match="no marks"):
        readme.updated("# A README without them")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        if not link.startswith("http"):
            assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_it_points_at_are_there(page: Path) -> None:
    for path in re.findall(
        r"`((?:shared|infra|functions|local|tools|bench|schemas|events|tests)/[\w./]+)`",
        page.read_text(encoding="utf-8"),
    ):
        assert (ROOT / path).exists(), path


def test_every_direct_dependency_has_its_reason() -> None:
    text = readme.README.read_text(encoding="utf-8")
    table = text.partition("## Dependencies")[2].partition("\n\n")[2].partition("\n\n")[0]
    pinned = [
        line.partition("==")[0].partition("[")[0]
        for name in ("requirements.txt", "functions/requirements.txt")
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
        if "==" in line
    ]
    assert pinned
    assert [name for name in pinned if name not in table] == []


def test_make_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in PAGES:
        named = re.findall(r"(?:`|^|\()make (?:-s )?([a-z0-9-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(named) <= targets


def test_masking_hides_what_varies_and_nothing_else() -> None:
    line = (
        '{"videoId":"3f2504e0-4f89-41d3-9a0c-0305e82c3301","createdAt":1795258751,"viewCount":2} "3.0123456789abcdef"'
    )
    assert tour.masked(line) == '{"videoId":"<uuid>","createdAt":<time>,"viewCount":2} "3.<hash>"'
    entry = '{"sequence":"000000000001234567890","at":1717645200000,"changes":[{"to":1717645200},{"to":3}]}'
    assert tour.masked(entry) == '{"sequence":<time>,"at":<time>,"changes":[{"to":<time>},{"to":3}]}'
    places = (
        '"http://127.0.0.1:4566/media/thumbnails/v/9f86d081884c7d659a2feaa0c55ad015/a.jpg","s3://b/renditions/v/720p"'
    )
    assert tour.masked(places) == '"http://<bucket>/thumbnails/v/<hash>/a.jpg","s3://<bucket>/renditions/v/720p"'


def test_every_entity_index_and_pattern_is_in_the_readme() -> None:
    text = readme.README.read_text(encoding="utf-8")
    for each in (*schema.ENTITIES, *schema.INDEXES):
        assert each.name in text
    for pattern in ACCESS_PATTERNS:
        assert f"`{pattern.request}`" in text


def test_the_changelog_begins_with_the_present_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert versions[0] == project["version"]
    assert versions == sorted(versions, key=lambda version: [int(part) for part in version.split(".")], reverse=True)


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")), ids=lambda page: page.stem)
def test_a_decision_says_why_what_else_there_was_and_what_it_costs(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Why", "Instead of", "What it costs"]
    title = text.partition("\n")[0].partition(". ")[2]
    assert f"[{title}]({page.name})" in (page.parent / "README.md").read_text(encoding="utf-8")
