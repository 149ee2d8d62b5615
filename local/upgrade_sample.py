"""Sample data for the rehearsal of an upgrade, and all queries that must return the data after the upgrade.

Four owners have public and private videos, with credits, releases, ratings and playlists. The rehearsal rewrites the
videos of two owners to the previous schema version. That version allowed several spellings of one tag.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import httpx

from local import LocalError
from local.demo import ApiClient, reason
from shared.core.attributes import encode_item
from shared.schema import (
    CHANGESET,
    CHANGESET_INDEX,
    COMPARISON_REPORT,
    INDEX,
    MARKER,
    PARTITION_KEY,
    SCHEMA_VERSION,
    SORT_KEY,
    TOP,
    VIDEO,
    VIEWS_BY_HOUR,
)

ADMIN = "admin"
OWNERS = ("ann", "ben", "cleo", "dan")
OF_OLDER = ("cleo", "dan")
"""User ids of the owners with videos in the previous schema version."""
READER = "eve"
"""User id of a user without videos, who sees only public videos."""
CATEGORIES = ("rehearsal keynotes", "rehearsal films")
TAGS = ("Rehearsal One", "Rehearsal Two", "Rehearsal Three")
PERSON, REGION = "rehearsal-person", "NZ"
VIDEOS_EACH = 4
PUBLIC_EACH = 3
"""Number of public videos per owner, with the status `ready`. All further videos of the owner are private, with the
status `uploaded`."""
MOST = "100"
"""Page size of the list requests. It is large enough for each complete list."""

PATIENCE = 120.0
REWRITTEN = {"schemaVersion", "version", "updatedAt", "updatedBy", "updatedAs", "updatedFor", "writeId", "tags"}
"""Names of the attributes that an upgrade of a video changes."""

Key = tuple[str, str]
Json = dict[str, Any]
Snapshot = Mapping[Key, Mapping[str, Any]]


class DataLost(LocalError):
    """Error for an item or a query result that is missing, or that differs from the sample data."""


class UpgradeSample:
    """The sample data, the requests that create it, and the queries that must return it."""

    def __init__(self, clients: Mapping[str, ApiClient]) -> None:
        self.clients = clients
        self.videos: list[Json] = []
        """Documents of the created videos, from the responses."""
        self._playlists: dict[str, tuple[str, list[str]]] = {}
        """For each owner: the id of the playlist, and its video ids in order."""
        self._views: Counter[str] = Counter()

    def fill(self) -> None:
        """Create all data through the API."""
        for place in range(VIDEOS_EACH):
            for number, owner in enumerate(OWNERS):
                self.videos.append(self._create(place, number, owner))
        listed = [video for video in self.videos if _is_listed(video)]
        for video in listed:
            for _ in range(1 + video["createdAt"] % 2):
                self._send(READER, "POST", f"{_path(video)}/views")
                self._views[video["videoId"]] += 1
        role = {"roles": [{"category": "actor", "characters": ["Herself"]}], "ordering": 1}
        for video in self.videos:
            self._send(ADMIN, "PUT", f"{_path(video)}/credits/{PERSON}", json=role)
            self._send(ADMIN, "PUT", f"{_path(video)}/releases/{REGION}", json={"titles": [{"title": "Elsewhere"}]})
        for video in listed:
            for rater, value in (("ann", 8), ("ben", 6)):
                self._send(rater, "PUT", f"{_path(video)}/rating", json={"value": value})
        for owner in ("ann", "ben"):
            made = self._send(owner, "POST", "/v1/playlists", json={"title": "Evening", "visibility": "public"})
            held = [video["videoId"] for video in listed][:5]
            for video_id in held:
                self._send(owner, "POST", f"/v1/playlists/{made['playlistId']}/entries", json={"videoId": video_id})
            self._playlists[owner] = made["playlistId"], held

    def _create(self, place: int, number: int, owner: str) -> Json:
        state = "uploaded" if place >= PUBLIC_EACH else "ready"
        video = {
            "title": f"Number {place} of {owner}",
            "userId": owner,
            "createdAt": 1_700_000_000 + 1000 * place + number,
            "category": CATEGORIES[(place + number) % 2],
            "tags": [TAGS[place % 3], TAGS[number % 3]] if place % 3 != number % 3 else [TAGS[place % 3]],
            "releaseYear": 1990 + place,
            "duration": 1000 * (1 + place),
            "status": state,
            "visibility": "private" if state == "uploaded" else "public",
        }
        return self._send(ADMIN, "POST", "/v1/videos", json=video)

    @property
    def older(self) -> list[str]:
        """Ids of the videos with the previous schema version."""
        return [video["videoId"] for video in self.videos if video["userId"] in OF_OLDER]

    def require_owners(self) -> None:
        """Raise DataLost unless the list of each owner's videos is complete. This check is also possible before the
        upgrade, because the first deployment already has the index of these lists."""
        for owner in OWNERS:
            mine = _ids(video for video in self.videos if video["userId"] == owner)
            self._require(f"the videos of {owner}", mine, self._listed(ADMIN, userId=owner))

    def require_all(self) -> None:
        """Raise DataLost unless every query returns all expected items."""
        self.require_owners()
        listed = [video for video in self.videos if _is_listed(video)]
        for category in CATEGORIES:
            wanted = _ids(video for video in listed if video["category"] == category)
            self._require(f"the category {category}", wanted, self._listed(READER, category=category))
        for tag in TAGS:
            wanted = _ids(video for video in listed if tag in video["tags"])
            self._require(f"the tag {tag}", wanted, self._listed(READER, tag=tag))
        every = _ids(listed)
        times = {"from": str(1_700_000_000), "to": str(1_700_100_000)}
        self._require("the feed", every, self._listed(READER, **times))
        self._require("the ready videos", every, self._listed(ADMIN, status="ready", **times))
        hidden = _ids(video for video in self.videos if not _is_listed(video))
        self._require("the uploaded videos", hidden, self._listed(ADMIN, status="uploaded", **times))
        self._require("the region", every, self._listed(READER, region=REGION))
        credited = self._get(READER, f"/v1/people/{PERSON}/videos", limit=MOST)["items"]
        self._require("the person", every, {credit["video"]["videoId"] for credit in credited})
        self._require_playlists()
        for video in self.videos:
            self._require_video(video)
        wanted_counts = {"total": VIDEOS_EACH, "ready": PUBLIC_EACH, "uploaded": VIDEOS_EACH - PUBLIC_EACH}
        for owner in OWNERS:
            counts = self._get(owner, f"/v1/users/{owner}")["videos"]
            counted = {status: count for status, count in counts.items() if count}
            _require(f"the totals of {owner}", wanted_counts, counted)

    def _require_video(self, video: Json) -> None:
        read = self._get(ADMIN, _path(video))
        for name in ("title", "userId", "createdAt", "category", "status", "visibility", "duration", "releaseYear"):
            _require(f"{name} of {video['title']}", video[name], read.get(name))
        _require(f"the tags of {video['title']}", sorted(video["tags"]), sorted(read["tags"]))
        _require(f"the views of {video['title']}", self._views[video["videoId"]], read["viewCount"])
        if _is_listed(video):
            rating = self._get(READER, f"{_path(video)}/rating")
            _require(f"the rating of {video['title']}", (2, 7), (rating["votes"], rating["average"]))

    def _require_playlists(self) -> None:
        for owner, (playlist, held) in self._playlists.items():
            listed = self._get(owner, "/v1/playlists", userId=owner)["items"]
            _require(f"the playlists of {owner}", [playlist], [entry["playlistId"] for entry in listed])
            entries = self._get(owner, f"/v1/playlists/{playlist}/entries", limit=MOST)["items"]
            _require(f"the playlist of {owner}", held, [entry["videoId"] for entry in entries])
            playlists = self._get(READER, f"/v1/videos/{held[0]}/playlists", limit=MOST)["items"]
            is_listed = playlist in {entry["playlistId"] for entry in playlists}
            _require(f"the playlist of {owner} among those that hold a video", True, is_listed)

    def _listed(self, user: str, **query: str) -> set[str]:
        return {item["videoId"] for item in self._get(user, "/v1/videos", limit=MOST, **query)["items"]}

    def _require(self, what: str, wanted: set[str], actual: Iterable[str]) -> None:
        titles = {video["videoId"]: video["title"] for video in self.videos}
        _require(what, *(sorted(titles.get(video_id, video_id) for video_id in ids) for ids in (wanted, actual)))

    def _get(self, user: str, path: str, **query: str) -> Json:
        return self._send(user, "GET", path, params=query)

    def _send(self, user: str, method: str, path: str, **options: Any) -> Json:
        answer = self.clients[user].send(method, path, **options)
        if not httpx.codes.is_success(answer.status_code):
            raise DataLost(f"{method} {path} was rejected: {reason(answer)}.")
        body: Json = answer.json()
        return body


def _path(video: Mapping[str, Any]) -> str:
    return f"/v1/videos/{video['videoId']}"


def _ids(videos: Iterable[Mapping[str, Any]]) -> set[str]:
    return {video["videoId"] for video in videos}


def _is_listed(video: Mapping[str, Any]) -> bool:
    return bool(video["status"] == "ready")


def _require(what: str, wanted: object, actual: object) -> None:
    if wanted != actual:
        raise DataLost(f"Expected {what} to be {wanted}, but found {actual}.")


class TableSample:
    """Client that reads and writes a deployed table directly, without the API."""

    def __init__(self, dynamodb: Any, table: str) -> None:
        self._dynamodb = dynamodb
        self._table = table

    def description(self) -> Json:
        """Return the table's description from DescribeTable."""
        described: Json = self._dynamodb.describe_table(TableName=self._table)["Table"]
        return described

    def indexes(self) -> list[str]:
        """Return the names of the table's indexes."""
        return [index["IndexName"] for index in self.description().get("GlobalSecondaryIndexes", [])]

    def snapshot(self) -> Snapshot:
        """Return all items by key, except the items of scheduled functions and of `tools reconcile`.

        The omitted items are the search index's checkpoint, the top lists, the views by hour, and the last report of
        `tools reconcile`.
        """
        pages = self._dynamodb.get_paginator("scan").paginate(TableName=self._table, ConsistentRead=True)
        items = (item for page in pages for item in page["Items"])
        found = {(item[PARTITION_KEY]["S"], item[SORT_KEY]["S"]): item for item in items}
        omitted = tuple(entity.partition_prefix for entity in (INDEX, TOP, VIEWS_BY_HOUR, COMPARISON_REPORT))
        return {key: item for key, item in found.items() if not key[0].startswith(omitted)}

    def settled(self, video_ids: Iterable[str]) -> Snapshot:
        """Wait until the aggregates worker has counted these videos, and no item has changed for two seconds. Returns
        all items.

        Raises LocalError after PATIENCE seconds.
        """
        wanted = {_key(MARKER.key(videoId=video_id)) for video_id in video_ids}
        deadline = time.monotonic() + PATIENCE
        before: Snapshot = {}
        while time.monotonic() < deadline:
            now = self.snapshot()
            if now == before and wanted <= now.keys():
                return now
            before = now
            time.sleep(2)  # no event marks the end of the stream, so two seconds without a change must suffice
        raise LocalError(f"The totals are incomplete, or still change, after {PATIENCE:.0f} seconds.")

    def make_older(self, sample: UpgradeSample) -> None:
        """Rewrite the older videos to the previous schema version, with two spellings of each tag."""
        tags = {video["videoId"]: [*video["tags"], *map(str.lower, video["tags"])] for video in sample.videos}
        for video_id in sample.older:
            self._dynamodb.update_item(
                TableName=self._table,
                Key=encode_item(VIDEO.key(videoId=video_id)),
                UpdateExpression="SET schemaVersion = :version, tags = :tags",
                ExpressionAttributeValues=encode_item({":version": SCHEMA_VERSION - 1, ":tags": {*tags[video_id]}}),
            )


class TrailSample(TableSample):
    """Client that reads the deployed audit table directly."""

    def require_change_sets(self, entries: Snapshot) -> None:
        """Raise DataLost unless the index of change sets has exactly the audit entries in `entries` that belong to a
        change set. Also raises DataLost if `entries` has no entry of a change set."""
        sets: dict[str, set[Key]] = {}
        for key, item in entries.items():
            if CHANGESET in item:
                sets.setdefault(item[CHANGESET]["S"], set()).add(key)
        if not sets:
            raise DataLost("No audit entry belongs to a change set.")
        for changeset, wanted in sets.items():
            _require(f"the entries of the change set {changeset}", wanted, self._of(changeset))

    def _of(self, changeset: str) -> set[Key]:
        pages = self._dynamodb.get_paginator("query").paginate(
            TableName=self._table,
            IndexName=CHANGESET_INDEX.name,
            KeyConditionExpression="#changeset = :changeset",
            ExpressionAttributeNames={"#changeset": CHANGESET},
            ExpressionAttributeValues={":changeset": {"S": changeset}},
        )
        return {(item[PARTITION_KEY]["S"], item[SORT_KEY]["S"]) for page in pages for item in page["Items"]}


def _key(key: Mapping[str, str]) -> Key:
    return key[PARTITION_KEY], key[SORT_KEY]


def require_unchanged(before: Snapshot, after: Snapshot) -> None:
    """Raise DataLost unless both snapshots have exactly the same items."""
    _require_kept(before, after)
    for key in after:
        if key not in before:
            raise DataLost(f"The item {key} was not expected.")
        if before[key] != after[key]:
            raise DataLost(f"The item {key} has changed from {before[key]} to {after[key]}.")


def require_upgraded(before: Snapshot, after: Snapshot, sample: UpgradeSample) -> None:
    """Raise DataLost unless both snapshots have the same items, except for the upgraded attributes of older videos."""
    _require_kept(before, after)
    older = {_key(VIDEO.key(videoId=video_id)) for video_id in sample.older}
    for key, item in after.items():
        if key not in before:
            raise DataLost(f"The item {key} was not expected.")
        changed = {name for name in {*item, *before[key]} if item.get(name) != before[key].get(name)}
        if key in older:
            _require(f"the schema version of {key}", {"N": str(SCHEMA_VERSION)}, item["schemaVersion"])
            changed -= REWRITTEN
        if changed:
            raise DataLost(f"The item {key} has changed in {', '.join(sorted(changed))}.")


def _require_kept(before: Snapshot, after: Snapshot) -> None:
    lost = sorted(before.keys() - after.keys())
    if lost:
        raise DataLost(f"{len(lost)} items are lost, such as {lost[0]}.")
