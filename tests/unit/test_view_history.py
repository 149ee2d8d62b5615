"""Counted views of a video over time, by hour and by day in any time zone, and the counting rules."""

import random
from datetime import datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from local.testbed.counted_views import CountedViews
from local.testbed.harness import NOW, Api, record_operations
from shared.aws.dynamodb import Table
from shared.core.periods import DAY_SECONDS, HOUR_SECONDS, HOURS_RETAINED_DAYS
from shared.videos.counters import SUMS, UNCOUNTED, ViewCount
from shared.views.history import Buckets, sums_at

HOUR = NOW // HOUR_SECONDS * HOUR_SECONDS
"""Start of the current hour, in seconds since the epoch."""
DAY = NOW // DAY_SECONDS * DAY_SECONDS
EARLIEST = HOUR - HOURS_RETAINED_DAYS * DAY_SECONDS + HOUR_SECONDS


@pytest.fixture
def viewed(table: Table) -> CountedViews:
    """Return a store of counted views."""
    return CountedViews(table)


def history(api: Api, video_id: str, query: str = "", **options: Any) -> dict[str, Any]:
    """Return the response to GET .../views."""
    reply = api.get(f"/v1/videos/{video_id}/views", query=query, **options)
    assert reply.status == 200, reply.body
    content: dict[str, Any] = reply.json
    return content


def counts(content: dict[str, Any]) -> dict[int, int]:
    """Return the views of each bucket that has any, by the start of the bucket."""
    return {item["from"]: item["views"] for item in content["items"] if item["views"]}


class TestHours:
    def test_last_24_hours_are_listed_with_their_views_or_zero(self, api: Api, viewed: CountedViews) -> None:
        video_id = api.publish()["videoId"]
        viewed.count(video_id, HOUR - 30 * HOUR_SECONDS, views=5)
        viewed.count(video_id, HOUR - 2 * HOUR_SECONDS, views=3, keyed=1, watched=9000)
        viewed.count(video_id, HOUR - 1, views=2)
        viewed.count(video_id, HOUR, views=1, repeated=7)
        viewed.store()
        content = history(api, video_id)
        assert (content["videoId"], content["granularity"], content["tz"]) == (video_id, "hour", "UTC")
        assert [item["from"] for item in content["items"]] == [HOUR - n * HOUR_SECONDS for n in range(23, -1, -1)]
        assert [item["to"] - item["from"] for item in content["items"]] == [HOUR_SECONDS] * 24
        assert [item["views"] for item in content["items"]] == [*[0] * 21, 4, 2, 1]
        assert [item["watchedMs"] for item in content["items"]] == [*[0] * 21, 9000, 0, 0]
        assert content["total"] == 7

    def test_a_video_without_views_has_zeros(self, api: Api) -> None:
        content = history(api, api.publish()["videoId"])
        assert (len(content["items"]), counts(content), content["total"]) == (24, {}, 0)

    def test_hours_at_the_ends_of_a_range_are_counted_completely(self, api: Api, viewed: CountedViews) -> None:
        video_id = api.publish()["videoId"]
        for hour in range(-4, 1):
            viewed.count(video_id, HOUR + hour * HOUR_SECONDS, views=1)
        viewed.store()
        start, end = HOUR - 2 * HOUR_SECONDS + 1, HOUR - 1
        assert counts(history(api, video_id, f"from={start}&to={end}")) == {
            HOUR - 2 * HOUR_SECONDS: 1,
            HOUR - HOUR_SECONDS: 1,
        }

    def test_views_before_the_first_start_belong_to_no_hour(self, api: Api, table: Table, viewed: CountedViews) -> None:
        """Simulate an imported counter, which has no starts."""
        video_id = api.publish()["videoId"]
        viewed.counters[video_id, 0]["views"] = 1000
        viewed.count(video_id, HOUR, views=1)
        viewed.store()
        assert counts(history(api, video_id)) == {HOUR: 1}

    def test_counter_read_before_its_last_start_has_no_negative_hour(self) -> None:
        live = ViewCount({0: dict.fromkeys(SUMS, 3)})
        before, after = sums_at([HOUR, HOUR + 3600], [(HOUR, {0: dict.fromkeys(SUMS, 5)})], live)
        assert (before["views"], after["views"]) == (5, 3)

    @pytest.mark.parametrize("seed", range(5))
    def test_hour_is_the_sum_of_all_shards(self, api: Api, viewed: CountedViews, seed: int) -> None:
        draw, video_id = random.Random(seed), api.publish()["videoId"]
        expected: dict[int, int] = {}
        for hour in range(HOUR - 40 * HOUR_SECONDS, NOW, HOUR_SECONDS):
            for shard in draw.sample(range(4), draw.randint(0, 4)):
                views = draw.randint(1, 5)
                viewed.count(video_id, hour + draw.randrange(1200), shard=shard, views=views)
                expected[hour] = expected.get(hour, 0) + views
        viewed.store()
        start, end = HOUR - 30 * HOUR_SECONDS, HOUR - 10 * HOUR_SECONDS
        assert counts(history(api, video_id, f"from={start}&to={end}")) == {
            hour: views for hour, views in expected.items() if start <= hour < end
        }


class TestDays:
    def test_days_in_utc_are_retained_permanently(self, api: Api, viewed: CountedViews) -> None:
        video_id, then = api.publish()["videoId"], DAY - 300 * DAY_SECONDS
        viewed.count(video_id, then + 5, views=2)
        viewed.count(video_id, then + DAY_SECONDS - 1, views=1)
        viewed.count(video_id, DAY, views=4)
        viewed.store()
        content = history(api, video_id, f"granularity=day&from={then}")
        assert (len(content["items"]), counts(content), content["total"]) == (301, {then: 3, DAY: 4}, 7)

    def test_last_30_days_are_listed_by_default(self, api: Api) -> None:
        for zone in ("UTC", "Europe/Berlin"):
            items = history(api, api.publish()["videoId"], f"granularity=day&tz={zone}")["items"]
            assert len(items) == 30
            assert items[-1]["from"] <= NOW < items[-1]["to"]

    def test_days_of_a_time_zone_begin_at_its_midnight(self, api: Api, viewed: CountedViews) -> None:
        video_id = api.publish()["videoId"]
        midnight = int(datetime(2025, 6, 15, tzinfo=ZoneInfo("America/New_York")).timestamp())
        for at in (midnight - 1, midnight, midnight + 1):
            viewed.count(video_id, at)
        viewed.store()
        content = history(api, video_id, "granularity=day&tz=America/New_York")
        assert counts(content) == {midnight - DAY_SECONDS: 1, midnight: 2}

    def test_a_day_of_a_zone_with_half_hours_begins_with_its_first_full_hour(
        self, api: Api, viewed: CountedViews
    ) -> None:
        video_id = api.publish()["videoId"]
        midnight = int(datetime(2025, 6, 15, tzinfo=ZoneInfo("Asia/Kolkata")).timestamp())
        assert midnight % HOUR_SECONDS == 1800
        for at in (midnight + 1799, midnight + 1800):
            viewed.count(video_id, at)
        viewed.store()
        # The half hour after midnight belongs to the previous day, even if a list begins with it.
        content = history(api, video_id, f"granularity=day&tz=Asia/Kolkata&from={midnight + 60}")
        assert counts(content) == {midnight + 1800 - DAY_SECONDS: 1, midnight + 1800: 1}

    @pytest.mark.parametrize(
        ("zone", "day", "hours"),
        [
            ("Europe/Berlin", (2025, 3, 30), 23),
            ("Europe/Berlin", (2025, 10, 26), 25),
            ("America/Havana", (2025, 3, 9), 23),  # midnight does not exist on this day
            ("America/Havana", (2025, 11, 2), 25),  # midnight occurs twice on this day
            ("Asia/Kolkata", (2025, 3, 30), 24),
        ],
    )
    def test_day_with_a_clock_change_is_shorter_or_longer(
        self, zone: str, day: tuple[int, int, int], hours: int
    ) -> None:
        noon = int(datetime(*day, 12, tzinfo=ZoneInfo(zone)).timestamp())
        bounds = Buckets.of("day", zone, noon - DAY_SECONDS, noon + DAY_SECONDS, noon + DAY_SECONDS).bounds
        assert [(end - start) // HOUR_SECONDS for start, end in pairwise(bounds)] == [24, hours, 24]
        assert bounds[1] <= noon < bounds[2]


class TestRange:
    @pytest.mark.parametrize(
        "query",
        [
            "granularity=minute",
            "granularity=",
            "tz=Mars/Olympus",
            "tz=Europe",
            "tz=../../etc/passwd",
            "tz=/etc/localtime",
            "tz=%00",
            f"tz={'x' * 65}",
            "tz=zone.tab",
            f"from={NOW}&to={NOW}",
            f"from={NOW}&to={NOW - 1}",
            f"from={NOW + 1}",
            f"from={NOW + 1}&to={NOW + 2}",
            "from=-1",
            "from=yesterday",
            f"from={HOUR - 744 * HOUR_SECONDS}",
            f"granularity=day&from={DAY - 366 * DAY_SECONDS}",
            "from=0&to=253402300800",
            f"from={EARLIEST - HOUR_SECONDS}&to={EARLIEST}",
            f"granularity=day&tz=Europe/Berlin&from={DAY - 36 * DAY_SECONDS}&to={DAY - 35 * DAY_SECONDS}",
            "limit=5",
        ],
    )
    def test_invalid_range_parameter_is_refused(self, api: Api, table: Table, query: str) -> None:
        video_id = api.publish()["videoId"]
        with record_operations(table.client) as operations:
            reply = api.get(f"/v1/videos/{video_id}/views", query=query)
        assert (reply.status, operations) == (400, []), reply.body
        assert reply.json["errors"][0]["parameter"] in query

    @pytest.mark.parametrize(
        ("query", "count"),
        [
            (f"from={HOUR - 743 * HOUR_SECONDS}", 744),
            (f"granularity=day&from={DAY - 365 * DAY_SECONDS}", 366),
            (f"from={EARLIEST}&to={EARLIEST + 1}", 1),
            ("granularity=day&from=0&to=1", 1),
            ("granularity=day&to=1", 1),
            ("granularity=day&from=1970-01-01T00:00:00Z&to=1970-01-02T00:00:01Z", 2),
            (f"from={NOW}&to={NOW + DAY_SECONDS}", 25),
            ("tz=Pacific/Chatham&granularity=day", 30),
        ],
    )
    def test_longest_and_earliest_ranges_are_accepted(self, api: Api, query: str, count: int) -> None:
        assert len(history(api, api.publish()["videoId"], query)["items"]) == count


@pytest.mark.parametrize("path", ["views", "views/explain"])
class TestReaders:
    def test_views_take_one_query_besides_the_video_and_its_counter(
        self, api: Api, table: Table, viewed: CountedViews, path: str
    ) -> None:
        video_id = api.publish()["videoId"]
        for hour in range(-30, 1):
            viewed.count(video_id, HOUR + hour * HOUR_SECONDS)
        viewed.store()
        with record_operations(table.client) as operations:
            api.get(f"/v1/videos/{video_id}/{path}")
        assert [operation.name for operation in operations] == ["GetItem", "BatchGetItem", "Query"]


class TestExplanation:
    def explained(self, api: Api, video_id: str) -> dict[str, Any]:
        reply = api.get(f"/v1/videos/{video_id}/views/explain")
        assert reply.status == 200, reply.body
        content: dict[str, Any] = reply.json
        return content

    def test_explanation_counts_views_by_outcome_and_rule(self, api: Api, viewed: CountedViews) -> None:
        video_id = api.publish()["videoId"]
        viewed.count(video_id, NOW - DAY_SECONDS - 1, views=100, keyed=50, repeated=9)
        uncounted = {rule: number for number, rule in enumerate(UNCOUNTED, start=1)}
        viewed.count(video_id, NOW - 7200, views=30, keyed=12, watched=5, **uncounted)
        viewed.store()
        content = self.explained(api, video_id)
        assert content["counted"] == {"total": 42, "anonymous": 30, "identified": 12}
        assert content["notCounted"] == {"total": sum(uncounted.values())} | uncounted
        assert content["viewCount"] == 192
        assert (content["from"], content["to"]) == (HOUR - 23 * HOUR_SECONDS, NOW)

    def test_explanation_has_a_sentence_for_each_rule(self, api: Api) -> None:
        rules = self.explained(api, api.publish()["videoId"])["rules"]
        assert [rule["rule"] for rule in rules] == list(UNCOUNTED)
        assert "30 minutes" in rules[0]["because"]
