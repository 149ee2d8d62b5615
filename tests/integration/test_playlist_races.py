"""Concurrent and interrupted changes of a playlist: its entries keep one order, and the counts stay exact."""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from local.testbed.harness import NOW, Api, Reply, make_api
from shared.aws.dynamodb import Table
from shared.background.purge import Purge
from shared.core.caller import Caller
from shared.core.errors import WriteContention
from shared.relations.playlists import PlaylistStore
from shared.schema import PLAYLIST, PROFILE, VIDEO
from tests.integration import faults
from tests.integration.concurrency import Instance, Request, at_once
from tests.integration.contents import items_of
from tests.integration.faults import FaultLine, Incident, Killed

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

THREADS = 8
VIDEO_IDS = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(THREADS)]
KEY = {"Idempotency-Key": "k1"}
ALICE = Caller("alice", frozenset())


@pytest.fixture(autouse=True)
def videos(api: Api) -> None:
    """Publish the videos."""
    for video_id in VIDEO_IDS:
        api.publish(videoId=video_id)


def playlist(api: Api, video_ids: Sequence[str] = ()) -> str:
    """Create a playlist of these videos, and return its path."""
    path = f"/v1/{api.post('/v1/playlists', {'title': 't'}).headers['location']}"
    for video_id in video_ids:
        assert api.post(f"{path}/entries", {"videoId": video_id}).status == 201
    return path


def order(api: Api, path: str) -> list[str]:
    return [entry["videoId"] for entry in api.get(f"{path}/entries", query="limit=100").json["items"]]


def require_consistent(api: Api, table: Table, path: str) -> list[str]:
    """Assert that both items of each entry have the same rank, and that all entries are listed and counted. Return the
    ids of the videos in listed order."""
    stored = [item for item in items_of(table) if item["pk"] == f"PLAYLIST#{path.rpartition('/')[2]}"]
    entries = {(item["videoId"], item["rank"]) for item in stored if item["sk"].startswith("ENTRY#")}
    members = {(item["videoId"], item["rank"]) for item in stored if item["sk"].startswith("HAS#")}
    assert entries == members
    assert len(stored) == 1 + 2 * len(entries)
    listed = order(api, path)
    assert listed == [video for video, _ in sorted(entries, key=lambda entry: entry[1])]
    assert api.get(path).json["entryCount"] == len(listed)
    return listed


def existing(table: Table) -> list[dict[str, Any]]:
    """Return the playlists that are not deleted."""
    stored = [item for item in items_of(table) if item["pk"].startswith("PLAYLIST#") and item["sk"] == PLAYLIST.sk]
    return [item for item in stored if "deletedAt" not in item]


def retry_until_final(send: Callable[[], Reply], reply: Reply) -> Reply:
    """Repeat a request while the response has Retry-After, and return the final response."""
    while reply.status == 409 and "retry-after" in reply.headers:
        reply = send()
    return reply


def test_concurrent_appends_are_all_listed(api: Api, table: Table, instance: Instance) -> None:
    path = playlist(api)

    def appending(video_id: str) -> Request:
        return lambda api: api.post(f"{path}/entries", {"videoId": video_id})

    replies = at_once(instance, [appending(video_id) for video_id in VIDEO_IDS])
    for video_id, reply in zip(VIDEO_IDS, replies, strict=True):
        assert retry_until_final(lambda video_id=video_id: appending(video_id)(api), reply).status == 201  # type: ignore[misc]
    assert set(require_consistent(api, table, path)) == set(VIDEO_IDS)


def test_one_of_several_concurrent_appends_of_a_video_succeeds(api: Api, table: Table, instance: Instance) -> None:
    path = playlist(api)
    replies = at_once(instance, [lambda api: api.post(f"{path}/entries", {"videoId": VIDEO_IDS[0]})] * THREADS)
    assert [reply.status for reply in replies].count(201) == 1
    assert {reply.status for reply in replies} == {201, 409}
    assert require_consistent(api, table, path) == VIDEO_IDS[:1]


def test_concurrent_appends_with_one_key_get_one_response(api: Api, table: Table, instance: Instance) -> None:
    path = playlist(api)

    def appending(api: Api) -> Reply:
        return api.post(f"{path}/entries", {"videoId": VIDEO_IDS[0]}, headers=KEY)

    replies = [retry_until_final(lambda: appending(api), reply) for reply in at_once(instance, [appending] * THREADS)]
    assert {(reply.status, reply.body) for reply in replies} == {(201, replies[0].body)}
    assert require_consistent(api, table, path) == VIDEO_IDS[:1]


def test_concurrent_moves_lose_and_duplicate_no_entry(api: Api, table: Table, instance: Instance) -> None:
    path = playlist(api, VIDEO_IDS)
    chance = random.Random(1)

    def moving(video_id: str) -> Request:
        neighbour = chance.choice([other for other in VIDEO_IDS if other != video_id])
        return lambda api: api.patch(f"{path}/entries/{video_id}", {chance.choice(["after", "before"]): neighbour})

    for _ in range(3):
        replies = at_once(instance, [moving(video_id) for video_id in VIDEO_IDS])
        assert {reply.status for reply in replies} <= {200, 409}
    assert sorted(require_consistent(api, table, path)) == VIDEO_IDS


def test_concurrent_moves_appends_and_removals_leave_a_consistent_list(
    api: Api, table: Table, instance: Instance
) -> None:
    path = playlist(api, VIDEO_IDS[:5])
    requests: list[Request] = [
        lambda api: api.delete(f"{path}/entries/{VIDEO_IDS[0]}"),
        lambda api: api.delete(f"{path}/entries/{VIDEO_IDS[0]}"),
        lambda api: api.patch(f"{path}/entries/{VIDEO_IDS[1]}", {"after": VIDEO_IDS[0]}),
        lambda api: api.patch(f"{path}/entries/{VIDEO_IDS[0]}", {"before": None}),
        lambda api: api.post(f"{path}/entries", {"videoId": VIDEO_IDS[5]}),
        lambda api: api.patch(path, {"title": "New"}),
    ]
    replies = at_once(instance, requests)
    assert {reply.status for reply in replies} <= {200, 201, 204, 404, 409, 422}
    listed = require_consistent(api, table, path)
    assert set(VIDEO_IDS[1:5]) <= set(listed)
    assert (VIDEO_IDS[0] in listed) == (204 not in {reply.status for reply in replies[:2]})
    assert (VIDEO_IDS[5] in listed) == (replies[4].status == 201)
    assert (api.get(path).json["title"] == "New") == (replies[5].status == 200)


def test_concurrent_creates_and_deletes_are_counted_exactly(api: Api, table: Table, instance: Instance) -> None:
    doomed = playlist(api)
    requests: list[Request] = [lambda api: api.post("/v1/playlists", {"title": "t"})] * 4
    requests += [lambda api: api.delete(doomed)] * 4
    replies = at_once(instance, requests)
    assert {reply.status for reply in replies} <= {201, 204, 404, 409}
    profile = table.get(PROFILE.key(userId="alice"), consistent=True)
    assert profile is not None
    assert profile["playlists"] == len(existing(table))


@pytest.mark.parametrize("call", range(3))
def test_delete_during_an_append_leaves_no_entry(
    api: Api, table: Table, recorded_client: tuple["DynamoDBClient", FaultLine], instance: Instance, call: int
) -> None:
    path = playlist(api)
    client, line = recorded_client
    line.arm(faults.run_before_request(lambda: instance().delete(path)), at=call)
    reply = make_api(Table(table.name, client, sleep=lambda _: None)).post(f"{path}/entries", {"videoId": VIDEO_IDS[0]})
    line.disarm()
    assert reply.status == 404
    (playlist_item,) = [item for item in items_of(table) if item["pk"].startswith("PLAYLIST#")]
    assert (playlist_item["entryCount"], playlist_item["version"], "deletedAt" in playlist_item) == (0, 2, True)


OPERATIONS: dict[str, Callable[[Api, str], Reply]] = {
    "append": lambda api, path: api.post(f"{path}/entries", {"videoId": VIDEO_IDS[3]}),
    "append with a key": lambda api, path: api.post(
        f"{path}/entries", {"videoId": VIDEO_IDS[3]}, headers={"Idempotency-Key": path}
    ),
    "move": lambda api, path: api.patch(f"{path}/entries/{VIDEO_IDS[2]}", {"after": None}),
    "remove": lambda api, path: api.delete(f"{path}/entries/{VIDEO_IDS[0]}"),
    "rename": lambda api, path: api.patch(path, {"title": "New"}),
}
AFTERWARDS = {
    "append": VIDEO_IDS[:4],
    "append with a key": VIDEO_IDS[:4],
    "move": [VIDEO_IDS[2], *VIDEO_IDS[:2]],
    "remove": VIDEO_IDS[1:3],
    "rename": VIDEO_IDS[:3],
}


@pytest.mark.parametrize("incident", [faults.lose_request, faults.lose_response])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_failed_call_is_retried_and_counts_once(
    api: Api, table: Table, recorded_client: tuple["DynamoDBClient", FaultLine], operation: str, incident: Incident
) -> None:
    client, line = recorded_client
    broken = carried_out = 0
    while broken <= carried_out:
        path = playlist(api, VIDEO_IDS[:3])
        line.arm(incident, at=broken)
        reply = OPERATIONS[operation](make_api(Table(table.name, client, sleep=lambda _: None)), path)
        line.disarm()
        carried_out = len(line.calls)
        assert reply.status < 300, reply.body
        assert require_consistent(api, table, path) == AFTERWARDS[operation]
        broken += 1
    assert broken > 2


@pytest.mark.parametrize("incident", [faults.lose_request, faults.lose_response])
def test_creates_and_deletes_with_lost_responses_count_once(
    api: Api, table: Table, recorded_client: tuple["DynamoDBClient", FaultLine], incident: Incident
) -> None:
    client, line = recorded_client
    unlucky = make_api(Table(table.name, client, sleep=lambda _: None))
    playlist(api)
    line.arm(incident, at=0)
    created = unlucky.post("/v1/playlists", {"title": "t"})
    line.arm(incident, at=1)
    deleted = unlucky.delete(f"/v1/{created.headers['location']}")
    line.disarm()
    assert (created.status, deleted.status) == (201, 204)
    profile = table.get(PROFILE.key(userId="alice"), consistent=True)
    assert profile is not None
    assert profile["playlists"] == len(existing(table)) == 1


@pytest.mark.parametrize("incident", [faults.kill_before, faults.kill_after])
@pytest.mark.parametrize("operation", ["delete", "restore"])
def test_killed_delete_or_restore_is_completed_by_its_retry(
    api: Api, table: Table, recorded_client: tuple["DynamoDBClient", FaultLine], operation: str, incident: Incident
) -> None:
    client, line = recorded_client
    path = playlist(api, VIDEO_IDS[:2])
    if operation == "restore":
        api.delete(path)

    def end_or_restore(table: Table) -> None:
        if operation == "delete":
            assert make_api(table).delete(path).status in (204, 404)
        else:
            PlaylistStore(table).restore(path.rpartition("/")[2], ALICE, NOW)

    for call in range(2):
        line.arm(incident, at=call)
        with suppress(Killed):
            end_or_restore(Table(table.name, client, sleep=lambda _: None))
        line.disarm()
        profile = table.get(PROFILE.key(userId="alice"), consistent=True)
        assert profile is not None
        assert profile["playlists"] == len(existing(table))
    end_or_restore(table)
    assert len(existing(table)) == (operation == "restore")
    if operation == "restore":
        assert require_consistent(api, table, path) == VIDEO_IDS[:2]


def test_concurrent_deletes_and_restores_are_counted_exactly(api: Api, table: Table, instance: Instance) -> None:
    path = playlist(api, VIDEO_IDS[:2])

    def restoring(api: Api) -> Reply:
        with suppress(WriteContention):
            PlaylistStore(api.table).restore(path.rpartition("/")[2], ALICE, NOW)
        return Reply(200, {}, b"")

    replies = at_once(instance, [lambda api: api.delete(path), restoring] * (THREADS // 2))
    assert {reply.status for reply in replies} <= {200, 204, 404, 409}
    profile = table.get(PROFILE.key(userId="alice"), consistent=True)
    assert profile is not None
    assert profile["playlists"] == len(existing(table))
    restoring(api)
    assert require_consistent(api, table, path) == VIDEO_IDS[:2]


@pytest.mark.parametrize("incident", [faults.kill_before, faults.kill_after])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_crash_during_a_write_leaves_a_consistent_list(
    api: Api, table: Table, recorded_client: tuple["DynamoDBClient", FaultLine], operation: str, incident: Incident
) -> None:
    path = playlist(api, VIDEO_IDS[:3])
    client, line = recorded_client
    for call in range(5):
        line.arm(incident, at=call)
        try:
            OPERATIONS[operation](make_api(Table(table.name, client, sleep=lambda _: None)), path)
        except Killed:
            assert require_consistent(api, table, path) in (VIDEO_IDS[:3], AFTERWARDS[operation])
        else:
            break
        finally:
            line.disarm()
    assert require_consistent(api, table, path) == AFTERWARDS[operation]


def test_purge_concurrent_with_moves_leaves_no_entry_of_the_video(api: Api, table: Table, instance: Instance) -> None:
    path = playlist(api, VIDEO_IDS)
    table.delete(VIDEO.key(videoId=VIDEO_IDS[3]))

    def purging(api: Api) -> Reply:
        purge = Purge(api.table, _NoObjects(), "sources", "media")
        assert purge.video(VIDEO_IDS[3], 1, lambda: True)
        return Reply(200, {}, b"")

    def moving(video_id: str) -> Request:
        return lambda api: api.patch(f"{path}/entries/{video_id}", {"after": None})

    at_once(instance, [purging, *(moving(video_id) for video_id in VIDEO_IDS[4:7])])
    assert sorted(require_consistent(api, table, path)) == [
        video_id for video_id in VIDEO_IDS if video_id != VIDEO_IDS[3]
    ]


class _NoObjects:
    """S3 without objects."""

    def delete_prefix(self, *_: str) -> int:
        """Delete no objects."""
        return 0
