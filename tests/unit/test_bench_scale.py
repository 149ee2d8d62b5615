"""Tests of `python -m bench.scale`: the partitions that reach a limit first, their loads, and the figures in the
documentation."""

import re
from datetime import date

import pytest

from bench.cost.bill import Workload
from bench.cost.run import MeasuredRequest
from bench.scale.load import is_change, is_http
from bench.scale.model import Ceiling, ScaleRow, lowest
from bench.scale.page import PAGE, number, use
from bench.scale.partitions import PartitionUse, Spread, SpreadUse, spread_of
from bench.scale.target import PublishedLimits, Target
from local import ROOT
from local.access_patterns import ACCESS_PATTERNS
from local.testbed.units import CapacityUnits
from shared.schema import AUDIT_TABLE_NAME, LANES, MAX_VIEW_SHARDS, SHARDS, TABLE_NAME

TEXT = PAGE.read_text(encoding="utf-8")


def test_page_has_a_row_for_each_access_pattern() -> None:
    table = TEXT.partition("<!-- generated: patterns -->")[2].partition("<!-- end")[0]
    assert re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE) == [pattern.request for pattern in ACCESS_PATTERNS]


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        (TABLE_NAME, "VIDEO#1", ("VIDEO#1", "VIDEO#{videoId}", 1, 1)),
        (TABLE_NAME, "VIEWS#1#0", ("VIEWS#1", "VIEWS#{videoId}", 1, MAX_VIEW_SHARDS)),
        (TABLE_NAME, "VIEWS#1", ("VIEWS#1", "VIEWS#{videoId}", 1, 1)),
        (TABLE_NAME, "RATINGS#1#17", ("RATINGS#1", "RATINGS#{videoId}", LANES, LANES)),
        (TABLE_NAME, "INDEX", ("INDEX", "INDEX", 1, 1)),
        (AUDIT_TABLE_NAME, "CHANGES#3", ("CHANGES", "CHANGES", SHARDS, SHARDS)),
        ("RelationIndex", "FEED#2", ("FEED", "FEED", SHARDS, SHARDS)),
        ("RelationIndex", "TAG#t#2", ("TAG#t", "TAG#...", SHARDS, SHARDS)),
        ("RelationIndex", "PERSON#p#0", ("PERSON#p", "PERSON#...", 1, 1)),
        ("RelationIndex", "TAGS#0", ("TAGS", "TAGS", 1, 1)),
        ("UserIdIndex", "alice", ("alice", "{userId}", 1, 1)),
        ("YearIndex", "c#1#1993", ("c#1993", "{category}#{releaseYear}", SHARDS, SHARDS)),
    ],
)
def test_partitions_of_a_list_or_counter_belong_together(
    place: str, value: str, expected: tuple[str, str, int, int]
) -> None:
    assert spread_of((place, value)) == Spread(place, *expected)


def test_partition_of_no_entity_is_an_error() -> None:
    with pytest.raises(ValueError, match="belongs to no entity"):
        spread_of((TABLE_NAME, "OTHER#1"))


def test_partitions_with_a_constant_key_are_shared_by_all_requests() -> None:
    shared = {value: spread_of(("RelationIndex", f"{value}#0")).is_shared for value in ("FEED", "TAG#t")}
    assert shared == {"FEED": True, "TAG#t": False}


def test_first_partition_is_the_one_with_the_lowest_rate() -> None:
    request = MeasuredRequest(
        *("r", CapacityUnits(), (), CapacityUnits(), 0, 0, 0, 0, 0),
        read_from={("RelationIndex", "FEED#0"): 0.5, ("RelationIndex", "FEED#1"): 0.5, (TABLE_NAME, "VIDEO#1"): 1},
        written_to={(TABLE_NAME, "VIDEO#1"): 4, (TABLE_NAME, "VIEWS#1#0"): 1},
    )
    partitions = PartitionUse.of(request)
    first, shared = partitions.first(lambda _: True), partitions.first(lambda spread: spread.is_shared)
    assert first
    assert shared
    assert (first[:2], first[2].name) == ((250, "writes"), "VIDEO#1")
    assert (shared[:2], shared[2].name) == ((3_000 * SHARDS / 1.0, "reads"), "FEED")
    assert partitions.places[TABLE_NAME] == SpreadUse(1, 5)
    assert partitions.repeated("VIDEO#{videoId}", 1_000).places[TABLE_NAME] == SpreadUse(1_000, 5)
    assert PartitionUse().first(lambda _: True) is None


def test_row_states_the_use_of_the_lowest_limit() -> None:
    first = lowest([Ceiling("quota", 100, ""), Ceiling("setting", 50, "")])
    assert ScaleRow("r", "calls", 200, first).use == 4
    assert (use(4), use(1), use(0.25), use(0.004), number(0)) == ("**x4**", "**x1**", "25 %", "0.4 %", "0")


def test_views_and_batch_reads_are_not_changes() -> None:
    requests = [pattern.request for pattern in ACCESS_PATTERNS]
    changes = {request for request in requests if is_change(request)}
    assert {request for request in requests if is_http(request) and not request.startswith("GET")} - changes == {
        "POST /v1/views",
        "POST /v1/videos/batch-get",
        "POST /v1/videos/{videoId}/views",
        "POST /v1/videos/{videoId}/views (Idempotency-Key)",
        "PUT /v1/videos/{videoId}/rating",
        "DELETE /v1/videos/{videoId}/rating",
    }
    assert "S3 notifies: arrivals" in changes


def test_each_published_limit_has_a_page_and_a_date() -> None:
    limits = PublishedLimits.load()
    assert date.fromisoformat(limits.date)
    assert all(url.startswith("https://docs.aws.amazon.com/") for url in limits.urls.values())
    assert all(f"| [`{name}`]({url}) |" in TEXT for name, url in limits.urls.items())


def test_target_has_the_figures_of_the_pages_that_it_names() -> None:
    figures = Target.load().figures
    pages = {name: (ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in ("costs", "limits", "search-index")}
    for job, figure in (("probe", "probe_s"), ("storyboard", "thumbnails_s")):
        assert re.search(rf"^\| {job} \|.* \| {figures[figure]:g} s \|", pages["costs"], re.MULTILINE)
    assert f"process about {figures['audited_per_shard']:.0f} changes a second per shard" in pages["limits"]
    assert f"A video takes {figures['index_kb']:g} KB of the index" in pages["search-index"]


def test_target_names_a_curve_of_the_workload() -> None:
    target, workload = Target.load(), Workload.load()
    assert target.curve in workload.curves
