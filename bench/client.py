"""DynamoDB clients against each other, over a loopback socket with canned answers: `python -m bench.client`.

What is compared is the client's processor time: signing, sending, waiting and parsing. boto3 as it comes, boto3 as
shared/aws/boto3_client.py tunes it, and shared/aws/client.py.
"""

import json
import multiprocessing
import os
import socket
import socketserver
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from bench.codec import ITEM
from bench.measure import compare
from shared.aws import boto3_client, client
from shared.core.attributes import encode_item

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}

KEY: Any = encode_item({"pk": ITEM["pk"], "sk": ITEM["sk"]})
ENCODED: Any = encode_item(ITEM)


def bodies() -> dict[str, bytes]:
    """The canned answer to each operation."""
    return {
        "GetItem": json.dumps({"Item": ENCODED}).encode(),
        "PutItem": b"{}",
        "Query": json.dumps({"Items": [ENCODED] * 50, "Count": 50, "ScannedCount": 50}).encode(),
    }


class _Stub(socketserver.StreamRequestHandler):
    """Answers requests on one connection, until it ends."""

    def handle(self) -> None:
        """Read requests and answer them."""
        canned = bodies()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while self.rfile.readline():
            length, operation = 0, ""
            while line := self.rfile.readline().strip().lower():
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
                elif line.startswith(b"x-amz-target:"):
                    operation = line.rpartition(b".")[2].decode()
            self.rfile.read(length)
            body = next(body for name, body in canned.items() if name.lower() == operation)
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n\r\n"
            self.wfile.write(head.encode() + body)


def _serve(listener: socket.socket) -> None:
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Stub, bind_and_activate=False)
    server.daemon_threads = True
    server.socket.close()
    server.socket = listener
    server.serve_forever()


@contextmanager
def stub() -> Iterator[str]:
    """The URL of a stand-in for DynamoDB, in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = multiprocessing.get_context("fork").Process(target=_serve, args=(listener,), daemon=True)
        process.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            process.terminate()
            process.join()


class Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        """The body in one piece."""
        yield self._body


def answering(client: Any) -> Any:
    """A client of boto3, with canned answers in place of the network."""
    canned = bodies()

    def answer(request: Any, **_: Any) -> AWSResponse:
        target = request.headers["X-Amz-Target"]
        operation = (target.decode() if isinstance(target, bytes) else target).rpartition(".")[2]
        raw: Any = Raw(canned[operation])
        return AWSResponse("https://dynamodb", 200, HTTPHeaders(), raw)

    client.meta.events.register("before-send.dynamodb", answer)
    return client


def main() -> None:
    """Print the ratios."""
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
    with stub() as endpoint:
        os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = endpoint
        clients = {
            "boto3.client": boto3.client("dynamodb"),
            "shared.aws.boto3_client": boto3_client.make_client(),
            "shared.aws.client": client.make_client(),
        }
        for title, (calls, request) in requests.items():
            variants = {name: partial(request, made) for name, made in clients.items()}
            compare(title, variants, calls=calls, clock=time.process_time)


if __name__ == "__main__":
    main()
