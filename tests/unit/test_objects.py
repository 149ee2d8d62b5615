"""S3 objects: range reads, deletion of folders, presigned requests, and retries after faults of every kind."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.exceptions import ConnectTimeoutError, IncompleteReadError
from moto.core.models import botocore_stubber

from local.testbed.harness import MEDIA_BUCKET, SOURCES_BUCKET
from shared.aws import s3 as module
from shared.aws.s3 import (
    REQUEST_ATTEMPTS,
    InvalidParts,
    ObjectChanged,
    ObjectExists,
    ObjectMetadata,
    ObjectMissing,
    Objects,
    ObjectSource,
    UploadMissing,
    object_uri,
    split_uri,
)
from shared.core.errors import InternalError, ServiceError, Unavailable
from tests.integration.faults import FaultLine, Incident, Send, lose_request, lose_response, s3_refusal

URI = object_uri(SOURCES_BUCKET, "v/u")


def _put(objects: Objects, data: bytes = b"0123456789", key: str = "v/u") -> ObjectMetadata:
    objects.put(SOURCES_BUCKET, key, data, "video/mp4")
    facts = objects.head(object_uri(SOURCES_BUCKET, key))
    assert facts
    return facts


def _line(objects: Objects) -> FaultLine:
    return FaultLine(objects.client, transport=botocore_stubber)


class TestUris:
    def test_an_s3_uri_consists_of_bucket_and_key(self) -> None:
        assert split_uri("s3://bucket/a/b") == ("bucket", "a/b")
        assert split_uri(object_uri("bucket", "a/b")) == ("bucket", "a/b")

    @pytest.mark.parametrize("uri", ["", "s3://", "s3://bucket", "s3://bucket/", "s3:///key", "https://bucket/key"])
    def test_malformed_s3_uri_is_refused(self, uri: str) -> None:
        with pytest.raises(ValueError, match="s3://"):
            split_uri(uri)


class TestReading:
    def test_head_returns_size_etag_and_type(self, objects: Objects) -> None:
        facts = _put(objects)
        assert (facts.size, facts.content_type) == (10, "video/mp4")
        assert facts.etag
        assert '"' not in facts.etag

    def test_head_of_an_absent_object_is_none(self, objects: Objects) -> None:
        assert objects.head(URI) is None
        assert not objects.exists(URI)

    def test_object_exists_only_under_its_full_key(self, objects: Objects) -> None:
        _put(objects, key="v/u-and-more")
        assert not objects.exists(URI)
        assert objects.exists(f"{URI}-and-more")

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [(0, 3, b"012"), (4, 2, b"45"), (8, 10, b"89"), (10, 1, b""), (99, 5, b""), (0, 0, b""), (3, -1, b"")],
    )
    def test_a_range_ends_with_the_object(self, objects: Objects, start: int, length: int, expected: bytes) -> None:
        facts = _put(objects)
        assert objects.read(URI, start, length, facts.etag) == expected

    def test_a_source_refuses_to_read_a_replaced_object(self, objects: Objects) -> None:
        facts = _put(objects)
        source = ObjectSource(objects, URI, facts.etag, facts.size)
        assert (source.size, source.read(2, 3)) == (10, b"234")
        _put(objects, b"another one")
        with pytest.raises(ObjectChanged):
            source.read(2, 3)

    def test_reading_an_absent_object_raises_object_gone(self, objects: Objects) -> None:
        with pytest.raises(ObjectMissing):
            objects.read(URI, 0, 1)
        with pytest.raises(ObjectMissing):
            objects.read(URI, 0, 1, "some")


class TestPutting:
    def test_content_type_and_cache_control_are_stored(self, objects: Objects) -> None:
        objects.put(MEDIA_BUCKET, "thumbnails/v/poster.webp", b"x", "image/webp", cache_control="max-age=60")
        head = objects.client.head_object(Bucket=MEDIA_BUCKET, Key="thumbnails/v/poster.webp")
        assert (head["ContentType"], head["CacheControl"]) == ("image/webp", "max-age=60")

    def test_put_replaces_an_object(self, objects: Objects) -> None:
        _put(objects)
        assert _put(objects, b"new").size == 3


class TestDeleting:
    def test_delete_of_a_folder_keeps_its_neighbours(self, objects: Objects) -> None:
        for key in ("v/1", "v/2", "v/deep/3", "v2/1", "other"):
            _put(objects, key=key)
        assert objects.delete_prefix(SOURCES_BUCKET, "v/") == 3
        remaining = objects.client.list_objects_v2(Bucket=SOURCES_BUCKET)["Contents"]
        assert [stored["Key"] for stored in remaining] == ["other", "v2/1"]

    def test_delete_prefix_is_idempotent(self, objects: Objects) -> None:
        _put(objects)
        assert [objects.delete_prefix(SOURCES_BUCKET, "v/") for _ in range(2)] == [1, 0]

    @pytest.mark.parametrize("prefix", ["", "/", "v", "//"])
    def test_delete_refuses_a_prefix_that_is_not_a_folder(self, objects: Objects, prefix: str) -> None:
        with pytest.raises(ValueError, match="folder"):
            objects.delete_prefix(SOURCES_BUCKET, prefix)

    def test_delete_of_a_folder_covers_many_pages(self, objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
        for number in range(5):
            _put(objects, key=f"v/{number}")
        list_objects = objects.client.list_objects_v2
        monkeypatch.setattr(objects.client, "list_objects_v2", lambda **query: list_objects(**query, MaxKeys=2))
        assert objects.delete_prefix(SOURCES_BUCKET, "v/") == 5

    def test_interrupted_delete_can_be_continued(self, objects: Objects) -> None:
        for number in range(3):
            _put(objects, key=f"v/{number}")
        line = _line(objects)
        line.arm(s3_refusal("SlowDown", 503))
        with pytest.raises(Unavailable):
            objects.delete_prefix(SOURCES_BUCKET, "v/")
        line.disarm()
        assert objects.delete_prefix(SOURCES_BUCKET, "v/") == 3

    @pytest.mark.parametrize(
        ("code", "error"), [("SlowDown", Unavailable), ("InternalError", Unavailable), ("AccessDenied", InternalError)]
    )
    def test_an_object_that_could_not_be_deleted_is_an_error(
        self, objects: Objects, monkeypatch: pytest.MonkeyPatch, code: str, error: type[ServiceError]
    ) -> None:
        _put(objects)
        refused = {"Errors": [{"Key": "v/u", "Code": code, "Message": "secret-of-s3"}]}
        monkeypatch.setattr(objects.client, "delete_objects", lambda **_: refused)
        with pytest.raises(error) as raised:
            objects.delete_prefix(SOURCES_BUCKET, "v/")
        assert "secret" not in raised.value.detail


class TestPresigned:
    """Presigned requests. moto checks no signatures, so these tests inspect the signed conditions."""

    def _signed(self, url: str) -> dict[str, list[str]]:
        query = parse_qs(urlsplit(url).query)
        assert query["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
        return query

    def test_a_put_is_bound_to_type_and_size_and_to_an_unused_key(self, objects: Objects) -> None:
        url, headers = objects.presign_put(URI, "video/mp4", 123, 3600)
        query = self._signed(url)
        assert query["X-Amz-SignedHeaders"] == ["content-length;content-type;host;if-none-match"]
        assert query["X-Amz-Expires"] == ["3600"]
        assert headers == {"Content-Type": "video/mp4", "If-None-Match": "*"}

    def test_the_signature_depends_on_the_size(self, objects: Objects) -> None:
        signatures = set()
        for size in (122, 123):
            query = self._signed(objects.presign_put(URI, "video/mp4", size, 3600)[0])
            # X-Amz-Date is also signed. Both signatures have the same date, so only the size differs.
            signatures.add((query["X-Amz-Signature"][0], query["X-Amz-Date"][0]))
        assert len({signature for signature, _ in signatures}) == 2

    def test_a_part_is_bound_to_its_size_and_number(self, objects: Objects) -> None:
        url = objects.presign_part(URI, "multipart", 7, 123, 60)
        query = self._signed(url)
        assert query["X-Amz-SignedHeaders"] == ["content-length;host"]
        assert (query["partNumber"], query["uploadId"]) == (["7"], ["multipart"])

    @pytest.mark.parametrize("region", ["us-east-1", "eu-central-1"])
    def test_presigned_url_uses_the_regional_host_of_the_bucket(
        self, monkeypatch: pytest.MonkeyPatch, region: str
    ) -> None:
        monkeypatch.setenv("AWS_DEFAULT_REGION", region)
        url, _ = Objects(module.make_client()).presign_put(URI, "video/mp4", 1, 60)
        assert url.startswith(f"https://sources.s3.{region}.amazonaws.com/v/u?")

    def test_presigned_url_uses_the_configured_endpoint(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
        url, _ = Objects(module.make_client()).presign_put(URI, "video/mp4", 1, 60)
        assert url.startswith("http://127.0.0.1:4566/sources/v/u?")


class TestMultipart:
    def _part(self, objects: Objects, upload: str, number: int, data: bytes) -> str:
        response = objects.client.upload_part(
            Bucket=SOURCES_BUCKET, Key="v/u", UploadId=upload, PartNumber=number, Body=data
        )
        return response["ETag"]

    def test_completed_parts_become_an_object_of_the_requested_type(self, objects: Objects) -> None:
        upload = objects.start_multipart(URI, "video/webm")
        large = b"x" * 5 * 1024**2
        etags = [self._part(objects, upload, 1, large), self._part(objects, upload, 2, b"end")]
        objects.complete_multipart(URI, upload, etags, len(large) + 3)
        facts = objects.head(URI)
        assert facts
        assert (facts.size, facts.content_type) == (len(large) + 3, "video/webm")

    def test_wrong_and_small_parts_are_refused(self, objects: Objects) -> None:
        upload = objects.start_multipart(URI, "video/webm")
        etags = [self._part(objects, upload, number, b"small") for number in (1, 2)]
        with pytest.raises(InvalidParts):
            objects.complete_multipart(URI, upload, etags, 10)
        with pytest.raises(InvalidParts):
            objects.complete_multipart(URI, upload, ['"wrong"', etags[1]], 10)

    def test_aborted_multipart_upload_is_deleted(self, objects: Objects) -> None:
        upload = objects.start_multipart(URI, "video/webm")
        objects.abort_multipart(URI, upload)
        with pytest.raises(UploadMissing):
            objects.abort_multipart(URI, upload)
        with pytest.raises(UploadMissing):
            objects.complete_multipart(URI, upload, ['"etag"'], 10)

    def test_existing_key_is_not_overwritten(self, objects: Objects) -> None:
        line = _line(objects)
        line.arm(s3_refusal("PreconditionFailed", 412))
        with pytest.raises(ObjectExists):
            objects.complete_multipart(URI, "upload", ['"etag"'], 10)


REQUESTS: dict[str, Callable[[Objects], object]] = {
    "head": lambda objects: objects.head(URI),
    "exists": lambda objects: objects.exists(URI),
    "read": lambda objects: objects.read(URI, 0, 3),
    "put": lambda objects: objects.put(SOURCES_BUCKET, "v/u", b"0123456789", "video/mp4"),
    "delete": lambda objects: objects.delete_prefix(SOURCES_BUCKET, "v/"),
    "start": lambda objects: objects.start_multipart(URI, "video/mp4"),
    "complete": lambda objects: objects.complete_multipart(f"{URI}2", "none", ['"e"'], 1),
    "abort": lambda objects: objects.abort_multipart(f"{URI}2", "none"),
}


def _refused_to_connect(_: Send) -> Any:
    raise ConnectTimeoutError(endpoint_url="s3")


FAULTS: dict[str, Incident] = {
    "slow down": s3_refusal("SlowDown", 503),
    "internal error": s3_refusal("InternalError", 500),
    "request timeout": s3_refusal("RequestTimeout", 400),
    "conflict": s3_refusal("OperationAborted", 409),
    "a proxy's answer": s3_refusal("", 502),
    "request lost": lose_request,
    "answer lost": lose_response,
    "not connected": _refused_to_connect,
}


# One test covers all faults of a request, because starting moto takes most of the time.
@pytest.mark.parametrize("request_", REQUESTS)
class TestFaults:
    def test_transient_fault_is_retried(self, objects: Objects, request_: str) -> None:
        line = _line(objects)
        for incident in FAULTS.values():
            line.disarm()
            _put(objects)
            line.arm(incident, at=0)
            try:
                REQUESTS[request_](objects)
            except UploadMissing:
                assert request_ in ("complete", "abort")
            assert len(line.calls) >= 2

    def test_lasting_fault_raises_unavailable_without_internal_details(self, objects: Objects, request_: str) -> None:
        line = _line(objects)
        for fault, incident in FAULTS.items():
            if request_ == "head" and fault in ("request timeout", "conflict"):
                continue  # a response to HEAD has no body, so no error code
            line.disarm()
            _put(objects)
            line.arm(incident)
            with pytest.raises(Unavailable) as raised:
                REQUESTS[request_](objects)
            assert len(line.calls) == REQUEST_ATTEMPTS
            assert raised.value.detail == "The object store is busy. Retry the request."


@pytest.mark.parametrize("request_", REQUESTS)
def test_permanent_refusal_is_an_internal_error_and_is_not_retried(objects: Objects, request_: str) -> None:
    line = _line(objects)
    line.arm(s3_refusal("AccessDenied", 403))
    with pytest.raises(InternalError) as raised:
        REQUESTS[request_](objects)
    assert len(line.calls) == 1
    assert "secret" not in raised.value.detail


def test_interrupted_body_is_read_again(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    _put(objects)
    get_complete = objects.client.get_object
    reads = []

    def get_object(**query: Any) -> Any:
        response = get_complete(**query)
        reads.append(query)
        if len(reads) == 1:

            def broken() -> bytes:
                raise IncompleteReadError(actual_bytes=1, expected_bytes=3)

            monkeypatch.setattr(response["Body"], "read", broken)
        return response

    monkeypatch.setattr(objects.client, "get_object", get_object)
    assert objects.read(URI, 0, 3) == b"012"
    assert len(reads) == 2
