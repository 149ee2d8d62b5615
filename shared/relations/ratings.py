"""Ratings: one of each user for a video, and their totals, which are exact at every moment.

A rating and the difference that it makes to its video's totals are one transaction. So there are as many votes as
ratings, and their sum is that of the ratings, however many users rate at once; only who rates may have to wait.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.aws.dynamodb import Key, Table, Write
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed, TransactionConflict
from shared.aws.records import contended, is_ours, new_write_id, signed, signing, unchanged
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import IllegalTransition
from shared.core.limits import BEST_RATING
from shared.schema import RATING, RATING_TOTALS, VIDEO, rated_relation
from shared.videos.access import VISIBILITY_ATTRIBUTES, is_purged, seen_by

ROUNDS = 8
"""How often a rating is tried when others rate the same video. Each is ATTEMPTS tries of the table's, and all of them
wait less than 9 seconds together."""

TOTALS = ("votes", "sum", "likes", "dislikes")
"""What is added up of a video's ratings; `sum` is that of their values."""


@dataclass(frozen=True)
class Choice:
    """What a user thinks of a video: a value from 1 to 10, and whether it was given as a like or dislike."""

    value: int
    like: bool | None = None

    @classmethod
    def liked(cls, like: bool) -> "Choice":
        """A like is the best rating, a dislike the worst."""
        return cls(BEST_RATING if like else 1, like)

    @classmethod
    def of(cls, rating: Item) -> "Choice":
        """The choice that a rating's item holds."""
        return cls(int(rating["value"]), rating.get("like"))


def share(choice: Choice | None) -> dict[str, int]:
    """What one rating adds to the totals; nothing without one."""
    if choice is None:
        return dict.fromkeys(TOTALS, 0)
    return {"votes": 1, "sum": choice.value, "likes": choice.like is True, "dislikes": choice.like is False}


def ratings_document(totals: Item | None) -> dict[str, Any]:
    """A video's totals as clients see them; without any, those of a video that nobody rated.

    The average is null without votes, and else rounded to two decimals for showing: what is kept is exact.
    """
    totals = totals or {}
    counts = {name: int(totals.get(name, 0)) for name in TOTALS}
    document: dict[str, Any] = {
        "average": round(counts["sum"] / counts["votes"], 2) if counts["votes"] else None,
        **{name: counts[name] for name in ("votes", "likes", "dislikes")},
    }
    if "imported" in totals:
        document["imported"] = {name: totals["imported"][name] for name in ("average", "votes")}
    return document


def own_document(rating: Item) -> dict[str, Any]:
    """A user's rating as that user sees it."""
    return {name: rating[name] for name in ("value", "like", "ratedAt") if name in rating}


class RatingStore:
    """Ratings and their totals in the table."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def read(self, video_id: str, caller: Caller, now: int) -> dict[str, Any]:
        """The totals of a video that the caller may see, and the caller's own rating: one BatchGetItem.

        It may be some milliseconds behind; `rate` answers with what is true then.
        """
        video, totals, own = self.table.get_all(
            [VIDEO.key(videoId=video_id), _totals_key(video_id), _rating_key(video_id, caller)]
        )
        seen_by(video, caller, now)
        return _document(video_id, totals, own)

    def rate(self, video_id: str, caller: Caller, choice: Choice, now: int) -> dict[str, Any]:
        """Let a user who may see a video rate it, in place of its earlier rating; returns what `read` does.

        Raises NotFound, IllegalTransition when the video is deleted, and WriteContention when too many rate it at once.
        """
        video, before = self._video_and_rating(video_id, caller)
        if seen_by(video, caller, now)["status"] == "deleted":
            raise IllegalTransition("The video is deleted; restore it first.")
        content = {
            **_rating_key(video_id, caller),
            "userId": caller.subject,
            "videoId": video_id,
            "value": choice.value,
            **({} if choice.like is None else {"like": choice.like}),
            "ratedAt": now,
            "writeId": new_write_id(),
            "rel": rated_relation(video_id),
            "relShard": 0,
            "relSort": 0,
            "relId": caller.subject,
        }
        own = self._replace(video_id, caller, choice, signed(content, caller, now), now, before)
        return _document(video_id, self.table.get(_totals_key(video_id), consistent=True), own)

    def take_back(self, video_id: str, caller: Caller, now: int) -> None:
        """Remove a user's rating of a video, if there is one; raises NotFound and WriteContention.

        Also of a video that the user may no longer see: whoever gave a rating can take it back.
        """
        video, own = self._video_and_rating(video_id, caller)
        if own is None or video is None or is_purged(video, now):
            seen_by(video, caller, now)
        self._replace(video_id, caller, None, None, now, own)

    def set_imported(self, video_id: str, average: float, votes: int, caller: Caller, now: int) -> bool:
        """Keep what another service's users think beside our own votes; returns whether that changed anything."""
        imported = {"average": average, "votes": votes}
        write = self.table.update(
            _totals_key(video_id),
            signing({"videoId": video_id, "imported": imported}, caller, now),
            condition=Expression.of("attribute_not_exists(#imported) OR #imported <> :new", new=imported),
        )
        try:
            self.table.write(write)
        except ConditionFailed:
            return False
        return True

    def _video_and_rating(self, video_id: str, caller: Caller) -> list[Item | None]:
        """The video, of which only what `seen_by` reads, and the caller's own rating of it."""
        return self.table.get_all(
            [VIDEO.key(videoId=video_id), _rating_key(video_id, caller)],
            attributes=(*VISIBILITY_ATTRIBUTES, "value", "like", "ratedAt", "writeId"),
            # Because either may have been written just before.
            consistent=True,
        )

    def _replace(
        self, video_id: str, caller: Caller, choice: Choice | None, new: Item | None, now: int, own: Item | None
    ) -> Item | None:
        """Make the user's rating, which is `own`, the new one, or none; returns the rating that then is there."""
        for attempt in range(ROUNDS):
            before = Choice.of(own) if own else None
            if before == choice:
                return own
            difference = {name: share(choice)[name] - share(before)[name] for name in TOTALS}
            writes = [
                self._rating(_rating_key(video_id, caller), own, new),
                self.table.update(_totals_key(video_id), addition(video_id, difference, caller, now)),
            ]
            try:
                self.table.transact(writes)
            except ConditionFailed as failure:
                if new and is_ours(failure.item, new):
                    return new
                own = failure.item
            except TransactionConflict:
                self.table.pause(attempt + 1)
            else:
                return new
        raise contended("the ratings of the video")

    def _rating(self, key: Key, own: Item | None, new: Item | None) -> Write:
        """The write of the rating itself, if it still is as it was read."""
        condition = unchanged(own)
        return self.table.put(new, condition=condition) if new else self.table.remove(key, condition=condition)


def addition(video_id: str, difference: Mapping[str, int], caller: Caller, now: int) -> Expression:
    """The change that adds to a video's totals, and makes these when they are not there.

    It raises `version`, so that a sum whose version stayed is one that nobody moved meanwhile.
    """
    added = {**difference, "version": 1}
    addition = Expression.of("ADD " + ", ".join(f"#{name} :{name}" for name in added), **added)
    return addition + signing({"videoId": video_id}, caller, now)


def _document(video_id: str, totals: Item | None, own: Item | None) -> dict[str, Any]:
    mine = {"own": own_document(own)} if own else {}
    return {"videoId": video_id, **mine, **ratings_document(totals)}


def _totals_key(video_id: str) -> Key:
    return RATING_TOTALS.key(videoId=video_id)


def _rating_key(video_id: str, caller: Caller) -> Key:
    return RATING.key(userId=caller.subject, videoId=video_id)
