"""Uploads over HTTP: the store checks signatures, and clients comply with the signed conditions or violate them."""

from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from functions.arrivals import handler as arrivals
from local.aws import Aws
from local.testbed.harness import NOW, SOURCES_BUCKET, Api, Clock, Context, FakeResources, make_api
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.aws.s3 import make_client as make_s3_client
from shared.aws.sqs import Queue
from shared.aws.sqs import make_client as make_queue_client
from shared.core.attributes import Item
from shared.core.errors import QuotaExceeded
from shared.processing.daily_quota import QuotaStore
from shared.processing.uploads import LARGEST_PUT, UploadStore
from shared.schema import QUOTA, VIDEO
from tests.integration.concurrency import run_concurrently
from tests.integration.conftest import reaching
from tests.polling import LIMIT, eventually

SOURCE = b"not really a film"


@pytest.fixture(scope="module")
def objects(objects_aws: Aws) -> Objects:
    """Return S3, with an empty bucket for source files."""
    with reaching(objects_aws):
        client = make_s3_client()
    client.create_bucket(Bucket=SOURCES_BUCKET)
    return Objects(client)


@pytest.fixture(scope="module")
def queue(objects_aws: Aws, objects: Objects) -> Queue:
    """Return the queue that receives S3's notifications."""
    with reaching(objects_aws):
        client = make_queue_client()
    url = client.create_queue(QueueName="arrivals")["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    objects.client.put_bucket_notification_configuration(
        Bucket=SOURCES_BUCKET,
        NotificationConfiguration={"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]},
    )
    return Queue(url, client)


@pytest.fixture
def api(table: Table, clock: Clock, objects: Objects) -> Api:
    """Return the service with the table and S3."""
    return make_api(table, clock, objects)


@pytest.fixture(scope="module")
def browser() -> Iterator[httpx.Client]:
    """Return an HTTP client that uploads the source files."""
    with httpx.Client(timeout=LIMIT, trust_env=False) as client:
        yield client


def _begin(api: Api, size: int = len(SOURCE)) -> tuple[str, dict[str, Any]]:
    video_id = str(api.create()["videoId"])
    reply = api.post(f"/v1/videos/{video_id}/upload", {"contentType": "video/mp4", "fileSize": size})
    assert reply.status == 201, reply.body
    return video_id, reply.json


def _deliver(queue: Queue, table: Table, objects: Objects, clock: Clock, video_id: str) -> dict[str, Any]:
    """Process S3's notifications until the video has a source file. Return the video's item."""
    function = FakeResources(table, clock, objects=objects).make(arrivals.lambda_handler)

    def read_video() -> Item | None:
        received = queue.client.receive_message(QueueUrl=queue.url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        for message in received.get("Messages", []):
            record = {"messageId": message["MessageId"], "body": message["Body"]}
            assert function({"Records": [record]}, Context()) == {"batchItemFailures": []}
            queue.client.delete_message(QueueUrl=queue.url, ReceiptHandle=message["ReceiptHandle"])
        return table.get(VIDEO.key(videoId=video_id), consistent=True)

    return eventually(read_video, lambda item: item and "source" in item) or {}


class TestPut:
    def test_file_sent_as_instructed_becomes_the_source(
        self, api: Api, browser: httpx.Client, queue: Queue, table: Table, objects: Objects, clock: Clock
    ) -> None:
        video_id, begun = _begin(api)
        assert browser.put(begun["url"], content=SOURCE, headers=begun["headers"]).status_code == 200
        item = _deliver(queue, table, objects, clock, video_id)
        assert (item["status"], item["source"]["fileSize"]) == ("processing", len(SOURCE))
        assert objects.read(item["source"]["uri"], 0, 100, item["source"]["etag"]) == SOURCE

    @pytest.mark.parametrize(
        ("source", "change"),
        [
            (SOURCE + b"!", {}),
            (SOURCE[1:], {}),
            (b"", {}),
            (SOURCE, {"Content-Type": "text/html"}),
            (SOURCE, {"If-None-Match": ""}),
        ],
    )
    def test_upload_that_differs_from_its_announcement_is_refused(
        self, api: Api, browser: httpx.Client, source: bytes, change: dict[str, str]
    ) -> None:
        _, begun = _begin(api)
        assert browser.put(begun["url"], content=source, headers=begun["headers"] | change).status_code == 403

    def test_upload_url_works_once(self, api: Api, browser: httpx.Client) -> None:
        _, begun = _begin(api)
        statuses = [browser.put(begun["url"], content=SOURCE, headers=begun["headers"]).status_code for _ in range(2)]
        assert statuses == [200, 412]


class TestParts:
    def test_parts_sent_as_instructed_become_the_source(
        self, api: Api, browser: httpx.Client, queue: Queue, table: Table, objects: Objects, clock: Clock
    ) -> None:
        video_id, begun = _begin(api, LARGEST_PUT + 1)
        parts = []
        for part in begun["parts"]:
            data = bytes([part["partNumber"]]) * part["size"]
            response = browser.put(part["url"], content=data)
            assert response.status_code == 200, response.text
            parts.append({"partNumber": part["partNumber"], "etag": response.headers["ETag"]})
        path = urljoin(f"/v1/videos/{video_id}/upload", begun["complete"])
        wrong = [*parts[:-1], {"partNumber": len(parts), "etag": '"00000000000000000000000000000000"'}]
        assert api.post(path, {"parts": wrong}).status == 422
        for _ in range(2):
            assert api.post(path, {"parts": parts}).status == 200
        item = _deliver(queue, table, objects, clock, video_id)
        assert item["source"]["fileSize"] == LARGEST_PUT + 1
        assert objects.read(item["source"]["uri"], LARGEST_PUT, 10) == bytes([len(parts)])
        assert api.delete(urljoin(f"/v1/videos/{video_id}/upload", begun["abort"])).status == 409

    def test_part_of_another_size_is_refused(self, api: Api, browser: httpx.Client) -> None:
        _, begun = _begin(api, LARGEST_PUT + 1)
        assert browser.put(begun["parts"][0]["url"], content=b"short").status_code == 403

    def test_aborted_upload_accepts_no_parts(self, api: Api, browser: httpx.Client) -> None:
        video_id, begun = _begin(api, LARGEST_PUT + 1)
        path = urljoin(f"/v1/videos/{video_id}/upload", begun["abort"])
        assert [api.delete(path).status for _ in range(2)] == [204, 204]
        last = begun["parts"][-1]
        assert browser.put(last["url"], content=b"x" * last["size"]).status_code == 404
        parts = [{"partNumber": part["partNumber"], "etag": '"e"'} for part in begun["parts"]]
        assert api.post(f"{path}/complete", {"parts": parts}).status == 409


class TestResume:
    """A client that was interrupted and has only the upload's id can resume the upload."""

    def test_multipart_upload_resumes_with_new_urls(
        self, api: Api, browser: httpx.Client, queue: Queue, table: Table, objects: Objects, clock: Clock
    ) -> None:
        video_id, begun = _begin(api, LARGEST_PUT + 1)
        path = f"/v1/videos/{video_id}/upload/{begun['uploadId']}"
        second = begun["parts"][1]
        for fill in (b"?", b"2"):  # the last upload of a part counts
            etag = browser.put(second["url"], content=fill * second["size"]).headers["ETag"]
        upload = api.get(path).json
        assert [part.get("etag") for part in upload["parts"]] == [None, etag, None]
        last = upload["parts"][-1]
        assert browser.put(last["url"], content=b"x" * (last["size"] - 1)).status_code == 403
        for part in upload["parts"]:
            if "url" in part:
                data = str(part["partNumber"]).encode() * part["size"]
                assert browser.put(part["url"], content=data).status_code == 200
        parts = [{"partNumber": part["partNumber"], "etag": part["etag"]} for part in api.get(path).json["parts"]]
        assert api.post(urljoin(f"/v1/videos/{video_id}/upload", upload["complete"]), {"parts": parts}).status == 200
        assert api.get(path).json["state"] == "received"
        item = _deliver(queue, table, objects, clock, video_id)
        assert item["source"]["fileSize"] == LARGEST_PUT + 1
        assert objects.read(item["source"]["uri"], second["size"], 3) == b"222"

    def test_put_upload_resumes_with_a_new_url(self, api: Api, browser: httpx.Client) -> None:
        video_id, begun = _begin(api)
        path = f"/v1/videos/{video_id}/upload/{begun['uploadId']}"
        upload = api.get(path).json
        assert browser.put(upload["url"], content=SOURCE + b"!", headers=upload["headers"]).status_code == 403
        assert browser.put(upload["url"], content=SOURCE, headers=upload["headers"]).status_code == 200
        # S3 has stored the file, but no function has processed the notification.
        assert api.get(path).json["state"] == "received"
        assert browser.put(begun["url"], content=SOURCE, headers=begun["headers"]).status_code == 412

    def test_new_urls_expire_with_the_upload(self, api: Api, browser: httpx.Client) -> None:
        video_id, begun = _begin(api, LARGEST_PUT + 1)
        path = f"/v1/videos/{video_id}/upload/{begun['uploadId']}"
        part = api.get(path).json["parts"][0]
        assert api.delete(urljoin(f"/v1/videos/{video_id}/upload", begun["abort"])).status == 204
        assert browser.put(part["url"], content=b"x" * part["size"]).status_code == 404
        assert api.get(path).json["state"] == "aborted"


def test_concurrent_complete_and_abort_have_one_outcome(api: Api, table: Table, objects: Objects) -> None:
    for _ in range(5):
        video_id, begun = _begin(api, LARGEST_PUT + 1)
        path = f"/v1/videos/{video_id}/upload/{begun['uploadId']}"
        item = UploadStore(table).find(video_id, begun["uploadId"])
        assert item
        # The service's own client sends the parts, because this test does not need signed URLs.
        etags = [
            objects.client.upload_part(
                Bucket=SOURCES_BUCKET,
                Key=f"{video_id}/{begun['uploadId']}",
                UploadId=item["multipartId"],
                PartNumber=part["partNumber"],
                Body=b"x" * 5 * 1024**2,
            )["ETag"]
            for part in begun["parts"]
        ]
        parts = [{"partNumber": number, "etag": etag} for number, etag in enumerate(etags, 1)]
        # A handler serves one request at a time, so each request has its own service.
        both = [make_api(table, api.clock, objects) for _ in range(2)]
        completed, aborted = run_concurrently(
            partial(both[0].post, f"{path}/complete", {"parts": parts}), partial(both[1].delete, path)
        )
        outcome = (completed.status, aborted.status)
        after = UploadStore(table).find(video_id, begun["uploadId"])
        assert after
        if after["state"] == "received":
            assert outcome == (200, 409)
            assert objects.exists(item["uri"])
        else:
            # During the abort, S3 may have deleted the parts but not the upload yet.
            assert outcome in ((409, 204), (422, 204))


def test_concurrent_reservations_do_not_exceed_the_daily_quota(table: Table) -> None:
    quota = QuotaStore(table, 10)

    def reserve() -> bool:
        try:
            quota.reserve("alice", 3, NOW)
        except QuotaExceeded:
            return False
        return True

    assert sum(run_concurrently(*[reserve] * 16)) == 3
    item = table.get(QUOTA.key(userId="alice", date="2025-06-15"), consistent=True)
    assert item
    assert item["jobs"] == 9
