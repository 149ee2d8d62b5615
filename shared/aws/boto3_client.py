"""boto3's clients, made by botocore as boto3 makes them: those of S3 and SQS, and the references for shared/aws/lean/client.py.

boto3 itself adds resources and transfers of files, which no function uses: it is neither packaged nor loaded. The tools use the
client of DynamoDB too, as they need more operations. It is tuned where bench/client.py shows that it pays.

A fixed user agent, no client-side parameter validation (the stores build the parameters), and a response parser that takes
DynamoDB's JSON as it is instead of walking it shape by shape.
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


class _PlainParser(JSONParser):
    """Hands out the body as json.loads makes it. Binary values stay base64: shared/core/attributes.py decodes them."""

    def _handle_json_body(self, raw_body: bytes, shape: object) -> Any:
        return json.loads(raw_body) if raw_body else {}


class _PlainParserFactory(ResponseParserFactory):
    def create_parser(self, protocol_name: str) -> ResponseParser:
        return _PlainParser() if protocol_name == "json" else super().create_parser(protocol_name)


@cache
def session() -> botocore.session.Session:
    """One session, because endpoints and models are parsed once for each."""
    return botocore.session.get_session()


@cache
def _plain_session() -> botocore.session.Session:
    session = botocore.session.get_session()
    session.register_component("response_parser_factory", _PlainParserFactory())
    return session


def make_client() -> "DynamoDBClient":
    """A DynamoDB client that tries once: Table tries again, as it knows what may be repeated.

    Its time-outs are those of shared/core/deadline.py.
    """
    client = _plain_session().create_client(
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
    return cast("DynamoDBClient", client)


def make_secrets_client() -> "SecretsManagerClient":
    """A Secrets Manager client that tries once, as secret_reader in shared/aws/secrets.py tries again."""
    client = session().create_client(
        "secretsmanager",
        config=Config(
            user_agent="video-metadata",
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": 1},
        ),
    )
    return cast("SecretsManagerClient", client)
