"""Files of the console: its own modules, and pinned libraries from npm.

Browsers load the modules without a build step. Only bare package names are replaced by relative paths. An import map is
not possible, because it must be inline, and the Content Security Policy forbids inline scripts. This module does not
import the CDK, because the console's tests also use this module.
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
"""Folder of the console's sources."""
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
"""Paths of library files below `node_modules`, by the bare module specifier with which code imports them."""
VENDOR = "vendor"
SHIPPED = (".html", ".js", ".css", ".svg")

_IMPORTED = re.compile(r"""(\bfrom\s*|\bimport\s*\(?\s*)(["'])([^"'\n]+)\2""")
"""Regular expression of an import or export in JavaScript. The third group of a match is the module specifier."""
_STYLESHEET = re.compile(r' *<link rel="stylesheet" href="\./([^"]+)">\n')
_STATIC = re.compile(r"""(?:\bfrom\s*|\bimport\s*)["'](\.[^"'\n]+)["']""")


class LibraryMissing(Exception):
    """Error: a library is not installed. The message names the library and the command that installs it."""


def require_libraries() -> None:
    """Raise LibraryMissing if npm has not installed all libraries."""
    for source in LIBRARIES.values():
        _library(source)


def bundle_site(output: Path) -> None:
    """Write the code of the function `console` and its compressed files to a folder."""
    folder = output / "functions" / "console"
    folder.mkdir(parents=True)
    (output / "functions" / "__init__.py").touch()
    shutil.copy(ROOT / "functions" / "console" / "handler.py", folder)
    for name, content in site().items():
        file = folder / "site" / f"{name}.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(content, mtime=0))
    for path in output.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)  # Lambda runs the code as another user


def site() -> dict[str, bytes]:
    """Return the contents of the console's files, by path.

    The page is at the top level. All other files are in one folder. The folder's name is a hash of their contents.
    Raises LibraryMissing if a library is missing.
    """
    files = {**_with_one_stylesheet(_ours()), **_libraries()}
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    folder = digest.hexdigest()[:16]
    page = files.pop("index.html").decode()
    # Without preloading, the browser would discover each module only after it has loaded the importing module.
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
    """Return the files with all stylesheets merged into the first one.

    The page then sends fewer requests. Each request may cause a cold start.
    """
    page = files["index.html"].decode()
    names = [match[1] for match in _STYLESHEET.finditer(page)]
    for line in [match[0] for match in _STYLESHEET.finditer(page)][1:]:
        page = page.replace(line, "")
    unchanged = {name: content for name, content in files.items() if name not in names}
    return {**unchanged, "index.html": page.encode(), names[0]: b"\n".join(files[name] for name in names)}


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
    """Return the path of a library file below `node_modules`. Raises LibraryMissing if the file does not exist."""
    file = PACKAGES / source
    if not file.is_file():
        raise LibraryMissing(
            f"{source.partition('/')[0]}, which the console needs, is not installed. Run `npm install`."
        )
    return file


def _vendored(source: str) -> str:
    """Return the name of a library file in the site, such as `vendor/preact-hooks.js`."""
    name = next(name for name, file in LIBRARIES.items() if file == source)
    return f"{VENDOR}/{name.replace('/', '-')}.js"


def _linked(code: str, name: str) -> str:
    """Return the code of the module `name`, in which relative paths replace the bare module specifiers of imports."""

    def relative(match: re.Match[str]) -> str:
        before, quote, specifier = match.groups()
        source = LIBRARIES.get(specifier)
        if source is None:
            return match[0]
        path = os.path.relpath(_vendored(source), Path(name).parent).replace(os.sep, "/")
        return f"{before}{quote}{path if path.startswith('.') else f'./{path}'}{quote}"

    return _IMPORTED.sub(relative, code)


def _needed(files: Mapping[str, bytes], *names: str) -> Iterator[str]:
    """Yield the names of these modules, and of all modules that they import statically, directly or indirectly."""
    waiting, seen = [*reversed(names)], set[str]()
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            yield module
            folder = Path(module).parent
            imported = _STATIC.findall(files[module].decode())
            waiting.extend(Path(os.path.normpath(folder / path)).as_posix() for path in imported)
