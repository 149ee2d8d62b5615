"""Clients of boto3, and of botocore where a caller waits for a cold start.

`boto3_client` makes the clients of background functions and tools. `botocore_client` makes the same clients without loading boto3,
for the functions that sign URLs, read objects or send messages within a request: boto3 adds resources and file transfers, which
they do not use.

With DYNAMODB_CLIENT=boto3 boto3 also replaces the lean client of DynamoDB. It is tuned where bench/client.py shows that it pays:
a fixed user agent, no client-side parameter validation (the stores build the parameters), and a response parser that returns
DynamoDB's JSON unchanged instead of walking it shape by shape.
"""

import json
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import botocore.session
from botocore.config import Config
from botocore.parsers import JSONParser, ResponseParser, ResponseParserFactory

from shared.core.deadline import CONNECT_SECONDS, READ_SECONDS

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_secretsmanager import SecretsManagerClient


_ONE_ATTEMPT = Config(
    user_agent="video-metadata",
    connect_timeout=CONNECT_SECONDS,
    read_timeout=READ_SECONDS,
    retries={"mode": "standard", "total_max_attempts": 1},
)


class _PlainParser(JSONParser):
    """Hands out the body as json.loads makes it. Binary values stay base64: shared/core/attributes.py decodes them."""

    def _handle_json_body(self, raw_body: bytes, shape: object) -> Any:
        return json.loads(raw_body) if raw_body else {}


class _PlainParserFactory(ResponseParserFactory):
    def create_parser(self, protocol_name: str) -> ResponseParser:
        return _PlainParser() if protocol_name == "json" else super().create_parser(protocol_name)


@cache
def session() -> botocore.session.Session:
    """The session of `botocore_client`: one, because each session parses endpoints and service descriptions again."""
    return botocore.session.get_session()


@cache
def _boto3_session() -> Any:
    return _session_of_boto3(botocore.session.get_session())


@cache
def _plain_session() -> Any:
    session = botocore.session.get_session()
    session.register_component("response_parser_factory", _PlainParserFactory())
    return _session_of_boto3(session)


def _session_of_boto3(session: botocore.session.Session) -> Any:
    from boto3 import Session  # not loaded by functions that answer requests

    return Session(botocore_session=session)


def botocore_client(service: str, config: Config) -> Any:
    """Return a client of a service, without boto3."""
    return session().create_client(service, config=config)


def boto3_client(service: str, config: Config) -> Any:
    """Return boto3's client of a service."""
    return _boto3_session().client(service, config=config)


def make_client() -> "DynamoDBClient":
    """Return boto3's client of DynamoDB. It makes one attempt, because `Table` retries only the requests that are safe to repeat.

    shared/core/deadline.py sets its time-outs.
    """
    config = _ONE_ATTEMPT.merge(Config(parameter_validation=False, max_pool_connections=16))
    return cast("DynamoDBClient", _plain_session().client("dynamodb", config=config))


def make_secrets_client() -> "SecretsManagerClient":
    """Return boto3's client of Secrets Manager, which makes one attempt, because secret_reader retries."""
    return cast("SecretsManagerClient", boto3_client("secretsmanager", _ONE_ATTEMPT))


def make_events_client() -> Any:
    """Return boto3's client of EventBridge, which makes one attempt, because deliveries are retried."""
    return boto3_client("events", _ONE_ATTEMPT)
