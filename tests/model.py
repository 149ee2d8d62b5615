"""Model of the service in plain Python: a dict of videos, and the guarantees to clients.

It uses no code of the service. `check` sends random requests to both and compares every response. Unit tests run it on
moto, integration tests on an endpoint.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from local.testbed.harness import NOW, Api, Clock, Reply
from shared.relations.entry_updates import EntryUpdater
from shared.schema import SCHEMA_VERSION

EXAMPLES = 40
STEPS = 20

DAY = 24 * 3600
GRACE = 90 * DAY
WINDOW = 1800
"""Seconds in which the views of a viewer count once."""
VIEWS_CACHED = 5
"""Seconds in which the counting of views may use a cached video."""

Video = dict[str, Any]
DEFAULTS: Video = {"visibility": "private", "resolutions": {}, "metadata": {}, "thumbnails": {}}
PROBED = ("duration", "format")
"""Writable fields for which the service records the origin."""
ADMINS_OWN = ("videoId", "userId", "createdAt", "status")
UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
INTERNAL = ("before", "deletedAt")
SUMMARY_FIELDS = (
    *("videoId", "userId", "createdAt", "title", "duration", "format", "category"),
    *("status", "visibility", "publishAt", "expiresAt"),
)
NEXT = {
    "uploaded": ("processing", "failed"),
    "processing": ("ready", "failed"),
    "ready": ("processing",),
    "failed": ("uploaded", "processing"),
}


class Expected(NamedTuple):
    """Expected status, and the content or the last word of the problem type."""

    status: int
    content: Any = None


NOT_FOUND, FORBIDDEN, MISMATCH = (
    Expected(404, "not-found"),
    Expected(403, "forbidden"),
    Expected(412, "version-mismatch"),
)
ILLEGAL, REUSED = Expected(409, "illegal-transition"), Expected(422, "idempotency-key-reused")


def canonical(value: Any) -> str:
    """Return the value as JSON, in which 1 and true differ. Python treats them as equal."""
    return json.dumps(value, sort_keys=True)


def merged(target: Any, patch: Any) -> Any:
    """Return the result of a JSON Merge Patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    result |= {name: merged(result.get(name), value) for name, value in patch.items()}
    return {name: value for name, value in result.items() if value is not None}


class Model:
    """Model of the service: each method returns the expected response. `now` is in seconds since the epoch, and
    `version` is from If-Match."""

    def __init__(self) -> None:
        self.videos: dict[str, Video] = {}
        self.views: Counter[str] = Counter()
        self.stored_responses: dict[tuple[str, str, str], tuple[int, str, Expected]] = {}
        self.keys: dict[tuple[str, str, str], int] = {}
        """Time at which a view with an idempotency key was counted, by caller, video and key."""
        self.viewers: dict[tuple[str, str, str], tuple[int, str | None]] = {}
        """Time and key of the last counted view, by caller, video and viewer."""

    def create(self, user: str, body: Video, key: str | None, now: int, video_id: str) -> Expected:
        """Create a video. `video_id` is the id in the service's response."""
        content = DEFAULTS | body
        stored = self._stored_response(user, "create", key, content, now)
        own = {name: content.pop(name) for name in ADMINS_OWN if name in content}
        video = content | {"videoId": video_id, "userId": user, "createdAt": now, "status": "uploaded"}
        video |= {"version": 1, "schemaVersion": SCHEMA_VERSION} | (own if user == "admin" else {})
        origin = "import" if own and user == "admin" else "person"
        video["origins"] = {name: origin for name in PROBED if name in content}
        if _is_impossible({}, video, min(now, video["createdAt"])):
            return Expected(422, "invalid-content")  # even if the key was used: content is checked first
        if stored:
            return stored
        if video["videoId"] in self.videos:
            return Expected(409, "already-exists")
        response = Expected(201, self._write(video, now) | {"viewCount": 0})
        return self._store_response(user, "create", key, DEFAULTS | body, now, response)

    def get(self, user: str, video_id: str, now: int) -> Expected:
        if not (video := self._visible(user, video_id, now)):
            return NOT_FOUND
        document = _document(video) | {"viewCount": self.views[video_id]}
        if user not in (video["userId"], "admin"):
            document.pop("purgeAt", None)
            document.pop("folder", None)
            if names := document.pop("resolutions"):
                document |= {"renditions": {name: {} for name in names}, "playback": f"/v1/videos/{video_id}/playback"}
            document["thumbnails"] = {name: it for name, it in video["thumbnails"].items() if _is_url(it["url"])}
        return Expected(200, document)

    def patch(self, user: str, video_id: str, patch: Video, version: int | None, now: int) -> Expected:
        video = self._changeable(user, video_id, version, now)
        if isinstance(video, Expected):
            return video
        status = patch.get("status", video["status"])
        if video["status"] == "deleted" or status not in (video["status"], *NEXT[video["status"]]):
            return ILLEGAL
        changed = DEFAULTS | merged(video, patch)
        if any("url" not in picture for picture in changed["thumbnails"].values()):
            return Expected(422, "invalid-content")
        if _is_impossible(video, changed, now):
            return Expected(422, "invalid-content")
        origins = video["origins"] | {name: "person" for name in PROBED if name in patch}
        changed["origins"] = {name: origin for name, origin in origins.items() if name in changed}
        return Expected(200, self._change(video, changed, now))

    def delete(self, user: str, video_id: str, version: int | None, now: int) -> Expected:
        video = self._changeable(user, video_id, version, now)
        if isinstance(video, Expected):
            return video
        if video["status"] != "deleted":
            self._change(video, video | {"status": "deleted", "before": video["status"], "deletedAt": now}, now)
        return Expected(204)

    def restore(self, user: str, video_id: str, version: int | None, key: str | None, now: int) -> Expected:
        if stored := self._stored_response(user, "restore", key, video_id, now):
            return stored
        video = self._changeable(user, video_id, version, now)
        if isinstance(video, Expected):
            return video
        if video["status"] != "deleted":
            return ILLEGAL
        restored = {name: value for name, value in video.items() if name not in INTERNAL} | {"status": video["before"]}
        return self._store_response(
            user, "restore", key, video_id, now, Expected(200, self._change(video, restored, now))
        )

    def view(self, user: str, video_id: str, key: str | None, viewer: str | None, at: int, now: int) -> Expected:
        if not (video := self._visible(user, video_id, now)):
            return NOT_FOUND
        reason, ends = _exclusion_reason(user, video, now), None
        if not reason and viewer:
            reason, ends = self._count_viewer((user, video_id, viewer), key, at, now)
        elif not reason and key:
            if self.keys.get((user, video_id, key), 0) + DAY > now:
                reason = "duplicate"
            else:
                self.keys[user, video_id, key] = now
        # The stream consumer counts views with a viewer or key, but does not run here.
        is_deferred = not reason and bool(viewer or key)
        self.views[video_id] += not reason and not is_deferred
        content = {
            "videoId": video_id,
            "counted": not reason,
            "reason": reason,
            "viewCount": self.views[video_id] + is_deferred,
            "windowEnds": ends,
        }
        return Expected(200, content)

    def _count_viewer(
        self, viewer_key: tuple[str, str, str], key: str | None, at: int, now: int
    ) -> tuple[str | None, int]:
        """Return two values: the reason why a viewer's view does not count (`None` if it counts), and the end of the
        viewer's window."""
        last, last_key = self.viewers.get(viewer_key, (0, None))
        is_remembered = last + 8 * DAY > now
        if is_remembered and key and key == last_key:
            return "duplicate", last + WINDOW
        if is_remembered and at < last + WINDOW:
            return "repeated", last + WINDOW
        self.viewers[viewer_key] = (at, key)
        return None, at + WINDOW

    def list(self, user: str, query: Mapping[str, Any], now: int) -> Expected:
        """Return the complete list in order."""
        start, end = query.get("from", 0), query.get("to", 10**12)
        shortest, longest = query.get("minDuration", 0), query.get("maxDuration", 10**12)
        owner, status, category = query.get("userId"), query.get("status"), query.get("category")
        if start >= end or shortest > longest:
            return Expected(400, "invalid-parameter")
        by_tag = "tag" in query
        if by_tag and status == "deleted":
            return Expected(400, "unserved-query")
        by_status = not by_tag and owner is None and status is not None and not (category and status == "ready")
        if by_status and user != "admin":
            return FORBIDDEN
        everything = by_status or (owner is not None and user in (owner, "admin"))

        def belongs(video: Video) -> bool:
            if by_tag and query["tag"].casefold() not in map(str.casefold, video.get("tags", [])):
                return False
            if not everything and not _published(video, now):
                return False
            if video["status"] == "deleted" and status != "deleted":
                return False
            filters = {"userId": owner, "status": status, "category": category, "format": query.get("format")}
            return (
                video.get("purgeAt", now + 1) > now
                and start <= video["createdAt"] < end
                and all(value is None or video.get(name) == value for name, value in filters.items())
                and ("duration" in video or not {"minDuration", "maxDuration"} & set(query))
                and shortest <= video.get("duration", shortest) <= longest
            )

        videos = sorted(filter(belongs, self.videos.values()), key=lambda video: (video["createdAt"], video["videoId"]))
        return Expected(200, [_summary(video) for video in (videos if query["order"] == "asc" else reversed(videos))])

    def list_folder(self, user: str, query: Mapping[str, str], now: int) -> Expected:
        """Return the complete list of a folder, in order."""
        owner, folder = query["userId"], query["folder"]
        if user not in (owner, "admin"):
            return FORBIDDEN
        prefix = f"{folder}/" if query["subfolders"] == "true" else f"{folder}//"
        listed = {
            f"{video['folder']}//{video['createdAt']:012}/{video['videoId']}": _summary(video)
            for video in self.videos.values()
            if video["userId"] == owner and "folder" in video and video["status"] != "deleted"
            if video.get("purgeAt", now + 1) > now
        }
        keys = sorted((key for key in listed if key.startswith(prefix)), reverse=query["order"] == "desc")
        return Expected(200, [listed[key] for key in keys])

    def _visible(self, user: str, video_id: str, now: int) -> Video | None:
        video = self.videos.get(video_id)
        if not video or video.get("purgeAt", now + 1) <= now:
            return None
        return video if user in (video["userId"], "admin") or _published(video, now) else None

    def _changeable(self, user: str, video_id: str, version: int | None, now: int) -> Video | Expected:
        if not (video := self._visible(user, video_id, now)):
            return NOT_FOUND
        if user not in (video["userId"], "admin"):
            return FORBIDDEN
        return video if version in (None, video["version"]) else MISMATCH

    def _change(self, old: Video, new: Video, now: int) -> Video:
        if canonical(_without_empty_tags(new)) == canonical(old):
            return _document(old)
        return self._write(new | {"version": old["version"] + 1}, now)

    def _write(self, video: Video, now: int) -> Video:
        video = {name: value for name, value in _without_empty_tags(video).items() if name != "purgeAt"}
        if video["status"] == "deleted":
            video["purgeAt"] = video["deletedAt"] + GRACE
        elif "expiresAt" in video:
            video["purgeAt"] = max(video["expiresAt"], now) + GRACE
        self.videos[video["videoId"]] = video | {"updatedAt": now}
        return _document(self.videos[video["videoId"]])

    def _stored_response(self, user: str, operation: str, key: str | None, request: Any, now: int) -> Expected | None:
        at, same, response = self.stored_responses.get((user, operation, key or ""), (0, "", NOT_FOUND))
        if at + DAY <= now:
            return None
        return response if same == canonical(request) else REUSED

    def _store_response(
        self, user: str, operation: str, key: str | None, request: Any, now: int, response: Expected
    ) -> Expected:
        if key:
            self.stored_responses[user, operation, key] = (now, canonical(request), response)
        return response


def _is_impossible(old: Video, new: Video, first: int) -> bool:
    """Return whether the changed times leave no second in which other users can see the video."""
    changed = {name for name in ("publishAt", "expiresAt") if name in new and new[name] != old.get(name)}
    ends = new.get("expiresAt", first + 10**9)
    return ("expiresAt" in changed and ends <= first) or (bool(changed) and ends <= new.get("publishAt", 0))


def _published(video: Video, now: int) -> bool:
    ready = (video["status"], video["visibility"]) == ("ready", "public")
    return ready and video.get("publishAt", now) <= now < video.get("expiresAt", now + 1)


def _exclusion_reason(user: str, video: Video, now: int) -> str | None:
    if video["status"] == "deleted":
        return "deleted"
    if video.get("expiresAt", now + 1) <= now:
        return "expired"
    if not _published(video, now):
        return "unpublished"
    return "owner" if user == video["userId"] else None


def _document(video: Video) -> Video:
    return {name: value for name, value in video.items() if name not in INTERNAL}


def _summary(video: Video) -> Video:
    poster = video["thumbnails"].get("poster", {})
    summary = {name: video[name] for name in SUMMARY_FIELDS if name in video}
    return summary | ({"poster": poster["url"]} if poster and _is_url(poster["url"]) else {})


def _is_url(address: str) -> bool:
    return address.startswith("https://")


def _without_empty_tags(video: Video) -> Video:
    return video if video.get("tags") else {name: value for name, value in video.items() if name != "tags"}


def some(fields: Mapping[str, st.SearchStrategy[Any]], most: int) -> st.SearchStrategy[Video]:
    """Draw up to `most` of these fields. Drawing all of them would rarely produce conflicts."""
    pairs = [st.tuples(st.just(name), values) for name, values in fields.items()]
    return st.lists(st.one_of(pairs), max_size=most, unique_by=lambda pair: pair[0]).map(dict)


# Few values of each kind, so that requests interact. publishAt and expiresAt are drawn as seconds from now.
USERS = st.sampled_from(["admin", "alice", "bob"])
ACTORS = st.sampled_from(["its owner", "its owner", "admin", "alice", "bob"])
KEYS = st.sampled_from([None, None, "key-1", "key-2"])
VIEWING = st.sampled_from(["carol", "carol", "its owner", "admin", "bob"])
VIEWERS = st.sampled_from([None, None, "tv", "phone"])
AGO = st.sampled_from([0, 0, 0, 60, WINDOW, 7 * DAY])
"""Age of a view, in seconds."""
VERSIONS = st.sampled_from([None, None, "current", "stale"])
TITLES = st.sampled_from(["A film", "A film 🎬"])
VISIBILITIES = st.sampled_from(["public", "public", "private"])
STATUSES = st.sampled_from(["ready", "ready", "uploaded", "processing", "failed"])
NAMES = st.sampled_from(["one", "poster"])
URIS = st.sampled_from(["s3://bucket/1", "s3://bucket/2"])
ADDRESSES = st.sampled_from(["s3://bucket/1", "https://example.com/2.jpg"])
SCALARS = st.sampled_from([True, 1, False, 0, 1.5, "", "Ünïcode 🎬"])
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "category": st.sampled_from(["film", "news"]),
    "format": st.sampled_from(["mp4", "webm"]),
    "duration": st.sampled_from([0, 1000, 5000]),
    "tags": st.sampled_from([[], ["a"], ["A"], ["a", "ü"]]),
    "folder": st.sampled_from(["a", "a/b", "a/bc"]),
    "description": st.sampled_from(["", "Two\nlines"]),
    "publishAt": st.sampled_from([-60, 0, 1, 60]),
    "expiresAt": st.sampled_from([60, 1, 0, -60]),
}
NEW = st.builds(
    dict.__or__,
    st.fixed_dictionaries({"title": TITLES, "visibility": VISIBILITIES, "status": STATUSES}),
    some(
        {
            **FIELDS,
            "videoId": st.sampled_from([f"{n}0000000-0000-4000-8000-000000000000" for n in range(1, 7)]),
            "userId": st.sampled_from(["alice", "bob"]),
            "createdAt": st.sampled_from([NOW - 2, NOW - 1, NOW]),
            "resolutions": st.dictionaries(NAMES, URIS),
            "metadata": st.dictionaries(NAMES, SCALARS),
            "thumbnails": st.dictionaries(NAMES, st.fixed_dictionaries({"url": ADDRESSES})),
        },
        most=6,
    ),
)
PICTURES = some({"url": URIS, "width": st.sampled_from([None, 1, 2])}, most=2)
MAPS = {
    "metadata": st.none() | st.dictionaries(NAMES, st.none() | SCALARS),
    "thumbnails": st.none() | st.dictionaries(NAMES, st.none() | PICTURES),
    "resolutions": st.none() | st.dictionaries(NAMES, st.none() | URIS),
}
PATCHES = some(MAPS, most=2) | some(
    {
        **{name: st.none() | values for name, values in FIELDS.items()},
        **MAPS,
        "title": TITLES,
        "visibility": VISIBILITIES,
        "status": STATUSES,
    },
    most=3,
)
QUERIES = st.builds(
    dict.__or__,
    st.fixed_dictionaries({"order": st.sampled_from(["asc", "desc"]), "limit": st.sampled_from([1, 2, 3, 100])}),
    some(
        {
            "userId": st.sampled_from(["alice", "bob"]),
            "category": FIELDS["category"],
            "status": st.sampled_from(["ready", "deleted", "uploaded", "failed"]),
            "format": FIELDS["format"],
            "tag": st.sampled_from(["a", "A", "Ü"]),
            "minDuration": st.sampled_from([0, 1000, 1001]),
            "maxDuration": st.sampled_from([0, 1000, 10_000]),
            "from": st.sampled_from([NOW - 2, NOW - 1, NOW]),
            "to": st.sampled_from([NOW - 1, NOW, NOW + 1]),
        },
        most=3,
    ),
)


FOLDERS = st.fixed_dictionaries(
    {
        "userId": st.sampled_from(["alice", "bob"]),
        "folder": FIELDS["folder"],
        "subfolders": st.sampled_from(["true", "false"]),
        "order": st.sampled_from(["asc", "desc"]),
    }
)

INITIAL_VIDEOS: list[Video] = [
    {"userId": "alice", "createdAt": NOW - 2, "category": "film", "folder": "a", "metadata": {"one": 1, "poster": 0}},
    {"userId": "alice", "createdAt": NOW - 1, "category": "film", "duration": 1000, "format": "mp4", "tags": ["a"]},
    {"userId": "bob", "createdAt": NOW - 1, "category": "news", "expiresAt": NOW + 60},
    {"userId": "bob", "createdAt": NOW - 1, "category": "film", "visibility": "private", "tags": ["A", "ü"]},
]


class Catalogue(RuleBasedStateMachine):
    """State machine that sends each request to the service and to the model."""

    ids = Bundle("ids")

    def __init__(self, new_api: Callable[[Clock], Api]) -> None:
        super().__init__()
        self.clock = Clock()
        self.api = new_api(self.clock)
        self.model = Model()
        self.last: tuple[str, Video, str | None] | None = None

    @initialize(target=ids)
    def start_with_some_videos(self) -> Any:
        return multiple(*(self._import(video) for video in INITIAL_VIDEOS))

    @rule(user=USERS)
    def get_unknown_video(self, user: str) -> None:
        self._compare(self.api.get(f"/v1/videos/{UNKNOWN_ID}", user=user), self.model.get(user, UNKNOWN_ID, self._now))

    @rule(target=ids, user=USERS, body=NEW, key=KEYS)
    def create(self, user: str, body: Video, key: str | None) -> Any:
        self.last = (user, self._absolute(body), key)
        return self._create()

    @precondition(lambda self: self.last is not None)
    @rule(target=ids)
    def retry_last_create(self) -> Any:
        return self._create()

    @rule(user=ACTORS, video_id=ids)
    def get(self, user: str, video_id: str) -> None:
        user = self._name(user, video_id)
        reply = self.api.get(f"/v1/videos/{video_id}", user=user)
        self._compare(reply, self.model.get(user, video_id, self._now))
        if reply.status == 200:
            conditional = {"If-None-Match": reply.etag}
            assert self.api.get(f"/v1/videos/{video_id}", user=user, headers=conditional).status == 304

    @rule(user=ACTORS, video_id=ids, patch=PATCHES, match=VERSIONS)
    def patch(self, user: str, video_id: str, patch: Video, match: str | None) -> None:
        user = self._name(user, video_id)
        patch, version = self._absolute(patch), self._version(video_id, match)
        reply = self.api.patch(f"/v1/videos/{video_id}", patch, headers=_if_match(version), user=user)
        self._compare(reply, self.model.patch(user, video_id, patch, version, self._now))

    @rule(user=ACTORS, video_id=ids, match=VERSIONS)
    def delete(self, user: str, video_id: str, match: str | None) -> None:
        user = self._name(user, video_id)
        version = self._version(video_id, match)
        reply = self.api.delete(f"/v1/videos/{video_id}", headers=_if_match(version), user=user)
        self._compare(reply, self.model.delete(user, video_id, version, self._now))

    @rule(user=ACTORS, video_id=ids, match=VERSIONS, key=KEYS)
    def restore(self, user: str, video_id: str, match: str | None, key: str | None) -> None:
        user = self._name(user, video_id)
        version = self._version(video_id, match)
        headers = _if_match(version) | _idempotency_header(key)
        reply = self.api.post(f"/v1/videos/{video_id}/restore", headers=headers, user=user)
        self._compare(reply, self.model.restore(user, video_id, version, key, self._now))

    @rule(user=VIEWING, video_id=ids, key=KEYS, viewer=VIEWERS, ago=AGO)
    def view(self, user: str, video_id: str, key: str | None, viewer: str | None, ago: int) -> None:
        user = self._name(user, video_id)
        self._advance(VIEWS_CACHED)
        at = self._now - ago
        body: dict[str, Any] = {"viewerId": viewer} if viewer else {}
        times = {"at": at} if ago else {}
        reply = self.api.post(f"/v1/videos/{video_id}/views", body | times, headers=_idempotency_header(key), user=user)
        self._compare(reply, self.model.view(user, video_id, key, viewer, at, self._now))

    @rule(user=USERS, query=QUERIES)
    def list(self, user: str, query: dict[str, Any]) -> None:
        expected = self.model.list(user, query, self._now)
        pages: list[list[Video]] = []
        cursor = None
        while cursor or not pages:
            reply = self.api.get(
                "/v1/videos", query=urlencode(query | ({"cursor": cursor} if cursor else {})), user=user
            )
            if expected.status != 200:
                self._compare(reply, expected)
                return
            assert reply.status == 200, reply.body
            pages.append(reply.json["items"])
            cursor = reply.json["nextCursor"]
        limit = query["limit"]
        expected_pages = [expected.content[at : at + limit] for at in range(0, len(expected.content), limit)] or [[]]
        assert canonical(pages) == canonical(expected_pages)

    @rule(user=USERS, query=FOLDERS)
    def list_folder(self, user: str, query: dict[str, str]) -> None:
        expected = self.model.list_folder(user, query, self._now)
        reply = self.api.get("/v1/videos", query=urlencode(query), user=user)
        if expected.status != 200:
            self._compare(reply, expected)
        else:
            assert canonical(reply.json["items"]) == canonical(expected.content)

    @rule(seconds=st.sampled_from([1, 1, 59, 60, DAY - 1, DAY, GRACE - DAY]))
    def let_time_pass(self, seconds: int) -> None:
        self._advance(seconds)

    def _advance(self, seconds: float) -> None:
        """Advance the clock, and update the index entries of videos that become visible or expire, as the sweeper
        does."""
        self.clock.advance(seconds)
        for video_id, video in self.model.videos.items():
            if {"publishAt", "expiresAt"} & video.keys():
                EntryUpdater(self.api.table).update_entries(video_id, self._now)

    @property
    def _now(self) -> int:
        return int(self.clock.now)

    def _import(self, video: Video) -> Any:
        self.last = ("admin", {"title": "A film", "status": "ready", "visibility": "public"} | video, None)
        return self._create()

    def _create(self) -> Any:
        assert self.last is not None
        user, body, key = self.last
        reply = self.api.post("/v1/videos", body, headers=_idempotency_header(key), user=user)
        video_id = reply.json.get("videoId", "")
        self._compare(reply, self.model.create(user, body, key, self._now, video_id))
        return video_id if reply.status == 201 else multiple()

    def _absolute(self, fields: Video) -> Video:
        times = {name: fields[name] + self._now for name in ("publishAt", "expiresAt") if fields.get(name) is not None}
        return fields | times

    def _name(self, user: str, video_id: str) -> str:
        return str(self.model.videos[video_id]["userId"]) if user == "its owner" else user

    def _version(self, video_id: str, match: str | None) -> int | None:
        if match is None:
            return None
        current = int(self.model.videos[video_id]["version"])
        return current if match == "current" else current - 1

    def _compare(self, reply: Reply, expected: Expected) -> None:
        if reply.status >= 400:
            assert (reply.status, reply.slug) == expected
        elif reply.status == 204:
            assert (reply.status, reply.body) == (expected.status, b"")
        else:
            assert reply.status == expected.status, reply.body
            assert canonical(reply.json) == canonical(expected.content)


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}


def _idempotency_header(key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": key} if key else {}


def check(new_api: Callable[[Clock], Api], examples: int = EXAMPLES) -> None:
    """Compare the service with the model. `new_api` returns a service with an empty table.

    The examples are the same in each run. With MODEL_EXAMPLES=1000, 1,000 random examples run.
    """

    class ServiceUnderTest(Catalogue):
        def __init__(self) -> None:
            super().__init__(new_api)

    examples_variable = os.environ.get("MODEL_EXAMPLES")
    run_state_machine_as_test(
        ServiceUnderTest,
        settings=settings(
            max_examples=int(examples_variable or examples),
            stateful_step_count=STEPS,
            derandomize=examples_variable is None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
