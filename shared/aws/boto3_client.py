"""Clients of boto3 and botocore.

`boto3_client` creates the clients of background functions and tools. `botocore_client` creates the same clients without
loading boto3. HTTP functions that sign URLs, read objects or send messages use it, because it shortens their cold
start.

With the environment variable DYNAMODB_CLIENT=boto3, boto3's DynamoDB client replaces the lean client. Three settings
make boto3's client faster (measured by bench/client.py):

- a fixed user agent,
- no client-side validation of parameters, because the stores build them,
- a response parser that returns DynamoDB's JSON unchanged, without traversing it shape by shape.
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
    """Parser that returns a response's JSON unchanged. Binary values remain base64; shared/core/attributes.py decodes them."""

    def _handle_json_body(self, raw_body: bytes, shape: object) -> Any:
        return json.loads(raw_body) if raw_body else {}


class _PlainParserFactory(ResponseParserFactory):
    def create_parser(self, protocol_name: str) -> ResponseParser:
        return _PlainParser() if protocol_name == "json" else super().create_parser(protocol_name)


@cache
def session() -> botocore.session.Session:
    """Return the botocore session that all clients from `botocore_client` share.

    The session is cached, because each new session would parse the endpoints and service models again.
    """
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
    from boto3 import Session  # HTTP functions do not load boto3

    return Session(botocore_session=session)


def botocore_client(service: str, config: Config) -> Any:
    """Return botocore's client of a service, such as `s3`, without loading boto3."""
    return session().create_client(service, config=config)


def boto3_client(service: str, config: Config) -> Any:
    """Return boto3's client of a service, such as `s3`."""
    return _boto3_session().client(service, config=config)


def make_client() -> "DynamoDBClient":
    """Return boto3's client of DynamoDB, with the time-outs of shared/core/deadline.py.

    The client makes one attempt. `Table` retries instead, because it can decide which requests are safe to repeat.
    """
    config = _ONE_ATTEMPT.merge(Config(parameter_validation=False, max_pool_connections=16))
    return cast("DynamoDBClient", _plain_session().client("dynamodb", config=config))


def make_secrets_client() -> "SecretsManagerClient":
    """Return boto3's client of Secrets Manager. The client makes one attempt, because `secret_reader` retries."""
    return cast("SecretsManagerClient", boto3_client("secretsmanager", _ONE_ATTEMPT))


def make_events_client() -> Any:
    """Return boto3's client of EventBridge. The client makes one attempt, because the webhook worker retries deliveries."""
    return boto3_client("events", _ONE_ATTEMPT)


def make_athena_client() -> Any:
    """Return botocore's client of Athena. The client makes one attempt of at most 6 seconds, because callers retry."""
    config = Config(user_agent="video-metadata", connect_timeout=1, read_timeout=5)
    return botocore_client("athena", config.merge(Config(retries={"mode": "standard", "total_max_attempts": 1})))
