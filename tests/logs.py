"""Log lines and metrics of functions, as CloudWatch receives them."""

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from shared.core.telemetry import service_logger, use_correlation_id

Line = dict[str, Any]


@contextmanager
def log_lines() -> Iterator[list[Line]]:
    """Collect the lines logged within the context, in order."""
    logger = service_logger()
    lines: list[Line] = []

    class _Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            # formatted immediately, because the keys that all lines have can get other values before the next line
            lines.append(json.loads(self.format(record)))

    keeper = _Keeper()
    keeper.setFormatter(logger.registered_formatter)
    logger.addHandler(keeper)
    try:
        with use_correlation_id(None):  # discards the id that a function of another test has set
            yield lines
    finally:
        logging.getLogger(logger.name).removeHandler(keeper)


LAMBDA_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
"""Levels of Lambda's log-level filter, from the most verbose to the least verbose."""
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def passes_lambda_filter(line: Line, least: str) -> bool:
    """Return whether Lambda sends a line to CloudWatch if the function has the log level `least`.

    https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html
    """
    is_timed = RFC_3339.fullmatch(line.get("timestamp", "")) is not None
    level = line.get("level") if is_timed else None
    return LAMBDA_LEVELS.index(level if level in LAMBDA_LEVELS else "INFO") >= LAMBDA_LEVELS.index(least)


def metrics(printed: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the metrics emitted since the last call: the dimensions and values of each line."""
    emitted = []
    for text in printed.readouterr().out.splitlines():
        line = json.loads(text) if text.startswith("{") else {}
        if "_aws" not in line:
            continue
        (directive,) = line["_aws"]["CloudWatchMetrics"]
        assert directive["Namespace"] == "VideoMetadata"
        (dimensions,) = directive["Dimensions"]
        names = [*dimensions, *(metric["Name"] for metric in directive["Metrics"])]
        assert line.keys() == {"_aws", *names}
        # Powertools writes a list of values for each metric.
        emitted.append({name: line[name][0] if isinstance(line[name], list) else line[name] for name in names})
    return emitted
