"""Checks the words and the sentence length of docstrings, test names and the OpenAPI document.

Also checks that the exceptions in docstrings exist. `make lint` runs these checks. `CONTRIBUTING.md` lists the rules.
"""

import ast
import builtins
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from local import ROOT
from shared.openapi.document import document

CHECKED = ("app.py", "bench", "functions", "infra", "local", "openapi", "shared", "tests", "tools")
"""Names of the folders and files to check. `openapi` is the OpenAPI document."""
PRODUCT = ("shared", "functions", "infra")
"""Names of the folders in which no two classes may have the same name."""
MAX_WORDS = 25

_FIRST = re.compile(r"(what|who|whose|whom|how|where|when|which|those|of|as|behind)\b", re.IGNORECASE)
_PHRASE = re.compile(
    r"\b(anew|by itself|by themselves|for good|but for|all but|nothing but|none but|is told|are told|side by side"
    r"|of (?:its|their|his|her|our) own|those (?:that|who|of)|the one that|the ones that|that of|left alone|set aside"
    r"|somebody|nobody|everybody|whoever|whom|likewise|besides|meanwhile|shall|what (?:is|was|has|came|became))\b",
    re.IGNORECASE,
)
_RAISED = re.compile(r"\b[Rr]aises? ([A-Z]\w+)")
_TEST_NAME = re.compile(r"test_(it|they|or|but|also|so|what|who|nor|and)(_|$)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s")
_CODE = re.compile(r"```.*?```|>>> .*?(?=\n\s*\n|\Z)|(?:[^\n]*[│├└][^\n]*\n?)+|`[^`]*`|\S+://\S+", re.DOTALL)


def faults(text: str) -> Iterator[str]:
    """Yield the faults of a docstring, a summary or a description."""
    text = _CODE.sub("code", text.strip())
    if match := _FIRST.match(text):
        yield f'begins with "{match[0]}"'
    yield from (f'"{match[0]}"' for match in _PHRASE.finditer(" ".join(text.split())))
    for sentence in _SENTENCE.split(text):
        words = re.findall(r"[\w'-]*\w", sentence)
        if len(words) > MAX_WORDS:
            yield f"a sentence of {len(words)} words: {' '.join(words[:8])} ..."


def faults_of_module(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and fault for each docstring, attribute doc and test name of a module."""
    yield from ((line, fault) for line, text in texts(module) for fault in faults(text))
    for node in _statements(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _TEST_NAME.match(node.name):
            yield node.lineno, f"the test name {node.name} is not a complete claim"


def texts(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring and attribute doc."""
    for node in _statements(module):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def _statements(module: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a module, its classes and its functions. Walking all nodes would take 20 times as long."""
    waiting = [*module.body]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += node.body


def names(module: ast.Module) -> Iterator[str]:
    """Yield the names that the code of a module defines or uses."""
    for node in ast.walk(module):
        match node:
            case ast.ClassDef(name=name) | ast.alias(name=name) | ast.Name(id=name) | ast.Attribute(attr=name):
                yield name


def faults_of_document() -> Iterator[tuple[str, str]]:
    """Yield operation and fault for each summary and description of the OpenAPI document."""
    for path, operations in document()["paths"].items():
        for method, operation in operations.items():
            for text in (operation.get("summary", ""), operation.get("description", "")):
                yield from ((f"{method.upper()} {path}", fault) for fault in faults(text))


def check(root: Path = ROOT, checked: tuple[str, ...] = CHECKED) -> Iterator[str]:
    """Yield a line of text for each fault in the files and folders `checked`. The name `openapi` stands for the OpenAPI
    document."""
    classes, raised, sources = [], [], dict[str, str]()
    for name in checked:
        for file in sorted((root / name).rglob("*.py")) or [root / name] if name != "openapi" else ():
            source, path = file.read_text(encoding="utf-8"), file.relative_to(root).as_posix()
            module = ast.parse(source)
            yield from (f"{path}:{line}: {fault}" for line, fault in faults_of_module(module))
            sources[path] = source
            raised += [(f"{path}:{line}", name) for line, text in texts(module) for name in _RAISED.findall(text)]
            if path.startswith(PRODUCT):
                classes += [(name, path) for name in re.findall(r"^class ([A-Za-z]\w*)", source, re.MULTILINE)]
    unknown = _unknown({name for _, name in raised}, sources.values())
    yield from (f"{place}: {name}, which it raises, does not exist" for place, name in raised if name in unknown)
    for (name, path), (following, other) in pairwise(sorted(classes)):
        if name == following:
            yield f"{other}: the class name {name} is also in {path}"
    if "openapi" in checked:
        yield from (f"{operation}: {fault}" for operation, fault in faults_of_document())


def _unknown(wanted: set[str], sources: Iterable[str]) -> set[str]:
    """Return the names in `wanted` that are neither built into Python nor in the code of any source."""
    unknown = wanted - {*dir(builtins)}
    for source in sources:
        if any(name in source for name in unknown):
            unknown -= {*names(ast.parse(source))}
    return unknown


def main() -> int:
    """Print all faults, and return the exit status."""
    found = [*check()]
    print("\n".join([*found, f"{len(found)} faults of prose"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
