"""`make sam-env`: makes ready for `sam local invoke` with the service that runs on this machine.

Writes to `.local/sam` the CDK's templates with the packages of the functions as Lambda would get them, for this
machine's processors, and `env.json` with the variables that the running service's functions have. Puts the world that
the events in `events/` speak of into its table. `--page` writes the commands in docs/sam-local-invoke.md anew.
"""

import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from local import AUDIENCE, ROOT, STATE, LocalError, exit_status, running_service, world, write_private
from local.assembly import Synthesised, configuration, synthesised
from local.aws import Aws
from local.deployment import environment
from local.events import EVENTS, examples
from local.ports import FROM_CONTAINER, LOOPBACK
from local.toolbox import CDK
from shared.aws.dynamodb import Table

SAM = STATE / "sam"
VARIABLES = SAM / "env.json"
PAGE = ROOT / "docs" / "sam-local-invoke.md"
BEGIN, END = "<!-- generated: commands -->\n", "<!-- end: commands -->\n"
ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


def main(arguments: list[str]) -> int:
    """Make ready, or with `--page` write the commands of what was made ready last; the exit status."""
    return exit_status(_write_page if arguments == ["--page"] else _make_ready)


def _make_ready() -> None:
    service = running_service()
    aws = Aws.of(service)
    print("Making the templates and packages (cdk synth) ...", flush=True)
    _synthesise(aws, str(service["issuer"]))
    variables = {name: from_container(value, platform.system()) for name, value in aws.environment().items()}
    made = synthesised(SAM)
    for template in {function.template for function in made}:
        template.write_text(declaring(template.read_text(encoding="utf-8"), variables), encoding="utf-8")
    running = {function.folder: function for function in synthesised(Path(service["assembly"]))}
    deployed = {function.logical_id: configuration(aws, running[function.folder]).environment for function in made}
    write_private(
        VARIABLES, json.dumps({name: {**own, **variables} for name, own in deployed.items()}, indent=2) + "\n"
    )
    world.seed(Table(service["tableName"], aws.client("dynamodb")), aws.client("s3"), int(time.time()))
    first = examples_of("public", made)[0]
    print(f"{SAM.relative_to(ROOT)} is ready, and so is the world of the events. For example:\n\n{first}")


def _synthesise(aws: Aws, issuer: str) -> None:
    machine = platform.machine().lower()
    if machine not in ARCHITECTURES:
        raise LocalError(f"Lambda has no processors like this machine's ({machine}).")
    context = {"architecture": ARCHITECTURES[machine], "issuer": issuer, "audience": AUDIENCE}
    command = [str(CDK), "synth", "--quiet", "--no-notices", "--output", str(SAM)]
    for name, value in context.items():
        command += ["-c", f"{name}={value}"]
    done = subprocess.run(command, cwd=ROOT, env=environment(aws, STATE), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LocalError(f"The CDK could not make the templates:\n{done.stderr.strip()}")


def from_container(endpoint: str, system: str) -> str:
    """Return the address at which a container finds a server on this machine's loopback.

    On Linux it can have the host's network (`--docker-network host`); elsewhere there is a name for the host.
    """
    return endpoint if system == "Linux" else endpoint.replace(LOOPBACK, FROM_CONTAINER)


def declaring(template: str, variables: Iterable[str]) -> str:
    """Return the template with these variables on each function, empty: `sam local invoke` drops those not declared.

    Their values are in `env.json`, which only its owner can read.
    """
    document = json.loads(template)
    for resource in document["Resources"].values():
        if resource["Type"] == "AWS::Lambda::Function":
            own = resource["Properties"].setdefault("Environment", {}).setdefault("Variables", {})
            own.update(dict.fromkeys(variables, ""))
    return json.dumps(document, indent=1)


def command(function: Synthesised, name: str) -> str:
    """The command that calls a function with one of its events."""
    template = f".local/sam/{function.template.name}"
    event = EVENTS.relative_to(ROOT) / function.folder / f"{name}.json"
    options = f"-t {template} -n .local/sam/env.json --docker-network host"
    return f"sam local invoke {function.logical_id} {options} -e {event}"


def examples_of(folder: str, functions: Iterable[Synthesised]) -> list[str]:
    """The commands of a function's events."""
    (function,) = (candidate for candidate in functions if candidate.folder == folder)
    return [command(function, example.name) for example in examples() if example.function == folder]


def commands(functions: Iterable[Synthesised]) -> str:
    """All commands in Markdown, by function, each with what it answers."""
    lines = []
    for function in functions:
        lines += [f"### {function.folder}", "", "```"]
        for example in examples():
            if example.function == function.folder:
                lines += [f"# {example.expected}", command(function, example.name)]
        lines += ["```", ""]
    return "\n".join(lines) + "\n"


def page(text: str, functions: Iterable[Synthesised]) -> str:
    """The page with its commands rewritten; raises ValueError when their marks are missing."""
    before, opened, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (opened and closed):
        raise ValueError(f"{PAGE.name} has no marks for its commands")
    return before + BEGIN + commands(functions) + END + after


def _write_page() -> None:
    if not SAM.exists():
        raise LocalError("There are no templates yet: run `make sam-env` first.")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), synthesised(SAM)), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
