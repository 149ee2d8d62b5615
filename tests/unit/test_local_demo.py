"""Tests of `make demo`: irregular records become valid documents, and every run sends the same requests."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from local import LocalError, demo, running_service
from shared.videos.models import NewVideo

RECORD = {
    "Title": "Syriana",
    "US Gross": 50824620,
    "Production Budget": None,
    "Release Date": "Nov 23 2005",
    "MPAA Rating": "R",
    "Running Time min": 126,
    "Distributor": "Sony/Screen Gems",
    "Major Genre": "Drama",
    "Creative Type": "Drama",
    "IMDB Rating": 7.1,
}


def test_film_is_converted_to_a_document() -> None:
    movie = demo.document(0, RECORD)
    assert movie.pop("videoId")
    assert movie == {
        "title": "Syriana",
        "userId": "sony-screen-gems",
        "createdAt": 1132704000,
        "duration": 7_560_000,
        "category": "Drama",
        "status": "ready",
        "visibility": "public",
        "tags": ["Drama", "R"],
        "metadata": {
            "usGross": 50824620,
            "imdbRating": 7.1,
            "mpaaRating": "R",
            "creativeType": "Drama",
            "distributor": "Sony/Screen Gems",
            "releaseDate": "2005-11-23",
        },
    }


@pytest.mark.parametrize("record", [{}, dict.fromkeys(RECORD), dict.fromkeys(RECORD, ""), dict.fromkeys(RECORD, " \n")])
def test_film_without_data_is_a_valid_document(record: dict[str, Any]) -> None:
    movie = demo.document(1, record)
    assert (movie["title"], movie["userId"]) == ("Untitled", "unknown-distributor")
    assert not {"createdAt", "duration", "category", "tags", "metadata"} & set(movie)
    NewVideo.parse(json.dumps(movie).encode())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1776, "1776"),
        (None, "Untitled"),
        ("  Two \t words ", "Two words"),
        ("LÈon", "Léon"),
        ("The Naked Gun 2Ω", "The Naked Gun 2½"),
        ("Alien³", "Alien³"),
        ("x" * 400, "x" * 300),
    ],
)
def test_titles_are_cleaned(value: object, expected: str) -> None:
    assert demo.title(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Jun 12 1998", "1998-06-12"),
        ("Dec 23 2011", "2011-12-23"),
        ("Feb 08 2015", "1970-01-01"),  # actually 1915, before the earliest time that the service accepts
        ("Dec 31 2046", "1970-01-01"),
        ("Feb 30 1999", None),
        ("1998", None),
        (1998, None),
        ("TBD", None),
        (None, None),
    ],
)
def test_release_date_is_parsed_or_omitted(value: object, expected: str | None) -> None:
    seconds = demo.release_time(value)
    assert (None if seconds is None else datetime.fromtimestamp(seconds, UTC).date().isoformat()) == expected


@pytest.mark.parametrize("minutes", [None, 0, -1, "90", True, float("nan")])
def test_invalid_running_time_is_omitted(minutes: object) -> None:
    assert "duration" not in demo.document(0, RECORD | {"Running Time min": minutes})


@pytest.mark.parametrize(("value", "expected"), [("Warner Bros.", "warner-bros"), ("Café & Co", "cafe-co"), ("--", "")])
def test_owner_is_a_slug(value: str, expected: str) -> None:
    assert demo.slug(value) == expected


def test_every_run_sends_the_same_idempotency_keys_and_each_film_has_its_own() -> None:
    movies = [demo.document(position, RECORD) for position in range(3)]
    keys = [demo.idempotency_key(position, movie) for position, movie in enumerate(movies)]
    repeated = [demo.idempotency_key(position, demo.document(position, RECORD)) for position in range(3)]
    assert keys == repeated
    assert len(set(keys)) == 3
    assert demo.idempotency_key(0, movies[0] | {"title": "Other"}) != keys[0]


def problem(status: int, slug: str = "", **more: Any) -> httpx.Response:
    return httpx.Response(status, json={"type": f"urn:video-metadata:problem:{slug}", "detail": "No.", **more})


@pytest.mark.parametrize(
    ("response", "is_busy", "exists"),
    [
        (httpx.Response(429), True, False),
        (httpx.Response(503), True, False),
        (problem(409, "request-in-flight"), True, False),
        (problem(409, "already-exists"), False, True),
        (problem(422, "invalid-content"), False, False),
        (httpx.Response(201, json={}), False, False),
    ],
)
def test_response_is_classified_as_busy_existing_or_neither(
    response: httpx.Response, is_busy: bool, exists: bool
) -> None:
    assert demo.is_busy(response) is is_busy
    assert demo.is_there_already(response) is exists


@pytest.mark.parametrize(("text", "seconds"), [("3", 3.0), ("", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0)])
def test_retry_after_is_parsed_to_seconds(text: str, seconds: float) -> None:
    assert demo.retry_after(httpx.Response(429, headers={"Retry-After": text})) == seconds


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (problem(422, errors=[{"pointer": "/title", "detail": "too long"}]), "/title: too long"),
        (problem(400, errors=[{"parameter": "from", "detail": "bad"}]), "from: bad"),
        (problem(403), "403 No."),
        (httpx.Response(401, json={"message": "Unauthorized"}), "401 Unauthorized"),
        (httpx.Response(502, text="oops"), "502 oops"),
    ],
)
def test_refusal_is_summarised_by_its_reason(response: httpx.Response, expected: str) -> None:
    assert demo.reason(response) == expected


def test_demo_without_a_service_is_refused_with_the_command_that_starts_one(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="make run"):
        running_service(tmp_path / "service.json")
