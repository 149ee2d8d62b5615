"""README, CONTRIBUTING, the index of the docs and generated files: links, paths and names exist, and tables are
current."""

import re
import tomllib
from pathlib import Path

import pytest

from local import readme, tour
from local.access_patterns import ACCESS_PATTERNS
from local.tour import BLOCK, commands_of
from shared import schema

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_the_tour_in_the_readme_has_at_most_ten_commands() -> None:
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    assert 0 < sum(len(commands_of(block)) for block in blocks) <= 10
    assert BLOCK.findall(README), "the end-to-end tests run what follows <!-- tour -->"


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#]+)[)#]", index.read_text(encoding="utf-8"))}
    decisions = set((DOCS / "decisions").glob("[0-9]*.md"))  # the decisions have their own index
    assert {page for page in PAGES if page != index} - decisions <= linked


def test_the_index_lists_runbooks_by_title() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    for page in (DOCS / "runbooks").glob("*.md"):
        title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        assert f"[{title}](runbooks/{page.name})" in index


def test_the_generated_files_are_up_to_date() -> None:
    files = readme.generated()
    assert {file: file.read_text(encoding="utf-8") for file in files} == files, "run: python -m local.readme"


def test_a_page_that_lacks_a_section_is_refused() -> None:
    with pytest.raises(ValueError, match="no marks"):
        readme.filled("# A page without them", {"job kinds": ""})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_point_to_existing_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)[)#]", text):
        if not link.startswith("http"):
            assert (page.parent / link).exists(), link


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, derived as GitHub does."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_with_anchors_point_to_existing_headings(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert anchor in _anchors(page.parent / target if target else page), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_in_pages_exist(page: Path) -> None:
    for path in re.findall(
        r"`((?:shared|infra|functions|local|tools|bench|schemas|events|tests)/[\w./]+)`",
        page.read_text(encoding="utf-8"),
    ):
        assert (ROOT / path).exists(), path


def test_every_direct_dependency_has_its_reason() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## Dependencies")[2].partition("\n\n")[2].partition("\n\n")[0]
    pinned = [
        line.partition("==")[0].partition("[")[0]
        for name in ("requirements.txt", "functions/requirements.txt", "functions/search/requirements-opensearch.txt")
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
        if "==" in line
    ]
    assert pinned
    assert [name for name in pinned if name not in table] == []


def test_make_targets_named_in_pages_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in PAGES:
        named = re.findall(r"(?:`|^|\()make (?:-s )?([a-z0-9-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(named) <= targets


def test_masking_replaces_only_values_that_vary() -> None:
    line = (
        '{"videoId":"3f2504e0-4f89-41d3-9a0c-0305e82c3301","createdAt":1795258751,"viewCount":2} "3.0123456789abcdef"'
    )
    assert tour.masked(line) == '{"videoId":"<uuid>","createdAt":<time>,"viewCount":2} "3.<hash>"'
    entry = '{"sequence":"000000000001234567890","at":1717645200000,"changes":[{"to":1717645200},{"to":3}]}'
    assert tour.masked(entry) == '{"sequence":<time>,"at":<time>,"changes":[{"to":<time>},{"to":3}]}'
    change = '{"id": "OdJ1ZKyxEpQNWYIvafT2", "at": 1795405541000, "by": {"id": "alice"}, "shard": 0, "position": 56}'
    assert tour.masked(change) == (
        '{"id": <change>, "at":<time>, "by": {"id": "alice"}, "shard": 0, "position": <number>}'
    )
    assert tour.masked("2026-11-23 03:45:41Z  version 2\n12 events received; it is deleted.") == (
        "<time>  version 2\n<number> events received; it is deleted."
    )
    assert tour.masked('{"total":1,"asOf":1795409003120,"items":[{"score":12.0071,"ranges":[[0,5]]}]}') == (
        '{"total":1,"asOf":<time>,"items":[{"score":<score>,"ranges":[[0,5]]}]}'
    )
    varying = (
        '"http://127.0.0.1:4566/media/thumbnails/v/9f86d081884c7d659a2feaa0c55ad015/a.jpg","s3://b/renditions/v/720p"'
    )
    assert tour.masked(varying) == '"http://<bucket>/thumbnails/v/<hash>/a.jpg","s3://<bucket>/renditions/v/720p"'


def test_every_entity_index_and_pattern_is_in_the_data_model() -> None:
    text = readme.DATA_MODEL.read_text(encoding="utf-8")
    for described in (*schema.ENTITIES, *schema.INDEXES):
        assert described.name in text
    for pattern in ACCESS_PATTERNS:
        assert f"`{pattern.request}`" in text


def test_the_changelog_begins_with_the_current_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert versions[0] == project["version"]
    assert versions == sorted(versions, key=lambda version: [int(part) for part in version.split(".")], reverse=True)


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")), ids=lambda page: page.stem)
def test_a_decision_has_reasons_alternatives_and_costs(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Reasons", "Alternatives", "Costs"]
    title = text.partition("\n")[0].partition(". ")[2]
    assert f"[{title}]({page.name})" in (page.parent / "README.md").read_text(encoding="utf-8")
