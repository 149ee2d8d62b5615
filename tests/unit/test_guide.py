"""Tests of the documentation site: its pages, links and search index, and the responses of `/guide/`."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from local.guide import POLICY, Guide, build, sources

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"""\s(?:href|src)=["']?([^"'\s>]+)""")
_ANCHOR = re.compile(r"""\s(?:id|name)=["']?([^"'\s>]+)""")


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder for builds of the site of this checkout."""
    return tmp_path_factory.mktemp("sites")


@pytest.fixture(scope="module")
def site(sites: Path) -> Path:
    return build(ROOT, sites)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with a README, an index page and one module."""
    for folder in ("docs", "shared"):
        (tmp_path / folder).mkdir()
    (tmp_path / "shared" / "a.py").touch()
    (tmp_path / "README.md").write_text("# Front\n\n[Index](docs/README.md)\n", encoding="utf-8")
    (tmp_path / "docs" / "README.md").write_text("# Index\n\n[Code](../shared/a.py#L1)\n", encoding="utf-8")
    (tmp_path / "requirements.txt").touch()
    return tmp_path


def _pages(site: Path) -> Iterator[tuple[Path, str]]:
    for page in site.rglob("*.html"):
        yield page, page.read_text(encoding="utf-8")


def test_site_has_a_page_for_each_document(site: Path) -> None:
    expected = {file.relative_to(ROOT).as_posix() for file in sources(ROOT) if file.suffix == ".md"}
    names = {re.sub(r"\bREADME\.md$", "index.html", name).replace(".md", ".html") for name in expected}
    assert names == {page.relative_to(site).as_posix() for page, _ in _pages(site)}


@pytest.mark.slow
def test_links_of_the_site_lead_to_files_and_anchors(site: Path) -> None:
    anchors = {page.resolve(): {unquote(name) for name in _ANCHOR.findall(text)} for page, text in _pages(site)}
    dead = []
    for page, text in _pages(site):
        for link in {*_LINK.findall(text)}:
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page.resolve()
            target = target / "index.html" if target.is_dir() else target
            is_alive = target.is_file() and (not anchor or unquote(anchor) in anchors[target])
            if not is_alive and not re.match(r"[a-z]+:", link):
                dead.append(f"{page.relative_to(site)}: {link}")
    assert dead == []


def test_pages_of_the_site_load_only_files_of_the_site(site: Path) -> None:
    loaded = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*?\s(?:src|href)=[\"']?(?:[a-z]+:)?//[^\s>]*")
    inline = re.compile(r"<script>|\son[a-z]+=")
    assert [(page.name, loaded.findall(text)) for page, text in _pages(site) if loaded.search(text)] == []
    assert [
        page.name
        for page, text in _pages(site)
        if inline.search(re.sub(r"<code>.*?</code>", "", text, flags=re.DOTALL))
    ] == []


def test_search_index_of_the_site_has_the_text_of_each_page(site: Path) -> None:
    index = json.loads((site / "search.json").read_text(encoding="utf-8"))
    searchable = {item["location"].partition("#")[0] for item in index["items"] if item["text"]}
    assert {page.relative_to(site).as_posix() for page, _ in _pages(site)} <= searchable


def test_guide_serves_pages_with_a_content_security_policy(sites: Path, site: Path) -> None:
    guide = Guide(ROOT, sites)
    status, body, headers = asyncio.run(guide.respond("/guide/"))
    assert (status, body) == (200, (site / "index.html").read_bytes())
    assert headers["content-security-policy"] == POLICY
    assert headers["content-type"] == "text/html; charset=utf-8"
    status, _, headers = asyncio.run(guide.respond("/guide/docs/pictures/library.webp"))
    assert (status, headers["content-type"]) == (200, "image/webp")
    assert asyncio.run(guide.respond("/guide")) == (307, b"", {"location": "/guide/"})


@pytest.mark.parametrize(
    "name",
    ["none.html", "../../requirements.txt", "docs/../../../README.md", "//etc/passwd", "..\\README.md", "docs/\0"],
)
def test_guide_responds_404_to_a_name_that_is_not_in_the_site(sites: Path, site: Path, name: str) -> None:
    assert asyncio.run(Guide(ROOT, sites).respond(f"/guide/{name}"))[0] == 404


@pytest.mark.slow
def test_guide_is_rebuilt_when_a_page_has_changed(checkout: Path) -> None:
    guide = Guide(checkout, checkout / "sites")
    assert b"shared/a.py" in asyncio.run(guide.respond("/guide/docs/"))[1]
    (checkout / "docs" / "README.md").write_text("# Index\n\n[Dead](none.md)\n", encoding="utf-8")
    status, body, _ = asyncio.run(guide.respond("/guide/"))
    assert status == 503
    assert b"none.md" in body
    (checkout / "docs" / "README.md").write_text("# Index\n\nNo link at all.\n", encoding="utf-8")
    assert b"No link at all." in asyncio.run(guide.respond("/guide/docs/"))[1]
    assert len([*(checkout / "sites").iterdir()]) == 1
