"""Does search hold what it promises, and how long does it take? `python -m bench.search_service [asks]` (some minutes) asks a running service.

Start it with `make run`, and give it films with `make demo`. All of it goes through HTTP, to this machine only, as any client would. The run
makes some videos, and deletes them at its end; nobody else should change videos meanwhile, or counts differ. It ends with status 1 if
something does not hold: a write that is not found, a quote that leads elsewhere, a facet that a recount does not confirm, or a hit that its caller may not
read. Times are those of this machine, with all that a laptop's AWS adds: one of them is that of a plain GET, to compare.
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

ASKS = 1_000
"""Random questions."""
HITS = 5
"""Hits of each that are read by themselves."""
WRITES = 40
"""Videos that are looked for from their write on."""
QUOTES = 100
TALKS, SENTENCES = 10, 40
"""Films in which something is said, and sentences in each."""
COUNTED = 24
"""Questions whose facets are counted again."""
WARM = 200
"""Questions whose time is taken."""
BACKSTAGE = 6
"""Videos of each owner for each way to hide one."""
TITLES = 2_000
"""Titles of the catalogue that questions are made of; a page of the feed has PAGE of them."""
PAGE = 100
SIDE_BY_SIDE = 4
"""Requests at once: each needs a worker of the function."""
LONGEST_WAIT = 30.0
"""Seconds after which a write counts as not found."""
LONGEST_ASKING = 1_500.0
"""Seconds after which no more random questions are asked."""
REST = 0.05
"""Seconds between two looks for a write."""
NEAR = 1_000
"""Milliseconds by which the start of a quote may be wrong."""
OWNERS = ("alice", "bob")
CALLERS = (*OWNERS, "carol", "admin")
"""Two who own films, one who owns none, and an admin."""
FAR = 4_000_000_000
"""A second that is far in the future."""
WAYS: tuple[Mapping[str, Any], ...] = (
    {},
    {"visibility": "private"},
    {"status": "processing"},
    {"publishAt": FAR},
    {"expiresAt": 1},
)
"""To let everybody see a video, and to let only its owner and admins."""
HOSTS = ("127.0.0.1", "::1", "localhost")

Document = dict[str, Any]
Counts = dict[str, list[tuple[str | int, int]]]


class HttpSender(Protocol):
    """The service as one user has it."""

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request; raises LocalError if it cannot be answered."""


Callers = Mapping[str, HttpSender]


class MeasuredRow(NamedTuple):
    """A line of what is printed at the end."""

    what: str
    result: str
    holds: bool = True


class SearchRequest(NamedTuple):
    """A question of somebody."""

    caller: str
    query: dict[str, str]


@dataclass(frozen=True)
class SearchCatalogue:
    """What questions are made of."""

    titles: Sequence[str]
    owners: Sequence[str]
    created: Sequence[int]
    """Epoch seconds."""
    categories: Sequence[str] = ()
    tags: Sequence[str] = ()


@dataclass
class Talk:
    """A film in which something is said: cues as captions have them, and its sentences, each with its start in milliseconds."""

    cues: list[tuple[int, str]] = field(default_factory=list)
    sentences: list[tuple[int, str]] = field(default_factory=list)


# What is made up, and what is counted


def talk(language: RandomLanguage, number: int) -> Talk:
    """A film with that many sentences; every third is on the screen in two parts, as long sentences are."""
    said = Talk()
    for place in range(number):
        start, spoken = 4_000 * place + 500, language.text(8)
        said.sentences.append((start, spoken))
        parts = spoken.capitalize() + "."
        middle = parts.index(" ", len(parts) // 2) if " " in parts[len(parts) // 2 :] else 0
        if place % 3 == 2 and middle:
            said.cues += [(start, parts[:middle]), (start + 1_500, parts[middle + 1 :])]
        else:
            said.cues.append((start, parts))
    return said


def webvtt(cues: Sequence[tuple[int, str]]) -> str:
    """Cues as a file, each of 1.4 seconds."""
    return "WEBVTT\n" + "".join(f"\n{_clock(start)} --> {_clock(start + 1_400)}\n{text}\n" for start, text in cues)


def _clock(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"


def recount(videos: Sequence[Document]) -> Counts:
    """The facets of these videos, counted one by one: those that are most frequent first, then by their value."""
    counts = {
        facet: Counter(video[name] for video in videos if name in video)
        for facet, name in FACETS.items()
        if name != "tags"
    }
    counts["tag"] = Counter(tag for video in videos for tag in {normalise_tag(tag) for tag in video.get("tags", ())})
    return {name: sorted(counted.items(), key=_rank)[:MAX_VALUES] for name, counted in counts.items()}


def _rank(counted: tuple[Any, int]) -> tuple[int, Any]:
    return -counted[1], counted[0]


def questions(catalogue: SearchCatalogue, random: Random, count: int) -> list[SearchRequest]:
    """Random questions of all callers: words of titles, some of them half typed, with random filters; some have only these."""
    return [SearchRequest(random.choice(CALLERS), _question(catalogue, random)) for _ in range(count)]


def _question(catalogue: SearchCatalogue, random: Random) -> dict[str, str]:
    found = words(random.choice(catalogue.titles))
    query = {}
    if found and random.random() < 0.9:
        asked = random.sample(found, min(len(found), random.choice((1, 1, 2))))
        query["q"] = " ".join(asked)[: random.choice((3, 256, 256))]
    earliest, latest = sorted(random.choices(catalogue.created, k=2))
    filters = {
        "category": random.choice(catalogue.categories) if catalogue.categories else None,
        "tag": random.choice(catalogue.tags) if catalogue.tags else None,
        "userId": random.choice((*OWNERS, *catalogue.owners)),
        "from": str(earliest),
        "to": str(latest + 1),
    }
    kept = {name: value for name, value in filters.items() if value is not None and random.random() < 0.15}
    return query | kept


def times(seconds: Sequence[float]) -> str:
    """Their median and 95th percentile."""
    if len(seconds) < 2:
        return "too few to say"
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return f"p50 {_time(cuts[9])}, p95 {_time(cuts[18])}"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def table(rows: Sequence[MeasuredRow]) -> str:
    """The rows below each other; what does not hold is marked."""
    width = max(len(row.what) for row in rows)
    return "\n".join(f"{'  ' if row.holds else '! '}{row.what:{width}}  {row.result}" for row in rows)


# Through HTTP


def connect(service: Mapping[str, Any]) -> dict[str, ApiClient]:
    """A client for each of CALLERS; raises LocalError unless the service is on this machine."""
    url = service["baseUrl"]
    if httpx.URL(url).host not in HOSTS:
        raise LocalError(f"{url} is not on this machine, and only such a service is asked.")
    tokens = {**service["tokens"], "carol": mint("carol", "videos/read")}
    return {caller: ApiClient(url, tokens[caller]) for caller in CALLERS}


def answered(sender: HttpSender, method: str, path: str, *statuses: int, **options: Any) -> Document:
    """The answer's document, {} for none; raises LocalError if its status is not one of these (200 if none is given)."""
    answer = sender.send(method, path, **options)
    if answer.status_code not in (statuses or (200,)):
        raise LocalError(f"{method} {path} was refused: {reason(answer)}.")
    document: Document = answer.json() if answer.content else {}
    return document


class CreatedVideos:
    """The videos of a run."""

    def __init__(self, admin: HttpSender) -> None:
        self._admin = admin
        self.ids: list[str] = []

    def add(self, owner: str, title: str, **fields: Any) -> str:
        """Create a video that everybody sees unless `fields` say otherwise; returns its id."""
        video_id = str(uuid.uuid4())
        document = {"videoId": video_id, "userId": owner, "title": title, "status": "ready", "visibility": "public"}
        self.ids.append(video_id)
        key = {"Idempotency-Key": video_id}
        answered(self._admin, "POST", "/v1/videos", 201, json={**document, **fields}, headers=key)
        return video_id

    def say(self, video_id: str, cues: Sequence[tuple[int, str]]) -> None:
        """Give a video English captions."""
        path, kind = f"/v1/videos/{video_id}/captions/en", {"Content-Type": "text/vtt"}
        answered(self._admin, "PUT", path, 200, 201, content=webvtt(cues), headers=kind)

    def hide(self, video_id: str) -> None:
        """Let only its owner and admins see a video."""
        answered(self._admin, "PATCH", f"/v1/videos/{video_id}", json={"visibility": "private"})

    def delete(self, video_id: str) -> None:
        """Delete a video, unless it is gone."""
        answered(self._admin, "DELETE", f"/v1/videos/{video_id}", 204, 404, 409)

    def delete_all(self) -> None:
        """Delete what was made."""
        for video_id in self.ids:
            self.delete(video_id)


def search(sender: HttpSender, **query: str) -> Document:
    """The answer to a question."""
    return answered(sender, "GET", "/v1/search", params=query)


def word() -> str:
    """A word that no film has."""
    return "".join(chance.SystemRandom().choices(string.ascii_lowercase, k=14))


def appears(sender: HttpSender, wanted: str, count: int = 1) -> float | None:
    """Seconds until a word is in that many videos that the caller finds; None: it was not after LONGEST_WAIT."""
    began = time.monotonic()
    while search(sender, q=f'"{wanted}"', limit="1")["total"] < count:
        if time.monotonic() - began > LONGEST_WAIT:
            return None
        time.sleep(REST)  # nothing says when a write is found, so it has to be asked
    return time.monotonic() - began


def catalogue_of(sender: HttpSender) -> SearchCatalogue:
    """What is published, as far as questions are made of it; raises LocalError if nothing is."""
    videos: list[Document] = []
    page: dict[str, str] = {"limit": str(PAGE)}
    while len(videos) < TITLES:
        body = answered(sender, "GET", "/v1/videos", params=page)
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


def fresh(callers: Callers, made: CreatedVideos) -> MeasuredRow:
    """How long it takes from a write to the hit."""
    found: list[float] = []
    for _ in range(WRITES):
        wanted = word()
        made.add("alice", f"Written {wanted}")
        seconds = appears(callers["bob"], wanted)
        if seconds is not None:
            found.append(seconds)
    missing = WRITES - len(found)
    result = times(found) + (f"; {missing} not found within {LONGEST_WAIT:.0f} s" if missing else "")
    return MeasuredRow(f"from a write to the hit ({WRITES})", result, not missing)


def quoted(callers: Callers, made: CreatedVideos, random: Random) -> MeasuredRow:
    """Whether sentences that are typed as they are said lead to their film and second."""
    language, mark = RandomLanguage(random, 2_000), word()
    talks: dict[str, Talk] = {}
    for number in range(TALKS):
        video_id = made.add("bob", f"Talk {number}", language="en")
        talks[video_id] = said = talk(language, SENTENCES)
        made.say(video_id, [*said.cues, (4_000 * SENTENCES + 500, mark)])
    if appears(callers["alice"], mark, TALKS) is None:
        return MeasuredRow("quotes", f"not all captions were found within {LONGEST_WAIT:.0f} s", holds=False)
    asked = [(video_id, *sentence) for video_id, said in talks.items() for sentence in said.sentences]
    asked = random.sample(asked, min(QUOTES, len(asked)))
    right = 0
    for video_id, start, spoken in asked:
        hits = search(callers["carol"], q=spoken, limit="1")["items"]
        is_right = bool(hits) and leads(hits[0], video_id, start)
        right += is_right
        if not is_right:
            found = [(hit["video"]["videoId"], hit.get("quote")) for hit in hits]
            print(f"wrong quote: {spoken!r} is said in {video_id} at {start} ms; found {found}")
    return MeasuredRow(
        f"quotes that lead to their film and second ({len(asked)})", f"{right} right", right == len(asked)
    )


def leads(hit: Document, video_id: str, start: int) -> bool:
    """Whether a hit is this video, with a quote of about this time (milliseconds)."""
    return hit["video"]["videoId"] == video_id and "quote" in hit and abs(hit["quote"]["start"] - start) <= NEAR


def backstage(made: CreatedVideos, catalogue: SearchCatalogue, random: Random, mark: str) -> list[str]:
    """Make videos with the words of others, most of which few may see, and a mark in each; returns those that everybody sees."""
    vocabulary = [found for title in catalogue.titles for found in words(title)]
    shown: list[str] = []
    for owner in OWNERS:
        for way in WAYS * BACKSTAGE:
            title = " ".join([*random.choices(vocabulary, k=2), mark])
            fields = {
                "releaseYear": random.randint(1990, 1999),
                "tags": [random.choice(("Drama", "drama", "R", "Épée"))],
            }
            video_id = made.add(owner, title, **fields, **way)
            shown += [] if way else [video_id]
        made.delete(made.add(owner, f"{random.choice(vocabulary)} {mark}"))
    return shown


def counted(callers: Callers, catalogue: SearchCatalogue, random: Random) -> MeasuredRow:
    """Whether facets are what is counted when all that is found is read."""
    right = asked = videos = 0
    for ask in questions(catalogue, random, 20 * COUNTED):
        sender, query = callers[ask.caller], ask.query
        body = search(sender, **query, facets=",".join(FACETS), limit="100")
        if not 0 < body["total"] <= DEEPEST:
            continue
        ids = [hit["video"]["videoId"] for hit in body["items"]]
        cursor = body["nextCursor"]
        while cursor is not None:
            page = search(sender, **query, facets=",".join(FACETS), limit="100", cursor=cursor)
            ids += [hit["video"]["videoId"] for hit in page["items"]]
            cursor = page["nextCursor"]
        said = {name: [(facet["value"], facet["count"]) for facet in body["facets"][name]] for name in FACETS}
        really = recount(read(sender, ids))
        is_right = said == really and len(set(ids)) == len(ids) == body["total"]
        if not is_right:
            differs = {name: set(said[name]) ^ set(really[name]) for name in FACETS}
            print(f"wrong facets: {ask}: {len(ids)} of {body['total']} videos on all pages; {differs}")
        asked, right, videos = asked + 1, right + is_right, videos + len(ids)
        if asked == COUNTED:
            break
    return MeasuredRow(
        f"facets that equal a recount ({asked})", f"{right} equal, of {videos:,} videos", right == asked > 0
    )


def read(sender: HttpSender, ids: Sequence[str]) -> list[Document]:
    """The videos of these ids that the caller may see."""
    videos: list[Document] = []
    for start in range(0, len(ids), PAGE):
        body = {"videoIds": list(ids[start : start + PAGE])}
        videos += answered(sender, "POST", "/v1/videos/batch-get", json=body)["items"]
    return videos


def count_readable_hits(callers: Callers, asks: Sequence[SearchRequest]) -> MeasuredRow:
    """Whether who asks may read each hit by itself."""
    until = time.monotonic() + LONGEST_ASKING

    def look(ask: SearchRequest) -> tuple[int, list[str]] | None:
        """How many hits were read, and those that were refused; None: time is up."""
        if time.monotonic() > until:
            return None
        sender, wrong = callers[ask.caller], []
        ids = [hit["video"]["videoId"] for hit in search(sender, **ask.query, limit=str(HITS))["items"]]
        for video_id in ids:
            status = sender.send("GET", f"/v1/videos/{video_id}", params={"fields": "videoId"}).status_code
            if status != 200:
                wrong.append(f"{ask} found {video_id}, of which GET says {status}")
        return len(ids), wrong

    looks = [looked for looked in map_threads(look, asks, SIDE_BY_SIDE) if looked is not None]
    wrong = [fault for _, faults in looks for fault in faults]
    for fault in wrong:
        print(f"not to be shown: {fault}")
    hits = sum(number for number, _ in looks)
    result = f"{hits - len(wrong):,} of {hits:,}" + (
        f"; time was up after {len(looks):,} questions" * (len(looks) < len(asks))
    )
    return MeasuredRow(f"hits that GET shows to who asked ({len(looks):,} questions)", result, not wrong and hits > 0)


def warm(callers: Callers, catalogue: SearchCatalogue, random: Random) -> list[MeasuredRow]:
    """What a question takes, and a GET."""
    sender = callers["bob"]
    asked = [" ".join(words(random.choice(catalogue.titles))[:8])[:256] for _ in range(WARM)]
    video_id = search(sender, limit="1")["items"][0]["video"]["videoId"]
    search_times = [_timed(sender, "/v1/search", {"q": q}) for q in asked if q]
    get_times = [_timed(sender, f"/v1/videos/{video_id}") for _ in asked]
    return [
        MeasuredRow(f"a warm question ({len(search_times)})", times(search_times)),
        MeasuredRow(f"a GET of a video, to compare ({len(get_times)})", times(get_times)),
    ]


def _timed(sender: HttpSender, path: str, params: Mapping[str, str] | None = None) -> float:
    began = time.perf_counter()
    sender.send("GET", path, params=params)
    return time.perf_counter() - began


def measure(callers: Callers, asks: int) -> list[MeasuredRow]:
    """All rows; deletes what it has made, whatever happens."""
    made, random = CreatedVideos(callers["admin"]), Random(1)
    try:
        catalogue = catalogue_of(callers["carol"])
        rows = [fresh(callers, made), quoted(callers, made, random)]
        mark = word()
        visible = backstage(made, catalogue, random, mark)
        found_by_alice = len(visible) + (len(WAYS) - 1) * BACKSTAGE
        if appears(callers["alice"], mark, found_by_alice) is None:
            return [
                *rows,
                MeasuredRow(
                    "hidden videos", f"their owner does not find them within {LONGEST_WAIT:.0f} s", holds=False
                ),
            ]
        rows += [counted(callers, catalogue, random), *warm(callers, catalogue, random)]
        # What the index cannot know yet.
        for video_id in visible[::2]:
            made.hide(video_id)
        made.delete(visible[1])
        mine = [SearchRequest(caller, {"q": f'"{mark}"'}) for caller in CALLERS]
        return [*rows, count_readable_hits(callers, [*mine, *questions(catalogue, random, asks)])]
    finally:
        made.delete_all()


def report(asks: int) -> None:
    """Measure and print; raises LocalError if something does not hold."""
    callers = connect(running_service())
    try:
        rows = measure(callers, asks)
    finally:
        for client in callers.values():
            client.close()
    print(table(rows))
    if not all(row.holds for row in rows):
        raise LocalError("What is marked by ! does not hold.")


def main(arguments: list[str]) -> int:
    """Ask ASKS random questions, or as many as are given; the exit status."""
    return exit_status(lambda: report(int(arguments[0]) if arguments else ASKS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
