"""Title page of a video: its document, its localised title, and its related items."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from shared.aws.expressions import Expression
from shared.core import regions
from shared.core.attributes import Item, decode_item
from shared.core.caller import Caller
from shared.core.position import Page, Position
from shared.processing.job_states import document as job_document
from shared.processing.job_states import owned_jobs
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
from shared.videos.access import require_visible
from shared.videos.documents import document_for
from shared.videos.store import FetchedVideo, VideoStore
from shared.web.paging import Paginator
from shared.web.responses import fit_documents

MAX_RANGES = 10
"""Maximum number of languages read from an Accept-Language header."""
LARGEST_SECTION = 1000
"""Maximum number of items that a Query for a title page reads. A Query also ends after 1 MB, and may then read fewer
items."""
LARGEST_LIST = 1_500_000
"""Maximum size in bytes of the list of credits on a title page, and of the list of releases.

A response with both lists and a video of 400 KB fits Lambda's limit.
"""
MAX_RELEASES = 100
"""Maximum number of releases that are read to find a localised title. They have at most 440 KB."""

_LISTED = {"credits": CREDIT, "jobs": JOB, "releases": RELEASE}
_RANGE = re.compile(
    r"\s*([A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*)\s*(?:;\s*[Qq]\s*=\s*(1(?:\.0{0,3})?|0(?:\.[0-9]{0,3})?)\s*)?"
)


class Locale(NamedTuple):
    """Locale of a reader: a region, and language ranges in order of preference."""

    region: str | None = None
    languages: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.region or self.languages)


class _Release(NamedTuple):
    region: str
    language: str | None
    title: str


def accepted_languages(header: str | None) -> tuple[str, ...]:
    """Return the language ranges of an Accept-Language header in order of preference (RFC 9110, section 12.5.4).

    Skips invalid ranges, `*` and ranges with q=0, because none of them selects a title.
    """
    weighed = []
    for text in (header or "").split(",", MAX_RANGES)[:MAX_RANGES]:
        matched = _RANGE.fullmatch(text)
        weight = float(matched[2] or 1) if matched else 0
        if matched and weight > 0:
            weighed.append((weight, regions.language(matched[1])))
    return tuple(dict.fromkeys(tag for _, tag in sorted(weighed, key=lambda pair: -pair[0])))


def local_title(document: Item, releases: Iterable[Item], locale: Locale) -> dict[str, Any]:
    """Return the title that fits a locale best: a map with `title` and `match`, and with `region` and `language` if
    these are known.

    `match` is the part of the locale that fits: `region-and-language`, `region` or `language`. It is `original` if no
    part fits. `releases` must be sorted by region and language, as the table returns them.
    """
    titles = [
        _Release(release["region"], release.get("language"), release["titles"][0]["title"]) for release in releases
    ]
    if locale.region:
        of_region = [release for release in titles if release.region == locale.region]
        for language in locale.languages:
            if release := _in_language(of_region, language):
                return _local(release, "region-and-language")
        if of_region:
            return _local(_without_language(of_region) or of_region[0], "region")
    for language in locale.languages:
        # A tag such as en-NZ also names the reader's region.
        of_region = [release for release in titles if release.region == _region_in(language)]
        if release := _in_language(of_region, language):
            return _local(release, "region-and-language")
        if release := _without_language(of_region):
            return _local(release, "region")
        if _in_language([_original(document)], language):
            break
        if release := _in_language(titles, language):
            return _local(release, "language")
    return _local(_original(document), "original")


class TitlePage:
    """Reader of a video's document with its localised title and requested sections, such as credits.

    Methods raise the errors of shared.core.errors.
    """

    def __init__(self, videos: VideoStore, pages: Paginator) -> None:
        self.videos = videos
        self.table = videos.table
        self.pages = pages

    def read(self, video_id: str, caller: Caller, now: int, fields: Sequence[str], locale: Locale) -> FetchedVideo:
        """Return a video's document with these fields, or with all fields if `fields` is empty.

        The document has the title in the locale if `fields` contains LOCAL_TITLE, or if `fields` is empty and `locale`
        is not empty."""
        localised = LOCAL_TITLE in fields if fields else bool(locale)
        if not localised:
            return self.videos.read(video_id, caller, now, fields)
        needed = [name for name in fields if name != LOCAL_TITLE]
        # The local title falls back to these fields.
        fetched = self.videos.read(video_id, caller, now, [*needed, "title", "language"] if fields else ())
        document = fetched.document
        document[LOCAL_TITLE] = local_title(document, self._releases(video_id, locale), locale)
        return fetched._replace(document={name: document[name] for name in fields or document if name in document})

    def read_with(
        self, video_id: str, caller: Caller, now: int, sections: Sequence[str], locale: Locale
    ) -> FetchedVideo:
        """Return the video's document with the given sections as `included`. If the locale is not empty, the document
        has the title in this locale.

        `sections` are names in shared.queries.SECTIONS. Costs one Query for all sections, a GetItem for the view
        counter, and a BatchGetItem if the counter is sharded. The title costs up to two Queries, unless `releases` is
        complete in the response.

        If the Query stops at LARGEST_SECTION items or 1 MB, each remaining section costs a separate Query. The cursor
        of a section leads to its further items.
        """
        partition = _VideoPartition(self.videos, video_id)
        video = require_visible(partition.begin(sections), caller, now)
        counter = self.table.get(VIEW_COUNTER.key(videoId=video_id, shard=0))
        document = document_for(caller, video, self.videos.counters.counts({video_id: counter})[video_id])
        releases = partition.section("releases") if "releases" in sections else None
        if locale:
            has_all = releases is not None and releases.resume is None
            candidates = releases.items if releases and has_all else self._releases(video_id, locale)
            document[LOCAL_TITLE] = local_title(document, candidates, locale)

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
        return FetchedVideo(document | {"included": included}, video["version"], caller.owns(video["userId"]))

    def _releases(self, video_id: str, locale: Locale) -> list[Item]:
        """Return the releases that may have the localised title.

        These are the releases of the locale's region. If there are none, but the locale has languages, these are the
        video's first releases.
        """
        releases: list[Item] = []
        if locale.region:
            releases = children_of(self.table, video_id, region_prefix(locale.region), limit=MAX_RELEASES).items
        if locale.languages and not releases:
            releases = children_of(self.table, video_id, RELEASE.sort_prefix, limit=MAX_RELEASES).items
        return releases

    def _list(
        self,
        children: Page[Item],
        document: Callable[[Item], dict[str, Any]],
        caller: Caller,
        now: int,
        listing: tuple[object, ...],
    ) -> dict[str, Any]:
        """Return a map with `items` and `nextCursor`: a page of documents in key order, and the cursor of the next
        page.

        The documents fit into LARGEST_LIST bytes.
        """
        documents = [document(item) for item in children.items]
        count = len(fit_documents(documents, LARGEST_LIST))
        resume = children.resume if count == len(documents) else Position(0, children.items[count - 1][SORT_KEY])
        return {"items": documents[:count], "nextCursor": self.pages.cursor(caller, now, resume, *listing)}


class _VideoPartition:
    """Reader of a video and its related items in key order, up to the last requested section."""

    def __init__(self, videos: VideoStore, video_id: str) -> None:
        self._table = videos.table
        self._video_id = video_id
        self._items: list[Item] = []
        self._stopped: str | None = None
        """Sort key at which the Query stopped; `None` if the Query read all requested sections."""

    def begin(self, sections: Iterable[str]) -> Item | None:
        """Read the video and the items of these sections, and return the video; `None` if it does not exist.

        Sends one Query, which may end before the last section.
        """
        # The prefix of each section's sort keys ends with `#`, and `$` is the next character.
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
        """Return the video's item of this entity; `None` if there is none. The entity must have at most one item per
        video."""
        return next((item for item in self._items if item[SORT_KEY] == entity.sk), None)

    def section(self, name: str) -> Page[Item]:
        """Return the first page of a section's items, sorted by key.

        Sends another Query if the Query of `begin` did not reach the section. Also sends another Query if the Query of
        `begin` stopped within the section `jobs`, because this section has no cursor.
        """
        prefix = _LISTED[name].sort_prefix
        is_stopped_here = self._stopped is not None and self._stopped.startswith(prefix)
        # A video has few jobs, and the section of jobs has no cursor for further ones.
        if self._stopped is not None and (self._stopped < prefix or (is_stopped_here and name == "jobs")):
            return children_of(self._table, self._video_id, prefix, limit=LARGEST_SECTION)
        items = [item for item in self._items if item[SORT_KEY].startswith(prefix)]
        return Page(items, Position(0, self._stopped) if is_stopped_here and self._stopped else None)


def _in_language(releases: Sequence[_Release], language_tag: str) -> _Release | None:
    """Return the release in a language, or `None`. Tries lookup (RFC 4647, section 3.4), then basic filtering (section
    3.3.1)."""
    by_language: dict[str, _Release] = {}
    for release in releases:
        if release.language:
            by_language.setdefault(release.language.lower(), release)
    language_tag = language_tag.lower()
    parts = language_tag.split("-")
    while parts:
        if match := by_language.get("-".join(parts)):
            return match
        parts.pop()
        if parts and len(parts[-1]) == 1:  # a tag must not end in the singleton of an extension
            parts.pop()
    longer = (release for tag, release in sorted(by_language.items()) if tag.startswith(f"{language_tag}-"))
    return next(longer, None)


def _without_language(releases: Sequence[_Release]) -> _Release | None:
    return next((release for release in releases if release.language is None), None)


def _region_in(tag: str) -> str | None:
    """Return the region in a language tag, such as `NZ` in `en-NZ`; `None` if the tag has no region."""
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
