"""Processor time of three DynamoDB clients over a loopback socket: `python -m bench.client`.

The time includes signing, sending, waiting and parsing. The clients are boto3 with default settings, boto3 as
shared/aws/boto3_client.py configures it, and shared/aws/lean/client.py.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import boto3

from bench.measure import compare
from bench.stub import OWNER, stored, stub
from shared.aws import boto3_client
from shared.aws.lean import client
from shared.core.attributes import encode_item
from shared.schema import USER_INDEX, VIDEO

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


def main() -> None:
    """Measure all clients, and print the ratios of their times."""
    item: Any = encode_item(stored(0))
    key: Any = encode_item(VIDEO.key(videoId=stored(0)["videoId"]))
    query: Any = {
        "TableName": "T",
        "IndexName": USER_INDEX.name,
        "KeyConditionExpression": "#u = :u",
        "ExpressionAttributeNames": {"#u": "userId"},
        "ExpressionAttributeValues": {":u": {"S": OWNER}},
        "Limit": 50,
    }
    requests: dict[str, tuple[int, Callable[[Any], object]]] = {
        "GetItem": (20, lambda client: client.get_item(TableName="T", Key=key)),
        "PutItem": (20, lambda client: client.put_item(TableName="T", Item=item)),
        "Query of 50 items": (5, lambda client: client.query(**query)),
    }
    with stub() as endpoint:
        os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = endpoint
        clients = {
            "boto3.client": boto3.client("dynamodb"),
            "shared.aws.boto3_client": boto3_client.make_client(),
            "shared.aws.lean.client": client.make_client(),
        }
        for title, (calls, request) in requests.items():
            variants = {name: partial(request, client_) for name, client_ in clients.items()}
            compare(title, variants, calls=calls, clock=time.process_time)


if __name__ == "__main__":
    main()
