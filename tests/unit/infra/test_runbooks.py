"""docs/runbooks has a page of the same structure for each kind of alarm, and its commands exist."""

import importlib
import json
import os
import re
import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import aws_cdk as cdk
import botocore.session
import pytest
from botocore import xform_name

from infra.settings import DeploymentSettings
from tests.unit.infra.page_tables import cluster_alarms
from tests.unit.infra.templates import ROOT, Json, Templates
from tools import __main__ as tools

JMESPATH = importlib.import_module("jmespath")  # a normal import would fail in mypy, because the package has no types
OPERATIONS = ROOT / "docs" / "operations.md"
RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
PAGES = [OPERATIONS, *RUNBOOKS]
HEADINGS = ["What it means", "How to investigate", "What to do", "When it is over"]

OWN_OPTIONS = {"query", "output", "cli-binary-format", "max-items", "no-enabled"}
"""Options of the AWS command line itself, and the negative form of a boolean option."""
FILES = {"ls": {"recursive"}, "cp": set(), "rm": set()}
"""Subcommands of `aws s3` with their options. `aws s3` is the only command without a matching API."""

RENAMED = {"deploy": "codedeploy"}
"""Commands of the AWS command line whose service has another name in botocore."""

AWS = re.compile(r"aws (?P<service>[a-z0-9-]+) (?P<operation>[a-z-]+)(?P<rest>(?: [^\n`]*)?)")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
each_runbook = pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)


@pytest.fixture(scope="module")
def described(encrypted: Templates, clusters: dict[str, dict[str, Json]]) -> dict[str, set[str]]:
    """Return the names of the alarms, without their environment, by path of the runbook."""
    names: dict[str, set[str]] = {}
    alarms = [alarm["Properties"] for alarm in encrypted.all("AWS::CloudWatch::Alarm").values()]
    for alarm in (*alarms, *(alarm for parts in clusters.values() for alarm in cluster_alarms(parts))):
        runbook = alarm["AlarmDescription"].partition("Runbook: ")[2]
        names.setdefault(runbook, set()).add(_name(alarm).partition(" ")[2])
    for watch in encrypted.all("AWS::CE::AnomalySubscription").values():
        name, _, runbook = watch["Properties"]["SubscriptionName"].partition(". Runbook: ")
        names.setdefault(runbook, set()).add(name.partition(": ")[2])
    return names


def _name(alarm: Json) -> str:
    """Return an alarm's name, with 7 in place of a version number."""
    name = alarm["AlarmName"]
    parts = [name] if isinstance(name, str) else name["Fn::Join"][1]
    return "".join(part if isinstance(part, str) else "7" for part in parts)


def _stack(templates: Templates, part: str) -> Json:
    return {"Media": templates.media, "Jobs": templates.jobs, "Api": templates.api}[part]


def test_every_alarm_has_a_runbook_and_every_runbook_an_alarm(described: dict[str, set[str]]) -> None:
    assert set(described) == {str(page.relative_to(ROOT)) for page in RUNBOOKS}


@each_runbook
def test_runbook_names_its_alarms(page: Path, described: dict[str, set[str]]) -> None:
    text = " ".join(page.read_text(encoding="utf-8").split())
    names = described[str(page.relative_to(ROOT))]
    if page.stem == "rolled-back":  # two alarms per function
        names = {name for name in names if " of videos " in name}
    assert {name for name in names if f"`{name}`" not in text} == set()


@each_runbook
def test_runbooks_have_the_same_structure(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    assert re.match(r"# [^\n]+\n\n", text)


@each_runbook
def test_runbook_has_commands_to_investigate_and_to_act(page: Path) -> None:
    parts = re.split(r"^## .*$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    queries, do = parts[2], parts[3]
    assert "```" in queries
    assert re.search(r"```|`(?:make|aws|python|node_modules)[ /]", do)


@cache
def _operations(service: str) -> dict[str, set[str]]:
    """Return the operations of a service with their options, as in the AWS command line."""
    model = botocore.session.get_session().get_service_model(service)
    operations = {}
    for operation in model.operation_names:
        shape = model.operation_model(operation).input_shape
        members = shape.members if shape else {}
        operations[xform_name(operation, "-")] = {xform_name(member, "-") for member in members}
    return operations


@each_page
def test_aws_commands_and_their_options_exist(page: Path) -> None:
    for command in AWS.finditer(page.read_text(encoding="utf-8")):
        documented = (
            FILES if command["service"] == "s3" else _operations(RENAMED.get(command["service"], command["service"]))
        )
        assert command["operation"] in documented, command[0]
        options = set(re.findall(r"(?<= )--([a-z-]+)", command["rest"]))
        assert options <= documented[command["operation"]] | OWN_OPTIONS, command[0]


@each_page
def test_jmespath_queries_in_runbooks_are_valid(page: Path) -> None:
    for quoted, unquoted in re.findall(r"""--query (?:"([^"]+)"|'([^']+)')""", page.read_text(encoding="utf-8")):
        JMESPATH.compile(re.sub(r"\$\d", "x", quoted or unquoted))


@each_page
def test_tool_commands_are_valid(page: Path) -> None:
    for command in re.findall(r"python -m tools ([^\n`]+)", page.read_text(encoding="utf-8")):
        arguments = shlex.split(command.replace("$ENV", "prod").replace("$TABLE", "VideoMetadata-prod"))
        tools._parser().parse_args(arguments)


@each_page
def test_resource_name_matches_one_resource(page: Path, prod: Templates) -> None:
    for part, start, type_ in re.findall(r"\bname (\w+) (\w+) (AWS::\w+::\w+)", page.read_text(encoding="utf-8")):
        resources = _stack(prod, part)["Resources"].items()
        assert len([id_ for id_, resource in resources if resource["Type"] == type_ and id_.startswith(start)]) == 1, (
            start
        )


@each_page
def test_log_name_matches_one_log_group(page: Path, prod: Templates) -> None:
    for part, start in re.findall(r"^troubles (\w+) (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE):
        resources = _stack(prod, part)["Resources"].items()
        groups = [
            id_ for id_, resource in resources if resource["Type"] == "AWS::Logs::LogGroup" and id_.startswith(start)
        ]
        assert len(groups) == 1, start


@each_page
def test_named_stack_output_exists(page: Path, prod: Templates) -> None:
    for part, name in re.findall(r"\boutput ([A-Z]\w+) ([A-Z]\w+)", page.read_text(encoding="utf-8")):
        assert name in _stack(prod, part)["Outputs"]


@each_page
def test_page_that_uses_a_shell_function_links_to_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    introduction = text.partition("## What it means")[0]
    for name in ("name", "output", "troubles", "days_ago"):
        used = re.search(rf"(?:\$\(|^){name} [A-Z0-9]", text, re.MULTILINE)
        assert (
            page == OPERATIONS
            or not used
            or (f"`{name}`" in introduction and "(../operations.md#names)" in introduction)
        ), name


@each_page
def test_page_does_not_change_values_on_the_command_line(page: Path) -> None:
    """A value given with `-c` applies to one deployment only, and the next deployment reverts it."""
    for command in re.findall(r"make deploy[^`\n]*", page.read_text(encoding="utf-8")):
        assert command in ("make deploy", "make deploy ENV=prod")


@each_page
def test_suggested_context_value_exists_and_is_valid(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    prod = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]["environments"]["prod"]
    for values in re.findall(r'`("\w+": [^`]+)`', text):
        context = {"env": "prod", "environments": {"prod": prod | json.loads(f"{{{values}}}")}}
        DeploymentSettings.from_context(cdk.App(context=context).node)


@each_runbook
def test_page_that_changes_a_value_states_where_and_how_to_deploy(page: Path) -> None:
    for part in re.split(r"\n- ", page.read_text(encoding="utf-8")):
        part = " ".join(part.split())
        if re.search(r'`"\w+": ', part):
            assert "under `environments.prod` in `cdk.json`" in part
            assert "`make deploy ENV=prod`" in part


@each_page
def test_dates_are_computed_with_portable_commands(page: Path) -> None:
    """`date` computes other days with `-d` on Linux, and with `-v` on macOS."""
    assert set(re.findall(r"\bdate [^)]*", page.read_text(encoding="utf-8"))) <= {"date +%s"}


@pytest.fixture(scope="module")
def functions() -> str:
    """Return the shell functions that the operator pastes into a shell."""
    (block,) = re.findall(r"```bash\n(.*?)```", OPERATIONS.read_text(encoding="utf-8"), re.DOTALL)
    return str(block)


def _shell(script: str, path: Path) -> str:
    """Run a script with a folder first in PATH, and return its output."""
    environment = {"PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-euc", script], check=True, capture_output=True, text=True, env=environment)
    return done.stdout


@pytest.mark.parametrize(
    "pages",
    ["Router-1", "\nRouter-1", "None\nRouter-1\nNone"],
    ids=["only page", "after an empty page", "between pages with None"],
)
def test_shell_function_finds_a_resource_on_any_page(functions: str, pages: str, tmp_path: Path) -> None:
    """A stack's resources fill several responses, and the AWS command line applies `--query` to each response."""
    aws = tmp_path / "aws"
    aws.write_text(f"#!/bin/sh\ncat <<'END'\n{pages}\nEND\n")
    aws.chmod(0o755)
    assert _shell(f"{functions}\nname Jobs Router AWS::Lambda::Function", tmp_path) == "Router-1\n"


def test_shell_function_searches_all_resources_of_a_stack(functions: str) -> None:
    """DescribeStackResources returns at most a hundred resources, so the shell function must use a paginated
    operation. The command line reads all pages of it."""
    (service, operation) = re.findall(r"^name\(\) \{ aws (\S+) (\S+)", functions, re.MULTILINE)[0]
    paginated = botocore.session.get_session().get_paginator_model(service)
    operations = botocore.session.get_session().get_service_model(service).operation_names
    (called,) = (name for name in operations if xform_name(name, "-") == operation)
    assert paginated.get_paginator(called)["result_key"] == "StackResourceSummaries"


def test_shell_function_counts_days_back_over_months(functions: str, tmp_path: Path) -> None:
    before = datetime.now(UTC)
    printed = _shell(f"{functions}\ndays_ago 40", tmp_path).strip()
    now = datetime.now(UTC)
    assert printed in {f"{time.date() - timedelta(days=40)}" for time in (before, now)}
