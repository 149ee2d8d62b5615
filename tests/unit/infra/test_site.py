"""Deployed files of the console: its modules and libraries, in a folder whose name is a hash of the content."""

import gzip
import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import site as site_module
from infra.console import site_code
from infra.settings import Misconfigured
from infra.site import LIBRARIES, LibraryMissing, bundle_site, site
from tests.unit.infra.templates import ROOT

FIRST_SCREEN_BYTES = 150_000
Write = Callable[[str, str], None]

PAGE = """<!doctype html>
<html lang="en">
  <head>
    <link rel="stylesheet" href="./style.css">
    <link rel="stylesheet" href="./core/more.css">
    <script type="module" src="./start.js"></script>
  </head>
</html>
"""


@pytest.fixture(scope="module")
def shipped() -> dict[str, bytes]:
    """Return the deployed files by path relative to their folder. The page is not in the folder, and is listed by its
    file name."""
    return _by_name(site())


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that writes a file of a small console. The console already has a page and a stylesheet."""
    monkeypatch.setattr(site_module, "CONSOLE", tmp_path)

    def write(name: str, content: str) -> None:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")

    write("index.html", PAGE)
    write("style.css", "")
    write("core/more.css", "")
    write("start.js", 'import("./app.js");')
    write("app.js", "")
    return write


def _by_name(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name.partition("/")[2] or name: content for name, content in files.items()}


def _folder() -> str:
    (folder,) = {name.partition("/")[0] for name in site() if "/" in name}
    return folder


def _preloaded(page: bytes) -> list[str]:
    return re.findall(r'<link rel="modulepreload" href="[0-9a-f]{16}/([^"]+)">', page.decode())


class TestImports:
    @pytest.mark.parametrize(
        ("file", "written", "shipped_as"),
        [
            ("app.js", 'import { h } from "preact";', 'import { h } from "./vendor/preact.js";'),
            ("a/b/c.js", "import { h } from 'preact';", "import { h } from '../../vendor/preact.js';"),
            ("a/b.js", 'export * from "preact/hooks";', 'export * from "../vendor/preact-hooks.js";'),
            ("app.js", 'import "media-chrome";', 'import "./vendor/media-chrome.js";'),
            ("app.js", 'await import("oauth4webapi")', 'await import("./vendor/oauth4webapi.js")'),
            ("app.js", 'import{h}from"preact";', 'import{h}from"./vendor/preact.js";'),
            ("app.js", 'import {\n  h,\n} from "preact";', 'import {\n  h,\n} from "./vendor/preact.js";'),
        ],
    )
    def test_bare_library_imports_become_paths(self, write: Write, file: str, written: str, shipped_as: str) -> None:
        write(file, written)
        assert _by_name(site())[file].decode() == shipped_as

    @pytest.mark.parametrize(
        "written",
        [
            'import { a } from "./other.js";',
            'await import("../other.js")',
            'const from = "preact";',
            'import x from "unknown";',
        ],
    )
    def test_relative_imports_and_other_text_are_unchanged(self, write: Write, written: str) -> None:
        write("app.js", "")
        write("other.js", written)
        assert _by_name(site())["other.js"].decode() == written

    def test_imports_lead_to_shipped_files(self, shipped: dict[str, bytes]) -> None:
        """This includes the imports of libraries. Comments are removed first, because they may contain any name."""
        for name in (name for name in shipped if name.endswith(".js")):
            for _, _, specifier in site_module._IMPORTED.findall(_code(shipped[name])):
                if re.fullmatch(r"[\w@./-]+", specifier):  # other matches are parts of error messages
                    assert os.path.normpath(Path(name).parent / specifier) in shipped, f"{name}: {specifier}"


def _code(module: bytes) -> str:
    """Return a module without its comments: whole-line comments and `/* */` blocks."""
    return re.sub(r"/\*.*?\*/|^\s*//.*?$", "", module.decode(), flags=re.DOTALL | re.MULTILINE)


class TestPage:
    def test_page_preloads_exactly_the_statically_imported_modules(self, write: Write) -> None:
        write(
            "app.js", 'import "./core/a.js"; import { h } from "htm/preact"; const later = () => import("./later.js");'
        )
        write("core/a.js", 'export * from "./b.js"; import "../app.js";')
        write("core/b.js", "")
        write("later.js", 'import "./much-later.js";')
        write("much-later.js", "")
        assert sorted(_preloaded(site()["index.html"])) == [
            "app.js",
            "core/a.js",
            "core/b.js",
            "start.js",
            "vendor/htm-preact.js",
            "vendor/htm.js",
            "vendor/preact.js",
        ]

    def test_page_refers_to_the_folder(self, write: Write) -> None:
        write("app.js", "")
        page, folder = site()["index.html"].decode(), _folder()
        expected = {f"{folder}/{name}" for name in ("style.css", "start.js", "app.js")}
        assert set(re.findall(r'(?:href|src)="([^"]*)"', page)) == expected

    def test_page_has_one_stylesheet_with_all_rules_in_order(self, write: Write) -> None:
        write("style.css", "p { color: red }")
        write("core/more.css", "p { color: blue }")
        files = _by_name(site())
        assert [name for name in files if name.endswith(".css")] == ["style.css"]
        assert files["style.css"] == b"p { color: red }\np { color: blue }"

    def test_page_omits_no_stylesheet(self, shipped: dict[str, bytes]) -> None:
        """A stylesheet that the page does not name would be a separate file, which no page loads."""
        assert [name for name in shipped if name.endswith(".css")] == ["design/tokens.css"]

    def test_page_refers_to_shipped_files(self, shipped: dict[str, bytes]) -> None:
        linked = re.findall(r'(?:href|src)="[0-9a-f]{16}/([^"]*)"', shipped["index.html"].decode())
        assert "app.js" in linked
        assert set(linked) <= shipped.keys()

    def test_page_has_no_inline_script_or_style_and_no_other_origins(self, shipped: dict[str, bytes]) -> None:
        """The page's Content Security Policy would refuse them."""
        page = shipped["index.html"].decode()
        assert re.findall(r"<script[^>]*>([^<]+)", page) == []
        assert not re.search(r"<style|\son\w+=|\sstyle=|https?:", page)

    def test_first_screen_loads_little(self, shipped: dict[str, bytes]) -> None:
        page = shipped["index.html"]
        linked = {*re.findall(r'(?:href|src)="[0-9a-f]{16}/([^"]*)"', page.decode())}
        assert sum(len(gzip.compress(shipped[name])) for name in {"index.html", *linked}) < FIRST_SCREEN_BYTES
        assert "vendor/media-chrome.js" not in linked


class TestFolder:
    @pytest.mark.parametrize("changed", ["index.html", "style.css", "app.js", "core/new.js"])
    def test_folder_name_changes_with_any_byte(self, write: Write, changed: str) -> None:
        before = _folder()
        write(changed, f"{PAGE} ")
        assert _folder() != before

    def test_folder_name_changes_with_a_library(
        self, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        packages = tmp_path / "packages"
        for package in {source.partition("/")[0] for source in LIBRARIES.values()}:
            shutil.copytree(site_module.PACKAGES / package, packages / package)
        before = _folder()
        monkeypatch.setattr(site_module, "PACKAGES", packages)
        assert _folder() == before
        module = packages / "preact/dist/preact.mjs"
        module.write_text(f" {module.read_text(encoding='utf-8')}", encoding="utf-8")
        assert _folder() != before

    def test_folder_name_is_the_same_if_no_shipped_file_differs(self, write: Write) -> None:
        before = _folder()
        write("app.js", "")
        write("tsconfig.json", "{}")
        assert _folder() == before

    def test_folder_name_changes_with_a_file_name(self, write: Write) -> None:
        write("a.js", "1")
        before = _folder()
        (site_module.CONSOLE / "a.js").rename(site_module.CONSOLE / "b.js")
        assert _folder() != before


class TestLibraries:
    def test_libraries_are_shipped_with_their_licences(self, shipped: dict[str, bytes]) -> None:
        licences = shipped["vendor/licences.txt"].decode()
        for package in {source.partition("/")[0] for source in LIBRARIES.values()}:
            (_, text) = licences.split(f"{package}\n\n", 1)
            assert re.search(r"Permission is hereby granted|Apache License", text.partition("\n\n\n")[0])

    def test_libraries_are_those_that_package_json_pins_for_the_console(self) -> None:
        pinned = re.search(r'"dependencies": \{(.*?)\}', (ROOT / "package.json").read_text(encoding="utf-8"), re.DOTALL)
        assert pinned
        names = set(re.findall(r'"([\w-]+)":', pinned[1]))
        assert names == {source.partition("/")[0] for source in LIBRARIES.values()}

    def test_libraries_refer_to_no_missing_source_maps(self, shipped: dict[str, bytes]) -> None:
        assert not [name for name, content in shipped.items() if b"sourceMappingURL" in content]

    def test_missing_library_is_named_before_any_file_is_written(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(site_module, "PACKAGES", tmp_path)
        for make, refusal in ((site_code, Misconfigured), (site, LibraryMissing)):
            with pytest.raises(
                refusal, match=r"^preact, which the console needs, is not installed. Run `npm install`.$"
            ):
                make()


class TestAsset:
    @pytest.fixture
    def asset(self, tmp_path: Path) -> Path:
        output = tmp_path / "asset"
        bundle_site(output)
        return output

    def test_asset_contains_the_function_and_its_compressed_files(self, asset: Path) -> None:
        folder = asset / "functions" / "console"
        assert (folder / "handler.py").read_bytes() == (ROOT / "functions/console/handler.py").read_bytes()
        packed = {
            file.relative_to(folder / "site").as_posix().removesuffix(".gz"): gzip.decompress(file.read_bytes())
            for file in (folder / "site").rglob("*.gz")
        }
        assert packed == site()
        others = {path.relative_to(asset).as_posix() for path in asset.rglob("*.py")} - {"functions/console/handler.py"}
        assert others == {"functions/__init__.py"}

    def test_asset_is_the_same_at_another_time(self, asset: Path, tmp_path: Path) -> None:
        second = tmp_path / "again"
        bundle_site(second)
        files = [path.relative_to(asset) for path in asset.rglob("*") if path.is_file()]
        assert [file for file in files if (asset / file).read_bytes() != (second / file).read_bytes()] == []

    def test_asset_is_readable_by_every_user(self, asset: Path) -> None:
        modes = {stat.S_IMODE(path.stat().st_mode) for path in asset.rglob("*") if path.is_file()}
        assert modes == {0o644}
