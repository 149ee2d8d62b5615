"""The flowcharts of permissions in docs/path-of-a-request.md and docs/path-of-a-change.md match the templates."""

import re
from itertools import product
from pathlib import Path

import pytest

from shared.routes import DEFAULT_FUNCTION, ROUTES
from tests.unit.infra.templates import Templates

DOCS = Path(__file__).parents[3] / "docs"
PAGE, CHANGES = ((DOCS / f"path-of-a-{name}.md").read_text(encoding="utf-8") for name in ("request", "change"))
REQUEST, FOLLOWS = re.findall(r"```mermaid\n(.*?)```", PAGE + CHANGES, re.DOTALL)

HTTP = {"console", *(route.function for route in ROUTES)}
Arrows = set[tuple[str, str]]

OUTSIDE: Arrows = {
    ("Client", "Gateway"),
    ("Client", "Sources"),
    ("Client", "Pictures"),
    ("TranscodeQueue", "Transcoder"),
    ("Transcoder", "Media"),
    ("webhooks", "Receiver"),
    ("totals", "Queues"),
    ("history", "Athena"),
    ("deliveries", "Receiver"),
    ("deliveries", "EventBus"),
}
"""Arrows that do not come from a role of the service's functions."""


def _drawn(picture: str) -> Arrows:
    """Return the arrows of a flowchart; `a & b --> c` has two arrows."""
    arrows = set()
    for line in picture.splitlines():
        if "-->" in line:
            # A name may be followed by its label: Table[("VideoMetadata")].
            sources, targets = (
                [node.split("[")[0].strip() for node in side.split(" & ")] for side in line.split("-->")
            )
            arrows |= set(product(sources, targets))
    return arrows


def _arrows(line: str, folder: str) -> Arrows:
    """Return the arrows of one permission: `sqs:SendMessage PurgeQueue` is an arrow to that queue."""
    action, target = line.split()[:2]
    target = target.partition("/")[0]
    match action.partition(":"):
        case "sqs", _, "ReceiveMessage":
            return {(target, folder)}
        case "sqs", _, "SendMessage":
            return {(folder, target)}
        case "dynamodb", _, "GetRecords":
            return {("Stream", folder)}
        case (("dynamodb" | "s3" | "secretsmanager"), _, _) if not target.endswith(".StreamArn"):
            return {(folder, target)}
        case _:
            return set()


def _of_roles(defaults: Templates, folders: set[str]) -> Arrows:
    return {arrow for folder in folders for line in defaults.allowed(folder) for arrow in _arrows(line, folder)}


@pytest.fixture
def background(defaults: Templates) -> set[str]:
    handlers = {function["Properties"]["Handler"] for function in defaults.all("AWS::Lambda::Function").values()}
    return {handler.split(".")[1] for handler in handlers} - HTTP


def test_request_flowchart_shows_every_permission_of_the_request_functions(defaults: Templates) -> None:
    routed = {("Gateway", function) for function in HTTP | {DEFAULT_FUNCTION}}
    assert _drawn(REQUEST) - OUTSIDE == routed | _of_roles(defaults, HTTP) | {("Pictures", "Media")}


def test_change_flowchart_shows_every_permission_of_the_background_functions(
    defaults: Templates, background: set[str]
) -> None:
    notified_by_s3, called_by_time = (
        {("Sources", "ArrivalsQueue")},
        {
            ("Schedule", "sweeper"),
            ("RankingsSchedule", "rankings"),
            ("IndexSchedule", "indexer"),
            ("CompactorSchedule", "compactor"),
        },
    )
    assert _drawn(FOLLOWS) - OUTSIDE == notified_by_s3 | called_by_time | _of_roles(defaults, background)


def test_cloudfront_reads_thumbnails_from_the_media_bucket(defaults: Templates) -> None:
    (origin,) = defaults.one("AWS::CloudFront::Distribution")["Properties"]["DistributionConfig"]["Origins"]
    assert "Media" in str(origin["DomainName"])


def test_every_outside_arrow_is_drawn() -> None:
    assert _drawn(REQUEST) | _drawn(FOLLOWS) >= OUTSIDE


def test_page_lists_all_stacks(prod: Templates) -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert set(listed) == {name.rsplit("-", 1)[1] for name in prod.names} | {"Costs", "Search"}
