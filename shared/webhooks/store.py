"""Webhooks as their owners manage them: URL, subscription and secrets.

The delivery state is a separate item, which the delivery worker writes (shared/webhooks/delivery_state.py). A change of
the URL, the types or the positions writes both items in one transaction. The transaction increments `turn` in the
delivery state, so that the worker cannot store results for the previous version. It also schedules a delivery, so that
the sweeper sends a message if the first message is lost.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from shared.aws.dynamodb import Table, Write
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed
from shared.aws.idempotency import carry_out, find_stored_response
from shared.aws.listing import Lists, Window, single_partition
from shared.aws.records import ABSENT, at_version, new_write_id, retry_on_conflict, signing, with_version
from shared.core.attributes import Item, Value, without
from shared.core.caller import Caller, IdempotentRequest
from shared.core.errors import Forbidden, LimitReached, NotFound, VersionMismatch
from shared.core.limits import LAST_SECOND
from shared.core.position import Page, Position
from shared.feed.log import LogCursor
from shared.routes import ADMIN, CHANGES
from shared.schema import WEBHOOK, WEBHOOK_STATE, WEBHOOKS, follower_relation
from shared.videos.video import merge_patch
from shared.webhooks.delivery_state import INDEXED, WAITING, as_due, due, encode_cursors, first_state
from shared.webhooks.signing import secret_of

if TYPE_CHECKING:
    from shared.entities import DeliveryRestart, IndexAttributes, Webhook, WebhookState

MAX_WEBHOOKS = 20
"""Maximum number of webhooks of one user."""
OVERLAP_SECONDS = 86_400
"""Seconds after a rotation of the secret during which events also have a signature with the previous secret."""

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
"""Attributes of a webhook's item that its document shows, in this order."""
DELIVERED_BY = ("url", "types", "paused")
"""Attributes of a webhook that affect deliveries. If one of them changes, the delivery state also changes."""
_delivered_by = itemgetter(*DELIVERED_BY)
_NOUN = "the webhook"


@dataclass(frozen=True)
class Subscription:
    """Webhook item together with the item of its delivery state."""

    hook: "Webhook"
    state: "WebhookState"

    def document(self, now: int) -> dict[str, Any]:
        """Return the document that the owner sees at `now` (epoch seconds), without secrets."""
        hook: Mapping[str, Any] = self.hook
        shown = {name: hook[name] for name in FIELDS if name in hook}
        if "oldestWaiting" in self.state:
            shown["behindSince"] = self.state["oldestWaiting"]
        if self.state.get("failures"):
            state: Mapping[str, Any] = self.state
            shown |= {name: state[name] for name in ("nextAttemptAt", "failures") if name in state}
        until = self.hook.get("rotatedAt", 0) + OVERLAP_SECONDS
        return shown | ({"previousSecretUntil": until} if until > now else {})


def secrets_of(master: str, hook: "Webhook", now: int) -> list[bytes]:
    """Return the secrets with which events are signed at `now` (epoch seconds), the current secret first.

    For OVERLAP_SECONDS after a rotation, the previous secret is also returned.
    """
    generation = hook["generation"]
    is_recent = now < hook.get("rotatedAt", 0) + OVERLAP_SECONDS
    generations = (generation, generation - 1) if is_recent else (generation,)
    return [secret_of(master, hook["webhookId"], number) for number in generations]


def webhook_index_position(hook: "Webhook") -> "IndexAttributes":
    """Return the attributes that place a webhook in RelationIndex under the user (or all users) to which it subscribes.

    Empty if the webhook is paused.
    """
    if hook["paused"]:
        return {}
    relation = follower_relation(hook.get("follows"))
    return {"rel": relation, "relShard": 0, "relSort": hook["createdAt"], "relId": hook["webhookId"]}


class WebhookStore:
    """Store of webhooks.

    Methods raise the errors of `shared.core.errors`. They raise the same error for the webhook of another user as for
    an unknown id.
    """

    def __init__(self, table: Table) -> None:
        self.table = table

    def create(
        self,
        webhook_id: str,
        content: Mapping[str, Value],
        cursors: Mapping[str, LogCursor],
        caller: Caller,
        now: int,
        once: IdempotentRequest | None = None,
    ) -> dict[str, Any]:
        """Create a webhook for the caller, and return its document, including the `generation` of its secret.

        `content` has `url`, `types`, `paused`, and optionally `follows` and `description`. `cursors` has the position
        in each log at which deliveries start. With `once`, a repeated request returns the first result. The caller of
        this method must first check the subscription with `require_following`. Raises LimitReached.
        """
        key = WEBHOOK.key(webhookId=webhook_id)
        created = {"webhookId": webhook_id, "userId": caller.subject, "createdAt": now, "generation": 1}
        item = cast("Webhook", {**content, **key, **created})
        indexed: Webhook = {**item, **webhook_index_position(item)}
        hook = with_version(indexed, caller, now, version=1)
        state = first_state(webhook_id, cursors)
        if not hook["paused"]:
            state = as_due(state, now)
        below = Expression.of("attribute_not_exists(#ids) OR size(#ids) < :most", most=MAX_WEBHOOKS)
        writes = [
            self.table.put(hook, condition=ABSENT),
            self.table.put(state, condition=ABSENT),
            self._listed("ADD", webhook_id, caller.subject, caller, now, below),
        ]
        response = Subscription(hook, state).document(now) | {"generation": hook["generation"]}
        try:
            return carry_out(self.table, writes, hook, response, once, resource=_NOUN)
        except ConditionFailed as failure:
            raise LimitReached.full(f"You already have {MAX_WEBHOOKS} webhooks") from failure

    def read(self, webhook_id: str) -> Subscription | None:
        """Return a webhook and its delivery state by consistent reads; `None` if the webhook does not exist."""
        return next(iter(self._read_all([webhook_id])), None)

    def read_for(self, webhook_id: str, caller: Caller) -> Subscription:
        """Return a webhook that the caller owns, with its delivery state, by consistent reads. Raises NotFound."""
        followed = self.read(webhook_id)
        if followed is None or not caller.owns(followed.hook["userId"]):
            raise NotFound.of("webhook")
        return followed

    def list_for_user(self, user_id: str) -> list[Subscription]:
        """Return all webhooks of a user by consistent reads, newest first."""
        listed = self.table.get(WEBHOOKS.key(userId=user_id), attributes=("ids",), consistent=True) or {}
        ids: Collection[str] = listed.get("ids", ())
        return sorted(self._read_all(ids), key=_position, reverse=True)

    def list_owned(self, user_id: str, *, limit: int, after: Position | None = None) -> Page[Subscription]:
        """Return a page of a user's webhooks, newest first. Reads all webhooks of the user, at most MAX_WEBHOOKS."""
        remaining = [webhook for webhook in self.list_for_user(user_id) if after is None or _position(webhook) < after]
        return Page(remaining[:limit], _position(remaining[limit - 1]) if len(remaining) > limit else None)

    def list_following(self, user_id: str | None, *, limit: int, after: Position | None = None) -> Page[Subscription]:
        """Return a page of active webhooks that subscribe to the changes of one user or, with `None`, of all users.

        The newest webhooks are first. The index lags by about a second. A page may have fewer webhooks than `limit`,
        because it omits webhooks that were just deleted or paused.
        """
        window = Window(0, LAST_SECOND + 1, limit=limit, after=after)
        entries = Lists(self.table).related(single_partition(follower_relation(user_id)), window)
        ids = dict.fromkeys(entry["relId"] for entry in entries.items)
        return Page([webhook for webhook in self._read_all(ids) if not webhook.hook["paused"]], entries.resume)

    def change(
        self, webhook_id: str, patch: Mapping[str, Value], caller: Caller, now: int, matches: Callable[[int], bool]
    ) -> dict[str, Any]:
        """Apply a JSON Merge Patch to a webhook of the caller and return its document.

        A change of the URL or types, or the end of a pause, resets the webhook's failures and schedules a delivery.
        `matches` is the If-Match condition on the version; a mismatch raises VersionMismatch. Raises Forbidden if the
        caller may not, or may no longer, subscribe to the changes that the webhook receives.
        """

        def plan(hook: "Webhook") -> "Webhook":
            changed = cast("Webhook", {"types": [], **merge_patch(hook, patch)})
            return changed if changed["paused"] == hook["paused"] else without(changed, "pausedBecause")

        return self._revise(webhook_id, caller, now, plan, matches)

    def replay(
        self,
        webhook_id: str,
        cursors: Mapping[str, LogCursor],
        caller: Caller,
        now: int,
        matches: Callable[[int], bool],
    ) -> dict[str, Any]:
        """Move a webhook of the caller to other log positions, and return its document. A paused webhook stays paused.

        Raises the errors of `change`.
        """
        return self._revise(webhook_id, caller, now, lambda hook: hook, matches, cursors=cursors)

    def rotate(
        self,
        webhook_id: str,
        caller: Caller,
        now: int,
        matches: Callable[[int], bool],
        once: IdempotentRequest | None = None,
    ) -> dict[str, Any]:
        """Replace the secret of a webhook of the caller. Return the webhook's document, including the `generation` of
        the new secret.

        With `once`, a repeated request returns the first result. Raises the errors of `change`.
        """

        def plan(hook: "Webhook") -> "Webhook":
            return hook | {"generation": hook["generation"] + 1, "rotatedAt": now}

        return self._revise(webhook_id, caller, now, plan, matches, once=once, shows_generation=True)

    def delete(self, webhook_id: str, caller: Caller, now: int, matches: Callable[[int], bool]) -> None:
        """Delete a webhook of the caller. Its stored delivery attempts expire within a week.

        `matches` is the If-Match condition on the version; a mismatch raises VersionMismatch.
        """

        def attempt(_: Item | None) -> None:
            hook = self.read_for(webhook_id, caller).hook
            _check_version(hook, matches)
            writes = [
                self.table.remove(WEBHOOK.key(webhookId=webhook_id), condition=at_version(hook)),
                self.table.remove(WEBHOOK_STATE.key(webhookId=webhook_id)),
                self._listed("DELETE", webhook_id, hook["userId"], caller, now),
            ]
            try:
                self.table.transact(writes)
            except ConditionFailed as failure:
                # Without an item, the webhook is already deleted: by another request, or by an earlier attempt whose
                # response was lost.
                if failure.item is not None:
                    raise

        retry_on_conflict(attempt, _NOUN, pause=self.table.pause)

    def _revise(
        self,
        webhook_id: str,
        caller: Caller,
        now: int,
        plan: "Callable[[Webhook], Webhook]",
        matches: Callable[[int], bool],
        *,
        cursors: Mapping[str, LogCursor] | None = None,
        once: IdempotentRequest | None = None,
        shows_generation: bool = False,
    ) -> dict[str, Any]:
        """Change a webhook of the caller with `plan`, and optionally move it to the log positions in `cursors`.

        Returns the webhook's document, which with `shows_generation` includes the secret's `generation`. Writes nothing
        if nothing changes.
        """
        key, write_id = WEBHOOK.key(webhookId=webhook_id), new_write_id()

        def attempt(_: Item | None) -> dict[str, Any]:
            followed = self.read_for(webhook_id, caller)
            # The stored response is read after the webhook: see VideoStore.change.
            if response := find_stored_response(self.table, once):
                return response
            hook, state = followed.hook, followed.state
            _check_version(hook, matches)
            new = plan(hook)
            if cursors is None and not change_between(hook, new).text:
                return followed.document(now)
            if not new["paused"]:
                require_following(new.get("follows"), caller)
            new = {**without(new, *INDEXED), **webhook_index_position(new)}
            new = with_version(new, caller, now, version=hook["version"] + 1, write_id=write_id)
            writes = [self.table.update(key, change_between(hook, new), condition=at_version(hook))]
            if cursors is not None or _delivered_by(new) != _delivered_by(hook):
                changed, removed = _state_changes(webhook_id, now, paused=new["paused"], cursors=cursors)
                state_change = change_between(dict.fromkeys(removed), changed) + Expression.of("ADD #turn :one", one=1)
                # This write has no condition, because a worker may write the delivery state at any time. The condition
                # on the webhook suffices.
                writes.append(self.table.update(WEBHOOK_STATE.key(webhookId=webhook_id), state_change))
                state = {**without(state, *removed), **changed}
            response = Subscription(new, state).document(now)
            if shows_generation:
                response["generation"] = new["generation"]
            return carry_out(self.table, writes, new, response, once, resource=_NOUN)

        return retry_on_conflict(attempt, _NOUN, pause=self.table.pause)

    def _read_all(self, webhook_ids: Iterable[str]) -> list[Subscription]:
        """Return the existing webhooks with these ids by consistent reads, in the order of the ids. The ids must be
        distinct."""
        keys = [entity.key(webhookId=webhook_id) for webhook_id in webhook_ids for entity in (WEBHOOK, WEBHOOK_STATE)]
        read: list[Any] = self.table.get_all(keys, consistent=True)
        return [Subscription(hook, state) for hook, state in zip(read[::2], read[1::2], strict=True) if hook and state]

    def _listed(
        self, how: str, webhook_id: str, user_id: str, caller: Caller, now: int, condition: Expression | None = None
    ) -> Write:
        """Return the write that adds a webhook to a user's list of webhooks (`ADD`) or removes it from the list
        (`DELETE`)."""
        change = Expression.of(f"{how} #ids :ids", ids={webhook_id}) + signing({}, caller, now)
        return self.table.update(WEBHOOKS.key(userId=user_id), change, condition=condition)


def _position(followed: Subscription) -> Position:
    return Position(followed.hook["createdAt"], followed.hook["webhookId"])


def require_following(user_id: str | None, caller: Caller) -> None:
    """Raise Forbidden if the caller may not subscribe to the changes of this user or, with `None`, of all users."""
    if user_id != caller.subject and not caller.may_follow_all:
        raise Forbidden.scopes(CHANGES, ADMIN, advice="Omit userId.")


def _state_changes(
    webhook_id: str, now: int, *, paused: bool, cursors: Mapping[str, LogCursor] | None
) -> "tuple[DeliveryRestart, Sequence[str]]":
    """Return the attributes to set in the delivery state, and the names of the attributes to remove, after a change of
    the webhook.

    A worker that is sending keeps its lease, and continues from the new state. Therefore no other worker sends
    concurrently.
    """
    changed: DeliveryRestart = {}
    if not paused:
        changed = {**changed, **due(webhook_id, now), "nextAttemptAt": now}
    removed = [*WAITING] if paused else []
    if not paused or cursors is not None:
        removed += ["failures", "failingSince", "tried"]
    if cursors is not None:
        changed["places"] = encode_cursors(cursors)
        removed += ["delivered", "oldestWaiting", "caughtUpAt"]
    return changed, removed


def _check_version(hook: "Webhook", matches: Callable[[int], bool]) -> None:
    if not matches(hook["version"]):
        raise VersionMismatch(
            f'The webhook is at version {hook["version"]}; If-Match takes its ETag, or "{hook["version"]}".'
        )
