"""Finds the functions in a CDK assembly, and reads the deployed configuration of a function from MiniStack."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from botocore.exceptions import ClientError

from local import LocalError
from local.aws import Aws

_HANDLER = ("functions.", ".handler.lambda_handler")


@dataclass(frozen=True)
class SynthesizedFunction:
    """A Lambda function in a CDK assembly."""

    folder: str
    """Name of the function's folder in `functions/`."""
    handler: str
    stack: str
    logical_id: str
    template: Path
    asset: Path
    """Folder with the function's packaged code."""


@dataclass(frozen=True)
class FunctionConfiguration:
    """Configuration of a function that is deployed to MiniStack."""

    name: str
    environment: Mapping[str, str]
    memory_mb: int
    timeout_seconds: int


def synthesised(assembly: Path) -> list[SynthesizedFunction]:
    """Return the service's functions in an assembly, sorted by folder. Raises LocalError if there are none."""
    functions = []
    for template in assembly.glob("*.template.json"):
        resources = json.loads(template.read_text(encoding="utf-8")).get("Resources", {})
        for logical_id, resource in resources.items():
            handler = resource.get("Properties", {}).get("Handler", "")
            if resource["Type"] == "AWS::Lambda::Function" and handler.startswith(_HANDLER[0]):
                folder = handler.removeprefix(_HANDLER[0]).removesuffix(_HANDLER[1])
                asset = assembly / resource["Metadata"]["aws:asset:path"]
                stack = template.name.removesuffix(".template.json")
                functions.append(SynthesizedFunction(folder, handler, stack, logical_id, template, asset))
    if not functions:
        raise LocalError(f"The cloud assembly {assembly} has no functions.")
    return sorted(functions, key=lambda function: function.folder)


def configuration(aws: Aws, function: SynthesizedFunction) -> FunctionConfiguration:
    """Return the configuration of a function on MiniStack. Raises LocalError if the function is not deployed there."""
    try:
        resource = aws.client("cloudformation").describe_stack_resource(
            StackName=function.stack, LogicalResourceId=function.logical_id
        )["StackResourceDetail"]
        name = resource["PhysicalResourceId"]
        deployed = aws.client("lambda").get_function_configuration(FunctionName=name)
    except ClientError as error:
        raise LocalError(f"The function {function.folder} is not deployed to {aws.endpoint} ({error}).") from error
    return FunctionConfiguration(
        name, deployed["Environment"]["Variables"], deployed["MemorySize"], deployed["Timeout"]
    )
