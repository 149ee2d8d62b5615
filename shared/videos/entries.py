"""Index entries of a video in RelationIndex: its tags, series, folder, credits, releases and schedule.

The entries of the folder and the schedule are always in RelationIndex. All other entries are there only while the video
is listed. The cost of a page of a tag, person or region therefore does not depend on the number of hidden videos.

The transaction that lists or unlists a video also writes its tag, series and folder entries, if the function's role
allows it. The stream consumer updates all other entries, possibly thousands, some seconds later
(shared/relations/entry_updates.py). Lists check each video, so a stale entry never exposes a hidden video.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from shared.aws.dynamodb import Key
from shared.aws.expressions import Expression
from shared.aws.records import at_version, key_of
from shared.core.attributes import Item, Value
from shared.core.caller import request_id_of, with_request_id
from shared.core.folders import entry_id
from shared.core.limits import LAST_EPISODE, LAST_SEASON
from shared.schema import (
    CREDIT,
    EPISODE,
    FOLDER,
    RELEASE,
    SCHEDULE,
    SCHEDULED,
    SCHEMA_VERSION,
    SORT_KEY,
    TAG,
    folders_relation,
    person_relation,
    region_relation,
    series_relation,
    shard_of,
    tag_relation,
)
from shared.videos.video import is_listed, listing, normalised_tags, to_current_schema

if TYPE_CHECKING:
    from shared.entities import AnyVideo, Video

OWN_ENTRIES = (EPISODE, FOLDER, TAG)
"""Entities of the entries that are written in the same transaction as their video. The stream consumer writes the other
entries later."""
ENTRIES = (CREDIT, RELEASE, SCHEDULE, *OWN_ENTRIES)
"""Entities of all index entries of a video."""
NO_LANGUAGE = "-"
"""Placeholder for the language in the key of a release that has no language."""


class IndexPosition(NamedTuple):
    """Attributes of a video that determine its index entries.

    `publish_at` and `expires_at` are the times, in epoch seconds, at which the service lists and unlists the video.
    """

    year: int = 0
    listed: bool = False
    publish_at: int | None = None
    expires_at: int | None = None
    category: str | None = None


def index_position(video: "AnyVideo | None") -> IndexPosition:
    """Return the index position of a stored video. For `None`, return the position of an unlisted video."""
    if video is None:
        return IndexPosition()
    category = _category_position(video).get("category")
    return IndexPosition(year_of(video), is_listed(video), video.get("publishAt"), video.get("expiresAt"), category)


def year_of(video: "AnyVideo | None") -> int:
    """Return the release year by which a video's credits are sorted; 0 if the video has none."""
    return int(video.get("releaseYear", 0)) if video else 0


def as_read(video: "AnyVideo") -> Expression:
    """Return the condition that the stored video still has the version and the `rel` of `video`, as the caller read
    it."""
    return at_version(video) & Expression.of("#rel = :stood", stood=video["rel"])


def with_index_position(entry: Item, video: "AnyVideo") -> Item:
    """Return a credit or release with the index attributes that match its video.

    Reads `videoId`, `createdAt`, `releaseYear` and `rel` of the video. If the video is unlisted, the entry has no
    `rel`. DynamoDB then omits the entry from the index, because an index contains only items that have all of the
    index's key attributes.
    """
    video_id = video["videoId"]
    if "personId" in entry:
        relation = person_relation(entry["personId"])
        position = {"relShard": 0, "relSort": year_of(video), "relId": video_id}
    else:
        relation = region_relation(entry["region"])
        language = entry.get("language", NO_LANGUAGE)
        position = {"relShard": shard_of(video_id), "relSort": video["createdAt"], "relId": f"{video_id}#{language}"}
    unlisted = {name: value for name, value in entry.items() if name != "rel"}
    return unlisted | position | ({"rel": relation} if is_listed(video) else {})


def with_list_position(entry: Item, video: "AnyVideo") -> Item:
    """Return a sort entry with the owner and the category of its video. Lists by owner or category then contain the
    entry.

    Reads `videoId`, `userId`, `category` and `rel` of the video. The entry has a category only while the video is
    listed.
    """
    unlisted = {name: value for name, value in entry.items() if name not in ("category", "categoryShard")}
    return unlisted | {"userId": video["userId"]} | _category_position(video)


def _category_position(video: "AnyVideo") -> Item:
    """Return the attributes that place a video in a partition of the category indexes. Empty if the video is not
    listed, or has no category."""
    if "category" not in video or not is_listed(video):
        return {}
    return {"category": video["category"], "categoryShard": shard_of(video["videoId"])}


def tag_entries(video: "AnyVideo") -> list[Item]:
    """Return the index entries of a video's tags, sorted by tag. Empty if the video is not listed."""
    return [_signed(entry, video) for entry in _tags(video)] if is_listed(video) else []


def own_entries(video: "AnyVideo") -> list[Item]:
    """Return the entries that are written in the same transaction as the video: its tag entries, its series entry and its
    folder entry."""
    return [_signed(entry, video) for entry in _own(video).values()]


def _own(video: "AnyVideo") -> dict[str, Item]:
    """Return the entries of `own_entries`, by sort key, before `_signed` adds the common attributes."""
    entries = [*_tags(video), *_episodes(video)] if is_listed(video) else []
    entries += _folders(video)
    return {entry[SORT_KEY]: entry for entry in entries}


def _tags(video: "AnyVideo") -> list[Item]:
    video_id, created_at = video["videoId"], video["createdAt"]
    return [
        {**TAG.key(videoId=video_id, tag=tag), "tag": tag, "rel": tag_relation(tag), "relSort": created_at}
        for tag in sorted(normalised_tags(video))
    ]


def _episodes(video: "AnyVideo") -> list[Item]:
    """Return a list with the entry of the video in its series. The list is empty if the video has no series."""
    if "seriesId" not in video:
        return []
    relation = series_relation(video["seriesId"], video["userId"])
    key = EPISODE.key(videoId=video["videoId"])
    return [{**key, "rel": relation, "relShard": 0, "relSort": episode_position(video)}]


def _folders(video: "AnyVideo") -> list[Item]:
    """Return a list with the entry of the video in its folder. The list is empty if the video is in no folder, or is
    deleted."""
    if "folder" not in video or video["status"] == "deleted":
        return []
    entry = {"rel": folders_relation(video["userId"]), "relShard": 0, "relSort": 0, "relId": entry_id(video)}
    return [{**FOLDER.key(videoId=video["videoId"]), **entry}]


def episode_position(video: "AnyVideo") -> int:
    """Return the number by which an episode is sorted in its series: by season, then by episode number.

    An episode without a number sorts last in its season. An episode without a season sorts after all seasons.
    """
    return season_start(video.get("season", LAST_SEASON + 1)) + int(video.get("episode", LAST_EPISODE + 1))


def season_start(season: int) -> int:
    """Return the lowest sort position that an episode of a season can have."""
    return int(season) * (LAST_EPISODE + 2)


def entry_moves(old: "AnyVideo", new: "AnyVideo") -> tuple[list[Item], list[Key]]:
    """Return the tag, series and folder entries to put, and the keys of the entries to delete, when the video `new` replaces
    `old`."""
    before, after = _own(old), _own(new)
    added = [
        _signed(entry, new)
        for sk, entry in after.items()
        if sk not in before or not have_same_position(before[sk], entry)
    ]
    return added, [key_of(entry) for sk, entry in before.items() if sk not in after]


def have_same_position(one: Item, other: Item) -> bool:
    """Return whether two versions of an entry have the same position in RelationIndex. Both versions must have the same
    key."""
    return all(one.get(name) == other.get(name) for name in ("rel", "relSort", "relId"))


def settled(video: "Video", related: Iterable[Item], now: int) -> dict[str, Mapping[str, Value]]:
    """Return the item of a video, and all its index entries, as they should be stored at `now`. Maps sort keys to
    items.

    `related` are the video's stored credits and releases. All other entries are derived from the video.
    """
    current: Video = {**to_current_schema(video), **listing(video, now)}
    due = schedule(current, now)
    items: list[Mapping[str, Value]] = [
        current,
        *(with_index_position(entry, current) for entry in related),
        *own_entries(current),
        *([due] if due else []),
    ]
    return {item[SORT_KEY]: item for item in items}


def next_move(video: "AnyVideo", now: int) -> int | None:
    """Return the next time, in epoch seconds, at which the service must list or unlist the video. `None` if there is
    none."""
    times = (video.get("publishAt"), video.get("expiresAt"))
    return min((int(time) for time in times if time is not None and time > now), default=None)


def schedule(video: "AnyVideo", now: int) -> Item | None:
    """Return the schedule entry of a video. `None` if the service will not have to list or unlist the video.

    The sweeper uses the entry to find the video when it has to be listed or unlisted.
    """
    due = next_move(video, now)
    if due is None:
        return None
    entry = {**SCHEDULE.key(videoId=video["videoId"]), "rel": SCHEDULED, "relSort": due}
    return _signed(entry, video)


def _signed(entry: Item, video: "AnyVideo") -> Item:
    """Return a tag, series, folder or schedule entry with the index attributes and audit fields that these entries have in
    common."""
    whole = {
        "videoId": video["videoId"],
        "relShard": shard_of(video["videoId"]),
        "relId": video["videoId"],
        "schemaVersion": SCHEMA_VERSION,
        "updatedAt": video["updatedAt"],
        "updatedBy": video["updatedBy"],
    }
    return with_request_id(whole | entry, request_id_of(video))
