"""Tests of the endpoints that return the history of a video or playlist: permissions, order, time range and pages."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, quote

import jsonschema_rs
import pytest
from botocore.exceptions import ClientError

from local.stream_records import EXPIRY, stream_record
from local.testbed.harness import NOW, Api, Clock, Reply, record_operations
from local.testbed.wire import intercept
from shared.aws.dynamodb import REQUEST_ATTEMPTS, Table
from shared.aws.stream import Record
from shared.core.attributes import Item
from shared.core.caller import request_id_of
from shared.history.entries import FIELDS, entry
from shared.history.trail import MAX_QUERIES, AuditStore
from shared.openapi.document import document
from shared.schema import AUDIT, AUDIT_TABLE_NAME, PLAYLIST, PLAYLIST_AUDIT, VIDEO
from shared.web.cursors import LIFETIME_SECONDS

DAYS = 400
MISSING = "00000000-0000-4000-8000-000000000000"


class Trail:
    """The service, and an audit trail that records a change only when a test calls `record`."""

    def __init__(self, api: Api, table: Table, audit: Table) -> None:
        self.api, self.table = api, table
        self.store = AuditStore(audit)
        self._recorded: dict[str, Item] = {}
        self._sequence = 0

    def record(self, video_id: str, **options: Any) -> None:
        """Record, as one entry, how the video changed since the last call."""
        old, new = self._recorded.get(video_id), self.table.get(VIDEO.key(videoId=video_id), consistent=True)
        self._sequence += 1
        raw = stream_record(old, new, sequence=self._sequence, at=self.api.clock.now, **options)
        audited = entry(Record(raw), DAYS)
        if audited:
            self.store.add(audited)
        if new:
            self._recorded[video_id] = new

    def create(self, user: str = "alice", **fields: Any) -> str:
        """Create a video and record its entry. Return the video's id."""
        video_id = str(self.api.create(user, **fields)["videoId"])
        self.record(video_id)
        return video_id

    def patch(self, video_id: str, *titles: str, every: int = 1) -> None:
        """Set each of the titles. The clock advances by `every` seconds before each change."""
        for title in titles:
            self.api.clock.advance(every)
            assert self.api.patch(f"/v1/videos/{video_id}", {"title": title}, user="admin").status == 200
            self.record(video_id)

    def remove(self, video_id: str, identity: dict[str, str] | None = EXPIRY) -> None:
        """Delete the video's item, as DynamoDB's TTL does, and record the change."""
        self.table.delete(VIDEO.key(videoId=video_id))
        self.record(video_id, identity=identity)

    def get(self, video_id: str, query: str = "", **options: Any) -> Reply:
        """Return the response of the history endpoint."""
        return self.api.get(f"/v1/videos/{video_id}/audit", query=query, **options)

    def titles(self, video_id: str, query: str = "", **options: Any) -> list[str]:
        """Return the new title in each entry of the first page."""
        reply = self.get(video_id, query, **options)
        assert reply.status == 200, reply.body
        return [_title(item) for item in reply.json["items"]]


def _title(item: Item) -> str:
    return str(next(changed.get("to") for changed in item["changes"] if changed["field"] == "/title"))


def _truncated_entry(video_id: str) -> Item:
    """Return an entry with truncated values, from which some changes are omitted."""
    raw = stream_record(
        None,
        {**VIDEO.key(videoId=video_id), "version": 1, "a": "x" * 300_000, **{f"b{n}": "y" * 3000 for n in range(200)}},
        sequence=1000,
    )
    audited = entry(Record(raw), DAYS)
    assert audited is not None
    return audited | {"attempt": 1, "correlationId": "r"}


@pytest.fixture
def trail(table: Table, clock: Clock, api: Api) -> Trail:
    """Return the service with an empty audit trail."""
    return Trail(api, table, Table(AUDIT_TABLE_NAME, table.client, sleep=lambda _: None))


class TestContent:
    def test_history_lists_changes_with_author_and_time_newest_first(self, trail: Trail) -> None:
        video_id = trail.create()
        trail.patch(video_id, "New")
        reply = trail.get(video_id)
        assert reply.json["nextCursor"] is None
        changed, created = reply.json["items"]
        assert changed == {
            "sequence": f"{2:021}",
            "videoId": video_id,
            "entity": "video",
            "action": "changed",
            "by": {"kind": "person", "id": "admin"},
            "correlationId": request_id_of(trail.api.table.get(VIDEO.key(videoId=video_id))),
            "at": (NOW + 1) * 1000,
            "version": 2,
            "changes": [{"field": "/title", "from": "A film", "to": "New"}],
        }
        assert (created["action"], created["by"]) == ("created", {"kind": "person", "id": "alice"})

    def test_history_conforms_to_the_openapi_schema(self, trail: Trail) -> None:
        video_id = trail.create(tags=["a"], metadata={"k": 1})
        trail.patch(video_id, "New")
        trail.store.add(_truncated_entry(video_id))
        trail.remove(video_id)
        schema = {"$ref": "#/components/schemas/AuditPage", "components": document()["components"]}
        for query in ("limit=1", "limit=100"):
            jsonschema_rs.Draft202012Validator(schema).validate(trail.get(video_id, query, user="admin").json)
        (truncated,) = [item for item in trail.get(video_id, user="admin").json["items"] if "omitted" in item]
        elsewhere = ("playlistId", "personId", "region", "language", "kind")
        assert tuple(truncated) == tuple(name for name in FIELDS if name not in elsewhere)

    def test_history_omits_internal_attributes(self, trail: Trail) -> None:
        video_id = trail.create()
        assert not {"pk", "sk", "purgeAt", "owner", "schemaVersion"} & trail.get(video_id).json["items"][0].keys()

    def test_history_has_delete_restore_and_expiry(self, trail: Trail) -> None:
        video_id = trail.create()
        path = f"/v1/videos/{video_id}"
        assert trail.api.delete(path).status == 204
        trail.record(video_id)
        assert trail.api.post(f"{path}/restore").status == 200
        trail.record(video_id)
        trail.remove(video_id)
        history = trail.get(video_id, "order=asc", user="admin").json["items"]
        assert [item["action"] for item in history] == ["created", "deleted", "restored", "expired"]
        assert history[-1]["by"]["kind"] == "service"

    def test_video_without_entries_has_an_empty_history(self, trail: Trail) -> None:
        video_id = trail.api.create()["videoId"]
        assert trail.get(video_id).json == {"items": [], "nextCursor": None}
        assert trail.get(MISSING, user="admin").json == {"items": [], "nextCursor": None}

    def test_changes_within_one_second_stay_in_their_order(self, trail: Trail) -> None:
        video_id = trail.create()
        trail.patch(video_id, *(str(n) for n in range(12)), every=0)
        expected = ["A film", *(str(n) for n in range(12))]
        assert trail.titles(video_id, "order=asc") == expected
        assert trail.titles(video_id) == expected[::-1]


class TestPermissions:
    def test_owner_may_read_the_history_of_a_deleted_video_until_its_purge(self, trail: Trail) -> None:
        video_id = trail.create()
        trail.api.delete(f"/v1/videos/{video_id}")
        assert trail.get(video_id).status == 200
        trail.remove(video_id)
        assert trail.get(video_id).status == 404
        assert len(trail.get(video_id, user="admin").json["items"]) == 2

    def test_history_of_an_expired_video_is_404_before_dynamodb_deletes_it(self, trail: Trail) -> None:
        video_id = trail.create()
        trail.api.delete(f"/v1/videos/{video_id}")
        trail.api.clock.advance(91 * 86400)
        assert trail.get(video_id).status == 404
        assert trail.get(video_id, user="admin").status == 200

    def test_new_owner_of_a_reused_id_sees_only_later_entries(self, trail: Trail) -> None:
        video_id = trail.create(title="Private matters of Alice")
        trail.remove(video_id)
        trail._recorded.clear()
        trail.create("admin", videoId=video_id, userId="bob", title="Bob's")
        assert trail.titles(video_id, user="bob") == ["Bob's"]
        assert trail.get(video_id, user="alice").status == 404
        assert len(trail.get(video_id, user="admin").json["items"]) == 3


class TestTimeRange:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            (f"from={NOW + 20}", ["2", "3"]),
            (f"to={NOW + 20}", ["A film", "1"]),
            (f"from={NOW + 10}&to={NOW + 30}", ["1", "2"]),
            (f"from={NOW + 11}&to={NOW + 20}", []),
            ("from=2025-06-15T15:07:00Z", ["2", "3"]),
            ("to=2025-06-15T17:07:00%2B02:00", ["A film", "1"]),
            ("from=0&to=253402300800", ["A film", "1", "2", "3"]),
            ("from=253402300799", []),
        ],
    )
    def test_period_includes_its_start_and_excludes_its_end(
        self, trail: Trail, query: str, expected: list[str]
    ) -> None:
        video_id = trail.create()
        trail.patch(video_id, "1", "2", "3", every=10)
        assert trail.titles(video_id, f"{query}&order=asc") == expected
        assert trail.titles(video_id, f"{query}&order=desc") == expected[::-1]

    def test_fraction_of_a_second_belongs_to_its_second(self, trail: Trail) -> None:
        trail.api.clock.advance(0.9)
        video_id = trail.create()
        assert trail.titles(video_id, f"from={NOW}&to={NOW + 1}") == ["A film"]
        assert trail.titles(video_id, f"from={NOW + 1}") == []


def pages(trail: Trail, video_id: str, query: str, **options: Any) -> list[list[str]]:
    """Return the titles on each page. Asserts that the Link header of each page leads to the next page."""
    titles, reply = [], trail.get(video_id, query, **options)
    while True:
        assert reply.status == 200, reply.body
        titles.append([_title(item) for item in reply.json["items"]])
        cursor = reply.json["nextCursor"]
        if cursor is None:
            assert "link" not in reply.headers
            return titles
        following = reply.headers["link"].removeprefix("<?").removesuffix('>; rel="next"')
        assert parse_qs(following)["cursor"] == [cursor]
        reply = trail.get(video_id, following, **options)


class TestPages:
    @pytest.mark.parametrize("order", ["asc", "desc"])
    @pytest.mark.parametrize("every", [0, 1])
    @pytest.mark.parametrize("limit", [1, 4, 9, 10, 100])
    def test_pages_are_full_and_contain_each_entry_once(self, trail: Trail, limit: int, every: int, order: str) -> None:
        video_id = trail.create()
        titles = [str(n) for n in range(9)]
        trail.patch(video_id, *titles, every=every)
        expected = ["A film", *titles][:: 1 if order == "asc" else -1]
        read = pages(trail, video_id, f"limit={limit}&order={order}")
        assert read == [expected[at : at + limit] for at in range(0, 10, limit)]

    def test_page_has_25_entries_by_default(self, trail: Trail) -> None:
        video_id = trail.create()
        trail.patch(video_id, *(str(n) for n in range(30)), every=0)
        assert [len(page) for page in pages(trail, video_id, "")] == [25, 6]

    def test_new_entries_do_not_shift_later_pages(self, trail: Trail) -> None:
        video_id = trail.create()
        trail.patch(video_id, "1", "2", "3")
        first = trail.get(video_id, "limit=2").json
        trail.patch(video_id, "4")
        second = trail.get(video_id, f"limit=2&cursor={first['nextCursor']}").json
        assert [_title(item) for item in second["items"]] == ["1", "A film"]

    def test_page_takes_one_query_and_for_non_admins_one_read_of_the_video(self, trail: Trail) -> None:
        video_id = trail.create()
        trail.patch(video_id, "1", "2")
        for user, operations in (("admin", ["Query"]), ("alice", ["GetItem", "Query"])):
            with record_operations(trail.table.client) as recorded:
                trail.get(video_id, "limit=2", user=user)
            assert [operation.name for operation in recorded] == operations
            assert recorded[-1].parameters["TableName"] == AUDIT_TABLE_NAME

    def test_expired_entries_that_dynamodb_has_not_deleted_are_hidden(self, trail: Trail) -> None:
        video_id = trail.create()
        trail.patch(video_id, "1", "2", "3", every=86400)
        trail.api.clock.now = NOW + DAYS * 86400
        for order, expected in (("asc", [["1", "2"], ["3"]]), ("desc", [["3", "2"], ["1"]])):
            titles = pages(trail, video_id, f"limit=2&order={order}", user="admin")
            assert [page for page in titles if page] == expected
        trail.api.clock.advance(86400)
        assert trail.titles(video_id, "order=asc", user="admin") == ["2", "3"]

    @pytest.mark.slow
    def test_pages_are_full_though_many_entries_are_hidden(self, trail: Trail) -> None:
        video_id = trail.create()
        trail.patch(video_id, *(str(n) for n in range(40)), every=0)
        trail.patch(video_id, *(str(n) for n in range(100, 110)), every=86400)
        trail.api.clock.now = NOW + DAYS * 86400
        with record_operations(trail.table.client) as operations:
            assert trail.titles(video_id, "order=asc&limit=10", user="admin") == [str(n) for n in range(100, 110)]
        assert [operation.parameters["Limit"] for operation in operations] == [11, 250]

    def test_search_for_unexpired_entries_is_bounded(self, trail: Trail, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shared.history.trail.LARGEST_QUERY", 2)
        video_id = trail.create()
        trail.patch(video_id, *(str(n) for n in range(20)), every=0)
        trail.patch(video_id, "last", every=86400)
        trail.api.clock.now = NOW + DAYS * 86400
        with record_operations(trail.table.client) as operations:
            reply = trail.get(video_id, "order=asc&limit=1", user="admin")
        assert (reply.json["items"], len(operations)) == ([], MAX_QUERIES)
        assert reply.json["nextCursor"]
        assert [page for page in pages(trail, video_id, "order=asc&limit=1", user="admin") if page] == [["last"]]

    def test_page_of_large_entries_is_shorter_and_has_a_cursor(self, trail: Trail) -> None:
        video_id = trail.create()
        for number in range(10):
            item: Item = {
                **AUDIT.key(videoId=video_id, at=f"{NOW * 1000}", sequence=f"{100 + number:040}"),
                "owner": "alice",
                "purgeAt": NOW + 86400,
                "changes": [{"field": "/title", "to": f"{number}"}, {"field": "/x", "to": "x" * 240_000}],
            }
            trail.store.add(item)
        reply = trail.get(video_id, "limit=100&order=asc")
        assert len(reply.body) < 1_100_000
        assert 0 < len(reply.json["items"]) < 10
        titles = pages(trail, video_id, "limit=100&order=asc")
        assert [title for page in titles for title in page] == ["A film", *(str(n) for n in range(10))]


class TestThrottling:
    @pytest.mark.parametrize("operation", ["GetItem", "Query"])
    @pytest.mark.parametrize(("refusals", "status"), [(1, 200), (REQUEST_ATTEMPTS - 1, 200), (REQUEST_ATTEMPTS, 503)])
    def test_throttled_request_is_retried_and_then_503(
        self, trail: Trail, operation: str, refusals: int, status: int
    ) -> None:
        video_id = trail.create()
        remaining = iter(range(refusals))

        def throttled(sent: str, _: Any, send: Callable[[], Any]) -> Any:
            if sent != operation or next(remaining, None) is None:
                return send()
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": ""}}, operation)

        intercept(trail.table.client, throttled)
        reply = trail.get(video_id)
        assert reply.status == status
        assert reply.headers.get("retry-after") == ("1" if status == 503 else None)


class TestBadRequests:
    @pytest.mark.parametrize(
        "query",
        [
            "from=10&to=10",
            "from=11&to=10",
            "from=yesterday",
            "to=253402300801",
            "from=-1",
            "limit=0",
            "limit=101",
            "limit=x",
            "order=up",
            "cursor=x",
            "cursor=",
            "fields=at",
            "from=1&from=2",
        ],
    )
    def test_invalid_parameter_of_a_history_is_400(self, trail: Trail, query: str) -> None:
        video_id = trail.create()
        with record_operations(trail.table.client) as operations:
            assert trail.get(video_id, query).status == 400
        assert operations == []

    def test_malformed_id_of_a_history_is_400(self, trail: Trail) -> None:
        assert trail.get("no-uuid").status == 400

    def test_uppercase_id_is_accepted(self, trail: Trail) -> None:
        video_id = trail.create()
        assert trail.titles(video_id.upper()) == ["A film"]

    def test_cursor_is_valid_only_for_its_query_and_caller(self, trail: Trail) -> None:
        video_id, other = trail.create(), trail.create()
        trail.patch(video_id, "1", "2")
        cursor = quote(trail.get(video_id, f"limit=1&to={NOW + 100}").json["nextCursor"])

        def status(query: str, path: str = video_id, **options: Any) -> int:
            return trail.get(path, f"{query}&cursor={cursor}", **options).status

        same = f"to={NOW + 100}"
        assert status(f"limit=1&{same}") == 200
        assert status(f"limit=7&{same}") == 200
        assert status(f"order=asc&{same}") == 400
        assert status(f"to={NOW + 99}") == 400
        assert status(f"from=1&{same}") == 400
        assert status(same, other) == 400
        assert status(same, user="admin") == 400
        assert status(same, user="bob") == 400
        assert trail.api.get("/v1/videos", query=f"userId=alice&cursor={cursor}").status == 400
        trail.api.clock.advance(LIFETIME_SECONDS + 1)
        assert status(same) == 400


def make_entry(entity: str, number: int, owner: str | None = "alice", **fields: Any) -> Item:
    """Return an entry of a video's related item, or of a playlist."""
    of = PLAYLIST_AUDIT if entity == "playlist" else AUDIT
    ids = {name: fields[name] for name in ("videoId", "playlistId") if name in fields}
    entry: Item = {
        **of.key(**ids, at=f"{(NOW + number) * 1000}", sequence=f"{number:040}"),
        **({"owner": owner} if owner else {}),
        "entity": entity,
        "sequence": f"{number:021}",
        "at": (NOW + number) * 1000,
        "purgeAt": NOW + DAYS * 86_400,
        "action": "changed",
        "by": {"kind": "person", "id": "alice"},
        "version": number,
        "schemaVersion": 3,
        "changes": [{"field": "/title", "from": f"{number - 1}", "to": f"{number}"}],
    }
    return entry | fields


def test_history_of_a_video_includes_credits_releases_and_ratings(trail: Trail) -> None:
    video_id = trail.create()
    expected_fields: list[Item] = [
        {"entity": "credit", "personId": "sam", "action": "removed"},
        {"entity": "release", "region": "NZ", "language": "mi", "action": "created"},
        {"entity": "release", "region": "NZ"},
        {"entity": "rating", "version": 1},
    ]
    for number, fields in enumerate(expected_fields, start=10):
        trail.store.add(make_entry(number=number, videoId=video_id, **fields))
    trail.store.add(make_entry("credit", 20, owner=None, videoId=video_id, personId="kim"))
    reply = trail.get(video_id, f"from={NOW + 1}&order=asc")
    assert _validated(reply) == reply.json["items"]
    assert [
        {name: item[name] for name in fields} for item, fields in zip(reply.json["items"], expected_fields, strict=True)
    ] == expected_fields
    # Earlier releases stored entries of credits without an owner. Only admins see such an entry.
    assert trail.get(video_id, "limit=1", user="admin").json["items"][0]["personId"] == "kim"


def _validated(reply: Reply) -> list[Item]:
    schema = {"$ref": "#/components/schemas/AuditPage", "components": document()["components"]}
    jsonschema_rs.Draft202012Validator(schema).validate(reply.json)
    items: list[Item] = reply.json["items"]
    return items


class TestPlaylists:
    @staticmethod
    def _create(trail: Trail, entries: int = 3, **fields: Any) -> str:
        playlist_id = str(trail.api.post("/v1/playlists", {"title": "t"} | fields).json["playlistId"])
        for number in range(1, entries + 1):
            trail.store.add(make_entry("playlist", number, playlistId=playlist_id))
        return playlist_id

    @staticmethod
    def _get(trail: Trail, playlist_id: str, query: str = "", **options: Any) -> Reply:
        return trail.api.get(f"/v1/playlists/{playlist_id}/audit", query=query, **options)

    def test_playlist_history_lists_changes_newest_first_in_pages(self, trail: Trail) -> None:
        playlist_id = self._create(trail)
        reply = self._get(trail, playlist_id, "limit=2")
        assert [item["version"] for item in _validated(reply)] == [3, 2]
        assert {item["playlistId"] for item in reply.json["items"]} == {playlist_id}
        cursor = quote(reply.json["nextCursor"])
        last = self._get(trail, playlist_id, f"cursor={cursor}")
        assert ([item["version"] for item in last.json["items"]], last.json["nextCursor"]) == ([1], None)
        assert self._get(trail, self._create(trail), f"cursor={cursor}").status == 400
        assert trail.get(playlist_id, f"cursor={cursor}", user="admin").status == 400
        period = self._get(trail, playlist_id, f"from={NOW + 2}&to={NOW + 3}&order=asc")
        assert [item["version"] for item in period.json["items"]] == [2]

    def test_playlist_history_is_readable_by_owner_and_admins_only(self, trail: Trail) -> None:
        hidden, visible = self._create(trail), self._create(trail, visibility="public")
        statuses = {
            user: [self._get(trail, playlist_id, user=user).status for playlist_id in (hidden, visible, MISSING)]
            for user in ("alice", "bob", "admin")
        }
        assert statuses == {"alice": [200, 200, 404], "bob": [404, 403, 404], "admin": [200, 200, 200]}

    def test_history_of_a_deleted_playlist_is_readable_only_by_owner_and_admins(self, trail: Trail) -> None:
        playlist_id = self._create(trail, visibility="public")
        key = PLAYLIST.key(playlistId=playlist_id)
        stored = trail.table.get(key) or {}
        trail.table.write(trail.table.put(stored | {"deletedAt": NOW, "purgeAt": NOW + 10}))
        assert [self._get(trail, playlist_id, user=user).status for user in ("alice", "bob")] == [200, 404]
        trail.api.clock.advance(10)
        assert [self._get(trail, playlist_id, user=user).status for user in ("alice", "admin")] == [404, 200]

    def test_owner_sees_only_own_entries_of_a_reused_playlist_id(self, trail: Trail) -> None:
        playlist_id = self._create(trail, entries=1)
        trail.store.add(make_entry("playlist", 5, owner="bob", playlistId=playlist_id))
        assert [item["version"] for item in self._get(trail, playlist_id).json["items"]] == [1]

    @pytest.mark.parametrize("query", ["from=10&to=10", "limit=0", "cursor=x", "order=up", "x=1"])
    def test_invalid_parameter_of_a_history_is_400(self, trail: Trail, query: str) -> None:
        with record_operations(trail.table.client) as operations:
            assert self._get(trail, MISSING, query).status == 400
        assert operations == []

    def test_malformed_id_of_a_history_is_400(self, trail: Trail) -> None:
        assert self._get(trail, "no-uuid").status == 400
