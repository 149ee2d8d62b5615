"""Lists read page by page to their end: every visible video once, in exact order, and in full pages."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from local.testbed.harness import NOW, Api, Reply, make_api
from shared.aws import listing, pages
from shared.schema import SHARDS, shard_of
from tests.integration.conftest import NewTable

SIZE = 360
STATUSES = ("uploaded", "processing", "ready", "failed", "deleted")
TIMES = [NOW - 1000 + 10 * n for n in range(12)]
"""Creation times of the videos. They are few, so that many videos share a second."""

Video = dict[str, Any]
Keep = Callable[[Video], bool]


def published(video: Video) -> bool:
    """Return whether a video is visible to everyone. This is computed independently of the service."""
    return (
        (video["status"], video["visibility"]) == ("ready", "public")
        and video.get("publishAt", NOW) <= NOW
        and video.get("expiresAt", NOW + 1) > NOW
    )


def has(name: str, value: Any, video: Video) -> bool:
    return bool(video.get(name) == value)


def between(start: int, end: int, keep: Keep) -> Keep:
    """Restrict a list to videos with `start <= createdAt < end`."""
    return lambda video: keep(video) and start <= video["createdAt"] < end


@dataclass(frozen=True)
class Library:
    """Table of many videos, which no test changes."""

    api: Api
    videos: Sequence[Video]

    def expected(self, keep: Keep, *, ascending: bool = False) -> list[str]:
        """Return the expected ids of a list in order."""
        positions = sorted((video["createdAt"], video["videoId"]) for video in self.videos if keep(video))
        return [video_id for _, video_id in (positions if ascending else reversed(positions))]


def random_videos(dice: random.Random) -> Iterator[Video]:
    """Yield random videos of all kinds: listed, hidden, scheduled, expired and deleted, with and without a category."""
    for _ in range(SIZE):
        video: Video = {
            "videoId": str(UUID(int=dice.getrandbits(128), version=4)),
            "userId": dice.choice(["alice", "bob", "carol"]),
            "createdAt": dice.choice(TIMES),
            "title": "A film",
            "status": dice.choice([*STATUSES, "ready", "ready", "ready"]),
            "visibility": dice.choice(["public", "public", "private"]),
        }
        choices: dict[str, list[Any]] = {
            "category": ["film", "film", "news"],
            "format": ["mp4", "mp4", "mp4", "webm"],
            "duration": [0, 999, 1000, 60_000],
            "publishAt": [NOW - 1, NOW, NOW + 1],
            "expiresAt": [NOW, NOW + 1, NOW + 100],
        }
        for name, values in choices.items():
            if dice.random() < (0.8 if name in ("category", "format", "duration") else 0.15):
                video[name] = dice.choice(values)
        if video.get("publishAt", 0) >= video.get("expiresAt", NOW + 101):
            del video["expiresAt"]  # a video cannot have both
        yield video


def load(api: Api, videos: Sequence[Video]) -> None:
    """Store the videos. Deleted videos are created first, then deleted."""
    for video in videos:
        status = "uploaded" if video["status"] == "deleted" else video["status"]
        api.create("admin", **video | {"status": status})
        if video["status"] == "deleted":
            assert api.delete(f"/v1/videos/{video['videoId']}", user="admin").status == 204


@pytest.fixture(scope="module")
def library(new_table: NewTable) -> Library:
    """Return several hundred videos of different owners, categories and statuses, in all shards."""
    api = make_api(new_table())
    videos = list(random_videos(random.Random(2)))
    assert {shard_of(video["videoId"]) for video in videos} == set(range(SHARDS))
    load(api, videos)
    return Library(api, videos)


def page(api: Api, query: dict[str, Any], cursor: str | None = None, user: str = "alice") -> Reply:
    """Read one page of a list."""
    return api.get("/v1/videos", query=urlencode(query | ({"cursor": cursor} if cursor else {})), user=user)


def walk(api: Api, query: dict[str, Any], user: str = "alice", most: int = 2 * SIZE) -> list[list[str]]:
    """Read all pages of a list as ids."""
    walked: list[list[str]] = []
    cursor = None
    while cursor or not walked:
        assert len(walked) < most, "the list has no end"
        reply = page(api, query, cursor, user)
        assert reply.status == 200, reply.body
        walked.append([item["videoId"] for item in reply.json["items"]])
        cursor = reply.json["nextCursor"]
        assert cursor is None or len(cursor) < 1024
        assert (cursor is not None) == ("link" in reply.headers)
    return walked


def flat(walked: Sequence[Sequence[str]]) -> list[str]:
    return [video_id for ids in walked for video_id in ids]


def cut(ids: Sequence[str], limit: int) -> list[list[str]]:
    """Split ids into full pages, except the last. An empty list has one empty page."""
    return [list(ids[at : at + limit]) for at in range(0, len(ids), limit)] or [[]]


# Each list: caller, query parameters, and condition for its videos.
LISTS: dict[str, tuple[str, dict[str, Any], Keep]] = {
    "the feed": ("alice", {}, published),
    "the feed, by an admin": ("admin", {}, published),
    "a category": ("alice", {"category": "film"}, lambda v: published(v) and v.get("category") == "film"),
    "a category, ready": (
        "alice",
        {"category": "news", "status": "ready"},
        lambda v: published(v) and v.get("category") == "news",
    ),
    "own videos": ("alice", {"userId": "alice"}, lambda v: v["userId"] == "alice" and v["status"] != "deleted"),
    "own deleted videos": (
        "alice",
        {"userId": "alice", "status": "deleted"},
        lambda v: v["userId"] == "alice" and v["status"] == "deleted",
    ),
    "another owner's public videos": ("alice", {"userId": "bob"}, lambda v: published(v) and v["userId"] == "bob"),
    "an owner's videos, listed by an admin": (
        "admin",
        {"userId": "bob"},
        lambda v: v["userId"] == "bob" and v["status"] != "deleted",
    ),
    **{
        f"all {status}": ("admin", {"status": status}, partial(has, "status", status))
        for status in ("ready", "failed", "deleted")
    },
    "failed ones of a category": (
        "admin",
        {"category": "film", "status": "failed"},
        lambda v: v.get("category") == "film" and v["status"] == "failed",
    ),
    "a format in the feed": ("alice", {"format": "webm"}, lambda v: published(v) and v.get("format") == "webm"),
    "durations in a category": (
        "alice",
        {"category": "film", "minDuration": 999, "maxDuration": 1000},
        lambda v: published(v) and v.get("category") == "film" and v.get("duration") in (999, 1000),
    ),
    "no duration at all": (
        "alice",
        {"userId": "alice", "maxDuration": 0},
        lambda v: v["userId"] == "alice" and v["status"] != "deleted" and v.get("duration") == 0,
    ),
    "all filters": (
        "admin",
        {"userId": "carol", "status": "ready", "category": "film", "format": "mp4", "minDuration": 1},
        lambda v: (
            (v["userId"], v["status"], v.get("category"), v.get("format")) == ("carol", "ready", "film", "mp4")
            and v.get("duration", 0) >= 1
        ),
    ),
    "nothing": ("alice", {"userId": "nobody"}, lambda _: False),
}
each_list = pytest.mark.parametrize("name", LISTS)
each_kind_of_list = pytest.mark.parametrize(
    "name",
    ["the feed", "a category", "own videos", "another owner's public videos", "all ready", "all filters", "nothing"],
)
"""Lists for each way in which the service reads the indexes."""


PART = (TIMES[4], TIMES[6])
"""Part of the time range with equal times, for walks that send a request for every one or two videos."""


@pytest.mark.parametrize(("limit", "order"), [(1, "asc"), (1, "desc"), (7, "desc"), (25, "asc"), (100, "desc")])
@each_list
def test_a_walk_finds_every_video_once_in_order_and_in_full_pages(
    library: Library, name: str, limit: int, order: str
) -> None:
    user, query, keep = LISTS[name]
    if limit == 1:
        query, keep = query | {"from": PART[0], "to": PART[1]}, between(*PART, keep)
    expected = library.expected(keep, ascending=order == "asc")
    assert walk(library.api, query | {"limit": limit, "order": order}, user) == cut(expected, limit)


@each_kind_of_list
def test_exactly_full_last_page_has_no_cursor(library: Library, name: str) -> None:
    user, query, keep = LISTS[name]
    count = len(library.expected(keep))
    for limit in {count, count // 2} & set(range(1, 101)):
        walked = walk(library.api, query | {"limit": limit}, user)
        assert [len(ids) for ids in walked][: count // limit] == [limit] * (count // limit)
        assert len(walked) == -(-count // limit)


def test_page_without_a_limit_has_25_videos(library: Library) -> None:
    user, query, keep = LISTS["the feed"]
    assert walk(library.api, query, user) == cut(library.expected(keep), 25)


@pytest.mark.parametrize("name", ["the feed", "a category", "own videos", "all failed"])
def test_time_range_includes_its_start_and_excludes_its_end(library: Library, name: str) -> None:
    user, query, keep = LISTS[name]
    for start, end in [
        (TIMES[3], TIMES[5]),
        (TIMES[3] + 1, TIMES[5] + 1),
        (TIMES[3], TIMES[3] + 1),
        (TIMES[3] + 1, TIMES[4]),
        (0, TIMES[0]),
        (TIMES[-1], TIMES[-1] + 1),
    ]:
        expected = library.expected(between(start, end, keep))
        assert flat(walk(library.api, query | {"from": start, "to": end, "limit": 100}, user)) == expected


@pytest.mark.parametrize(("budget", "order"), [(1, "desc"), (9, "asc"), (40, "desc"), (40, "asc")])
@pytest.mark.parametrize(
    "name",
    ["the feed", "a format in the feed", "durations in a category", "own deleted videos", "all ready", "nothing"],
)
def test_pages_beyond_the_read_budget_are_short_without_gaps_or_duplicates(
    library: Library, monkeypatch: pytest.MonkeyPatch, name: str, order: str, budget: int
) -> None:
    monkeypatch.setattr(listing, "merge", partial(pages.merge, budget=budget))
    user, query, keep = LISTS[name]
    if budget < 10:
        query, keep = query | {"from": PART[0], "to": PART[1]}, between(*PART, keep)

    walked = walk(library.api, query | {"limit": 20, "order": order}, user)

    assert flat(walked) == library.expected(keep, ascending=order == "asc")
    assert all(len(ids) <= 20 for ids in walked)


def test_rare_filter_has_full_pages_within_the_read_budget(api: Api) -> None:
    # One video in ten has the format. The 250 items are within the read budget of 1,000.
    videos = [
        {
            "videoId": str(UUID(int=n << 64, version=4)),
            "userId": "alice",
            "createdAt": NOW - n // 3,
            "title": "A film",
            "category": "film",
            "status": "ready",
            "visibility": "public",
            "format": "rare" if n % 10 == 0 else "common",
        }
        for n in range(250)
    ]
    load(api, videos)
    rare = Library(api, videos).expected(lambda v: v["format"] == "rare")
    for query in ({}, {"category": "film"}, {"userId": "alice"}):
        assert walk(api, query | {"format": "rare", "limit": 10}) == cut(rare, 10)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("query", [{}, {"category": "film"}, {"userId": "alice"}], ids=["feed", "category", "owner"])
def test_changes_during_paging_neither_lose_nor_repeat_other_videos(
    api: Api, query: dict[str, Any], order: str
) -> None:
    dice = random.Random(3)

    def publish() -> str:
        video_id = str(UUID(int=dice.getrandbits(128), version=4))
        return str(api.publish(videoId=video_id, createdAt=dice.choice(TIMES), category="film")["videoId"])

    staying = {publish() for _ in range(40)}
    leaving = [publish() for _ in range(12)]
    coming: set[str] = set()

    video_ids: list[str] = []
    cursor = None
    while cursor or not video_ids:
        reply = page(api, query | {"limit": 7, "order": order}, cursor)
        ids = [item["videoId"] for item in reply.json["items"]]
        video_ids += ids
        cursor = reply.json["nextCursor"]
        coming.add(publish())
        # The test also deletes the video of the cursor, whose position remains valid.
        for deleted_id in {leaving.pop() if leaving else "", ids[-1] if len(video_ids) > 30 and ids else ""} - {""}:
            assert api.delete(f"/v1/videos/{deleted_id}").status == 204
            staying.discard(deleted_id)

    assert len(video_ids) == len(set(video_ids))
    assert staying <= set(video_ids)
    positions = [(api.get(f"/v1/videos/{video_id}").json["createdAt"], video_id) for video_id in video_ids]
    assert positions == sorted(positions, reverse=order == "desc")


def cursor_of(api: Api, query: dict[str, Any], user: str = "alice") -> str:
    cursor = page(api, query, user=user).json["nextCursor"]
    assert isinstance(cursor, str)
    return cursor


@pytest.mark.parametrize("same", [{"limit": 9}, {"fields": "title"}, {"order": "desc"}, {"from": 0}], ids=str)
def test_a_cursor_continues_with_other_pages_of_the_same_list(library: Library, same: dict[str, Any]) -> None:
    # Page size and fields do not change the positions of videos.
    assert page(library.api, {"limit": 5} | same, cursor_of(library.api, {"limit": 5})).status == 200


def test_link_headers_cover_the_complete_list(library: Library) -> None:
    user, query, keep = LISTS["durations in a category"]
    reply = page(library.api, query | {"limit": 3}, user=user)
    video_ids = [item["videoId"] for item in reply.json["items"]]
    while link := reply.headers.get("link"):
        reply = library.api.get("/v1/videos", query=link.removeprefix("<?").partition(">")[0], user=user)
        video_ids += [item["videoId"] for item in reply.json["items"]]
    assert video_ids == library.expected(keep)
