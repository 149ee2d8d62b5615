"""The functions in what the CDK made, and the same ones as they were deployed to MiniStack."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from local import LocalError
from local.deployment import REGION

_HANDLER = ("functions.", ".handler.lambda_handler")


@dataclass(frozen=True)
class Synthesised:
    """A function in an assembly."""

    folder: str
    """Its folder below `functions/`."""
    handler: str
    stack: str
    logical_id: str
    template: Path
    asset: Path
    """The folder of its code."""


@dataclass(frozen=True)
class Configuration:
    """How a function was deployed."""

    name: str
    environment: Mapping[str, str]
    memory_mb: int
    timeout_seconds: int


def synthesised(assembly: Path) -> list[Synthesised]:
    """The service's functions in an assembly, by folder; raises LocalError when there are none."""
    functions = []
    for template in assembly.glob("*.template.json"):
        resources = json.loads(template.read_text(encoding="utf-8")).get("Resources", {})
        for logical_id, resource in resources.items():
            handler = resource.get("Properties", {}).get("Handler", "")
            if resource["Type"] == "AWS::Lambda::Function" and handler.startswith(_HANDLER[0]):
                folder = handler.removeprefix(_HANDLER[0]).removesuffix(_HANDLER[1])
                asset = assembly / resource["Metadata"]["aws:asset:path"]
                stack = template.name.removesuffix(".template.json")
                functions.append(Synthesised(folder, handler, stack, logical_id, template, asset))
    if not functions:
        raise LocalError(f"There is no function in {assembly}.")
    return sorted(functions, key=lambda function: function.folder)


def configuration(endpoint: str, function: Synthesised) -> Configuration:
    """How MiniStack runs a function of an assembly; raises LocalError when it was not deployed there."""
    try:
        resource = client("cloudformation", endpoint).describe_stack_resource(
            StackName=function.stack, LogicalResourceId=function.logical_id
        )["StackResourceDetail"]
        name = resource["PhysicalResourceId"]
        deployed = client("lambda", endpoint).get_function_configuration(FunctionName=name)
    except ClientError as error:
        raise LocalError(f"The function {function.folder} is not deployed to {endpoint} ({error}).") from error
    return Configuration(name, deployed["Environment"]["Variables"], deployed["MemorySize"], deployed["Timeout"])


def client(service: Any, endpoint: str) -> Any:
    """A client that reaches MiniStack and nothing else."""
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(proxies={}, connect_timeout=5, read_timeout=30, retries={"max_attempts": 2}),
    )


def reaching(endpoint: str) -> dict[str, str]:
    """The variables by which a function that runs outside of MiniStack finds it."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
    }
