"""Tests of `python -m bench.performance`: all applications do the same work, and the ratios are correct."""

import json
import marshal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import catalogue
from bench.performance.__main__ import PAGE, PICTURE
from bench.performance.lab import Lab, running, start
from bench.performance.measure import Measurements
from bench.performance.report import PerformanceReport, quotients
from bench.performance.workload import BASE, COMMON, OURS, OVER_TLS, OWN, PEERS, Answer, BenchOperation, differences
from bench.stub import stub
from local import ROOT
from local.readme import filled

WITHOUT_FRAMEWORK = ("tutorial", "plain", "floor")
"""Peers that need only packages of the test environment. The benchmark installs FastAPI when it measures it."""
GET, POST, VIEW, LIST = COMMON


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Yield the endpoint URL of a running stub of DynamoDB."""
    with stub() as url:
        yield url


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Return a lab that runs the tests' Python interpreter and this checkout."""
    lab = Lab(Path(sys.executable), ROOT, tmp_path_factory.mktemp("bench"))
    lab.write_events()
    return lab


@pytest.fixture(scope="module")
def our_responses(lab: Lab, endpoint: str) -> Mapping[str, Answer]:
    """Return the responses of our application, by name of the operation."""
    with running(lab, OURS, endpoint) as app:
        return {operation.name: app.answer(operation) for operation in (*COMMON, *OWN)}


@pytest.mark.slow
@pytest.mark.parametrize("peer", WITHOUT_FRAMEWORK)
def test_peer_returns_everything_that_our_application_returns(
    peer: str, lab: Lab, endpoint: str, our_responses: Mapping[str, Answer]
) -> None:
    with running(lab, peer, endpoint) as app:
        for operation in COMMON:
            assert list(differences(operation, our_responses[operation.name], app.answer(operation))) == []


@pytest.mark.slow
@pytest.mark.parametrize("app", [OURS, BASE])
def test_measured_start_includes_the_first_response(app: str, lab: Lab, endpoint: str) -> None:
    assert start(lab, app, GET, endpoint) > 0


@pytest.mark.slow
def test_start_with_an_error_response_is_not_measured(tmp_path: Path, endpoint: str) -> None:
    unknown = GET.event() | {"routeKey": "GET /elsewhere"}
    (tmp_path / "plain.events").write_bytes(marshal.dumps({GET.name: (GET.module("plain"), unknown)}))
    with pytest.raises(AssertionError, match="plain returned 404 for GET"):
        start(Lab(Path(sys.executable), ROOT, tmp_path), "plain", GET, endpoint)


def test_every_peer_is_measured() -> None:
    assert set(PEERS) == {*WITHOUT_FRAMEWORK, "FastAPI"}


@pytest.mark.parametrize(
    ("operation", "items"),
    [(LIST, 50), *zip(OWN[:4], (25, 25, 50, 100), strict=True)],
    ids=lambda value: value.name if isinstance(value, BenchOperation) else "",
)
def test_measured_lists_are_full(operation: BenchOperation, items: int, our_responses: Mapping[str, Answer]) -> None:
    body = json.loads(our_responses[operation.name]["body"])
    assert len({item["videoId"] for item in body["items"]}) == items
    assert body.get("nextCursor") or operation.id == "batchGetVideos"


def answer_of(body: object, status: int = 200) -> Answer:
    return {"statusCode": status, "body": json.dumps(body)}


@pytest.mark.parametrize(
    ("theirs", "missing"),
    [
        (answer_of({"title": "A", "version": 3, "more": 1}), []),
        (answer_of({"title": "B", "version": 3}), ["title"]),
        (answer_of({"title": "A"}), ["version"]),
        (answer_of({}, 404), ["status 404 in place of 200: {}"]),
    ],
)
def test_field_missing_from_a_peer_response_is_reported(theirs: Answer, missing: list[str]) -> None:
    assert list(differences(GET, answer_of({"title": "A", "version": 3, "schemaVersion": 3}), theirs)) == missing


def test_shorter_list_of_a_peer_is_reported() -> None:
    ours = answer_of({"items": [{"title": "A"}], "nextCursor": "x"})
    with pytest.raises(ValueError, match="shorter"):
        list(differences(LIST, ours, answer_of({"items": [], "nextCursor": "x"})))


def test_ratios_are_computed_round_by_round() -> None:
    # The machine was ten times slower in the second round, which must not affect the ratio.
    assert quotients([1, 20, 3], [2, 40, 6]) == (0.5, 0.5, 0.5)
    assert quotients([1, 2, 3, 4, 5], [1] * 5) == (2, 3, 4)
    assert quotients([3], [2]) == (1.5, 1.5, 1.5)


def measured(instructions: float | None) -> PerformanceReport:
    """Return a report in which each figure of our application is half of the peers' figure."""
    measurements = Measurements("CPython 3.13.0")
    for app in (OURS, BASE, *PEERS):
        for operation in (*COMMON, OVER_TLS, *OWN):
            for state in ("warm", "cold"):
                measurement = measurements.of(state, app, operation.name)
                factor = 0.5 if app == OURS else 1.0
                measurement.seconds, measurement.instructions = [factor, factor], instructions and instructions * factor
    return PerformanceReport(measurements)


def test_tables_show_instructions_if_they_were_counted() -> None:
    counted, timed = measured(1e6).grids()["calls"].rows, measured(None).grids()["calls"].rows
    assert counted[0] == ["GET", "instructions", "0.50 M", *["0.50"] * 4]
    assert counted[1] == timed[0] == ["GET", "CPU time", "500.00 ms", *["0.50 (0.50-0.50)"] * 4]
    assert len(counted) == 2 * len(timed)


@pytest.mark.parametrize("instructions", [1e6, None])
def test_page_and_chart_contain_the_measured_figures(instructions: float | None) -> None:
    report = measured(instructions)
    sections = {name: grid.markdown() for name, grid in report.grids().items()}
    page = filled(PAGE.read_text(encoding="utf-8"), sections)
    assert all(content in page for content in sections.values())
    assert f"]({PICTURE.name})" in page
    picture = ElementTree.fromstring(report.picture())  # noqa: S314 -- made here
    texts = [element.text for element in picture.iter() if element.text]
    assert {"ours", *PEERS, GET.name, POST.name, VIEW.name, LIST.name} <= set(texts)
    assert texts.count("0.50") == 2 * len(COMMON)


def test_measured_import_writes_titles_with_their_related_items() -> None:
    assert catalogue.imported(20)["items"] > 3 * 20
