"""Lists of the most viewed videos: their computation from hourly and daily views, and their responses."""

import random
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from functions.rankings import handler
from local.testbed.background import BackgroundWork
from local.testbed.counted_views import CountedViews
from local.testbed.harness import NOW, Api, Clock, Context, FakeResources, ShortContext, record_operations
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.aws.lean.client import ErrorResponse
from shared.core.periods import DAY_SECONDS, HOUR_SECONDS, WINDOWS
from shared.schema import TOP, VIEW_COUNTER, VIEWS_BY_HOUR, shard_of
from shared.views import rankings
from shared.views.rankings import DAYS_EVERY, HOURS_EVERY, REFRESH_SECONDS, Rankings
from shared.views.top import (
    ALL,
    LARGEST_TOP,
    ORDERS,
    RETENTION_SECONDS,
    RankedVideo,
    TopStore,
    TopVideos,
    first_in_each_order,
)

HOUR = NOW // HOUR_SECONDS * HOUR_SECONDS
"""Start of the current hour, in seconds since the epoch."""


@pytest.fixture
def viewed(table: Table) -> CountedViews:
    """Return a store of counted views."""
    return CountedViews(table)


def compute(table: Table, now: int = NOW) -> dict[str, int]:
    """Compute the lists that are due, and return the counts of the run."""
    return Rankings(table).compute(now)


def listed(api: Api, query: str = "", **options: Any) -> dict[str, Any]:
    """Return the response to GET /v1/top."""
    reply = api.get("/v1/top", query=query, **options)
    assert reply.status == 200, reply.body
    content: dict[str, Any] = reply.json
    return content


def titles(api: Api, query: str = "") -> list[str]:
    """Return the titles of a list in order."""
    return [item["title"] for item in listed(api, query)["items"]]


def published(api: Api, viewed: CountedViews, **views: int) -> dict[str, str]:
    """Publish videos with these titles and numbers of views in the current hour. Return their ids by title."""
    video_ids = {title: api.publish(title=title)["videoId"] for title in views}
    for title, count in views.items():
        viewed.count(video_ids[title], HOUR, views=count)
    viewed.store()
    return video_ids


@dataclass(frozen=True)
class View:
    """Several views of a video at the same time."""

    video_id: str
    at: int
    count: int
    category: str


def expected(views: list[View], window: str, category: str) -> dict[str, tuple[int, int, int]]:
    """Compute how many views each video has in the window, in the previous window, and in total."""
    seconds, periods = WINDOWS[window].period_seconds, WINDOWS[window].periods
    start = NOW // seconds * seconds - (periods - 1) * seconds
    categories: dict[str, str] = {}
    opened: dict[str, int] = {}
    for view in views:
        # A video has the category of its first view in its latest hour or day.
        if opened.get(view.video_id) != view.at // seconds:
            categories[view.video_id], opened[view.video_id] = view.category, view.at // seconds
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for view in views:
        sums[view.video_id][0] += view.count * (start <= view.at)
        sums[view.video_id][1] += view.count * (start - periods * seconds <= view.at < start)
        sums[view.video_id][2] += view.count
    return {
        video_id: (inside, before, total)
        for video_id, (inside, before, total) in sums.items()
        if inside and category in (ALL, categories[video_id])
    }


@pytest.mark.slow
def test_every_list_equals_a_computation_from_all_views(table: Table, viewed: CountedViews) -> None:
    draw = random.Random(0)
    videos = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(12)]
    shard_counts = dict.fromkeys(videos[:3], 4)
    times = sorted(
        NOW - int(draw.expovariate(1 / draw.choice([HOUR_SECONDS, DAY_SECONDS, 20 * DAY_SECONDS]))) for _ in range(300)
    )
    views = []
    for at in times:
        view = View(draw.choice(videos), at, draw.randint(1, 9), draw.choice(["a", "b", ALL]))
        views.append(view)
        viewed.categories.pop(view.video_id, None)
        if view.category:
            viewed.categories[view.video_id] = view.category
        name = draw.choice(["views", "keyed"])
        viewed.count(view.video_id, at, shard=draw.randrange(shard_counts.get(view.video_id, 1)), **{name: view.count})
        viewed.count(view.video_id, at, repeated=1)
    viewed.store()
    compute(table)

    store = TopStore(table)
    for window in WINDOWS:
        for category in (ALL, "a", "b"):
            top = store.read(window, category, NOW)
            ranked = {video.video_id: (video.views, video.before, video.total) for video in (top.videos if top else ())}
            assert ranked == expected(views, window, category), (window, category)

    item = table.get(VIEWS_BY_HOUR.key())
    assert item
    by_hour = Counter[int]()
    for view in views:
        by_hour[view.at // HOUR_SECONDS * HOUR_SECONDS] += view.count
    assert item["from"] == HOUR - 23 * HOUR_SECONDS
    assert item["views"] == [by_hour[item["from"] + number * HOUR_SECONDS] for number in range(24)]


def test_views_from_the_stream_rank_videos(api: Api, table: Table, clock: Clock) -> None:
    background, video_ids = (
        BackgroundWork(table, clock),
        {title: api.publish(title=title)["videoId"] for title in ("a", "b", "c")},
    )

    def view(title: str, times: int) -> None:
        for _ in range(times):
            assert api.post(f"/v1/videos/{video_ids[title]}/views", user="bob").status == 200
        background.settle()

    view("a", 5)
    clock.advance(30 * HOUR_SECONDS)
    view("a", 1)
    view("b", 3)
    clock.advance(HOUR_SECONDS)
    view("c", 2)
    now = int(clock())
    compute(table, now)
    ranking = [(item["title"], item["views"], item["rise"], item["viewCount"]) for item in listed(api)["items"]]
    assert ranking == [("b", 3, 3, 3), ("c", 2, 2, 2), ("a", 1, -4, 6)]
    hours = api.get(f"/v1/videos/{video_ids['a']}/views", query=f"from={NOW}").json
    assert [item["views"] for item in hours["items"]] == [5, *[0] * 29, 1, 0]


class TestOrders:
    def test_list_has_the_first_hundred_videos_of_each_order(self) -> None:
        draw = random.Random(0)
        videos = [
            RankedVideo(f"{number:04d}", draw.randint(1, 50), draw.randint(0, 50), draw.randint(50, 90))
            for number in range(1000)
        ]
        top = TopVideos(0, 0, first_in_each_order(videos))
        assert len(top.videos) <= len(ORDERS) * LARGEST_TOP
        for order, value in ORDERS.items():
            by_id = sorted(videos, key=lambda video: video.video_id)  # videos with equal values are ordered by id
            by_id.sort(key=value, reverse=True)
            assert top.by(order) == by_id[:LARGEST_TOP]

    def test_lists_of_each_order_are_descending(self, api: Api, table: Table, viewed: CountedViews) -> None:
        old, new, steady = (api.publish(title=title)["videoId"] for title in ("old", "new", "steady"))
        viewed.count(old, HOUR - 30 * HOUR_SECONDS, views=1000)
        viewed.count(steady, HOUR - 29 * HOUR_SECONDS, views=60)
        viewed.count(old, HOUR, views=10)
        viewed.count(new, HOUR, views=40)
        viewed.count(steady, HOUR, views=50)
        viewed.store()
        compute(table)
        assert titles(api) == titles(api, "sort=-views") == ["steady", "new", "old"]
        assert titles(api, "sort=-rise") == ["new", "steady", "old"]
        assert titles(api, "sort=-viewCount") == ["old", "steady", "new"]
        first = listed(api, "sort=-rise")["items"][1]
        assert (first["views"], first["viewsBefore"], first["rise"], first["viewCount"]) == (50, 60, -10, 110)


class TestContent:
    def test_top_list_is_empty_before_it_was_computed(self, api: Api) -> None:
        assert listed(api, "window=week&category=c") == {
            "window": "week",
            "category": "c",
            "from": None,
            "computedAt": None,
            "items": [],
        }

    def test_top_list_has_current_summaries(self, api: Api, table: Table, viewed: CountedViews) -> None:
        video_id = published(api, viewed, a=3)["a"]
        compute(table)
        api.patch(f"/v1/videos/{video_id}", {"title": "b"})
        (summary,) = api.get("/v1/videos").json["items"]
        content = listed(api)
        assert content["items"] == [summary | {"views": 3, "viewsBefore": 0, "rise": 3, "viewCount": 3}]
        assert summary["title"] == "b"
        assert (content["from"], content["computedAt"]) == (HOUR - 23 * HOUR_SECONDS, NOW)

    def test_top_list_has_poster_urls(self, api: Api, table: Table, viewed: CountedViews) -> None:
        video_id = published(api, viewed, a=3)["a"]
        picture = {"url": "s3://media/thumbnails/a.jpg", "width": 1, "height": 1}
        assert api.patch(f"/v1/videos/{video_id}", {"thumbnails": {"poster": picture}}).status == 200
        compute(table)
        assert listed(api)["items"][0].get("poster") == api.get("/v1/videos").json["items"][0].get("poster")

    def test_top_list_skips_videos_that_are_no_longer_published(
        self, api: Api, table: Table, viewed: CountedViews
    ) -> None:
        video_ids = published(api, viewed, a=5, b=4, c=3, d=2, e=1)
        compute(table)
        api.patch(f"/v1/videos/{video_ids['a']}", {"visibility": "private"})
        api.delete(f"/v1/videos/{video_ids['c']}")
        for user in ("alice", "bob", "admin"):
            items = listed(api, "limit=3", user=user)["items"]
            assert [item["title"] for item in items] == ["b", "d", "e"]
        assert titles(api, "limit=2") == ["b", "d"]

    def test_video_with_a_changed_category_leaves_the_list(self, api: Api, table: Table, viewed: CountedViews) -> None:
        one, other = (api.publish(title=title, category="c")["videoId"] for title in ("one", "other"))
        viewed.categories |= {one: "c", other: "c"}
        viewed.count(one, HOUR, views=2)
        viewed.count(other, HOUR)
        viewed.store()
        compute(table)
        assert titles(api, "category=c") == ["one", "other"]
        api.patch(f"/v1/videos/{one}", {"category": "d"})
        assert (titles(api, "category=c"), titles(api, "category=d")) == (["other"], [])
        assert titles(api) == ["one", "other"]

    @pytest.mark.parametrize("category", ["*", "a#b", "100%", "\N{CLAPPER BOARD}"])
    def test_a_category_may_have_any_name(self, api: Api, table: Table, viewed: CountedViews, category: str) -> None:
        one = api.publish(title="one", category=category)["videoId"]
        published(api, viewed, other=5)
        viewed.categories[one] = category
        viewed.count(one, HOUR + 1)
        viewed.store()
        compute(table)
        assert titles(api, f"category={quote(category)}") == ["one"]
        assert titles(api) == ["other", "one"]

    def test_uncounted_views_do_not_rank_a_video(self, api: Api, table: Table, viewed: CountedViews) -> None:
        viewed.count(api.publish()["videoId"], HOUR, repeated=5, owner=1)
        viewed.store()
        compute(table)
        assert listed(api)["items"] == []

    def test_top_list_takes_one_read_of_the_list_and_one_of_the_videos(
        self, api: Api, table: Table, viewed: CountedViews
    ) -> None:
        published(api, viewed, a=1, b=1, c=1)
        compute(table)
        with record_operations(table.client) as operations:
            listed(api, "limit=2")
        assert [operation.name for operation in operations] == ["GetItem", "BatchGetItem"]
        assert len(operations[1].parameters["RequestItems"][table.name]["Keys"]) == 2

    @pytest.mark.parametrize(
        "query",
        [
            *("window=year", "window=", "limit=0", "limit=101", "sort=views", "sort=rise", "sort=-title", "tag=a"),
            *("category=", f"category={'x' * 101}", "category=a%00b", "window=day&window=day", "cursor=x"),
        ],
    )
    def test_unknown_parameter_or_value_is_400(self, api: Api, table: Table, query: str) -> None:
        with record_operations(table.client) as operations:
            reply = api.get("/v1/top", query=query)
        assert (reply.status, operations) == (400, []), reply.body


class TestRuns:
    @pytest.mark.slow
    def test_hourly_lists_are_computed_in_each_run_and_daily_lists_once_an_hour(
        self, api: Api, table: Table, viewed: CountedViews
    ) -> None:
        video_id = published(api, viewed, a=1)["a"]
        compute(table)
        computed: dict[str, list[int]] = defaultdict(list)
        for late in range(HOURS_EVERY, DAYS_EVERY + HOURS_EVERY, HOURS_EVERY):
            viewed.count(video_id, NOW + late - 1)
            viewed.store()
            compute(table, NOW + late)
            for window in WINDOWS:
                top = TopStore(table).read(window, ALL, NOW)
                assert top
                computed[window].append((top.computed_at - NOW) // HOURS_EVERY)
        every_run = [*range(1, 13)]
        assert computed == {
            "hour": every_run,
            "day": every_run,
            "week": [0] * 11 + [12],
            "month": [0] * 11 + [12],
        }

    def test_run_without_time_skips_daily_lists(self, api: Api, table: Table, viewed: CountedViews) -> None:
        published(api, viewed, a=1)
        function = FakeResources(table, lambda: NOW).make(handler.lambda_handler)
        function({}, ShortContext(0))
        assert (len(titles(api, "window=day")), len(titles(api, "window=week"))) == (1, 0)
        function({}, Context())
        assert len(titles(api, "window=week")) == 1

    def test_unchanged_list_is_written_again_after_the_refresh_time(
        self, api: Api, table: Table, viewed: CountedViews
    ) -> None:
        published(api, viewed, a=1)
        now = HOUR + 60
        written = {late: compute(table, now + late)["lists"] for late in (0, 300, REFRESH_SECONDS - 1, REFRESH_SECONDS)}
        assert written == {0: 4, 300: 0, REFRESH_SECONDS - 1: 0, REFRESH_SECONDS: 2}

    def test_list_of_a_category_without_views_is_empty_then_expires(
        self, api: Api, table: Table, viewed: CountedViews, clock: Clock
    ) -> None:
        video_id = api.publish(category="c")["videoId"]
        viewed.categories[video_id] = "c"
        viewed.count(video_id, NOW)
        viewed.store()
        compute(table)
        later = NOW + 3 * HOUR_SECONDS
        clock.now = later
        compute(table, later)
        assert (listed(api, "window=hour&category=c")["computedAt"], titles(api, "window=hour&category=c")) == (
            later,
            [],
        )
        compute(table, later + REFRESH_SECONDS)
        assert listed(api, "window=hour&category=c")["computedAt"] == later
        clock.now = later + RETENTION_SECONDS
        assert listed(api, "window=hour&category=c")["computedAt"] is None

    def test_only_the_most_viewed_categories_have_lists(
        self, table: Table, viewed: CountedViews, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rankings, "MAX_CATEGORIES", 2)
        for number in range(4):
            viewed.categories[str(number)] = f"c{number}"
            viewed.count(str(number), NOW, views=number + 1)
        viewed.store()
        compute(table)
        listed = {category: TopStore(table).read("day", category, NOW) for category in ("c0", "c1", "c2", "c3")}
        assert [category for category, top in listed.items() if top] == ["c2", "c3"]

    def test_window_is_shorter_when_it_has_too_many_entries(
        self, table: Table, viewed: CountedViews, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for hours in range(60, -1, -1):
            for video_id in ("a", "b"):
                viewed.count(video_id, HOUR - hours * HOUR_SECONDS)
        viewed.store()
        monkeypatch.setattr(rankings, "MAX_ENTRIES", 21)
        compute(table)
        top = TopStore(table).read("day", ALL, NOW)
        # Ten whole hours have 20 entries: five hours for the window, and five for the previous window.
        assert top
        assert top.start == HOUR - 4 * HOUR_SECONDS
        assert [(video.views, video.before) for video in top.videos] == [(5, 5)] * 2
        monkeypatch.setattr(rankings, "MAX_ENTRIES", 1)
        compute(table)
        top = TopStore(table).read("day", ALL, NOW)
        assert top
        assert (top.start, {video.views for video in top.videos}) == (HOUR, {1})

    def test_single_hour_with_too_many_videos_omits_the_least_viewed(
        self, table: Table, viewed: CountedViews, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = [name for name in map(str, range(40)) if shard_of(name) == 0][:3]
        for views, name in zip((1, 9, 2), names, strict=True):
            viewed.count(name, HOUR - HOUR_SECONDS, views=views)
            viewed.count(name, HOUR)
        viewed.store()
        monkeypatch.setattr(rankings, "MAX_ENTRIES", 1)
        monkeypatch.setattr(rankings, "LARGEST_PAGE", 1)
        compute(table)
        top = TopStore(table).read("hour", ALL, NOW)
        assert top
        assert [video.video_id for video in top.videos] == [names[1]]

    @pytest.mark.slow
    def test_a_run_reads_four_partitions_of_each_hour_and_each_counter_once(
        self, table: Table, viewed: CountedViews
    ) -> None:
        for number in range(101):  # one more than a BatchGetItem reads
            viewed.count(f"v{number}", NOW)
        viewed.store()
        compute(table)
        with record_operations(table.client) as operations:
            compute(table, NOW + 300)
        names = [operation.name for operation in operations if operation.index is None]
        assert names == ["BatchGetItem", "BatchGetItem", "GetItem", "GetItem", "GetItem", "PutItem", "GetItem"]
        queries = [operation for operation in operations if operation.index]
        assert len(queries) == 4 * 48

    def test_runs_merge_the_shards_of_a_calm_counter(self, table: Table, viewed: CountedViews) -> None:
        for shard in range(4):
            viewed.count("v", NOW, shard=shard, views=10)
        viewed.store()
        first = VIEW_COUNTER.key(videoId="v", shard=0)
        for late in range(0, 4 * HOURS_EVERY, HOURS_EVERY):
            compute(table, NOW + late)
            top = TopStore(table).read("day", ALL, NOW)
            assert top
            assert top.videos == (RankedVideo("v", 40, 0, 40),)
        counter = table.get(first)
        assert counter
        assert counter["folded"] == {"views": 30}

    def test_throttled_counter_does_not_delay_lists(self, table: Table, viewed: CountedViews) -> None:
        for shard in range(2):
            viewed.count("v", NOW, shard=shard, views=10)
        viewed.store()

        def busy(operation: str, _: Any, send: Callable[[], Any]) -> Any:
            if operation == "UpdateItem":
                raise ErrorResponse(400, {"__type": "ThrottlingException", "message": ""})
            return send()

        undo = intercept(table.client, busy)
        compute(table, NOW)
        undo()
        assert all(TopStore(table).read(window, ALL, NOW) for window in ("hour", "day", "week", "month"))

    @pytest.mark.slow
    def test_entries_are_read_in_pages(
        self, table: Table, viewed: CountedViews, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(50):
            viewed.count(f"v{number}", NOW)
        viewed.store()
        monkeypatch.setattr(rankings, "LARGEST_PAGE", 3)
        assert compute(table)["videos"] == 2 * 50


def test_a_list_of_the_largest_size_takes_at_most_eleven_write_units(table: Table) -> None:
    draw = random.Random(0)
    videos = tuple(
        RankedVideo(str(uuid.UUID(int=draw.getrandbits(128))), *(draw.randrange(10**7) for _ in range(3)))
        for _ in range(len(ORDERS) * LARGEST_TOP)
    )
    TopStore(table).write("day", ALL, TopVideos(HOUR, NOW, videos))
    assert TopStore(table).read("day", ALL, NOW) == TopVideos(HOUR, NOW, videos)
    item = table.get(TOP.key(window="day", category="*"))
    assert item
    assert (
        sum(len(name) + len(value if isinstance(value, bytes) else str(value)) for name, value in item.items())
        <= 11 * 1024
    )
