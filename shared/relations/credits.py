"""Credits and releases of videos, and the videos of a person.

Both are items beside their video, and entries of RelationIndex while it is listed. They hold no copy of the video but
the year that a credit is sorted by, and its owner, who is shown what the audit trail says of them;
shared/relations/mover.py moves them when the video's place changes.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed
from shared.aws.listing import Lists, Window, hydrated, unsharded
from shared.aws.records import key_of, retry_on_conflict, stamped
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import NotFound
from shared.core.limits import LAST_YEAR
from shared.core.position import Page, Position
from shared.relations.beside import OWNER, Allows, BesideStore
from shared.relations.children import children_of, region_prefix
from shared.relations.mover import unmoved
from shared.schema import (
    CREDIT,
    RELEASE,
    VIDEO,
    person_relation,
)
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import is_published
from shared.videos.documents import SUMMARY_FIELDS, summary
from shared.videos.entries import NO_LANGUAGE, as_read, placed

if TYPE_CHECKING:
    from shared.relations.models import CreditContent, ReleaseContent

ROLE_FIELDS = ("category", "job", "characters")
TITLE_FIELDS = ("title", "types", "attributes")
"""In the order of shared/relations/models.py: DynamoDB keeps none in a map, and the same thing must have the same ETag."""
_NO_CREDIT, _NO_RELEASE = "There is no such credit.", "There is no such release."
PLACING_ATTRIBUTES = ("videoId", "userId", "createdAt", "releaseYear", "rel", "version")
"""What shared.videos.entries.placed and as_read read of a video, and whose it is."""


def credit_item(
    video: Mapping[str, Any], person_id: str, content: "CreditContent", *, caller: Caller, now: int
) -> Item:
    """A credit to write, keys and index attributes included; the video is read as by shared.videos.entries.placed."""
    item = {
        **CREDIT.key(videoId=video["videoId"], personId=person_id),
        "videoId": video["videoId"],
        "personId": person_id,
        OWNER: video["userId"],
        **content.model_dump(exclude_none=True),
    }
    return stamped(placed(item, video), caller, now, version=1)


def release_item(
    video: Mapping[str, Any],
    region: str,
    language: str | None,
    content: "ReleaseContent",
    *,
    caller: Caller,
    now: int,
) -> Item:
    """A release to write, keys and index attributes included; the video is read as by shared.videos.entries.placed.

    Region and language are spelled as shared.core.regions returns them.
    """
    video_id = video["videoId"]
    item = {
        **RELEASE.key(videoId=video_id, region=region, language=language or NO_LANGUAGE),
        "videoId": video_id,
        "region": region,
        **({"language": language} if language else {}),
        OWNER: video["userId"],
        **content.model_dump(exclude_none=True),
    }
    return stamped(placed(item, video), caller, now, version=1)


def credit_document(item: Item) -> dict[str, Any]:
    """A credit as clients see it."""
    shown = item | {"roles": [_picked(role, ROLE_FIELDS) for role in item["roles"]]}
    return _picked(shown, ("videoId", "personId", "name", "ordering", "roles", "version", "updatedAt"))


def release_document(item: Item) -> dict[str, Any]:
    """A release as clients see it."""
    shown = item | {"titles": [_picked(title, TITLE_FIELDS) for title in item["titles"]]}
    return _picked(shown, ("videoId", "region", "language", "titles", "version", "updatedAt"))


def credits_list(video_id: str) -> tuple[object, ...]:
    """A video's credits, as the list that shared.web.paging binds a cursor to."""
    return "credits", video_id


def releases_list(video_id: str, region: str | None = None) -> tuple[object, ...]:
    """A video's releases, or those in one region, as the list that shared.web.paging binds a cursor to."""
    return "releases", video_id, region


class RelationStore(BesideStore):
    """Credits, releases and people in the table. Methods raise the errors of shared.core.errors."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self.lists = Lists(table)

    def put_credit(
        self, video_id: str, person_id: str, content: "CreditContent", caller: Caller, now: int, allows: Allows
    ) -> tuple[Item, bool]:
        """Create or replace a credit; returns it, and whether it is new.

        Raises NotFound or Forbidden for the video, IllegalTransition when that is deleted, VersionMismatch when
        `allows` refuses, WriteContention.
        """
        video, present = self._own(CREDIT.key(videoId=video_id, personId=person_id), video_id, caller, now)
        return self._put_in_place(credit_item(video, person_id, content, caller=caller, now=now), present, allows)

    def delete_credit(self, video_id: str, person_id: str, caller: Caller, now: int, allows: Allows) -> None:
        """Remove a credit; raises as `put_credit` does, and NotFound when there is none."""
        self._delete(CREDIT.key(videoId=video_id, personId=person_id), video_id, caller, now, allows, _NO_CREDIT)

    def credit(self, video_id: str, person_id: str, caller: Caller, now: int) -> Item:
        """What a person did for a video; raises NotFound for the video or for the credit."""
        return self._seen(CREDIT.key(videoId=video_id, personId=person_id), video_id, caller, now, _NO_CREDIT)

    def credits(self, video_id: str, caller: Caller, now: int, limit: int, after: Position | None) -> Page[Item]:
        """A page of a video's credits by personId; raises NotFound when the caller may not see the video."""
        self._visible(video_id, caller, now)
        return children_of(self.table, video_id, CREDIT.sort_prefix, limit=limit, after=after)

    def videos_of(self, person_id: str, now: int, window: Window) -> Page[dict[str, Any]]:
        """A page of the published videos of a person, by year: `video`, `releaseYear` and `credit`.

        Raises NotFound when the page is empty and the person has no published video in any year.
        """
        page = self._videos_of(person_id, now, window)
        if page.items or page.resume or window.after:
            return page
        anything = self._videos_of(person_id, now, Window(0, LAST_YEAR + 1, limit=1))
        if not anything.items and anything.resume is None:
            raise NotFound("There is no such person.")
        return page

    def put_release(
        self,
        video_id: str,
        region: str,
        language: str | None,
        content: "ReleaseContent",
        caller: Caller,
        now: int,
        allows: Allows,
    ) -> tuple[Item, bool]:
        """Create or replace the titles in a region and language; returns and raises as `put_credit` does."""
        key = RELEASE.key(videoId=video_id, region=region, language=language or NO_LANGUAGE)
        video, present = self._own(key, video_id, caller, now)
        new = release_item(video, region, language, content, caller=caller, now=now)
        return self._put_in_place(new, present, allows)

    def delete_release(
        self, video_id: str, region: str, language: str | None, caller: Caller, now: int, allows: Allows
    ) -> None:
        """Remove the titles in a region and language; raises as `delete_credit` does."""
        key = RELEASE.key(videoId=video_id, region=region, language=language or NO_LANGUAGE)
        self._delete(key, video_id, caller, now, allows, _NO_RELEASE)

    def release(self, video_id: str, region: str, language: str, caller: Caller, now: int) -> Item:
        """The titles in a region and language; raises NotFound for the video or for them."""
        key = RELEASE.key(videoId=video_id, region=region, language=language)
        return self._seen(key, video_id, caller, now, _NO_RELEASE)

    def releases(
        self, video_id: str, region: str | None, caller: Caller, now: int, limit: int, after: Position | None
    ) -> Page[Item]:
        """A page of a video's releases, or of those in a region, by region and language; raises NotFound."""
        self._visible(video_id, caller, now)
        prefix = region_prefix(region) if region else RELEASE.sort_prefix
        return children_of(self.table, video_id, prefix, limit=limit, after=after)

    def _put_in_place(self, item: Item, present: Item | None, allows: Allows) -> tuple[Item, bool]:
        item, created = self._put(item, present, allows)
        key = VIDEO.key(videoId=item["videoId"])

        def attempt(_: Item | None) -> tuple[Item, bool]:
            # The video may have moved, and all its entries with it, between the reading and the writing.
            video = self.table.get(key, attributes=PLACING_ATTRIBUTES, consistent=True)
            change = change_between(item, placed(item, video)) if video else Expression("")
            if not video or not change.text:
                return item, created
            check = self.table.check(key, condition=as_read(video))
            try:
                self.table.transact([check, self.table.update(key_of(item), change, condition=unmoved(item))])
            except ConditionFailed as failure:
                if failure.position != 1:  # moved already, or replaced by a writer that has read the video again too
                    raise
            return item, created

        return retry_on_conflict(attempt, "the video")

    def _videos_of(self, person_id: str, now: int, window: Window) -> Page[dict[str, Any]]:
        relation = unsharded(person_relation(person_id))
        return hydrated(
            lambda after, size: self.lists.related(relation, window._replace(after=after, limit=size)),
            lambda entries: self._credited(entries, person_id, now),
            limit=window.limit,
            after=window.after,
        )

    def _credited(self, entries: Sequence[Item], person_id: str, now: int) -> list[dict[str, Any] | None]:
        """The videos of entries with what the person did for them; None for one that is not published."""
        # The index follows the table a little later: a credit that changes its year may stand in it twice, ...
        video_ids = list(dict.fromkeys(entry["relId"] for entry in entries))
        if not video_ids:
            return []
        keys = [VIDEO.key(videoId=video_id) for video_id in video_ids]
        keys += [CREDIT.key(videoId=video_id, personId=person_id) for video_id in video_ids]
        attributes = dict.fromkeys(
            [*SUMMARY_FIELDS, *VISIBILITY_ATTRIBUTES, "releaseYear", "relSort", "personId", "name", "ordering", "roles"]
        )
        videos: dict[str, Item] = {}
        did: dict[str, Item] = {}
        for item in self.table.batch_get(keys, attributes=attributes):
            (did if "personId" in item else videos)[item["videoId"]] = item

        def looked_up(entry: Item) -> dict[str, Any] | None:
            video, credit = videos.get(entry["relId"]), did.get(entry["relId"])
            # ... and one that is gone may still stand in it.
            if video is None or credit is None or credit["relSort"] != entry["relSort"]:
                return None
            return _appearance(video, credit) if is_published(video, now) else None

        return [looked_up(entry) for entry in entries]


def _appearance(video: Item, credit: Item) -> dict[str, Any]:
    return {
        "video": summary(video),
        **_picked(video, ("releaseYear",)),
        "credit": _picked(credit_document(credit), ("name", "ordering", "roles")),
    }


def _picked(item: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: item[name] for name in names if name in item}
