"""`make demo`: loads the metadata of a few thousand real movies into the running service over HTTP, then queries it.

First the demo uploads a dozen small videos for alice. The console can play these videos. The metadata is the movies
table of the npm package vega-datasets. A second run creates no duplicates.
"""

import hashlib
import json
import math
import random
import re
import sys
import time
import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeGuard

import httpx
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from local import ROOT, LocalError, exit_status, running_service, sample_videos
from shared.threads import map_threads

FILMS = ROOT / "node_modules" / "vega-datasets" / "data" / "movies.json"
CONCURRENT_REQUESTS = 8
"""Number of concurrent requests.

MiniStack waits for log lines after each call, so sequential requests would mostly wait. Each concurrent request needs a
separate function worker of about 80 MB.
"""
REQUEST_ATTEMPTS = 8
"""Maximum attempts per request, including the first."""
NEWEST_YEAR = 2011
"""Latest plausible release year. For later years, 100 years are subtracted.

The table is from 2010 and has a few films announced for 2011. Its years were converted from two digits, so films of
1915 to 1946 have the years 2015 to 2046.
"""
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://www.npmjs.com/package/vega-datasets#movies")

Record = dict[str, Any]
Document = dict[str, Any]


# From a record of the table to a document of the service


def document(position: int, record: Record) -> Document:
    """Return the body of the request that creates a video from a record of the movies table.

    The videoId depends only on the record's position in the table, so a second run creates no duplicates.
    """
    film: Document = {
        "videoId": str(uuid.uuid5(NAMESPACE, str(position))),
        "title": title(record.get("Title")),
        "userId": slug(record.get("Distributor")) or "unknown-distributor",
        "createdAt": release_time(record.get("Release Date")),
        "duration": _duration(record.get("Running Time min")),
        "category": _text(record.get("Major Genre")),
        "status": "ready",
        "visibility": "public",
        "tags": _unique(record.get(name) for name in ("Major Genre", "MPAA Rating", "Creative Type")),
        "metadata": _metadata(record),
    }
    return {name: value for name, value in film.items() if value not in (None, [], {})}


def title(value: object) -> str:
    """Return the title of a movie as text, with encoding errors corrected.

    In the table, some titles are numbers, one is missing, and some were decoded with the wrong charset.
    """
    text = _text(value)
    if text is None:
        return "Untitled"
    # Accents were encoded as Windows-1252 and decoded as Mac Roman: `Léon` became `LÈon`. `Alien³` is correct, and
    # cannot be encoded as Mac Roman.
    with suppress(UnicodeError):
        text = text.encode("mac_roman").decode("cp1252")
    return text[:300]


def slug(value: object) -> str:
    """Convert a name to an id, such as `Sony/TriStar` to `sony-tristar`. Returns an empty string if there is no
    name."""
    plain = unicodedata.normalize("NFKD", _text(value) or "").encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")


def release_time(value: object) -> int | None:
    """Parse a date such as `Jun 12 1998` into epoch seconds of midnight UTC; `None` for other values.

    Films from before 1970 get 0, because the service has no negative times.
    """
    day = _day(value)
    return None if day is None else max(0, int(day.timestamp()))


def _day(value: object) -> datetime | None:
    try:
        day = datetime.strptime(_text(value) or "", "%b %d %Y").replace(tzinfo=UTC)
        return day.replace(year=day.year - 100) if day.year > NEWEST_YEAR else day
    except ValueError:
        return None


def _duration(minutes: object) -> int | None:
    return int(minutes * 60_000) if _is_number(minutes) and minutes > 0 else None


def _metadata(record: Record) -> dict[str, str | float]:
    names = {
        "US Gross": "usGross",
        "Worldwide Gross": "worldwideGross",
        "US DVD Sales": "usDvdSales",
        "Production Budget": "productionBudget",
        "MPAA Rating": "mpaaRating",
        "Source": "source",
        "Creative Type": "creativeType",
        "Director": "director",
        "Distributor": "distributor",
        "Rotten Tomatoes Rating": "rottenTomatoesRating",
        "IMDB Rating": "imdbRating",
        "IMDB Votes": "imdbVotes",
    }
    facts: dict[str, str | float] = {}
    for source, target in names.items():
        value = record.get(source)
        if _is_number(value):
            facts[target] = value
        elif (text := _text(value)) is not None:
            facts[target] = text
    day = _day(record.get("Release Date"))
    return facts if day is None else {**facts, "releaseDate": day.date().isoformat()}


def _text(value: object) -> str | None:
    """Return a value as one line of text; `None` if the value is missing or empty."""
    if value is None or isinstance(value, bool):
        return None
    return " ".join(str(value).split()) or None


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _unique(values: Iterable[object]) -> list[str]:
    return list(dict.fromkeys(text for value in values if (text := _text(value)) is not None))


def idempotency_key(position: int, film: Document) -> str:
    """Return the idempotency key for the film at a position of the movies table. Retries and later runs use the same
    key."""
    content = json.dumps(film, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return f"demo-{position}-{hashlib.sha256(content.encode()).hexdigest()[:32]}"


# Client of the service


class ApiClient:
    """HTTP client with the token of one user. The client retries requests while the service is busy."""

    def __init__(self, base_url: str, token: str) -> None:
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}"},
            timeout=30,
            trust_env=False,  # the service is on this machine: no proxy
        )
        self._base_url = base_url

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request, and return the response, which may have an error status. Retries while the service is busy.

        Raises LocalError if the service is still busy at the last attempt, or does not respond.
        """
        problem, pause = "", 0.0
        for attempt in range(REQUEST_ATTEMPTS):
            time.sleep(pause)  # at least Retry-After; 0 before the first attempt
            pause = min(0.2 * 2**attempt, 5.0) * random.uniform(0.75, 1.25)
            try:
                answer = self._http.request(method, self._base_url + path, **options)
            except httpx.ConnectError as error:
                raise LocalError("The service does not respond. Start it with `make run`.") from error
            except httpx.TransportError as error:  # a retry is safe: every POST here has an idempotency key
                problem = str(error) or type(error).__name__
                continue
            if not is_busy(answer):
                return answer
            problem = f"{answer.status_code} {answer.text[:200]}"
            pause = max(pause, retry_after(answer))
        raise LocalError(
            f"The service is busy: {method} {path} failed {REQUEST_ATTEMPTS} times ({problem}). Run the command again to continue."
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def is_busy(answer: httpx.Response) -> bool:
    """Return whether the response is a transient error. A retry may then succeed."""
    return answer.status_code in (429, 503) or (answer.status_code == 409 and not is_there_already(answer))


def is_there_already(answer: httpx.Response) -> bool:
    """Return whether a create failed because the video exists. This happens in later runs, because idempotency keys
    expire after a day."""
    return answer.status_code == 409 and str(_problem(answer).get("type", "")).endswith(":already-exists")


def retry_after(answer: httpx.Response) -> float:
    """Return the seconds of Retry-After; 0 if it is missing or a date."""
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def reason(answer: httpx.Response) -> str:
    """Return the reason why a request was rejected, on one line."""
    problem = _problem(answer)
    errors = problem.get("errors") or []
    places = "; ".join(f"{error.get('pointer') or error.get('parameter')}: {error.get('detail')}" for error in errors)
    return places or f"{answer.status_code} {problem.get('detail') or problem.get('message') or answer.text[:200]}"


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


# The demo


@dataclass
class LoadResult:
    """Numbers of created films and of existing films, and the number of refused films for each reason."""

    created: int = 0
    present: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def load(client: ApiClient, films: Sequence[Document], advance: Callable[[], object]) -> LoadResult:
    """Create the missing films, with up to CONCURRENT_REQUESTS requests in parallel. Calls `advance` after each film."""
    started = int(time.time())
    loaded = LoadResult()
    create = partial(_create, client)
    for answer in map_threads(create, enumerate(films), CONCURRENT_REQUESTS, lambda _: advance()):
        # A repeated request gets the first response again, with the time of the first request.
        if answer.status_code == 201 and answer.json()["updatedAt"] >= started:
            loaded.created += 1
        elif answer.status_code == 201 or is_there_already(answer):
            loaded.present += 1
        else:
            loaded.refused[reason(answer)] += 1
    return loaded


def _create(client: ApiClient, numbered: tuple[int, Document]) -> httpx.Response:
    position, film = numbered
    return client.send("POST", "/v1/videos", json=film, headers={"Idempotency-Key": idempotency_key(position, film)})


def load_scenes(admin: ApiClient, owner: str) -> list[str]:
    """Create the missing videos of local/sample_videos.py for `owner`. Returns the ids of all these videos, including
    existing videos."""
    ids = []
    for scene in sample_videos.SCENES:
        video_id = str(uuid.uuid5(NAMESPACE, f"{owner}/{scene.title}"))
        document = {
            "videoId": video_id,
            "userId": owner,
            "title": scene.title,
            "description": scene.description,
            "category": scene.category,
            "tags": list(scene.tags),
            "visibility": "public",
        }
        answer = admin.send("POST", "/v1/videos", json=document)
        if answer.status_code != 201 and not is_there_already(answer):
            raise LocalError(f"The video {scene.title!r} was rejected: {reason(answer)}.")
        # An interrupted run may have left a video without its source file.
        if "source" not in _expect(admin.send("GET", f"/v1/videos/{video_id}"), 200):
            upload(admin, video_id, sample_videos.film(scene))
        _caption(admin, video_id, sample_videos.captions(scene))
        ids.append(video_id)
    return ids


def _caption(client: ApiClient, video_id: str, text: str) -> None:
    headers = {"Content-Type": "text/vtt", "If-None-Match": "*"}
    answer = client.send("PUT", f"/v1/videos/{video_id}/captions/en", content=text, headers=headers)
    if answer.status_code not in (201, 412):
        raise LocalError(f"The captions of a video were rejected: {reason(answer)}.")


def upload(client: ApiClient, video_id: str, content: bytes) -> None:
    """Upload a source file through the API and S3, as any client does. Raises LocalError if the upload is rejected."""
    announced = {"contentType": "video/mp4", "fileSize": len(content)}
    begun = client.send("POST", f"/v1/videos/{video_id}/upload", json=announced)
    if begun.status_code != 201:
        raise LocalError(f"The upload of a video was rejected: {reason(begun)}.")
    instructions = begun.json()
    # Without a token, because S3 rejects a request that has both a token and a signed URL.
    sent = httpx.request(
        instructions["method"], instructions["url"], content=content, headers=instructions["headers"], trust_env=False
    )
    if sent.status_code != 200:
        raise LocalError(f"The file could not be sent: {sent.status_code} {sent.text[:200]}")


def demo(console: Console) -> None:
    """Load the videos, then list some by category and by owner, and count a view."""
    service = running_service()
    if not FILMS.exists():
        raise LocalError("The video files are missing. Install them with `npm install`.")
    films = [document(position, record) for position, record in enumerate(json.loads(FILMS.read_bytes()))]
    admin = ApiClient(service["baseUrl"], service["tokens"]["admin"])
    alice = ApiClient(service["baseUrl"], service["tokens"]["alice"])
    try:
        admin.send("GET", "/health")
        console.print("Uploading a dozen small videos of alice, and waiting for their jobs")
        load_scenes(admin, "alice")
        _load(console, admin, films)
        newest = _list(console, alice, "The newest dramas", {"category": "Drama", "limit": "10"})
        year = {"from": "2005-01-01T00:00:00Z", "to": "2006-01-01T00:00:00Z"}
        _list(console, alice, "Videos of Warner Bros. of 2005", {"userId": "warner-bros", **year, "limit": "10"})
        if newest:
            _view(console, alice, newest[0])
        search = f"{service['baseUrl']}/console/#/search?q=%22the+water%22"
        console.print(f"\nSearch in their captions: {search}", soft_wrap=True)
    finally:
        admin.close()
        alice.close()


def _load(console: Console, admin: ApiClient, films: Sequence[Document]) -> None:
    console.print(f"POST /v1/videos, {len(films):,} times, each with its Idempotency-Key")
    started = time.monotonic()
    columns = (TextColumn("Films"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(films))
        loaded = load(admin, films, lambda: progress.advance(task))
    seconds = time.monotonic() - started
    new = f"{loaded.created:,} created" if loaded.created else "nothing new"
    console.print(f"{new}, {loaded.present:,} existed already ({len(films) / seconds:.0f} requests a second)")
    for why, count in loaded.refused.most_common():
        console.print(f"{count:,} rejected: {escape(why)}")


def _list(console: Console, client: ApiClient, heading: str, query: dict[str, str]) -> list[Document]:
    shown = "&".join(f"{name}={value}" for name, value in query.items())
    console.print(f"\nGET /v1/videos?{shown}", soft_wrap=True)
    body = _expect(client.send("GET", "/v1/videos", params=query), 200)
    table = Table("released", "title", "owner", "minutes", title=heading, title_justify="left")
    for video in body["items"]:
        released = datetime.fromtimestamp(video["createdAt"], UTC).date().isoformat()
        minutes = f"{video['duration'] // 60_000}" if "duration" in video else ""
        table.add_row(released, escape(video["title"]), escape(video["userId"]), minutes)
    console.print(table)
    console.print("The next page is at nextCursor." if body["nextCursor"] else "This is the last page.")
    items: list[Document] = body["items"]
    return items


def _view(console: Console, client: ApiClient, video: Document) -> None:
    path = f"/v1/videos/{video['videoId']}/views"
    console.print(f"\nPOST {path}")
    once = {"Idempotency-Key": str(uuid.uuid4())}  # counted once, even when the request has to be repeated
    counted = _expect(client.send("POST", path, headers=once), 200, 201)
    console.print(f"Views of {escape(video['title'])}: {counted['viewCount']}")


def _expect(answer: httpx.Response, *statuses: int) -> dict[str, Any]:
    if answer.status_code not in statuses:
        raise LocalError(f"{answer.request.method} {answer.request.url.path} was rejected: {reason(answer)}.")
    body: dict[str, Any] = answer.json()
    return body


def main() -> int:
    """Run the demo and return the exit status."""
    try:
        return exit_status(lambda: demo(Console(highlight=False)))
    except KeyboardInterrupt:
        print("Stopped. Run the command again to continue.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
