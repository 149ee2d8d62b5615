"""What was counted beforehand: how much a user has, and how often tags are used."""

import time
from collections.abc import Callable

from shared.aws.dynamodb import Table, make_client
from shared.core.errors import Forbidden
from shared.core.settings import LambdaHandler, cursor_secret_arn, entry_point, table_name
from shared.upkeep.totals import TotalsStore
from shared.web.answers import Answer, respond
from shared.web.cursors import Cursors, secret_reader
from shared.web.http import Handler
from shared.web.http import make_handler as make_http_handler
from shared.web.paging import Paged, Pages
from shared.web.parameters import user_id_of
from shared.web.requests import Request


class Totals:
    """The handlers, one for each operation."""

    def __init__(self, store: TotalsStore, pages: Pages) -> None:
        self.store = store
        self.pages = pages

    def handlers(self) -> dict[str, Handler]:
        """The handlers by operation."""
        return {
            "listTags": self.tags,
            "getUser": self.user,
        }

    def tags(self, request: Request) -> Answer:
        """GET /v1/tags"""
        asked = self.pages.asked(request, request.parameters(Paged), "tags")
        return asked.answer(*self.store.tags(asked.limit, asked.after))

    def user(self, request: Request) -> Answer:
        """GET /v1/users/{userId}"""
        user_id = user_id_of("userId", _user_id(request))
        if not request.caller.owns(user_id):
            raise Forbidden("The totals are somebody else's.")
        return respond(200, self.store.user(user_id))


def _user_id(request: Request) -> str:
    """The userId of the path. The gateway decodes every escape but `%25`, which stands for a percent sign."""
    sent = request.path["userId"]
    return sent if sent == request.caller.subject else sent.replace("%25", "%")


def make(store: TotalsStore, cursors: Cursors, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over a store; `clock` gives epoch seconds."""
    return make_http_handler("totals", Totals(store, Pages(cursors)).handlers(), clock)


def _deployed() -> LambdaHandler:
    return make(TotalsStore(Table(table_name(), make_client())), Cursors(secret_reader(cursor_secret_arn())))


lambda_handler = entry_point(_deployed, "nacl.secret")
