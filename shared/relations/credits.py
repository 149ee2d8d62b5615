"""Credits and releases of videos, and the videos of a person.

Credits and releases are related items of a video, and are in RelationIndex while the video is listed. Each copies two
attributes of the video: the release year, by which credits are sorted, and the owner, who may read the audit trail. If
the release year changes, or the video becomes listed or unlisted, shared/relations/entry_updates.py updates the credits
and releases.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed
from shared.aws.listing import Lists, Window, hydrate_page, single_partition
from shared.aws.records import key_of, retry_on_conflict, with_version
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import NotFound
from shared.core.limits import LAST_YEAR
from shared.core.position import Page, Position
from shared.relations.children import children_of, region_prefix
from shared.relations.entry_updates import unmoved
from shared.relations.item_store import OWNER, Allows, VideoItemStore
from shared.schema import (
    CREDIT,
    RELEASE,
    VIDEO,
    person_relation,
)
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import is_published
from shared.videos.documents import SUMMARY_FIELDS, summary
from shared.videos.entries import NO_LANGUAGE, as_read, with_index_position

if TYPE_CHECKING:
    from shared.entities import AnyVideo

if TYPE_CHECKING:
    from shared.relations.models import CreditContent, ReleaseContent

ROLE_FIELDS = ("category", "job", "characters")
TITLE_FIELDS = ("title", "types", "attributes")
"""Fields of a release's title. ROLE_FIELDS are the fields of a credit's role. Both have the order of
shared/relations/models.py.

Documents use a fixed order, because DynamoDB maps are unordered and the ETag of unchanged content must not change.
"""
_NO_CREDIT, _NO_RELEASE = "The credit does not exist.", "The release does not exist."
PLACING_ATTRIBUTES = ("videoId", "userId", "createdAt", "releaseYear", "rel", "version")
"""Attributes of a video that must be read to write its credits and releases. They determine the index positions and the
owner of these items. `with_index_position` and `as_read` in shared.videos.entries also read them."""


def credit_item(video: "AnyVideo", person_id: str, content: "CreditContent", *, caller: Caller, now: int) -> Item:
    """Return the item to write for a credit, with its keys and index attributes.

    `video` must have the attributes PLACING_ATTRIBUTES.
    """
    item = {
        **CREDIT.key(videoId=video["videoId"], personId=person_id),
        "videoId": video["videoId"],
        "personId": person_id,
        OWNER: video["userId"],
        **content.model_dump(exclude_none=True),
    }
    return with_version(with_index_position(item, video), caller, now, version=1)


def release_item(
    video: "AnyVideo",
    region: str,
    language: str | None,
    content: "ReleaseContent",
    *,
    caller: Caller,
    now: int,
) -> Item:
    """Return the item to write for a release, with its keys and index attributes.

    `video` must have the attributes PLACING_ATTRIBUTES. `region` and `language` must be in the canonical form of
    shared.core.regions.
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
    return with_version(with_index_position(item, video), caller, now, version=1)


def credit_document(item: Item) -> dict[str, Any]:
    """Return a credit as clients see it."""
    shown = item | {"roles": [_picked(role, ROLE_FIELDS) for role in item["roles"]]}
    return _picked(shown, ("videoId", "personId", "name", "ordering", "roles", "version", "updatedAt"))


def release_document(item: Item) -> dict[str, Any]:
    """Return a release as clients see it."""
    shown = item | {"titles": [_picked(title, TITLE_FIELDS) for title in item["titles"]]}
    return _picked(shown, ("videoId", "region", "language", "titles", "version", "updatedAt"))


def credits_list(video_id: str) -> tuple[object, ...]:
    """Return a tuple that identifies the list of a video's credits.

    A cursor is valid only for a list with an equal tuple.
    """
    return "credits", video_id


def releases_list(video_id: str, region: str | None = None) -> tuple[object, ...]:
    """Return a tuple that identifies the list of a video's releases.

    A cursor is valid only for a list with an equal tuple.
    """
    return "releases", video_id, region


class RelationStore(VideoItemStore):
    """Store of credits and releases. It also lists a person's videos.

    Methods raise the errors of shared.core.errors.
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self.lists = Lists(table)

    def put_credit(
        self, video_id: str, person_id: str, content: "CreditContent", caller: Caller, now: int, allows: Allows
    ) -> tuple[Item, bool]:
        """Create or replace a credit. Return the credit, and whether it is new.

        Raises NotFound or Forbidden if the caller may not change the video, and IllegalTransition if the video is
        deleted. Raises VersionMismatch if `allows` rejects the stored credit, and WriteContention if concurrent
        writes defeat every attempt.
        """
        video, present = self._read_owned(CREDIT.key(videoId=video_id, personId=person_id), video_id, caller, now)
        return self._put_in_place(credit_item(video, person_id, content, caller=caller, now=now), present, allows)

    def delete_credit(self, video_id: str, person_id: str, caller: Caller, now: int, allows: Allows) -> None:
        """Delete a credit. Raises the errors of `put_credit`, and NotFound if the credit does not exist."""
        self._delete(CREDIT.key(videoId=video_id, personId=person_id), video_id, caller, now, allows, _NO_CREDIT)

    def credit(self, video_id: str, person_id: str, caller: Caller, now: int) -> Item:
        """Return a person's credit for a video; raise NotFound if the video or the credit does not exist."""
        return self._read_visible(CREDIT.key(videoId=video_id, personId=person_id), video_id, caller, now, _NO_CREDIT)

    def credits(self, video_id: str, caller: Caller, now: int, limit: int, after: Position | None) -> Page[Item]:
        """Return a page of a video's credits, sorted by personId; raise NotFound if the caller may not see the video."""
        self._require_visible(video_id, caller, now)
        return children_of(self.table, video_id, CREDIT.sort_prefix, limit=limit, after=after)

    def videos_of(self, person_id: str, now: int, window: Window) -> Page[dict[str, Any]]:
        """Return a page of a person's published videos, sorted by release year. Each element has `video`, `releaseYear`
        and `credit`.

        Raises NotFound if the first page is empty and the person has no published video of any year.
        """
        page = self._videos_of(person_id, now, window)
        if page.items or page.resume or window.after:
            return page
        anything = self._videos_of(person_id, now, Window(0, LAST_YEAR + 1, limit=1))
        if not anything.items and anything.resume is None:
            raise NotFound.of("person")
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
        """Create or replace a release: the video's titles in a region and language. Return the release, and whether it
        is new. Raises the errors of `put_credit`."""
        key = RELEASE.key(videoId=video_id, region=region, language=language or NO_LANGUAGE)
        video, present = self._read_owned(key, video_id, caller, now)
        new = release_item(video, region, language, content, caller=caller, now=now)
        return self._put_in_place(new, present, allows)

    def delete_release(
        self, video_id: str, region: str, language: str | None, caller: Caller, now: int, allows: Allows
    ) -> None:
        """Delete a release: the video's titles in a region and language. Raises the errors of `delete_credit`."""
        key = RELEASE.key(videoId=video_id, region=region, language=language or NO_LANGUAGE)
        self._delete(key, video_id, caller, now, allows, _NO_RELEASE)

    def release(self, video_id: str, region: str, language: str, caller: Caller, now: int) -> Item:
        """Return a release: the video's titles in a region and language. Raises NotFound if the video or the release
        does not exist."""
        key = RELEASE.key(videoId=video_id, region=region, language=language)
        return self._read_visible(key, video_id, caller, now, _NO_RELEASE)

    def releases(
        self, video_id: str, region: str | None, caller: Caller, now: int, limit: int, after: Position | None
    ) -> Page[Item]:
        """Return a page of a video's releases, sorted by region and language. With `region`, only the releases of this
        region.

        Raises NotFound if the caller may not see the video.
        """
        self._require_visible(video_id, caller, now)
        prefix = region_prefix(region) if region else RELEASE.sort_prefix
        return children_of(self.table, video_id, prefix, limit=limit, after=after)

    def _put_in_place(self, item: Item, present: Item | None, allows: Allows) -> tuple[Item, bool]:
        item, created = self._put(item, present, allows)
        key = VIDEO.key(videoId=item["videoId"])

        def attempt(_: Item | None) -> tuple[Item, bool]:
            # The index position of the video may have changed since `item` was computed.
            video = self.table.get(key, attributes=PLACING_ATTRIBUTES, consistent=True)
            change = change_between(item, with_index_position(item, video)) if video else Expression("")
            if not video or not change.text:
                return item, created
            check = self.table.check(key, condition=as_read(video))
            try:
                self.table.transact([check, self.table.update(key_of(item), change, condition=unmoved(item))])
            except ConditionFailed as failure:
                # Position 1 is the item. Another writer has changed it, and has read the current video to do so.
                if failure.position != 1:
                    raise
            return item, created

        return retry_on_conflict(attempt, "the video")

    def _videos_of(self, person_id: str, now: int, window: Window) -> Page[dict[str, Any]]:
        relation = single_partition(person_relation(person_id))
        return hydrate_page(
            lambda after, size: self.lists.related(relation, window._replace(after=after, limit=size)),
            lambda entries: self._credited(entries, person_id, now),
            limit=window.limit,
            after=window.after,
        )

    def _credited(self, entries: Sequence[Item], person_id: str, now: int) -> list[dict[str, Any] | None]:
        """Return the video and the person's credit for each entry; `None` if the video is not published."""
        # The index is eventually consistent. A credit with a changed year may have two entries, and a deleted credit
        # may still have an entry. `looked_up` therefore compares each entry with the stored credit.
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
            if video is None or credit is None or credit["relSort"] != entry["relSort"]:
                return None
            return _appearance(video, credit) if is_published(video, now) else None

        return [looked_up(entry) for entry in entries]


def _appearance(video: "AnyVideo", credit: Item) -> dict[str, Any]:
    return {
        "video": summary(video),
        **_picked(video, ("releaseYear",)),
        "credit": _picked(credit_document(credit), ("name", "ordering", "roles")),
    }


def _picked(item: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: item[name] for name in names if name in item}
