"""Correctness and latency of search in a running service: `python -m bench.search_service [asks]` (some minutes).

Start the service with `make run`, and load videos with `make demo`. The benchmark sends HTTP requests to this machine
only. It creates some videos, and deletes them at the end. If another client changes videos in the meantime, a check may
fail.

The benchmark exits with status 1 if one of these checks fails:

- Search finds each new video within LONGEST_WAIT.
- A search for a spoken sentence finds the video, and the time of the sentence.
- Facets equal the counts over all videos that a query finds.
- The caller may read each hit.

Times include the overhead of the local AWS emulation. The time of a plain GET is printed for comparison.
"""

import random as chance
import statistics
import string
import sys
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, Protocol

import httpx

from bench.search import RandomLanguage
from local import LocalError, exit_status, running_service
from local.demo import ApiClient, reason
from local.mint import mint
from shared.search.engine import DEEPEST, MAX_VALUES
from shared.search.tokenizer import words
from shared.threads import map_threads
from shared.video_fields import FACETS
from shared.videos.tags import normalise_tag

REQUESTS = 1_000
"""Default number of random queries."""
HITS = 5
"""Maximum number of hits per query that the benchmark reads by separate GET requests."""
WRITES = 40
"""Number of videos for which the benchmark measures the time from the write to the first hit."""
QUOTES = 100
TALKS, SENTENCES = 10, 40
"""Number of videos with captions, and number of sentences per video."""
COUNTED = 24
"""Number of queries for which the benchmark checks facets."""
WARM = 200
"""Number of queries for which the benchmark measures the latency."""
BACKSTAGE = 6
"""Number of videos to create for each pair of an owner and one of VARIANTS."""
TITLES = 2_000
"""Maximum number of videos to read from the list of all videos. Queries consist of words of the titles of these videos."""
PAGE = 100
CONCURRENCY = 4
"""Number of concurrent requests. Each request occupies one worker process of the function."""
LONGEST_WAIT = 30.0
"""Maximum seconds until search must find a written video."""
LONGEST_ASKING = 1_500.0
"""Maximum seconds for which the benchmark sends random queries."""
REST = 0.05
"""Seconds between two searches for a new video."""
NEAR = 1_000
"""Maximum difference in milliseconds between the start of a found quote and the start of the spoken sentence."""
OWNERS = ("alice", "bob")
CALLERS = (*OWNERS, "carol", "admin")
"""User ids of the callers: two owners, a user without videos, and an admin."""
FAR = 4_000_000_000
"""A time in the far future, in epoch seconds."""
VARIANTS: tuple[Mapping[str, Any], ...] = (
    {},
    {"visibility": "private"},
    {"status": "processing"},
    {"publishAt": FAR},
    {"expiresAt": 1},
)
"""Variants of a video: values of the fields that determine its visibility. A video of the first variant is public.
Videos of the other variants are visible only to their owners and to admins."""
HOSTS = ("127.0.0.1", "::1", "localhost")

Document = dict[str, Any]
Counts = dict[str, list[tuple[str | int, int]]]


class HttpSender(Protocol):
    """HTTP client that sends the token of one user."""

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request. Raises LocalError if the service does not respond."""


Callers = Mapping[str, HttpSender]


class MeasuredRow(NamedTuple):
    """A row of the report. `is_valid` is `False` if the row's check failed."""

    name: str
    result: str
    is_valid: bool = True


class SearchRequest(NamedTuple):
    """A search query and its caller."""

    caller: str
    query: dict[str, str]


@dataclass(frozen=True)
class SearchCatalogue:
    """Values of published videos, from which the benchmark builds random queries."""

    titles: Sequence[str]
    owners: Sequence[str]
    created: Sequence[int]
    """Creation times in epoch seconds."""
    categories: Sequence[str] = ()
    tags: Sequence[str] = ()


@dataclass
class Talk:
    """Speech of a video: its caption cues and its sentences, each with a start in milliseconds."""

    cues: list[tuple[int, str]] = field(default_factory=list)
    sentences: list[tuple[int, str]] = field(default_factory=list)


# Generated data and recounts


def talk(language: RandomLanguage, number: int) -> Talk:
    """Return a talk of `number` sentences. Every third sentence has two cues, because real captions split sentences."""
    generated = Talk()
    for index in range(number):
        start, spoken = 4_000 * index + 500, language.text(8)
        generated.sentences.append((start, spoken))
        parts = spoken.capitalize() + "."
        middle = parts.index(" ", len(parts) // 2) if " " in parts[len(parts) // 2 :] else 0
        if index % 3 == 2 and middle:
            generated.cues += [(start, parts[:middle]), (start + 1_500, parts[middle + 1 :])]
        else:
            generated.cues.append((start, parts))
    return generated


def webvtt(cues: Sequence[tuple[int, str]]) -> str:
    """Return the cues as a WebVTT file. Each cue lasts 1.4 seconds."""
    return "WEBVTT\n" + "".join(f"\n{_clock(start)} --> {_clock(start + 1_400)}\n{text}\n" for start, text in cues)


def _clock(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"


def recount(videos: Sequence[Document]) -> Counts:
    """Return the facets that a search should return if it finds these videos. Values are sorted by descending count,
    then by value."""
    counts = {
        facet: Counter(video[name] for video in videos if name in video)
        for facet, name in FACETS.items()
        if name != "tags"
    }
    counts["tag"] = Counter(tag for video in videos for tag in {normalise_tag(tag) for tag in video.get("tags", ())})
    return {name: sorted(counted.items(), key=_rank)[:MAX_VALUES] for name, counted in counts.items()}


def _rank(counted: tuple[Any, int]) -> tuple[int, Any]:
    return -counted[1], counted[0]


def random_requests(catalogue: SearchCatalogue, random: Random, count: int) -> list[SearchRequest]:
    """Return random queries of all callers.

    Most queries contain one or two words of a title, and some of these texts are truncated. Filters are random. Some
    queries have only filters.
    """
    return [SearchRequest(random.choice(CALLERS), _random_query(catalogue, random)) for _ in range(count)]


def _random_query(catalogue: SearchCatalogue, random: Random) -> dict[str, str]:
    found = words(random.choice(catalogue.titles))
    query = {}
    if found and random.random() < 0.9:
        chosen = random.sample(found, min(len(found), random.choice((1, 1, 2))))
        query["q"] = " ".join(chosen)[: random.choice((3, 256, 256))]
    earliest, latest = sorted(random.choices(catalogue.created, k=2))
    filters = {
        "category": random.choice(catalogue.categories) if catalogue.categories else None,
        "tag": random.choice(catalogue.tags) if catalogue.tags else None,
        "userId": random.choice((*OWNERS, *catalogue.owners)),
        "from": str(earliest),
        "to": str(latest + 1),
    }
    applied = {name: value for name, value in filters.items() if value is not None and random.random() < 0.15}
    return query | applied


def times(seconds: Sequence[float]) -> str:
    """Format the median and the 95th percentile of times in seconds."""
    if len(seconds) < 2:
        return "too few samples"
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return f"p50 {_time(cuts[9])}, p95 {_time(cuts[18])}"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def table(rows: Sequence[MeasuredRow]) -> str:
    """Format the rows as lines of text. Lines of failed checks begin with `!`."""
    width = max(len(row.name) for row in rows)
    return "\n".join(f"{'  ' if row.is_valid else '! '}{row.name:{width}}  {row.result}" for row in rows)


# Through HTTP


def connect(service: Mapping[str, Any]) -> dict[str, ApiClient]:
    """Return a client for each of CALLERS. Raises LocalError unless the service is on this machine."""
    url = service["baseUrl"]
    if httpx.URL(url).host not in HOSTS:
        raise LocalError(
            f"{url} is not on this machine. The benchmark writes data, so it needs a local service: start one with `make run`."
        )
    tokens = {**service["tokens"], "carol": mint("carol", "videos/read")}
    return {caller: ApiClient(url, tokens[caller]) for caller in CALLERS}


def send_request(sender: HttpSender, method: str, path: str, *statuses: int, **options: Any) -> Document:
    """Send a request, and return the response's document, or `{}` if its body is empty.

    Raises LocalError unless the status is one of `statuses`, which default to 200.
    """
    response = sender.send(method, path, **options)
    if response.status_code not in (statuses or (200,)):
        raise LocalError(f"{method} {path} was refused: {reason(response)}.")
    document: Document = response.json() if response.content else {}
    return document


class CreatedVideos:
    """Creator of the benchmark's videos. `delete_all` deletes all of them."""

    def __init__(self, admin: HttpSender) -> None:
        self._admin = admin
        self.ids: list[str] = []

    def add(self, owner: str, title: str, **fields: Any) -> str:
        """Create a video, and return its id.

        By default, the video is ready and public. `fields` replace these defaults, and add further fields.
        """
        video_id = str(uuid.uuid4())
        document = {"videoId": video_id, "userId": owner, "title": title, "status": "ready", "visibility": "public"}
        self.ids.append(video_id)
        key = {"Idempotency-Key": video_id}
        send_request(self._admin, "POST", "/v1/videos", 201, json={**document, **fields}, headers=key)
        return video_id

    def say(self, video_id: str, cues: Sequence[tuple[int, str]]) -> None:
        """Store English captions of a video."""
        path, kind = f"/v1/videos/{video_id}/captions/en", {"Content-Type": "text/vtt"}
        send_request(self._admin, "PUT", path, 200, 201, content=webvtt(cues), headers=kind)

    def hide(self, video_id: str) -> None:
        """Make a video private."""
        send_request(self._admin, "PATCH", f"/v1/videos/{video_id}", json={"visibility": "private"})

    def delete(self, video_id: str) -> None:
        """Delete a video. Statuses 404 and 409 are accepted."""
        send_request(self._admin, "DELETE", f"/v1/videos/{video_id}", 204, 404, 409)

    def delete_all(self) -> None:
        """Delete all videos of the run."""
        for video_id in self.ids:
            self.delete(video_id)


def search(sender: HttpSender, **query: str) -> Document:
    """Send a search request with the parameters `query`, and return the response's document."""
    return send_request(sender, "GET", "/v1/search", params=query)


def word() -> str:
    """Return a random word of 14 letters, which practically no existing video contains."""
    return "".join(chance.SystemRandom().choices(string.ascii_lowercase, k=14))


def seconds_until_found(sender: HttpSender, text: str, count: int = 1) -> float | None:
    """Search until the caller finds `count` videos with the word `text`. Returns the seconds, or `None` after
    LONGEST_WAIT."""
    began = time.monotonic()
    while search(sender, q=f'"{text}"', limit="1")["total"] < count:
        if time.monotonic() - began > LONGEST_WAIT:
            return None
        time.sleep(REST)  # polling, because the service does not notify clients of index updates
    return time.monotonic() - began


def catalogue_of(sender: HttpSender) -> SearchCatalogue:
    """Read the values of published videos from the service. Raises LocalError if the service has no videos."""
    videos: list[Document] = []
    page: dict[str, str] = {"limit": str(PAGE)}
    while len(videos) < TITLES:
        body = send_request(sender, "GET", "/v1/videos", params=page)
        videos += body["items"]
        if body["nextCursor"] is None:
            break
        page["cursor"] = body["nextCursor"]
    if not videos:
        raise LocalError("The catalogue is empty: `make demo` loads films.")
    facets = search(sender, facets="category,tag", limit="1")["facets"]
    return SearchCatalogue(
        titles=[video["title"] for video in videos],
        owners=sorted({video["userId"] for video in videos}),
        created=[video["createdAt"] for video in videos],
        categories=[counted["value"] for counted in facets["category"]],
        tags=[counted["value"] for counted in facets["tag"]],
    )


def fresh(callers: Callers, created: CreatedVideos) -> MeasuredRow:
    """Measure the seconds from the write of a video to the first search that finds it."""
    found: list[float] = []
    for _ in range(WRITES):
        text = word()
        created.add("alice", f"Written {text}")
        seconds = seconds_until_found(callers["bob"], text)
        if seconds is not None:
            found.append(seconds)
    missing = WRITES - len(found)
    result = times(found) + (f"; {missing} not found within {LONGEST_WAIT:.0f} s" if missing else "")
    return MeasuredRow(f"from a write to the hit ({WRITES})", result, not missing)


def quoted(callers: Callers, created: CreatedVideos, random: Random) -> MeasuredRow:
    """Check that a search for a spoken sentence finds the video, and the time of the sentence."""
    language, marker = RandomLanguage(random, 2_000), word()
    talks: dict[str, Talk] = {}
    for number in range(TALKS):
        video_id = created.add("bob", f"Talk {number}", language="en")
        talks[video_id] = speech = talk(language, SENTENCES)
        created.say(video_id, [*speech.cues, (4_000 * SENTENCES + 500, marker)])
    if seconds_until_found(callers["alice"], marker, TALKS) is None:
        return MeasuredRow("quotes", f"not all captions were found within {LONGEST_WAIT:.0f} s", is_valid=False)
    quotes = [(video_id, *sentence) for video_id, speech in talks.items() for sentence in speech.sentences]
    quotes = random.sample(quotes, min(QUOTES, len(quotes)))
    right = 0
    for video_id, start, spoken in quotes:
        hits = search(callers["carol"], q=spoken, limit="1")["items"]
        is_right = bool(hits) and leads(hits[0], video_id, start)
        right += is_right
        if not is_right:
            found = [(hit["video"]["videoId"], hit.get("quote")) for hit in hits]
            print(f"wrong quote: {spoken!r} is said in {video_id} at {start} ms; found {found}")
    return MeasuredRow(
        f"quotes found in their video at their second ({len(quotes)})", f"{right} right", right == len(quotes)
    )


def leads(hit: Document, video_id: str, start: int) -> bool:
    """Return whether a hit is this video, with a quote that starts within NEAR milliseconds of `start`."""
    return hit["video"]["videoId"] == video_id and "quote" in hit and abs(hit["quote"]["start"] - start) <= NEAR


def create_hidden_videos(created: CreatedVideos, catalogue: SearchCatalogue, random: Random, marker: str) -> list[str]:
    """Create videos of all VARIANTS for each owner, and return the ids of the public videos.

    Also creates one more video for each owner, and deletes it.

    The titles consist of words of other titles and the word `marker`. Most of the videos are visible only to their owner
    and to admins.
    """
    vocabulary = [found for title in catalogue.titles for found in words(title)]
    shown: list[str] = []
    for owner in OWNERS:
        for variant in VARIANTS * BACKSTAGE:
            title = " ".join([*random.choices(vocabulary, k=2), marker])
            fields = {
                "releaseYear": random.randint(1990, 1999),
                "tags": [random.choice(("Drama", "drama", "R", "Épée"))],
            }
            video_id = created.add(owner, title, **fields, **variant)
            shown += [] if variant else [video_id]
        created.delete(created.add(owner, f"{random.choice(vocabulary)} {marker}"))
    return shown


def counted(callers: Callers, catalogue: SearchCatalogue, random: Random) -> MeasuredRow:
    """Check that facets equal the counts over all videos that a query finds."""
    right = checked = videos = 0
    for request in random_requests(catalogue, random, 20 * COUNTED):
        sender, query = callers[request.caller], request.query
        body = search(sender, **query, facets=",".join(FACETS), limit="100")
        if not 0 < body["total"] <= DEEPEST:
            continue
        ids = [hit["video"]["videoId"] for hit in body["items"]]
        cursor = body["nextCursor"]
        while cursor is not None:
            page = search(sender, **query, facets=",".join(FACETS), limit="100", cursor=cursor)
            ids += [hit["video"]["videoId"] for hit in page["items"]]
            cursor = page["nextCursor"]
        reported = {name: [(facet["value"], facet["count"]) for facet in body["facets"][name]] for name in FACETS}
        really = recount(read(sender, ids))
        is_right = reported == really and len(set(ids)) == len(ids) == body["total"]
        if not is_right:
            differs = {name: set(reported[name]) ^ set(really[name]) for name in FACETS}
            print(f"wrong facets: {request}: {len(ids)} of {body['total']} videos on all pages; {differs}")
        checked, right, videos = checked + 1, right + is_right, videos + len(ids)
        if checked == COUNTED:
            break
    return MeasuredRow(
        f"facets that equal a recount ({checked})", f"{right} equal, of {videos:,} videos", right == checked > 0
    )


def read(sender: HttpSender, ids: Sequence[str]) -> list[Document]:
    """Return the documents of the videos in `ids` that the caller may see."""
    videos: list[Document] = []
    for start in range(0, len(ids), PAGE):
        body = {"videoIds": list(ids[start : start + PAGE])}
        videos += send_request(sender, "POST", "/v1/videos/batch-get", json=body)["items"]
    return videos


def count_readable_hits(callers: Callers, requests: Sequence[SearchRequest]) -> MeasuredRow:
    """Check by separate GET requests that the caller may read each hit."""
    until = time.monotonic() + LONGEST_ASKING

    def look(request: SearchRequest) -> tuple[int, list[str]] | None:
        """Search, and read each hit by GET. Returns the number of hits, and a line of text for each hit that GET
        rejected.

        Returns `None` if LONGEST_ASKING seconds have passed.
        """
        if time.monotonic() > until:
            return None
        sender, wrong = callers[request.caller], []
        ids = [hit["video"]["videoId"] for hit in search(sender, **request.query, limit=str(HITS))["items"]]
        for video_id in ids:
            status = sender.send("GET", f"/v1/videos/{video_id}", params={"fields": "videoId"}).status_code
            if status != 200:
                wrong.append(f"{request} returned the video {video_id}, for which GET returned {status}")
        return len(ids), wrong

    checked = [looked for looked in map_threads(look, requests, CONCURRENCY) if looked is not None]
    wrong = [fault for _, faults in checked for fault in faults]
    for fault in wrong:
        print(f"forbidden hit: {fault}")
    hits = sum(number for number, _ in checked)
    result = f"{hits - len(wrong):,} of {hits:,}" + (
        f"; stopped by the time limit after {len(checked):,} queries" * (len(checked) < len(requests))
    )
    return MeasuredRow(
        f"hits that GET returns to the same caller ({len(checked):,} queries)", result, not wrong and hits > 0
    )


def warm(callers: Callers, catalogue: SearchCatalogue, random: Random) -> list[MeasuredRow]:
    """Measure the latency of searches, and of GET requests for comparison."""
    sender = callers["bob"]
    queries = [" ".join(words(random.choice(catalogue.titles))[:8])[:256] for _ in range(WARM)]
    video_id = search(sender, limit="1")["items"][0]["video"]["videoId"]
    search_times = [_timed(sender, "/v1/search", {"q": q}) for q in queries if q]
    get_times = [_timed(sender, f"/v1/videos/{video_id}") for _ in queries]
    return [
        MeasuredRow(f"a warm query ({len(search_times)})", times(search_times)),
        MeasuredRow(f"a GET of a video, to compare ({len(get_times)})", times(get_times)),
    ]


def _timed(sender: HttpSender, path: str, params: Mapping[str, str] | None = None) -> float:
    began = time.perf_counter()
    sender.send("GET", path, params=params)
    return time.perf_counter() - began


def measure(callers: Callers, count: int) -> list[MeasuredRow]:
    """Run all checks, and return the rows of the report. Deletes the created videos even after an error."""
    created, random = CreatedVideos(callers["admin"]), Random(1)
    try:
        catalogue = catalogue_of(callers["carol"])
        rows = [fresh(callers, created), quoted(callers, created, random)]
        marker = word()
        visible = create_hidden_videos(created, catalogue, random, marker)
        found_by_alice = len(visible) + (len(VARIANTS) - 1) * BACKSTAGE
        if seconds_until_found(callers["alice"], marker, found_by_alice) is None:
            return [
                *rows,
                MeasuredRow(
                    "hidden videos", f"their owner does not find them within {LONGEST_WAIT:.0f} s", is_valid=False
                ),
            ]
        rows += [counted(callers, catalogue, random), *warm(callers, catalogue, random)]
        # The searches begin before the index has processed these changes.
        for video_id in visible[::2]:
            created.hide(video_id)
        created.delete(visible[1])
        mine = [SearchRequest(caller, {"q": f'"{marker}"'}) for caller in CALLERS]
        return [*rows, count_readable_hits(callers, [*mine, *random_requests(catalogue, random, count)])]
    finally:
        created.delete_all()


def report(count: int) -> None:
    """Run all checks, and print the report. Raises LocalError if a check fails."""
    callers = connect(running_service())
    try:
        rows = measure(callers, count)
    finally:
        for client in callers.values():
            client.close()
    print(table(rows))
    if not all(row.is_valid for row in rows):
        raise LocalError("The checks that the table marks with ! failed.")


def main(arguments: list[str]) -> int:
    """Run the benchmark, and return its exit status. The argument is the number of random queries, by default REQUESTS."""
    return exit_status(lambda: report(int(arguments[0]) if arguments else REQUESTS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
