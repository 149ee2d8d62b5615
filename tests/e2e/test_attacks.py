"""Web pages that a developer visits cannot use the embedded AWS and the development issuer."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Request

from local.issuer import AUTHORIZE_PATH
from local.ports import serving
from tests.e2e.browser import wait_until
from tests.e2e.conftest import Service

STACK = "attack"
TEMPLATE = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
UNKNOWN_CREDENTIALS = "test/20260101/us-east-1/cloudformation/aws4_request"
FILE = "attack.html"

PAGE = """<!doctype html><title>An unrelated page</title>
<img src="{create_stack}">
<script>
fetch("{put}", {{ method: "PUT", body: "<script></" + "script>" }}).catch(() => {{}});
fetch("{list_buckets}").catch(() => {{}});
const frame = document.createElement("iframe");
frame.src = "{sign_in}";
document.documentElement.append(frame);
</script>
"""


@pytest.fixture
def attacks(service: Service) -> dict[str, str]:
    """Return the URL of each attack, by its name."""
    aws, s3 = service.aws, service.aws.client("s3")
    (assets,) = [bucket["Name"] for bucket in s3.list_buckets()["Buckets"] if "-assets-" in bucket["Name"]]
    query = {
        "Action": "CreateStack",
        "Version": "2010-05-15",
        "StackName": STACK,
        "TemplateBody": json.dumps(TEMPLATE),
        "X-Amz-Credential": UNKNOWN_CREDENTIALS,
    }
    request = {
        "client_id": "console",
        "redirect_uri": f"{service.base_url}/console/",
        "response_type": "code",
        "code_challenge": "x",
        "code_challenge_method": "S256",
        "user": "admin",
    }
    issuer = service.http.get(f"{service.base_url}/console/config.json").json()["issuer"]
    return {
        "create_stack": f"{aws.endpoint}/?{urlencode(query)}",
        "put": f"{aws.endpoint}/{assets}/{FILE}",
        "list_buckets": f"{aws.objects_endpoint}/",
        "sign_in": f"{issuer}{AUTHORIZE_PATH}?{urlencode(request)}",
    }


@contextmanager
def at_another_origin(page: str) -> Iterator[int]:
    """Serve a page from another origin than the service's, and yield its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with serving(server):
        yield server.server_port


def _require_untouched(service: Service, attacks: dict[str, str]) -> None:
    stacks = service.aws.client("cloudformation").list_stacks()["StackSummaries"]
    assert STACK not in {stack["StackName"] for stack in stacks}
    bucket = attacks["put"].split("/")[-2]
    keys = service.aws.client("s3").list_objects_v2(Bucket=bucket)["Contents"]
    assert FILE not in {listed["Key"] for listed in keys}


def test_requests_without_the_secret_of_the_start_are_refused(service: Service, attacks: dict[str, str]) -> None:
    endpoint, objects = service.aws.endpoint, service.aws.objects_endpoint
    responses = {
        "a stack": service.http.get(attacks["create_stack"]),
        "a page in a bucket": service.http.put(attacks["put"], content=b"<script></script>"),
        "the same at the objects' port": service.http.put(attacks["put"].replace(endpoint, objects), content=b"x"),
        "all buckets": service.http.get(attacks["list_buckets"]),
        "a reset": service.http.post(f"{endpoint}/_ministack/reset"),
        "a save": service.http.post(f"{endpoint}/_local/save"),
        "another host": service.http.get(f"{service.base_url}/v1/videos", headers={"Host": "evil.example"}),
    }
    assert {name: response.status_code for name, response in responses.items()} == dict.fromkeys(responses, 403)
    _require_untouched(service, attacks)
    assert service.http.get(re.sub(r"/authorize\?", "/authorize/admin?", attacks["sign_in"])).status_code == 404


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_page_of_another_origin_cannot_use_aws_or_the_issuer(
    service: Service, browser: Browser, attacks: dict[str, str], name: str
) -> None:
    """Requests from `localhost` are cross-site, and requests from another port of 127.0.0.1 are same-site."""
    ended: set[str] = set()

    def record(request: Request) -> None:
        ended.add(request.url)

    with at_another_origin(PAGE.format(**attacks)) as port:
        context = browser.new_context()
        try:
            page = context.new_page()
            page.on("requestfinished", record)
            page.on("requestfailed", record)
            page.goto(f"http://{name}:{port}/")
            wait_until(page, lambda: ended >= set(attacks.values()))
            assert not page.frames[1].get_by_role("button").count()  # the issuer's page shows no users
        finally:
            context.close()
    _require_untouched(service, attacks)
