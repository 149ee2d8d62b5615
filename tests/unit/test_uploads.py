"""Uploads over HTTP: presigned requests and their conditions, completion, and abort."""

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import botocore.session
import jsonschema_rs
import pytest
from moto.core.models import botocore_stubber
from moto.s3 import models as moto_s3

from local.testbed.harness import JOBS_PER_UPLOAD, NOW, SOURCES_BUCKET, Api, Clock, Reply, make_api
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects, make_client, object_uri
from shared.core.limits import MAX_PARTS, MAX_SOURCE_BYTES
from shared.entities import Upload
from shared.openapi.document import document
from shared.processing.daily_quota import DAY
from shared.processing.uploads import (
    LARGEST_PUT,
    MIB,
    MULTIPART_SECONDS,
    PUT_SECONDS,
    RETENTION_SECONDS,
    SMALLEST_PART,
    UPLOAD_DAYS,
    UPLOAD_ID,
    UploadStore,
    new_upload_id,
    part_size,
)
from shared.schema import QUOTA, SCHEMA_VERSION, UPLOAD, VIDEO
from tests.integration.faults import (
    FaultLine,
    Killed,
    kill_after,
    kill_before,
    lose_request,
    lose_response,
    s3_refusal,
    throttle,
)

NEW_UPLOAD = {"contentType": "video/mp4", "fileSize": 1000}
LARGE = {"contentType": "video/mp4", "fileSize": LARGEST_PUT + 1}
NO_UPLOAD = "019775a1c00-9f86d081884c7d65"


@pytest.fixture
def api(table: Table, clock: Clock, objects: Objects) -> Api:
    """Return the service with its buckets."""
    return make_api(table, clock, objects)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow parts of less than 5 MiB in moto."""
    monkeypatch.setattr(moto_s3, "S3_UPLOAD_PART_MIN_SIZE", 1)


@pytest.fixture
def video_id(api: Api) -> str:
    """Create a video of alice, and return its id."""
    return str(api.create()["videoId"])


def _begin(api: Api, video_id: str, announced: Any = NEW_UPLOAD, **options: Any) -> dict[str, Any]:
    reply = api.post(f"/v1/videos/{video_id}/upload", announced, **options)
    assert reply.status == 201, reply.body
    begun: dict[str, Any] = reply.json
    return begun


def _item(table: Table, video_id: str, upload_id: str) -> Upload:
    item = UploadStore(table).find(video_id, upload_id)
    assert item
    return item


def _send_parts(objects: Objects, video_id: str, begun: dict[str, Any], table: Table) -> list[dict[str, Any]]:
    """Send every part, as a client does. The parts are small because moto stores them in memory."""
    item = _item(table, video_id, begun["uploadId"])
    parts = []
    for part in begun["parts"]:
        number = part["partNumber"]
        data = b"part %d" % number
        response = objects.client.upload_part(
            Bucket=SOURCES_BUCKET,
            Key=f"{video_id}/{begun['uploadId']}",
            UploadId=item["multipartId"],
            PartNumber=number,
            Body=data,
        )
        parts.append({"partNumber": number, "etag": response["ETag"]})
    return parts


def _complete(api: Api, video_id: str, upload_id: str, parts: Any, **options: Any) -> Reply:
    return api.post(f"/v1/videos/{video_id}/upload/{upload_id}/complete", {"parts": parts}, **options)


def _abort(api: Api, video_id: str, upload_id: str, **options: Any) -> Reply:
    return api.delete(f"/v1/videos/{video_id}/upload/{upload_id}", **options)


class TestIds:
    def test_later_upload_ids_sort_higher(self) -> None:
        ids = [new_upload_id(NOW * 1000 + step) for step in (0, 1, 2, 1000, 10**9)]
        assert ids == sorted(ids)
        assert all(re.fullmatch(UPLOAD_ID, upload_id) for upload_id in ids)

    def test_upload_ids_of_the_same_moment_differ(self) -> None:
        assert new_upload_id(NOW) != new_upload_id(NOW)

    def test_uploads_of_one_second_have_distinct_ids(self, api: Api, video_id: str) -> None:
        ids = []
        for _ in range(5):
            ids.append(_begin(api, video_id)["uploadId"])
            api.clock.advance(0.002)
        assert ids == sorted(ids)


class TestPartSizes:
    @pytest.mark.parametrize("size", [1, LARGEST_PUT, 10**10, 32 * MIB * MAX_PARTS, 10**11, MAX_SOURCE_BYTES])
    def test_part_size_respects_the_limits_of_s3(self, size: int) -> None:
        one = part_size(size)
        assert one % MIB == 0
        assert SMALLEST_PART <= one <= 5 * 1024 * MIB
        assert -(-size // one) <= MAX_PARTS


class TestPut:
    def test_put_upload_returns_method_url_headers_and_expiry(self, api: Api, video_id: str, table: Table) -> None:
        reply = api.post(f"/v1/videos/{video_id}/upload", NEW_UPLOAD)
        assert reply.status == 201
        begun = reply.json
        upload_id = begun["uploadId"]
        assert set(begun) == {"uploadId", "method", "url", "headers", "abort", "expiresAt"}
        assert begun["method"] == "PUT"
        assert begun["headers"] == {"Content-Type": "video/mp4", "If-None-Match": "*"}
        assert begun["expiresAt"] == NOW + PUT_SECONDS
        assert begun["abort"] == f"upload/{upload_id}"
        url = urlsplit(begun["url"])
        assert url.path == f"/{video_id}/{upload_id}"
        signed = parse_qs(url.query)["X-Amz-SignedHeaders"]
        assert signed == ["content-length;content-type;host;if-none-match"]
        assert reply.headers["cache-control"] == "no-store"
        item = _item(table, video_id, upload_id)
        assert item.pop("updatedFor")  # the request id that the gateway created
        assert item == {
            **UPLOAD.key(videoId=video_id, uploadId=upload_id),
            "videoId": video_id,
            "uploadId": upload_id,
            "uri": object_uri(SOURCES_BUCKET, f"{video_id}/{upload_id}"),
            "contentType": "video/mp4",
            "fileSize": 1000,
            "state": "open",
            "requestedBy": "alice",
            "requestedAt": NOW,
            "schemaVersion": SCHEMA_VERSION,
            "purgeAt": NOW + RETENTION_SECONDS,
        }

    def test_put_upload_may_have_the_largest_size(self, api: Api, video_id: str) -> None:
        assert "url" in _begin(api, video_id, {"contentType": "video/mp4", "fileSize": LARGEST_PUT})

    def test_every_upload_has_a_separate_key(self, api: Api, video_id: str) -> None:
        assert len({_begin(api, video_id)["uploadId"] for _ in range(5)}) == 5

    def test_video_id_of_an_upload_is_case_insensitive(self, api: Api, video_id: str) -> None:
        assert f"/{video_id}/" in _begin(api, video_id.upper())["url"]

    @pytest.mark.parametrize(
        "kind", ["video/mp4", "video/x-matroska", "video/quicktime", "application/mxf", "application/octet-stream"]
    )
    def test_accepted_content_types_are_video_types(self, api: Api, video_id: str, kind: str) -> None:
        begun = _begin(api, video_id, NEW_UPLOAD | {"contentType": kind})
        assert begun["headers"]["Content-Type"] == kind

    @pytest.mark.parametrize(
        ("change", "pointer"),
        [
            ({"contentType": "text/html"}, "/contentType"),
            ({"contentType": "video/mp4\r\nX-Evil: 1"}, "/contentType"),
            ({"contentType": "video/mp4; codecs=avc1"}, "/contentType"),
            ({"contentType": "VIDEO/MP4"}, "/contentType"),
            ({"contentType": "video/" + "x" * 200}, "/contentType"),
            ({"contentType": None}, "/contentType"),
            ({"fileSize": 0}, "/fileSize"),
            ({"fileSize": -1}, "/fileSize"),
            ({"fileSize": 1.5}, "/fileSize"),
            ({"fileSize": "1000"}, "/fileSize"),
            ({"fileSize": True}, "/fileSize"),
            ({"fileSize": MAX_SOURCE_BYTES + 1}, "/fileSize"),
            ({"key": "../other"}, "/key"),
        ],
    )
    def test_invalid_body_is_422(self, api: Api, video_id: str, table: Table, change: Any, pointer: str) -> None:
        reply = api.post(f"/v1/videos/{video_id}/upload", NEW_UPLOAD | change)
        assert reply.status == 422
        assert pointer in [error["pointer"] for error in reply.json["errors"]]
        assert table.get(QUOTA.key(userId="alice", date="2025-06-15")) is None


class TestParts:
    def test_multipart_upload_returns_url_and_size_of_each_part(self, api: Api, video_id: str, table: Table) -> None:
        begun = _begin(api, video_id, LARGE)
        upload_id = begun["uploadId"]
        assert set(begun) == {"uploadId", "partSize", "parts", "complete", "abort", "expiresAt"}
        assert begun["expiresAt"] == NOW + MULTIPART_SECONDS
        assert begun["complete"] == f"upload/{upload_id}/complete"
        assert [part["size"] for part in begun["parts"]] == [SMALLEST_PART] * 2 + [LARGEST_PUT + 1 - 2 * SMALLEST_PART]
        item = _item(table, video_id, upload_id)
        assert (item["state"], item["partSize"]) == ("open", SMALLEST_PART)
        for number, part in enumerate(begun["parts"], 1):
            query = parse_qs(urlsplit(part["url"]).query)
            assert (part["partNumber"], part["method"], query["partNumber"]) == (number, "PUT", [str(number)])
            assert query["uploadId"] == [item["multipartId"]]
            assert query["X-Amz-SignedHeaders"] == ["content-length;host"]

    @pytest.mark.slow
    def test_largest_upload_with_long_credentials_fits_the_response_limit(
        self, table: Table, clock: Clock, objects: Objects, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_SESSION_TOKEN", "IQoJb3JpZ2luX2VjE/+=" * 75)  # 1.5 KB; the URL escapes some characters
        # A session without cached credentials.
        monkeypatch.setattr("shared.aws.boto3_client.session", botocore.session.get_session)
        client = make_client()
        api = make_api(table, clock, Objects(client))
        video_id = api.create()["videoId"]
        reply = api.post(
            f"/v1/videos/{video_id}/upload", {"contentType": "application/octet-stream", "fileSize": MAX_SOURCE_BYTES}
        )
        assert reply.status == 201
        assert "X-Amz-Security-Token" in reply.json["parts"][0]["url"]
        assert len(reply.json["parts"]) <= MAX_PARTS
        assert sum(part["size"] for part in reply.json["parts"]) == MAX_SOURCE_BYTES
        # Lambda limits responses to 6 MB, measured as a JSON string with escaped quotation marks.
        assert len(json.dumps(reply.body.decode())) < 4_000_000

    def test_completed_upload_is_stored_in_s3(self, api: Api, video_id: str, objects: Objects, table: Table) -> None:
        begun = _begin(api, video_id, LARGE)
        upload_id = begun["uploadId"]
        parts = _send_parts(objects, video_id, begun, table)
        for _ in range(3):  # a client that lost the response sends the request again
            reply = _complete(api, video_id, upload_id, parts)
            assert (reply.status, reply.json) == (
                200,
                {"uploadId": upload_id, "videoId": video_id, "state": "received"},
            )
        facts = objects.head(object_uri(SOURCES_BUCKET, f"{video_id}/{upload_id}"))
        assert facts
        assert (facts.size, facts.content_type) == (18, "video/mp4")
        assert _item(table, video_id, upload_id)["state"] == "received"

    def test_missing_or_wrong_parts_are_refused_and_can_be_corrected(
        self, api: Api, video_id: str, objects: Objects, table: Table
    ) -> None:
        begun = _begin(api, video_id, LARGE)
        parts = _send_parts(objects, video_id, begun, table)
        for wrong in (parts[:2], [*parts[:2], {"partNumber": 3, "etag": '"0123"'}]):
            reply = _complete(api, video_id, begun["uploadId"], wrong)
            assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/parts")
        assert (
            "must have 3 elements, one for each part, not 2"
            in _complete(api, video_id, begun["uploadId"], parts[:2]).json["errors"][0]["detail"]
        )
        assert _complete(api, video_id, begun["uploadId"], parts).status == 200

    def test_parts_that_are_too_small_are_refused(
        self, api: Api, video_id: str, objects: Objects, table: Table
    ) -> None:
        begun = _begin(api, video_id, LARGE)
        line = FaultLine(objects.client, transport=botocore_stubber)
        line.arm(s3_refusal("EntityTooSmall", 400))
        parts = [{"partNumber": part["partNumber"], "etag": '"e"'} for part in begun["parts"]]
        reply = _complete(api, video_id, begun["uploadId"], parts)
        assert (reply.status, b"secret" in reply.body) == (422, False)

    @pytest.mark.parametrize(
        "parts",
        [
            [],
            [{"partNumber": 2, "etag": '"e"'}],
            [{"partNumber": 2, "etag": '"e"'}, {"partNumber": 1, "etag": '"e"'}],
            [{"partNumber": 1, "etag": '"e"'}] * 2,
            [{"partNumber": 1}],
            [{"partNumber": 1, "etag": ""}],
            [{"partNumber": 1, "etag": "a\nb"}],
            [{"partNumber": number, "etag": '"e"'} for number in range(1, MAX_PARTS + 2)],
            "parts",
            None,
        ],
    )
    def test_invalid_body_is_422(self, api: Api, video_id: str, parts: Any) -> None:
        upload_id = _begin(api, video_id, LARGE)["uploadId"]
        assert _complete(api, video_id, upload_id, parts).status == 422

    def test_complete_of_a_put_upload_is_409(self, api: Api, video_id: str) -> None:
        upload_id = _begin(api, video_id)["uploadId"]
        assert _complete(api, video_id, upload_id, [{"partNumber": 1, "etag": "e"}]).status == 409

    def test_aborted_upload_cannot_be_completed(self, api: Api, video_id: str, objects: Objects, table: Table) -> None:
        begun = _begin(api, video_id, LARGE)
        parts = _send_parts(objects, video_id, begun, table)
        for _ in range(3):
            assert _abort(api, video_id, begun["uploadId"]).status == 204
        assert _complete(api, video_id, begun["uploadId"], parts).status == 409
        assert objects.client.list_multipart_uploads(Bucket=SOURCES_BUCKET).get("Uploads", []) == []

    def test_completed_upload_cannot_be_aborted(self, api: Api, video_id: str, objects: Objects, table: Table) -> None:
        begun = _begin(api, video_id, LARGE)
        assert _complete(api, video_id, begun["uploadId"], _send_parts(objects, video_id, begun, table)).status == 200
        assert _abort(api, video_id, begun["uploadId"]).status == 409

    def test_completing_is_409_when_a_bucket_rule_aborted_the_parts(
        self, api: Api, video_id: str, objects: Objects, table: Table
    ) -> None:
        begun = _begin(api, video_id, LARGE)
        parts = _send_parts(objects, video_id, begun, table)
        item = _item(table, video_id, begun["uploadId"])
        objects.abort_multipart(item["uri"], item["multipartId"])
        assert _complete(api, video_id, begun["uploadId"], parts).status == 409
        assert _abort(api, video_id, begun["uploadId"]).status == 204


def _read(api: Api, video_id: str, upload_id: str, **options: Any) -> Reply:
    reply = api.get(f"/v1/videos/{video_id}/upload/{upload_id}", **options)
    if reply.status == 200:
        RESPONSE.validate(reply.json)
    return reply


def _response_validator() -> Any:
    """Return a validator of the response schema. It requires that exactly one of the schema's three alternatives
    matches."""
    responses = document()["paths"]["/v1/videos/{videoId}/upload/{uploadId}"]["get"]["responses"]
    schema = responses["200"]["content"]["application/json"]["schema"]
    return jsonschema_rs.Draft202012Validator({**schema, "components": document()["components"]})


RESPONSE = _response_validator()


def _send_part(
    objects: Objects, table: Table, video_id: str, upload_id: str, number: int, size: int, fill: bytes = b"x"
) -> str:
    """Send a part with the service's own client, for which S3 checks no size. Return the ETag."""
    response = objects.client.upload_part(
        Bucket=SOURCES_BUCKET,
        Key=f"{video_id}/{upload_id}",
        UploadId=_item(table, video_id, upload_id)["multipartId"],
        PartNumber=number,
        Body=fill * size,
    )
    return response["ETag"]


def _set_source(table: Table, video_id: str, upload_id: str) -> None:
    """Make the file of an upload the source of the video."""
    video = table.get(VIDEO.key(videoId=video_id))
    assert video
    table.write(table.put({**video, "source": {"uploadId": upload_id, "etag": "e"}}))


class TestResume:
    """Reading an upload: the response has all that an interrupted client needs, with the original conditions."""

    @pytest.fixture(autouse=True)
    def _in_small_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Lower the part size, so that an upload of 25 bytes has three parts."""
        monkeypatch.setattr("shared.processing.uploads.LARGEST_PUT", 20)
        monkeypatch.setattr("shared.processing.uploads.part_size", lambda _: 10)

    SMALL = NEW_UPLOAD | {"fileSize": 20}
    IN_PARTS = NEW_UPLOAD | {"fileSize": 25}

    @pytest.mark.parametrize("announced", [SMALL, IN_PARTS])
    def test_read_of_an_unstarted_upload_returns_what_create_returned(
        self, api: Api, video_id: str, announced: Any
    ) -> None:
        begun = _begin(api, video_id, announced)
        reply = _read(api, video_id, begun["uploadId"])
        assert (reply.status, reply.headers["cache-control"]) == (200, "no-store")
        assert _unsigned(reply.json) == _unsigned(begun) | announced | {"videoId": video_id, "state": "open"}

    def test_read_returns_urls_for_missing_parts_only(
        self, api: Api, video_id: str, table: Table, objects: Objects
    ) -> None:
        begun = _begin(api, video_id, self.IN_PARTS)
        etag = _send_part(objects, table, video_id, begun["uploadId"], 2, 10)
        first, second, third = _read(api, video_id, begun["uploadId"]).json["parts"]
        assert second == {"partNumber": 2, "etag": etag, "size": 10}
        for part, number, size in ((first, 1, 10), (third, 3, 5)):
            assert set(part) == {"partNumber", "method", "url", "size"}
            assert (part["partNumber"], part["size"]) == (number, size)
            query = parse_qs(urlsplit(part["url"]).query)
            assert query["partNumber"] == [str(number)]
            assert query["X-Amz-SignedHeaders"] == ["content-length;host"]

    def test_etags_returned_by_read_complete_the_upload(
        self, api: Api, video_id: str, table: Table, objects: Objects
    ) -> None:
        begun = _begin(api, video_id, self.IN_PARTS)
        for number, size in ((3, 5), (1, 10), (2, 10)):
            _send_part(objects, table, video_id, begun["uploadId"], number, size)
        parts = _read(api, video_id, begun["uploadId"]).json["parts"]
        sent = [{"partNumber": part["partNumber"], "etag": part["etag"]} for part in parts]
        assert _complete(api, video_id, begun["uploadId"], sent).status == 200

    def test_part_with_a_wrong_size_counts_as_missing(
        self, api: Api, video_id: str, table: Table, objects: Objects
    ) -> None:
        begun = _begin(api, video_id, self.IN_PARTS)
        for number, size in ((1, 9), (3, 10)):
            _send_part(objects, table, video_id, begun["uploadId"], number, size)
        parts = _read(api, video_id, begun["uploadId"]).json["parts"]
        assert ["url" in part for part in parts] == [True, True, True]

    def test_read_returns_the_etag_of_the_latest_upload_of_a_part(
        self, api: Api, video_id: str, table: Table, objects: Objects
    ) -> None:
        begun = _begin(api, video_id, self.IN_PARTS)
        first, second = (_send_part(objects, table, video_id, begun["uploadId"], 1, 10, fill) for fill in (b"a", b"b"))
        assert first != second
        assert _read(api, video_id, begun["uploadId"]).json["parts"][0]["etag"] == second

    def test_read_lists_every_page_of_parts(
        self, api: Api, video_id: str, table: Table, objects: Objects, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun = _begin(api, video_id, self.IN_PARTS)
        for number, size in ((1, 10), (2, 10), (3, 5)):
            _send_part(objects, table, video_id, begun["uploadId"], number, size)
        list_parts = objects.client.list_parts
        monkeypatch.setattr(objects.client, "list_parts", lambda **query: list_parts(**query, MaxParts=1))
        parts = _read(api, video_id, begun["uploadId"]).json["parts"]
        assert ["etag" in part for part in parts] == [True, True, True]

    @pytest.mark.parametrize("announced", [SMALL, IN_PARTS])
    def test_read_writes_nothing_and_uses_no_quota(
        self, api: Api, video_id: str, table: Table, objects: Objects, announced: Any
    ) -> None:
        begun = _begin(api, video_id, announced)
        before = _item(table, video_id, begun["uploadId"])
        quota = table.get(QUOTA.key(userId="alice", date="2025-06-15"))
        line = FaultLine(table.client, objects.client, transport=botocore_stubber)
        line.arm(lambda send: None)
        for _ in range(3):
            assert _read(api, video_id, begun["uploadId"]).status == 200
        assert set(line.calls) <= {"GetItem", "ListParts", "ListObjectsV2"}
        assert _item(table, video_id, begun["uploadId"]) == before
        assert table.get(QUOTA.key(userId="alice", date="2025-06-15")) == quota

    @pytest.mark.parametrize(("announced", "seconds"), [(SMALL, PUT_SECONDS), (IN_PARTS, MULTIPART_SECONDS)])
    def test_urls_expire_with_the_upload(self, api: Api, video_id: str, announced: Any, seconds: int) -> None:
        upload_id = _begin(api, video_id, announced)["uploadId"]
        end = -(-(NOW + UPLOAD_DAYS * DAY) // DAY) * DAY  # midnight UTC
        for now, ends in (
            (NOW + DAY, NOW + DAY + seconds),
            (end - seconds, end),
            (end - seconds + 60, end),
            (end - 1, end),
        ):
            api.clock.now = now
            response = _read(api, video_id, upload_id).json
            assert response["expiresAt"] == ends
            for url in [response["url"]] if "url" in response else [part["url"] for part in response["parts"]]:
                assert parse_qs(urlsplit(url).query)["X-Amz-Expires"] == [str(ends - now)]
        api.clock.now = end
        assert _ended(_read(api, video_id, upload_id), announced) == "aborted"

    @pytest.mark.parametrize("announced", [SMALL, IN_PARTS])
    def test_aborted_upload_has_no_urls(self, api: Api, video_id: str, announced: Any) -> None:
        upload_id = _begin(api, video_id, announced)["uploadId"]
        assert _abort(api, video_id, upload_id).status == 204
        assert _ended(_read(api, video_id, upload_id), announced) == "aborted"

    @pytest.mark.parametrize("state", ["received", "refused"])
    def test_received_or_refused_upload_has_no_urls(self, api: Api, video_id: str, table: Table, state: str) -> None:
        upload_id = _begin(api, video_id, self.SMALL)["uploadId"]
        UploadStore(table).set_state(_item(table, video_id, upload_id), state)
        assert _ended(_read(api, video_id, upload_id), self.SMALL) == state

    def test_upload_aborted_by_a_bucket_rule_reads_as_aborted(
        self, api: Api, video_id: str, table: Table, objects: Objects
    ) -> None:
        upload_id = _begin(api, video_id, self.IN_PARTS)["uploadId"]
        item = _item(table, video_id, upload_id)
        objects.abort_multipart(item["uri"], item["multipartId"])
        assert _ended(_read(api, video_id, upload_id), self.IN_PARTS) == "aborted"
        assert _item(table, video_id, upload_id) == item

    @pytest.mark.parametrize("late", [0, (UPLOAD_DAYS + 1) * DAY])
    def test_stored_file_is_received_before_completion(
        self, api: Api, video_id: str, table: Table, objects: Objects, late: int
    ) -> None:
        put = _begin(api, video_id, self.SMALL)["uploadId"]
        objects.put(SOURCES_BUCKET, f"{video_id}/{put}", b"x" * 20, "video/mp4")
        parts = _begin(api, video_id, self.IN_PARTS)["uploadId"]
        etags = [
            _send_part(objects, table, video_id, parts, number, size) for number, size in ((1, 10), (2, 10), (3, 5))
        ]
        item = _item(table, video_id, parts)
        objects.complete_multipart(item["uri"], item["multipartId"], etags, 25)
        api.clock.advance(late)
        assert _ended(_read(api, video_id, put), self.SMALL) == "received"
        assert _ended(_read(api, video_id, parts), self.IN_PARTS) == "received"

    @pytest.mark.parametrize("announced", [SMALL, IN_PARTS])
    @pytest.mark.parametrize(
        ("state", "expected_state"),
        [("open", "replaced"), ("received", "replaced"), ("refused", "refused"), ("aborted",) * 2],
    )
    def test_later_upload_replaces_the_source(
        self, api: Api, video_id: str, table: Table, announced: Any, state: str, expected_state: str
    ) -> None:
        first = _begin(api, video_id, announced)["uploadId"]
        api.clock.advance(1)
        second = _begin(api, video_id, announced)["uploadId"]
        UploadStore(table).set_state(_item(table, video_id, first), state)
        _set_source(table, video_id, second)
        assert _ended(_read(api, video_id, first), announced) == expected_state

    def test_earlier_upload_does_not_replace_the_source(self, api: Api, video_id: str, table: Table) -> None:
        first = _begin(api, video_id, self.SMALL)["uploadId"]
        api.clock.advance(1)
        second = _begin(api, video_id, self.SMALL)["uploadId"]
        _set_source(table, video_id, first)
        assert _read(api, video_id, second).json["state"] == "open"

    @pytest.mark.parametrize("outcome", ["received", "aborted"])
    def test_upload_that_ends_while_its_parts_are_listed_reads_as_ended(
        self, api: Api, video_id: str, table: Table, objects: Objects, monkeypatch: pytest.MonkeyPatch, outcome: str
    ) -> None:
        upload_id = _begin(api, video_id, self.IN_PARTS)["uploadId"]
        etags = [
            _send_part(objects, table, video_id, upload_id, number, size) for number, size in ((1, 10), (2, 10), (3, 5))
        ]
        item = _item(table, video_id, upload_id)
        list_parts = objects.client.list_parts

        def page_by_page(**query: Any) -> Any:
            if "PartNumberMarker" in query:
                if outcome == "received":
                    objects.complete_multipart(item["uri"], item["multipartId"], etags, 25)
                else:
                    objects.abort_multipart(item["uri"], item["multipartId"])
            return list_parts(**query, MaxParts=1)

        monkeypatch.setattr(objects.client, "list_parts", page_by_page)
        assert _ended(_read(api, video_id, upload_id), self.IN_PARTS) == outcome


def _ended(reply: Reply, announced: Any) -> str:
    """Assert that an upload has ended without URLs, and return its state."""
    assert reply.status == 200, reply.body
    assert set(reply.json) == {"uploadId", "videoId", "state", "contentType", "fileSize"}
    assert {name: reply.json[name] for name in announced} == announced
    return str(reply.json["state"])


def _unsigned(response: dict[str, Any]) -> dict[str, Any]:
    """Return a response without the signatures in its URLs, which differ from second to second."""
    text = re.sub(r"X-Amz-(Date|Signature)=\w+", "", json.dumps(response))
    unsigned: dict[str, Any] = json.loads(text)
    return unsigned


class TestAbortOfAPut:
    def test_abort_is_idempotent(self, api: Api, video_id: str, table: Table) -> None:
        upload_id = _begin(api, video_id)["uploadId"]
        assert [_abort(api, video_id, upload_id).status for _ in range(2)] == [204, 204]
        assert _item(table, video_id, upload_id)["state"] == "aborted"

    @pytest.mark.parametrize("state", ["received", "refused"])
    def test_abort_of_a_received_or_refused_upload_is_409(
        self, api: Api, video_id: str, table: Table, state: str
    ) -> None:
        upload_id = _begin(api, video_id)["uploadId"]
        UploadStore(table).set_state(_item(table, video_id, upload_id), state)
        assert _abort(api, video_id, upload_id).status == 409

    def test_abort_and_concurrent_arrival_have_one_outcome(self, api: Api, video_id: str, table: Table) -> None:
        upload_id = _begin(api, video_id)["uploadId"]
        item = _item(table, video_id, upload_id)
        store = UploadStore(table)
        assert [store.set_state(item, "received"), store.set_state(item, "aborted")] == ["received", "received"]


class TestPermissions:
    def test_upload_of_another_video_is_404(self, api: Api, video_id: str) -> None:
        upload_id = _begin(api, video_id)["uploadId"]
        other = api.create()["videoId"]
        assert _read(api, other, upload_id).status == 404
        assert _abort(api, other, upload_id).status == 404
        assert _complete(api, other, upload_id, [{"partNumber": 1, "etag": "e"}]).status == 404

    def test_unknown_videos_and_uploads_are_404(self, api: Api, video_id: str) -> None:
        nowhere = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
        parts = [{"partNumber": 1, "etag": "e"}]
        assert api.post(f"/v1/videos/{nowhere}/upload", NEW_UPLOAD).status == 404
        assert _complete(api, video_id, NO_UPLOAD, parts).status == 404
        assert _abort(api, video_id, NO_UPLOAD).status == 404
        for target in (video_id, nowhere):
            assert _read(api, target, NO_UPLOAD).status == 404

    @pytest.mark.parametrize("upload_id", ["x", "..", NO_UPLOAD.upper(), NO_UPLOAD + "0", "%23META"])
    def test_malformed_upload_id_is_400(self, api: Api, video_id: str, upload_id: str) -> None:
        assert _read(api, video_id, upload_id).status == 400
        assert _abort(api, video_id, upload_id).status == 400
        assert _complete(api, video_id, upload_id, [{"partNumber": 1, "etag": "e"}]).status == 400

    def test_deleted_video_accepts_no_upload(self, api: Api, video_id: str) -> None:
        begun = _begin(api, video_id, LARGE)
        api.delete(f"/v1/videos/{video_id}")
        reply = api.post(f"/v1/videos/{video_id}/upload", NEW_UPLOAD)
        assert (reply.status, reply.slug) == (409, "illegal-transition")
        parts = [{"partNumber": part["partNumber"], "etag": "e"} for part in begun["parts"]]
        assert _complete(api, video_id, begun["uploadId"], parts).status == 409
        assert _read(api, video_id, begun["uploadId"]).status == 409
        assert _abort(api, video_id, begun["uploadId"]).status == 204


class TestQuota:
    @pytest.fixture
    def api(self, table: Table, clock: Clock, objects: Objects) -> Api:
        """Return the service with a quota of two uploads a day."""
        return make_api(table, clock, objects, JOBS_PER_DAY=str(2 * JOBS_PER_UPLOAD + 1))

    def test_exceeded_quota_has_retry_after(self, api: Api, video_id: str, table: Table) -> None:
        for _ in range(2):
            _begin(api, video_id)
        reply = api.post(f"/v1/videos/{video_id}/upload", LARGE)
        assert (reply.status, reply.headers["retry-after"]) == (429, str(DAY - NOW % DAY))
        assert reply.json["type"].endswith("quota-exceeded")
        api.clock.advance(int(reply.headers["retry-after"]))
        assert api.post(f"/v1/videos/{video_id}/upload", NEW_UPLOAD).status == 201

    def test_upload_counts_against_the_quota_of_the_video_owner(self, api: Api, video_id: str) -> None:
        for _ in range(2):
            _begin(api, video_id, user="admin")
        own = api.create("admin")["videoId"]
        assert api.post(f"/v1/videos/{video_id}/upload", NEW_UPLOAD).status == 429
        assert api.post(f"/v1/videos/{own}/upload", NEW_UPLOAD, user="admin").status == 201

    def test_refused_upload_uses_no_quota(self, api: Api, video_id: str) -> None:
        for _ in range(5):
            assert api.post(f"/v1/videos/{video_id}/upload", NEW_UPLOAD, user="bob").status == 404
            assert api.post(f"/v1/videos/{video_id}/upload", {}).status == 422
        _begin(api, video_id)


REQUESTS = {"begin": 4, "read": 3, "complete": 4, "abort": 4}
"""Number of requests to DynamoDB and S3 per operation."""


class TestFaults:
    """Each request to DynamoDB and S3 fails once, fails permanently, or is the last request of a killed process."""

    def _run(
        self, api: Api, table: Table, objects: Objects, operation: str, line: FaultLine, incident: Any, at: int
    ) -> Any:
        video_id = str(api.create()["videoId"])
        if operation == "begin":
            line.arm(incident, at=at)
            return lambda: api.post(f"/v1/videos/{video_id}/upload", LARGE)
        begun = _begin(api, video_id, LARGE)
        parts = _send_parts(objects, video_id, begun, table) if operation == "complete" else []
        line.arm(incident, at=at)
        if operation == "complete":
            return lambda: _complete(api, video_id, begun["uploadId"], parts)
        if operation == "read":
            return lambda: _read(api, video_id, begun["uploadId"])
        return lambda: _abort(api, video_id, begun["uploadId"])

    @pytest.mark.parametrize("operation", REQUESTS)
    def test_transient_fault_is_retried_and_hidden_from_the_client(
        self, api: Api, table: Table, objects: Objects, operation: str
    ) -> None:
        line = FaultLine(table.client, objects.client, transport=botocore_stubber)
        for incident in (lose_request, lose_response):
            at = 0
            while True:
                request = self._run(api, table, objects, operation, line, incident, at)
                reply = request()
                line.disarm()
                assert reply.status in (200, 201, 204), (incident, at, reply.body)
                if at >= len(line.calls):
                    break
                at += 1
            assert at >= REQUESTS[operation]

    @pytest.mark.parametrize("operation", REQUESTS)
    def test_lasting_fault_is_503_and_a_later_retry_succeeds(
        self, api: Api, table: Table, objects: Objects, operation: str
    ) -> None:
        for client, incident in ((table.client, throttle), (objects.client, s3_refusal("SlowDown", 503))):
            line = FaultLine(client, transport=botocore_stubber)
            request = self._run(api, table, objects, operation, line, incident, None)  # type: ignore[arg-type]
            reply = request()
            assert (reply.status, reply.headers["retry-after"]) == (503, "1")
            assert b"secret" not in reply.body
            line.disarm()
            assert request().status in (200, 201, 204)

    @pytest.mark.slow
    @pytest.mark.parametrize("operation", REQUESTS)
    def test_retry_succeeds_after_a_crash_at_any_request(
        self, api: Api, table: Table, objects: Objects, operation: str
    ) -> None:
        line = FaultLine(table.client, objects.client, transport=botocore_stubber)
        for incident in (kill_before, kill_after):
            at = 0
            while True:
                request = self._run(api, table, objects, operation, line, incident, at)
                try:
                    request()
                except Killed:
                    line.disarm()
                    reply = request()
                    assert reply.status in (200, 201, 204), (incident, at, reply.body)
                    at += 1
                else:
                    line.disarm()
                    break
            assert at >= REQUESTS[operation]

    def test_concurrent_complete_and_abort_have_one_outcome(self, api: Api, table: Table, objects: Objects) -> None:
        # The process was killed after S3 had completed the upload, so S3 has the file whatever the item's state is.
        line = FaultLine(table.client, objects.client, transport=botocore_stubber)
        video_id = str(api.create()["videoId"])
        begun = _begin(api, video_id, LARGE)
        parts = _send_parts(objects, video_id, begun, table)
        line.arm(kill_after, at=2)
        with pytest.raises(Killed):
            _complete(api, video_id, begun["uploadId"], parts)
        line.disarm()
        assert line.calls[2] == "CompleteMultipartUpload"
        assert _abort(api, video_id, begun["uploadId"]).status == 409
        assert _item(table, video_id, begun["uploadId"])["state"] == "received"

    @pytest.mark.parametrize(("code", "status"), [("NoSuchUpload", 404), ("PreconditionFailed", 412)])
    def test_repeated_complete_succeeds_for_any_response_of_s3(
        self, api: Api, video_id: str, table: Table, objects: Objects, code: str, status: int
    ) -> None:
        begun = _begin(api, video_id, LARGE)
        parts = _send_parts(objects, video_id, begun, table)
        both = FaultLine(table.client, objects.client, transport=botocore_stubber)
        both.arm(kill_after, at=2)
        with pytest.raises(Killed):
            _complete(api, video_id, begun["uploadId"], parts)
        both.disarm()
        line = FaultLine(objects.client, transport=botocore_stubber)
        line.arm(s3_refusal(code, status), at=0)
        assert _complete(api, video_id, begun["uploadId"], parts).status == 200
        assert line.calls[0] == "CompleteMultipartUpload"
        assert _item(table, video_id, begun["uploadId"])["state"] == "received"
