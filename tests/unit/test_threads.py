"""Thread pool of limited size."""

import threading
from concurrent.futures import Future
from contextvars import ContextVar

import pytest

from shared.threads import map_threads
from tests.polling import LIMIT


def test_results_are_in_the_order_of_their_parts_and_progress_is_reported() -> None:
    fractions: list[float] = []
    assert map_threads(str, range(4), 2, fractions.append) == ["0", "1", "2", "3"]
    assert fractions == [0.25, 0.5, 0.75, 1.0]
    assert map_threads(str, [], 2) == []


def test_calls_run_concurrently_up_to_the_number_of_threads() -> None:
    threads, running, most = 3, 0, 0
    changing, meeting = threading.Lock(), threading.Barrier(threads)

    def work(_: int) -> None:
        nonlocal running, most
        with changing:
            running += 1
            most = max(most, running)
        meeting.wait(LIMIT)
        with changing:
            running -= 1

    map_threads(work, range(2 * threads), threads)
    assert most == threads


def test_every_call_runs_in_a_copy_of_the_callers_context() -> None:
    variable = ContextVar("variable", default="none")
    variable.set("the caller's")

    def work(_: int) -> str:
        value = variable.get()
        variable.set("a thread's")
        return value

    assert map_threads(work, range(3), 1) == ["the caller's"] * 3
    assert variable.get() == "the caller's"


def test_an_error_is_raised_after_the_running_calls_and_no_further_call_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ["running", "fails", *["later"] * 20]
    cancelled, ended = list[bool](), list[str]()
    all_are_cancelled = threading.Event()

    def cancel(future: "Future[object]") -> bool:
        cancelled.append(original(future))
        if len(cancelled) == len(parts):
            all_are_cancelled.set()
        return cancelled[-1]

    def work(name: str) -> None:
        if name == "fails":
            raise ValueError(name)
        assert all_are_cancelled.wait(LIMIT)
        ended.append(name)

    original = Future.cancel
    monkeypatch.setattr(Future, "cancel", cancel)
    with pytest.raises(ValueError, match="fails"):
        map_threads(work, parts, 2)
    assert sorted(ended) in (["running"], ["later", "running"])
