"""`make docs`: renders the documents as a static site with search. `make run` serves it at `/guide/`.

Zensical renders the pages, and fails on dead links between them. The site works offline: it has no web fonts, and serves
its own copies of libraries. `build` moves scripts out of the pages into files, because the Content Security Policy
forbids inline scripts.
"""

import asyncio
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from local import ROOT, STATE, LocalError, exit_status

SITES = STATE / "guide"
"""Folder with one subfolder per build. The name of a subfolder is a digest of the build's sources."""
INDEX = Path("docs", "README.md")
"""Path of the page whose sections and links define the navigation."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
}
CONFIG = """
[project]
site_name = "Video metadata"
docs_dir = "pages"
use_directory_urls = false
nav = [{nav}]
extra.generator = false

[project.theme]
font = false
features = ["content.code.copy", "navigation.footer", "navigation.top", "search.highlight"]
palette = [
    {{ media = "(prefers-color-scheme: light)", scheme = "default", toggle = {{ icon = "lucide/sun", name = "Dark mode" }} }},
    {{ media = "(prefers-color-scheme: dark)", scheme = "slate", toggle = {{ icon = "lucide/moon", name = "Light mode" }} }},
]

[project.markdown_extensions]
tables = {{}}
toc = {{ permalink = true, slugify = {{ object = "pymdownx.slugs.slugify", kwds = {{ case = "lower" }} }} }}
pymdownx.highlight = {{}}
pymdownx.superfences = {{}}
"""
"""Configuration of Zensical, in TOML. Headings get the same anchors as on GitHub."""

_LINK = re.compile(r"\[([^\]]*)\]\(([^)#:]+)(#[^)]*)?\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)

Response = tuple[int, bytes, dict[str, str]]
"""Status, body and headers of an HTTP response."""


class Guide:
    """Server of the site of a checkout. A request for a page first rebuilds the site if a source has changed."""

    def __init__(self, root: Path = ROOT, sites: Path = SITES) -> None:
        self._root = root
        self._sites = sites
        self._building = asyncio.Lock()
        self._site = Path()
        self._names = frozenset[str]()

    async def respond(self, path: str) -> Response:
        """Return the response to a GET of a path below `/guide`."""
        if path == "/guide":
            return 307, b"", {"location": "/guide/"}
        name = path.removeprefix("/guide/")
        name = f"{name}index.html" if name == "" or name.endswith("/") else name
        headers = {"cache-control": "no-cache", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
        if name.endswith(".html") or not self._names:
            async with self._building:
                try:
                    await asyncio.to_thread(self._refresh)
                except LocalError as error:
                    return 503, str(error).encode(), headers | {"content-type": "text/plain; charset=utf-8"}
        if name not in self._names:  # an unknown name is never joined to a path
            return 404, b"The guide has no such page.", headers | {"content-type": "text/plain; charset=utf-8"}
        headers |= {"content-type": TYPES[Path(name).suffix], "content-security-policy": POLICY}
        return 200, (self._site / name).read_bytes(), headers

    def _refresh(self) -> None:
        site = build(self._root, self._sites)
        if site != self._site:
            files = [file for file in site.rglob("*") if file.suffix in TYPES]
            self._site, self._names = site, frozenset(file.relative_to(site).as_posix() for file in files)


def build(root: Path = ROOT, sites: Path = SITES) -> Path:
    """Build the site if the sources have changed, and return its folder.

    Raises LocalError if the build fails, for example because of a dead link.
    """
    site = sites / _state(root)
    if site.is_dir():
        return site
    sites.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="new-", dir=sites) as name:
        folder = Path(name)
        _write_sources(root, folder)
        zensical = Path(sys.executable).with_name("zensical")
        command = [str(zensical), "build", "--strict", "--config-file", "zensical.toml"]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            output = re.sub(r"\x1b\[[\d;]*m", "", ran.stdout + ran.stderr).partition("Traceback")[0]
            raise LocalError(f"The documents could not be built:\n{output}")
        (folder / "site" / "404.html").unlink()  # its links assume a site without a path prefix
        _move_scripts_to_files(folder / "site")
        for old in sites.glob("[0-9a-f]*"):
            shutil.rmtree(old, ignore_errors=True)
        if not site.is_dir():
            (folder / "site").rename(site)
    return site


def sources(root: Path) -> list[Path]:
    """Return the pages of a checkout, and the other files below docs/, such as images."""
    return sorted([*root.glob("*.md"), *(file for file in (root / "docs").rglob("*") if file.is_file())])


def _state(root: Path) -> str:
    """Return a digest of all inputs of a build: paths, sizes and modification times."""
    inputs = [*sources(root), root / "requirements.txt", Path(__file__)]
    described = [(str(file), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in inputs]
    return hashlib.sha256(repr(described).encode()).hexdigest()[:16]


def _write_sources(root: Path, folder: Path) -> None:
    """Write the configuration, and copies of all sources at the same paths below `pages`."""
    published = sources(root)
    for file in published:
        copy = folder / "pages" / file.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            copy.write_text(_adapted(file, root, {*published}), encoding="utf-8")
        else:
            shutil.copy(file, copy)
    (folder / "zensical.toml").write_text(CONFIG.format(nav=", ".join(navigation(root))), encoding="utf-8")


def _adapted(page: Path, root: Path, published: set[Path]) -> str:
    """Return the text of a page for Zensical. Indents lists by four spaces, and replaces links to files outside the
    site by their text."""

    def link(match: re.Match[str]) -> str:
        text, path, _ = match.groups()
        target = (page.parent / path).resolve()
        if target in published or not target.exists():  # Zensical reports the dead link
            return match[0]
        shown = target.relative_to(root).as_posix()
        return text if shown in text else f"{text} (`{shown}`)"

    parts = _FENCE.split(page.read_text(encoding="utf-8"))
    parts[::2] = [re.sub("^  ", "    ", _LINK.sub(link, part), flags=re.MULTILINE) for part in parts[::2]]
    return "".join(parts)


def navigation(root: Path) -> Iterator[str]:
    """Yield the navigation's entries in TOML: the front page, the index, and a group for each section of the index."""
    yield '{ "Video metadata" = "README.md" }'
    yield '{ "All documents" = "docs/README.md" }'
    for section in re.split(r"^## ", (root / INDEX).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        groups: dict[str, list[str]] = {"": [], "Runbooks": [], "Decisions": []}
        for _, path, anchor in _LINK.findall(section):
            page = (root / INDEX.parent / path).resolve()
            if page.suffix != ".md" or anchor:
                continue
            if page.parent.name == "decisions":
                groups["Decisions"] += [file.relative_to(root).as_posix() for file in sorted(page.parent.glob("*.md"))]
            else:
                group = "Runbooks" if page.parent.name == "runbooks" else ""
                groups[group].append(page.relative_to(root).as_posix())
        nested = [f"{{ {json.dumps(name)} = {json.dumps(pages)} }}" for name, pages in groups.items() if name and pages]
        title = json.dumps(section.partition("\n")[0])
        yield f"{{ {title} = [{', '.join([*map(json.dumps, groups['']), *nested])}] }}"


def _move_scripts_to_files(site: Path) -> None:
    for page in site.rglob("*.html"):
        up = "../" * (len(page.relative_to(site).parts) - 1)

        def moved(match: re.Match[str], up: str = up) -> str:
            name = f"assets/inline-{hashlib.sha256(match[1].encode()).hexdigest()[:16]}.js"
            (site / name).write_text(match[1], encoding="utf-8")
            return f'<script src="{up}{name}"></script>'

        page.write_text(_INLINE_SCRIPT.sub(moved, page.read_text(encoding="utf-8")), encoding="utf-8")


def _main() -> None:
    print(f"The documents are in {build().relative_to(ROOT)}; `make run` serves them at /guide/.")


if __name__ == "__main__":
    sys.exit(exit_status(_main))
