"""`make deploy`: checks the prerequisites of a deployment, adds missing indexes, then deploys all stacks.

DynamoDB builds one index of a table at a time, and CloudFormation rejects an update that adds two. Therefore the tool
first deploys the table's stack once per missing index, with the context `indexes`. After that, it deploys all other
changes. The same command resumes an interrupted deployment, because each run reads the existing indexes.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from local import ROOT
from local.toolbox import run_cdk, with_tools
from tools import ToolError
from tools.preflight import DEFAULT_ENV, require, require_ready, session

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import TableDescriptionTypeDef

SECONDS_BETWEEN = 5.0
"""Seconds between two requests for the state of an index that DynamoDB is building."""
KEY_MATERIAL = "AWS::SecretsManager::Secret"
STACK_TAG, LOGICAL_ID_TAG = "aws:cloudformation:stack-name", "aws:cloudformation:logical-id"
"""Keys of tags that CloudFormation adds to the resources of a stack."""
FAILED_CREATIONS = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
"""States of a stack after a failed first deployment. A stack in this state can only be deleted."""

GENERATED = "generated"
"""Value of the context `webhookSecret` for a secret with a generated name (infra/settings.py)."""


@dataclass(frozen=True)
class PlannedTable:
    """A table as the templates define it."""

    stack: str
    table: str
    indexes: tuple[str, ...]
    is_protected: bool
    """Whether deletion protection is enabled."""
    has_stream: bool


@dataclass(frozen=True)
class RetainedSecret:
    """A secret of the templates that CloudFormation retains if the stack is deleted."""

    stack: str
    id: str
    """Logical id in the stack."""
    name: str | None
    """Fixed name; `None` if CloudFormation generates one."""
    description: str


@dataclass(frozen=True, kw_only=True)
class DeployOptions:
    """Confirmations by the operator for changes that are usually mistakes. The tool rejects such a change without
    confirmation."""

    issuer: bool
    key: bool
    unprotected: bool
    no_recipient: bool
    drop_index: str | None


@dataclass(frozen=True)
class Status:
    """State of a stack after its last deployment."""

    name: str
    is_protected: bool
    """Whether termination protection is enabled. Not even the CDK can delete a protected stack."""


class Assembly:
    """CloudFormation templates of a deployment, from a folder that `Cdk.synthesise` wrote."""

    def __init__(self, folder: Path) -> None:
        artifacts = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
        self._templates: dict[str, dict[str, Any]] = {
            artifact["properties"].get("stackName", name): json.loads(
                (folder / artifact["properties"]["templateFile"]).read_text(encoding="utf-8")
            )
            for name, artifact in artifacts.items()
            if artifact["type"] == "aws:cloudformation:stack"
        }

    def tables(self) -> list[PlannedTable]:
        """Return all tables in the templates."""
        return [
            PlannedTable(
                stack,
                properties["TableName"],
                tuple(index["IndexName"] for index in properties.get("GlobalSecondaryIndexes", [])),
                any(replica.get("DeletionProtectionEnabled") for replica in properties["Replicas"]),
                "StreamSpecification" in properties,
            )
            for stack, template in self._templates.items()
            for properties in _properties(template, "AWS::DynamoDB::GlobalTable")
        ]

    def retained_secrets(self) -> list[RetainedSecret]:
        """Return the secrets of the templates that CloudFormation retains if their stacks are deleted."""
        return [
            RetainedSecret(
                stack, id_, resource["Properties"].get("Name"), resource["Properties"].get("Description", "")
            )
            for stack, template in self._templates.items()
            for id_, resource in template.get("Resources", {}).items()
            if resource["Type"] == KEY_MATERIAL and resource.get("DeletionPolicy", "").startswith("Retain")
        ]

    @property
    def templates(self) -> Mapping[str, dict[str, Any]]:
        """Templates by stack name."""
        return self._templates


def issuer(template: Mapping[str, Any]) -> str | None:
    """Return the URL of the token issuer that a template's API accepts. Returns `None` for a Cognito user pool, or if
    the template has no authorizer."""
    for properties in _properties(template, "AWS::ApiGatewayV2::Authorizer"):
        url = properties["JwtConfiguration"]["Issuer"]
        return url if isinstance(url, str) else None
    return None


def kms_key(template: Mapping[str, Any]) -> str | None:
    """Return the KMS key of a template's tables as a value of the context `kmsKey`.

    The result is an ARN, `create` for a key that the template defines, or `None` if the tables have no KMS key.
    """
    for properties in _properties(template, "AWS::DynamoDB::GlobalTable"):
        for replica in properties.get("Replicas", []):
            key = replica.get("SSESpecification", {}).get("KMSMasterKeyId")
            if key is not None:
                return key if isinstance(key, str) else "create"
    return None


def addresses(template: Mapping[str, Any]) -> set[str]:
    """Return the email addresses that a template subscribes to its topics."""
    return {
        properties["Endpoint"]
        for properties in _properties(template, "AWS::SNS::Subscription")
        if properties["Protocol"] == "email"
    }


def _properties(template: Mapping[str, Any], type_: str) -> list[dict[str, Any]]:
    resources = template.get("Resources", {}).values()
    return [resource["Properties"] for resource in resources if resource["Type"] == type_]


class Cdk:
    """The CDK of this checkout: synthesises templates in this process, and deploys them with the command line."""

    def __init__(self, region: str) -> None:
        self._region = region
        os.environ["PATH"] = with_tools(os.environ)["PATH"]  # in which the CDK's packages find Node

    def synthesise(self, contexts: Sequence[str], folder: str, *, is_packaged: bool = True) -> None:
        """Write the templates to a folder, and the functions' packages if `is_packaged`.

        `contexts` are values such as `env=prod`; the last value of a name applies. The first call starts CDK's
        JavaScript process. Later calls reuse it, and take a third of the time. Raises ToolError if the settings are
        invalid, or if a check or the packaging fails.
        """
        # Imported late, because `make deploy` first reports packages that are not installed.
        from app import new_app, synthesize
        from local.templates import NO_PACKAGES

        try:
            synthesize(
                new_app({**values_of(contexts), **({} if is_packaged else NO_PACKAGES)}, Path(folder)), self._region
            )
        except (ValueError, RuntimeError) as error:  # a wrong setting, a fault that cdk-nag found, or the packaging
            raise ToolError(f"The templates could not be synthesised: {error}") from error

    def deploy(self, folder: str, *arguments: str) -> None:
        """Deploy templates from a folder, with further arguments of `cdk deploy`. Raises ToolError if that fails."""
        if run_cdk(["deploy", "--app", folder, *arguments]) != 0:
            raise ToolError(
                "cdk deploy failed, for the reason above. Fix the cause and run the same command again to continue."
            )


class Account:
    """Reader of the deployed stacks, tables and secrets in an account and region."""

    def __init__(self, chosen: boto3.Session, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._cloudformation = chosen.client("cloudformation")
        self._dynamodb = chosen.client("dynamodb")
        self._secrets = chosen.client("secretsmanager")
        self._sleep = sleep

    def template(self, stack: str) -> dict[str, Any] | None:
        """Return the template of a stack's last deployment; `None` if the stack does not exist."""
        try:
            body = self._cloudformation.get_template(StackName=stack)["TemplateBody"]
        except ClientError as error:
            if error.response["Error"]["Code"] == "ValidationError":
                return None
            raise
        template: dict[str, Any] = json.loads(body) if isinstance(body, str) else body
        return template

    def status(self, stack: str) -> Status | None:
        """Return the state of a stack; `None` if the stack does not exist."""
        described = self._stack(stack)
        if described is None:
            return None
        return Status(described["StackStatus"], described.get("EnableTerminationProtection", False))

    def secrets(self, wanted: RetainedSecret) -> list[str]:
        """Return the ARNs of the existing secrets that correspond to `wanted`, a secret of the templates.

        If a secret with the fixed name of `wanted` exists, the result is only its ARN. Otherwise, the function finds
        the secrets of earlier deployments by the tags that CloudFormation added.
        """
        if wanted.name is not None:
            try:
                described: Mapping[str, Any] = self._secrets.describe_secret(SecretId=wanted.name)
            except self._secrets.exceptions.ResourceNotFoundException:
                pass
            else:
                if "DeletedDate" not in described:
                    return [str(described["ARN"])]
        pages = self._secrets.get_paginator("list_secrets").paginate(
            Filters=[{"Key": "description", "Values": [wanted.description]}]
        )
        tags = {STACK_TAG: wanted.stack, LOGICAL_ID_TAG: wanted.id}
        return [
            secret["ARN"]
            for page in pages
            for secret in page["SecretList"]
            if tags.items() <= {tag["Key"]: tag["Value"] for tag in secret.get("Tags", [])}.items()
        ]

    def is_protected(self, table: str) -> bool:
        """Return whether a table exists and has deletion protection."""
        described = self._describe(table)
        return described is not None and described.get("DeletionProtectionEnabled", False)

    def stream(self, table: str) -> str | None:
        """Return the ARN of a table's stream; `None` if the table does not exist or has no stream."""
        described = self._describe(table)
        if described is None or not described.get("StreamSpecification", {}).get("StreamEnabled", False):
            return None
        return described.get("LatestStreamArn")

    def known_stream(self, stack: str, table: str) -> str | None:
        """Return the ARN of a table's stream from the outputs of the stack `stack`; `None` if no output has it."""
        described = self._stack(stack)
        values = [output.get("OutputValue", "") for output in described.get("Outputs", [])] if described else []
        return next((value for value in values if f":table/{table}/stream/" in value), None)

    def indexes(self, table: str) -> dict[str, str] | None:
        """Return the states of a table's indexes, such as `CREATING`, by name of the index; `None` if the table does
        not exist."""
        described = self._describe(table)
        if described is None:
            return None
        indexes = described.get("GlobalSecondaryIndexes", [])
        # The embedded AWS creates indexes immediately, and reports no state.
        return {index["IndexName"]: index.get("IndexStatus", "ACTIVE") for index in indexes}

    def settled_indexes(self, table: str) -> list[str] | None:
        """Wait until all indexes of a table are active, and return their names; `None` if the table does not exist."""
        while (states := self.indexes(table)) is not None and set(states.values()) - {"ACTIVE"}:
            self._sleep(SECONDS_BETWEEN)
        return None if states is None else list(states)

    def _stack(self, stack: str) -> dict[str, Any] | None:
        try:
            described: dict[str, Any] = self._cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
            return described
        except ClientError as error:
            if error.response["Error"]["Code"] == "ValidationError":
                return None
            raise

    def _describe(self, table: str) -> "TableDescriptionTypeDef | None":
        try:
            return self._dynamodb.describe_table(TableName=table)["Table"]
        except self._dynamodb.exceptions.ResourceNotFoundException:
            return None


def objections(assembly: Assembly, account: Account, confirmed: DeployOptions) -> list[str]:
    """Return the reasons not to deploy these templates, as sentences. Empty if the deployment is safe."""
    reasons = _unwatched(assembly, account)
    for stack, wanted in assembly.templates.items():
        status = account.status(stack)
        if status is not None and status.name in FAILED_CREATIONS:
            reasons += _failed_creation(stack, status)
        elif status is not None and (template := account.template(stack)) is not None:
            reasons += _changed(template, wanted, confirmed)
    for table in assembly.tables():
        reasons += _of_table(table, account, confirmed)
    return reasons


def _unwatched(assembly: Assembly, account: Account) -> list[str]:
    """Return an objection if the operations stack is deployed, but is not in the templates.

    The operator must delete that stack first, because it imports outputs of other stacks. CloudFormation cannot remove
    an output while a stack imports it.
    """
    stacks = {f"{stack.rpartition('-')[0]}-Operations" for stack in assembly.templates} - assembly.templates.keys()
    return [
        f"The stack {stack} is deployed, but the environment has neither alarms nor a dashboard. Delete the stack, which has no data: "
        f"`aws cloudformation delete-stack --stack-name {stack}`, `aws cloudformation wait stack-delete-complete --stack-name {stack}`; "
        'or set "dashboard": true for the environment in cdk.json.'
        for stack in sorted(stacks)
        if account.status(stack) is not None
    ]


def _failed_creation(stack: str, status: Status) -> list[str]:
    # The CDK deletes a stack in this state, unless it is protected.
    if status.name == "ROLLBACK_COMPLETE" and not status.is_protected:
        return []
    named = f"--stack-name {stack}"
    return [
        f"The first deployment of {stack} failed ({status.name}). Delete the stack: "
        f"`aws cloudformation update-termination-protection --no-enable-termination-protection {named}`, "
        f"`aws cloudformation delete-stack {named}`, then see docs/environments.md, “When the first deployment fails”."
    ]


def _changed(deployed: Mapping[str, Any], wanted: Mapping[str, Any], confirmed: DeployOptions) -> list[str]:
    """Return objections to unconfirmed changes of the token issuer, the KMS key or the alarm recipients of a stack."""
    reasons = []
    if (
        _properties(wanted, "AWS::ApiGatewayV2::Authorizer")
        and not confirmed.issuer
        and issuer(deployed) != issuer(wanted)
    ):
        reasons.append(
            f"The API accepts tokens of {_named(issuer(deployed))}, and would accept only tokens of {_named(issuer(wanted))}. "
            'Set `issuer` and `audience` as before (in cdk.json, or CDK_ARGS="-c issuer=... -c audience=..."), or '
            "confirm with CDK_ARGS=--change-issuer."
        )
    key = kms_key(deployed)
    if key is not None and key != kms_key(wanted) and not confirmed.key:
        reasons.append(
            f"The data is encrypted with kmsKey {key}, and functions with kmsKey {kms_key(wanted) or 'none'} could not read it. "
            f'Set "kmsKey": "{key}" for the environment in cdk.json, or confirm with CDK_ARGS=--change-key.'
        )
    recipients = addresses(deployed)
    if recipients and not addresses(wanted) and not confirmed.no_recipient:
        reasons.append(
            f"Alarms would no longer be sent to {', '.join(sorted(recipients))}. Set alarmEmail for the environment in "
            'cdk.json, or confirm with CDK_ARGS="-c alarmEmail=".'
        )
    return reasons


def _of_table(table: PlannedTable, account: Account, confirmed: DeployOptions) -> list[str]:
    states = account.indexes(table.table)
    if states is None:
        return []
    reasons = []
    if account.status(table.stack) is None:
        reasons.append(
            f"The table {table.table} exists, but its stack {table.stack} does not. Import it with "
            f"`node_modules/.bin/cdk import {table.stack}`, deploy another environment (ENV=...), or delete the table if a "
            "failed first deployment left it."
        )
    if account.is_protected(table.table) and not table.is_protected and not confirmed.unprotected:
        reasons.append(
            f"The table {table.table} would lose its deletion protection. Set "
            '"deletionProtection": true for the environment in cdk.json, or confirm with '
            'CDK_ARGS="-c deletionProtection=false" (docs/environments.md, “The values”).'
        )
    if table.has_stream and account.stream(table.table) is None:
        reasons.append(
            f"The table {table.table} has no stream, because it was restored. Enable the stream as in "
            "docs/deleted-table.md, “If the stacks exist”."
        )
    surplus = [name for name in states if name not in table.indexes]
    if surplus and surplus != [confirmed.drop_index]:
        reasons.append(
            f"The table {table.table} would lose {', '.join(surplus)}. Deploy a release that keeps it, or, if no function "
            "queries it, remove one index at a time with CDK_ARGS=--drop-index=<name>."
        )
    elif surplus and set(table.indexes) - states.keys():
        reasons.append(
            f"The table {table.table} would lose {confirmed.drop_index} and gain other indexes in the same deployment. "
            "First deploy a release that only adds indexes."
        )
    return reasons


def _named(url: str | None) -> str:
    return "its own Cognito user pool" if url is None else url


def next_indexes(wanted: Sequence[str], present: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of the indexes that a table must have after its next update; `None` if no index is missing.

    The result has the names in `wanted` that are also in `present`, and the first name in `wanted` that is not.
    DynamoDB accepts only one new index per update, so `add_indexes` calls this function before each update.
    """
    missing = [name for name in wanted if name not in present]
    return tuple(name for name in wanted if name in present or name == missing[0]) if missing else None


def add_indexes(
    table: PlannedTable,
    others: Iterable[PlannedTable],
    account: Account,
    cdk: Cdk,
    contexts: Sequence[str],
    arguments: Sequence[str],
) -> None:
    """Add the missing indexes of a deployed table, with one update of the stack for each index.

    `others` are the other tables of the same stack. They keep their current indexes. If `table` does not exist yet, the
    function does nothing, because CloudFormation creates the table with all indexes. Raises ToolError if an update
    fails.
    """
    while (present := account.settled_indexes(table.table)) is not None:
        following = next_indexes(table.indexes, present)
        if following is None:
            return
        (new,) = set(following) - set(present)
        print(f"Adding the index {new} to {table.table}, which has {', '.join(present) or 'none'} ...", flush=True)
        indexes = [*following, *(name for other in others for name in _kept_indexes(other, account))]
        with tempfile.TemporaryDirectory(prefix="cdk.out.") as folder:
            cdk.synthesise([*contexts, f"indexes={','.join(indexes)}"], folder, is_packaged=False)
            cdk.deploy(folder, table.stack, "--exclusively", *arguments)
        if set(account.settled_indexes(table.table) or ()) != set(following):
            raise ToolError(
                f"The stack {table.stack} was deployed, but {table.table} does not have exactly the expected indexes with {new}."
            )
        print(f"The index {new} is complete.", flush=True)


def _kept_indexes(table: PlannedTable, account: Account) -> list[str]:
    present = account.settled_indexes(table.table)
    return [name for name in table.indexes if present is None or name in present]


def restored_stream(assembly: Assembly, account: Account) -> str | None:
    """Return the ARN of a restored table's stream; `None` if no table was restored since its last deployment.

    A restored table has a new stream. Without this ARN, CloudFormation would still use the stream that it recorded at
    the last update of the table.
    """
    for table in assembly.tables():
        known, present = account.known_stream(table.stack, table.table), account.stream(table.table)
        if known is not None and present is not None and present != known:
            return present
    return None


def kept_secret(assembly: Assembly, account: Account) -> str | None:
    """Return the value of the context `webhookSecret` that preserves the webhook secret; `None` if no value is needed.

    The result is GENERATED if the deployed secret has a generated name, and the templates give it a fixed name. With
    the fixed name, CloudFormation would create a new secret.

    The deployed stack may have no secret, although an earlier deployment left one. This is the case after a rollback to
    a release without webhooks. The result is then the ARN of the secret that was left.

    Raises ToolError if several secrets were retained. Also raises it if the context is GENERATED but the deployed
    secret has a fixed name, because the deployment would replace that secret.
    """
    for wanted in assembly.retained_secrets():
        resources = (account.template(wanted.stack) or {}).get("Resources", {})
        if wanted.id in resources:
            is_named = "Name" in resources[wanted.id]["Properties"]
            if is_named and wanted.name is None:
                raise ToolError(
                    f"webhookSecret {GENERATED} would replace the secret of webhooks of {wanted.stack}, which has a fixed name. "
                    "Remove webhookSecret from the environment in cdk.json."
                )
            return GENERATED if wanted.name is not None and not is_named else None
        left = account.secrets(wanted)
        if len(left) > 1:
            raise ToolError(
                f"Earlier deployments of {wanted.stack} left several secrets of webhooks: {', '.join(left)}. Set webhookSecret for the "
                "environment in cdk.json to the ARN of the secret that receivers use."
            )
        if left:
            return left[0]
    return None


def deploy(options: argparse.Namespace, more: Sequence[str], account: Account, cdk: Cdk) -> None:
    """Add missing indexes to the tables, then deploy all stacks.

    `more` are further arguments of `cdk deploy`. Raises ToolError if the deployment is unsafe or fails.
    """
    contexts = list(options.context)
    assembly = _synthesised(cdk, contexts, options.output)
    found = []
    if stream := restored_stream(assembly, account):
        print(f"The table was restored. Its stream is now {stream}.", flush=True)
        found.append(f"streamArn={stream}")
    if secret := kept_secret(assembly, account):
        if secret != GENERATED:
            print(f"Webhooks keep their secrets, which are derived from {secret}.", flush=True)
        found.append(f"webhookSecret={secret}")
    if found:
        contexts += found
        assembly = _synthesised(cdk, contexts, options.output)
    confirmed = DeployOptions(
        issuer=options.change_issuer,
        key=options.change_key,
        # A value on the command line is intended. A value in cdk.json may be an oversight.
        unprotected="deletionProtection=false" in options.context,
        no_recipient="alarmEmail=" in options.context,
        drop_index=options.drop_index,
    )
    require(objections(assembly, account, confirmed))
    tables = assembly.tables()
    for table in tables:
        others = [other for other in tables if other.stack == table.stack and other != table]
        add_indexes(table, others, account, cdk, contexts, more)
    # Deploy the templates that were checked above, instead of synthesising them again.
    cdk.deploy(options.output, "--all", *more)


def _synthesised(cdk: Cdk, contexts: Sequence[str], output: str) -> Assembly:
    cdk.synthesise(contexts, output)
    return Assembly(Path(output))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.deploying",
        description="Deploy all stacks of one environment. Other arguments are passed to `cdk deploy`.",
        allow_abbrev=False,
    )
    parser.add_argument("--env", default="", help="environment: dev, staging, prod, or another name (default: dev)")
    parser.add_argument(
        "-c", "--context", action="append", default=[], metavar="name=value", help="context value of the CDK app"
    )
    parser.add_argument("--yes", action="store_true", help="deploy without asking for confirmation")
    parser.add_argument("--output", metavar="FOLDER", help="folder of the templates (default: cdk.out/<environment>)")
    parser.add_argument("--change-issuer", action="store_true", help="let the API accept tokens of another issuer")
    parser.add_argument("--change-key", action="store_true", help="encrypt data with another KMS key than before")
    parser.add_argument("--drop-index", metavar="NAME", help="remove this index from the table")
    return parser


def chosen_environment(given: str, contexts: Sequence[str], configured: Mapping[str, Any]) -> str:
    """Return the name of the environment to deploy, from ENV, `-c env=` or cdk.json. Raises ToolError if ENV and `-c
    env=` differ."""
    by_context = [value.partition("=")[2] for value in contexts if value.startswith("env=")]
    names = {name for name in (given, *by_context) if name}
    if len(names) > 1:
        raise ToolError(f"ENV and CDK_ARGS name different environments: {' and '.join(sorted(names))}. Name one.")
    return names.pop() if names else str(configured.get("env") or DEFAULT_ENV)


def given_values(env: str, contexts: Sequence[str], configured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context values of the CDK app for an environment, from cdk.json and `-c name=value`.

    A value outside the environment's section overrides the value in the section, as in infra/settings.py.
    """
    environments = configured.get("environments", {})
    listed = environments.get(env, environments.get(DEFAULT_ENV, {}))
    return {**listed, **configured, **values_of(contexts)}


def values_of(contexts: Sequence[str]) -> dict[str, str]:
    """Return the values of context options by name, such as `{"env": "prod"}` for `["env=prod"]`. The last value of a
    name applies."""
    return dict(context.partition("=")[::2] for context in contexts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the prerequisites, and deploy. Returns the exit status, 0 if all stacks were deployed."""
    options, more = _parser().parse_known_args(arguments)
    configured = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    try:
        env = chosen_environment(options.env, options.context, configured)
        options.context = [*(value for value in options.context if not value.startswith("env=")), f"env={env}"]
        # Each environment has its own folder, so that environments can be deployed concurrently.
        options.output = options.output or str(ROOT / "cdk.out" / env)
        if options.yes:
            more = [*more, "--require-approval", "never"]
        is_answered = any(argument.startswith("--require-approval") for argument in more)
        where = require_ready(env, given_values(env, options.context, configured), is_answered=is_answered)
        print(f"Deploying {env} to {where}.", flush=True)
        if env not in configured.get("environments", {}):
            print(f"cdk.json does not list {env}, so the settings of {DEFAULT_ENV} apply.", flush=True)
        deploy(options, more, Account(session()), Cdk(where.rpartition("/")[2]))
    except ToolError as error:
        print(error, file=sys.stderr)
    except (BotoCoreError, ClientError) as error:
        print(f"AWS returned an error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("Stopped, but CloudFormation continues the update. Run the same command again.", file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
