"""`python -m tools listen` with the deployed service: what it shows, and what it leaves."""

import os
import signal
import subprocess
import sys
from threading import Timer
from typing import Any

import pytest

from local import ROOT
from local.ports import LOOPBACK, free_port
from tests.e2e.conftest import PATIENCE, Service

pytestmark = pytest.mark.xdist_group("e2e")


def test_listen_shows_verified_events_and_leaves_no_webhook(service: Service) -> None:
    port = free_port()
    url = f"http://{LOOPBACK}:{port}"

    def webhooks() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = service.request("GET", "/v1/webhooks").json()["items"]
        return [hook for hook in items if hook["url"].startswith(f"{url}/")]

    command = [sys.executable, "-m", "tools", "listen", "--api", service.base_url, "--url", url, "--port", str(port)]
    environment = {**os.environ, "TOKEN": service.tokens["alice"], "NO_PROXY": LOOPBACK}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as listener:
        too_late = Timer(PATIENCE, listener.kill)  # which ends its output
        too_late.daemon = True
        too_late.start()
        try:
            assert listener.stdout
            assert listener.stdout.readline().startswith(f"Listening at {url}/")
            (hook,) = webhooks()
            tried = service.request("POST", f"/v1/webhooks/{hook['webhookId']}/test").json()
            assert (tried["delivered"], tried["status"]) == (True, 204)
            # Changes of other tests may come between.
            assert any("webhook.test" in line for line in listener.stdout)
            video_id = service.create()["videoId"]
            assert any(f"video.created  {video_id}  version 1  by alice" in line for line in listener.stdout)
        finally:
            listener.send_signal(signal.SIGTERM)
        assert listener.stdout.read().endswith("events came; the webhook is deleted.\n")
        too_late.cancel()
    assert listener.returncode == 0
    assert webhooks() == []
