"""Permissions of every route, as tables of callers and resources.

`ok` is any status below 300. Every other cell is the exact status of the response, with the problem type if it is
unusual for the status. Tests of the tokens that the gateway refuses (none, forged, expired, of another issuer) are in
tests/e2e/test_service.py.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote, urlencode
from uuid import uuid4

import pytest

from local.testbed.audited import AuditedService
from local.testbed.background import BackgroundWork
from local.testbed.calls import BODIES, QUERIES, path_of, put_examples
from local.testbed.harness import Api, Reply, record_operations
from local.testbed.lean_moto import restore_tables, stored_tables
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.core.caller import Caller
from shared.history.revert_runs import RevertRequest, RunStore
from shared.relations.entry_updates import EntryUpdater
from shared.routes import ADMIN, READ, ROUTES, TRANSCODE, WRITE, Route
from shared.videos import video
from shared.videos.store import VideoStore
from tests.indexed import publish_index

BY_OPERATION = {route.operation: route for route in ROUTES}

REFUSALS = {403: "forbidden", 404: "not-found", 409: "illegal-transition"}
"""Usual problem type of each status of a refusal."""

TOKENS = {
    "no scopes": ("alice", "", set()),
    "other scopes": ("alice", "openid videos/reads", set()),
    "read": ("alice", READ, {READ}),
    "write": ("alice", WRITE, {WRITE}),
    "transcode": ("alice", TRANSCODE, {TRANSCODE}),
    "admin": ("alice", ADMIN, {READ, WRITE, TRANSCODE, ADMIN}),
    "no subject": ("", f"{READ} {WRITE} {TRANSCODE} {ADMIN}", set()),
}
"""Tokens by a description: subject, scopes, and the scopes of the routes that accept the token."""

CALLERS = {
    "owner": ("alice", f"{READ} {WRITE}"),
    "owner, read only": ("alice", READ),
    "writer": ("bob", f"{READ} {WRITE}"),
    "reader": ("bob", READ),
    "transcoder": ("tom", TRANSCODE),
    "admin": ("root", ADMIN),
}
"""Columns of the tables: subject and scopes of each caller. Alice owns all resources."""

# Result by caller:          owner  (read)  writer reader  transc. admin
READABLE = """
    private                  ok     ok      404    404     403     ok
    processing               ok     ok      404    404     403     ok
    public                   ok     ok      ok     ok      403     ok
    deleted                  ok     ok      404    404     403     ok
"""
READABLE_UNLESS_DELETED = """
    private                  ok     ok      404    404     403     ok
    processing               ok     ok      404    404     403     ok
    public                   ok     ok      ok     ok      403     ok
    deleted                  409    409     404    404     403     409
"""
READABLE_BY_OWNER = """
    private                  ok     ok      404    404     403     ok
    processing               ok     ok      404    404     403     ok
    public                   ok     ok      403    403     403     ok
    deleted                  ok     ok      404    404     403     ok
"""
CHANGED = """
    private                  ok     403     404    403     403     ok
    processing               ok     403     404    403     403     ok
    public                   ok     403     403    403     403     ok
    deleted                  409    403     404    403     403     409
"""
CHANGED_EVEN_DELETED = """
    private                  ok     403     404    403     403     ok
    processing               ok     403     404    403     403     ok
    public                   ok     403     403    403     403     ok
    deleted                  ok     403     404    403     403     ok
"""
POSTER_CHOSEN = """
    private                  ok     403     404    403     403     ok
    processing               ok     403     404    403     403     ok
    public                   ok     403     403    403     403     ok
    deleted       409:no-source     403     404    403     403     409:no-source
"""
RESTORED = """
    private                  409    403     404    403     403     409
    processing               409    403     404    403     403     409
    public                   409    403     403    403     403     409
    deleted                  ok     403     404    403     403     ok
"""
PLAYED = """
    private                  ok     ok      404    404     403     ok
    processing               ok     ok      404    404     403     ok
    public        ok     ok      409:not-playable  409:not-playable     403     ok
    deleted  409:not-playable  409:not-playable  404    404     403     409:not-playable
"""
"""Playback of a source video that has arrived and has no renditions yet. Its owner plays the source video itself."""
LISTED_FOR_OWNER = """
    private                  ok     ok      403    403     403     ok
    processing               ok     ok      403    403     403     ok
    public                   ok     ok      403    403     403     ok
    deleted                  ok     ok      403    403     403     ok
"""
"""Lookup by the external id, a private value. Other callers get 403, so they cannot guess values."""
COMPLETED = """
    private                  409    403     404    403     403     409
    processing               409    403     404    403     403     409
    public                   409    403     403    403     403     409
    deleted                  409    403     404    403     403     409
"""
"""Completion of a single-PUT upload, which the PUT itself already completed."""
REPORTED = """
    private                  403    403     403    403     ok      ok
    processing               403    403     403    403     ok      ok
    public                   403    403     403    403     ok      ok
    deleted                  403    403     403    403     404     404
"""
VIDEOS = {
    "getVideo": READABLE,
    "getVideoByExternalId": LISTED_FOR_OWNER,
    "getVideoBySlug": READABLE,
    "patchVideo": CHANGED,
    "deleteVideo": CHANGED_EVEN_DELETED,
    "revertVideo": CHANGED_EVEN_DELETED,
    "restoreVideo": RESTORED,
    "countView": READABLE,
    "getViews": READABLE_BY_OWNER,
    "explainViews": READABLE_BY_OWNER,
    "createUpload": CHANGED,
    "getUpload": CHANGED,
    "completeUpload": COMPLETED,
    "abortUpload": CHANGED_EVEN_DELETED,
    "chooseThumbnail": POSTER_CHOSEN,
    "reportRendition": REPORTED,
    "listJobs": READABLE_BY_OWNER,
    "retryJob": CHANGED,
    "whyNotReady": READABLE_BY_OWNER,
    "getPlayback": PLAYED,
    "listCredits": READABLE,
    "getCredit": READABLE,
    "putCredit": CHANGED,
    "deleteCredit": CHANGED,
    "listReleases": READABLE,
    "listRegionReleases": READABLE,
    "getRelease": READABLE,
    "putRegionRelease": CHANGED,
    "putRelease": CHANGED,
    "deleteRegionRelease": CHANGED,
    "deleteRelease": CHANGED,
    "listCaptions": READABLE,
    "getCaptions": READABLE,
    "putCaptions": CHANGED,
    "deleteCaptions": CHANGED,
    "getChapters": READABLE,
    "putChapters": CHANGED,
    "deleteChapters": CHANGED,
    "getRating": READABLE,
    "putRating": READABLE_UNLESS_DELETED,
    "deleteRating": READABLE,
    "listVideoPlaylists": READABLE,
    "listEpisodes": READABLE,
    "similarVideos": READABLE,
    "listAudit": READABLE_BY_OWNER,
    "getDiff": READABLE_BY_OWNER,
}
"""Operations on one video. A caller without read access gets 404; a caller with only read access gets 403."""
BATCHES = {"batchVideos": CHANGED, "countViews": READABLE}
"""Batch operations, called with one video. The cell is the status of that video's result."""

READABLE_LIST = """
    private                  ok     ok      404    404     403     ok
    public                   ok     ok      ok     ok      403     ok
"""
CHANGED_LIST = """
    private                  ok     403     404    403     403     ok
    public                   ok     403     403    403     403     ok
"""
LIST_READABLE_BY_OWNER = """
    private                  ok     ok      404    404     403     ok
    public                   ok     ok      403    403     403     ok
"""
PLAYLISTS = {
    "getPlaylist": READABLE_LIST,
    "listPlaylistAudit": LIST_READABLE_BY_OWNER,
    "patchPlaylist": CHANGED_LIST,
    "deletePlaylist": CHANGED_LIST,
    "listEntries": READABLE_LIST,
    "appendEntry": CHANGED_LIST,
    "moveEntry": CHANGED_LIST,
    "removeEntry": CHANGED_LIST,
}
"""Operations on one playlist."""

LISTED = """
    private                  shown  shown   hidden hidden  403     shown
    public                   shown  shown   shown  shown   403     shown
"""
LISTED_OF_A_PERSON = """
    private                  404    404     404    404     403     404
    public                   shown  shown   shown  shown   403     shown
"""
"""Videos of a person. The person does not exist until one of its videos is published."""
LISTED_TO_ALL = """
    private                  hidden hidden  hidden hidden  403     hidden
    public                   shown  shown   shown  shown   403     shown
"""
LISTED_TO_ADMINS = """
    private                  403    403     403    403     403     shown
    public                   403    403     403    403     403     shown
"""
LISTS = {
    ("listVideos", "userId=alice"): LISTED,
    ("listVideos", "userId=alice&tag=t"): LISTED,
    ("listVideos", "tag=t"): LISTED_TO_ALL,
    ("listVideos", "region=NZ"): LISTED_TO_ALL,
    ("listVideos", "category=c"): LISTED_TO_ALL,
    ("listVideos", ""): LISTED_TO_ALL,
    ("listVideos", "status=ready"): LISTED_TO_ADMINS,
    ("listPersonVideos", ""): LISTED_OF_A_PERSON,
    ("batchGetVideos", ""): LISTED,
    ("listEntries", ""): LISTED,
}
"""Visibility of a video in each list. `listEntries` lists a public playlist."""

ANY_READER = """
    -                        ok     ok      ok     ok      403     ok
"""
ANY_WRITER = """
    -                        ok     403     ok     403     403     ok
"""
OWNER = """
    -                        ok     ok      403    403     403     ok
"""
ADMINS = """
    -                        403    403     403    403     403     ok
"""
NO_RUN = """
    -                        403    403     403    403     403     404
"""
WITHOUT_ONE_RESOURCE = {
    "createVideo": ANY_WRITER,
    "createPlaylist": ANY_WRITER,
    "createWebhook": ANY_WRITER,
    "listTags": ANY_READER,
    "listTop": ANY_READER,
    "searchVideos": ANY_READER,
    "getUser": OWNER,
    "listFolders": OWNER,
    "getFolder": OWNER,
    "getOperations": ADMINS,
    "listChanges": OWNER,
    "listQuestions": ADMINS,
    "runQuestion": ADMINS,
    "getQuestionRun": NO_RUN,
}
"""Operations without a single resource. `getUser` gets alice's totals, and `listChanges` the changes of her resources.
The operations on folders get alice's folders.
"""

CHANGESETS = {
    "getChangeset": """
    -                        ok     ok      404    404     403     ok
""",
    "revertChangeset": """
    -                        ok     403     404    403     403     ok
""",
    "getRevert": """
    -                        ok     ok      404    404     403     ok
""",
    "moveFolder": """
    -                        ok     403     404    403     403     404
""",
    "getFolderMove": """
    -                        ok     ok      404    404     403     ok
""",
}
"""Operations on one change set with alice's items, and on the run that reverts it. Also moves of folders. Only alice
has a folder."""

ANY_OWN = """
    -                        ok     ok      404    404     403     ok
"""
ANY_OWN_CHANGED = """
    -                        ok     403     404    403     403     ok
"""
WEBHOOKS = {
    "listWebhooks": OWNER,
    "getWebhook": ANY_OWN,
    "patchWebhook": ANY_OWN_CHANGED,
    "deleteWebhook": ANY_OWN_CHANGED,
    "rotateSecret": ANY_OWN_CHANGED,
    "replayWebhook": ANY_OWN_CHANGED,
    "testWebhook": ANY_OWN_CHANGED,
    "listDeliveries": ANY_OWN,
}
"""Operations on one of alice's webhooks. `listWebhooks` lists all of them."""

PLAYLISTS_LISTED = LISTED
"""Visibility of a playlist in `GET /v1/playlists?userId=alice`."""


def is_refused_to_writers(operation: str) -> bool:
    """Return whether an operation on alice's public resource refuses another user with read and write scope, by 403 or
    404."""
    tables = {**VIDEOS, **PLAYLISTS, **CHANGESETS, **WEBHOOKS, **WITHOUT_ONE_RESOURCE}
    cells = [line.split() for line in tables.get(operation, "").splitlines() if line.strip()]
    column = 1 + list(CALLERS).index("writer")
    return any(cell[column] in ("403", "404") for cell in cells if cell[0] in ("public", "-"))


def _cases(operations: dict[Any, str]) -> list[Any]:
    """Return test parameters: each operation, each state in its table, and the expected result by caller."""
    rows = []
    for operation, table in operations.items():
        for line in table.split("\n"):
            if line.strip():
                state, *cells = line.split()
                name = operation if isinstance(operation, str) else "?".join(operation)
                expected = dict(zip(CALLERS, cells, strict=True))
                rows.append(pytest.param(operation, state, expected, id=f"{name}-{state}"))
    return rows


def _outcome(reply: Reply) -> str:
    """Return `ok`, or the status of a refusal. The problem type is appended if it is unusual for the status."""
    if reply.status < 300:
        return "ok"
    slug = reply.json["type"].rpartition("/")[2].rpartition(":")[2]
    return str(reply.status) if slug == REFUSALS.get(reply.status) else f"{reply.status}:{slug}"


class StoredVideo(NamedTuple):
    """Tables with one video, its id, and the attributes of AccessTestbed that belong to this video."""

    tables: bytes
    video_id: str
    upload_id: str
    input_hash: str
    unique: str


WITH_OBJECTS = ("captions", "search")
"""Functions whose videos have objects, which are not in the tables."""


@dataclass
class AccessTestbed:
    """The service with resources of alice's, which are created on demand."""

    api: Api
    background: BackgroundWork
    upload_id: str = ""
    input_hash: str = ""
    unique: str = ""
    """External id and slug of the video that was created last."""
    stored_videos: ClassVar[dict[tuple[str, str], StoredVideo]] = {}
    """Videos that `only_video` created, by state and function. All tests share them."""

    def only_video(self, state: str, function: str) -> str:
        """Create a video as `video` does, in tables without other resources, and return its id."""
        if function in WITH_OBJECTS:
            return self.video(state, function)
        key = (state, function)
        if key not in self.stored_videos:
            video_id = self.video(state, function)
            self.stored_videos[key] = StoredVideo(
                stored_tables(), video_id, self.upload_id, self.input_hash, self.unique
            )
        tables, video_id, self.upload_id, self.input_hash, self.unique = self.stored_videos[key]
        restore_tables(tables)
        return video_id

    def video(self, state: str, function: str) -> str:
        """Create a video in a state, and return its id. It has the upload, source video or related items that the
        operations of `function` need."""
        video_id = self._uploaded_video() if function in ("jobs", "playback") else self._new_video()
        path = f"/v1/videos/{video_id}"
        put_examples(self.api, function, videoId=video_id)
        if function == "uploads":
            self.upload_id = self.api.post(f"{path}/upload", BODIES["createUpload"]).json["uploadId"]
        if state in ("private", "public"):
            change = {"status": "ready", "visibility": state}
            assert self.api.patch(path, change, user="admin").status == 200
            EntryUpdater(self.api.table).update_entries(video_id, int(self.api.clock()))
        if state == "deleted":
            assert self.api.delete(path).status == 204
        if state == "deleted" or function in ("history", "undo"):
            self.background.settle()
        return video_id

    def _new_video(self) -> str:
        self.unique = str(uuid4())
        fields = {"tags": ["t"], "category": "c", "visibility": "private", "status": "processing"}
        fields |= {"externalId": self.unique, "slug": self.unique}
        return str(self.api.create("admin", userId="alice", **fields)["videoId"])

    def _uploaded_video(self) -> str:
        video_id = self.background.uploaded_film(self.api, visibility="private")
        self.input_hash = self.background.message("transcode", "transcode.360p").inputHash
        return video_id

    def playlist(self, visibility: str, *video_ids: str) -> str:
        """Create a playlist of the given videos, and return its id."""
        playlist_id = str(self.api.post("/v1/playlists", {"title": "t", "visibility": visibility}).json["playlistId"])
        for video_id in video_ids:
            assert self.api.post(f"/v1/playlists/{playlist_id}/entries", {"videoId": video_id}).status == 201
        return playlist_id

    def call(self, operation: str, caller: str, query: str = "", body: Any = None, **ids: str) -> Reply:
        """Send a request as one of CALLERS."""
        route, (user, scopes) = BY_OPERATION[operation], CALLERS[caller]
        body = BODIES.get(operation) if body is None else body
        return self.api.request(
            route.method, path_of(route, **ids), json_body=body, query=query, user=user, scopes=scopes
        )

    @contextmanager
    def unchanged_if_refused(self, operation: str) -> Iterator[list[Reply]]:
        """Assert that a refused write stored nothing. The caller must append the response to the list that this
        yields."""
        replies: list[Reply] = []
        is_write = BY_OPERATION[operation].method != "GET"
        before = self._items() if is_write else []
        yield replies
        if is_write and replies[0].status >= 400:
            assert self._items() == before, operation

    def _items(self) -> list[str]:
        table: Any = self.api.table
        return sorted(map(str, table.client.scan(TableName=table.name)["Items"]))


@pytest.fixture
def testbed(api: Api, table: Table, objects: Objects, request: pytest.FixtureRequest, tmp_path: Path) -> AccessTestbed:
    """Return the service with buckets and background functions. For operations of search, also publish an index."""
    operation = request.node.callspec.params.get("operation")
    if operation in BY_OPERATION and BY_OPERATION[operation].function == "search":
        publish_index(table, objects, api.clock, tmp_path)
    return AccessTestbed(api, AuditedService(api))


def _each_caller(call: Callable[[str], str], expected: dict[str, str]) -> None:
    """Assert the result of a call by each caller. Refused callers come first, because they must not change the
    resource."""
    order = sorted(CALLERS, key=lambda caller: expected[caller] == "ok")
    assert {caller: call(caller) for caller in order} == expected


def test_every_route_that_needs_a_token_is_in_the_tables() -> None:
    listed = {operation for operation, _ in LISTS} | {"listPlaylists", *BATCHES}
    tables = {*VIDEOS, *PLAYLISTS, *CHANGESETS, *WEBHOOKS, *WITHOUT_ONE_RESOURCE, *listed}
    assert tables == {route.operation for route in ROUTES if route.scope}


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("route", [route for route in ROUTES if route.scope], ids=lambda route: route.operation)
def test_token_without_the_scope_of_the_route_is_refused(api: Api, route: Route, token: str) -> None:
    subject, scopes, good_for = TOKENS[token]
    body = BODIES.get(route.operation)
    query = f"userId={quote(subject)}" if route.operation == "listChanges" else ""
    reply = api.request(route.method, path_of(route), json_body=body, query=query, user=subject, scopes=scopes)
    refused = reply.status == 403 and ("scope" in reply.json["detail"] or "subject" in reply.json["detail"])
    assert refused == (route.scope not in good_for)
    assert not refused or _outcome(reply) == "403"


@pytest.mark.parametrize(
    "subject",
    ["x" * 256, "x" * 3000, "\N{CLAPPER BOARD}" * 251, "a\nb", "a\x00b", " ", "\ud800"],
    ids=lambda subject: ascii(subject[:2]) + f" of {len(subject)}",
)
def test_subject_that_is_too_long_or_invalid_is_refused_by_every_route(api: Api, table: Table, subject: str) -> None:
    with record_operations(table.client) as operations:
        for route in (route for route in ROUTES if route.scope):
            body = BODIES.get(route.operation)
            reply = api.request(route.method, path_of(route), json_body=body, user=subject, scopes=ADMIN)
            assert _outcome(reply) == "403", route
            assert "subject" in reply.json["detail"]
    assert operations == []


@pytest.mark.parametrize("subject", ["job:", "job:probe", "job:import", "*"])
def test_subject_that_the_service_reserves_is_refused_by_every_route(api: Api, table: Table, subject: str) -> None:
    with record_operations(table.client) as operations:
        for route in (route for route in ROUTES if route.scope):
            body = BODIES.get(route.operation)
            reply = api.request(route.method, path_of(route), json_body=body, user=subject, scopes=ADMIN)
            assert _outcome(reply) == "403", route
            assert reply.json["detail"].startswith("The token's subject (sub) must not be * or begin with job:")
    assert operations == []


@pytest.mark.parametrize("subject", ["x" * 255, "#" * 255, "\N{CLAPPER BOARD}" * 250, 'a/"b"', "job", "jobs:a", "**"])
def test_any_other_subject_can_use_every_kind_of_resource(testbed: AccessTestbed, subject: str) -> None:
    api = testbed.api
    key = {"Idempotency-Key": "%" * 255}
    video = api.post("/v1/videos", {"title": "t"}, user=subject, headers=key).json
    path = f"/v1/videos/{video['videoId']}"
    for _ in range(2):
        assert api.post(f"{path}/views", user=subject, headers=key).status == 200
    assert api.put(f"{path}/rating", {"value": 7}, user=subject).status == 200
    assert api.post("/v1/playlists", {"title": "t"}, user=subject, headers=key).status == 201
    testbed.background.settle_totals()
    profile = api.get(f"/v1/users/{quote(subject, safe='')}", user=subject).json
    assert (profile["userId"], profile["videos"]["total"], profile["playlists"]) == (subject, 1, 1)
    for listed in ("videos", "playlists"):
        reply = api.get(f"/v1/{listed}", query=urlencode({"userId": subject}), user=subject)
        assert len(reply.json["items"]) == 1


@pytest.mark.parametrize("route", [route for route in ROUTES if not route.scope], ids=lambda route: route.operation)
def test_public_route_needs_no_token(api: Api, route: Route) -> None:
    reply = api.request(route.method, path_of(route), user="", scopes="")
    assert reply.status == 200


@pytest.mark.parametrize(("operation", "state", "expected"), _cases({**VIDEOS, **BATCHES}))
def test_operations_on_a_video_match_the_access_table(
    testbed: AccessTestbed, operation: str, state: str, expected: dict[str, str]
) -> None:
    created: list[str] = []

    def call(caller: str) -> str:
        video_id = created[-1] if created else testbed.only_video(state, BY_OPERATION[operation].function)
        created.append(video_id)
        body = None
        if operation == "reportRendition":
            body = {"inputHash": testbed.input_hash, "attempt": 1, "state": "running"}
        if operation == "batchVideos":
            body = {"operations": [{"op": "patch", "videoId": video_id, "patch": {"title": "u"}}]}
        if operation == "countViews":
            body = {"views": [{"id": "v", "videoId": video_id, "at": int(testbed.api.clock())}]}
        query = "" if operation in BATCHES else QUERIES.get(operation, "")
        with testbed.unchanged_if_refused(operation) as replies:
            reply = testbed.call(
                *(operation, caller, query, body),
                videoId=video_id,
                uploadId=testbed.upload_id,
                name="360p",
                externalId=testbed.unique,
                slug=testbed.unique,
            )
            replies.append(reply)
        if operation in BATCHES and reply.status == 200:
            (result,) = reply.json["items" if operation == "batchVideos" else "results"]
            return "ok" if "problem" not in result else str(result["problem"]["status"])
        if reply.status < 300 and BY_OPERATION[operation].method != "GET":
            created.clear()  # the next caller needs a new video
        return _outcome(reply)

    _each_caller(call, expected)


@pytest.mark.parametrize("operation", ["listAudit", "getViews", "explainViews", "revertVideo", "getDiff"])
def test_video_that_never_existed_looks_like_a_hidden_one(testbed: AccessTestbed, operation: str) -> None:
    query = "from=1" if operation == "getDiff" else ""
    hidden = testbed.video("private", BY_OPERATION[operation].function)
    for video_id in (hidden, "00000000-0000-4000-8000-000000000000"):
        assert _outcome(testbed.call(operation, "writer", query, videoId=video_id)) == "404", video_id


@pytest.mark.parametrize(("operation", "state", "expected"), _cases(PLAYLISTS))
def test_operations_on_a_playlist_match_the_access_table(
    testbed: AccessTestbed, operation: str, state: str, expected: dict[str, str]
) -> None:
    first, second, new = (str(testbed.api.publish()["videoId"]) for _ in range(3))
    created: list[str] = []

    def call(caller: str) -> str:
        playlist_id = created[-1] if created else testbed.playlist(state, first, second)
        created.append(playlist_id)
        body = {"videoId": new} if operation == "appendEntry" else None
        with testbed.unchanged_if_refused(operation) as replies:
            reply = testbed.call(operation, caller, playlistId=playlist_id, videoId=second, body=body)
            replies.append(reply)
        if reply.status < 300:
            created.clear()
        return _outcome(reply)

    _each_caller(call, expected)


@pytest.mark.parametrize(("of", "state", "expected"), _cases(LISTS))
def test_lists_of_videos_match_the_access_table(
    testbed: AccessTestbed, of: tuple[str, str], state: str, expected: dict[str, str]
) -> None:
    operation, query = of
    video_id = testbed.video(state, "relations")
    playlist_id = testbed.playlist("public", video_id)

    def call(caller: str) -> str:
        body = {"videoIds": [video_id]} if operation == "batchGetVideos" else None
        reply = testbed.call(operation, caller, query, body, playlistId=playlist_id)
        if reply.status != 200:
            return _outcome(reply)
        videos = [item.get("video", item) for item in reply.json["items"]]
        return "shown" if video_id in [video["videoId"] for video in videos] else "hidden"

    _each_caller(call, expected)


@pytest.mark.parametrize(("operation", "state", "expected"), _cases({"listPlaylists": PLAYLISTS_LISTED}))
def test_list_of_playlists_matches_the_access_table(
    testbed: AccessTestbed, operation: str, state: str, expected: dict[str, str]
) -> None:
    playlist_id = testbed.playlist(state)

    def call(caller: str) -> str:
        reply = testbed.call(operation, caller, "userId=alice")
        if reply.status != 200:
            return _outcome(reply)
        return "shown" if playlist_id in [item["playlistId"] for item in reply.json["items"]] else "hidden"

    _each_caller(call, expected)


@pytest.mark.parametrize(("operation", "state", "expected"), _cases(CHANGESETS))
def test_operations_on_a_change_set_match_the_access_table(
    testbed: AccessTestbed, operation: str, state: str, expected: dict[str, str]
) -> None:
    alice = Caller("alice", frozenset({READ, WRITE}), correlation_id="run")
    now, runs = int(testbed.api.clock()), RunStore(testbed.api.table)
    runs.begin("set", RevertRequest(alice), now)
    runs.begin("move", RevertRequest(alice.acting_for("move")), now, owner="alice", folder="a", to="b")
    VideoStore(testbed.api.table).create(
        video.with_defaults({"title": "t", "folder": BODIES["moveFolder"]["folder"]}, alice, int(testbed.api.clock())),
        alice.acting_for("set"),
        int(testbed.api.clock()),
    )

    def call(caller: str) -> str:
        testbed.background.settle()
        return _outcome(testbed.call(operation, caller, changesetId="set", revertId="run", moveId="move"))

    _each_caller(call, expected)


@pytest.mark.parametrize(("operation", "state", "expected"), _cases(WEBHOOKS))
def test_operations_on_a_webhook_match_the_access_table(
    testbed: AccessTestbed, operation: str, state: str, expected: dict[str, str]
) -> None:
    query = "userId=alice" if operation == "listWebhooks" else ""

    def call(caller: str) -> str:
        webhook = testbed.api.post("/v1/webhooks", BODIES["createWebhook"]).json["webhookId"]
        return _outcome(testbed.call(operation, caller, query, webhookId=webhook))

    _each_caller(call, expected)


@pytest.mark.parametrize(("operation", "state", "expected"), _cases(WITHOUT_ONE_RESOURCE))
def test_operations_without_a_single_resource_match_the_access_table(
    testbed: AccessTestbed, operation: str, state: str, expected: dict[str, str]
) -> None:
    query = "userId=alice" if operation in ("listChanges", "listFolders", "getFolder") else ""
    _each_caller(lambda caller: _outcome(testbed.call(operation, caller, query)), expected)
