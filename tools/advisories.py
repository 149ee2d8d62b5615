"""`make advisories`: checks pinned versions for known vulnerabilities, in the databases of PyPI and npm.

The check runs pip-audit for constraints.txt and `npm audit` for package.json. If a database is unreachable, the result
is unknown, and the check fails.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from local import ROOT
from local.toolbox import with_tools
from tools import ToolError

PIP_AUDIT = "pip-audit==2.10.1"
"""Requirement for pip-audit. uv installs pip-audit in a separate environment, so the packages of this project do not
change."""
FOUND, UNKNOWN = 1, 2
"""Exit statuses: FOUND if there are vulnerabilities, UNKNOWN if a database was not reachable."""
MINUTES = 5
"""Maximum duration of pip-audit or npm, in minutes."""

Run = Callable[[Sequence[str], Path], str]
"""Function that runs a program in a folder and returns the program's standard output.

The function ignores the exit status, because pip-audit and npm also fail if they find vulnerabilities.
"""
Json = dict[str, Any]


def of_python(run: Run) -> list[str]:
    """Return one line of text per known vulnerability of the packages in constraints.txt.

    Raises ToolError if PyPI's database was not queried for all packages.
    """
    uv = (sys.executable, "-m", "uv", "tool", "run", "--from", PIP_AUDIT, "pip-audit")
    pins = ("--requirement", str(ROOT / "constraints.txt"), "--disable-pip", "--no-deps")
    answer = _parsed(run([*uv, *pins, "--format", "json", "--progress-spinner", "off"], ROOT), "PyPI")
    packages: list[Json] = answer.get("dependencies", [])
    unchecked = [package for package in packages if "skip_reason" in package]
    # pip-audit reports a package as safe if PyPI did not respond.
    if unchecked or not packages:
        reason = unchecked[0]["skip_reason"] if unchecked else "pip-audit checked nothing"
        raise ToolError(f"PyPI's database was not queried for {len(unchecked)} of {len(packages)} packages ({reason}).")
    return [
        f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {', '.join(vulnerability['fix_versions']) or 'none yet'}"
        for package in packages
        for vulnerability in package["vulns"]
    ]


def of_node(run: Run) -> list[str]:
    """Return one line of text per vulnerable package, among the packages in package.json and their dependencies.

    Raises ToolError if npm's database was not queried.
    """
    npm = str(Path(sys.executable).parent / "npm")
    with tempfile.TemporaryDirectory() as name:
        # `npm audit` needs a lock file. The checkout has none, because it would contain download URLs.
        folder = Path(name)
        (folder / "package.json").write_bytes((ROOT / "package.json").read_bytes())
        run([npm, "install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
        answer = _parsed(run([npm, "audit", "--json"], folder), "npm")
    if "vulnerabilities" not in answer:
        raise ToolError(f"npm's database was not queried ({answer.get('message') or answer.get('error')}).")
    return [
        f"{name}: {advisory['severity']} ({advisory['range']})" for name, advisory in answer["vulnerabilities"].items()
    ]


def _parsed(text: str, whose: str) -> Json:
    try:
        parsed: Json = json.loads(text)
    except ValueError as error:
        raise ToolError(f"{whose}'s database was not queried: its tool printed no JSON, but {text[:200]!r}.") from error
    return parsed


def _run(command: Sequence[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=with_tools(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60 * MINUTES,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"`{Path(command[0]).name}` did not finish within {MINUTES} minutes.") from error
    return done.stdout or done.stderr


def main(run: Run = _run) -> int:
    """Query both databases and print the results. Returns the exit status: 0, FOUND or UNKNOWN."""
    status = 0
    for pins, ask in (("constraints.txt", of_python), ("package.json", of_node)):
        try:
            vulnerabilities = ask(run)
        except ToolError as error:
            print(f"{pins}: unknown. {error} Run the command with access to the database.", file=sys.stderr)
            status = max(status, UNKNOWN)
            continue
        print(
            "\n".join(
                [
                    f"{pins}: {len(vulnerabilities) or 'no'} known vulnerabilities",
                    *(f"  {line}" for line in vulnerabilities),
                ]
            )
        )
        status = max(status, FOUND if vulnerabilities else 0)
    return status


if __name__ == "__main__":
    sys.exit(main())
