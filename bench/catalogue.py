"""Time and memory of the imports of a small and a large catalogue: `python -m bench.catalogue`.

Each generated catalogue is imported in a separate process. A fake DynamoDB accepts every write immediately. The
benchmark therefore measures only the import itself: reading, validating, building items and recording progress.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from local import ROOT
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.aws.lean.client import Client, make_client
from shared.schema import VIDEO
from tools.generator import generate
from tools.imdb_import import DIGEST, ImdbImport, Selection
from tools.progress import Bars
from tools.rate_limit import Pool, RateLimiter
from tools.work_file import work_file

SMALL, LARGE = 1_000, 10_000
"""Number of titles in each catalogue. A title has about six credits, four releases and two tags."""


def main(arguments: list[str]) -> None:
    """Measure both catalogues. Print the time per title and the peak memory of each, and their ratios to the values of
    the small catalogue.

    With a number N as argument, only import N titles and print the results as JSON.
    """
    if arguments:
        print(json.dumps(imported(int(arguments[0]))))
        return
    print("Import of a catalogue in IMDb's layout")
    measured = {titles: _measured(titles) for titles in (SMALL, LARGE)}
    for titles, measurement in measured.items():
        print(
            f"  {titles:6,} titles, {measurement['items']:8,.0f} items     {measurement['seconds'] / titles * 1e3:6.2f} ms a title   "
            f"x{measurement['seconds'] / titles / (measured[SMALL]['seconds'] / SMALL):.2f}   "
            f"{measurement['peak'] / 1e6:4.0f} MB at most   x{measurement['peak'] / measured[SMALL]['peak']:.2f}"
        )


def _measured(titles: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.catalogue", str(titles)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    measurement: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measurement


def imported(titles: int) -> dict[str, float]:
    """Generate and import a catalogue of N titles.

    Returns the seconds of the import, the peak memory of this process in bytes, and the number of written items.
    """
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    client, counts = _accept_everything(make_client())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder, titles, people=titles // 2, seed=1, progress=lambda _: None)
        selection = Selection("imdb", frozenset(), None, None, frozenset({"credits", "releases", "ratings"}))
        started = time.perf_counter()
        with work_file(folder / "state", {}) as work:
            ImdbImport(
                folder, Table("T", client), work, selection, rate=RateLimiter(None), pool=Pool(), bars=Bars()
            ).run()
        seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "peak": peak, "items": counts["items"]}


def _accept_everything(client: Client) -> tuple[Client, dict[str, int]]:
    """Replace DynamoDB by a fake that accepts all writes. Returns the client, and a counter of written items.

    Reads of digests return no items, so the import creates all titles. Reads of videos return a video for each key.
    Queries return no items.
    """
    counts = {"items": 0}

    def answer(operation: str, sent: Mapping[str, Any], _: Callable[..., Any]) -> Any:
        match operation:
            case "BatchGetItem":
                request = sent["RequestItems"]["T"]
                exists = DIGEST not in request.get("ExpressionAttributeNames", {}).values()
                videos = [_video(key) for key in request["Keys"] if exists and key["sk"]["S"] == VIDEO.sk]
                return {"Responses": {"T": videos}}
            case "Query":
                return {"Items": [], "Count": 0, "ScannedCount": 0}
        counts["items"] += len(sent.get("TransactItems", "1"))
        return {}

    intercept(client, answer)
    return client, counts


def _video(key: dict[str, Any]) -> dict[str, Any]:
    video_id = key["pk"]["S"].removeprefix("VIDEO#")
    return {"videoId": {"S": video_id}, "userId": {"S": "imdb"}, "status": {"S": "ready"}, "createdAt": {"N": "0"}}


if __name__ == "__main__":
    main(sys.argv[1:])
