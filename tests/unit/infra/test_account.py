"""The policies and figures in docs/deployment.md match the templates."""

import json
import re
from typing import Any

import pytest

from tests.unit.infra.templates import BOUNDARY, ROOT, Json, Templates, as_list
from tools import preflight

PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
DEPLOY, LIMITING = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL))

PREFIXES = {
    "apigatewayv2": "apigateway",
    "cognito": "cognito-idp",
    "opensearchserverless": "aoss",
    "opensearchservice": "es",
}
"""IAM prefixes of services whose resource types use another prefix."""

NOT_ROLES = {
    "AWS::IAM::Policy": "part of a role",
    "AWS::IAM::ManagedPolicy": "allowed by name, in its own statement",
    "AWS::IAM::Role": "allowed by name, below their own statement",
}


def _actions(policy: Json) -> list[str]:
    return [action for statement in policy["Statement"] for action in as_list(statement["Action"])]


def _is_allowed(action: str, by: list[str]) -> bool:
    return action in by or f"{action.partition(':')[0]}:*" in by


@pytest.fixture
def all_templates(encrypted: Templates, other_values: Templates, snapstart: Templates) -> list[Templates]:
    """Return deployments with all kinds of permissions, and all types of resources except an OpenSearch domain."""
    return [encrypted, other_values, snapstart]


def test_execution_policy_allows_every_service_that_has_resources(
    all_templates: list[Templates], clusters: dict[str, dict[str, Json]]
) -> None:
    parts = [*clusters["domain"].values(), *(part for each in all_templates for part in each.parts().values())]
    types = {resource["Type"] for part in parts for resource in part["Resources"].values()}
    services = {name.split("::")[1].lower() for name in types - NOT_ROLES.keys()}
    allowed = {action.partition(":")[0] for action in _actions(DEPLOY)} - {"iam", "ssm"}
    assert {PREFIXES.get(service, service) for service in services} == allowed


def test_execution_policy_creates_roles_only_within_the_boundary(all_templates: list[Templates]) -> None:
    creating = [each for each in DEPLOY["Statement"] if "iam:CreateRole" in each["Action"]]
    (condition,) = [statement["Condition"]["StringEquals"] for statement in creating]
    assert condition["iam:PermissionsBoundary"].endswith(f":policy/{BOUNDARY}")
    stacks = {name for templates in all_templates for name in templates.names}
    # CloudFormation begins the generated name of a role with the stack's name.
    assert {name.partition("-")[0] for name in stacks} == {"VideoMetadata"}
    roles = [role["Properties"] for templates in all_templates for role in templates.all("AWS::IAM::Role").values()]
    assert not [role for role in roles if "RoleName" in role or "ManagedPolicyArns" in role]


def test_boundary_in_the_context_is_attached_to_every_role(other_values: Templates, encrypted: Templates) -> None:
    roles = [role["Properties"] for role in other_values.all("AWS::IAM::Role").values()]
    assert {json.dumps(role["PermissionsBoundary"]).count(f":policy/{BOUNDARY}") for role in roles} == {1}
    assert not [
        role for role in encrypted.all("AWS::IAM::Role").values() if "PermissionsBoundary" in role["Properties"]
    ]
    assert f'"@aws-cdk/core:permissionsBoundary": {{ "name": "{BOUNDARY}" }}' in PAGE


def test_boundary_allows_the_permissions_of_the_roles_and_no_other_service(all_templates: list[Templates]) -> None:
    documents: list[Any] = []
    for templates in all_templates:
        documents += [policy["Properties"]["PolicyDocument"] for policy in templates.all("AWS::IAM::Policy").values()]
        roles = templates.all("AWS::IAM::Role").values()
        documents += [policy["PolicyDocument"] for role in roles for policy in role["Properties"].get("Policies", [])]
    needed = {action for document in documents for action in _actions(document)}
    allowed = _actions(LIMITING)
    assert {action for action in needed if not _is_allowed(action, allowed)} == set()
    assert {action.partition(":")[0] for action in allowed} == {action.partition(":")[0] for action in needed}


def test_page_states_how_many_functions_run_at_a_time(prod: Templates) -> None:
    mappings = [mapping["Properties"] for mapping in prod.all("AWS::Lambda::EventSourceMapping").values()]
    lanes = [mapping["ParallelizationFactor"] for mapping in mappings if "ParallelizationFactor" in mapping]
    audit, router = sorted(lanes)
    assert f"| workers of the queues, at most | {preflight.WORKERS_AT_A_TIME} |" in PAGE
    assert f"{router} of `stream_router` and {audit} of `audit` | {4 * (router + audit)} |" in PAGE
    assert f"| scheduled functions | {len(prod.all('AWS::Events::Rule'))} |" in PAGE
    assert f"If the limit is below {preflight.ENOUGH}, `make deploy` prints a warning" in PAGE
