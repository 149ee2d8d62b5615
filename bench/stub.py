"""Server that offers the testbed's DynamoDB stub on loopback, with a generated catalogue.

Benchmarks use the server to measure a client's processor time for signing, sending, waiting and parsing. The server
discards writes, so the same request always gets the same response. It has two tables: the service's table, and the table
of the peers (the other implementations in `bench/peers`) with the key `videoId`.
"""

import json
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from local import ROOT
from local.testbed.stub import Place, Stub
from shared.core.attributes import AttributeMap
from shared.core.caller import Caller
from shared.entities import Video
from shared.schema import VIEW_COUNTER, Attribute, Index
from shared.videos.documents import SUMMARY_FIELDS, document
from shared.videos.entries import tag_entries
from shared.videos.video import new_item, stamp

OWNER = "alice"
NEWEST = 1_750_000_000
"""Creation time of video 0 in epoch seconds. Each video is a minute older than the video before it."""
VIDEOS = 2_000
VIEWS = 4_711
TAGS = ("demo", "launch", "product")
PEERS_TABLE = "Videos"
OURS_ALONE = ("origins", "schemaVersion", "counted", "reason", "windowEnds")
"""Names of the fields that only this service returns, in videos and in responses to views. The peers (the
other implementations of the API) do not return them."""
_FIRST_ID = 0x3F2504E04F8941D39A0C << 48

Json = dict[str, Any]


def video_id(number: int) -> str:
    """Return the id of the video with this number. Video 0 is the newest."""
    return str(uuid.UUID(int=_FIRST_ID + number))


@cache
def stored(number: int) -> Video:
    """Return a video's item as the service stores it."""
    content = {
        "title": f"Product launch, take {number}",
        "description": "How the new product came about, what it does, and who made it. With a demonstration on the stage.",
        "duration": 354_000,
        "fileSize": 48_234_496,
        "format": "mp4",
        "resolution": "1920x1080",
        "videoCodec": "h264",
        "audioCodec": "aac",
        "frameRate": 23.976,
        "resolutions": {name: f"s3://media/renditions/{number}/{name}.mp4" for name in ("1080p", "720p")},
        "tags": list(TAGS),
        "category": "keynotes",
        "releaseYear": 2025,
        "language": "en",
        "visibility": "public",
        "metadata": {"rating": 7.5, "seen": True, "campaign": "spring"},
        "thumbnails": {
            name: {"url": f"https://pictures.example/{number}/{name}.webp", "width": width, "height": width * 9 // 16}
            for name, width in {"small": 320, "large": 1280}.items()
        },
    }
    at = NEWEST - 60 * number
    item = new_item(content, video_id=video_id(number), owner=OWNER, created_at=at, status="ready")
    return stamp(item, caller=Caller(OWNER, frozenset()), now=at, version=3, write_id="0" * 32)


class Frozen(Stub):
    """A stub that processes writes, but discards the results."""

    is_filled = False

    def keep(self, key: Place, item: AttributeMap | None) -> None:
        """Store an item while the stub is being filled. Do nothing after that."""
        if not self.is_filled:
            super().keep(key, item)


@cache
def ours() -> Stub:
    """Return a stub with this service's table: videos with their tags and counters."""
    stub = Frozen()
    for video in map(stored, range(VIDEOS)):
        counter = VIEW_COUNTER.key(videoId=video["videoId"], shard=0) | {"views": VIEWS, "schemaVersion": 3}
        stub.load([video, *tag_entries(video), counter])
    stub.is_filled = True
    return stub


@cache
def peers() -> Stub:
    """Return a stub with the table of the peers (the other implementations in `bench/peers`). It contains the videos of
    `ours`, with `videoId` as key."""
    owner, newest = (Attribute("userId"),), (Attribute("createdAt", "N"), Attribute("videoId"))
    stub = Frozen([Index("by-owner", owner, newest, "the videos of an owner", SUMMARY_FIELDS)], ["videoId"])
    documents = (document(stored(number), VIEWS) for number in range(VIDEOS))
    stub.load({name: value for name, value in whole.items() if name not in OURS_ALONE} for whole in documents)
    stub.is_filled = True
    return stub


def respond(operation: str, parameters: Mapping[str, Any]) -> Json:
    """Return the body of the response to a request. `GetSecretValue` is a request to Secrets Manager, all others are to
    DynamoDB."""
    if operation == "GetSecretValue":
        return {"Name": "cursors", "SecretString": "a secret of the bench"}
    table = peers() if parameters.get("TableName") == PEERS_TABLE else ours()
    found: Json = table.carry_out(operation, **parameters)
    return found


class _Connection(socketserver.StreamRequestHandler):
    """Request handler of one keep-alive connection."""

    tls: ssl.SSLContext | None = None

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls:
            self.request = self.tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def handle(self) -> None:
        """Respond to requests until the client closes the connection."""
        while self.rfile.readline():
            headers = {}
            while line := self.rfile.readline().decode("latin-1").strip():
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            body = self.rfile.read(int(headers["content-length"]))
            self.wfile.write(_response(headers["x-amz-target"].rpartition(".")[2], body))

    def finish(self) -> None:
        super().finish()
        self.request.close()


@lru_cache(maxsize=256)
def _response(operation: str, request_body: bytes) -> bytes:
    """Return a whole HTTP response: status line, headers and body, as DynamoDB sends them."""
    body = json.dumps(respond(operation, json.loads(request_body)), separators=(",", ":")).encode()
    head = (
        "HTTP/1.1 200 OK\r\nServer: Server\r\n"
        f"Date: {formatdate(usegmt=True)}\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n"
        "Connection: keep-alive\r\nx-amzn-RequestId: 7KD3VQ8B1GNPJ0T5E2H9A4C6MFVV4KQNSO5AEMVJF66Q9ASUAAJG\r\n"
        f"x-amz-crc32: {zlib.crc32(body)}\r\n\r\n"
    )
    return head.encode() + body


def main(certificate: str = "") -> None:
    """Print the port, and serve until standard input ends."""
    if certificate:
        _Connection.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _Connection.tls.load_cert_chain(Path(certificate) / "server.pem", Path(certificate) / "server.key")
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Connection) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_address[1], flush=True)
        sys.stdin.read()
        server.shutdown()


@contextmanager
def stub(certificate: Path | None = None) -> Iterator[str]:
    """Start a stub in a separate process, and yield its URL.

    `certificate` is a folder with `server.pem` and `server.key`. With it, the stub serves TLS.
    """
    command = [sys.executable, "-m", "bench.stub", *([str(certificate)] if certificate else [])]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        yield f"http{'s' if certificate else ''}://127.0.0.1:{int(process.stdout.readline())}"
        assert process.stdin
        process.stdin.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
