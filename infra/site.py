"""The console's files, as they are served: our modules, and the libraries that they import, from npm at their pinned versions.

Browsers load modules as they are written. All that happens here is that bare names of packages become relative paths, as
an import map would do it, which the page's Content Security Policy refuses because it stands inline. Nothing here needs the
CDK: the tests of the console serve a checkout's files by it.
"""

import gzip
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSOLE = ROOT / "console"
"""What we write of it."""
PACKAGES = ROOT / "node_modules"

LIBRARIES: Mapping[str, str] = {
    "preact": "preact/dist/preact.mjs",
    "preact/hooks": "preact/hooks/dist/hooks.mjs",
    "htm": "htm/dist/htm.mjs",
    "htm/preact": "htm/preact/index.mjs",
    "media-chrome": "media-chrome/dist/iife/index.js",
    "oauth4webapi": "oauth4webapi/build/index.js",
    "openapi-fetch": "openapi-fetch/dist/index.mjs",
}
"""The file of each name that modules import, below `node_modules`."""
VENDOR = "vendor"
SHIPPED = (".html", ".js", ".css", ".svg")

_IMPORTED = re.compile(r"""(\bfrom\s*|\bimport\s*\(?\s*)(["'])([^"'\n]+)\2""")
"""The specifier of an import or export of a module."""
_STYLESHEET = re.compile(r' *<link rel="stylesheet" href="\./([^"]+)">\n')
_STATIC = re.compile(r"""(?:\bfrom\s*|\bimport\s*)["'](\.[^"'\n]+)["']""")


class LibraryMissing(Exception):
    """A sentence that says which, and what brings it."""


def require_libraries() -> None:
    """Raise LibraryMissing unless npm has put all of them in their places."""
    for source in LIBRARIES.values():
        _library(source)


def bundle_site(output: Path) -> None:
    """Fill a folder with the function and its site."""
    folder = output / "functions" / "console"
    folder.mkdir(parents=True)
    for package in (output / "functions", folder):
        (package / "__init__.py").touch()
    shutil.copy(ROOT / "functions" / "console" / "handler.py", folder)
    for name, content in site().items():
        file = folder / "site" / f"{name}.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(content, mtime=0))
    for path in output.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)  # Lambda runs the code as another user


def site() -> dict[str, bytes]:
    """The files of the console by name: the page, and below a folder that is named after their content all others.

    Raises LibraryMissing when a library is missing.
    """
    files = {**_with_one_stylesheet(_ours()), **_libraries()}
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    folder = digest.hexdigest()[:16]
    page = files.pop("index.html").decode()
    # Else the browser would find out about each module only when it has the one that imports it.
    preloaded = "".join(
        f'    <link rel="modulepreload" href="./{name}">\n' for name in _needed(files, "start.js", "app.js")
    )
    page = page.replace("  </head>", f"{preloaded}  </head>").replace('="./', f'="{folder}/')
    return {"index.html": page.encode(), **{f"{folder}/{name}": content for name, content in files.items()}}


def _ours() -> dict[str, bytes]:
    files = {}
    for file in sorted(CONSOLE.rglob("*")):
        if file.suffix in SHIPPED:
            name = file.relative_to(CONSOLE).as_posix()
            content = file.read_text(encoding="utf-8")
            files[name] = (_linked(content, name) if file.suffix == ".js" else content).encode()
    return files


def _with_one_stylesheet(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same with all stylesheets that the page names in the first of them: each request may start a function."""
    page = files["index.html"].decode()
    names = [match[1] for match in _STYLESHEET.finditer(page)]
    for line in [match[0] for match in _STYLESHEET.finditer(page)][1:]:
        page = page.replace(line, "")
    others = {name: content for name, content in files.items() if name not in names}
    return {**others, "index.html": page.encode(), names[0]: b"\n".join(files[name] for name in names)}


def _libraries() -> dict[str, bytes]:
    files, licences = {}, []
    for source in LIBRARIES.values():
        name, code = _vendored(source), _library(source).read_text(encoding="utf-8")
        files[name] = _linked(code.partition("\n//# sourceMappingURL")[0], name).encode()
    for package in sorted({source.partition("/")[0] for source in LIBRARIES.values()}):
        licence = next(file for file in sorted((PACKAGES / package).iterdir()) if file.name.startswith("LICEN"))
        licences.append(f"{package}\n\n{licence.read_text(encoding='utf-8')}")
    return {**files, f"{VENDOR}/licences.txt": "\n\n".join(licences).encode()}


def _library(source: str) -> Path:
    """Where npm has put a library's file; raises LibraryMissing when it has not."""
    file = PACKAGES / source
    if not file.is_file():
        raise LibraryMissing(f"{source.partition('/')[0]} is missing, which the console needs: npm install")
    return file


def _vendored(source: str) -> str:
    """The name of a library's file in the site, such as `vendor/preact-hooks.js`."""
    name = next(name for name, file in LIBRARIES.items() if file == source)
    return f"{VENDOR}/{name.replace('/', '-')}.js"


def _linked(code: str, name: str) -> str:
    """A module whose imports of packages are relative to where it lies."""

    def relative(match: re.Match[str]) -> str:
        before, quote, specifier = match.groups()
        source = LIBRARIES.get(specifier)
        if source is None:
            return match[0]
        path = os.path.relpath(_vendored(source), Path(name).parent).replace(os.sep, "/")
        return f"{before}{quote}{path if path.startswith('.') else f'./{path}'}{quote}"

    return _IMPORTED.sub(relative, code)


def _needed(files: Mapping[str, bytes], *names: str) -> Iterator[str]:
    """Modules, and those that they import at once; what is imported when it is used comes then."""
    waiting, seen = [*reversed(names)], set[str]()
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            yield module
            folder = Path(module).parent
            imported = _STATIC.findall(files[module].decode())
            waiting.extend(Path(os.path.normpath(folder / path)).as_posix() for path in imported)
