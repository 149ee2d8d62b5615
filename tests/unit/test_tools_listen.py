"""`python -m tools listen`: a receiver that prints verified events, and always deletes its webhook at the end."""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import create_server
from typing import Any, cast

import pytest
from rich.text import Text

from local.ports import free_port, serving
from shared.feed.change import Change
from shared.webhooks import event
from shared.webhooks.http_client import ReceiverResponse, send
from shared.webhooks.signing import encode_secret
from tests.polling import LIMIT
from tools import listening
from tools.__main__ import main

SECRET, OTHER = b"s" * 32, b"o" * 32
CHANGE: Change = {
    "id": "Zm9vYmFyYmF6cXV4cXV1eA",
    "type": "video.changed",
    "videoId": "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "version": 3,
    "at": 1_795_384_206_007,
    "by": {"id": "alice", "kind": "person"},
    "userId": "alice",
    "fields": ["/title", "/tags"],
}
LINE = "2026-11-22 21:50:06Z  video.changed  3f2504e0-4f89-41d3-9a0c-0305e82c3301  version 3  by alice  /title /tags"

Deliver = Callable[["Fake", str], None]
"""Function of a fake service that runs when a webhook is created, with the webhook's URL."""


class Fake(ThreadingHTTPServer):
    """Fake API of webhooks. All webhooks have the same secret."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hooks: dict[str, dict[str, Any]] = {}
        self.created: list[dict[str, Any]] = []
        self.tokens: set[str] = set()
        self.responses: list[ReceiverResponse] = []
        """Responses of the listener to deliveries."""
        self.deliver: Deliver = lambda fake, url: fake.deliver_change(url, CHANGE)
        self.refusal: tuple[int, dict[str, Any]] | None = None
        self.is_mute = False
        """Whether the response to a creation is lost. The webhook is created nevertheless."""
        self.threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def deliver_change(
        self, url: str, change: Change, *, secret: bytes = SECRET, late: float = 0, body: bytes = b""
    ) -> None:
        """Deliver a change with a signature, as the service does."""
        content = event.event_body(change)
        headers = event.event_headers(change["id"], content, [secret], time.time() - late)
        self.responses.append(send(url, headers, body or content, local=True, seconds=LIMIT))

    def handle_error(self, *_: object) -> None:
        """Ignore errors, because a listener that ends may close a connection without reading its response."""


class _Handler(BaseHTTPRequestHandler):
    def handle_one_request(self) -> None:
        self.fake = cast(Fake, self.server)
        super().handle_one_request()

    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.fake.refusal:
            return self._end(*self.fake.refusal)
        hook = content | {"webhookId": f"hook-{len(self.fake.created)}", "paused": False}
        self.fake.created.append(hook)
        self.fake.hooks[hook["webhookId"]] = hook
        if not self.fake.is_mute:
            self._end(201, hook | {"secret": encode_secret(SECRET)})
            self.fake.threads.append(threading.Thread(target=self.fake.deliver, args=(self.fake, hook["url"])))
            self.fake.threads[-1].start()
        return None

    def do_GET(self) -> None:
        id_ = self.path.removeprefix("/v1/webhooks").removeprefix("/")
        if not id_:
            self._end(200, {"items": list(self.fake.hooks.values()), "nextCursor": None})
        elif id_ in self.fake.hooks:
            self._end(200, self.fake.hooks[id_])
        else:
            self._end(404, {"detail": "The webhook does not exist."})

    def do_DELETE(self) -> None:
        removed = self.fake.hooks.pop(self.path.removeprefix("/v1/webhooks/"), None)
        self._end(204 if removed else 404, None)

    def _end(self, status: int, body: dict[str, Any] | None) -> None:
        self.fake.tokens.add(self.headers["authorization"])
        content = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    monkeypatch.setattr(listening, "mint", lambda subject, scopes: f"{subject} may {scopes}")
    monkeypatch.setattr(listening, "POLL", 0.02)
    monkeypatch.setattr(listening, "SECONDS", LIMIT)
    monkeypatch.setattr(listening._WebhookHandler, "timeout", LIMIT)
    service = Fake()
    with serving(service):
        monkeypatch.setattr(listening, "running_service", lambda: {"baseUrl": service.url})
        yield service
    for delivering in service.threads:
        delivering.join()


@pytest.fixture
def ended_after(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes the listener call `how` when it receives more than `events` events. By default,
    `how` presses Ctrl-C."""

    def end(events: int, how: Callable[[], object] = lambda: signal.raise_signal(signal.SIGINT)) -> None:
        describe, described = listening.describe_event, []

        def count(*arguments: Any, **options: Any) -> Text:
            described.append(describe(*arguments, **options))
            if len(described) > events:
                how()
            return described[-1]

        monkeypatch.setattr(listening, "describe_event", count)

    return end


def deliver(*changes: Change) -> Deliver:
    """Return a function that delivers these changes, then a last change at which the listener ends."""

    def deliver_all(fake: Fake, url: str) -> None:
        for change in (*changes, CHANGE | {"id": "last"}):
            fake.deliver_change(url, change)

    return deliver_all


class TestOutput:
    @pytest.fixture(autouse=True)
    def _ends(self, ended_after: Callable[..., None]) -> None:
        ended_after(1)

    def test_verified_event_is_printed_on_one_line(self, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
        fake.deliver = deliver(CHANGE)
        assert main(["listen"]) == 0
        out = capsys.readouterr().out
        assert f"\n{LINE}\n" in out
        assert fake.responses[0].status == 204
        assert f"Listening at {fake.created[0]['url']} for changes of all users' videos (all types)." in out

    def test_event_with_a_wrong_missing_or_old_signature_is_refused(
        self, fake: Fake, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def deliver_refused(fake: Fake, url: str) -> None:
            fake.deliver_change(url, CHANGE, secret=OTHER)
            fake.deliver_change(url, CHANGE, late=301)
            fake.deliver_change(url, CHANGE, body=b"{}")
            for headers in ({}, {"webhook-id": "a", "webhook-timestamp": "1", "webhook-signature": "v1"}):
                fake.responses.append(send(url, headers, b"\xff", local=True, seconds=LIMIT))
            deliver(CHANGE)(fake, url)

        fake.deliver = deliver_refused
        assert main(["listen"]) == 0
        out = capsys.readouterr().out
        assert [response.status for response in fake.responses[:6]] == [401] * 5 + [204]
        assert out.count("refused: ") == 5
        assert "refused: Message timestamp too old" in out
        assert out.count("video.changed") == 1

    def test_request_to_another_path_or_too_large_is_refused(self, fake: Fake) -> None:
        def deliver_refused(fake: Fake, url: str) -> None:
            fake.deliver_change(f"{url}/else", CHANGE)
            fake.responses.append(send(url, {"transfer-encoding": "chunked"}, b"x" * 1_000_001, local=True))
            deliver(CHANGE)(fake, url)

        fake.deliver = deliver_refused
        assert main(["listen"]) == 0
        assert [response.status for response in fake.responses[:1]] == [404]
        # 413, or no status if the connection closed before the whole body was sent
        assert fake.responses[1].status in (413, None)

    def test_text_from_an_event_is_printed_with_control_characters_escaped(
        self, fake: Fake, capsys: pytest.CaptureFixture[str]
    ) -> None:
        bad = "\x1b[2J\x07[red]\r\n"
        fake.deliver = deliver(CHANGE | {"fields": [bad], "personId": bad, "by": {"id": bad, "kind": "person"}})
        assert main(["listen"]) == 0
        line = next(line for line in capsys.readouterr().out.splitlines() if "video.changed" in line)
        assert line.isprintable()
        assert line.count(r"\u001b[2J\u0007[red]\r\n") == 3

    def test_test_event_is_printed(self, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
        fake.deliver = deliver(event.test_change("hook-0", 1_795_384_206.5))
        assert main(["listen"]) == 0
        assert "\n2026-11-22 21:50:06Z  webhook.test\n" in capsys.readouterr().out


def test_event_sent_again_is_marked(
    fake: Fake, ended_after: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    ended_after(2)
    fake.deliver = deliver(CHANGE, CHANGE)
    assert main(["listen"]) == 0
    assert f"{LINE}\n{LINE}  (sent again)\n3 events received; the webhook is deleted." in capsys.readouterr().out


class TestWebhook:
    @pytest.fixture(autouse=True)
    def _ends(self, ended_after: Callable[..., None]) -> None:
        ended_after(0)

    def test_webhook_of_the_tool_subscribes_to_all_changes(self, fake: Fake) -> None:
        assert main(["listen"]) == 0
        (webhook,) = fake.created
        assert webhook["url"].startswith("http://127.0.0.1:")
        assert (webhook["userId"], "types" in webhook) == ("*", False)
        assert fake.tokens == {"Bearer tools-listen may videos/read videos/write videos/changes"}

    def test_options_select_types_and_user(self, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["listen", "--types", "video.*, job.done", "--user-id", "alice"]) == 0
        (webhook,) = fake.created
        assert (webhook["userId"], webhook["types"]) == ("alice", ["job.done", "video.*"])
        assert "for changes of the videos of alice (job.done, video.*)." in capsys.readouterr().out

    def test_url_option_sets_the_url_of_a_tunnel(self, fake: Fake) -> None:
        port = free_port()
        fake.deliver = lambda fake, url: fake.deliver_change(
            url.replace("https://tunnel.example.com", f"http://127.0.0.1:{port}"), CHANGE
        )
        assert main(["listen", "--url", "https://tunnel.example.com/", "--port", str(port)]) == 0
        assert fake.created[0]["url"].startswith("https://tunnel.example.com/")

    def test_api_option_creates_the_webhook_at_a_deployed_service(
        self, fake: Fake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake.deliver = lambda fake, url: fake.deliver_change(url, CHANGE)
        monkeypatch.setenv("TOKEN", "mine")
        assert main(["listen", "--api", fake.url]) == 0  # a service on this machine needs no tunnel
        assert fake.tokens == {"Bearer mine"}
        assert "userId" not in fake.created[0]


class TestCleanup:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
    def test_webhook_is_deleted_after_a_signal(
        self,
        fake: Fake,
        ended_after: Callable[..., None],
        number: signal.Signals,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        before = signal.getsignal(number)
        ended_after(0, lambda: signal.raise_signal(number))
        assert main(["listen"]) == 0
        assert (len(fake.created), fake.hooks) == (1, {})
        assert "\n1 event received; the webhook is deleted.\n" in capsys.readouterr().out
        assert signal.getsignal(number) == before

    def test_webhook_is_deleted_after_an_error(self, fake: Fake, ended_after: Callable[..., None]) -> None:
        def fail() -> None:
            raise ZeroDivisionError

        ended_after(0, fail)
        with pytest.raises(ZeroDivisionError):
            main(["listen"])
        assert (len(fake.created), fake.hooks) == (1, {})

    def test_webhook_whose_creation_response_was_lost_is_deleted(
        self, fake: Fake, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.is_mute = True
        fake.hooks["mine"] = {"webhookId": "mine", "url": "https://example.com/in"}
        assert main(["listen"]) == 1
        assert (len(fake.created), list(fake.hooks)) == (1, ["mine"])
        assert "does not respond" in capsys.readouterr().err

    def test_webhook_of_a_killed_listener_is_deleted(self, fake: Fake, ended_after: Callable[..., None]) -> None:
        ended_after(0)
        dead = free_port()
        with create_server(("127.0.0.1", 0)) as listener:
            alive = listener.getsockname()[1]
            urls = {
                "dead": f"http://127.0.0.1:{dead}/a",
                "alive": f"http://127.0.0.1:{alive}/a",
                "portless": "http://127.0.0.1/a",
                "tunnel": f"https://tunnel.example.com:{dead}/a",
            }
            fake.hooks = {id_: {"webhookId": id_, "url": url} for id_, url in urls.items()}
            assert main(["listen"]) == 0
        assert list(fake.hooks) == ["alive", "portless", "tunnel"]


class TestErrors:
    def test_listen_reports_that_the_service_is_unreachable(
        self, fake: Fake, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def end(fake: Fake, url: str) -> None:
            fake.deliver_change(url, CHANGE)
            fake.socket.close()

        fake.deliver = end
        assert main(["listen"]) == 1
        captured = capsys.readouterr()
        assert LINE in captured.out
        assert f"The service at {fake.url}" in captured.err
        assert "Therefore, the webhook hook-0 still exists. The next `listen` deletes it." in captured.err
        assert captured.err.count("\n") == 1

    def test_listen_reports_that_the_webhook_was_deleted(self, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
        fake.deliver = lambda fake, _: fake.hooks.clear()
        assert main(["listen"]) == 1
        assert "The webhook was deleted." in capsys.readouterr().err

    def test_listen_reports_that_the_webhook_is_paused_and_the_reason(
        self,
        fake: Fake,
        ended_after: Callable[..., None],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        ended_after(0)
        printed = threading.Event()
        print_line = listening.Listener._print

        def notice(listener: listening.Listener, text: str) -> None:
            print_line(listener, text)
            if "paused" in text:
                printed.set()

        monkeypatch.setattr(listening.Listener, "_print", notice)

        def pause(fake: Fake, url: str) -> None:
            fake.hooks["hook-0"] |= {"paused": True, "pausedBecause": "The receiver returned 410 Gone."}
            assert printed.wait(LIMIT)
            fake.deliver_change(url, CHANGE)

        fake.deliver = pause
        assert main(["listen"]) == 0
        assert capsys.readouterr().out.count("The webhook is paused. The receiver returned 410 Gone.") == 1

    def test_listen_reports_why_the_webhook_was_not_created(
        self, fake: Fake, capsys: pytest.CaptureFixture[str]
    ) -> None:
        detail = "There is no type video.seen."
        fake.refusal = (422, {"detail": "No.", "errors": [{"pointer": "/types/0", "detail": detail}]})
        assert main(["listen", "--types", "video.seen"]) == 1
        assert capsys.readouterr().err == f"The service did not create the webhook: /types/0: {detail}\n"

    def test_listen_reports_that_its_port_is_in_use(self, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["listen", "--port", str(fake.server_port)]) == 1
        assert f"Cannot listen on port {fake.server_port}: " in capsys.readouterr().err
        assert fake.created == []

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--url", "https://a.example.com"], "--url requires --port, the local port of the tunnel."),
            (
                ["--api", "https://a.example.com"],
                "--api requires --url, because a deployed service cannot call this machine.",
            ),
            (
                ["--api", "https://a.example.com", "--url", "https://b.example.com", "--port", "1"],
                "The environment variable TOKEN is not set. Set it to a token for https://a.example.com with the scopes videos/read and videos/write.",
            ),
        ],
    )
    def test_listen_reports_a_missing_argument_or_token(
        self, arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv("TOKEN", raising=False)
        assert main(["listen", *arguments]) == 1
        assert capsys.readouterr().err == f"{sentence}\n"

    def test_listen_reports_that_no_local_service_runs(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("local.running_service.__defaults__", (tmp_path / "service.json",))
        assert main(["listen"]) == 1
        assert "The service is not running. Start it with `make run`" in capsys.readouterr().err
