"""Index entries that make a video visible to other users. Only listed videos have them, and they change with the
video."""

import uuid
from typing import Any

import pytest

from local.testbed.background import BackgroundWork
from local.testbed.harness import NOW, Api, Clock, Context, record_operations
from shared import schema
from shared.aws.dynamodb import Table
from shared.aws.listing import Lists, Window, sharded_partitions, single_partition
from shared.background.sweeper import AHEAD
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import Unavailable
from shared.entities import Video
from shared.relations.entry_updates import SOON, EntryUpdater
from shared.videos.store import VideoStore
from shared.videos.video import GRACE_SECONDS

CREDIT = {"ordering": 1, "roles": [{"category": "actor"}]}
RELEASE = {"titles": [{"title": "Elsewhere"}]}
LISTS = {
    "tag": "/v1/videos?tag=boats",
    "region": "/v1/videos?region=NZ",
    "person": "/v1/people/sam/videos",
    "category": "/v1/videos?category=film",
    "feed": "/v1/videos?",
}
HIDING: dict[str, dict[str, Any]] = {
    "private": {"visibility": "private"},
    "not ready": {"status": "processing"},
    "to come": {"publishAt": NOW + 10_000},
    "expired": {"createdAt": NOW - 20_000, "expiresAt": NOW - 10_000},
}


def publish(api: Api, **fields: Any) -> str:
    """Publish a video, unless `fields` hide it, and return its id. Each of LISTS contains the published video."""
    content = {"tags": ["boats"], "category": "film", "releaseYear": 1990} | fields
    video_id = str(api.publish("alice", **content)["videoId"])
    assert api.put(f"/v1/videos/{video_id}/credits/sam", CREDIT).status == 201
    assert api.put(f"/v1/videos/{video_id}/releases/NZ/mi", RELEASE).status == 201
    return video_id


def list_ids(api: Api, name: str, user: str = "bob") -> list[str]:
    """Return the video ids on the first page of a list."""
    path, _, query = LISTS[name].partition("?")
    reply = api.get(path, query=query, user=user)
    if reply.status == 404:
        return []
    return [(item.get("video") or item)["videoId"] for item in reply.json["items"]]


def lists_with_videos(api: Api) -> set[str]:
    """Return the names of the lists that are not empty."""
    return {name for name in LISTS if list_ids(api, name)}


def entries_of(table: Table) -> dict[str, int]:
    """Return the number of index entries of each list, by name."""
    lists = Lists(table)
    partitions = {
        "tag": sharded_partitions(schema.tag_relation("boats")),
        "region": sharded_partitions(schema.region_relation("NZ")),
        "person": single_partition(schema.person_relation("sam")),
        "feed": sharded_partitions(schema.FEED),
    }
    window = Window(0, 2**40, limit=100)
    return {name: len(lists.related(parts, window).items) for name, parts in partitions.items()}


class TestHiddenVideos:
    @pytest.mark.slow
    @pytest.mark.parametrize("state", HIDING)
    def test_page_cost_does_not_depend_on_hidden_videos_of_others(self, api: Api, table: Table, state: str) -> None:
        # The ids are constant because they decide how the videos are distributed over shards, and therefore the number
        # of reads.
        for second in range(26):
            publish(api, videoId=str(uuid.UUID(int=second, version=4)), createdAt=1000 + second)
        for second in range(26, 66):
            publish(api, videoId=str(uuid.UUID(int=second, version=4)), **HIDING[state] | {"createdAt": 2000 + second})
        for name, most in {"tag": 5, "region": 5, "person": 2, "category": 4, "feed": 4}.items():
            with record_operations(table.client) as operations:
                assert len(list_ids(api, name)) == 25
            assert len(operations) <= most, name

    @pytest.mark.parametrize("state", HIDING)
    def test_entries_of_a_hidden_video_are_not_in_the_index(self, api: Api, table: Table, state: str) -> None:
        publish(api, **HIDING[state])
        assert entries_of(table) == dict.fromkeys(("tag", "region", "person", "feed"), 0)
        assert lists_with_videos(api) == set()

    @pytest.mark.parametrize("user", ["bob", "alice", "admin"])
    def test_person_or_tag_of_only_hidden_videos_looks_like_an_unknown_one(self, api: Api, user: str) -> None:
        publish(api, visibility="private")
        for path, query in (("/v1/people/{}/videos", ""), ("/v1/videos", "tag={}")):
            hidden, absent = (
                api.get(path.format(name), query=query.format(name), user=user)
                for name in ("sam" if "people" in path else "boats", "nobody")
            )
            assert (hidden.status, hidden.body) == (absent.status, absent.body)

    @pytest.mark.parametrize("state", ["to come", "expired"])
    def test_tags_of_hidden_videos_are_not_counted(self, api: Api, background: BackgroundWork, state: str) -> None:
        publish(api, **HIDING[state])
        background.settle_totals()
        assert api.get("/v1/tags").json["items"] == []


class TestMoves:
    def test_hiding_a_video_moves_its_tags_at_once_and_other_entries_by_the_stream(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        path = f"/v1/videos/{publish(api)}"
        background.settle_totals()
        for visibility, entries in (("private", 0), ("public", 1)):
            with record_operations(table.client) as operations:
                assert api.patch(path, {"visibility": visibility}).status == 200
            assert [operation.name for operation in operations] == ["GetItem", "TransactWriteItems"]
            assert entries_of(table) == {"tag": entries, "feed": entries, "region": 1 - entries, "person": 1 - entries}
            assert lists_with_videos(api) == ({"tag", "category", "feed"} if entries else set())
            background.settle_totals()
            assert set(entries_of(table).values()) == {entries}
            assert lists_with_videos(api) == (set(LISTS) if entries else set())

    @pytest.mark.parametrize("how", ["delete", "private"])
    def test_tags_set_while_the_video_is_hidden_are_listed_once_it_is_public(
        self, api: Api, background: BackgroundWork, how: str
    ) -> None:
        video_id = publish(api, visibility="private", tags=[])
        path = f"/v1/videos/{video_id}"
        if how == "delete":
            api.delete(path)
            api.post(f"{path}/restore")
        api.patch(path, {"tags": ["boats"], "visibility": "public"})
        background.settle_totals()
        assert lists_with_videos(api) == set(LISTS)

    def test_entries_of_a_video_made_ready_by_a_job_are_moved_by_the_stream(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = publish(api, status="processing")
        jobs = VideoStore(table, moves_entries=False)
        with record_operations(table.client) as operations:
            jobs.change(video_id, Caller.job("jobs"), NOW, lambda item: item | {"status": "ready"})
        assert [operation.name for operation in operations] == ["GetItem", "UpdateItem"]
        background.settle_totals()
        assert lists_with_videos(api) == set(LISTS)
        jobs.change(video_id, Caller.job("arrivals"), NOW, lambda item: item | {"status": "processing"})
        assert lists_with_videos(api) == set()  # the list hides the video before its entries are deleted
        background.settle_totals()
        assert set(entries_of(table).values()) == {0}

    def test_repeated_update_of_entries_writes_nothing(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = publish(api)
        background.settle_totals()
        for _ in range(2):
            with record_operations(table.client) as operations:
                assert EntryUpdater(table).update_entries(video_id, NOW) is None
            assert [operation.name for operation in operations] == ["GetItem", "Query", "Query", "Query"]

    @pytest.mark.parametrize("kind", ["credits/sam", "releases/NZ/mi"])
    def test_item_put_while_its_video_is_hidden_concurrently_is_not_indexed(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        video_id = publish(api)
        write = Table.write

        def interrupted(self: Table, change: Any, **options: Any) -> Any:
            if change.kind == "Put":
                monkeypatch.setattr(Table, "write", write)
                api.patch(f"/v1/videos/{video_id}", {"visibility": "private"})
                EntryUpdater(table).update_entries(video_id, NOW)
            return write(self, change, **options)

        monkeypatch.setattr(Table, "write", interrupted)
        body = CREDIT | {"ordering": 2} if kind.startswith("credits") else {"titles": [{"title": "Another"}]}
        assert api.put(f"/v1/videos/{video_id}/{kind}", body).status == 200
        assert set(entries_of(table).values()) == {0}


class TestTime:
    """`publishAt` and `expiresAt`: the sweeper queues a video before each of these times, so that the video's index
    entries are updated in the right second."""

    @pytest.mark.parametrize(("field", "before"), [("publishAt", set()), ("expiresAt", set(LISTS))])
    def test_schedule_starts_and_ends_a_publication(
        self, api: Api, clock: Clock, background: BackgroundWork, field: str, before: set[str]
    ) -> None:
        publish(api, **{field: NOW + 3600})
        background.settle_totals()
        assert lists_with_videos(api) == before
        clock.advance(3600 - AHEAD)
        assert background.sweep()["scheduled"] == 0
        clock.advance(1)
        assert background.sweep()["scheduled"] == 1
        assert background.queues["aggregates"].delays[-1] == AHEAD - 1
        clock.advance(AHEAD - 1)
        background.settle_totals()
        background.settle_totals()
        assert lists_with_videos(api) == set(LISTS) - before
        tags = [] if before else [{"tag": "boats", "count": 1}]
        assert api.get("/v1/tags").json["items"] == tags
        assert background.sweep()["scheduled"] == 0

    def test_expired_video_is_in_no_list_from_that_second(
        self, api: Api, clock: Clock, background: BackgroundWork
    ) -> None:
        publish(api, expiresAt=NOW + 10)
        background.settle_totals()
        clock.advance(10)
        assert lists_with_videos(api) == set()

    def test_publication_before_the_next_sweep_is_scheduled_to_its_second(
        self, api: Api, clock: Clock, background: BackgroundWork
    ) -> None:
        publish(api, publishAt=NOW + SOON)
        background.settle_totals()
        assert background.queues["aggregates"].delays[-1] == SOON
        clock.advance(SOON)
        background.settle_totals()
        assert lists_with_videos(api) == set(LISTS)

    def test_early_schedule_message_is_requeued(self, api: Api, clock: Clock, background: BackgroundWork) -> None:
        publish(api, publishAt=NOW + SOON)
        background.settle_totals()
        clock.advance(SOON - 1)
        background.settle_totals()
        assert background.queues["aggregates"].delays[-1] == 1
        clock.advance(1)
        background.settle_totals()
        assert lists_with_videos(api) == set(LISTS)

    def test_missed_publication_time_is_handled_by_the_next_sweep(
        self, api: Api, clock: Clock, background: BackgroundWork
    ) -> None:
        publish(api, publishAt=NOW + 3600)
        background.settle_totals()
        clock.advance(3600 + 64 * 60)
        assert background.sweep()["scheduled"] == 1
        assert background.queues["aggregates"].delays[-1] == 0
        background.settle_totals()
        assert lists_with_videos(api) == set(LISTS)

    def test_missed_publication_is_queued_with_increasing_intervals(
        self, api: Api, clock: Clock, background: BackgroundWork
    ) -> None:
        publish(api, publishAt=NOW + 3600)
        background.settle_totals()
        clock.advance(3600)
        sent = []
        for minute in range(20):
            if background.sweep()["scheduled"]:
                sent.append(minute)
            clock.advance(60)
        assert sent == [0, 1, 2, 4, 8, 16]

    def test_publication_time_before_the_stream_record_is_not_missed(
        self, api: Api, clock: Clock, background: BackgroundWork
    ) -> None:
        publish(api, publishAt=NOW + 1)
        clock.advance(5)
        background.settle_totals()
        assert lists_with_videos(api) == set(LISTS)

    def test_change_that_began_before_the_publication_and_ends_after_it_does_not_hide_the_video(
        self, api: Api, table: Table, clock: Clock, background: BackgroundWork
    ) -> None:
        video_id = publish(api, publishAt=NOW + 10, visibility="private")
        background.settle_totals()
        clock.advance(10)
        EntryUpdater(table).update_entries(video_id, int(clock()))  # the video is still private, so no entry changes
        VideoStore(table).change(
            video_id, Caller("alice", frozenset()), NOW + 9, lambda item: item | {"visibility": "public"}
        )
        background.settle_totals()
        assert lists_with_videos(api) == set(LISTS)

    def test_change_overtaken_by_an_update_of_entries_leaves_no_entry_of_a_hidden_video(
        self, api: Api, table: Table
    ) -> None:
        video_id = publish(api, publishAt=NOW + 10)

        def edit(item: Video) -> Video:
            EntryUpdater(table).update_entries(video_id, NOW + 10)  # between the read and the write of `change`
            return item | {"title": "Changed"}

        VideoStore(table).change(video_id, Caller("alice", frozenset()), NOW + 9, edit)
        assert (entries_of(table)["feed"], entries_of(table)["tag"]) == (0, 0)

    def test_sweep_handles_jobs_when_the_schedule_queue_is_unavailable(
        self, api: Api, clock: Clock, background: BackgroundWork, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(api, publishAt=NOW + 3660)
        background.settle_totals()
        video_id = background.uploaded_film(api)
        attempt = background.message("thumbnails", "poster").job_attempt
        assert background.jobs.claim(attempt, Caller.job("thumbnails"), int(clock()))

        def unreachable(*_: object, **__: object) -> None:
            raise Unavailable

        monkeypatch.setattr(background.queues["aggregates"], "send", unreachable)
        clock.advance(3600)
        with pytest.raises(Unavailable):
            background.sweeper({}, Context())
        poster = next(job for job in api.get(f"/v1/videos/{video_id}/jobs").json["items"] if job["kind"] == "poster")
        assert (poster["state"], poster["attempt"]) == ("queued", 2)

    def test_changed_or_removed_publication_time_moves_its_schedule(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = publish(api, publishAt=NOW + 3600)
        background.settle_totals()
        key = schema.SCHEDULE.key(videoId=video_id)

        def due(patch: Item) -> int | None:
            assert api.patch(f"/v1/videos/{video_id}", patch).status == 200
            background.settle_totals()
            item = table.get(key)
            return int(item["relSort"]) if item else None

        assert due({"publishAt": NOW + 7200}) == NOW + 7200
        assert due({"expiresAt": NOW + 9000}) == NOW + 7200
        assert due({"publishAt": None}) == NOW + 9000
        assert due({"expiresAt": None}) is None

    @pytest.mark.slow
    def test_sweeper_reads_all_schedules_in_pages_until_its_deadline(
        self, api: Api, table: Table, clock: Clock, background: BackgroundWork
    ) -> None:
        for number in range(130):
            video = api.publish("alice", publishAt=NOW + 3600 + number % 7)
            EntryUpdater(table).update_entries(video["videoId"], NOW)
        clock.advance(3600)
        background.queues["aggregates"].take()
        assert background.sweep()["scheduled"] == 130
        assert len({message["videoId"] for message in background.queues["aggregates"].take()}) == 130

    def test_video_waiting_for_its_purge_is_skipped(
        self, api: Api, table: Table, clock: Clock, background: BackgroundWork
    ) -> None:
        video_id = publish(api, expiresAt=NOW + 10)
        background.settle_totals()
        clock.advance(10 + GRACE_SECONDS)
        with record_operations(table.client) as operations:
            assert EntryUpdater(table).update_entries(video_id, int(clock())) is None
        assert [operation.name for operation in operations] == ["GetItem", "DeleteItem"]

    @pytest.mark.parametrize("field", ["publishAt", "expiresAt"])
    def test_update_of_entries_keeps_author_version_and_purge_time(
        self, api: Api, table: Table, clock: Clock, field: str
    ) -> None:
        video_id = publish(api, **{field: NOW + 10})
        before = table.get(schema.VIDEO.key(videoId=video_id)) or {}
        clock.advance(5000)
        EntryUpdater(table).update_entries(video_id, int(clock()))
        after = table.get(schema.VIDEO.key(videoId=video_id)) or {}
        changed = {name for name in {*before, *after} if after.get(name) != before.get(name)}
        assert changed == {"rel", "categoryShard"}
