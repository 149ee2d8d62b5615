"""Tests of `make advisories`: it reports known vulnerabilities, and never reports an unqueried database as clean."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from local import ROOT
from tools import advisories

CLEAN: dict[str, Any] = {"name": "boto3", "version": "1.0", "vulns": []}
WEAK = {"name": "pillow", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1", "2.0"]}]}
SKIPPED = {"name": "boto3", "skip_reason": "Dependency not found on PyPI and could not be audited: boto3 (1.0)"}
NOTHING: dict[str, Any] = {"vulnerabilities": {}}
WEAK_NODE = {"vulnerabilities": {"ws": {"severity": "high", "range": "<8.17.1"}}}
REFUSED = {"message": "405 Method Not Allowed"}

RunAdvisories = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_advisories(capsys: pytest.CaptureFixture[str]) -> RunAdvisories:
    """Run the command on the given output of pip-audit and npm. Return its exit status, standard output and standard
    error."""

    def run(packages: list[Any], node: Any) -> tuple[int, str, str]:
        def run(command: Sequence[str], folder: Path) -> str:
            if "pip-audit" in command:
                assert str(ROOT / "constraints.txt") in command
                return json.dumps({"dependencies": packages})
            assert (folder / "package.json").read_bytes() == (ROOT / "package.json").read_bytes()
            return node if isinstance(node, str) else json.dumps(node)

        status = advisories.main(run)
        return status, *capsys.readouterr()

    return run


def test_command_succeeds_when_no_database_has_a_finding(run_advisories: RunAdvisories) -> None:
    assert run_advisories([CLEAN], NOTHING) == (
        0,
        "constraints.txt: no known vulnerabilities\npackage.json: no known vulnerabilities\n",
        "",
    )


def test_every_finding_is_printed_and_fails_the_command(run_advisories: RunAdvisories) -> None:
    status, output, _ = run_advisories([CLEAN, WEAK], WEAK_NODE)
    assert status == advisories.FOUND
    assert "  pillow 1.0: PYSEC-1, fixed in 1.1, 2.0\n" in output
    assert "  ws: high (<8.17.1)\n" in output


@pytest.mark.parametrize("packages", [[CLEAN, SKIPPED], []])
def test_package_that_pip_audit_skipped_is_reported_as_unknown(
    run_advisories: RunAdvisories, packages: list[Any]
) -> None:
    """Test packages that are skipped: pip-audit exits with 0 even if it could not reach its server."""
    status, output, warned = run_advisories(packages, NOTHING)
    assert status == advisories.UNKNOWN
    assert "constraints.txt: unknown. PyPI's database was not queried" in warned
    assert output == "package.json: no known vulnerabilities\n"


@pytest.mark.parametrize("node", [REFUSED, "npm error audit endpoint returned an error"])
def test_failure_of_npm_is_reported_together_with_the_findings_of_pip_audit(
    run_advisories: RunAdvisories, node: Any
) -> None:
    status, output, warned = run_advisories([WEAK], node)
    assert status == advisories.UNKNOWN
    assert "pillow 1.0" in output
    assert "package.json: unknown. npm's database was not queried" in warned
    assert "with access to the database" in warned
