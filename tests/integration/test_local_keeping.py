"""Persistence of `make run`: the process of the embedded AWS is killed and restarted with the same folder."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from local import LocalError, ministack
from local.deployment import allow_origins, switch_on_ttl
from local.ministack import MiniStack
from local.testbed.harness import create_table
from tests.polling import LIMIT

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

ITEMS = 2_000
BATCH = 25
TABLE = "Films"


class Laptop:
    """Folder with the data of the embedded AWS, which runs at most once at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def run(self) -> Iterator["Run"]:
        """Run the embedded AWS within the block, and stop it in the normal way at the end."""
        with MiniStack(self._folder / "ministack.log", self._folder / "state") as engine:
            yield Run(engine)


class Run:
    """One run of the embedded AWS."""

    def __init__(self, engine: MiniStack) -> None:
        self.engine = engine

    def client(self, service: Any) -> Any:
        """Return a client of an AWS service in this run."""
        return self.engine.aws.client(service)

    def kill(self) -> None:
        """Kill the process, as `kill -9` or a power failure does."""
        os.kill(self.engine.pid, signal.SIGKILL)
        self.engine.wait()


@pytest.fixture
def laptop(tmp_path: Path) -> Laptop:
    """Return a laptop whose folder has no data."""
    return Laptop(tmp_path)


def write(client: "DynamoDBClient", numbers: range) -> None:
    """Write items with these numbers."""
    for start in range(numbers.start, numbers.stop, BATCH):
        batch = range(start, min(start + BATCH, numbers.stop))
        items = [{"pk": {"S": f"film {number}"}, "sk": {"S": "#META"}} for number in batch]
        client.batch_write_item(RequestItems={TABLE: [{"PutRequest": {"Item": item}} for item in items]})


def count(client: "DynamoDBClient") -> int:
    """Return the number of items."""
    pages = client.get_paginator("scan").paginate(TableName=TABLE, Select="COUNT")
    return sum(page["Count"] for page in pages)


def test_thousands_of_items_survive_a_kill_and_an_orderly_end(laptop: Laptop) -> None:
    with laptop.run() as first:
        create_table(first.client("dynamodb"), TABLE)
        write(first.client("dynamodb"), range(ITEMS))
        first.engine.save()
        write(first.client("dynamodb"), range(ITEMS, ITEMS + BATCH))
        first.kill()
        assert first.engine.kept_until() is not None
    with laptop.run() as second:
        item_count = count(second.client("dynamodb"))
        assert ITEMS <= item_count <= ITEMS + BATCH
        write(second.client("dynamodb"), range(ITEMS, ITEMS + 2 * BATCH))
    assert second.engine.kept_until() is None
    with laptop.run() as third:
        assert count(third.client("dynamodb")) == ITEMS + 2 * BATCH


def test_stored_object_and_its_message_survive_a_kill(laptop: Laptop) -> None:
    with laptop.run() as first:
        first.client("s3").create_bucket(Bucket="films")
        queue = first.client("sqs").create_queue(QueueName="arrivals")["QueueUrl"]
        first.engine.save()  # as after a deployment
        first.client("s3").put_object(Bucket="films", Key="a.mp4", Body=b"a film")
        first.client("sqs").send_message(QueueUrl=queue, MessageBody="a film has arrived")
        first.engine.save()
        first.kill()
    with laptop.run() as second:
        assert second.client("s3").get_object(Bucket="films", Key="a.mp4")["Body"].read() == b"a film"
        queue = second.client("sqs").get_queue_url(QueueName="arrivals")["QueueUrl"]
        (message,) = second.client("sqs").receive_message(QueueUrl=queue)["Messages"]
        assert message["Body"] == "a film has arrived"


def test_leftovers_of_an_interrupted_first_deploy_are_discarded(laptop: Laptop) -> None:
    with laptop.run() as first:
        first.client("s3").create_bucket(Bucket="films")
        first.client("s3").put_object(Bucket="films", Key="a.mp4", Body=b"a film")
        first.kill()
    assert first.engine.kept_until() is None
    with laptop.run() as second:
        assert second.client("s3").list_buckets()["Buckets"] == []


def test_engine_killed_after_the_stop_timeout_is_reported(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ministack, "STOP_SECONDS", 0.0)
    with laptop.run() as run:
        run.engine.save()
        os.kill(run.engine.pid, signal.SIGSTOP)
        with pytest.raises(LocalError, match=r"was killed\. Writes before \d\d:\d\d:\d\d are saved"):
            run.engine.stop()


def test_tables_have_the_time_to_live_of_the_templates(laptop: Laptop, tmp_path: Path) -> None:
    table = {"TableName": TABLE, "TimeToLiveSpecification": {"AttributeName": "purgeAt", "Enabled": True}}
    resources = {"A": {"Type": "AWS::DynamoDB::GlobalTable", "Properties": table}, "B": {"Type": "AWS::SQS::Queue"}}
    (tmp_path / "Data.template.json").write_text(json.dumps({"Resources": resources}), encoding="utf-8")
    with laptop.run() as run:
        client = run.client("dynamodb")
        create_table(client, TABLE)
        for _ in range(2):  # `make run` does this at each deployment and at each start
            switch_on_ttl(run.engine.aws, tmp_path)
        description = client.describe_time_to_live(TableName=TABLE)["TimeToLiveDescription"]
        assert description == {"TimeToLiveStatus": "ENABLED", "AttributeName": "purgeAt"}


def test_api_allows_the_cors_origins_of_the_templates(laptop: Laptop, tmp_path: Path) -> None:
    cors = {"AllowOrigins": ["https://films.example"], "AllowMethods": ["GET"], "AllowHeaders": ["Authorization"]}
    api = {"Name": "Films", "ProtocolType": "HTTP", "CorsConfiguration": cors}
    template = {"Resources": {"Api": {"Type": "AWS::ApiGatewayV2::Api", "Properties": api}}}
    (tmp_path / "Api.template.json").write_text(json.dumps(template), encoding="utf-8")
    with laptop.run() as run:
        run.client("cloudformation").create_stack(StackName="Api", TemplateBody=json.dumps(template))
        run.client("cloudformation").get_waiter("stack_create_complete").wait(StackName="Api")
        (http_api,) = run.client("apigatewayv2").get_apis()["Items"]

        def preflight(origin: str) -> tuple[int, str | None]:
            headers = {"Origin": origin, "Access-Control-Request-Method": "GET"}
            response = httpx.options(
                f"{run.engine.endpoint}/v1/videos", headers=headers, trust_env=False, timeout=LIMIT
            )
            return response.status_code, response.headers.get("access-control-allow-origin")

        for _ in range(2):  # `make run` does this at each deployment and at each start
            allow_origins(run.engine.aws, tmp_path, http_api["ApiId"])
        assert preflight("https://films.example") == (204, "https://films.example")
        assert preflight("https://other.example") == (403, None)
