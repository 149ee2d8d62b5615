"""Waiting in tests: all tests wait for events with the same time limit."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from botocore.config import Config
from botocore.session import Session

LIMIT = 240.0
"""Seconds until a wait fails. The limit is generous, because a busy machine may need a minute to start a function. Some
queues deliver a failed message again after three minutes."""
POLL_SECONDS = 0.05
"""Shortest pause between two polls, in seconds."""
LONGEST_POLL_SECONDS = 1.0
"""Longest pause between two polls, in seconds.

Each pause is a tenth of the elapsed time, so long waits leave the processor to the awaited work.
"""

_Result = TypeVar("_Result")


def eventually(read: Callable[[], _Result], until: Callable[[_Result], object] = bool) -> _Result:
    """Call `read` until `until` accepts its result, and return that result.

    Raises AssertionError with the last result after LIMIT seconds.
    """
    started = time.monotonic()
    while not until(result := read()):
        waited = time.monotonic() - started
        assert waited < LIMIT, f"After {LIMIT:.0f} seconds it is still {result!r}."
        time.sleep(min(max(POLL_SECONDS, waited / 10), LONGEST_POLL_SECONDS))
    return result


@contextmanager
def patience() -> Iterator[pytest.MonkeyPatch]:
    """Give clients that are created within the block the time-out LIMIT, because responses on a busy machine may take
    longer than the service's time-outs.

    A client keeps this time-out after the block. Yields the patch, for further changes within the block.
    """
    create = Session.create_client

    def create_client(session: Session, *arguments: Any, **options: Any) -> Any:
        waits = Config(connect_timeout=LIMIT, read_timeout=LIMIT)
        return create(session, *arguments, **options | {"config": (options.get("config") or Config()).merge(waits)})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "create_client", create_client)
        patch.setattr("shared.aws.dynamodb.CONNECT_SECONDS", LIMIT)
        patch.setattr("shared.aws.dynamodb.READ_SECONDS", LIMIT)
        yield patch
