"""Webhooks as their owners know them: who has which, where they lead, what they follow, and their secrets.

How far a webhook is stands in an item beside it, which the worker writes (shared/webhooks/places.py). What changes where or what
it delivers is one transaction with that item: it takes the worker's turn, so that what a worker does about the webhook as it
was before counts for nothing, and makes the webhook due, so that the sweeper wakes the worker if the message to it is lost.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.aws.dynamodb import Table, Write
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed
from shared.aws.idempotency import carry_out, earlier_answer
from shared.aws.listing import Lists, Window, unsharded
from shared.aws.records import ABSENT, at_version, new_write_id, retry_on_conflict, signing, stamped
from shared.core.attributes import Item, Value, without
from shared.core.caller import Caller, Once
from shared.core.errors import Forbidden, LimitReached, NotFound, VersionMismatch
from shared.core.limits import LAST_SECOND
from shared.core.position import Page, Position
from shared.feed.log import Place
from shared.routes import ADMIN, CHANGES
from shared.schema import WEBHOOK, WEBHOOK_PLACE, WEBHOOKS, follower_relation
from shared.videos.video import merge_patch
from shared.webhooks.places import INDEXED, WAITING, due, plain
from shared.webhooks.signing import secret_of

MOST_WEBHOOKS = 20
"""Of one user."""
OVERLAP_SECONDS = 86_400
"""How long what is sent is signed with the previous secret too."""

FIELDS = (
    "webhookId",
    "userId",
    "url",
    "types",
    "follows",
    "description",
    "paused",
    "pausedBecause",
    "createdAt",
    "updatedAt",
    "version",
)
"""What the document has of the item, in this order."""
DELIVERED_BY = ("url", "types", "paused")
"""What decides where and what is delivered."""
_WHAT = "the webhook"


@dataclass(frozen=True)
class Followed:
    """A webhook, and how far it is."""

    hook: Item
    place: Item

    def document(self, now: int) -> dict[str, Any]:
        """It as its owner sees it: at `now`, in epoch seconds; its secrets are not in it."""
        shown = {name: self.hook[name] for name in FIELDS if name in self.hook}
        if "oldestWaiting" in self.place:
            shown["behindSince"] = self.place["oldestWaiting"]
        if self.place.get("failures"):
            shown |= {name: self.place[name] for name in ("nextAttemptAt", "failures") if name in self.place}
        until = self.hook.get("rotatedAt", 0) + OVERLAP_SECONDS
        return shown | ({"previousSecretUntil": until} if until > now else {})


def secrets_of(master: str, hook: Item, now: int) -> list[bytes]:
    """What a webhook signs with at `now` (epoch seconds): its secret, and for a day after a rotation the one before."""
    generation: int = hook["generation"]
    is_recent = now < hook.get("rotatedAt", 0) + OVERLAP_SECONDS
    generations = (generation, generation - 1) if is_recent else (generation,)
    return [secret_of(master, hook["webhookId"], number) for number in generations]


def place_of_webhook(hook: Item) -> Item:
    """Where a webhook stands in the index, while it is not paused: by whose changes it follows."""
    if hook["paused"]:
        return {}
    relation = follower_relation(hook.get("follows"))
    return {"rel": relation, "relShard": 0, "relSort": hook["createdAt"], "relId": hook["webhookId"]}


class WebhookStore:
    """Webhooks in the table. Methods raise the errors of shared.core.errors; to strangers, webhooks do not exist."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def create(
        self,
        webhook_id: str,
        content: Mapping[str, Value],
        places: Mapping[str, Place],
        caller: Caller,
        now: int,
        once: Once | None = None,
    ) -> dict[str, Any]:
        """Create a webhook of the caller's and return its document with the `generation` of its secret; with `once`, those of the
        first time.

        `content` has `url`, `types`, `paused`, and may have `follows` and `description`; `places` says for each log that it
        follows from where on. Whether the caller may follow them is for `require_following`. Raises LimitReached.
        """
        key = WEBHOOK.key(webhookId=webhook_id)
        item = {**content, **key, "webhookId": webhook_id, "userId": caller.subject, "createdAt": now, "generation": 1}
        hook = stamped(item | place_of_webhook(item), caller, now, version=1)
        place = {
            **WEBHOOK_PLACE.key(webhookId=webhook_id),
            "webhookId": webhook_id,
            "places": plain(places),
            "turn": 1,
        }
        if not hook["paused"]:
            place = due(place, now)
        below = Expression.of("attribute_not_exists(#ids) OR size(#ids) < :most", most=MOST_WEBHOOKS)
        writes = [
            self.table.put(hook, condition=ABSENT),
            self.table.put(place, condition=ABSENT),
            self._listed("ADD", webhook_id, caller.subject, caller, now, below),
        ]
        answer = Followed(hook, place).document(now) | {"generation": hook["generation"]}
        try:
            return carry_out(self.table, writes, hook, answer, once, what=_WHAT)
        except ConditionFailed as failure:
            raise LimitReached(
                f"You already have {MOST_WEBHOOKS} webhooks, the most that one user may have; delete one first."
            ) from failure

    def read(self, webhook_id: str) -> Followed | None:
        """A webhook, and how far it is; None when it is not there. Consistent."""
        keys = [entity.key(webhookId=webhook_id) for entity in (WEBHOOK, WEBHOOK_PLACE)]
        hook, place = self.table.get_all(keys, consistent=True)
        return Followed(hook, place) if hook and place else None

    def read_for(self, webhook_id: str, caller: Caller) -> Followed:
        """A webhook of the caller's; raises NotFound."""
        followed = self.read(webhook_id)
        if followed is None or not caller.owns(followed.hook["userId"]):
            raise NotFound("There is no such webhook.")
        return followed

    def of_user(self, user_id: str) -> list[Followed]:
        """All webhooks of a user, the newest first. Consistent."""
        listed = self.table.get(WEBHOOKS.key(userId=user_id), attributes=("ids",), consistent=True) or {}
        ids: Collection[str] = listed.get("ids", ())
        items = self.table.batch_get(
            [entity.key(webhookId=webhook_id) for webhook_id in ids for entity in (WEBHOOK, WEBHOOK_PLACE)],
            consistent=True,
        )
        hooks = [item for item in items if item["sk"] == WEBHOOK.sk]
        places = {item["webhookId"]: item for item in items if item["sk"] == WEBHOOK_PLACE.sk}
        hooks.sort(key=lambda hook: (hook["createdAt"], hook["webhookId"]), reverse=True)
        return [Followed(hook, places[hook["webhookId"]]) for hook in hooks if hook["webhookId"] in places]

    def owned(self, user_id: str, *, limit: int, after: Position | None = None) -> Page[Followed]:
        """A page of `of_user`."""
        left = [one for one in self.of_user(user_id) if after is None or _position(one) < after]
        return Page(left[:limit], _position(left[limit - 1]) if len(left) > limit else None)

    def following(self, user_id: str | None, *, limit: int, after: Position | None = None) -> Page[Followed]:
        """A page of all users' webhooks that follow one user's changes, or everybody's (None), and are not paused, the newest first.

        By the index, which has a new one after a second or so. It may still have what was deleted or paused since: that is left
        out, so a page may be short.
        """
        window = Window(0, LAST_SECOND + 1, limit=limit, after=after)
        entries = Lists(self.table).related(unsharded(follower_relation(user_id)), window)
        ids = dict.fromkeys(entry["relId"] for entry in entries.items)
        keys = [entity.key(webhookId=webhook_id) for webhook_id in ids for entity in (WEBHOOK, WEBHOOK_PLACE)]
        read = self.table.get_all(keys, consistent=True)
        followed = [Followed(hook, place) for hook, place in zip(read[::2], read[1::2], strict=True) if hook and place]
        return Page([one for one in followed if not one.hook["paused"]], entries.resume)

    def change(
        self, webhook_id: str, patch: Mapping[str, Value], caller: Caller, now: int, matches: Callable[[int], bool]
    ) -> dict[str, Any]:
        """Apply a JSON Merge Patch to a webhook of the caller's and return its document. When another address or other types are to
        be delivered, or it is no longer paused, its failures are forgotten and it is due.

        `matches` is the caller's condition on the version (If-Match): raises VersionMismatch. Raises Forbidden when it would
        deliver what the caller may not follow (any more).
        """

        def plan(hook: Item) -> Item:
            changed = {"types": [], **merge_patch(hook, patch)}
            return changed if changed["paused"] == hook["paused"] else without(changed, "pausedBecause")

        return self._revise(webhook_id, caller, now, plan, matches)

    def replay(
        self,
        webhook_id: str,
        places: Mapping[str, Place],
        caller: Caller,
        now: int,
        matches: Callable[[int], bool],
    ) -> dict[str, Any]:
        """Let a webhook of the caller's go on from other places of its logs and return its document; one that is paused stays so.

        Raises what `change` does.
        """
        return self._revise(webhook_id, caller, now, lambda hook: hook, matches, places=places)

    def rotate(
        self, webhook_id: str, caller: Caller, now: int, matches: Callable[[int], bool], once: Once | None = None
    ) -> dict[str, Any]:
        """Give a webhook of the caller's another secret and return its document with the `generation` of that; with `once`, those of
        the first time. Raises what `change` does."""

        def plan(hook: Item) -> Item:
            return hook | {"generation": hook["generation"] + 1, "rotatedAt": now}

        return self._revise(webhook_id, caller, now, plan, matches, once=once, shown=("generation",))

    def delete(self, webhook_id: str, caller: Caller, now: int, matches: Callable[[int], bool]) -> None:
        """Delete a webhook of the caller's; DynamoDB removes what its receiver answered a week after that.

        `matches` is the caller's condition on the version (If-Match): raises VersionMismatch.
        """

        def attempt(_: Item | None) -> None:
            hook = self.read_for(webhook_id, caller).hook
            _check_version(hook, matches)
            writes = [
                self.table.remove(WEBHOOK.key(webhookId=webhook_id), condition=at_version(hook)),
                self.table.remove(WEBHOOK_PLACE.key(webhookId=webhook_id)),
                self._listed("DELETE", webhook_id, hook["userId"], caller, now),
            ]
            try:
                self.table.transact(writes)
            except ConditionFailed as failure:
                # When nothing is there any more, an attempt whose answer was lost has deleted it, or somebody else has.
                if failure.item is not None:
                    raise

        retry_on_conflict(attempt, _WHAT, pause=self.table.pause)

    def _revise(
        self,
        webhook_id: str,
        caller: Caller,
        now: int,
        plan: Callable[[Item], Item],
        matches: Callable[[int], bool],
        *,
        places: Mapping[str, Place] | None = None,
        once: Once | None = None,
        shown: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Change a webhook of the caller's as `plan` makes of the present one, and let it go on from `places`, if any are given.

        Returns its document, and what else of it is to be `shown`. What changes nothing is not written.
        """
        key, write_id = WEBHOOK.key(webhookId=webhook_id), new_write_id()

        def attempt(_: Item | None) -> dict[str, Any]:
            followed = self.read_for(webhook_id, caller)
            # After the webhook: see VideoStore.change.
            if answer := earlier_answer(self.table, once):
                return answer
            hook, place = followed.hook, followed.place
            _check_version(hook, matches)
            new = plan(hook)
            if places is None and not change_between(hook, new).text:
                return followed.document(now)
            if not new["paused"]:
                require_following(new.get("follows"), caller)
            new = without(new, *INDEXED) | place_of_webhook(new)
            new = stamped(new, caller, now, version=hook["version"] + 1, write_id=write_id)
            writes = [self.table.update(key, change_between(hook, new), condition=at_version(hook))]
            if places is not None or any(new[name] != hook[name] for name in DELIVERED_BY):
                said, forgotten = _turned(webhook_id, now, paused=new["paused"], places=places)
                turn = change_between(dict.fromkeys(forgotten), said) + Expression.of("ADD #turn :one", one=1)
                # A worker may write it at any time; that the webhook is as it was read guards the transaction.
                writes.append(self.table.update(WEBHOOK_PLACE.key(webhookId=webhook_id), turn))
                place = without(place, *forgotten) | said
            answer = Followed(new, place).document(now) | {name: new[name] for name in shown}
            return carry_out(self.table, writes, new, answer, once, what=_WHAT)

        return retry_on_conflict(attempt, _WHAT, pause=self.table.pause)

    def _listed(
        self, how: str, webhook_id: str, user_id: str, caller: Caller, now: int, condition: Expression | None = None
    ) -> Write:
        """The write that puts a webhook into the list of a user's (`ADD`), or takes it out (`DELETE`)."""
        change = Expression.of(f"{how} #ids :ids", ids={webhook_id}) + signing({}, caller, now)
        return self.table.update(WEBHOOKS.key(userId=user_id), change, condition=condition)


def _position(followed: Followed) -> Position:
    return Position(followed.hook["createdAt"], followed.hook["webhookId"])


def require_following(user_id: str | None, caller: Caller) -> None:
    """Raise Forbidden unless the caller may follow the changes of this user's things, or of everybody's (None)."""
    if user_id != caller.subject and not caller.follows_all:
        raise Forbidden(f"To follow the changes of others needs a token with the scope {CHANGES} or {ADMIN}.")


def _turned(
    webhook_id: str, now: int, *, paused: bool, places: Mapping[str, Place] | None
) -> tuple[Item, Sequence[str]]:
    """What the place of a webhook is to say when the worker's turn is taken, and what it is to say no more.

    A worker that is sending keeps its lease: it goes on with what is said here, so no other one sends at the same time.
    """
    said = {} if paused else due({"webhookId": webhook_id}, now)
    forgotten = [*WAITING] if paused else []
    if not paused or places is not None:
        forgotten += ["failures", "failingSince", "tried"]
    if places is not None:
        said["places"] = plain(places)
        forgotten += ["delivered", "oldestWaiting", "caughtUpAt"]
    return said, forgotten


def _check_version(hook: Item, matches: Callable[[int], bool]) -> None:
    if not matches(hook["version"]):
        raise VersionMismatch(
            f'The webhook is at version {hook["version"]}; If-Match takes its ETag, or "{hook["version"]}".'
        )
