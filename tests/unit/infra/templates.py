"""Templates of deployments for the template tests: synthesized without packaging, and read as plain JSON."""

import json
import re
from pathlib import Path
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk.aws_cloudwatch_actions import SnsAction
from constructs import Node

from app import add_stacks
from infra.alarms import Alarms
from infra.encryption import Encryption
from infra.opensearch import SearchStack
from infra.settings import DeploymentSettings
from infra.topic import topic_for

ROOT = Path(__file__).resolve().parents[3]
FUNCTIONS = tuple(sorted(path.parent.name for path in (ROOT / "functions").glob("*/handler.py")))
LOCAL = {
    "target": "local",
    "endpoint": "http://127.0.0.1:4566",
    "issuer": "http://127.0.0.1:9000",
    "audience": "video-metadata",
    "consoleClient": "console",
}
ISSUER = {"issuer": "https://login.example/realms/films", "audience": "video-metadata,other"}
"""Settings of an issuer outside the deployment."""
EXISTING_KEY = "arn:aws:kms:eu-west-1:111122223333:key/12345678-90ab-cdef-1234-567890abcdef"
EXISTING_BUS = "arn:aws:events:eu-west-1:123456789012:event-bus/of/others"
EXISTING_DOMAIN = "domain:films=https://search-films-abc.eu-west-1.es.amazonaws.com"
EXISTING_STREAM = "arn:aws:dynamodb:us-east-1:123456789012:table/VideoMetadata/stream/2026-01-01T00:00:00.000"
BOUNDARY = "VideoMetadataBoundary"
ON_CALL = "oncall@example.com"

Json = dict[str, Any]


def settings_of(context: Json, region: str | None = None) -> DeploymentSettings:
    """Return the settings of a context, which overrides the values of cdk.json. Raises Misconfigured."""
    defaults = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    return DeploymentSettings.from_context(cdk.App(context=defaults | context).node, region)


def context_names() -> set[str]:
    """Return the names of the context values that the settings read."""

    class Recorder:
        """Node without any context."""

        def __init__(self) -> None:
            self.names: set[str] = set()

        def try_get_context(self, name: str) -> None:
            self.names.add(name)

    node = Recorder()
    DeploymentSettings.from_context(cast(Node, node))
    return node.names - {"environments"}


def synthesized(context: Json, outdir: Path) -> Json:
    """Synthesize a deployment, and return its stack names, their templates, and which stacks are protected."""
    defaults = json.loads((ROOT / "cdk.json").read_text())["context"]
    no_packaging: Json = {"aws:cdk:bundling-stacks": []}
    app = cdk.App(
        outdir=str(outdir),
        context=defaults | no_packaging | context,
        builtin_cloud_formation_validation=False,
    )
    add_stacks(app)
    app.synth()
    stacks = [child for child in app.node.children if isinstance(child, cdk.Stack)]
    return {
        "names": [stack.stack_name for stack in stacks],
        "templates": [json.loads((outdir / stack.template_file).read_text(encoding="utf-8")) for stack in stacks],
        "protected": [stack.stack_name for stack in stacks if stack.termination_protection],
    }


def synthesized_cluster(context: Json, outdir: Path) -> dict[str, Json]:
    """Synthesize the new OpenSearch cluster of a deployment and its alarms, without the other stacks.

    Returns the templates of the parts `Search` and `Operations`. This takes a tenth of the time of a whole deployment.
    """
    defaults = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = cdk.App(
        outdir=str(outdir), context=defaults | {"env": "prod"} | context, builtin_cloud_formation_validation=False
    )
    settings = DeploymentSettings.from_context(app.node)
    encryption = Encryption.chosen(cdk.Stack(app, "Data"), settings)
    search = SearchStack(app, settings.stack_name("Search"), settings=settings, encryption=encryption)
    operations = cdk.Stack(app, settings.stack_name("Operations"))
    topic = topic_for("cloudwatch.amazonaws.com", operations, settings)
    Alarms(operations, "Alarms", settings=settings, action=SnsAction(topic)).watch_cluster(search.cluster)
    app.synth()
    return {
        stack.stack_name.rpartition("-")[2]: json.loads((outdir / stack.template_file).read_text(encoding="utf-8"))
        for stack in (search, operations)
    }


class Templates:
    """Templates of one deployment."""

    def __init__(self, assembly: Json) -> None:
        self.names: list[str] = assembly["names"]
        self._parts: dict[str, Json] = {
            name.split("-")[-1]: template for name, template in zip(self.names, assembly["templates"], strict=True)
        }
        self.data, self.media = self._parts["Data"], self._parts["Media"]
        self.jobs, self.api = self._parts["Jobs"], self._parts["Api"]
        self.identity = self._parts.get("Identity")
        self.operations = self._parts.get("Operations")
        self.protected = {name.split("-")[-1] for name in assembly["protected"]}

    def parts(self) -> dict[str, Json]:
        """Return the template of every stack, by the last part of the stack's name."""
        return self._parts

    def all(self, type_: str) -> dict[str, Json]:
        """Return every resource of a type, by logical id."""
        resources = {name: resource for part in self._parts.values() for name, resource in part["Resources"].items()}
        return {name: resource for name, resource in resources.items() if resource["Type"] == type_}

    def one(self, type_: str, part: str = "") -> Json:
        """Return the only resource of a type, or the only one whose logical id contains `part`."""
        (resource,) = (resource for name, resource in self.all(type_).items() if part in name)
        return resource

    def function(self, folder: str) -> tuple[str, Json]:
        """Return the logical id and the properties of the function that runs a folder's handler."""
        (function,) = (
            (name, resource["Properties"])
            for name, resource in self.all("AWS::Lambda::Function").items()
            if resource["Properties"]["Handler"] == f"functions.{folder}.handler.lambda_handler"
        )
        return function

    def alias(self, folder: str) -> str:
        """Return the logical id of the alias through which a folder's function is called."""
        function = {"Ref": self.function(folder)[0]}
        (alias,) = (
            name
            for name, resource in self.all("AWS::Lambda::Alias").items()
            if resource["Properties"]["FunctionName"] == function
        )
        return alias

    def statements(self, folder: str) -> list[Json]:
        """Return the policy statements of a function's role."""
        role = self.function(folder)[1]["Role"]["Fn::GetAtt"][0]
        return [
            statement
            for policy in self.all("AWS::IAM::Policy").values()
            if {"Ref": role} in policy["Properties"]["Roles"]
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        ]

    def allowed(self, folder: str) -> set[str]:
        """Return the permissions of a function's role, one line per action and resource: `s3:GetObject Sources/*`.

        If a request must contain certain partition keys or a prefix, these follow. If attributes are restricted, the
        attributes that a request may name in addition to its keys follow after a colon. If a write may return values,
        these follow after ` -> `.
        """
        lines = set()
        for statement in self.statements(folder):
            assert statement["Effect"] == "Allow"
            conditions = {operator: dict(keys) for operator, keys in statement.get("Condition", {}).items()}
            attributes = set(conditions.pop("ForAllValues:StringEquals", {}).get("dynamodb:Attributes", ()))
            # `ForAllValues` alone is true for requests without any keys.
            if "ForAllValues:StringLike" in conditions:
                guarded = ["dynamodb:LeadingKeys", *(["dynamodb:Attributes"] if attributes else [])]
                assert conditions.pop("Null") == dict.fromkeys(guarded, "false")
            equal = conditions.pop("StringEqualsIfExists", {})
            # A read without an attribute list returns all attributes.
            reads = any(action.endswith("GetItem") for action in as_list(statement["Action"]))
            assert equal.pop("dynamodb:Select", None) == ("SPECIFIC_ATTRIBUTES" if attributes and reads else None)
            # A write with unrestricted return values may return the whole item.
            writes = {"dynamodb:UpdateItem", "dynamodb:PutItem", "dynamodb:DeleteItem"} & {
                *as_list(statement["Action"])
            }
            returning = as_list(equal.pop("dynamodb:ReturnValues", []))
            assert ("NONE" in returning) == bool(writes)
            assert equal == {}
            named = [
                to_text(part)
                for condition in conditions.values()
                for value in condition.values()
                for part in as_list(value)
            ]
            for action in as_list(statement["Action"]):
                for resource in as_list(statement["Resource"]):
                    line = " ".join([action, to_text(resource), *sorted(named)])
                    line += f": {' '.join(sorted(attributes - {'pk', 'sk'}))}" if attributes else ""
                    lines.add(" -> ".join([line, *returning[1:]]))
        return lines

    def route_target(self, route: Json) -> str:
        """Return the logical id of the alias that a route calls."""
        integration = route["Target"]["Fn::Join"][1][1]["Ref"]
        uri = self.api["Resources"][integration]["Properties"]["IntegrationUri"]
        return str(uri["Ref"])


def as_list(value: Any) -> list[Any]:
    """Return a value of a template as a list. A template may contain a single element in place of a list."""
    return value if isinstance(value, list) else [value]


def to_text(value: Any) -> str:
    """Return a resource or address of a template as one string, with references by their names in the CDK app."""
    if isinstance(value, str):
        return value
    ((function, argument),) = value.items()
    if function == "Fn::Join":
        text = str(argument[0]).join(to_text(part) for part in argument[1])
        return re.sub("^arn:AWS::Partition:(athena|glue):AWS::Region:AWS::AccountId:", r"\1:", text)
    name, attribute = argument if isinstance(argument, list) else (argument, "")
    imported = re.fullmatch(r".*:ExportsOutput(?:Ref|FnGetAtt)(\w+?)[0-9A-F]{8}(\w*?)(?:[0-9A-F]{8})?", name)
    if imported:
        name, attribute = imported.groups()
    name = re.sub(r"[0-9A-F]{8}$", "", name)
    return name if attribute in ("", "Arn") else f"{name}.{attribute}"
