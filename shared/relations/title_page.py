"""The page of one video: its document, its title where the reader is, and what else belongs to it."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from shared.aws.expressions import Expression
from shared.core import regions
from shared.core.attributes import Item, decode_item
from shared.core.caller import Caller
from shared.core.position import Page, Position
from shared.films.job import document as job_document
from shared.films.job import owned_jobs
from shared.queries import LOCAL_TITLE
from shared.relations.children import children_of, region_prefix
from shared.relations.credits import (
    credit_document,
    credits_list,
    release_document,
    releases_list,
)
from shared.relations.ratings import ratings_document
from shared.schema import CREDIT, JOB, PARTITION_KEY, RATING_TOTALS, RELEASE, SORT_KEY, VIDEO, VIEW_COUNTER, Entity
from shared.videos.access import seen_by
from shared.videos.catalogue import Fetched, VideoStore
from shared.videos.documents import document_for
from shared.web.answers import fitting
from shared.web.paging import Pages

MOST_RANGES = 10
"""Languages of an Accept-Language header that are read."""
LARGEST_SECTION = 1000
"""Items that one Query reads for a title page; 1 MB ends it earlier."""
LARGEST_LIST = 1_500_000
"""Bytes of credits, and of releases, on a title page: both and a video of 400 KB fit what Lambda answers with."""
MOST_RELEASES = 100
"""Releases that are read to find a local title: 440 KB, were they all as large as can be."""

_LISTED = {"credits": CREDIT, "jobs": JOB, "releases": RELEASE}
_RANGE = re.compile(
    r"\s*([A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*)\s*(?:;\s*[Qq]\s*=\s*(1(?:\.0{0,3})?|0(?:\.[0-9]{0,3})?)\s*)?"
)


class Place(NamedTuple):
    """Where a reader is: a region, and language ranges, the most wanted first."""

    region: str | None = None
    languages: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.region or self.languages)


class _Release(NamedTuple):
    region: str
    language: str | None
    title: str


def accepted_languages(header: str | None) -> tuple[str, ...]:
    """The ranges of an Accept-Language header, the most wanted first (RFC 9110, section 12.5.4).

    What is not a range is passed over, as are `*` and what is not wanted at all (q=0): none of them asks for a title.
    """
    weighed = []
    for text in (header or "").split(",", MOST_RANGES)[:MOST_RANGES]:
        matched = _RANGE.fullmatch(text)
        weight = float(matched[2] or 1) if matched else 0
        if matched and weight > 0:
            weighed.append((weight, regions.language(matched[1])))
    return tuple(dict.fromkeys(tag for _, tag in sorted(weighed, key=lambda pair: -pair[0])))


def local_title(document: Item, releases: Iterable[Item], place: Place) -> dict[str, Any]:
    """The title that fits a place best: `title`, its `region` and `language` if it has any, and how well it fits.

    `match` is `region-and-language`, `region`, `language` or `original`. `releases` are in the order of region and
    language, as the table has them.
    """
    known = [
        _Release(release["region"], release.get("language"), release["titles"][0]["title"]) for release in releases
    ]
    if place.region:
        of_region = [release for release in known if release.region == place.region]
        for language in place.languages:
            if release := _in_language(of_region, language):
                return _local(release, "region-and-language")
        if of_region:
            return _local(_without_language(of_region) or of_region[0], "region")
    for language in place.languages:
        # A tag such as en-NZ says where its reader is, too.
        of_region = [release for release in known if release.region == _region_in(language)]
        if release := _in_language(of_region, language):
            return _local(release, "region-and-language")
        if release := _without_language(of_region):
            return _local(release, "region")
        if _in_language([_original(document)], language):
            break
        if release := _in_language(known, language):
            return _local(release, "language")
    return _local(_original(document), "original")


class TitlePage:
    """Reads a video with what was asked for. Methods raise the errors of shared.core.errors."""

    def __init__(self, videos: VideoStore, pages: Pages) -> None:
        self.videos = videos
        self.table = videos.table
        self.pages = pages

    def read(self, video_id: str, caller: Caller, now: int, fields: Sequence[str], place: Place) -> Fetched:
        """The document with its title in a place; only some fields, if any are named."""
        localised = LOCAL_TITLE in fields if fields else bool(place)
        if not localised:
            return self.videos.read(video_id, caller, now, fields)
        needed = [name for name in fields if name != LOCAL_TITLE]
        # What stands in for a local title must be read with it.
        fetched = self.videos.read(video_id, caller, now, [*needed, "title", "language"] if fields else ())
        document = fetched.document
        document[LOCAL_TITLE] = local_title(document, self._releases(video_id, place), place)
        return fetched._replace(document={name: document[name] for name in fields or document if name in document})

    def read_with(self, video_id: str, caller: Caller, now: int, sections: Sequence[str], place: Place) -> Fetched:
        """The document with these sections (shared.queries.SECTIONS) as `included`, and its title in a place.

        One Query for all of them, and a GetItem for the counter, with a BatchGetItem if it is spread. When there is more
        than LARGEST_SECTION items, or 1 MB, what comes after it has a Query of its own. What is not read then, or is more
        than LARGEST_LIST, is left to the lists that the sections' cursors belong to.
        """
        partition = _Partition(self.videos, video_id)
        video = seen_by(partition.begin(sections), caller, now)
        counter = self.table.get(VIEW_COUNTER.key(videoId=video_id, shard=0))
        document = document_for(caller, video, self.videos.counters.counts({video_id: counter})[video_id])
        releases = partition.section("releases") if "releases" in sections else None
        if place:
            has_all = releases is not None and releases.resume is None
            known = releases.items if releases and has_all else self._releases(video_id, place)
            document[LOCAL_TITLE] = local_title(document, known, place)

        included: dict[str, Any] = {}
        if "credits" in sections:
            cast = partition.section("credits")
            included["credits"] = self._list(cast, credit_document, caller, now, credits_list(video_id))
            included["credits"]["items"].sort(key=lambda credit: (credit["ordering"], credit["personId"]))
        if releases is not None:
            included["releases"] = self._list(releases, release_document, caller, now, releases_list(video_id))
        if "ratings" in sections:
            totals: Any = partition.item(RATING_TOTALS)
            included["ratings"] = ratings_document(totals)
        if "tags" in sections:
            included["tags"] = document.get("tags", [])
        if "jobs" in sections and caller.owns(video["userId"]):
            jobs: list[Any] = partition.section("jobs").items
            included["jobs"] = [job_document(job) for job in owned_jobs(video, jobs)]
        return Fetched(document | {"included": included}, video["version"], caller.owns(video["userId"]))

    def _releases(self, video_id: str, place: Place) -> list[Item]:
        """The releases that may have the title: the region's, or else the first ones of all."""
        releases: list[Item] = []
        if place.region:
            releases = children_of(self.table, video_id, region_prefix(place.region), limit=MOST_RELEASES).items
        if place.languages and not releases:
            releases = children_of(self.table, video_id, RELEASE.sort_prefix, limit=MOST_RELEASES).items
        return releases

    def _list(
        self,
        children: Page[Item],
        document: Callable[[Item], dict[str, Any]],
        caller: Caller,
        now: int,
        listing: tuple[object, ...],
    ) -> dict[str, Any]:
        """As many of the children as fit, in the order of their keys, and the cursor that leads on."""
        documents = [document(item) for item in children.items]
        count = len(fitting(documents, LARGEST_LIST))
        resume = children.resume if count == len(documents) else Position(0, children.items[count - 1][SORT_KEY])
        return {"items": documents[:count], "nextCursor": self.pages.cursor(caller, now, resume, *listing)}


class _Partition:
    """What lies beside a video, read in the order of its keys as far as it is wanted."""

    def __init__(self, videos: VideoStore, video_id: str) -> None:
        self._table = videos.table
        self._video_id = video_id
        self._items: list[Item] = []
        self._stopped: str | None = None
        """The sort key at which reading broke off."""

    def begin(self, sections: Iterable[str]) -> Item | None:
        """Read on until these sections are there, as far as one Query goes; returns the video."""
        # `$` is the character after `#`, with which every section's keys go on.
        ends = [f"{_LISTED[name].sort_prefix[:-1]}$" for name in sections if name in _LISTED]
        key, last = VIDEO.key(videoId=self._video_id), max([RATING_TOTALS.sk, *ends])
        condition = Expression.of(
            "#pk = :pk AND #sk BETWEEN :first AND :last", pk=key[PARTITION_KEY], first=key[SORT_KEY], last=last
        )
        page = self._table.query(index=None, condition=condition, limit=LARGEST_SECTION)
        self._items = page.items
        self._stopped = decode_item(page.last_key)[SORT_KEY] if page.last_key else None
        return self.item(VIDEO)

    def item(self, entity: Entity) -> Item | None:
        """The one item of an entity; None when there is none."""
        return next((item for item in self._items if item[SORT_KEY] == entity.sk), None)

    def section(self, name: str) -> Page[Item]:
        """The items of a section, by their keys: those that were read, or else its own first page."""
        prefix = _LISTED[name].sort_prefix
        cut = self._stopped is not None and self._stopped.startswith(prefix)
        # Jobs are few, and their list has no cursor that could lead on to the others.
        if self._stopped is not None and (self._stopped < prefix or (cut and name == "jobs")):
            return children_of(self._table, self._video_id, prefix, limit=LARGEST_SECTION)
        items = [item for item in self._items if item[SORT_KEY].startswith(prefix)]
        return Page(items, Position(0, self._stopped) if cut and self._stopped else None)


def _in_language(releases: Sequence[_Release], wanted: str) -> _Release | None:
    """The release in a language: by lookup (RFC 4647, section 3.4), or else by basic filtering (section 3.3.1)."""
    by_language: dict[str, _Release] = {}
    for release in releases:
        if release.language:
            by_language.setdefault(release.language.lower(), release)
    wanted = wanted.lower()
    parts = wanted.split("-")
    while parts:
        if match := by_language.get("-".join(parts)):
            return match
        parts.pop()
        if parts and len(parts[-1]) == 1:  # nothing ends in the singleton of an extension
            parts.pop()
    longer = (release for tag, release in sorted(by_language.items()) if tag.startswith(f"{wanted}-"))
    return next(longer, None)


def _without_language(releases: Sequence[_Release]) -> _Release | None:
    return next((release for release in releases if release.language is None), None)


def _region_in(tag: str) -> str | None:
    """The region that a language tag names."""
    for part in tag.split("-")[1:]:
        if len(part) == 1:
            return None
        if len(part) == 2:
            return regions.region(part)
    return None


def _original(document: Item) -> _Release:
    return _Release("", document.get("language"), document["title"])


def _local(release: _Release, match: str) -> dict[str, Any]:
    parts = {"title": release.title, "region": release.region, "language": release.language, "match": match}
    return {name: value for name, value in parts.items() if value}
