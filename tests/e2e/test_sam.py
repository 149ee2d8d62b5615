"""The SAM CLI itself, with the root `samconfig.toml` and the files that `make sam-env` writes.

With a container engine, `sam local invoke` runs to the response. Without one, SAM finds the configuration, template,
function, event and variables, and then reports that an engine is missing.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from local import ROOT, STATE, example_data, sam
from local.assembly import SynthesizedFunction, configuration, synthesised
from local.events import EVENTS, EventExample, examples
from local.toolbox import installed_once
from shared.aws.dynamodb import Table
from tests.e2e.conftest import Service

pytestmark = pytest.mark.xdist_group("e2e")

REQUIREMENTS = Path(__file__).parents[1] / "sam" / "requirements.txt"
EXAMPLES = {f"{example.function}/{example.name}": example for example in examples()}
HAS_ENGINE = bool(os.environ.get("DOCKER_HOST")) or Path("/var/run/docker.sock").exists()
NO_ENGINE = "Error: Running AWS SAM projects locally requires a container runtime."


class Checkout:
    """Folder with all files of a checkout that `sam` reads, after `make sam-env`."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.folder = folder
        self._program = program
        shutil.copy(ROOT / "samconfig.toml", folder)
        (folder / EVENTS.name).symlink_to(EVENTS)
        self.files = folder / sam.SAM.relative_to(ROOT)
        self.files.mkdir(parents=True)
        self.functions: Sequence[SynthesizedFunction] = ()

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run `sam` without an AWS account or this user's settings."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        own |= {"HOME": str(self.folder), "SAM_CLI_TELEMETRY": "0"}
        command = [str(self._program), *arguments]
        return subprocess.run(command, cwd=self.folder, env=own, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def checkout(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Return a checkout that is ready for `sam local invoke` with the service under test."""
    if service.assembly is None:
        pytest.skip("needs the folder of the deployed assembly")
    program = installed_once(REQUIREMENTS, STATE / "sam-cli", _commands) / "bin" / "sam"
    prepared = Checkout(tmp_path_factory.mktemp("checkout"), program)
    running = synthesised(service.assembly)
    assembly = service.assembly
    if HAS_ENGINE:  # containers need the packages for Lambda; the deployed packages are for this machine's Python
        assembly = prepared.files
        sam.synthesise(service.aws, "http://127.0.0.1", assembly)
    prepared.functions = synthesised(assembly)
    sam.prepare(prepared.files, prepared.functions, service.aws, running)
    return prepared


def _commands(target: Path) -> Iterable[Sequence[str]]:
    """Return the arguments of uv that install the SAM CLI, with its dependencies, into a folder that can be moved."""
    python = str(target / "bin" / "python")
    yield "venv", "--quiet", "--relocatable", "--python", sys.executable, str(target)
    yield "pip", "install", "--quiet", "--only-binary", ":all:", "--python", python, "--requirements", str(REQUIREMENTS)


def test_template_for_sam_passes_cfn_lint(checkout: Checkout) -> None:
    # `sam validate --lint` checks the same rules, and takes three times as long.
    lint = [str(Path(sys.executable).with_name("cfn-lint")), "--template", str(checkout.files / sam.TEMPLATE)]
    done = subprocess.run(lint, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_sam_invokes_a_function_with_an_event(service: Service, checkout: Checkout) -> None:
    # One example is enough, because all commands and events are generated in the same way. Each start of SAM takes 8 s
    # of CPU.
    example = EXAMPLES["stream_router/several"]
    (function,) = (function for function in checkout.functions if function.folder == example.function)
    program, *arguments = sam.command(function, example.name).split()
    assert program == "sam"
    if HAS_ENGINE:
        table = configuration(service.aws, function).environment["TABLE_NAME"]
        example_data.seed(Table(table, service.aws.client("dynamodb")), service.aws.client("s3"), int(time.time()))
    done = checkout.run(*arguments, "--debug")
    for part in (
        "'env_vars': '.local/sam/env.json'",
        f"Using SAM Template at {checkout.files / sam.TEMPLATE}\n",
        f"--event={example.path.relative_to(ROOT)} --function_logical_id={function.logical_id} ",
        f"Found Lambda function with name='{function.logical_id}' and CodeUri='{function.asset}'\n",
    ):
        assert part in done.stderr
    if HAS_ENGINE:
        require_response(example, done)
    else:
        assert done.returncode == 1
        assert NO_ENGINE in done.stderr


def require_response(example: EventExample, done: "subprocess.CompletedProcess[str]") -> None:
    """Assert that a function in a container responded as the example states."""
    assert done.returncode == 0, done.stderr
    response = json.loads(done.stdout.splitlines()[-1])
    if isinstance(example.answers, int):
        assert response["statusCode"] == example.answers, done.stderr
    else:
        assert response.keys() == example.answers.keys(), done.stderr


def test_sam_gets_every_variable_of_a_running_function(service: Service, checkout: Checkout) -> None:
    resources = json.loads((checkout.files / sam.TEMPLATE).read_text(encoding="utf-8"))["Resources"]
    values = json.loads((checkout.files / sam.VARIABLES).read_text(encoding="utf-8"))
    for function in checkout.functions:
        declared = resources[function.logical_id]["Properties"]["Environment"]["Variables"]
        assert declared.keys() == values[function.logical_id].keys()
        assert service.aws.environment().keys() <= declared.keys()
        assert values[function.logical_id]["TABLE_NAME"]
