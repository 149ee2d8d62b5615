"""boto3's clients: the references for shared/aws/client.py. That of DynamoDB, which the tools use because they need more
operations, is tuned where bench/client.py shows that it pays.

A fixed user agent, no client-side parameter validation (the stores build the parameters), and a response parser that takes
DynamoDB's JSON as it is instead of walking it shape by shape.
"""

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.parsers import JSONParser, ResponseParser, ResponseParserFactory

from shared.core.deadline import CONNECT_SECONDS, READ_SECONDS

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_secretsmanager import SecretsManagerClient


class _PlainParser(JSONParser):
    """Hands out the body as json.loads makes it. Binary values stay base64: shared/core/attributes.py decodes them."""

    def _handle_json_body(self, raw_body: bytes, shape: object) -> Any:
        return json.loads(raw_body) if raw_body else {}


class _PlainParserFactory(ResponseParserFactory):
    def create_parser(self, protocol_name: str) -> ResponseParser:
        return _PlainParser() if protocol_name == "json" else super().create_parser(protocol_name)


@cache
def _session() -> botocore.session.Session:
    """One session, because the service's model is parsed once for each."""
    session = botocore.session.get_session()
    session.register_component("response_parser_factory", _PlainParserFactory())
    return session


def make_client() -> "DynamoDBClient":
    """A DynamoDB client that tries once: Table tries again, as it knows what may be repeated.

    Its time-outs are those of shared/core/deadline.py.
    """
    return boto3.Session(botocore_session=_session()).client(
        "dynamodb",
        config=Config(
            user_agent="video-metadata",
            parameter_validation=False,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": 1},
            max_pool_connections=16,
        ),
    )


def make_secrets_client() -> "SecretsManagerClient":
    """A Secrets Manager client that tries once, as secret_reader in shared/web/cursors.py tries again."""
    return boto3.client(
        "secretsmanager",
        config=Config(
            user_agent="video-metadata",
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": 1},
        ),
    )
