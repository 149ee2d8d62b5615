"""Settings of a deployment that limit its throughput, read from the synthesized templates."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Template = Mapping[str, Any]

_HANDLER = ("functions.", ".handler.lambda_handler")


@dataclass(frozen=True)
class DeployedConsumer:
    """Function that a stream, a queue or a schedule invokes."""

    folder: str
    """Folder below `functions/`."""
    timeout: int
    """Timeout in seconds."""
    storage_mb: int
    """Size of `/tmp` in megabytes."""
    batch: int = 1
    """Maximum number of records or messages per invocation."""
    lanes: int = 0
    """Number of batches of one stream shard that are processed concurrently; 0 if the event source is not a stream."""
    window: int = 0
    """Maximum seconds that Lambda waits to fill a batch."""
    max_concurrency: int | None = None
    """Maximum number of concurrent invocations; `None` if the event source sets no maximum."""


@dataclass(frozen=True)
class Deployment:
    """Settings that limit the throughput of an environment."""

    throttle: int
    """Requests per second that the gateway accepts."""
    consumers: Mapping[str, DeployedConsumer]
    """All functions that a stream, a queue or a schedule invokes, by folder."""


def deployment(templates: Iterable[Template]) -> Deployment:
    """Return the settings in the templates of one environment. Raises ValueError if there is not exactly one API."""
    resources = {name: resource for template in templates for name, resource in template["Resources"].items()}

    def of_type(type_: str) -> dict[str, Any]:
        return {name: each["Properties"] for name, each in resources.items() if each["Type"] == type_}

    (throttle,) = (
        stage["DefaultRouteSettings"]["ThrottlingRateLimit"] for stage in of_type("AWS::ApiGatewayV2::Stage").values()
    )
    functions: dict[str, Template] = of_type("AWS::Lambda::Function")
    aliases = {name: functions[alias["FunctionName"]["Ref"]] for name, alias in of_type("AWS::Lambda::Alias").items()}

    def invoked(target: Any) -> Template:
        """Return the function to whose alias `target` refers. `target` is a property of an event source."""
        text = json.dumps(target)
        (function,) = (function for name, function in aliases.items() if f'"{name}"' in text)
        return function

    consumers = [
        _consumer(
            invoked(mapping["FunctionName"]),
            batch=mapping["BatchSize"],
            lanes=mapping.get("ParallelizationFactor", 0),
            window=mapping.get("MaximumBatchingWindowInSeconds", 0),
            max_concurrency=mapping.get("ScalingConfig", {}).get("MaximumConcurrency"),
        )
        for mapping in of_type("AWS::Lambda::EventSourceMapping").values()
    ]
    for rule in of_type("AWS::Events::Rule").values():
        consumers.extend(
            _consumer(invoked(target["Arn"]), max_concurrency=1)
            for target in rule.get("Targets", ())
            if any(f'"{name}"' in json.dumps(target["Arn"]) for name in aliases)
        )
    return Deployment(throttle, {consumer.folder: consumer for consumer in consumers})


def _consumer(function: Template, **source: Any) -> DeployedConsumer:
    folder = function["Handler"].removeprefix(_HANDLER[0]).removesuffix(_HANDLER[1])
    storage = function.get("EphemeralStorage", {}).get("Size", 512)
    return DeployedConsumer(folder, function["Timeout"], storage, **source)
