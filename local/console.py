"""Checks of the console's modules: types, each API call against the OpenAPI document, and tests without a browser.

`make lint` runs these checks. The generated files are in `.local/console`, where editors also find them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from local import ROOT, STATE
from local.toolbox import with_tools
from shared.openapi.document import document

TESTS = Path("tests", "console")
"""Folder of the console's tests for Node's test runner."""
WARNING = "MODULE_TYPELESS_PACKAGE_JSON"
"""Name of Node's warning that package.json declares no module type. Browsers do not need the type."""
PLACE = {"LC_ALL": "en_GB.UTF-8", "TZ": "Europe/London"}
"""Environment variables with the language and time zone of the tests, which must not depend on the machine."""
GENERATED = STATE.relative_to(ROOT) / "console"


def main(root: Path = ROOT) -> int:
    """Check the console of a checkout. Returns the exit status of the first program that failed, or 0."""
    for command in (*types(root), *tests(root)):
        status = subprocess.run(command, env=with_tools(os.environ | PLACE), check=False).returncode
        if status != 0:
            return status
    print(f"Success: no issues found in {len([*(root / 'console').rglob('*.js')])} modules of the console")
    return 0


def types(root: Path) -> list[list[str | Path]]:
    """Return the commands that check types and API calls. Writes the OpenAPI document, which the commands need, to a
    file."""
    generated = root / GENERATED
    generated.mkdir(parents=True, exist_ok=True)
    described = generated / "openapi.json"
    described.write_text(json.dumps(document()), encoding="utf-8")
    tools = ROOT / "node_modules" / ".bin"
    return [
        [tools / "openapi-typescript", described, "--output", generated / "api.d.ts", "--silent"],
        [tools / "tsc", "--project", root / "console"],
    ]


def tests(root: Path) -> list[list[str | Path]]:
    """Return a list with the command that runs the tests; an empty list if there are no tests."""
    if not (root / TESTS).is_dir():
        return []
    setup = (root / TESTS / "setup.js").as_uri()
    node = ["node", f"--disable-warning={WARNING}", "--import", setup, "--test", "--test-reporter=dot"]
    return [[*node, *sorted((root / TESTS).glob("*.test.js"))]]


if __name__ == "__main__":
    sys.exit(main())
