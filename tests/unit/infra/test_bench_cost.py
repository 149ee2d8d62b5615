"""DynamoDB's cost rules, the cost column of the access patterns, and the cost page."""

import json
import re
import shutil
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.cost import __main__ as command
from bench.cost.background import FIFO_QUEUES, FOLLOWED, RENDITIONS, BackgroundCost, follow, measure_background
from bench.cost.bill import (
    DAYS_A_MONTH,
    MILLION,
    OPTIONAL_METRICS,
    PRICES,
    SIGN_IN,
    SNAPSHOTS,
    SWEEPER,
    InvalidWorkload,
    Prices,
    Workload,
    after,
    background_name,
    break_even_use,
    capacity_modes,
    idle,
    month,
    search_floors,
    sign_in,
    storage,
    units_cost,
)
from bench.cost.naive import LISTS
from bench.cost.page import PAGE, updated
from bench.cost.report import CostReport, total
from bench.cost.run import (
    ADD_CREDIT,
    ARRIVAL,
    AUDIT_DAYS,
    CREATE,
    DESCRIBE,
    MANY,
    POLL,
    PUBLISH,
    RATE,
    STATUS,
    UNDO,
    VIEW,
    VIEW_LATER,
    VIEW_OF,
    CatalogueSize,
    MeasuredRequest,
    measure_alone,
    measure_lifelike,
    measure_small,
    measured_service,
)
from bench.scale.deployed import deployment
from bench.scale.load import is_http
from bench.scale.model import ScaleModel
from bench.scale.page import PAGE as SCALE_PAGE
from bench.scale.page import PICTURE, picture
from bench.scale.page import updated as scale_page_updated
from bench.scale.target import PublishedLimits, Target
from functions.compactor import handler as compactor
from functions.indexer import handler as indexer
from functions.rankings import handler as rankings
from functions.sweeper import handler as sweeper
from infra.function import MEMORY_MB
from local.access_patterns import ACCESS_PATTERNS, AccessPattern
from local.testbed.calls import CALLS
from local.testbed.harness import Api, Context, FakeResources
from local.testbed.lean_moto import create_buckets
from local.testbed.meter import Meter
from local.testbed.units import CapacityUnits, StoredSize, index_entry, read, size, write, written
from shared.aws.dynamodb import LONGEST_WAIT, REQUEST_ATTEMPTS, SHORTEST_WAIT, Table, make_client
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.s3 import Objects
from shared.core.attributes import AttributeMap, AttributeValue, Item, encode_item
from shared.core.telemetry import METRICS
from shared.job_kinds import KINDS
from shared.schema import (
    AUDIT_INDEXES,
    CATEGORY_DURATION_INDEX,
    CATEGORY_INDEX,
    CATEGORY_ORDER_INDEX,
    INDEXES,
    LANES,
    MAX_VIEW_SHARDS,
    RELATION_INDEX,
    USER_DURATION_INDEX,
    USER_INDEX,
    USER_ORDER_INDEX,
    Index,
)
from shared.video_fields import PROJECTION
from tests.unit.infra.page_tables import cluster_alarms
from tests.unit.infra.templates import ROOT, settings_of

if TYPE_CHECKING:
    from tests.unit.infra.templates import Json, Templates

KEYS: Item = {"pk": "VIDEO#1", "sk": "#META"}
INDEXED: Item = KEYS | {"userId": "alice", "createdAt": 5, "videoId": "1"}


def attributes(**values: object) -> int:
    return size(encode_item(values))


def test_item_size_is_the_sum_of_its_names_and_values() -> None:
    assert attributes(title="Léon") == len("title") + 5
    assert attributes(a=True) == 2
    assert attributes(a=None) == 2
    assert attributes(a=b"123") == 4
    assert attributes(a={"x", "yz"}) == 1 + 3


@pytest.mark.parametrize(
    ("number", "bytes_"), [(0, 2), (7, 2), (12, 2), (123, 3), (1_000_000, 2), (1_750_000_001, 6), (-12, 3), (2.5, 2)]
)
def test_number_takes_one_byte_per_two_digits_and_one_more(number: float, bytes_: int) -> None:
    assert attributes(n=number) == 1 + bytes_


def test_maps_and_lists_have_an_overhead_and_another_per_entry() -> None:
    assert attributes(m={}) == 1 + 3
    assert attributes(m={"a": "xy"}) == 1 + 3 + 1 + 3
    assert attributes(m=["xy", "z"]) == 1 + 3 + (1 + 2) + (1 + 1)


@pytest.mark.parametrize(("bytes_", "units"), [(0, 1), (1, 1), (4096, 1), (4097, 2)])
def test_reads_are_rounded_up_to_4_kb_and_cost_half_unless_strongly_consistent(bytes_: int, units: int) -> None:
    assert read(bytes_, consistent=True).reads == units
    assert read(bytes_, consistent=False).reads == units / 2


@pytest.mark.parametrize(
    ("old", "new", "index_writes"),
    [
        (KEYS, KEYS | {"note": "n"}, 0),
        (INDEXED, INDEXED | {"description": "not projected"}, 0),
        (KEYS, INDEXED, 1),
        (INDEXED, KEYS, 1),
        (INDEXED, INDEXED | {"title": "projected"}, 1),
        (INDEXED, INDEXED | {"createdAt": 6}, 2),
    ],
)
def test_index_write_is_charged_when_its_entry_is_added_removed_changed_or_moved(
    old: Item, new: Item, index_writes: int
) -> None:
    assert write(encode_item(old), encode_item(new), [USER_INDEX]) == CapacityUnits(0, 1, index_writes)


def test_index_holds_only_items_with_all_its_keys_and_only_projected_attributes() -> None:
    item = encode_item(INDEXED | {"category": "c", "description": "d", "title": "t"})
    assert index_entry(item, CATEGORY_INDEX) is None
    entry = index_entry(item, USER_INDEX)
    assert entry is not None
    assert entry.keys() == {"pk", "sk", "userId", "createdAt", "videoId", "category", "title"}
    assert StoredSize.of([item]) == StoredSize(size(item) + 100, size(entry) + 100)


def test_write_size_is_the_larger_item_size_before_and_after() -> None:
    large = encode_item(KEYS | {"text": "x" * 2000})
    assert (
        write(large, encode_item(KEYS), ()).writes
        == write(None, large, ()).writes
        == write(large, None, ()).writes
        == 2
    )


def test_transaction_costs_double_and_a_failed_condition_the_existing_item(table: Table) -> None:
    item = KEYS | {"text": "x" * 1500}
    absent = Expression("attribute_not_exists(#pk)", {"#pk": "pk"})
    meter = Meter(table.client, make_client())
    with meter.measure() as used:
        table.transact([table.put(item, condition=absent)])
    assert used.units == CapacityUnits(0, 4, 0)
    with meter.measure() as used, pytest.raises(ConditionFailed):
        table.write(table.put(KEYS, condition=absent))
    assert (used.units, used.operations) == (CapacityUnits(0, 2, 0), ["PutItem"])


def test_transaction_charges_the_table_twice_and_indexes_once(table: Table) -> None:
    """AWS's pricing calculator computes the same charge."""
    absent = Expression("attribute_not_exists(#pk)", {"#pk": "pk"})
    meter = Meter(table.client, make_client())
    with meter.measure() as single:
        table.write(table.put(INDEXED, condition=absent))
    other = INDEXED | {"pk": "VIDEO#2", "videoId": "2"}
    with meter.measure() as in_transaction:
        table.transact([table.put(other, condition=absent)])
    assert (single.units, in_transaction.units) == (CapacityUnits(0, 1, 1), CapacityUnits(0, 2, 1))


def test_tags_cost_nothing_before_their_video_is_published(
    measured: tuple[dict[str, MeasuredRequest], CatalogueSize],
) -> None:
    """The transaction doubles the two units of the video and the unit of each of its three tags, but not the units of
    index entries."""
    assert measured[0][CREATE].units == CapacityUnits(0, 2, 4)
    assert measured[0][PUBLISH].units == CapacityUnits(1, 2 * (2 + 3), 4 + 3 + 3)


def test_query_is_charged_by_examined_and_not_by_returned_items(table: Table) -> None:
    for number in range(5):
        table.write(table.put({"pk": "VIDEO#1", "sk": f"{number}", "text": "x" * 3000}))
    condition = Expression("#pk = :pk", {"#pk": "pk"}, {":pk": "VIDEO#1"})
    nothing = Expression("#text = :text", {"#text": "text"}, {":text": "no"})
    with Meter(table.client, make_client()).measure() as used:
        page = table.query(index=None, condition=condition, keep=nothing, attributes=("sk",), limit=4)
    assert (page.items, used.units.reads) == ([], 1.5)


def test_parallel_queries_count_as_one_round_trip(small: dict[str, MeasuredRequest]) -> None:
    feed = small["GET /v1/videos?tag=t&from=t&to=t"]
    assert (len(feed.operations), feed.trips) == (5, 2)


@pytest.fixture(scope="module")
def small() -> dict[str, MeasuredRequest]:
    """Return the costs of all patterns with small items, of which each read or write costs one unit."""
    return {used.request: used for used in measure_small()}


def test_every_row_of_the_page_is_measured(small: dict[str, MeasuredRequest]) -> None:
    assert list(small) == [pattern.request for pattern in ACCESS_PATTERNS]
    assert small.keys() == CALLS.keys()


@pytest.mark.parametrize("request_", [pattern.request for pattern in ACCESS_PATTERNS])
def test_stated_cost_is_the_measured_cost(small: dict[str, MeasuredRequest], request_: str) -> None:
    cost = next(pattern.cost for pattern in ACCESS_PATTERNS if pattern.request == request_)
    units = small[request_].units
    stated = first(cost, "WRU")
    if "with the index" in cost or "index entry moves" in cost:
        assert units.writes == stated
    elif stated is None or "index" in cost or "for each tag" in cost:
        assert units.table_writes == (stated or 0) + (2 if request_.endswith("(tags)") else 0)
    else:
        assert (units.table_writes, units.index_writes) == (stated, 0)
    reads = [float(number) for number in re.findall(r"([\d.]+)(?: RRU)?(?: more)? (?:per|for) ", cost)]
    if " per " in cost or " for each video" in cost or "each playlist" in cost:
        least = max(sum(reads), float(first(cost, "RRU") or 0))
        assert units.reads >= least
    else:
        extra = 0.5 if "0.5 more when" in cost else 0
        assert units.reads == float(first(cost, "RRU") or 0) + extra


def first(text: str, unit: str) -> float | None:
    """Return the first number before a unit in a text."""
    match = re.search(rf"([\d.]+) {unit}", text)
    return float(match[1]) if match else None


@pytest.fixture(scope="module")
def measured() -> tuple[dict[str, MeasuredRequest], CatalogueSize]:
    """Return the costs of all patterns with whole documents."""
    return measure_lifelike()


@pytest.mark.parametrize("pattern", ACCESS_PATTERNS, ids=lambda pattern: pattern.request)
def test_pattern_above_the_minimal_cost_has_a_reason(
    measured: tuple[dict[str, MeasuredRequest], CatalogueSize], pattern: AccessPattern
) -> None:
    used = measured[0][pattern.request]
    assert used.units.reads >= used.least.reads
    assert used.units.writes >= used.least.writes
    exceeds_minimum = (len(used.operations), used.units) != (used.fewest, used.least)
    assert bool(pattern.reason) == exceeds_minimum


@pytest.fixture(scope="module")
def background() -> dict[str, BackgroundCost]:
    """Return the background cost of each request that changes a video."""
    return measure_background()


@pytest.fixture
def report(
    measured: tuple[dict[str, MeasuredRequest], CatalogueSize], background: dict[str, BackgroundCost]
) -> CostReport:
    """Return the cost report from the measurements."""
    return CostReport(*measured, background, Prices.load(), Workload.load())


class TestBackgroundCost:
    def test_change_that_affects_no_total_writes_only_an_audit_entry_and_its_index(
        self, background: dict[str, BackgroundCost]
    ) -> None:
        change = background[DESCRIBE]
        # The entry contains both descriptions and the author, so it exceeds 1 KB.
        assert (change.work, change.trail, change.messages) == (CapacityUnits(), CapacityUnits(0, 2, 1), 0)

    def test_change_costs_one_write_unit_per_log_and_a_read_of_the_subscriptions(
        self, background: dict[str, BackgroundCost]
    ) -> None:
        for change in (background[DESCRIBE], background[ADD_CREDIT]):
            assert (change.feed, change.delivery_messages, change.delivery_checks) == (
                CapacityUnits(0, 2, 0),
                1,
                CapacityUnits(1, 0, 0),
            )
            assert change.feed_stored.table < change.trail_stored.table / 3

    def test_poll_of_the_feed_reads_four_logs(self, measured: tuple[dict[str, MeasuredRequest], CatalogueSize]) -> None:
        assert measured[0][POLL].units == CapacityUnits(2, 0, 0)

    def test_credit_writes_only_an_audit_entry_and_its_index(self, background: dict[str, BackgroundCost]) -> None:
        credit = background[ADD_CREDIT]
        assert (credit.work, credit.trail, credit.messages) == (CapacityUnits(), CapacityUnits(0, 1, 1), 0)

    def test_revert_costs_one_write_and_three_reads_per_video(
        self, measured: tuple[dict[str, MeasuredRequest], CatalogueSize]
    ) -> None:
        """The write changes the video. The reads return the audit entry, the video, and the video's later audit entries.

        In addition, a run has a fixed number of reads.
        """
        units = measured[0][UNDO].units
        units_of_video = written(size(measured[1].video))
        assert units.table_writes // MANY == units_of_video
        assert MANY * 3 <= units.reads < MANY * 3 + 4

    def test_status_change_moves_the_marker_and_the_totals_of_owner_and_service(
        self, background: dict[str, BackgroundCost]
    ) -> None:
        change = background[STATUS]
        assert (change.work, change.trail, change.messages) == (CapacityUnits(3, 6, 0), CapacityUnits(0, 1, 1), 1)

    def test_listing_a_video_counts_its_tags(self, background: dict[str, BackgroundCost]) -> None:
        # The marker, the count of each of three tags with its index entry, and a read of the entries.
        assert background[PUBLISH].work == CapacityUnits(7, 2 * 4, 3)
        assert background[CREATE].work.writes < background[PUBLISH].work.writes

    def test_view_costs_one_unit_and_two_with_a_viewer(
        self, measured: tuple[dict[str, MeasuredRequest], CatalogueSize], background: dict[str, BackgroundCost]
    ) -> None:
        """The cost includes the background work. The first view of an hour, and the first of a day, each cost two more
        units."""
        writes = {
            request: measured[0][request].units.writes + background[request].work.writes
            for request in (VIEW_LATER, VIEW_OF, VIEW)
        }
        assert writes == {VIEW_LATER: 1, VIEW_OF: 2, VIEW: 1 + 2 + 2}

    def test_rating_costs_seven_units_at_most(
        self, measured: tuple[dict[str, MeasuredRequest], CatalogueSize], background: dict[str, BackgroundCost]
    ) -> None:
        assert measured[0][RATE].units.writes + background[RATE].work.writes <= 7

    def test_uploaded_file_creates_all_its_jobs_and_each_is_audited(
        self, background: dict[str, BackgroundCost]
    ) -> None:
        arrival = background[ARRIVAL]
        jobs = 3 + len(RENDITIONS)
        assert arrival.messages == arrival.worked + len(RENDITIONS)
        assert arrival.audited > 2 * jobs  # each job is queued and completed, and the video changes
        assert arrival.trail.table_writes >= arrival.audited
        assert arrival.stored.table > jobs * 300

    def test_views_log_a_metric_and_other_requests_log_nothing(
        self, measured: tuple[dict[str, MeasuredRequest], CatalogueSize]
    ) -> None:
        requests = measured[0]
        view = requests["POST /v1/videos/{videoId}/views"]
        assert (view.log_lines, view.metric_lines) == (0, 1)
        assert requests["GET /v1/videos/{videoId}"].log_lines == 0


def test_cost_page_shows_the_measurements(report: CostReport) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert updated(text, report) == text, "run: python -m bench.cost --docs"


@pytest.fixture
def scale(
    measured: tuple[dict[str, MeasuredRequest], CatalogueSize], background: dict[str, BackgroundCost], prod: "Templates"
) -> ScaleModel:
    """Return the limits of production at the target."""
    settings = deployment(prod.parts().values())
    return ScaleModel(*measured, background, Workload.load(), settings, PublishedLimits.load(), Target.load())


def test_scale_page_and_picture_show_the_computed_values(scale: ScaleModel) -> None:
    text = SCALE_PAGE.read_text(encoding="utf-8")
    assert scale_page_updated(text, scale) == text, "run: python -m bench.scale --docs"
    assert PICTURE.read_text(encoding="utf-8") == picture(scale), "run: python -m bench.scale --docs"


def test_scale_model_has_a_row_for_each_background_function(scale: ScaleModel, prod: "Templates") -> None:
    handlers = [
        resource["Properties"]["Handler"].split(".")[1]
        for resource in prod.jobs["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
    ]
    assert [row.name for row in scale.consumers()] == sorted(handlers)
    assert [row.name for row in scale.patterns()] == [pattern.request for pattern in ACCESS_PATTERNS]


def test_scale_target_is_the_sum_of_its_requests(scale: ScaleModel) -> None:
    requests = sum(row.load for row in scale.patterns() if is_http(row.name))
    audited = sum(scale.load.followed({request: cost.audited}) for request, cost in scale.background.items())
    assert round(requests) == scale.target["requests"]
    assert audited == pytest.approx(scale.load.changes)


def test_repeated_measurements_of_a_create_are_equal() -> None:
    assert follow(CREATE) == follow(CREATE)


def test_readme_states_the_monthly_cost_with_and_without_sign_in(report: CostReport) -> None:
    signed_in = sum(report.bill[SIGN_IN].values())
    others = sum(total(report.bill.values()).values()) - signed_in
    readme = Path("README.md").read_text(encoding="utf-8")
    users = report.workload.figures["users"]
    assert f"costs about {round(others, -1):.0f} US dollars. Sign-in of " in readme
    assert f"Sign-in of {users:,} users with Cognito costs {signed_in:.0f} dollars more" in readme


def test_repeated_measurements_of_upload_url_bytes_are_equal() -> None:
    """Upload URLs contain the upload id, which moto generates at random in different lengths."""

    def bytes_out() -> int:
        with measured_service() as service:
            return measure_alone("GET /v1/videos/{videoId}/upload/{uploadId}", service, service.api()).bytes_out

    assert {bytes_out() for _ in range(5)} == {bytes_out()}


def test_dynamodb_page_shows_computed_figures(report: CostReport, background: dict[str, BackgroundCost]) -> None:
    page = " ".join((PAGE.parent / "dynamodb.md").read_text(encoding="utf-8").split())
    usd, times, hours = report.prices.usd, report.workload.calls, DAYS_A_MONTH * 24
    reads = sum(report.measured[request].units.reads * number for request, number in times.items())
    for request in times.keys() & background.keys():
        cost = background[request]
        checks = cost.delivery_checks.reads / report.workload.figures["changes_together"]
        reads += times[request] * ((cost.work + cost.trail + cost.feed).reads + checks)
    nodes = 3 * hours * usd["dax_node_hour"]
    video = report.catalogue.video
    short = {f"{number:x}": value for number, value in enumerate(video.values())}
    assert written(size(video)) == written(size(short)) == 2
    assert read(size(video), consistent=False) == read(size(short), consistent=False) == CapacityUnits(0.5)
    saved = storage(StoredSize(report.workload.figures["videos"] * (size(video) - size(short))), report.prices)
    entries = background[ARRIVAL]
    transactions = sum("TransactWriteItems" in pattern.operations for pattern in ACCESS_PATTERNS)
    title_page = "GET /v1/videos/{videoId}?include=credits,releases,ratings,tags,jobs"
    bill = total(report.bill.values())
    figures = (
        f"a video with its related items has {report.sizes()['stored for each video']:,} bytes",
        f"about {round(10 * 2**30 / report.sizes()['stored for each video'], -3):,.0f} videos",
        f"{reads / MILLION:.0f} million units, cost ${reads * usd['dynamodb_read'] / MILLION:.2f}",
        f"smallest type cost ${nodes:.2f} a month",
        f"above {nodes / usd['dynamodb_read']:.0f} million units",
        f"{transactions} of the {len(ACCESS_PATTERNS)} access patterns use transactions",
        f"at most {REQUEST_ATTEMPTS} attempts. The maximum wait between them rises from {SHORTEST_WAIT} to {LONGEST_WAIT} seconds",
        f"An uploaded file causes {entries.audited} stream records.",
        f"{2 * entries.audited + entries.work.reads:g} read units instead of {entries.work.reads:g} for these records.",
        f"from {size(video):,} to {size(short):,} bytes",
        f"would cost ${sum(saved.values()):.2f} less a month",
        f"cost ${2 * 0.5 * hours * usd['aurora_acu_hour']:.2f} a month, before storage",
        f"DynamoDB costs ${bill['DynamoDB']:.2f} for the whole reference month, and "
        f"${idle(report.measured, report.prices, report.workload)['DynamoDB']:.2f} for a month without requests",
        f"ratings and viewers of a video have {LANES}, and a counter has up to {MAX_VIEW_SHARDS}",
    )
    assert [figure for figure in figures if figure not in page] == []
    decision = (PAGE.parent / "decisions" / "01-one-table.md").read_text(encoding="utf-8")
    assert f"would take six requests instead of {len(report.measured[title_page].operations)}," in decision


def test_costs_of_one_more_order_are_computed(report: CostReport) -> None:
    page = (PAGE.parent / "decisions" / "02-few-indexes.md").read_text(encoding="utf-8")
    cells = [line.split(" | ")[1:3] for line in page.splitlines() if re.search(r" \| \d+ \| ", line)]
    position: Item = {"userId": "u", "category": "c", "categoryShard": 0, "videoId": "v" * 36, "duration": 1}
    position |= {"orderBy": "rating", "orderValue": "0950"}
    position |= {"rel": "RATED#u", "relShard": 0, "relSort": 950, "relId": "v" * 36}
    entry = {**encode_item(position | {"pk": "ORDER#v", "sk": "rating"}), "title": {"S": "x"}}
    video = {**entry, "description": {"S": "x" * size(report.catalogue.video)}}
    orders, durations = (USER_ORDER_INDEX, CATEGORY_ORDER_INDEX), (USER_DURATION_INDEX, CATEGORY_DURATION_INDEX)
    with_titles = [index._replace(projection=PROJECTION) for index in orders]

    def change(item: AttributeMap, indexes: Iterable[Index], name: str, value: AttributeValue) -> int:
        return write(item, {**item, name: value}, indexes).writes

    value: AttributeValue = {"S": "1000"}
    summaries = read(26 * size(index_entry(report.catalogue.video, USER_INDEX)), consistent=False)
    keys = read(26 * size(index_entry(entry, USER_ORDER_INDEX)), consistent=False)
    hydrated = keys.reads + 25 * read(size(report.catalogue.video), consistent=False).reads
    expected = [
        (change(entry, orders, "orderValue", value), hydrated),
        (change(video, orders, "orderValue", value), hydrated),
        (change(video, durations, "duration", {"N": "2"}), hydrated),
        (change(entry, with_titles, "orderValue", value), summaries.reads),
        (2 * change(entry, [RELATION_INDEX], "relSort", {"N": "951"}), hydrated),
        (0, report.measured["GET /v1/search"].units.reads),
    ]
    assert [(int(writes), float(reads)) for writes, reads in cells] == expected
    assert f"would cost {change(entry, with_titles, 'title', value)} WRU more" in page


class TestCapacityModes:
    def test_break_even_use_is_the_quotient_of_the_prices(self, report: CostReport) -> None:
        assert break_even_use(report.prices) == pytest.approx({"read": 0.2889, "write": 0.2889}, abs=0.0001)
        dearer = replace(report.prices, usd={**report.prices.usd, "dynamodb_write_hour": 0.0013})
        assert break_even_use(dearer)["write"] == pytest.approx(0.5778, abs=0.0001)

    def test_on_demand_requests_cost_the_monthly_total_without_storage(self, report: CostReport) -> None:
        stored = sum(cost["DynamoDB"] for name, cost in report.bill.items() if name.startswith("Storage"))
        spent = total(report.bill.values())["DynamoDB"] - stored
        assert [mode.on_demand for mode in report.modes] == pytest.approx([spent] * len(report.modes))

    @pytest.mark.parametrize(
        ("curve", "use", "recommended"),
        [
            ([1] * 24, 0.7, "provisioned"),
            ([1] * 12 + [3] * 12, 0.7 * 48 / (14 * 3 + 10), "provisioned"),
            # The capacity of each hour must also suffice for the hour before and the hour after it.
            ([0] * 23 + [1], 0.7 / 3, "onDemand"),
            ([1] * 23 + [100], 0.7 * 123 / (21 + 3 * 100), "onDemand"),
        ],
    )
    def test_utilization_and_recommendation_depend_on_the_curve(
        self, report: CostReport, curve: list[float], use: float, recommended: str
    ) -> None:
        busy = {request: 1000 * times for request, times in report.workload.calls.items()}
        workload = replace(report.workload, curves={"curve": curve}, calls=busy)
        (mode,) = capacity_modes(report.measured, report.followed, report.prices, workload)
        assert mode.use == pytest.approx(use, rel=0.01)
        assert mode.recommended == recommended
        assert (mode.use > break_even_use(report.prices)["read"]) == (recommended == "provisioned")

    def test_minimum_capacity_and_alarms_raise_the_cost_of_an_idle_month(self, report: CostReport) -> None:
        quiet = replace(report.workload, calls={}, curves={"steady": [1] * 24})
        (mode,) = capacity_modes(report.measured, report.followed, report.prices, quiet)
        targets = report.workload.figures["scalable_targets"]
        assert mode.provisioned == pytest.approx(targets / 2 * 720 * (0.00013 + 0.00065) + targets * 4 * 0.10)
        assert mode.recommended == "onDemand"

    @pytest.mark.parametrize("curve", [[1] * 23, [1] * 23 + [-1], [0] * 24])
    def test_invalid_curve_is_refused_by_name(self, tmp_path: Path, curve: list[float]) -> None:
        path = tmp_path / "month.toml"
        path.write_text(f"videos = 1\n[calls]\n[curves]\nsaw = {curve}\n", encoding="utf-8")
        with pytest.raises(InvalidWorkload, match="curve 'saw' must have 24 numbers of at least 0"):
            Workload.load(path)

    def test_scalable_targets_are_reads_and_writes_of_tables_and_indexes(self, report: CostReport) -> None:
        assert report.workload.figures["scalable_targets"] == 2 * (2 + len(INDEXES) + len(AUDIT_INDEXES))


def test_page_without_the_marks_is_not_up_to_date(report: CostReport) -> None:
    with pytest.raises(ValueError, match="no marks"):
        updated("# Costs", report)


def test_monthly_cost_grows_with_calls_and_an_idle_month_pays_for_none(report: CostReport) -> None:
    quiet = Workload.load(changed=dict.fromkeys((*report.workload.calls, "videos", "users", "tokens"), 0))
    bill = month(report.measured, report.followed, report.catalogue, report.prices, quiet)
    assert sum(bill["Idle"].values()) == pytest.approx(sum(total(bill.values()).values()))
    twice = Workload.load(changed={name: 2 * times for name, times in report.workload.calls.items()})
    views = "POST /v1/videos/{videoId}/views"
    doubled = month(report.measured, report.followed, report.catalogue, report.prices, twice)
    for name in (views, background_name(ARRIVAL), "Storage of the audit trail, with point-in-time recovery"):
        assert doubled[name]["DynamoDB"] == pytest.approx(2 * report.bill[name]["DynamoDB"])


def test_fifo_requests_cost_a_quarter_more_than_others(report: CostReport) -> None:
    usd = report.prices.usd
    view, change = (after(report.followed[request], report.prices, report.workload) for request in (VIEW_OF, STATUS))
    assert view["SQS"] == pytest.approx(3 * 1.25 * usd["sqs_request"] / 1e6)
    messages_per_change = report.followed[STATUS].delivery_messages / report.workload.figures["changes_together"]
    assert change["SQS"] == pytest.approx(3 * (1 + messages_per_change) * usd["sqs_request"] / 1e6)


def test_sign_in_costs_nothing_for_the_free_users_of_an_account(report: CostReport) -> None:
    def dollars(**changed: float) -> float:
        return sign_in(report.prices, Workload.load(changed={"tokens": 0} | changed))["Cognito"]

    free = report.workload.figures["free_users"]
    assert dollars(users=free / 2) == dollars(users=free) == 0
    assert dollars(users=free + 1000) == pytest.approx(1000 * 0.015)
    assert dollars(users=0, tokens=2000) == pytest.approx(2 * 2.25)


def test_idle_dev_costs_less_than_production_by_its_alarms_dashboard_and_key(report: CostReport) -> None:
    costs = {env: idle(report.measured, report.prices, each) for env, each in report.workload.environments().items()}
    figures, usd = report.workload.figures, report.prices.usd
    saved = figures["alarm_metrics"] * usd["alarm"] + usd["dashboard"] + usd["kms_key"]
    assert sum(costs["prod"].values()) - sum(costs["dev"].values()) == pytest.approx(saved)
    assert costs["prod"] == report.bill["Idle"]


def test_search_on_opensearch_costs_more_without_requests_than_the_embedded_index(report: CostReport) -> None:
    embedded, instance, domain, collection = search_floors(report.prices, report.workload).values()
    assert embedded == 0 < instance < domain < collection
    twice = search_floors(report.prices, Workload.load(changed={"opensearch_ocus": 4}))
    assert list(twice.values())[3] - collection == pytest.approx(2 * 720 * 0.24)


def test_snapshots_cost_the_exported_size_of_the_table_each_night_and_nothing_without_the_setting(
    report: CostReport,
) -> None:
    assert SNAPSHOTS not in report.bill
    nightly = Workload.load(changed={"snapshots": 30})
    bill = month(report.measured, report.followed, report.catalogue, report.prices, nightly)
    stored = report.catalogue.stored + report.followed[ARRIVAL].stored
    assert bill[SNAPSHOTS]["DynamoDB"] == pytest.approx(30 * 1_000_000 * stored.table / 1e9 * 0.10)
    archive = " ".join((ROOT / "docs" / "archive.md").read_text(encoding="utf-8").split())
    assert f"about ${bill[SNAPSHOTS]['DynamoDB'] / 30:.0f} for a million videos" in archive


def test_trail_grows_for_the_retention_time_of_its_entries(report: CostReport) -> None:
    name = "Storage of the audit trail, with point-in-time recovery"
    shorter = Workload.load(changed={"audit_days": AUDIT_DAYS / 4})
    bill = month(report.measured, report.followed, report.catalogue, report.prices, shorter)
    assert bill[name]["DynamoDB"] == pytest.approx(report.bill[name]["DynamoDB"] / 4)


def test_point_in_time_recovery_is_not_charged_for_indexes(report: CostReport) -> None:
    """AWS charges for recovery by the size of the table. Global indexes are rebuilt from the table."""
    stored = report.catalogue.stored + report.followed[ARRIVAL].stored
    usd, videos = report.prices.usd, report.workload.figures["videos"]
    dollars = videos * (stored.table * (usd["dynamodb_storage"] + usd["dynamodb_pitr"])) / 1e9
    dollars += videos * stored.indexes * usd["dynamodb_storage"] / 1e9
    bill = report.bill["Storage of videos, with point-in-time recovery"]
    assert bill["DynamoDB"] == pytest.approx(dollars)


def test_comparison_with_the_naive_design_uses_the_charged_requests(report: CostReport) -> None:
    charged = {
        "count a view": [VIEW_LATER],
        "create a video": [CREATE],
        "change a description": [DESCRIBE],
        "list a page": [request for request in report.workload.calls if request.startswith(LISTS)],
        "list page 5": [request for request in report.workload.calls if request.startswith(LISTS)],
    }
    assert {comparison.request for comparison in report.comparisons} == charged.keys()
    for comparison in report.comparisons:
        dollars = sum(report.bill[request]["DynamoDB"] for request in charged[comparison.request])
        assert comparison.times * units_cost(comparison.ours, report.prices) == pytest.approx(dollars)


def test_month_without_lists_can_be_compared(report: CostReport) -> None:
    lists = {request: 0.0 for request in report.workload.calls if request.startswith(LISTS)}
    compared = CostReport(
        report.measured, report.catalogue, report.followed, report.prices, Workload.load(changed=lists)
    )
    assert [comparison.times for comparison in compared.comparisons if comparison.request.startswith("list")] == [0, 0]


class TestWorkload:
    """The idle cost of the benchmark's workload matches production."""

    def test_p99_goals_of_the_access_patterns_are_below_the_threshold_of_the_alarm(self, prod: "Templates") -> None:
        alarms = [resource["Properties"] for resource in prod.all("AWS::CloudWatch::Alarm").values()]
        (threshold,) = {alarm["Threshold"] for alarm in alarms if "API is slow" in json.dumps(alarm["AlarmName"])}
        assert max(pattern.p99_goal or 0 for pattern in ACCESS_PATTERNS) < threshold == 3_000

    def test_workload_has_the_alarms_of_production(self, prod: "Templates") -> None:
        alarms = [resource["Properties"] for resource in prod.all("AWS::CloudWatch::Alarm").values()]
        metrics = sum(
            sum("MetricStat" in metric for metric in alarm.get("Metrics", [{"MetricStat": {}}])) for alarm in alarms
        )
        assert Workload.load().figures["alarm_metrics"] == metrics

    def test_workload_has_the_default_search_cluster_and_its_alarms(
        self, prod: "Templates", clusters: "dict[str, dict[str, Json]]"
    ) -> None:
        figures, nodes = Workload.load().figures, settings_of({}).open_search_nodes
        assert nodes.type == "t3.small"  # the type that the price list has
        assert (figures["opensearch_nodes"], figures["opensearch_disk_gb"]) == (nodes.number, nodes.gigabytes)
        for kind, parts in clusters.items():
            assert figures[f"{kind}_alarms"] == len(cluster_alarms(parts))
        assert figures["search_gb"] == round(prod.function("search")[1]["MemorySize"] / 1024, 2)
        assert figures["indexer_gb"] == MEMORY_MB / 1024

    def test_workload_has_the_keys_secrets_and_dashboards_of_production(self, prod: "Templates") -> None:
        figures = Workload.load().figures
        for name, type_ in (
            ("kms_keys", "AWS::KMS::Key"),
            ("secrets", "AWS::SecretsManager::Secret"),
            ("dashboards", "AWS::CloudWatch::Dashboard"),
        ):
            assert figures[name] == len(prod.all(type_)), name

    def test_workload_has_the_queues_that_functions_read(self, prod: "Templates") -> None:
        readers = [resource["Properties"] for resource in prod.all("AWS::Lambda::EventSourceMapping").values()]
        streams = [reader for reader in readers if "StartingPosition" in reader]
        assert Workload.load().figures["polled_queues"] == len(readers) - len(streams)

    def test_fifo_queues_are_those_of_production(self, prod: "Templates") -> None:
        fifo = {
            name for name, resource in prod.all("AWS::SQS::Queue").items() if resource["Properties"].get("FifoQueue")
        }
        queues = {name.lower().partition("queue")[0] for name in fifo}
        assert queues == FIFO_QUEUES
        assert Workload.load().figures["polled_fifo_queues"] == len(queues)

    def test_machine_clients_are_the_app_clients_with_client_credentials(self, prod: "Templates") -> None:
        clients = [resource["Properties"] for resource in prod.all("AWS::Cognito::UserPoolClient").values()]
        machines = [client for client in clients if "client_credentials" in client.get("AllowedOAuthFlows", [])]
        assert Workload.load().figures["machine_clients"] == len(machines) > 0

    def test_idle_dev_has_the_alarms_dashboards_and_keys_of_its_templates(self, defaults: "Templates") -> None:
        figures = Workload.load().environments()["dev"].figures
        for name, type_ in (
            ("alarm_metrics", "AWS::CloudWatch::Alarm"),
            ("dashboards", "AWS::CloudWatch::Dashboard"),
            ("kms_keys", "AWS::KMS::Key"),
            ("secrets", "AWS::SecretsManager::Secret"),
        ):
            assert figures[name] == len(defaults.all(type_)), name

    def test_idle_metrics_are_those_that_scheduled_functions_write_for_empty_tables(
        self,
        api: Api,
        objects: Objects,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        table, context = api.table, Context()
        resources = FakeResources(table, api.clock, objects=objects)
        resources.make(sweeper.lambda_handler)({}, context)
        resources.make(rankings.lambda_handler)({}, context)
        monkeypatch.setattr(indexer, "own_folder", lambda _: tmp_path)
        build = resources.make(indexer.lambda_handler)
        for _ in range(2):  # the first run publishes an index, the second finds it unchanged
            build({}, context)
        create_buckets("archive", "analytics")
        resources.make(compactor.lambda_handler)({}, context)
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        written = {
            metric["Name"]
            for line in lines
            for directive in line.get("_aws", {}).get("CloudWatchMetrics", ())
            for metric in directive["Metrics"]
        }
        assert written == {"IndexLag", "IndexBytes", "IndexGrowth", "ArchiveLag", *OPTIONAL_METRICS}
        assert Workload.load().figures["idle_metrics"] == len(written - {*OPTIONAL_METRICS})

    def test_metrics_are_counted_once_per_kind_and_queue(self) -> None:
        kinds, queues = len(KINDS), len({kind.queue for kind in KINDS.values()})
        values = {"JobsDone": kinds, "JobsFailed": kinds, "OpenJobs": queues, "OldestJobSeconds": queues}
        assert Workload.load().figures["metrics"] == sum(
            values.get(name, 1) for name in METRICS.keys() - {*OPTIONAL_METRICS}
        )
        assert Workload.load(changed={"metrics": 7}).figures["metrics"] == 7

    def test_workload_retains_the_trail_and_makes_renditions_like_production(self, prod: "Templates") -> None:
        workload = Workload.load()
        assert prod.function("audit")[1]["Environment"]["Variables"]["AUDIT_DAYS"] == str(AUDIT_DAYS)
        assert workload.figures["audit_days"] == AUDIT_DAYS
        assert prod.function("probe")[1]["Environment"]["Variables"]["RENDITIONS"] == ",".join(RENDITIONS)
        reports = [
            workload.calls[f"PUT /v1/videos/{{videoId}}/renditions/{{name}} ({how})"] for how in ("running", "done")
        ]
        assert reports == [workload.calls[ARRIVAL] * len(RENDITIONS)] * 2


def test_naive_design_costs_more_in_every_position(report: CostReport) -> None:
    assert [comparison.decision for comparison in report.comparisons if comparison.factor(report.prices) <= 1] == []


def test_workload_names_existing_requests(report: CostReport) -> None:
    workload = report.workload
    assert {*workload.calls, SWEEPER} <= report.measured.keys()
    # The bill of a request that changes a video includes its background cost.
    assert {*FOLLOWED} == report.followed.keys()
    assert {background_name(request) for request in {*FOLLOWED} & workload.calls.keys()} <= report.bill.keys()


def test_every_price_has_its_source_and_date() -> None:
    prices = Prices.load()
    assert PRICES.stem == f"prices-{prices.date}"
    sources = [price["source"] for price in tomllib.loads(PRICES.read_text(encoding="utf-8"))["prices"].values()]
    assert [source for source in sources if not source.startswith("https://aws.amazon.com/")] == []
    assert set(prices.unchecked) < prices.usd.keys()


def test_unknown_figure_is_refused_by_name() -> None:
    with pytest.raises(InvalidWorkload, match="videoz"):
        Workload.load(changed={"videoz": 1})


def test_command_prints_tables_or_json(
    measured: tuple[dict[str, MeasuredRequest], CatalogueSize],
    background: dict[str, BackgroundCost],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(command, "measure_lifelike", lambda: measured)
    monkeypatch.setattr(command, "measure_background", lambda: background)
    assert command.main([]) == 0
    assert "The naive design" in capsys.readouterr().out
    assert command.main(["--json", "--set", "alarm_metrics=0"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["calls"]["POST /v1/videos/{videoId}/views"]["tableWru"] == 1
    page = tmp_path / "costs.md"
    shutil.copy(PAGE, page)
    monkeypatch.setattr(command, "PAGE", page)
    assert command.main(["--docs", "--set", "videos=2_000_000"]) == 0
    assert page.read_text(encoding="utf-8") != PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("arguments", [["--set", "videos"], ["--set", "videos=many"], ["--set", "videos=-1"]])
def test_invalid_figure_is_reported_as_a_wrong_argument(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2


def test_missing_workload_file_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--workload", "/nowhere.toml"]) == 1
    assert "/nowhere.toml cannot be read" in capsys.readouterr().err
