"""What functions tell of their work: log lines and metrics, as CloudWatch would have them."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aws_lambda_powertools import Logger

from shared.telemetry import correlated

Line = dict[str, Any]


@contextmanager
def log_lines() -> Iterator[list[Line]]:
    """The lines that are logged meanwhile, in order."""
    logger = Logger()
    lines: list[Line] = []

    class _Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            # At once: the keys that all lines carry change from one to the next.
            lines.append(json.loads(self.format(record)))

    keeper = _Keeper()
    keeper.setFormatter(logger.registered_formatter)
    logger.addHandler(keeper)
    try:
        with correlated(None):  # whatever a function of another test left
            yield lines
    finally:
        logging.getLogger(logger.name).removeHandler(keeper)


def metrics(printed: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The metrics that were emitted since the last time: of each line its dimensions and values."""
    found = []
    for text in printed.readouterr().out.splitlines():
        line = json.loads(text) if text.startswith("{") else {}
        if "_aws" not in line:
            continue
        (directive,) = line["_aws"]["CloudWatchMetrics"]
        assert directive["Namespace"] == "VideoMetadata"
        (dimensions,) = directive["Dimensions"]
        values = {metric["Name"]: line[metric["Name"]] for metric in directive["Metrics"]}
        assert all(len(value) == 1 for value in values.values())
        found.append({name: line[name] for name in dimensions} | {name: value for name, (value,) in values.items()})
    return found
