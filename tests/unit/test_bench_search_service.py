"""Tests of `python -m bench.search_service` with a small in-memory service. The benchmark reports every injected fault,
and no other fault."""

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from random import Random
from typing import Any

import httpx
import pytest

from bench import search_service
from bench.search import RandomLanguage
from local import LocalError
from shared.captions import webvtt
from shared.search.tokenizer import words
from shared.video_fields import FACETS

SIZES = {"WRITES": 2, "QUOTES": 12, "TALKS": 2, "SENTENCES": 9, "COUNTED": 3, "WARM": 3, "BACKSTAGE": 1}


class Service:
    """Fake service with videos in memory, which search finds by title and captions. `faults` names the faults to
    inject."""

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        self.videos: dict[str, dict[str, Any]] = {}
        self.captions: dict[str, list[tuple[int, list[str]]]] = {}
        for number in range(30):
            video_id = f"film-{number:02}"
            self.videos[video_id] = {
                "videoId": video_id,
                "userId": "studio",
                "title": f"A film of {number}",
                "tags": ["Drama"],
                "createdAt": number,
                "status": "ready",
                "visibility": "public",
            }

    def may_read(self, video: Mapping[str, Any] | None, user: str) -> bool:
        if video is None or (video["status"] == "deleted" and user != "admin"):
            return False
        is_open = video["status"] == "ready" and video["visibility"] == "public"
        return user in ("admin", video["userId"]) or (is_open and not {"publishAt", "expiresAt"} & set(video))

    def finds(self, video: Mapping[str, Any], user: str) -> bool:
        """Return whether search shows a video to a user. Admins find only the videos that an anonymous user finds."""
        if "shows hidden videos" in self.faults:
            return True
        return video["status"] != "deleted" and self.may_read(video, "" if user == "admin" else user)

    def search(self, user: str, query: Mapping[str, str]) -> dict[str, Any]:
        terms = words(query.get("q", ""))
        matching = [
            video for video in self.videos.values() if self.finds(video, user) and self._fits(video, terms, query)
        ]
        if "finds no new videos" in self.faults:
            matching = [video for video in matching if video["userId"] == "studio"]
        first, limit = int(query.get("cursor", 0)), int(query.get("limit", 25))
        facets = search_service.recount(matching)
        if "miscounts" in self.faults:
            facets["tag"] = [(value, count + 1) for value, count in facets["tag"]]
        page = matching[first : first + limit]
        return {
            "total": len(matching),
            "items": [{"video": video} | self._quote(video["videoId"], terms) for video in page],
            "facets": {
                name: [{"value": value, "count": count} for value, count in values] for name, values in facets.items()
            },
            "nextCursor": str(first + limit) if first + limit < len(matching) else None,
        }

    def _fits(self, video: Mapping[str, Any], terms: list[str], query: Mapping[str, str]) -> bool:
        spoken = [spoken for _, line in self.captions.get(video["videoId"], []) for spoken in line]
        texts = [*words(video["title"]), *spoken]
        is_selected = query.get("userId", video["userId"]) == video["userId"]
        return is_selected and all(any(text.startswith(start) for text in texts) for start in terms)

    def _quote(self, video_id: str, terms: list[str]) -> dict[str, Any]:
        cues = self.captions.get(video_id, [])
        for (start, line), (_, after) in pairwise([*cues, (0, [])]):
            if terms and line[0] == terms[0] and not Counter(terms) - Counter([*line, *after]):
                return {"quote": {"start": start + 1_001 * ("quotes late" in self.faults)}}
        return {}


class User:
    """Client of the fake service that sends requests as one user."""

    def __init__(self, service: Service, name: str) -> None:
        self.service, self.name = service, name

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Return the response to one of the few requests that the benchmark sends."""
        service, name = self.service, path.removeprefix("/v1/videos/").partition("/")[0]
        params = options.get("params") or {}
        if (method, path) == ("GET", "/v1/search"):
            return httpx.Response(200, json=service.search(self.name, params))
        if (method, path) == ("GET", "/v1/videos"):
            published = [video for video in service.videos.values() if service.may_read(video, "")]
            return httpx.Response(200, json={"items": published, "nextCursor": None})
        if (method, path) == ("POST", "/v1/videos"):
            service.videos[options["json"]["videoId"]] = {"createdAt": 50, **options["json"]}
            return httpx.Response(201, json={})
        if name == "batch-get":
            videos = [service.videos[video_id] for video_id in options["json"]["videoIds"]]
            return httpx.Response(
                200, json={"items": [video for video in videos if service.may_read(video, self.name)]}
            )
        if path.endswith("/captions/en"):
            cues = webvtt.read(options["content"])
            service.captions[name] = [(cue.start, words(cue.text)) for cue in cues]
            return httpx.Response(201, json={})
        if not service.may_read(service.videos.get(name), self.name):
            return httpx.Response(404)
        if method in ("PATCH", "DELETE"):
            service.videos[name] |= options.get("json", {"status": "deleted"})
        return httpx.Response(204 if method == "DELETE" else 200)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[[Service], dict[str, bool]]:
    """Return a function that measures a service. Its result maps the beginning of each row's name to whether the row is
    valid."""
    for size, value in {**SIZES, "LONGEST_WAIT": -1}.items():
        monkeypatch.setattr(search_service, size, value)

    def measure(service: Service) -> dict[str, bool]:
        callers = {name: User(service, name) for name in search_service.CALLERS}
        return {row.name.partition(" (")[0]: row.is_valid for row in search_service.measure(callers, 20)}

    return measure


class TestMeasuredRun:
    def test_correct_service_has_only_valid_rows(self, measured: Callable[[Service], dict[str, bool]]) -> None:
        rows = measured(Service())
        assert len(rows) == 6
        assert all(rows.values())

    @pytest.mark.parametrize(
        ("fault", "row"),
        [
            ("shows hidden videos", "hits that GET returns to the same caller"),
            ("miscounts", "facets that equal a recount"),
            ("quotes late", "quotes found in their video at their second"),
            ("finds no new videos", "from a write to the hit"),
        ],
    )
    def test_injected_fault_invalidates_its_row(
        self,
        measured: Callable[[Service], dict[str, bool]],
        capsys: pytest.CaptureFixture[str],
        fault: str,
        row: str,
    ) -> None:
        assert measured(Service(fault))[row] is False
        assert capsys.readouterr().out or fault == "finds no new videos"

    @pytest.mark.parametrize("faults", [(), ("finds no new videos",)])
    def test_created_videos_are_deleted(
        self, measured: Callable[[Service], dict[str, bool]], faults: tuple[str, ...]
    ) -> None:
        service = Service(*faults)
        measured(service)
        assert {video["userId"] for video in service.videos.values() if video["status"] != "deleted"} == {"studio"}
        assert len(service.videos) > 30

    def test_empty_catalogue_is_refused(self, measured: Callable[[Service], dict[str, bool]]) -> None:
        service = Service()
        service.videos.clear()
        with pytest.raises(LocalError, match="make demo"):
            measured(service)

    def test_remote_service_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(search_service, "running_service", lambda: {"baseUrl": "https://api.example", "tokens": {}})
        assert search_service.main([]) == 1
        assert "is not on this machine" in capsys.readouterr().err

    def test_exit_status_is_1_if_a_row_is_invalid(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        rows = [
            search_service.MeasuredRow("quotes", "100 right"),
            search_service.MeasuredRow("facets", "29 equal", is_valid=False),
        ]
        monkeypatch.setattr(search_service, "running_service", dict)
        monkeypatch.setattr(search_service, "connect", lambda _: {})
        monkeypatch.setattr(search_service, "measure", lambda _, count: rows[:count])
        assert search_service.main(["1"]) == 0
        assert search_service.main(["2"]) == 1
        assert capsys.readouterr().out.splitlines()[-2:] == ["  quotes  100 right", "! facets  29 equal"]


class TestGeneratedData:
    def test_captions_have_the_sentences_at_their_starts(self) -> None:
        talk_cues = search_service.talk(RandomLanguage(Random(1), 300), 12)
        cues = webvtt.read(search_service.webvtt(talk_cues.cues))
        assert [(cue.start, cue.text) for cue in cues] == talk_cues.cues
        assert len(talk_cues.sentences) == 12 < len(talk_cues.cues), "some sentences have two cues"
        starts = dict(talk_cues.cues)
        for start, spoken in talk_cues.sentences:
            assert words(spoken)[: len(words(starts[start]))] == words(starts[start])

    def test_cue_times_may_exceed_an_hour(self) -> None:
        assert "01:01:01.500 --> 01:01:02.900" in search_service.webvtt([(3_661_500, "late")])

    def test_generated_requests_are_reproducible_and_of_all_kinds(self) -> None:
        catalogue = search_service.SearchCatalogue(["The Big Sleep", "\u2026"], ["fox"], [5, 9], ["Drama"], ["pg 13"])
        requests = search_service.random_requests(catalogue, Random(3), 300)
        assert requests == search_service.random_requests(catalogue, Random(3), 300)
        assert {request.caller for request in requests} == set(search_service.CALLERS)
        assert {name for request in requests for name in request.query} == {
            "q",
            "category",
            "tag",
            "userId",
            "from",
            "to",
        }
        assert {"big", "the sleep"[:3]} <= {request.query.get("q") for request in requests}
        assert all(int(request.query.get("from", 5)) < int(request.query.get("to", 10)) for request in requests)


def test_recount_folds_case_of_tags_and_lists_the_most_frequent_values_first(monkeypatch: pytest.MonkeyPatch) -> None:
    videos: list[dict[str, Any]] = [
        {"category": "b", "tags": ["Épée", "x"], "releaseYear": 1999},
        {"category": "a", "tags": ["épée"]},
        {"category": "a", "releaseYear": 1995},
        {},
    ]
    assert search_service.recount(videos) == {facet: [] for facet in FACETS} | {
        "category": [("a", 2), ("b", 1)],
        "tag": [("épée", 2), ("x", 1)],
        "year": [(1995, 1), (1999, 1)],
    }
    monkeypatch.setattr(search_service, "MAX_VALUES", 1)
    assert search_service.recount(videos)["tag"] == [("épée", 2)]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        ([], "too few samples"),
        ([0.01, 0.02, 0.03], "p50 20 ms, p95 29 ms"),
        ([1.0] * 5 + [2.5], "p50 1.00 s, p95 2.12 s"),
    ],
)
def test_times_are_summarised_as_p50_and_p95(seconds: list[float], text: str) -> None:
    assert search_service.times(seconds) == text
