"""Ratings: one of each user for a video, and their totals, which follow within about a second.

A rating is one conditional write, and the ratings of a video are spread over LANES partitions: nobody who rates waits for
another. The table's stream has each rating as it was and as it is, and the function `tallies` adds the difference to the
totals, once. So when the stream is applied there are as many votes as ratings, and their sum is that of the ratings.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from shared.aws.dynamodb import Key, Table
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed
from shared.aws.records import (
    is_ours,
    new_write_id,
    retry_on_conflict,
    signed,
    signing,
    unchanged,
    write_once,
)
from shared.core.attributes import Item
from shared.core.caller import UPDATED_FOR, Caller
from shared.core.errors import IllegalTransition
from shared.core.limits import BEST_RATING
from shared.schema import RATING, RATING_TOTALS, TTL_ATTRIBUTE, VIDEO, lane_of, rated_relation, shard_of
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import is_purged, seen_by

if TYPE_CHECKING:
    from shared.entities import Rating, RatingTotals

DAYS_TAKEN_BACK = 30
"""How long the table keeps that a rating was taken back. That item, without a value, is what a rating gives way to: a
removal would not tell a user's own wish from the end of a video, of which nothing is counted."""

TOTALS = ("votes", "sum", "likes", "dislikes")
"""What is added up of a video's ratings; `sum` is that of their values."""


class Choice(NamedTuple):
    """What a user thinks of a video: a value from 1 to 10, and whether it was given as a like or dislike."""

    value: int
    like: bool | None = None

    @classmethod
    def liked(cls, like: bool) -> "Choice":
        """A like is the best rating, a dislike the worst."""
        return cls(BEST_RATING if like else 1, like)

    @classmethod
    def of(cls, rating: "Rating | None") -> "Choice | None":
        """The choice that a rating's item holds; None without an item, and when it was taken back."""
        return cls(int(rating["value"]), rating.get("like")) if rating and "value" in rating else None


def share(choice: Choice | None) -> dict[str, int]:
    """What one rating adds to the totals; nothing without one."""
    if choice is None:
        return dict.fromkeys(TOTALS, 0)
    return {"votes": 1, "sum": choice.value, "likes": int(choice.like is True), "dislikes": int(choice.like is False)}


def difference(old: "Rating | None", new: "Rating") -> dict[str, int]:
    """What a write of a rating's item adds to the totals: the item before it, None if there was none, and after it."""
    lost, won = share(Choice.of(old)), share(Choice.of(new))
    return {name: won[name] - lost[name] for name in TOTALS}


def ratings_document(totals: "RatingTotals | None") -> dict[str, Any]:
    """A video's totals as clients see them; without any, those of a video that nobody rated.

    The average is null without votes, and else rounded to two decimals for showing: what is kept is exact.
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
    """A user's rating as that user sees it."""
    stored: Mapping[str, Any] = rating
    return {name: stored[name] for name in ("value", "like", "ratedAt") if name in stored}


class RatingStore:
    """Ratings and their totals in the table."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def read(self, video_id: str, caller: Caller, now: int) -> dict[str, Any]:
        """The totals of a video that the caller may see, and the caller's own rating: one BatchGetItem.

        The totals may be about a second behind, and the rating some milliseconds; `rate` counts in what it writes.
        """
        video, own, totals = self._read(video_id, caller, consistent=False)
        seen_by(video, caller, now)
        return {"videoId": video_id, **_mine(own), **ratings_document(totals)}

    def rate(self, video_id: str, caller: Caller, choice: Choice, now: int) -> dict[str, Any]:
        """Let a user who may see a video rate it, in place of its earlier rating; returns what `read` does, with this
        rating counted in.

        Raises NotFound, IllegalTransition when the video is deleted, and WriteContention when the same user rates it in
        too many requests at once.
        """
        video, before, totals = self._read(video_id, caller)
        if seen_by(video, caller, now)["status"] == "deleted":
            raise IllegalTransition("The video is deleted; restore it first.")
        content: Any = {
            **_rating(video_id, caller),
            "value": choice.value,
            **({} if choice.like is None else {"like": choice.like}),
            "ratedAt": now,
            **place_of_rating(video_id, caller.subject),
        }
        own = self._replace(cast("Rating", signed(content, caller, now)), before)
        return {"videoId": video_id, **_mine(own), **ratings_document(_counting(totals, before, own))}

    def take_back(self, video_id: str, caller: Caller, now: int) -> None:
        """Let a user have no rating of a video; raises NotFound and WriteContention.

        Also of a video that the user may no longer see: whoever gave a rating can take it back.
        """
        video, own, _ = self._read(video_id, caller)
        if Choice.of(own) is None or video is None or is_purged(video, now):
            seen_by(video, caller, now)
        content = _rating(video_id, caller) | {TTL_ATTRIBUTE: now + DAYS_TAKEN_BACK * 86_400}
        self._replace(cast("Rating", signed(content, caller, now)), own)

    def set_imported(
        self, video_id: str, average: float, votes: int, caller: Caller, now: int, *, owner: str | None = None
    ) -> bool:
        """Keep what another service's users think beside our own votes; returns whether that changed anything.

        `owner` is whose video it is, who is shown what the audit trail says of it; None: whoever is named there already.
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
        """Put what another service's users think in place of what was read; None: nothing. Returns whether that was there."""
        content = {"videoId": video_id, "writeId": new_write_id()} | ({"imported": imported} if imported else {})
        as_read = "attribute_not_exists(#imported)" if read is None else "#imported = :read"
        write = self.table.update(
            RATING_TOTALS.key(videoId=video_id),
            change_between({UPDATED_FOR: None, "imported": None}, signed(content, caller, now)),
            condition=Expression.of(as_read, **({} if read is None else {"read": read})),
        )
        try:
            self.table.write(write)
        except ConditionFailed as failure:
            return is_ours(failure.item, content)
        return True

    def _read(
        self, video_id: str, caller: Caller, *, consistent: bool = True
    ) -> "tuple[Item | None, Rating | None, RatingTotals | None]":
        """The video, of which only what `seen_by` reads, the caller's own rating of it, and the totals.

        Consistent before a write, because each may have been written just before.
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
        """Put the new rating, or that there is none, in place of the user's own; returns what then is there."""

        def attempt(present: Item | None) -> "Rating":
            own = cast("Rating | None", present)
            if own is not None and Choice.of(own) == Choice.of(new):
                return own
            write_once(self.table, [self.table.put(new, condition=unchanged(own))], new)
            return new

        return retry_on_conflict(attempt, "your rating of the video", present=cast("Item | None", own))


def rating_key(video_id: str, user_id: str) -> Key:
    """The key of a user's rating of a video."""
    return RATING.key(videoId=video_id, lane=lane_of(user_id), userId=user_id)


def place_of_rating(video_id: str, user_id: str) -> Item:
    """Where a rating stands in the index, spread over SHARDS partitions, as one takes 1,000 new ratings a second."""
    return {"rel": rated_relation(video_id), "relShard": shard_of(user_id), "relSort": 0, "relId": user_id}


def addition(video_id: str, difference: Mapping[str, int], caller: Caller, now: int) -> Expression:
    """The change that adds to a video's totals, and makes these when they are not there.

    It raises `version`, so that a sum whose version stayed is one that nobody moved meanwhile.
    """
    added = {**difference, "version": 1}
    addition = Expression.of("ADD " + ", ".join(f"#{name} :{name}" for name in added), **added)
    return addition + signing({"videoId": video_id}, caller, now)


def _counting(totals: "RatingTotals | None", before: "Rating | None", own: "Rating") -> "RatingTotals":
    """Totals with a user's own rating counted in, in place of the one `before`.

    That one may not be in them yet, so what they have of others is kept within what is possible.
    """
    earlier, mine = share(Choice.of(before)), share(Choice.of(own))
    others = {name: max(0, count - earlier[name]) for name, count in _counts(totals).items()}
    votes = others["votes"]
    others["sum"] = min(max(others["sum"], votes), votes * BEST_RATING)
    others["likes"] = min(others["likes"], votes)
    others["dislikes"] = min(others["dislikes"], votes - others["likes"])
    return cast("RatingTotals", {**(totals or {}), **{name: others[name] + mine[name] for name in TOTALS}})


def _counts(totals: "RatingTotals | None") -> dict[str, int]:
    stored: Mapping[str, Any] = totals or {}
    return {name: int(stored.get(name, 0)) for name in TOTALS}


def _mine(own: "Rating | None") -> dict[str, Any]:
    return {"own": own_document(own)} if own and Choice.of(own) else {}


def _rating(video_id: str, caller: Caller) -> Item:
    """What the item of a user has, whether it is a rating or says that there is none."""
    key = rating_key(video_id, caller.subject)
    return {**key, "userId": caller.subject, "videoId": video_id, "writeId": new_write_id()}
