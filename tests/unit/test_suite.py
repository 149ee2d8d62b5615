"""Rules for tests: no test depends on the speed of the machine, or on a port that another program may use."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "tests", ROOT / "local" / "testbed")
WAITS = {"wait", "join", "settimeout", "result", "acquire"}
"""Names of methods whose first argument is a time limit in seconds."""
LISTENERS = {"bind", "connect", "connect_ex", "create_connection", "create_server", "is_taken", "require_free"} | {
    "HTTPServer",
    "ThreadingHTTPServer",
    "TCPServer",
    "MiniStack",
    "Issuer",
}
"""Functions and classes that use the port in their arguments, alone or in an address."""
OTHER_STAGES = (ROOT / "tests" / "unit" / "infra", ROOT / "tests" / "unit" / "proofs")
"""Folders of unit tests that `make check` leaves out."""
ALLOWED = {
    (
        "tests/e2e/clients/client.py",
        "httpx.request(open_.method, open_.url, headers=headers, content=source, timeout=120, trust_env=False)",
    ): "a program of a user, who has no LIMIT",
    (
        "tests/polling.py",
        "time.sleep(min(max(POLL_SECONDS, waited / 10), LONGEST_POLL_SECONDS))",
    ): "the one loop that looks at what cannot notify",
    (
        "tests/unit/test_webhook_http_client.py",
        "connection.settimeout(0.005)",
    ): "the pace of a slow server, not a limit",
}
"""Calls that may break a rule, with the reason."""


def faults_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the source of each call that breaks a rule, and the rule."""
    for call in ast.walk(ast.parse(text)):
        if not isinstance(call, ast.Call):
            continue
        name, of = _name(call.func), _name(getattr(call.func, "value", None))
        if name == "sleep" and of in ("", "time"):
            yield ast.unparse(call), "a test waits for an event, with `eventually` of tests/polling.py"
        limits = [keyword.value for keyword in call.keywords if keyword.arg == "timeout"]
        limits += call.args[:1] if name in WAITS else []
        if any(_is_number(limit) for limit in limits):
            yield ast.unparse(call), "a limit is LIMIT of tests/polling.py"
        exceptions = [
            part
            for argument in call.args
            for part in (argument.elts if isinstance(argument, ast.Tuple) else [argument])
        ]
        if name in LISTENERS and any(_is_number(exception) for exception in exceptions):
            yield ast.unparse(call), "a port comes from the operating system: 0, or `free_port` of local/ports.py"


def _name(node: ast.AST | None) -> str:
    """Return the last part of a dotted name, or `""` for any other expression."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _is_number(node: ast.expr) -> bool:
    """Return whether an expression consists only of numbers, and is not plain 0."""
    parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node]
    values = [part.value for part in parts if isinstance(part, ast.Constant)]
    return len(values) == len(parts) and all(type(value) in (int, float) for value in values) and values != [0]


@pytest.mark.slow
def test_no_test_sleeps_sets_a_time_limit_or_uses_a_fixed_port() -> None:
    faults = {
        (path.relative_to(ROOT).as_posix(), source): rule
        for folder in FOLDERS
        for path in folder.rglob("*.py")
        for source, rule in faults_of(path.read_text(encoding="utf-8"))
    }
    assert {exception: rule for exception, rule in faults.items() if exception not in ALLOWED} == {}
    assert ALLOWED.keys() <= faults.keys(), "an unused exception in ALLOWED"


def test_slow_mark_is_used_only_in_tests_of_the_quick_check() -> None:
    marked = {path for path in (ROOT / "tests").rglob("*.py") if "mark.slow" in path.read_text(encoding="utf-8")}
    marked.discard(Path(__file__))
    assert [path for path in marked if ROOT / "tests" / "unit" not in path.parents] == []
    assert [path for path in marked if path.parent in OTHER_STAGES] == []


@pytest.mark.parametrize(
    "line",
    [
        "time.sleep(1)",
        "sleep(seconds)",
        "event.wait(60)",
        "event.wait(timeout=60.0)",
        "thread.join(10)",
        "threading.Barrier(2, timeout=5 * 60)",
        "httpx.Client(timeout=30)",
        "connection.settimeout(2)",
        "socket.create_server(('127.0.0.1', 8080))",
        "is_taken(4566)",
        "MiniStack(4566, log)",
    ],
)
def test_line_that_breaks_a_rule_is_reported(line: str) -> None:
    assert list(faults_of(line))


@pytest.mark.parametrize(
    "line",
    [
        "thread.join()",
        "', '.join(words)",
        "event.wait(LIMIT)",
        "send(timeout=LIMIT)",
        "create_server(('127.0.0.1', 0))",
    ],
)
def test_line_that_follows_the_rules_is_not_reported(line: str) -> None:
    assert list(faults_of(line)) == []
