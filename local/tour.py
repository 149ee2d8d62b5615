"""Runs the commands of the documents against the running service. `python -m local.tour` writes the outputs into the pages.

The end-to-end tests run the same commands and compare the outputs.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from local import ROOT, LocalError, exit_status, running_service

BLOCK = re.compile(r"(?<=<!-- tour -->\n```console\n)(.*?)(?=```\n)", re.DOTALL)
PAGES = tuple(
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if BLOCK.search(page.read_text(encoding="utf-8"))
)
"""Paths of the pages with commands to run. Such a page has blocks of commands below the mark `<!-- tour -->`."""
FUNCTIONS = r"""api() { curl -sS -w '\n' -X "$2" "$URL$3" -H "Authorization: Bearer $1" -H 'Content-Type: application/json' "${@:4}"; }
field() { python3 -c 'import functools, json, sys; print(functools.reduce(
    lambda at, key: at[int(key)] if isinstance(at, list) else at.get(key), sys.argv[1:], json.load(sys.stdin)))' "$@"; }
"""
"""Shell functions that the commands use: `api` sends a request as a user, and `field` prints a field of JSON."""
SECONDS = 300
_MARK = "-- end of command --"

_VARYING = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r'"(createdAt|updatedAt|purgeAt|ratedAt|addedAt|asOf)":\d+'), r'"\1":<time>'),
    (re.compile(r'"(\d+)\.[0-9a-f]{16}"'), r'"\1.<hash>"'),
    (re.compile(r'"(sequence|at|to)": ?"?\d{10,}"?'), r'"\1":<time>'),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "<time>"),
    (re.compile(r'"id": "[\w-]{20}"'), '"id": <change>'),
    (re.compile(r'"position": \d+'), '"position": <number>'),
    (re.compile(r"^\d+ events received", re.MULTILINE), "<number> events received"),
    (re.compile(r"(https?|s3)://[^\s\"]+?/(thumbnails|renditions)/"), r"\1://<bucket>/\2/"),
    (re.compile(r"/[0-9a-f]{32}/"), "/<hash>/"),
    (re.compile(r'"personId":"nm\d+"'), '"personId":<person>'),
    (re.compile(r'"score":[\d.]+'), '"score":<score>'),
    (re.compile(r'"nextCursor":(null|"[^"]+")'), '"nextCursor":<cursor>'),
)


def played(page: str, environment: Mapping[str, str]) -> str:
    """Run the commands of a page in one shell, in order, and return the page with the new outputs.

    Raises LocalError if the page has no commands, and CalledProcessError if the shell fails.
    """
    blocks = BLOCK.findall(page)
    if not blocks:
        raise LocalError("The page has no block of commands for the tour.")
    commands = [command for block in blocks for command in commands_of(block)]
    script = FUNCTIONS + "\n".join(f"{{ {command}\n}} 2>&1\necho\necho '{_MARK}'" for command in commands)
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    outputs = iter(done.stdout.split(f"{_MARK}\n"))

    def replayed(match: re.Match[str]) -> str:
        shown = []
        for command in commands_of(match[1]):
            output = next(outputs).strip("\n")
            shown.append(f"$ {command}\n" + (f"{output}\n" if output else ""))
        return "".join(shown)

    return BLOCK.sub(replayed, page)


def masked(text: str) -> str:
    """Return the text with a placeholder for each part that varies between runs: ids, times, hashes and positions."""
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    return text


def variables(service: Mapping[str, Any]) -> dict[str, str]:
    """Return the shell variables of the commands: `URL`, and the token of each user, such as `ALICE`."""
    return {"URL": service["baseUrl"], **{user.upper(): token for user, token in service["tokens"].items()}}


def commands_of(block: str) -> list[str]:
    """Return the commands in a block of a page: the text after `$ `, including continued lines after a backslash."""
    commands: list[str] = []
    continued = False
    for line in block.splitlines():
        if continued:
            commands[-1] += "\n" + line
        elif line.startswith("$ "):
            commands.append(line[2:])
        else:
            continue
        continued = line.endswith("\\")
    return commands


def main(arguments: list[str]) -> int:
    """Rewrite the outputs in the pages. With `--variables`, print shell variables and functions instead.

    Returns the exit status.
    """
    return exit_status(_print_variables if arguments == ["--variables"] else _write)


def _print_variables() -> None:
    for name, value in variables(running_service()).items():
        print(f"export {name}='{value}'")
    print(FUNCTIONS, end="")


def _write() -> None:
    environment = variables(running_service())
    for page in PAGES:
        page.write_text(played(page.read_text(encoding="utf-8"), environment), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
