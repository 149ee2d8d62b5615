"""The entries that lead to a video: of its tags, series, credits and releases; and its schedule.

They stand in RelationIndex only while the video is listed, so a page of a tag, person or region costs the same however
many videos others hide. Tags and series move in the transaction that lists or hides the video, where the function's role
may write them. Everything else, of which there may be thousands, is moved by the stream some seconds later
(shared/relations/mover.py); lists look each video up, so a late entry shows nothing to anybody.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from shared.aws.dynamodb import Key
from shared.aws.expressions import Expression
from shared.aws.records import at_version, key_of
from shared.core.attributes import Item
from shared.core.caller import done_for, request_of
from shared.core.limits import LAST_EPISODE, LAST_SEASON
from shared.schema import (
    CREDIT,
    EPISODE,
    RELEASE,
    SCHEDULE,
    SCHEDULED,
    SCHEMA_VERSION,
    SORT_KEY,
    TAG,
    person_relation,
    region_relation,
    series_relation,
    shard_of,
    tag_relation,
)
from shared.videos.video import folded_tags, is_listed, listing, upgraded

OWN_ENTRIES = (EPISODE, TAG)
"""The entities of the entries that are written with their video."""
ENTRIES = (CREDIT, RELEASE, SCHEDULE, *OWN_ENTRIES)
"""The entities of all entries."""
NO_LANGUAGE = "-"
"""Stands in the key of a release for no language."""


class Place(NamedTuple):
    """What decides where a video's entries stand, and when they move by themselves."""

    year: int = 0
    listed: bool = False
    publish_at: int | None = None
    expires_at: int | None = None


def place_of(video: Item | None) -> Place:
    """The place of a video as it is stored; that of no video is the default."""
    if video is None:
        return Place()
    return Place(year_of(video), is_listed(video), video.get("publishAt"), video.get("expiresAt"))


def year_of(video: Mapping[str, Any] | None) -> int:
    """The release year by which a video's credits are sorted; 0 without one."""
    return int(video.get("releaseYear", 0)) if video else 0


def as_read(video: Item) -> Expression:
    """The condition of a change of a video: nobody has changed it, nor have the lists taken it up or dropped it."""
    return at_version(video) & Expression.of("#rel = :stood", stood=video["rel"])


def placed(entry: Item, video: Mapping[str, Any]) -> Item:
    """A credit or release as it stands while its video is like this.

    Of the video are read `videoId`, `createdAt`, `releaseYear` and `rel`. Only `rel` comes and goes: an item without
    one of an index's key attributes is not in the index.
    """
    video_id = video["videoId"]
    if "personId" in entry:
        relation = person_relation(entry["personId"])
        place = {"relShard": 0, "relSort": year_of(video), "relId": video_id}
    else:
        relation = region_relation(entry["region"])
        language = entry.get("language", NO_LANGUAGE)
        place = {"relShard": shard_of(video_id), "relSort": video["createdAt"], "relId": f"{video_id}#{language}"}
    kept = {name: value for name, value in entry.items() if name != "rel"}
    return kept | place | ({"rel": relation} if is_listed(video) else {})


def tag_entries(video: Item) -> list[Item]:
    """The entries of a video's tags, in the order of the tags; none unless it is listed."""
    return [_signed(entry, video) for entry in _tags(video)] if is_listed(video) else []


def own_entries(video: Item) -> list[Item]:
    """The entries that are written with the video: of its tags and its series."""
    return [_signed(entry, video) for entry in _own(video).values()]


def _own(video: Item) -> dict[str, Item]:
    """Entries of `own_entries` by sort key, without the attributes that `_signed` adds."""
    entries = [*_tags(video), *_episodes(video)] if is_listed(video) else []
    return {entry[SORT_KEY]: entry for entry in entries}


def _tags(video: Item) -> list[Item]:
    video_id, created_at = video["videoId"], video["createdAt"]
    return [
        {**TAG.key(videoId=video_id, tag=tag), "tag": tag, "rel": tag_relation(tag), "relSort": created_at}
        for tag in sorted(folded_tags(video))
    ]


def _episodes(video: Item) -> list[Item]:
    """The entry by which a series leads to its episode, if the video is one."""
    if "seriesId" not in video:
        return []
    relation = series_relation(video["seriesId"], video["userId"])
    key = EPISODE.key(videoId=video["videoId"])
    return [{**key, "rel": relation, "relShard": 0, "relSort": episode_place(video)}]


def episode_place(video: Mapping[str, Any]) -> int:
    """Where an episode stands in its series: by season and number; without a number after those of its season, without
    a season after all."""
    return season_start(video.get("season", LAST_SEASON + 1)) + int(video.get("episode", LAST_EPISODE + 1))


def season_start(season: int) -> int:
    """The place of the first episode that a season can have."""
    return int(season) * (LAST_EPISODE + 2)


def entry_moves(old: Item, new: Item) -> tuple[list[Item], list[Key]]:
    """The entries to put and the keys of entries to remove when `new` takes the place of `old`."""
    before, after = _own(old), _own(new)
    come = [
        _signed(entry, new) for sk, entry in after.items() if sk not in before or not stand_alike(before[sk], entry)
    ]
    return come, [key_of(entry) for sk, entry in before.items() if sk not in after]


def stand_alike(one: Item, other: Item) -> bool:
    """Whether two entries of one key stand in the same place of the index."""
    return all(one.get(name) == other.get(name) for name in ("rel", "relSort"))


def settled(video: Item, beside: Iterable[Item], now: int) -> dict[str, Item]:
    """The video, and what lies beside it, as they should stand at this second, by sort key.

    `beside` are its credits and releases; its other entries are all that there should be.
    """
    here = upgraded(video) | listing(video, now)
    due = schedule(here, now)
    items = [here, *(placed(entry, here) for entry in beside), *own_entries(here), *([due] if due else [])]
    return {item[SORT_KEY]: item for item in items}


def next_move(video: Item, now: int) -> int | None:
    """The next second at which the lists take a video up or drop it because of its times; None without one."""
    times = (video.get("publishAt"), video.get("expiresAt"))
    return min((int(time) for time in times if time is not None and time > now), default=None)


def schedule(video: Item, now: int) -> Item | None:
    """The entry by which the sweeper finds a video when its next move is due; None without one."""
    due = next_move(video, now)
    if due is None:
        return None
    entry = {**SCHEDULE.key(videoId=video["videoId"]), "rel": SCHEDULED, "relSort": due}
    return _signed(entry, video)


def _signed(entry: Item, video: Item) -> Item:
    """An entry of the video's own, as written with it."""
    whole = {
        "videoId": video["videoId"],
        "relShard": shard_of(video["videoId"]),
        "relId": video["videoId"],
        "schemaVersion": SCHEMA_VERSION,
        "updatedAt": video["updatedAt"],
        "updatedBy": video["updatedBy"],
    }
    return done_for(whole | entry, request_of(video))
