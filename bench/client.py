"""Our DynamoDB client against boto3's as it comes, without a network: `python -m bench.client`."""

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from bench.codec import ITEM
from bench.measure import compare
from shared.aws.dynamodb import make_client
from shared.core.attributes import encode_item

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}

KEY: Any = encode_item({"pk": ITEM["pk"], "sk": ITEM["sk"]})
ENCODED: Any = encode_item(ITEM)


class Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        """The body in one piece."""
        yield self._body


def answering(client: Any) -> Any:
    """The client, with canned answers in place of the network."""
    bodies = {
        "GetItem": json.dumps({"Item": ENCODED}).encode(),
        "PutItem": b"{}",
        "Query": json.dumps({"Items": [ENCODED] * 50, "Count": 50, "ScannedCount": 50}).encode(),
    }

    def answer(request: Any, **_: Any) -> AWSResponse:
        target = request.headers["X-Amz-Target"]
        operation = (target.decode() if isinstance(target, bytes) else target).rpartition(".")[2]
        raw: Any = Raw(bodies[operation])
        return AWSResponse("https://dynamodb", 200, HTTPHeaders(), raw)

    client.meta.events.register("before-send.dynamodb", answer)
    return client


def main() -> None:
    """Print the ratios."""
    plain, ours = answering(boto3.client("dynamodb")), answering(make_client())
    query: Any = {
        "TableName": "T",
        "KeyConditionExpression": "#u = :u",
        "ExpressionAttributeNames": {"#u": "userId"},
        "ExpressionAttributeValues": {":u": {"S": "alice"}},
    }
    requests: dict[str, tuple[int, Callable[[Any], object]]] = {
        "GetItem": (20, lambda client: client.get_item(TableName="T", Key=KEY)),
        "PutItem": (20, lambda client: client.put_item(TableName="T", Item=ENCODED)),
        "Query of 50 items": (5, lambda client: client.query(**query)),
    }
    for title, (calls, request) in requests.items():
        variants = {
            "boto3.client": partial(request, plain),
            "shared.aws.dynamodb.make_client": partial(request, ours),
        }
        compare(title, variants, calls=calls)


if __name__ == "__main__":
    main()
