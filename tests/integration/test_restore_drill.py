"""Steps of the restore drill, with a table of this test, and with the service in process."""

import io
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from local.aws import Aws
from local.restore_drill import RestoreDrill
from local.testbed.harness import Clock, make_api
from shared.aws.dynamodb import Table
from shared.background.purge import Purge
from tests.integration.conftest import reaching
from tools.__main__ import main


class NoObjects:
    """Empty buckets. The drill uploads no files."""

    def delete_prefix(self, bucket: str, prefix: str) -> int:
        """Delete no objects."""
        return 0


def test_restored_table_keeps_changes_after_the_damage(table: Table, aws: Aws, tmp_path: Path) -> None:
    clock = Clock(int(time.time()))
    api = make_api(table, clock=clock)
    lines: list[str] = []

    def request(method: str, path: str, user: str, body: Any) -> Any:
        route, _, query = path.partition("?")
        reply = api.request(method, route, query=query, json_body=body, user=user)
        assert reply.status < 300, reply.body
        return reply.json

    def next_second() -> int:
        clock.advance(1)
        return int(clock())

    def await_purge(video_ids: Sequence[str], is_done: Callable[[], bool]) -> None:
        assert not is_done()
        purge = Purge(table, NoObjects(), "sources", "media")
        assert all(purge.video(video_id, int(clock()), lambda: True) for video_id in video_ids)
        assert is_done()

    def run_tools(arguments: Sequence[str], variables: Mapping[str, str]) -> CompletedProcess[str]:
        # In this process, because a program would take a second to start, and would not wait for a busy table.
        output, errors = io.StringIO(), io.StringIO()
        with reaching(aws), redirect_stdout(output), redirect_stderr(errors):
            status = main(arguments)
        return CompletedProcess(arguments, status, output.getvalue(), errors.getvalue())

    RestoreDrill(aws, table.name, tmp_path, request, next_second, await_purge, lines.append, run_tools).run()

    assert [line.partition(":")[0] for line in lines] == [
        "Filled",
        "Copied",
        "Purged",
        "Damaged",
        "Rehearsed",
        "Restored",
        "Restored again",
        "Reconciled",
        "Verified",
        "Verified",
    ]
