"""Lists by rating and by views: sort entries, and the lists over them."""

from typing import Any

import pytest

from local.testbed.background import BackgroundWork
from local.testbed.counted_views import CountedViews
from local.testbed.harness import NOW, Api, Clock
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.core.attributes import Item
from shared.core.periods import HOUR_SECONDS
from shared.relations.entry_updates import EntryUpdater
from shared.schema import BY_RATING, BY_VIEWS, ORDER
from shared.videos.orders import views_value
from shared.videos.sort_entries import SortEntries
from shared.views.rankings import SETTLING_SECONDS, Rankings

HOUR = NOW // HOUR_SECONDS * HOUR_SECONDS
"""Start of the current hour."""


def titles(api: Api, query: str, **options: Any) -> list[str]:
    """Return the titles of a list."""
    reply = api.get("/v1/videos", query=query, **options)
    assert reply.status == 200, reply.body
    return [item["title"] for item in reply.json["items"]]


def viewed_videos(api: Api, table: Table, **views: int) -> dict[str, str]:
    """Publish videos of category `a`, with sort entries by views. Return their ids by title."""
    video_ids = {title: str(api.publish(title=title, category="a")["videoId"]) for title in views}
    values = {video_ids[title]: views_value(count) for title, count in views.items() if count}
    SortEntries(table).place(BY_VIEWS, values, NOW)
    return video_ids


def entry(table: Table, video_id: str, order: str = BY_VIEWS) -> Item | None:
    """Return the sort entry of a video, or `None`."""
    return table.get(ORDER.key(videoId=video_id, order=order), consistent=True)


def test_lists_by_views_sort_by_number_and_omit_videos_without_views(api: Api, table: Table) -> None:
    viewed_videos(api, table, nine=9, ten=10, none=0, hundred=100)
    for selector in ("userId=alice", "category=a"):
        assert titles(api, f"{selector}&sort=viewCount") == ["hundred", "ten", "nine"]
        assert titles(api, f"{selector}&sort=viewCount&order=asc") == ["nine", "ten", "hundred"]


def test_ratings_move_a_video_in_the_lists_by_rating(api: Api, table: Table, background: BackgroundWork) -> None:
    low, high = (str(api.publish(title=title, category="a")["videoId"]) for title in ("low", "high"))
    for user, video_id, value in (("bob", low, 9), ("bob", high, 10), ("carol", low, 1)):
        api.put(f"/v1/videos/{video_id}/rating", {"value": value}, user=user)
    background.settle()
    assert titles(api, "category=a&sort=rating") == ["high", "low"]
    assert titles(api, "userId=alice&sort=rating&order=asc") == ["low", "high"]
    api.delete(f"/v1/videos/{high}/rating", user="bob")
    background.settle()
    assert titles(api, "category=a&sort=rating") == ["low"]


def test_hidden_video_is_not_in_a_list_of_its_category(api: Api, table: Table) -> None:
    video_ids = viewed_videos(api, table, shown=1, hidden=2)
    api.patch(f"/v1/videos/{video_ids['hidden']}", {"visibility": "private"})
    # Before its entry is updated, the list finds that the video is hidden. Afterwards, the list does not read the video.
    for _ in range(2):
        assert titles(api, "category=a&sort=viewCount", user="bob") == ["shown"]
        assert titles(api, "userId=alice&sort=viewCount", user="bob") == ["shown"]
        assert titles(api, "userId=alice&sort=viewCount") == ["hidden", "shown"]
        EntryUpdater(table).update_entries(video_ids["hidden"], NOW)
    assert "category" not in (entry(table, video_ids["hidden"]) or {})


def test_new_category_moves_sort_entries(api: Api, table: Table, background: BackgroundWork) -> None:
    video_ids = viewed_videos(api, table, one=1)
    api.patch(f"/v1/videos/{video_ids['one']}", {"category": "b"})
    background.settle_totals()
    assert titles(api, "category=a&sort=viewCount") == []
    assert titles(api, "category=b&sort=viewCount") == ["one"]


def test_entry_of_a_private_video_has_no_category(api: Api, table: Table) -> None:
    video_id = str(api.publish(visibility="private", category="a")["videoId"])
    SortEntries(table).place(BY_VIEWS, {video_id: views_value(5)}, NOW)
    assert (entry(table, video_id) or {}).items() >= {"userId": "alice", "orderBy": BY_VIEWS}.items()
    assert "categoryShard" not in (entry(table, video_id) or {})


def test_removed_video_gets_no_entry(table: Table) -> None:
    SortEntries(table).place(BY_VIEWS, {"v": views_value(5)}, NOW)
    assert entry(table, "v") is None


def test_change_of_a_video_during_the_creation_of_its_entry_is_included(api: Api, table: Table) -> None:
    video_id = str(api.publish(category="a")["videoId"])
    changed = False

    def change_first(operation: str, _: Any, send: Any) -> Any:
        nonlocal changed
        if operation == "TransactWriteItems" and not changed:
            changed = True
            api.patch(f"/v1/videos/{video_id}", {"category": "b"})
        return send()

    intercept(table.client, change_first)
    SortEntries(table).place(BY_VIEWS, {video_id: views_value(5)}, NOW)
    assert (entry(table, video_id) or {})["category"] == "b"


def test_rating_of_no_votes_has_no_entry(api: Api, table: Table) -> None:
    video_id = str(api.publish()["videoId"])
    SortEntries(table).place(BY_RATING, {video_id: "0500"}, NOW)
    SortEntries(table).place_rating(video_id, NOW)
    assert entry(table, video_id, BY_RATING) is None


class TestRuns:
    """Runs of the function `rankings`, which update the lists by views."""

    @pytest.mark.slow
    def test_views_of_an_hour_are_sorted_once_after_its_end(self, api: Api, table: Table) -> None:
        viewed = CountedViews(table)
        video_id = str(api.publish(title="one", category="a")["videoId"])
        viewed.count(video_id, HOUR, views=3)
        viewed.store()
        end = HOUR + HOUR_SECONDS + SETTLING_SECONDS
        for now, views in ((HOUR + 60, None), (end - 1, None), (end, 3), (end + 300, 3)):
            Rankings(table).compute(now)
            assert (entry(table, video_id) or {}).get("orderValue") == (None if views is None else views_value(views))
        assert titles(api, "category=a&sort=viewCount") == ["one"]

    def test_run_without_time_leaves_lists_by_views(self, api: Api, table: Table) -> None:
        viewed = CountedViews(table)
        video_id = str(api.publish()["videoId"])
        viewed.count(video_id, HOUR, views=3)
        viewed.store()
        Rankings(table).compute(HOUR + 2 * HOUR_SECONDS, lambda: False)
        assert entry(table, video_id) is None


@pytest.mark.parametrize("query", ["sort=rating", "status=ready&sort=viewCount", "tag=t&userId=alice&sort=rating"])
def test_order_that_no_index_serves_is_400(api: Api, clock: Clock, query: str) -> None:
    assert api.get("/v1/videos", query=query).status == 400
