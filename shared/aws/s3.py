"""S3 objects by their URI `s3://bucket/key`, multipart uploads, and presigned URLs for uploads and playback.

Failed requests are retried with backoff, then raise shared.core.errors.Unavailable. All requests are safe to retry,
because a retried write stores the same content.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from shared.aws.boto3_client import botocore_client
from shared.core.errors import InternalError, Unavailable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

REQUEST_ATTEMPTS = 3
"""Maximum number of attempts of one request, including the first."""
LONGEST_WAIT = 0.5
"""Maximum seconds to wait before a retry."""
_CHUNK = 1 << 20
"""Bytes of one read while an object is copied to a file."""
_LARGEST_DELETE = 1000
"""Maximum number of objects in one DeleteObjects (S3's limit)."""
_TRANSIENT = frozenset({"SlowDown", "RequestTimeout", "OperationAborted", "ThrottlingException"})
_ABSENT = frozenset({"NoSuchKey", "NotFound", "404"})
_CHANGED = frozenset({"PreconditionFailed", "412"})
_BAD_PARTS = frozenset({"InvalidPart", "InvalidPartOrder", "EntityTooSmall", "InvalidRequest", "MalformedXML"})

_Result = TypeVar("_Result")


class ObjectMissing(Exception):
    """The object does not exist."""


class ObjectChanged(Exception):
    """The object was replaced since its ETag was read."""


class UploadMissing(Exception):
    """The multipart upload was completed or aborted."""


class ObjectExists(Exception):
    """An object with this key already exists."""


class InvalidParts(Exception):
    """The parts of a multipart upload are invalid, or their total size differs from the expected size of the object."""


@dataclass(frozen=True)
class ObjectMetadata:
    """Metadata of an S3 object, from HeadObject."""

    size: int
    """Size in bytes."""
    etag: str
    """ETag without quotes."""
    content_type: str


class ListedObject(NamedTuple):
    """S3 object in a result of ListObjectsV2."""

    key: str
    size: int
    """Size in bytes."""
    changed: datetime
    """Time of the last change (LastModified), with time zone."""
    etag: str
    """ETag without quotes."""


def split_uri(uri: str) -> tuple[str, str]:
    """Return the bucket and the key of `s3://bucket/key`. Raises ValueError for any other text."""
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket or not key:
        raise ValueError(f"The URI must be s3://bucket/key, not {uri}.")
    return bucket, key


def object_uri(bucket: str, key: str) -> str:
    """Return the URI `s3://bucket/key` of an object."""
    return f"s3://{bucket}/{key}"


def make_client(create: Callable[[str, Config], Any] = botocore_client) -> "S3Client":
    """Return an S3 client. The client makes one attempt, because `Objects` retries. Time-outs: 1 s to connect, 5 s to
    read."""
    client = create(
        "s3",
        Config(
            user_agent="video-metadata",
            signature_version="s3v4",
            connect_timeout=1,
            read_timeout=5,
            retries={"mode": "standard", "total_max_attempts": 1},
            # Virtual hosts in the bucket's region, because some clients of presigned URLs do not follow redirects.
            # boto3 makes an exception for IP addresses. https://github.com/boto/boto3/issues/2989
            s3={"addressing_style": "virtual", "us_east_1_regional_endpoint": "regional"},
            # By default, multipart uploads would require checksums, which browsers do not send.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    return cast("S3Client", client)


class Objects:
    """Client for objects in any bucket.

    Methods raise shared.core.errors.Unavailable if S3 is busy, or does not respond, at every attempt.
    """

    def __init__(
        self, client: "S3Client", *, attempts: int = REQUEST_ATTEMPTS, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.client = client
        self._attempts = attempts
        self._sleep = sleep

    def head(self, uri: str) -> ObjectMetadata | None:
        """Return the metadata of an object (HeadObject); `None` if it does not exist.

        Requires s3:ListBucket on the bucket. Without it, S3 returns 403 for a missing object, and this method raises
        InternalError.
        """
        bucket, key = split_uri(uri)
        try:
            response = self._send(lambda: self.client.head_object(Bucket=bucket, Key=key))
        except ObjectMissing:
            return None
        return ObjectMetadata(response["ContentLength"], response["ETag"].strip('"'), response.get("ContentType", ""))

    def exists(self, uri: str) -> bool:
        """Return whether the object exists (ListObjectsV2). Requires s3:ListBucket, but not s3:GetObject."""
        bucket, key = split_uri(uri)
        response = self._list_page(bucket, key, {"MaxKeys": 1})
        return any(listed["Key"] == key for listed in response.get("Contents", []))

    def read(self, uri: str, start: int, length: int, etag: str | None = None) -> bytes:
        """Return `length` bytes of an object from the offset `start` (GetObject), or fewer at its end.

        Raises ObjectMissing if the object does not exist. With `etag`, raises ObjectChanged if the object has another
        ETag.
        """
        if length <= 0:
            return b""
        bucket, key = split_uri(uri)
        condition: Any = {"IfMatch": f'"{etag}"'} if etag else {}

        def fetch() -> bytes:
            response = self.client.get_object(
                Bucket=bucket, Key=key, Range=f"bytes={start}-{start + length - 1}", **condition
            )
            return response["Body"].read()

        try:
            return self._send(fetch)
        except _RangeNotSatisfiable:
            return b""

    def load(self, uri: str, version: str | None = None) -> tuple[bytes, str]:
        """Return the content of an object (GetObject), and its ETag without quotes. With `version`, read this version
        of the object.

        Raises ObjectMissing if the object does not exist.
        """
        bucket, key = split_uri(uri)
        named: Any = {"VersionId": version} if version else {}

        def fetch() -> tuple[bytes, str]:
            response = self.client.get_object(Bucket=bucket, Key=key, **named)
            return response["Body"].read(), response["ETag"].strip('"')

        return self._send(fetch)

    def put(self, bucket: str, key: str, data: bytes, content_type: str, *, cache_control: str | None = None) -> None:
        """Store an object (PutObject). An existing object with this key is replaced."""
        more: Any = {"CacheControl": cache_control} if cache_control else {}
        self._send(lambda: self.client.put_object(Bucket=bucket, Key=key, Body=data, ContentType=content_type, **more))

    def put_file(self, bucket: str, key: str, file: Path, content_type: str) -> None:
        """Store a file of at most 5 GB as an object (PutObject). An existing object with this key is replaced."""

        def send() -> None:
            with file.open("rb") as data:
                self.client.put_object(Bucket=bucket, Key=key, Body=data, ContentType=content_type)

        self._send(send)

    def replace(self, bucket: str, key: str, data: bytes, content_type: str, etag: str) -> None:
        """Replace an object (PutObject), if it still has this ETag. Raises ObjectChanged as `replace_file` does."""
        self._send(
            lambda: self.client.put_object(
                Bucket=bucket, Key=key, Body=data, ContentType=content_type, IfMatch=f'"{etag}"'
            ),
            errors=dict.fromkeys(_ABSENT, ObjectChanged),
        )

    def replace_file(self, bucket: str, key: str, file: Path, content_type: str, etag: str | None) -> None:
        """Store a file as `put_file` does, but only if the existing object still has this ETag. If `etag` is `None`, store
        the file only if no object has this key.

        Raises ObjectChanged if another writer has stored, replaced or deleted the object. Also raises it if the object
        was stored, but the response to the first attempt was lost.
        """
        condition: Any = {"IfMatch": f'"{etag}"'} if etag else {"IfNoneMatch": "*"}

        def send() -> None:
            with file.open("rb") as data:
                self.client.put_object(Bucket=bucket, Key=key, Body=data, ContentType=content_type, **condition)

        self._send(send, errors=dict.fromkeys(_ABSENT, ObjectChanged))

    def copy_to(self, uri: str, file: Path) -> None:
        """Copy an object to a file (GetObject). An existing file is replaced.

        Raises ObjectMissing if the object does not exist.
        """
        bucket, key = split_uri(uri)

        def fetch() -> None:
            response = self.client.get_object(Bucket=bucket, Key=key)
            with file.open("wb") as out:
                for chunk in response["Body"].iter_chunks(_CHUNK):
                    out.write(chunk)

        self._send(fetch)

    def list_objects(self, bucket: str, prefix: str) -> Iterator[ListedObject]:
        """Yield the objects whose keys begin with `prefix`, in the order of their keys (ListObjectsV2, 1000 per request)."""
        following: Any = {}
        while True:
            page = self._list_page(bucket, prefix, following)
            for found in page.get("Contents", []):
                yield ListedObject(found["Key"], found["Size"], found["LastModified"], found["ETag"].strip('"'))
            if not page.get("IsTruncated"):
                return
            following = {"ContinuationToken": page["NextContinuationToken"]}

    def list_earlier_versions(self, bucket: str, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the key and the version id of each noncurrent version of the objects whose keys begin with `prefix`
        (ListObjectVersions, 1000 per request)."""
        following: Any = {}
        while True:
            request: Any = {"Bucket": bucket, "Prefix": prefix, **following}
            page = self._send(partial(self.client.list_object_versions, **request))
            for found in page.get("Versions", []):
                if not found["IsLatest"]:
                    yield found["Key"], found["VersionId"]
            if not page.get("IsTruncated"):
                return
            following = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}

    def delete_version(self, bucket: str, key: str, version: str) -> None:
        """Delete one version of an object permanently (DeleteObject). Idempotent."""
        self._send(lambda: self.client.delete_object(Bucket=bucket, Key=key, VersionId=version))

    def delete(self, bucket: str, keys: Sequence[str]) -> None:
        """Delete objects (DeleteObjects, 1000 per request). Keys without an object are skipped."""
        for start in range(0, len(keys), _LARGEST_DELETE):
            self._delete(bucket, keys[start : start + _LARGEST_DELETE])

    def delete_prefix(self, bucket: str, prefix: str) -> int:
        """Delete all objects of a folder, such as `thumbnails/<videoId>/`, and return their number. Idempotent.

        Raises ValueError for a prefix that is empty or does not end with a slash.
        """
        if not prefix.strip("/") or not prefix.endswith("/"):
            raise ValueError("The prefix must be a folder that ends with a slash.")
        count = 0
        following: Any = {}
        while True:
            page = self._list_page(bucket, prefix, following)
            # A page has at most 1000 keys, the limit of DeleteObjects.
            keys = [listed["Key"] for listed in page.get("Contents", [])]
            if keys:
                self._delete(bucket, keys)
                count += len(keys)
            if not page.get("IsTruncated"):
                return count
            following = {"ContinuationToken": page["NextContinuationToken"]}

    def presign_put(self, uri: str, content_type: str, size: int, seconds: int) -> tuple[str, dict[str, str]]:
        """Return a URL for one PUT of exactly this type and size, and the headers that the client must send.

        The signature covers these headers and Content-Length, which every client sets. If-None-Match makes S3 reject a second
        PUT. The URL expires after `seconds`.
        """
        bucket, key = split_uri(uri)
        url = self.client.generate_presigned_url(
            "put_object",
            Params={
                "Bucket": bucket,
                "Key": key,
                "ContentType": content_type,
                "ContentLength": size,
                "IfNoneMatch": "*",
            },
            ExpiresIn=seconds,
        )
        return url, {"Content-Type": content_type, "If-None-Match": "*"}

    def presign_get(self, uri: str, content_type: str, seconds: int) -> str:
        """Return a URL for GET requests of an object, with or without a Range header. Responses have this Content-Type.

        The URL expires after `seconds`, or earlier, when the credentials that signed it expire.
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-presigned-url.html
        """
        bucket, key = split_uri(uri)
        return self.client.generate_presigned_url(
            "get_object",
            Params={"Bucket": bucket, "Key": key, "ResponseContentType": content_type},
            ExpiresIn=seconds,
        )

    def start_multipart(self, uri: str, content_type: str) -> str:
        """Create a multipart upload, and return its id (CreateMultipartUpload).

        If a response is lost, the retry creates a second upload. A lifecycle rule of the bucket aborts unused uploads.
        """
        bucket, key = split_uri(uri)
        response = self._send(
            lambda: self.client.create_multipart_upload(Bucket=bucket, Key=key, ContentType=content_type)
        )
        return response["UploadId"]

    def presign_part(self, uri: str, multipart_id: str, number: int, size: int, seconds: int) -> str:
        """Return a URL for a PUT of one part of exactly this size. The client may send a part again. Expires after `seconds`."""
        bucket, key = split_uri(uri)
        return self.client.generate_presigned_url(
            "upload_part",
            Params={
                "Bucket": bucket,
                "Key": key,
                "UploadId": multipart_id,
                "PartNumber": number,
                "ContentLength": size,
            },
            ExpiresIn=seconds,
        )

    def list_parts(self, uri: str, multipart_id: str) -> dict[int, tuple[int, str]]:
        """Return the size in bytes and the quoted ETag of each uploaded part, by part number (ListParts).

        Raises UploadMissing if the upload was completed or aborted.
        """
        bucket, key = split_uri(uri)
        parts: dict[int, tuple[int, str]] = {}
        request: Any = {"Bucket": bucket, "Key": key, "UploadId": multipart_id}
        while True:
            page = self._send(lambda: self.client.list_parts(**request), errors={"NoSuchUpload": UploadMissing})
            parts |= {part["PartNumber"]: (part["Size"], part["ETag"]) for part in page.get("Parts", [])}
            if not page.get("IsTruncated"):
                return parts
            request["PartNumberMarker"] = page["NextPartNumberMarker"]

    def complete_multipart(self, uri: str, multipart_id: str, etags: Sequence[str], size: int) -> None:
        """Complete a multipart upload (CompleteMultipartUpload).

        `etags` are the ETags of parts 1, 2, 3 and so on. `size` is the expected size of the object in bytes.

        Raises UploadMissing if the upload was completed or aborted, and ObjectExists if an object with this key exists. Raises
        InvalidParts if S3 rejects the parts or the size.
        """
        bucket, key = split_uri(uri)
        parts: Any = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
        self._send(
            lambda: self.client.complete_multipart_upload(
                Bucket=bucket,
                Key=key,
                UploadId=multipart_id,
                MultipartUpload={"Parts": parts},
                MpuObjectSize=size,
                IfNoneMatch="*",
            ),
            errors={
                "NoSuchUpload": UploadMissing,
                **dict.fromkeys(_CHANGED, ObjectExists),
                **dict.fromkeys(_BAD_PARTS, InvalidParts),
            },
        )

    def abort_multipart(self, uri: str, multipart_id: str) -> None:
        """Abort a multipart upload (AbortMultipartUpload). Raises UploadMissing if the upload was already completed or
        aborted."""
        bucket, key = split_uri(uri)
        self._send(
            lambda: self.client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=multipart_id),
            errors={"NoSuchUpload": UploadMissing},
        )

    def _list_page(self, bucket: str, prefix: str, more: Any) -> Any:
        return self._send(lambda: self.client.list_objects_v2(Bucket=bucket, Prefix=prefix, **more))

    def _delete(self, bucket: str, keys: Sequence[str]) -> None:
        objects: Any = [{"Key": key} for key in keys]
        response = self._send(
            lambda: self.client.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        )
        codes = {error.get("Code", "") for error in response.get("Errors", [])}
        if codes & {"SlowDown", "InternalError", "ServiceUnavailable"}:
            raise Unavailable("The object store is busy.")
        if codes:
            raise InternalError(f"S3 refused to delete objects with {sorted(codes)}")

    def _send(self, request: Callable[[], _Result], errors: Mapping[str, type[Exception]] | None = None) -> _Result:
        for attempt in range(1, self._attempts + 1):
            try:
                return request()
            except ClientError as error:
                code = error.response["Error"]["Code"]
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
                # Only transient errors are retried, including a conflict with a concurrent request. Its code is compared,
                # because permanent errors can also have its status, 409.
                if not (code in _TRANSIENT or code == "ConditionalRequestConflict" or status >= 500 or status == 429):
                    raise _refusal(code, errors or {}) from error
                failure: Exception = error
            except BotoCoreError as error:  # unreachable, timed out, or a truncated response
                failure = error
            if attempt < self._attempts:
                self._sleep(random.uniform(0, LONGEST_WAIT))
        raise Unavailable("The object store is busy.") from failure


class _RangeNotSatisfiable(Exception):
    """The range begins at or after the end of the object."""


def _refusal(code: str, errors: Mapping[str, type[Exception]]) -> Exception:
    if code in errors:
        return errors[code](code)
    if code in _ABSENT:
        return ObjectMissing("The object does not exist.")
    if code in _CHANGED:
        return ObjectChanged("The object was replaced.")
    if code in ("InvalidRange", "416"):
        return _RangeNotSatisfiable(code)
    return InternalError(f"S3 refused a request with {code}")


class ObjectSource:
    """S3 object that implements Source (shared/media/source.py). A read raises ObjectChanged if the object was replaced."""

    def __init__(self, objects: Objects, uri: str, etag: str, size: int) -> None:
        self._objects = objects
        self._uri = uri
        self._etag = etag
        self._size = size

    @property
    def size(self) -> int:
        """Size of the object in bytes."""
        return self._size

    def read(self, start: int, length: int) -> bytes:
        """Return `length` bytes from the offset `start`, or fewer at the end of the object."""
        return self._objects.read(self._uri, start, length, self._etag)
