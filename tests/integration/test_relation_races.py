"""Concurrent and interrupted writes of credits and releases, also during the background update of their year."""

from typing import TYPE_CHECKING, Any

import pytest

from local.testbed.harness import NOW, Api, make_api
from shared.aws.dynamodb import Table
from shared.relations.entry_updates import EntryUpdater
from shared.schema import CREDIT
from tests.integration import faults
from tests.integration.concurrency import Instance, Request, at_once
from tests.integration.conftest import NewTable
from tests.integration.faults import FaultLine, Incident, Killed

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
PATH = f"/v1/videos/{VIDEO_ID}"
SAM = f"{PATH}/credits/sam"
THREADS = 8
MAX_CALLS = 10


def crediting(ordering: int, **headers: str) -> Request:
    body = {"ordering": ordering, "roles": [{"category": "actor"}]}
    return lambda api: api.put(SAM, body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def credit_in(table: Table) -> dict[str, Any] | None:
    return table.get(CREDIT.key(videoId=VIDEO_ID, personId="sam"), consistent=True)


def test_one_of_several_concurrent_creations_succeeds(api: Api, table: Table, instance: Instance) -> None:
    api.publish(videoId=VIDEO_ID)

    replies = at_once(instance, [crediting(n + 1, If_None_Match="*") for n in range(THREADS)])

    assert sorted(reply.status for reply in replies) == [201] + [412] * (THREADS - 1)
    (winner,) = (reply.json for reply in replies if reply.status == 201)
    credit = credit_in(table)
    assert credit is not None
    assert (credit["ordering"], credit["version"]) == (winner["ordering"], 1)


def test_concurrent_puts_create_consecutive_versions(api: Api, table: Table, instance: Instance) -> None:
    api.publish(videoId=VIDEO_ID)

    replies = at_once(instance, [crediting(n + 1) for n in range(THREADS)])

    done = [reply.json["version"] for reply in replies if reply.status < 300]
    assert sorted(done) == list(range(1, len(done) + 1))
    assert {reply.status for reply in replies} <= {200, 201, 409}
    assert [reply.status for reply in replies].count(201) == 1
    credit = credit_in(table)
    assert credit is not None
    assert credit["version"] == len(done)


@pytest.mark.parametrize("existing", [False, True], ids=["created", "replaced"])
def test_credit_has_the_last_year_if_the_year_changes_during_its_put(
    new_table: NewTable, recorded_client: tuple["DynamoDBClient", FaultLine], line: FaultLine, existing: bool
) -> None:
    for call in range(MAX_CALLS):
        table = new_table()
        api = make_api(table)
        api.publish(videoId=VIDEO_ID, releaseYear=1990)
        if existing:
            assert crediting(1)(api).status == 201
        changed: list[bool] = []

        def change(api: Api = api, table: Table = table, changed: list[bool] = changed) -> None:
            assert api.patch(PATH, {"releaseYear": 1991}).status == 200
            changed.append(EntryUpdater(table).update_entries(VIDEO_ID, NOW) is None)

        line.arm(faults.run_before_request(change), at=call)
        reply = crediting(2)(make_api(Table(table.name, recorded_client[0], sleep=lambda _: None)))
        line.disarm()
        if not changed:
            assert call == 3  # the request sends no further calls
            return
        assert reply.status in (200, 201)
        credit = credit_in(table)
        assert credit is not None
        assert (credit["ordering"], credit["relSort"]) == (2, 1991), f"the year changed before call {call}"
    pytest.fail("it never came to an end")


@pytest.mark.parametrize("incident", [faults.kill_before, faults.kill_after], ids=lambda incident: incident.__name__)
@pytest.mark.parametrize("existing", [False, True], ids=["created", "replaced"])
def test_put_killed_at_any_call_is_completed_by_its_retry(
    new_table: NewTable,
    recorded_client: tuple["DynamoDBClient", FaultLine],
    line: FaultLine,
    existing: bool,
    incident: Incident,
) -> None:
    for call in range(3):
        table = new_table()
        api = make_api(table)
        api.publish(videoId=VIDEO_ID, releaseYear=1990)
        if existing:
            crediting(1)(api)
        line.arm(incident, at=call)
        with pytest.raises(Killed):
            crediting(2)(make_api(Table(table.name, recorded_client[0], sleep=lambda _: None)))
        line.disarm()

        assert crediting(2)(api).status in (200, 201)

        credit = credit_in(table)
        assert credit is not None
        assert (credit["ordering"], credit["version"], credit["relSort"]) == (2, 2 if existing else 1, 1990)


@pytest.mark.parametrize("incident", [faults.lose_request, faults.lose_response, faults.throttle, faults.fail])
def test_single_fault_is_hidden_from_the_client(
    new_table: NewTable, recorded_client: tuple["DynamoDBClient", FaultLine], line: FaultLine, incident: Incident
) -> None:
    for request, status in ((crediting(2), 200), (lambda api: api.delete(SAM), 204)):
        for call in range(3):
            table = new_table()
            api = make_api(table)
            api.publish(videoId=VIDEO_ID)
            crediting(1)(api)
            line.arm(incident, at=call)

            reply = request(make_api(Table(table.name, recorded_client[0], sleep=lambda _: None)))

            line.disarm()
            assert reply.status == status
            credit = credit_in(table)
            if status == 200:
                assert credit is not None
                assert (credit["ordering"], credit["version"]) == (2, 2)
            else:
                assert credit is None


@pytest.mark.parametrize("incident", [faults.kill_before, faults.kill_after], ids=lambda incident: incident.__name__)
def test_delete_killed_at_any_call_leaves_the_credit_and_can_be_repeated(
    new_table: NewTable, recorded_client: tuple["DynamoDBClient", FaultLine], line: FaultLine, incident: Incident
) -> None:
    for call in range(3):  # the three calls read the credit, mark it as deleted, and delete it
        table = new_table()
        api = make_api(table)
        api.publish(videoId=VIDEO_ID)
        crediting(1)(api)
        before = api.get(SAM)
        line.arm(incident, at=call)
        with pytest.raises(Killed):
            make_api(Table(table.name, recorded_client[0], sleep=lambda _: None)).delete(SAM)
        line.disarm()

        if call == 2 and incident is faults.kill_after:
            assert api.get(SAM).status == 404
            continue
        credit = api.get(SAM)
        assert (credit.json, credit.etag) == (before.json, before.etag)
        assert bool((credit_in(table) or {}).get("removing")) == (
            call == 2 or (call, incident) == (1, faults.kill_after)
        )
        assert api.delete(SAM, headers={"If-Match": before.etag}).status == 204
        assert credit_in(table) is None


def test_concurrent_deletes_and_puts_leave_a_complete_credit_or_none(
    api: Api, table: Table, instance: Instance
) -> None:
    api.publish(videoId=VIDEO_ID)
    crediting(1)(api)

    removing: Request = lambda api: api.delete(SAM)  # noqa: E731 - one of two kinds of requests
    replies = at_once(instance, [removing, crediting(2)] * (THREADS // 2))

    assert {reply.status for reply in replies} <= {200, 201, 204, 404, 409}
    assert 204 in {reply.status for reply in replies}
    credit = credit_in(table)
    assert credit is None or 409 in {reply.status for reply in replies} or "removing" not in credit


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_every_video_of_a_person_is_listed_once(api: Api, order: str) -> None:
    video_ids = [api.publish(releaseYear=1990)["videoId"] for _ in range(5)]
    for video_id in video_ids:
        assert (
            api.put(f"/v1/videos/{video_id}/credits/sam", {"ordering": 1, "roles": [{"category": "actor"}]}).status
            == 201
        )

    listed: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = api.get("/v1/people/sam/videos", query=f"order={order}&limit=2{cursor and '&cursor=' + cursor}").json
        listed += [item["video"]["videoId"] for item in page["items"]]
        cursor = page["nextCursor"]

    assert listed == sorted(video_ids, reverse=order == "desc")
