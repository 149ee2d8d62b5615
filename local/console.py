"""Checks the types of the console's modules, and of each of their calls against the OpenAPI document.

`make lint` runs it; what it generates for that is in `.local/console`, where editors find it too.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from local import ROOT, STATE
from local.toolbox import with_tools
from shared.openapi.document import document

GENERATED = STATE.relative_to(ROOT) / "console"


def main(root: Path = ROOT) -> int:
    """Check the console of a checkout; the exit status of the first program that found something."""
    generated = root / GENERATED
    generated.mkdir(parents=True, exist_ok=True)
    described = generated / "openapi.json"
    described.write_text(json.dumps(document()), encoding="utf-8")
    tools = ROOT / "node_modules" / ".bin"
    commands: list[list[str | Path]] = [
        [tools / "openapi-typescript", described, "--output", generated / "api.d.ts", "--silent"],
        [tools / "tsc", "--project", root / "console"],
    ]
    for command in commands:
        status = subprocess.run(command, env=with_tools(os.environ), check=False).returncode
        if status != 0:
            return status
    print(f"Success: no issues found in {len([*(root / 'console').rglob('*.js')])} modules of the console")
    return 0


if __name__ == "__main__":
    sys.exit(main())
