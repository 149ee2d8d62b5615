"""`python -m tools listen` with the deployed service: its output, and the deletion of its webhook."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

from local import ROOT
from local.ports import LOOPBACK, free_port
from tests.e2e.conftest import Service
from tests.polling import LIMIT, eventually

pytestmark = pytest.mark.xdist_group("e2e")


@pytest.fixture(scope="module")
def service(own_service: Service) -> Service:
    """Return the service with users of this file."""
    return own_service


@contextmanager
def listening(service: Service, url: str, port: int) -> Iterator[tuple["subprocess.Popen[str]", list[str]]]:
    """Run the command, and yield it with the list of its output lines. After the block, the command has ended and the
    list is complete."""
    command = [sys.executable, "-m", "tools", "listen", "--api", service.base_url, "--url", url, "--port", str(port)]
    environment = {**os.environ, "TOKEN": service.tokens["alice"], "NO_PROXY": LOOPBACK}
    lines: list[str] = []
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as listener:

        def read() -> None:
            for line in listener.stdout or ():
                lines.append(line)  # noqa: PERF402 - line by line, because a test waits for lines

        reader = Thread(target=read)
        reader.start()
        try:
            yield listener, lines
        finally:
            listener.terminate()
            try:
                listener.wait(LIMIT)
            finally:
                listener.kill()  # has no effect after the command has ended
                reader.join()


def test_listen_shows_verified_events_and_leaves_no_webhook(service: Service) -> None:
    assert service.aws  # a service that is deployed elsewhere cannot reach this machine
    port = free_port()
    url = f"http://{LOOPBACK}:{port}"

    def webhooks() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = service.request("GET", "/v1/webhooks").json()["items"]
        return [hook for hook in items if hook["url"].startswith(f"{url}/")]

    with listening(service, url, port) as (listener, lines):
        eventually(lambda: lines or listener.poll() is not None)
        assert lines[0].startswith(f"Listening at {url}/")
        (hook,) = webhooks()
        attempt = service.request("POST", f"/v1/webhooks/{hook['webhookId']}/test").json()
        assert (attempt["delivered"], attempt["status"]) == (True, 204)
        # Changes by other tests may arrive in between.
        eventually(lambda: any("webhook.test" in line for line in lines))
        video_id = service.create()["videoId"]
        eventually(
            lambda: any(
                f"video.created  {video_id}  version 1  by {service.subjects['alice']}" in line for line in lines
            )
        )
    assert lines[-1].endswith("events received; the webhook is deleted.\n")
    assert listener.returncode == 0
    assert webhooks() == []
