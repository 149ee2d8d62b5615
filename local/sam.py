"""`make sam-env`: prepares `sam local invoke` against the service that runs on this machine.

The program writes these files to `.local/sam`, as `samconfig.toml` expects:

- the packages of the functions as Lambda gets them, for this machine's processor
- `template.json` with these functions
- `env.json` with the variables of the running service's functions

The program also writes the sample data of the events in `events/` to the service's table. `--page` rewrites the commands
in docs/sam-local-invoke.md.
"""

import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from local import AUDIENCE, ROOT, STATE, LocalError, example_data, exit_status, running_service, write_private
from local.assembly import SynthesizedFunction, configuration, synthesised
from local.aws import ACCOUNT, Aws
from local.deployment import environment
from local.events import EVENTS, examples
from local.ports import FROM_CONTAINER, LOOPBACK
from local.toolbox import CDK
from shared.aws.dynamodb import Table

SAM = STATE / "sam"
TEMPLATE, VARIABLES = "template.json", "env.json"
"""Names of the files to which `samconfig.toml` refers."""
PROPERTIES = ("Architectures", "Handler", "MemorySize", "Runtime", "Timeout")
"""Names of the function properties that also apply in a container on this machine."""
UNUSED = "unused"
"""Value of properties that CloudFormation requires, but `sam local invoke` does not read."""
RESERVED_NAMES = "E3663"
"""Id of cfn-lint's rule against environment variables that Lambda reserves."""
PAGE = ROOT / "docs" / "sam-local-invoke.md"
BEGIN, END = "<!-- generated: commands -->\n", "<!-- end: commands -->\n"
ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


def main(arguments: list[str]) -> int:
    """Prepare the files. With `--page`, rewrite the commands in the document instead. Returns the exit status."""
    return exit_status(_write_page if arguments == ["--page"] else _prepare_all)


def _prepare_all() -> None:
    service = running_service()
    aws = Aws.of(service)
    print("Synthesising templates and packages (cdk synth) ...", flush=True)
    synthesise(aws, str(service["issuer"]), SAM)
    made = synthesised(SAM)
    prepare(SAM, made, aws, synthesised(Path(service["assembly"])))
    example_data.seed(Table(service["tableName"], aws.client("dynamodb")), aws.client("s3"), int(time.time()))
    first = examples_of("public", made)[0]
    print(f"{SAM.relative_to(ROOT)} is ready, with the data of the events. For example:\n\n{first}")


def prepare(
    folder: Path, functions: Sequence[SynthesizedFunction], aws: Aws, running: Iterable[SynthesizedFunction]
) -> None:
    """Write the template of `functions`, and the file with their environment variables.

    `functions` are packaged for AWS. `running` are the functions of the running service, from which the values of the
    environment variables are read.
    """
    deployed = {function.folder: function for function in running}
    own = {name: from_container(value, platform.system()) for name, value in aws.environment().items()}
    variables = {
        function.logical_id: {**configuration(aws, deployed[function.folder]).environment, **own}
        for function in functions
    }
    write_private(folder / VARIABLES, json.dumps(variables, indent=2) + "\n")
    (folder / TEMPLATE).write_text(json.dumps(template(functions, variables), indent=1) + "\n", encoding="utf-8")


def template(functions: Iterable[SynthesizedFunction], variables: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """Return one template with the functions of several stacks, without references to other resources.

    The template declares the variables of each function without values, because `sam local invoke` drops undeclared
    variables. The values are in `env.json`, which only the developer can read.
    """
    resources = {}
    for function in functions:
        resource = json.loads(function.template.read_text(encoding="utf-8"))["Resources"][function.logical_id]
        resources[function.logical_id] = {
            "Type": resource["Type"],
            "Properties": {name: resource["Properties"][name] for name in PROPERTIES}
            | {
                "Code": {"S3Bucket": UNUSED, "S3Key": UNUSED},
                "Role": f"arn:aws:iam::{ACCOUNT}:role/{UNUSED}",
                "Environment": {"Variables": dict.fromkeys(variables[function.logical_id], "")},
            },
            # SAM loads the code from this folder.
            "Metadata": {"aws:asset:path": str(function.asset), "aws:asset:property": "Code"},
        }
    # The rule is ignored, because the variables include credentials and a region. On AWS, only Lambda may set these.
    return {"Metadata": {"cfn-lint": {"config": {"ignore_checks": [RESERVED_NAMES]}}}, "Resources": resources}


def synthesise(aws: Aws, issuer: str, folder: Path) -> None:
    """Synthesise a deployment to AWS, and write its templates and packages to a folder. The packages are for this
    machine's processor. Raises LocalError if the synthesis fails, or if Lambda does not support the processor."""
    machine = platform.machine().lower()
    if machine not in ARCHITECTURES:
        raise LocalError(f"Lambda does not support the processor of this machine ({machine}).")
    context = {"architecture": ARCHITECTURES[machine], "issuer": issuer, "audience": AUDIENCE}
    command = [str(CDK), "synth", "--quiet", "--no-notices", "--output", str(folder)]
    for name, value in context.items():
        command += ["-c", f"{name}={value}"]
    done = subprocess.run(command, cwd=ROOT, env=environment(aws, STATE), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LocalError(f"The CDK could not synthesise the templates:\n{done.stderr.strip()}")


def from_container(endpoint: str, system: str) -> str:
    """Return the URL by which a container reaches a server on this machine's loopback.

    On Linux the container can share the host's network (`--docker-network host`). On other systems, the host has a
    special name in containers. `system` is the name of the system as in `platform.system()`.
    """
    return endpoint if system == "Linux" else endpoint.replace(LOOPBACK, FROM_CONTAINER)


def command(function: SynthesizedFunction, name: str) -> str:
    """Return the command that invokes a function with one of its events."""
    event = EVENTS.relative_to(ROOT) / function.folder / f"{name}.json"
    return f"sam local invoke {function.logical_id} -e {event}"


def examples_of(folder: str, functions: Iterable[SynthesizedFunction]) -> list[str]:
    """Return the commands for the events of the function in `folder`."""
    (function,) = (candidate for candidate in functions if candidate.folder == folder)
    return [command(function, example.name) for example in examples() if example.function == folder]


def commands(functions: Iterable[SynthesizedFunction]) -> str:
    """Return all commands in Markdown: a section per function, and each command with its expected result."""
    lines = []
    for function in functions:
        lines += [f"### {function.folder}", "", "```"]
        for example in examples():
            if example.function == function.folder:
                lines += [f"# {example.expected}", command(function, example.name)]
        lines += ["```", ""]
    return "\n".join(lines) + "\n"


def page(text: str, functions: Iterable[SynthesizedFunction]) -> str:
    """Return the page `text` with new commands between its marks. Raises ValueError if the marks are missing."""
    before, opened, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (opened and closed):
        raise ValueError(f"{PAGE.name} has no marks for its commands")
    return before + BEGIN + commands(functions) + END + after


def _write_page() -> None:
    if not SAM.exists():
        raise LocalError("There are no templates. Run `make sam-env` first.")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), synthesised(SAM)), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
