"""Webhooks: where changes are sent, by whose wish, and what their receivers answered."""

import time
import uuid
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from shared.aws.dynamodb import Table, make_client
from shared.core.attributes import Item
from shared.core.caller import EVERYBODY
from shared.core.errors import Forbidden, InvalidContent, InvalidParameter, Unavailable
from shared.core.settings import (
    LambdaHandler,
    audit_table_name,
    cursor_secret_arn,
    deliveries_queue_url,
    entry_point,
    table_name,
    webhook_local,
    webhook_secret_arn,
)
from shared.core.telemetry import service_logger
from shared.feed.log import DAYS_KEPT, Feed, owner_log, shard_logs
from shared.queries import ListDeliveries, ListWebhooks
from shared.web.answers import Answer, no_content, respond
from shared.web.cursors import Cursors, secret_reader
from shared.web.http import Handler
from shared.web.http import make_handler as make_http_handler
from shared.web.paging import Pages
from shared.web.parameters import uuid_of
from shared.web.requests import JSON, MERGE_PATCH, Request
from shared.webhooks import sending
from shared.webhooks.address import fault_of
from shared.webhooks.attempt import is_taken, shown
from shared.webhooks.event import body_of, headers_of, test_change
from shared.webhooks.places import PlaceStore
from shared.webhooks.signing import secret_of, spelled
from shared.webhooks.store import DELIVERED_BY, WebhookStore, require_following, secrets_of

if TYPE_CHECKING:
    from shared.aws.sqs import Queue  # botocore, which only messages need

INDEX_SECONDS = 5
"""After how long a new webhook is looked at: what changed before that may have been told to those only who stood in the index."""

Send = Callable[..., sending.Answer]
"""What `sending.send` is."""
Wake = Callable[[str, int], None]
"""Sends the worker a message about a webhook, with a delay in seconds; raises Unavailable."""


class Webhooks:
    """The handlers, one for each operation."""

    def __init__(
        self,
        store: WebhookStore,
        feed: Feed,
        pages: Pages,
        read_master: Callable[[], str],
        wake: Wake,
        *,
        local: bool,
        send: Send,
    ) -> None:
        self.store = store
        self.places = PlaceStore(store.table)
        self.feed = feed
        self.pages = pages
        self.master = cache(read_master)
        self.wake = wake
        self.local = local
        self.send = send

    def handlers(self) -> dict[str, Handler]:
        """The handlers by operation."""
        return {
            "createWebhook": self.create,
            "listWebhooks": self.list,
            "getWebhook": self.read,
            "patchWebhook": self.patch,
            "deleteWebhook": self.delete,
            "rotateSecret": self.rotate,
            "replayWebhook": self.replay,
            "testWebhook": self.test,
            "listDeliveries": self.list_deliveries,
        }

    def create(self, request: Request) -> Answer:
        """POST /v1/webhooks"""
        from shared.webhooks.models import NewWebhook

        wanted = NewWebhook.parse(request.content(JSON))
        self._check_url(wanted.url)
        content = wanted.model_dump(exclude_none=True, exclude={"userId"})
        if wanted.userId != EVERYBODY:
            content["follows"] = wanted.userId or request.caller.subject
        require_following(content.get("follows"), request.caller)
        once = request.once(content)
        places = {log: self.feed.end(log) for log in _logs_of(content)}
        document = self.store.create(str(uuid.uuid4()), content, places, request.caller, request.now, once)
        self._wake(document, INDEX_SECONDS)
        # Relative to /v1/webhooks, so that it holds behind a proxy that serves it below another path.
        return self._with_secret(201, document, {"Location": f"webhooks/{document['webhookId']}"})

    def list(self, request: Request) -> Answer:
        """GET /v1/webhooks"""
        query = request.parameters(ListWebhooks)
        owner, follows = query.user_id or request.caller.subject, query.follows
        if query.user_id is not None and follows is not None:
            raise InvalidParameter.named("follows", "must not be given together with `userId`")
        asked = self.pages.asked(request, query, "webhooks", owner, follows)
        if not request.caller.is_admin and (follows is not None or not request.caller.owns(owner)):
            raise Forbidden("Only admins see the webhooks of others.")
        if follows is None:
            page = self.store.owned(owner, limit=asked.limit, after=asked.after)
        else:
            whose = None if follows == EVERYBODY else follows
            page = self.store.following(whose, limit=asked.limit, after=asked.after)
        return asked.answer([followed.document(request.now) for followed in page.items], page.resume)

    def read(self, request: Request) -> Answer:
        """GET /v1/webhooks/{webhookId}"""
        document = self.store.read_for(_webhook_id(request), request.caller).document(request.now)
        return respond(200, document, request=request, version=document["version"])

    def patch(self, request: Request) -> Answer:
        """PATCH /v1/webhooks/{webhookId}"""
        from shared.webhooks.models import WebhookPatch

        patch = WebhookPatch.parse(request.content(MERGE_PATCH, JSON)).model_dump(exclude_unset=True)
        if "url" in patch:
            self._check_url(patch["url"])
        document = self.store.change(_webhook_id(request), patch, request.caller, request.now, request.matches)
        if not patch.keys().isdisjoint(DELIVERED_BY):
            self._wake(document)
        return respond(200, document, version=document["version"])

    def delete(self, request: Request) -> Answer:
        """DELETE /v1/webhooks/{webhookId}"""
        self.store.delete(_webhook_id(request), request.caller, request.now, request.matches)
        return no_content()

    def rotate(self, request: Request) -> Answer:
        """POST /v1/webhooks/{webhookId}/rotate"""
        request.require_no_content()
        webhook_id = _webhook_id(request)
        once = request.once(webhook_id)
        return self._with_secret(200, self.store.rotate(webhook_id, request.caller, request.now, request.matches, once))

    def replay(self, request: Request) -> Answer:
        """POST /v1/webhooks/{webhookId}/replay"""
        from shared.webhooks.models import Replay

        start = Replay.parse(request.content(JSON)).start
        if not request.now - DAYS_KEPT * 86_400 <= start <= request.now:
            raise _invalid("/from", f"must not be in the future, nor more than {DAYS_KEPT} days ago")
        hook = self.store.read_for(_webhook_id(request), request.caller).hook
        places = {log: self.feed.at_time(log, start * 1000) for log in _logs_of(hook)}
        document = self.store.replay(hook["webhookId"], places, request.caller, request.now, request.matches)
        self._wake(document)
        return respond(200, document, version=document["version"])

    def test(self, request: Request) -> Answer:
        """POST /v1/webhooks/{webhookId}/test"""
        request.require_no_content()
        hook = self.store.read_for(_webhook_id(request), request.caller).hook
        change = test_change(hook["webhookId"], request.now)
        self.places.begin_test(hook["webhookId"], change["id"], request.now)
        body = body_of(change)
        headers = headers_of(change["id"], body, secrets_of(self.master(), hook, request.now), request.now)
        answer = self.send(hook["url"], headers, body, local=self.local)
        return respond(200, {"id": change["id"], "delivered": is_taken(answer), **shown(answer)})

    def list_deliveries(self, request: Request) -> Answer:
        """GET /v1/webhooks/{webhookId}/deliveries"""
        query, webhook_id = request.parameters(ListDeliveries), _webhook_id(request)
        asked = self.pages.asked(request, query, "deliveries", webhook_id)
        self.store.read_for(webhook_id, request.caller)
        attempts = self.places.attempts(webhook_id, request.now, limit=asked.limit, after=asked.after)
        return asked.answer(attempts.items, attempts.resume)

    def _check_url(self, url: str) -> None:
        fault = fault_of(url, local=self.local)
        if fault:
            raise _invalid("/url", fault)

    def _with_secret(self, status: int, document: dict[str, Any], headers: dict[str, str] | None = None) -> Answer:
        """The answer that shows a secret: it is derived, also when the document is that of an earlier time."""
        generation = document.pop("generation")
        secret = spelled(secret_of(self.master(), document["webhookId"], generation))
        return respond(status, {"secret": secret, **document}, version=document["version"], headers=headers)

    def _wake(self, document: dict[str, Any], delay_seconds: int = 0) -> None:
        """Let the worker deliver, unless the webhook is paused."""
        if document["paused"]:
            return
        try:
            self.wake(document["webhookId"], delay_seconds)
        except Unavailable as error:
            # It is due in the table, so the sweeper wakes the worker within a minute.
            service_logger().warning("message not sent", detail=error.detail, cause=repr(error.__cause__))


def _invalid(pointer: str, detail: str) -> InvalidContent:
    return InvalidContent("1 field is not valid.", errors=[{"pointer": pointer, "detail": detail}])


def _logs_of(hook: Item) -> Sequence[str]:
    """The logs that a webhook follows."""
    return (owner_log(hook["follows"]),) if "follows" in hook else shard_logs()


def _webhook_id(request: Request) -> str:
    return uuid_of("webhookId", request.path["webhookId"])


def make(
    store: WebhookStore,
    feed: Feed,
    cursors: Cursors,
    read_master: Callable[[], str],
    wake: Wake,
    clock: Callable[[], float] = time.time,
    *,
    local: bool = False,
    send: Send = sending.send,
) -> LambdaHandler:
    """The handler over a store and the feed; `clock` gives epoch seconds, `read_master` what secrets are derived from.

    `local` also allows webhooks to this machine, and plain http.
    """
    webhooks = Webhooks(store, feed, Pages(cursors), read_master, wake, local=local, send=send)
    return make_http_handler("webhooks", webhooks.handlers(), clock)


def _waking(url: str) -> Wake:
    """What sends messages to a queue. Its client is made with the first of them, as few requests send one."""

    @cache
    def queue() -> "Queue":
        from shared.aws.sqs import Queue, make_client

        return Queue(url, make_client())

    def wake(webhook_id: str, delay_seconds: int) -> None:
        from shared.films.messages import deliver_message

        queue().send(deliver_message(webhook_id), delay_seconds)

    return wake


def _deployed() -> LambdaHandler:
    client = make_client()
    return make(
        WebhookStore(Table(table_name(), client)),
        Feed(Table(audit_table_name(), client)),
        Cursors(secret_reader(cursor_secret_arn())),
        secret_reader(webhook_secret_arn()),
        _waking(deliveries_queue_url()),
        local=webhook_local(),
    )


lambda_handler = entry_point(_deployed, "nacl.secret", "shared.films.messages", "shared.webhooks.models")
