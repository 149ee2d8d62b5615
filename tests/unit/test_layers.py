"""Tests that imports run one way: functions -> shared <- infra. Within shared/, each package imports only packages
below it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {"bench", "functions", "infra", "local", "shared", "tests", "tools"}
TESTBED = "local.testbed"
"""Package for tests and benchmarks only. The rest of `local`, and `tools`, must not import it."""


@cache
def _all_imports(folder: str) -> list[tuple[str, str]]:
    """Return all modules that the files of a folder import, as pairs of (path from the root, dotted name)."""
    return list(_read_imports(folder))


def _read_imports(folder: str) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((file, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield file, node.module
                yield from ((file, f"{node.module}.{alias.name}") for alias in node.names)


@cache
def _imports(folder: str) -> list[tuple[str, str]]:
    """Return the project's own modules that the files of a folder import, as pairs of (path from the root, dotted
    name)."""
    return [(file, name) for file, name in _all_imports(folder) if name.split(".")[0] in OURS]


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("shared", {"shared"}),
        ("functions", {"functions", "shared"}),
        ("infra", {"infra", "shared"}),
        ("local", {"local", "shared"}),
        ("tools", {"tools", "local", "shared"}),
        ("local/testbed", {"functions", "local", "shared"}),
        ("bench", {"bench", "functions", "local", "shared", "tools"}),
    ],
)
def test_layer_imports_only_layers_below_it(folder: str, allowed: set[str]) -> None:
    foreign = [
        (file, name)
        for file, name in _imports(folder)
        if name.split(".")[0] not in allowed and not _is_of_testbed(file, folder)
    ]
    assert foreign == []


def _is_of_testbed(file: str, folder: str) -> bool:
    """Return whether this file is checked by the test case of `local/testbed`, and not by the test case of `local`."""
    return folder == "local" and file.startswith("local/testbed/")


@pytest.mark.parametrize("folder", ["local", "tools"])
def test_testbed_is_imported_only_by_tests_and_benchmarks(folder: str) -> None:
    importers = {
        file for file, name in _imports(folder) if name.startswith(TESTBED) and not _is_of_testbed(file, folder)
    }
    assert importers == set()


@pytest.mark.slow
def test_benchmarks_are_imported_only_by_their_tests() -> None:
    importers = {file for file, name in _imports("tests") if name.split(".")[0] == "bench"}
    assert {file for file in importers if not Path(file).name.startswith("test_bench")} == set()
    assert importers != set()


PACKAGES = re.findall(r"^\| `(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
"""Packages of shared/, from the highest to the lowest, as CONTRIBUTING.md lists them."""


def test_every_module_of_shared_has_a_position_in_the_layers() -> None:
    # A folder without sources contains only the bytecode of a package that was moved.
    modules = {path.stem for path in (ROOT / "shared").iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    modules.remove("__init__")
    assert sorted(PACKAGES) == sorted(modules)


@pytest.mark.parametrize("package", PACKAGES)
def test_package_of_shared_imports_only_packages_below_it(package: str) -> None:
    higher_packages = PACKAGES[: PACKAGES.index(package)]
    upwards = [
        (file, name)
        for file, name in _imports("shared")
        if file.split("/")[1].removesuffix(".py") == package
        and name.startswith("shared.")
        and name.split(".")[1] in higher_packages
    ]
    assert upwards == []


def test_lean_client_imports_nothing_of_this_service() -> None:
    imports = {name for file, name in _imports("shared") if file.startswith("shared/aws/lean/")}
    assert {name for name in imports if not name.startswith("shared.aws.lean")} == set()


def test_infra_reads_only_the_tables_of_shared() -> None:
    read = {".".join(name.split(".")[:2]) for _, name in _imports("infra") if name.startswith("shared.")}
    assert read <= {
        "shared.archive_tables",
        "shared.schema",
        "shared.routes",
        "shared.job_kinds",
        "shared.video_fields",
    }


@pytest.mark.parametrize("path", sorted((ROOT / "functions").glob("*/handler.py")), ids=lambda path: path.parent.name)
def test_query_classes_are_imported_when_a_function_starts(path: Path) -> None:
    """Test that no function imports a query class after its start. Such a class would not register its parameters, so
    the function would reject them."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    later = [node for node in ast.walk(module) if isinstance(node, ast.ImportFrom) and node not in module.body]
    assert [node.lineno for node in later if str(node.module).endswith("queries")] == []


def test_no_function_imports_another() -> None:
    for file, name in _imports("functions"):
        if name.startswith("functions."):
            assert name.split(".")[1] == Path(file).parent.name


@pytest.mark.parametrize("folder", ["shared", "functions"])
def test_boto3_is_imported_only_by_stores_and_their_client(folder: str) -> None:
    importers = {file for file, name in _all_imports(folder) if name.split(".")[0] in ("boto3", "botocore")}
    assert importers <= {
        f"shared/{store}.py"
        for store in (
            "questions/runs",
            "aws/boto3_client",
            "aws/lean/client",
            "aws/s3",
            "aws/sqs",
            "search/opensearch_engine",
            "webhooks/event_bus",
        )
    }


def test_thread_pools_are_created_only_by_the_shared_module() -> None:
    importers = {
        file
        for folder in ("shared", "functions", "tools", "local", "bench")
        for file, name in _all_imports(folder)
        if name == "concurrent.futures.ThreadPoolExecutor"
    }
    # `local.mutants` ends its subprocesses before it waits for the threads, and stores each result as soon as it
    # arrives.
    assert importers == {"shared/threads.py", "local/mutants.py"}


CONFLICTS = {"CONFLICTS", "ConditionFailed", "TransactionConflict", "WriteContention"}
WITH_OWN_LOOP = {
    "shared/aws/dynamodb.py:_carry_out",  # retries one request
    "shared/background/aggregates.py:_carry_out",  # writes several transactions; a conflict ends the attempt
    "shared/background/ledger.py:_keep_pages",  # writes several pages; skips a page that already exists
    "shared/background/reconcile.py:_examine",  # repeats the comparison; a conflict means that an item changed
    "shared/videos/batches.py:_done",  # repeats whole operations until a deadline, also when DynamoDB is busy
}
"""Functions that may catch a conflict in their own loop, with the reason."""


@pytest.mark.slow
def test_conflicts_are_retried_only_by_their_helper() -> None:
    users = set[str]()
    for folder in ("shared", "functions", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(function, ast.FunctionDef) and any(
                    isinstance(node, ast.ExceptHandler) and node.type and CONFLICTS & _names(node.type)
                    for loop in ast.walk(function)
                    if isinstance(loop, ast.For | ast.While)
                    for node in ast.walk(loop)
                ):
                    users.add(f"{path.relative_to(ROOT).as_posix()}:{function.name}")
    assert users == WITH_OWN_LOOP


def _names(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def test_console_modules_have_no_import_cycle() -> None:
    graph = {
        module: {
            (module.parent / path).resolve()
            for path in re.findall(r'^(?:im|ex)port .*?"(\.[^"]+)";$', module.read_text(encoding="utf-8"), re.MULTILINE)
        }
        for module in (ROOT / "console").rglob("*.js")
    }
    assert sum(map(len, graph.values())) > len(graph)
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_console_moves_the_focus_before_the_next_frame() -> None:
    """Test that no module calls `useEffect` to move the focus. `useEffect` runs after a frame, when a user may already
    have typed into another field."""
    effects = [
        _call(text, start.end())
        for module in (ROOT / "console").rglob("*.js")
        for text in [module.read_text(encoding="utf-8")]
        for start in re.finditer(r"\buseEffect\(", text)
    ]
    assert len(effects) > 20
    moving = [effect for effect in effects if re.search(r"\.(focus|showModal)\(", effect)]
    assert [effect for effect in moving if "addEventListener" not in effect] == []


def _call(text: str, start: int) -> str:
    """Return the arguments of the call whose opening parenthesis is directly before `start`."""
    depth = 1
    for end, character in enumerate(text[start:], start):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return text[start:end]
    raise AssertionError(f"Never closed: {text[start : start + 80]}")
