"""HTTP API of webhooks: subscriptions, their secrets, and the log of their deliveries."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from shared.aws.runtime import EntryPoint, Resources
from shared.core.caller import EVERYBODY
from shared.core.errors import Forbidden, InvalidParameter, Unavailable, invalid_field
from shared.core.settings import Settings
from shared.core.telemetry import service_logger
from shared.feed.log import DAYS_KEPT, Feed, owner_log, shard_logs
from shared.queries import ListDeliveries, ListWebhooks
from shared.web.cursors import Cursors
from shared.web.http import http_function, operation
from shared.web.paging import Paginator
from shared.web.parameters import uuid_of
from shared.web.requests import JSON, MERGE_PATCH, Request
from shared.web.responses import HttpResponse, no_content, respond
from shared.webhooks import http_client
from shared.webhooks.address import find_fault
from shared.webhooks.attempt import attempt_document, is_accepted
from shared.webhooks.delivery_state import DeliveryStateStore
from shared.webhooks.event import event_body, event_headers, test_change
from shared.webhooks.signing import encode_secret, secret_of
from shared.webhooks.store import DELIVERED_BY, WebhookStore, require_following, secrets_of

INDEX_SECONDS = 5
"""Seconds after which the worker first checks a new webhook for changes.

A change causes messages only for webhooks that are in the index, and a new webhook may be missing from the index for
some seconds. The check finds the changes of these seconds that caused no message.
"""

Send = Callable[..., http_client.ReceiverResponse]
"""Function that sends an HTTP request to a receiver, such as `http_client.send`."""


class WebhooksSettings(Settings):
    audit_table_name: str
    cursor_secret_arn: str
    webhook_secret_arn: str
    deliveries_queue_url: str
    webhook_local: bool = False
    """Whether the URLs of webhooks may refer to this machine and use plain HTTP. True only in a service on a laptop."""


class WebhookHandlers:
    """Handlers of the operations on webhooks. One instance serves all requests, so its attributes contain no data of a
    single request."""

    def __init__(self, settings: WebhooksSettings, resources: Resources, send: Send = http_client.send) -> None:
        self.store = WebhookStore(resources.table(settings.table_name))
        self.states = DeliveryStateStore(self.store.table)
        self.feed = Feed(resources.table(settings.audit_table_name), resources.clock)
        self.pages = Paginator(Cursors(resources.secret(settings.cursor_secret_arn)))
        self.master = cache(resources.secret(settings.webhook_secret_arn))
        self.queue = cache(lambda: resources.queue(settings.deliveries_queue_url))
        """Function that returns the client of the queue. The first call creates the client and loads botocore. Few
        requests send messages, so most instances never need the client."""
        self.local = settings.webhook_local
        self.send = send

    @operation("createWebhook")
    def create(self, request: Request) -> HttpResponse:
        """POST /v1/webhooks"""
        from shared.webhooks.models import NewWebhook

        body = NewWebhook.parse(request.content(JSON))
        self._check_url(body.url)
        content = body.model_dump(exclude_none=True, exclude={"userId"})
        if body.userId != EVERYBODY:
            content["follows"] = body.userId or request.caller.subject
        require_following(content.get("follows"), request.caller)
        once = request.once(content)
        cursors = {log: self.feed.end(log) for log in _logs_of(content)}
        document = self.store.create(str(uuid.uuid4()), content, cursors, request.caller, request.now, once)
        self._notify(document, INDEX_SECONDS)
        # Relative to /v1/webhooks, so that the URL is also valid behind a proxy with another path prefix.
        return self._with_secret(201, document, {"Location": f"webhooks/{document['webhookId']}"})

    @operation("listWebhooks")
    def list(self, request: Request) -> HttpResponse:
        """GET /v1/webhooks"""
        query = request.parameters(ListWebhooks)
        owner, follows = query.user_id or request.caller.subject, query.follows
        if query.user_id is not None and follows is not None:
            raise InvalidParameter.named("follows", "must not be given together with `userId`")
        page_request = self.pages.request_page(request, query, "webhooks", owner, follows)
        if not request.caller.is_admin and (follows is not None or not request.caller.owns(owner)):
            raise Forbidden(
                "Only admins may list the webhooks of other users. Omit userId and follows to list your own."
            )
        if follows is None:
            page = self.store.list_owned(owner, limit=page_request.limit, after=page_request.after)
        else:
            user_id = None if follows == EVERYBODY else follows
            page = self.store.list_following(user_id, limit=page_request.limit, after=page_request.after)
        return page_request.respond([followed.document(request.now) for followed in page.items], page.resume)

    @operation("getWebhook")
    def read(self, request: Request) -> HttpResponse:
        """GET /v1/webhooks/{webhookId}"""
        document = self.store.read_for(_webhook_id(request), request.caller).document(request.now)
        return respond(200, document, request=request, version=document["version"])

    @operation("patchWebhook")
    def patch(self, request: Request) -> HttpResponse:
        """PATCH /v1/webhooks/{webhookId}"""
        from shared.webhooks.models import WebhookPatch

        patch = WebhookPatch.parse(request.content(MERGE_PATCH, JSON)).model_dump(exclude_unset=True)
        if "url" in patch:
            self._check_url(patch["url"])
        document = self.store.change(_webhook_id(request), patch, request.caller, request.now, request.matches)
        if not patch.keys().isdisjoint(DELIVERED_BY):
            self._notify(document)
        return respond(200, document, version=document["version"])

    @operation("deleteWebhook")
    def delete(self, request: Request) -> HttpResponse:
        """DELETE /v1/webhooks/{webhookId}"""
        self.store.delete(_webhook_id(request), request.caller, request.now, request.matches)
        return no_content()

    @operation("rotateSecret")
    def rotate(self, request: Request) -> HttpResponse:
        """POST /v1/webhooks/{webhookId}/rotate"""
        request.require_no_content()
        webhook_id = _webhook_id(request)
        once = request.once(webhook_id)
        return self._with_secret(200, self.store.rotate(webhook_id, request.caller, request.now, request.matches, once))

    @operation("replayWebhook")
    def replay(self, request: Request) -> HttpResponse:
        """POST /v1/webhooks/{webhookId}/replay"""
        from shared.webhooks.models import Replay

        start = Replay.parse(request.content(JSON)).start
        if not request.now - DAYS_KEPT * 86_400 <= start <= request.now:
            raise invalid_field("/from", f"must be within the last {DAYS_KEPT} days, not {start}")
        hook = self.store.read_for(_webhook_id(request), request.caller).hook
        cursors = {log: self.feed.at_time(log, start * 1000) for log in _logs_of(hook)}
        document = self.store.replay(hook["webhookId"], cursors, request.caller, request.now, request.matches)
        self._notify(document)
        return respond(200, document, version=document["version"])

    @operation("testWebhook")
    def test(self, request: Request) -> HttpResponse:
        """POST /v1/webhooks/{webhookId}/test"""
        request.require_no_content()
        hook = self.store.read_for(_webhook_id(request), request.caller).hook
        change = test_change(hook["webhookId"], request.now)
        self.states.begin_test(hook["webhookId"], change["id"], request.now)
        body = event_body(change)
        headers = event_headers(change["id"], body, secrets_of(self.master(), hook, request.now), request.now)
        response = self.send(hook["url"], headers, body, local=self.local)
        return respond(200, {"id": change["id"], "delivered": is_accepted(response), **attempt_document(response)})

    @operation("listDeliveries")
    def list_deliveries(self, request: Request) -> HttpResponse:
        """GET /v1/webhooks/{webhookId}/deliveries"""
        query, webhook_id = request.parameters(ListDeliveries), _webhook_id(request)
        page_request = self.pages.request_page(request, query, "deliveries", webhook_id)
        self.store.read_for(webhook_id, request.caller)
        attempts = self.states.attempts(webhook_id, request.now, limit=page_request.limit, after=page_request.after)
        return page_request.respond(attempts.items, attempts.resume)

    def _check_url(self, url: str) -> None:
        fault = find_fault(url, local=self.local)
        if fault:
            raise invalid_field("/url", fault)

    def _with_secret(
        self, status: int, document: dict[str, Any], headers: dict[str, str] | None = None
    ) -> HttpResponse:
        """Return the response with the webhook and its secret.

        The secret is derived from the webhook's id and `generation`. Therefore idempotency records do not contain the secret.
        """
        generation = document.pop("generation")
        secret = encode_secret(secret_of(self.master(), document["webhookId"], generation))
        return respond(status, {"secret": secret, **document}, version=document["version"], headers=headers)

    def _notify(self, document: dict[str, Any], delay_seconds: int = 0) -> None:
        """Queue a message, so that the delivery worker checks the webhook for changes. A paused webhook needs no
        message."""
        if document["paused"]:
            return
        from shared.processing.messages import deliver_message

        try:
            self.queue().send(deliver_message(document["webhookId"]), delay_seconds)
        except Unavailable as error:
            # The index lists the webhook as due, so the sweeper sends a message within a minute.
            service_logger().warning("message not sent", detail=error.detail, cause=repr(error.__cause__))


def _logs_of(hook: Mapping[str, Any]) -> Sequence[str]:
    """Return the keys of the logs that contain a webhook's changes: the log of one owner, or the shard logs, which
    together contain all changes."""
    return (owner_log(hook["follows"]),) if "follows" in hook else shard_logs()


def _webhook_id(request: Request) -> str:
    return uuid_of("webhookId", request.path["webhookId"])


lambda_handler = EntryPoint(
    WebhooksSettings,
    http_function(WebhookHandlers),
    preload=("nacl.secret", "shared.processing.messages", "shared.webhooks.models"),
)
