"""Tests that the pages below docs/, and the examples in docstrings, agree with the code."""

import doctest
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from local import ROOT, readme
from local.testbed.background import BackgroundWork
from local.testbed.harness import Api, create_table, make_api
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.core import errors
from shared.core.errors import ServiceError
from shared.media.sandbox import Sandbox
from shared.openapi.problems import SCHEMAS
from shared.processing import job_states
from shared.processing.desired_jobs import input_hash
from shared.processing.messages import JobMessage, job_message, parse
from shared.processing.models import RenditionReport
from shared.schema import VIDEO

DOCS = ROOT / "docs"
QUEUE_PAGE = (DOCS / "transcode-queue.md").read_text(encoding="utf-8")
JOBS_PAGE = (DOCS / "jobs.md").read_text(encoding="utf-8")
MODULES_WITH_EXAMPLES = [
    file.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for folder in ("shared", "functions", "infra", "local", "tools")
    for file in sorted((ROOT / folder).rglob("*.py"))
    if re.search(r"^ *>>> ", file.read_text(encoding="utf-8"), re.MULTILINE)
]
PAGES = {
    str(page.relative_to(DOCS)): re.sub(
        r"<!-- generated: (.+?) -->.*?<!-- end: \1 -->", "", page.read_text("utf-8"), flags=re.DOTALL
    )
    for page in sorted(DOCS.rglob("*.md"))
}
"""Text of each page without its generated parts, by path below docs/."""
EXAMPLE: dict[str, Any] = json.loads(re.findall(r"```json\n(.*?)```", QUEUE_PAGE, re.DOTALL)[0])


def test_every_page_has_at_most_1200_words_and_all_pages_48000() -> None:
    words = {name: len(text.split()) for name, text in PAGES.items()}
    assert {name: count for name, count in words.items() if count > 1_200} == {}
    assert sum(words.values()) <= 48_000


@pytest.mark.parametrize("name", PAGES)
def test_sentences_of_a_page_have_at_most_25_words(name: str) -> None:
    text = re.sub(r"```.*?```|^(?:[#|!<]| {4}).*?$|\]\(.*?\)", "", PAGES[name], flags=re.DOTALL | re.MULTILINE)
    sentences = re.split(r"(?<=[.!?:])\**\)?\s+|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s", text)
    assert [sentence for sentence in sentences if len(sentence.split()) > 25] == []


def test_example_message_conforms_to_the_schema_and_equals_that_of_the_router() -> None:
    jsonschema_rs.Draft202012Validator(json.loads(readme.MESSAGE_SCHEMA.read_text(encoding="utf-8"))).validate(EXAMPLE)
    message = parse(JobMessage, EXAMPLE)
    assert message.inputHash == input_hash(EXAMPLE["input"])
    job_states: Any = {name: EXAMPLE[name] for name in ("videoId", "kind", "inputHash", "attempt", "input")}
    job_states |= {"updatedFor": EXAMPLE["correlationId"]}
    assert job_message(job_states, "media") == EXAMPLE


def test_example_reports_are_accepted() -> None:
    reports = re.findall(r"^report '(.+)'$", QUEUE_PAGE, re.MULTILINE)
    states = [RenditionReport.parse(body.encode()).state for body in reports]
    assert states == ["running", "done", "failed"]
    assert {json.loads(body)["inputHash"] for body in reports} == {EXAMPLE["inputHash"]}


def test_delays_between_attempts_are_documented() -> None:
    *first, last = [str(job_states.delay_before(attempt)) for attempt in range(2, job_states.LAST_ATTEMPT + 1)]
    assert f"waits {', '.join(first)} and {last} seconds" in JOBS_PAGE


def test_every_job_state_is_explained() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", JOBS_PAGE.partition("## States")[2].partition("## ")[0], re.MULTILINE)
    assert set(explained) == {*job_states.STATES, "withdrawn"}


def test_two_regions_with_last_writer_wins_lose_a_view_and_a_change(api: Api, table: Table) -> None:
    create_table(table.client, "Replica")
    replica = Table("Replica", table.client)
    regions = [api, make_api(replica)]
    video_id = api.publish()["videoId"]
    replicate(table, replica)

    for region, title in zip(regions, ("First", "Second"), strict=True):
        path = f"/v1/videos/{video_id}"
        version = region.get(path).json["version"]
        assert region.patch(path, {"title": title}, headers={"If-Match": f'"{version}"'}).status == 200
        assert region.post(f"{path}/views", user="bob").status == 200
    replicate(replica, table)

    video = api.get(f"/v1/videos/{video_id}").json
    assert (video["title"], video["viewCount"]) == ("Second", 1)


def replicate(source: Table, target: Table) -> None:
    """Overwrite the items of one region with the items of another, as last-writer-wins replication does."""
    for item in source.client.scan(TableName=source.name)["Items"]:
        target.client.put_item(TableName=target.name, Item=item)


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES_WITH_EXAMPLES)
def test_examples_in_docstrings_run(
    module: str, api: Api, table: Table, objects: Objects, background: BackgroundWork, tmp_path: Path
) -> None:
    """Run the examples of a module. They may use the variables in `names`. The video has no jobs yet. In an expected
    output, `...` matches any text."""
    video_id = api.create()["videoId"]
    background.attach(video_id)
    video = table.get(VIDEO.key(videoId=video_id))
    resources = {"objects": objects, "sandbox": Sandbox(), "jobs": background.jobs, "clock": background.clock}
    names = {"table": table, "video": video, "folder": tmp_path, **resources}
    results = doctest.testmod(import_module(module), extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert results.attempted
    assert not results.failed


PROBLEM_TYPES = [kind for kind in vars(errors).values() if isinstance(kind, type) and "slug" in vars(kind)]


@pytest.mark.parametrize("kind", PROBLEM_TYPES, ids=lambda kind: kind.slug)
def test_errors_page_has_a_section_with_a_valid_example_of_each_problem_type(kind: type[ServiceError]) -> None:
    page = (DOCS / "errors.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## {kind.slug}\n(.*?)(?=^## |^<!-- end)", page, re.DOTALL | re.MULTILINE)
    assert f"**{kind.status} {kind.title}.**" in section
    assert f"**What to do:** {kind.advice}" in section
    (example,) = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    jsonschema_rs.Draft202012Validator(SCHEMAS["Problem"]).validate(json.loads(example))
    assert json.loads(example)["type"] == errors.TYPE_PREFIX + kind.slug
