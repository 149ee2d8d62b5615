"""Series and their episodes: which episodes are listed and in what order, and how their index entries change with the
video."""

import uuid
from typing import Any

import pytest

from local.testbed.harness import NOW, Api, record_operations
from shared.aws.dynamodb import Table
from shared.background.comparison import Comparison
from shared.core.caller import Caller
from shared.relations.entry_updates import EntryUpdater
from shared.schema import EPISODE, series_relation
from shared.videos.store import VideoStore

EpisodePosition = tuple[int | None, int | None]


@pytest.fixture
def series(api: Api) -> str:
    """Publish a series of alice's, and return its id."""
    return str(api.publish("alice", title="Series")["videoId"])


def episode(api: Api, series: str, season: int | None = 1, number: int | None = 1, **fields: Any) -> str:
    """Publish an episode and return its id. The owner is alice, unless `fields` contains another `user`."""
    user = fields.pop("user", "alice")
    position = {"season": season, "episode": number}
    position_fields = {name: value for name, value in position.items() if value is not None}
    return str(api.publish(user, seriesId=series, **position_fields, **fields)["videoId"])


def listed(api: Api, series: str, query: str = "", user: str = "bob") -> list[str]:
    """Return the video ids on the first page of a series."""
    reply = api.get(f"/v1/videos/{series}/episodes", query=query, user=user)
    assert reply.status == 200, reply.body
    return [item["video"]["videoId"] for item in reply.json["items"]]


def entry(table: Table, video_id: str) -> tuple[Any, ...] | None:
    """Return the relation, shard, sort value and id of an episode's index entry. `None` if it has no entry."""
    item = table.get(EPISODE.key(videoId=video_id), consistent=True)
    return (item["rel"], item["relShard"], item["relSort"], item["relId"]) if item else None


class TestListing:
    def test_episodes_are_ordered_by_season_and_number_with_unnumbered_last(self, api: Api, series: str) -> None:
        positions: list[EpisodePosition] = [(2, 1), (None, None), (1, 10), (1, None), (0, 5), (1, 2), (9_999, 999_999)]
        ids = {position: episode(api, series, *position) for position in positions}
        in_order: list[EpisodePosition] = [(0, 5), (1, 2), (1, 10), (1, None), (2, 1), (9_999, 999_999), (None, None)]
        assert listed(api, series) == [ids[position] for position in in_order]
        assert listed(api, series, "season=1") == [ids[position] for position in in_order[1:4]]
        assert listed(api, series, "season=9999") == [ids[9_999, 999_999]]
        assert listed(api, series, "season=3") == []

    def test_episode_pages_are_full_and_have_a_cursor(self, api: Api, series: str) -> None:
        ids = [episode(api, series, 1, number) for number in range(1, 6)]
        listed, cursor = [], ""
        for size in (2, 2, 1):
            page = api.get(f"/v1/videos/{series}/episodes", query=f"limit=2{cursor}").json
            assert len(page["items"]) == size
            listed += [item["video"]["videoId"] for item in page["items"]]
            cursor = f"&cursor={page['nextCursor']}"
        assert (listed, cursor) == (ids, "&cursor=None")

    def test_episode_list_sends_one_query_for_any_number_of_episodes(self, api: Api, table: Table, series: str) -> None:
        for number in range(1, 30):
            episode(api, series, 1, number)
        with record_operations(table.client) as operations:
            assert len(listed(api, series)) == 25
        assert [operation.name for operation in operations] == ["GetItem", "Query", "BatchGetItem"]

    def test_episode_item_has_its_position_and_the_summary_fields(self, api: Api, series: str) -> None:
        video_id = episode(api, series, 3, 7, title="The end")
        (item,) = api.get(f"/v1/videos/{series}/episodes").json["items"]
        assert (item["season"], item["episode"]) == (3, 7)
        assert (item["video"]["videoId"], item["video"]["title"]) == (video_id, "The end")
        assert "seriesId" not in item["video"]

    def test_episodes_of_other_owners_are_not_listed_or_read(self, api: Api, table: Table, series: str) -> None:
        for number in range(30):
            episode(api, series, 0, number, user="bob")
        own = episode(api, series, 1, 2)
        with record_operations(table.client) as operations:
            assert listed(api, series) == [own]
        (keys,) = (operation.parameters for operation in operations if operation.name == "BatchGetItem")
        assert len(keys["RequestItems"][table.name]["Keys"]) == 1

    def test_episodes_of_a_hidden_series_are_listed_only_to_its_owner(self, api: Api) -> None:
        series = str(api.create("alice")["videoId"])
        own = episode(api, series)
        assert listed(api, series, user="alice") == [own]
        assert api.get(f"/v1/videos/{series}/episodes", user="bob").status == 404
        assert api.get(f"/v1/videos/{uuid.uuid4()}/episodes").status == 404

    @pytest.mark.parametrize(
        "hiding",
        [{"visibility": "private"}, {"publishAt": NOW + 1000}, {"createdAt": NOW - 2000, "expiresAt": NOW - 1000}],
        ids=str,
    )
    def test_hidden_episode_is_not_in_the_index(
        self, api: Api, table: Table, series: str, hiding: dict[str, Any]
    ) -> None:
        hidden = episode(api, series, **hiding)
        assert listed(api, series) == []
        assert entry(table, hidden) is None


class TestEntryUpdates:
    def test_patch_updates_the_entry_of_an_episode_at_once(self, api: Api, table: Table, series: str) -> None:
        other = str(api.publish("alice")["videoId"])
        video_id = episode(api, series, 1, 1)
        path = f"/v1/videos/{video_id}"
        assert entry(table, video_id) == (series_relation(series, "alice"), 0, 1_000_002, video_id)
        assert api.patch(path, {"season": 2, "episode": None}).status == 200
        assert entry(table, video_id) == (series_relation(series, "alice"), 0, 2_000_002 + 1_000_000, video_id)
        assert api.patch(path, {"seriesId": other}).status == 200
        assert (listed(api, series), listed(api, other)) == ([], [video_id])
        assert api.patch(path, {"visibility": "private"}).status == 200
        assert entry(table, video_id) is None
        assert api.patch(path, {"visibility": "public"}).status == 200
        assert listed(api, other) == [video_id]
        assert api.patch(path, {"seriesId": None, "season": None, "episode": None}).status == 200
        assert entry(table, video_id) is None

    def test_delete_removes_an_episode_from_the_list_and_restore_adds_it(self, api: Api, series: str) -> None:
        video_id = episode(api, series)
        assert api.delete(f"/v1/videos/{video_id}").status == 204
        assert listed(api, series) == []
        assert api.post(f"/v1/videos/{video_id}/restore").status == 200
        assert listed(api, series) == [video_id]

    def test_episode_changed_by_a_job_is_moved_by_the_entry_mover(self, api: Api, table: Table, series: str) -> None:
        video_id = episode(api, series, publishAt=NOW - 1000, expiresAt=NOW + 1000)
        jobs, updater = VideoStore(table, moves_entries=False), EntryUpdater(table)
        jobs.change(video_id, Caller.job("test"), NOW, lambda item: item | {"status": "processing"})
        assert entry(table, video_id) is not None
        updater.update_entries(video_id, NOW)
        assert entry(table, video_id) is None
        jobs.change(video_id, Caller.job("test"), NOW, lambda item: item | {"status": "ready"})
        assert entry(table, video_id) is None
        updater.update_entries(video_id, NOW)
        assert listed(api, series) == [video_id]
        updater.update_entries(video_id, NOW + 1000)
        assert entry(table, video_id) is None

    def test_wrong_episode_entry_is_found_and_repaired(self, api: Api, table: Table, series: str) -> None:
        video_id = episode(api, series)
        comparison = Comparison(table, lambda: NOW)
        right = table.get(EPISODE.key(videoId=video_id)) or {}
        for wrong in ({}, right | {"relSort": 5}, right | {"rel": series_relation("other", "alice")}):
            table.delete(EPISODE.key(videoId=video_id))
            if wrong:
                table.write(table.put(wrong))
            assert comparison.entries(comparison.family(video_id))
            EntryUpdater(table).update_entries(video_id, NOW)
            assert comparison.entries(comparison.family(video_id)) is None
            assert entry(table, video_id) == (series_relation(series, "alice"), 0, 1_000_002, video_id)


class TestContent:
    @pytest.mark.parametrize("field", ["season", "episode"])
    def test_season_and_episode_number_require_a_series(self, api: Api, series: str, field: str) -> None:
        refused = api.post("/v1/videos", {"title": "t", field: 1})
        assert refused.status == 422
        assert "seriesId" in refused.json["errors"][0]["detail"]
        video_id = episode(api, series)
        assert api.patch(f"/v1/videos/{video_id}", {"seriesId": None}).status == 422
        assert api.get(f"/v1/videos/{video_id}").json["seriesId"] == series

    @pytest.mark.parametrize(
        "position",
        [{"season": -1}, {"season": 10_000}, {"episode": 1_000_000}, {"episode": "1"}, {"seriesId": "x"}],
        ids=str,
    )
    def test_season_and_episode_numbers_have_limits(self, api: Api, position: dict[str, Any]) -> None:
        sent = {"title": "t", "seriesId": str(uuid.uuid4())} | position
        assert api.post("/v1/videos", sent).status == 422

    def test_series_may_be_created_after_its_episodes(self, api: Api) -> None:
        later = str(uuid.uuid4())
        video_id = episode(api, later)
        api.publish("alice", videoId=later)
        assert listed(api, later) == [video_id]
