"""pytest plugin of `make test`: prints the seconds that the slowest test files took, for the table of `local.checks`.

python -m pytest -p local.slowest tests/unit
"""

from collections import defaultdict

import pytest

FILES = 10


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line such as `12.3 s in tests/unit/test_x.py` for each of the ten slowest files. Times are summed over
    all workers."""
    seconds: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    for file, took in sorted(seconds.items(), key=lambda row: -row[1])[:FILES]:
        terminalreporter.write_line(f"{took:.1f} s in {file}")
