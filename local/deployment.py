"""Deploys the CDK app to MiniStack, and never to AWS. Skips the deployment if nothing has changed since the last one."""

import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from local import AUDIENCE, CONSOLE_CLIENT, DEPLOYMENT_FILE, ROOT, LocalError, write_private
from local.aws import ACCOUNT, REGION, Aws
from local.toolbox import CDK, with_tools

API_STACK, JOBS_STACK, MEDIA_STACK = (f"VideoMetadata-dev-{part}" for part in ("Api", "Jobs", "Media"))
STACKS = ("VideoMetadata-dev-Data", MEDIA_STACK, JOBS_STACK, API_STACK)
BOOTSTRAP_STACK = "CDKToolkit"
DEPLOY_SECONDS = 900.0
"""Timeout of one command of the CDK, in seconds."""

INPUTS = (
    "app.py",
    "cdk.json",
    "console",
    "constraints.txt",
    "functions",
    "infra",
    "package.json",
    "requirements.txt",
    "shared",
)
"""Files and folders with the sources of a deployment. If one of them changes, the next run deploys again."""

FAST_ZIP = ROOT / "local" / "fast_zip.cjs"
"""Module of Node that speeds up the compression of packages."""

ReportProgress = Callable[[str], None]
"""Callback that receives each line of progress."""


@dataclass(frozen=True)
class Deployment:
    """Record of the last successful deploy, stored in `.local/deployment.json`."""

    fingerprint: str
    issuer: str
    api_id: str
    media_bucket: str
    transcode_queue_url: str

    @classmethod
    def load(cls, file: Path) -> "Deployment | None":
        """Return the record in the file; `None` if the file is missing or unreadable."""
        try:
            return cls(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    @classmethod
    def of(cls, outputs: Path, fingerprint: str, issuer: str, log: Path) -> "Deployment":
        """Return the record of a deploy from the file of `cdk deploy --outputs-file`.

        Raises LocalError if an output is missing.
        """
        return cls(
            fingerprint,
            issuer,
            api_id=_output(outputs, API_STACK, "ApiId", log),
            media_bucket=_output(outputs, MEDIA_STACK, "MediaBucket", log),
            transcode_queue_url=_output(outputs, JOBS_STACK, "TranscodeQueueUrl", log),
        )


def environment(aws: Aws, work: Path) -> dict[str, str]:
    """Return environment variables for the CDK command line that make it call MiniStack instead of AWS."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))}
    return with_tools(env) | {
        **aws.environment(),
        "AWS_EC2_METADATA_DISABLED": "true",
        # A deploy must never use a developer's real profile.
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "CDK_HOME": str(work / "cdk-home"),  # the CDK caches account numbers by access key
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        # The full validation runs in `make test`. Without it, synthesis takes half the time.
        "CDK_VALIDATION": "false",
        "PYTHONOPTIMIZE": "1",
        # Each command loads the same 30 MB of JavaScript.
        "NODE_COMPILE_CACHE": str(work / "node-cache"),
        "NODE_OPTIONS": f'--require "{FAST_ZIP}"',
        "NO_PROXY": "127.0.0.1,localhost",
    }


def context(aws: Aws, issuer: str) -> list[str]:
    """Return the arguments of the CDK command line that select the app's local target."""
    given = {"target": "local", "endpoint": aws.objects_endpoint, "issuer": issuer, "audience": AUDIENCE}
    given["consoleClient"] = CONSOLE_CLIENT
    return [argument for name, value in given.items() for argument in ("-c", f"{name}={value}")]


def fingerprint(*settings: str, root: Path = ROOT) -> str:
    """Return a hash of all inputs of a deployment: the sources below `root`, the interpreter and the settings."""
    digest = hashlib.sha256()
    for part in (sys.version, platform.platform(), *settings):
        digest.update(part.encode() + b"\0")
    for name in INPUTS:
        for file in _files(root / name):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{file.relative_to(root).as_posix()}\0{content}\0".encode())
    return digest.hexdigest()


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file


def deploy(aws: Aws, issuer: str, work: Path, report_progress: ReportProgress) -> Deployment:
    """Deploy the current sources to MiniStack if they changed, and return the deployment.

    `work` is the folder of the assembly, the log and the record. Use a separate folder for each MiniStack data folder.
    Raises LocalError with the log's path if the deploy fails.
    """
    record = work / DEPLOYMENT_FILE.name
    wanted = fingerprint(aws.endpoint, aws.objects_endpoint, issuer)
    last = Deployment.load(record)
    if last is not None and last.fingerprint == wanted and all(_is_deployed(aws, name) for name in STACKS):
        report_progress("Nothing has changed since the last deploy")
        return last

    record.unlink(missing_ok=True)  # until this deploy completes, the deployed state is unknown
    work.mkdir(parents=True, exist_ok=True)
    env = environment(aws, work)
    log = work / "deploy.log"
    log.unlink(missing_ok=True)
    if not _is_deployed(aws, BOOTSTRAP_STACK):
        report_progress("Preparing the account (cdk bootstrap)")
        cdk(["bootstrap", f"aws://{ACCOUNT}/{REGION}", "--app", ""], env, log, report_progress)
    outputs = work / "outputs.json"
    outputs.unlink(missing_ok=True)
    report_progress("Synthesising and packaging (cdk deploy)")
    arguments = ["deploy", "--all", "--require-approval", "never", "--concurrency", "2", "--progress", "events"]
    arguments += [*context(aws, issuer), "--output", str(work / "cdk.out"), "--outputs-file", str(outputs)]
    cdk(arguments, env, log, report_progress)
    deployed = Deployment.of(outputs, wanted, issuer, log)
    complete(aws, work / "cdk.out", deployed.api_id)
    build_index(aws)
    write_private(record, json.dumps(asdict(deployed), indent=2) + "\n")
    return deployed


def _output(outputs: Path, stack: str, name: str, log: Path) -> str:
    try:
        return str(json.loads(outputs.read_text(encoding="utf-8"))[stack][name])
    except (OSError, ValueError, KeyError) as error:
        raise LocalError(f"The stack {stack} has no output {name}. See {log}.") from error


def complete(aws: Aws, assembly: Path, api_id: str) -> None:
    """Apply the template settings that MiniStack's CloudFormation ignores. Idempotent."""
    switch_on_ttl(aws, assembly)
    allow_origins(aws, assembly, api_id)


def switch_on_ttl(aws: Aws, assembly: Path) -> None:
    """Enable TTL on the tables of an assembly, as its templates specify."""
    client = aws.client("dynamodb")
    for properties in _properties(assembly, "AWS::DynamoDB::GlobalTable"):
        if "TimeToLiveSpecification" in properties:
            client.update_time_to_live(
                TableName=properties["TableName"], TimeToLiveSpecification=properties["TimeToLiveSpecification"]
            )


def allow_origins(aws: Aws, assembly: Path, api_id: str) -> None:
    """Allow cross-origin requests from the origins in the API's template.

    MiniStack's CloudFormation stores the CORS configuration under names that its gateway does not read. Without this
    call, the gateway rejects all origins.
    """
    client = aws.client("apigatewayv2")
    for properties in _properties(assembly, "AWS::ApiGatewayV2::Api"):
        if "CorsConfiguration" in properties:
            client.update_api(ApiId=api_id, CorsConfiguration=properties["CorsConfiguration"])


def build_index(aws: Aws) -> None:
    """Invoke the indexer asynchronously. Until the first run of the indexer, searches return 503.

    Without this call, the schedule would invoke the indexer within a minute.
    """
    client = aws.client("lambda")
    for page in client.get_paginator("list_functions").paginate():
        for function in page["Functions"]:
            if function["Handler"] == "functions.indexer.handler.lambda_handler":
                client.invoke(FunctionName=function["FunctionName"], InvocationType="Event")


def _properties(assembly: Path, type_: str) -> Iterator[dict[str, Any]]:
    """Yield the properties of each resource of a CloudFormation type in an assembly."""
    for template in assembly.glob("*.template.json"):
        for resource in json.loads(template.read_text(encoding="utf-8"))["Resources"].values():
            if resource["Type"] == type_:
                yield resource["Properties"]


def _is_deployed(aws: Aws, stack: str) -> bool:
    client = aws.client("cloudformation")
    try:
        stacks = client.describe_stacks(StackName=stack)["Stacks"]
    except ClientError:
        return False
    return any(stack["StackStatus"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE") for stack in stacks)


def cdk(arguments: list[str], env: dict[str, str], log: Path, report_progress: ReportProgress) -> None:
    """Run the CDK command line. Appends the output to the log, and passes lines of progress to `report_progress`.

    Raises LocalError if the command fails or takes longer than DEPLOY_SECONDS.
    """
    command = [str(CDK), *arguments, "--ci", "--no-notices", "--no-color"]
    last: deque[str] = deque(maxlen=200)
    with log.open("a", encoding="utf-8") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # so that one signal also ends its child processes: the app and the packager
        )
        watchdog = threading.Timer(DEPLOY_SECONDS, _kill_group, [process.pid])
        watchdog.daemon = True
        watchdog.start()
        try:
            if process.stdout is not None:
                for line in process.stdout:
                    file.write(line)
                    file.flush()
                    if line.strip():
                        last.append(line.strip())
                    if "deploying..." in line or line.startswith("Bundling asset "):
                        report_progress(line.strip())
            status = process.wait()
        finally:
            watchdog.cancel()
            _kill_group(process.pid)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
    if status != 0:
        raise LocalError(f"cdk {arguments[0]} failed ({_reason(last)}); the log is {log}.")


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS raises PermissionError if only zombies are left
        os.killpg(group, signal.SIGKILL)


def _reason(lines: Iterable[str]) -> str:
    """Return the line of an output that most likely explains a failure, such as the message of an exception in the
    app."""
    output = list(lines)
    for pattern in (r"^[\w.]+(Error|Exception): ", r"_FAILED", "\u274c", r"(?i)\b(error|failed)\b"):
        for line in reversed(output):
            if re.search(pattern, line):
                return " ".join(line.split())[:300]
    return output[-1][:300] if output else "it printed nothing"
