"""Ratings: one per user and video, with totals that are updated within about a second.

Each rating is stored by one conditional write. The ratings of a video are spread over LANES partitions, because one
partition accepts only 1,000 writes a second. The function `tallies` reads the old and the new rating of each stream
record, and adds their difference to the totals exactly once. Once all records are processed, the totals equal the
number and the sum of the ratings.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from shared.aws.dynamodb import Key, Table
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed
from shared.aws.records import (
    is_own_write,
    new_write_id,
    retry_on_conflict,
    signing,
    unchanged,
    with_audit_fields,
    write_once,
)
from shared.core.attributes import Item
from shared.core.caller import UPDATED_FOR, Caller
from shared.core.errors import IllegalTransition
from shared.core.limits import BEST_RATING
from shared.schema import RATING, RATING_TOTALS, TTL_ATTRIBUTE, VIDEO, lane_of, rated_relation, shard_of
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import is_purged, require_visible

if TYPE_CHECKING:
    from shared.entities import Rating, RatingTotals

DAYS_WITHDRAWN = 30
"""Number of days that the table stores a withdrawn rating, as an item without a value.

If a withdrawal deleted the item, the stream consumer could not distinguish it from the purge of a video. A purge must
not change totals.
"""

TOTALS = ("votes", "sum", "likes", "dislikes")
"""Names of the totals of a video's ratings. `sum` is the sum of the values of all ratings."""


class RatingChoice(NamedTuple):
    """Rating of a video that a user chose: a value from 1 to 10. `like` is `None`, unless the user sent a like or a
    dislike instead of a value."""

    value: int
    like: bool | None = None

    @classmethod
    def liked(cls, like: bool) -> "RatingChoice":
        """Return the rating for a like (the best value) or a dislike (the worst value)."""
        return cls(BEST_RATING if like else 1, like)

    @classmethod
    def of(cls, rating: "Rating | None") -> "RatingChoice | None":
        """Return the choice that a stored rating contains. `None` if the user has not rated, or has withdrawn the
        rating."""
        return cls(int(rating["value"]), rating.get("like")) if rating and "value" in rating else None


def rating_contribution(choice: RatingChoice | None) -> dict[str, int]:
    """Return the amounts that a rating adds to the totals, by the names in TOTALS. All are 0 if `choice` is `None`."""
    if choice is None:
        return dict.fromkeys(TOTALS, 0)
    return {"votes": 1, "sum": choice.value, "likes": int(choice.like is True), "dislikes": int(choice.like is False)}


def difference(old: "Rating | None", new: "Rating") -> dict[str, int]:
    """Return the amounts by which the write of a rating changes the totals. `old` is `None` if the rating is new."""
    removed, added = rating_contribution(RatingChoice.of(old)), rating_contribution(RatingChoice.of(new))
    return {name: added[name] - removed[name] for name in TOTALS}


def ratings_document(totals: "RatingTotals | None") -> dict[str, Any]:
    """Return a video's totals as clients see them. `totals` is `None` if the video has no ratings.

    The average is null if `votes` is 0. Otherwise, the average is rounded to two decimals. The stored totals are exact.
    """
    counts = _counts(totals)
    document: dict[str, Any] = {
        "average": round(counts["sum"] / counts["votes"], 2) if counts["votes"] else None,
        **{name: counts[name] for name in ("votes", "likes", "dislikes")},
    }
    if totals and "imported" in totals:
        imported = totals["imported"]
        document["imported"] = {"average": imported["average"], "votes": imported["votes"]}
    return document


def own_document(rating: "Rating") -> dict[str, Any]:
    """Return the document of a rating for the user who gave it."""
    stored: Mapping[str, Any] = rating
    return {name: stored[name] for name in ("value", "like", "ratedAt") if name in stored}


class RatingStore:
    """Store of ratings.

    It also reads the totals of ratings, and stores totals that were imported from other services.
    """

    def __init__(self, table: Table) -> None:
        self.table = table

    def read(self, video_id: str, caller: Caller, now: int) -> dict[str, Any]:
        """Return the totals of a video, and the caller's own rating. Raises NotFound if the caller may not see the
        video.

        Costs one BatchGetItem. Totals may be about a second old, and the caller's rating some milliseconds.
        """
        video, own, totals = self._read(video_id, caller, consistent=False)
        require_visible(video, caller, now)
        return {"videoId": video_id, **_mine(own), **ratings_document(totals)}

    def rate(self, video_id: str, caller: Caller, choice: RatingChoice, now: int) -> dict[str, Any]:
        """Store a user's rating of a visible video, replacing the previous one.

        Returns the same as `read`, with totals that include the new rating. Raises NotFound if the user may not see the
        video, and IllegalTransition if it is deleted. Raises WriteContention if the same user sends too many concurrent
        requests.
        """
        video, before, totals = self._read(video_id, caller)
        if require_visible(video, caller, now)["status"] == "deleted":
            raise IllegalTransition.deleted()
        content: Any = {
            **_rating(video_id, caller),
            "value": choice.value,
            **({} if choice.like is None else {"like": choice.like}),
            "ratedAt": now,
            **rating_index_position(video_id, caller.subject),
        }
        own = self._replace(cast("Rating", with_audit_fields(content, caller, now)), before)
        return {"videoId": video_id, **_mine(own), **ratings_document(_counting(totals, before, own))}

    def delete(self, video_id: str, caller: Caller, now: int) -> None:
        """Withdraw a user's rating of a video. Raises WriteContention.

        A user who has rated the video can do this even if the video is now hidden from the user. For other users,
        raises NotFound if the video is hidden.
        """
        video, own, _ = self._read(video_id, caller)
        if RatingChoice.of(own) is None or video is None or is_purged(video, now):
            require_visible(video, caller, now)
        content = _rating(video_id, caller) | {TTL_ATTRIBUTE: now + DAYS_WITHDRAWN * 86_400}
        self._replace(cast("Rating", with_audit_fields(content, caller, now)), own)

    def set_imported(
        self, video_id: str, average: float, votes: int, caller: Caller, now: int, *, owner: str | None = None
    ) -> bool:
        """Store the imported ratings of a video: their average and number, as counted by another service.

        Returns whether the stored ratings changed. `owner` is the owner of the video, who may read the audit trail of
        the totals. `None` keeps the stored owner.
        """
        imported = {"average": average, "votes": votes}
        content = {"videoId": video_id, "imported": imported, "writeId": new_write_id()}
        write = self.table.update(
            RATING_TOTALS.key(videoId=video_id),
            signing(content | ({"owner": owner} if owner else {}), caller, now),
            condition=Expression.of("attribute_not_exists(#imported) OR #imported <> :new", new=imported),
        )
        try:
            self.table.write(write)
        except ConditionFailed:
            return False
        return True

    def replace_imported(
        self, video_id: str, read: Item | None, imported: Item | None, caller: Caller, now: int
    ) -> bool:
        """Replace the imported ratings of a video with `imported` if the stored ratings equal `read`. Return whether
        they were equal.

        In `read` and in `imported`, `None` means that the video has no imported ratings.
        """
        content = {"videoId": video_id, "writeId": new_write_id()} | ({"imported": imported} if imported else {})
        as_read = "attribute_not_exists(#imported)" if read is None else "#imported = :read"
        write = self.table.update(
            RATING_TOTALS.key(videoId=video_id),
            change_between({UPDATED_FOR: None, "imported": None}, with_audit_fields(content, caller, now)),
            condition=Expression.of(as_read, **({} if read is None else {"read": read})),
        )
        try:
            self.table.write(write)
        except ConditionFailed as failure:
            return is_own_write(failure.item, content)
        return True

    def _read(
        self, video_id: str, caller: Caller, *, consistent: bool = True
    ) -> "tuple[Item | None, Rating | None, RatingTotals | None]":
        """Return the video, the caller's own rating and the totals. The video has only VISIBILITY_ATTRIBUTES.

        Before a write, the read must be consistent, because any of the items may be new.
        """
        keys = [
            VIDEO.key(videoId=video_id),
            rating_key(video_id, caller.subject),
            RATING_TOTALS.key(videoId=video_id),
        ]
        attributes = (*VISIBILITY_ATTRIBUTES, "value", "like", "ratedAt", "writeId", *TOTALS, "imported")
        video, own, totals = self.table.get_all(keys, attributes=attributes, consistent=consistent)
        return video, cast("Rating | None", own), cast("RatingTotals | None", totals)

    def _replace(self, new: "Rating", own: "Rating | None") -> "Rating":
        """Replace the user's rating `own` with `new`, and return the stored item. Writes nothing if `own` and `new`
        contain the same choice.

        A `new` without a value withdraws the rating.
        """

        def attempt(own: "Rating | None") -> "Rating":
            if own is not None and RatingChoice.of(own) == RatingChoice.of(new):
                return own
            write_once(self.table, [self.table.put(new, condition=unchanged(own))], new)
            return new

        return retry_on_conflict(attempt, "your rating of the video", present=own)


def rating_key(video_id: str, user_id: str) -> Key:
    """Return the key of a user's rating of a video."""
    return RATING.key(videoId=video_id, lane=lane_of(user_id), userId=user_id)


def rating_index_position(video_id: str, user_id: str) -> Item:
    """Return the index attributes of a rating.

    The index entries of a video's ratings are spread over SHARDS partitions, because one partition accepts 1,000 writes
    a second.
    """
    return {"rel": rated_relation(video_id), "relShard": shard_of(user_id), "relSort": 0, "relId": user_id}


def addition(video_id: str, difference: Mapping[str, int], caller: Caller, now: int) -> Expression:
    """Return the update that adds `difference` to a video's totals, and creates the item if it does not exist.

    Increments `version`, so an unchanged version means unchanged totals.
    """
    added = {**difference, "version": 1}
    addition = Expression.of("ADD " + ", ".join(f"#{name} :{name}" for name in added), **added)
    return addition + signing({"videoId": video_id}, caller, now)


def _counting(totals: "RatingTotals | None", before: "Rating | None", own: "Rating") -> "RatingTotals":
    """Return the totals after a user's rating changed from `before` to `own`.

    The stored totals may not include `before` yet. Its subtraction could then give negative numbers, so the results are
    limited to possible values.
    """
    earlier, mine = rating_contribution(RatingChoice.of(before)), rating_contribution(RatingChoice.of(own))
    other_ratings = {name: max(0, count - earlier[name]) for name, count in _counts(totals).items()}
    votes = other_ratings["votes"]
    other_ratings["sum"] = min(max(other_ratings["sum"], votes), votes * BEST_RATING)
    other_ratings["likes"] = min(other_ratings["likes"], votes)
    other_ratings["dislikes"] = min(other_ratings["dislikes"], votes - other_ratings["likes"])
    return cast("RatingTotals", {**(totals or {}), **{name: other_ratings[name] + mine[name] for name in TOTALS}})


def _counts(totals: "RatingTotals | None") -> dict[str, int]:
    stored: Mapping[str, Any] = totals or {}
    return {name: int(stored.get(name, 0)) for name in TOTALS}


def _mine(own: "Rating | None") -> dict[str, Any]:
    return {"own": own_document(own)} if own and RatingChoice.of(own) else {}


def _rating(video_id: str, caller: Caller) -> Item:
    """Return the attributes of a rating's item that are the same for active and withdrawn ratings."""
    key = rating_key(video_id, caller.subject)
    return {**key, "userId": caller.subject, "videoId": video_id, "writeId": new_write_id()}
