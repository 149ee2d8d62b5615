"""S3 as the service uses it: objects by their `s3://bucket/key`, and URLs by which clients upload and play.

What failed is tried again with backoff: every request here may be repeated, because a key is written once, or
with the same content each time. Then it is shared.core.errors.Unavailable.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from shared.aws.boto3_client import botocore_client
from shared.core.errors import InternalError, Unavailable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

REQUEST_ATTEMPTS = 3
"""Tries of one request, the first included."""
LONGEST_WAIT = 0.5
"""Seconds to wait at most before another try."""
_CHUNK = 1 << 20
"""Bytes that are held of an object while it becomes a file."""
_LARGEST_DELETE = 1000
"""Objects of one DeleteObjects (S3's limit)."""
_TRANSIENT = frozenset({"SlowDown", "RequestTimeout", "OperationAborted", "ThrottlingException"})
_ABSENT = frozenset({"NoSuchKey", "NotFound", "404"})
_CHANGED = frozenset({"PreconditionFailed", "412"})
_BAD_PARTS = frozenset({"InvalidPart", "InvalidPartOrder", "EntityTooSmall", "InvalidRequest", "MalformedXML"})

_Result = TypeVar("_Result")


class ObjectGone(Exception):
    """The object does not exist any more."""


class ObjectChanged(Exception):
    """The object was replaced since its ETag was taken."""


class UploadGone(Exception):
    """The multipart upload was completed or aborted."""


class ObjectExists(Exception):
    """An object of this name exists already."""


class PartsRefused(Exception):
    """The parts of a multipart upload do not make the object that was announced."""


@dataclass(frozen=True)
class ObjectFacts:
    """What S3 says of an object."""

    size: int
    etag: str
    """Without quotes."""
    content_type: str


class Listed(NamedTuple):
    """An object as a listing names it."""

    key: str
    size: int
    """Bytes."""
    changed: datetime
    """With its time zone."""


def split_uri(uri: str) -> tuple[str, str]:
    """Bucket and key of `s3://bucket/key`; raises ValueError."""
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket or not key:
        raise ValueError("The URI must be s3://bucket/key.")
    return bucket, key


def object_uri(bucket: str, key: str) -> str:
    """`s3://bucket/key`"""
    return f"s3://{bucket}/{key}"


def make_client(create: Callable[[str, Config], Any] = botocore_client) -> "S3Client":
    """Return an S3 client that makes one attempt, because Objects retries (seconds: 1 to connect, 5 to read)."""
    client = create(
        "s3",
        Config(
            user_agent="video-metadata",
            signature_version="s3v4",
            connect_timeout=1,
            read_timeout=5,
            retries={"mode": "standard", "total_max_attempts": 1},
            # The bucket's own host in its region, because a presigned URL is not followed elsewhere; boto3 knows
            # that an IP address has no such hosts. https://github.com/boto/boto3/issues/2989
            s3={"addressing_style": "virtual", "us_east_1_regional_endpoint": "regional"},
            # Else multipart uploads are made for checksums that no browser sends.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    return cast("S3Client", client)


class Objects:
    """Objects in any bucket. Methods raise shared.core.errors.Unavailable when S3 is busy or does not answer."""

    def __init__(
        self, client: "S3Client", *, attempts: int = REQUEST_ATTEMPTS, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.client = client
        self._attempts = attempts
        self._sleep = sleep

    def head(self, uri: str) -> ObjectFacts | None:
        """HeadObject; None when the object does not exist.

        Without s3:ListBucket on the bucket S3 answers 403 for what is not there, which is an error here.
        """
        bucket, key = split_uri(uri)
        try:
            answer = self._send(lambda: self.client.head_object(Bucket=bucket, Key=key))
        except ObjectGone:
            return None
        return ObjectFacts(answer["ContentLength"], answer["ETag"].strip('"'), answer.get("ContentType", ""))

    def exists(self, uri: str) -> bool:
        """Whether the object exists, for roles that may list but not read."""
        bucket, key = split_uri(uri)
        answer = self._listed(bucket, key, {"MaxKeys": 1})
        return any(listed["Key"] == key for listed in answer.get("Contents", []))

    def read(self, uri: str, start: int, length: int, etag: str | None = None) -> bytes:
        """GetObject of a range: `length` bytes from `start`, or fewer at the end.

        Raises ObjectGone, and ObjectChanged when the object no longer has this ETag.
        """
        if length <= 0:
            return b""
        bucket, key = split_uri(uri)
        condition: Any = {"IfMatch": f'"{etag}"'} if etag else {}

        def fetch() -> bytes:
            answer = self.client.get_object(
                Bucket=bucket, Key=key, Range=f"bytes={start}-{start + length - 1}", **condition
            )
            return answer["Body"].read()

        try:
            return self._send(fetch)
        except _BehindTheEnd:
            return b""

    def put(self, bucket: str, key: str, data: bytes, content_type: str, *, cache_control: str | None = None) -> None:
        """PutObject; replaces what is there."""
        more: Any = {"CacheControl": cache_control} if cache_control else {}
        self._send(lambda: self.client.put_object(Bucket=bucket, Key=key, Body=data, ContentType=content_type, **more))

    def put_file(self, bucket: str, key: str, file: Path, content_type: str) -> None:
        """PutObject of a file, 5 GB at most; replaces what is there."""

        def put() -> None:
            with file.open("rb") as data:
                self.client.put_object(Bucket=bucket, Key=key, Body=data, ContentType=content_type)

        self._send(put)

    def copy_to(self, uri: str, file: Path) -> None:
        """GetObject into a file, which is replaced if it is there; raises ObjectGone."""
        bucket, key = split_uri(uri)

        def fetch() -> None:
            answer = self.client.get_object(Bucket=bucket, Key=key)
            with file.open("wb") as out:
                for chunk in answer["Body"].iter_chunks(_CHUNK):
                    out.write(chunk)

        self._send(fetch)

    def listed(self, bucket: str, prefix: str) -> Iterator[Listed]:
        """ListObjectsV2: the objects whose keys begin so, in the order of their keys, 1000 a request."""
        following: Any = {}
        while True:
            page = self._listed(bucket, prefix, following)
            for found in page.get("Contents", []):
                yield Listed(found["Key"], found["Size"], found["LastModified"])
            if not page.get("IsTruncated"):
                return
            following = {"ContinuationToken": page["NextContinuationToken"]}

    def delete(self, bucket: str, keys: Sequence[str]) -> None:
        """DeleteObjects, 1000 a request; succeeds for one that is not there."""
        for start in range(0, len(keys), _LARGEST_DELETE):
            self._delete(bucket, keys[start : start + _LARGEST_DELETE])

    def delete_prefix(self, bucket: str, prefix: str) -> int:
        """Delete all objects of a folder, such as `thumbnails/<videoId>/`, and return how many; may be repeated."""
        if not prefix.strip("/") or not prefix.endswith("/"):
            raise ValueError("The prefix must be a folder that ends with a slash.")
        count = 0
        following: Any = {}
        while True:
            page = self._listed(bucket, prefix, following)
            # A page holds as many keys as one DeleteObjects takes: 1000.
            keys = [listed["Key"] for listed in page.get("Contents", [])]
            if keys:
                self._delete(bucket, keys)
                count += len(keys)
            if not page.get("IsTruncated"):
                return count
            following = {"ContinuationToken": page["NextContinuationToken"]}

    def presigned_put(self, uri: str, content_type: str, size: int, seconds: int) -> tuple[str, dict[str, str]]:
        """A URL that takes one PUT of just this type and size, and the headers that must be sent with it.

        All of them are signed, and Content-Length too, which every client sets. With If-None-Match S3
        refuses to replace what the URL has brought before.
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

    def presigned_get(self, uri: str, content_type: str, seconds: int) -> str:
        """A URL that reads one object, whole or in ranges (RFC 9110, section 14), and answers with this type.

        It ends with the credentials that it is signed with, if that is earlier.
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-presigned-url.html
        """
        bucket, key = split_uri(uri)
        return self.client.generate_presigned_url(
            "get_object",
            Params={"Bucket": bucket, "Key": key, "ResponseContentType": content_type},
            ExpiresIn=seconds,
        )

    def start_multipart(self, uri: str, content_type: str) -> str:
        """CreateMultipartUpload; returns S3's id of it. One that a lost answer left behind, the bucket's rules abort."""
        bucket, key = split_uri(uri)
        answer = self._send(
            lambda: self.client.create_multipart_upload(Bucket=bucket, Key=key, ContentType=content_type)
        )
        return answer["UploadId"]

    def presigned_part(self, uri: str, multipart_id: str, number: int, size: int, seconds: int) -> str:
        """A URL that takes a PUT of one part of just this size; a part may be sent again."""
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

    def sent_parts(self, uri: str, multipart_id: str) -> dict[int, tuple[int, str]]:
        """ListParts: size in bytes and ETag, in its quotes, of the parts that S3 has, by their numbers; raises UploadGone."""
        bucket, key = split_uri(uri)
        parts: dict[int, tuple[int, str]] = {}
        request: Any = {"Bucket": bucket, "Key": key, "UploadId": multipart_id}
        while True:
            page = self._send(lambda: self.client.list_parts(**request), known={"NoSuchUpload": UploadGone})
            parts |= {part["PartNumber"]: (part["Size"], part["ETag"]) for part in page.get("Parts", [])}
            if not page.get("IsTruncated"):
                return parts
            request["PartNumberMarker"] = page["NextPartNumberMarker"]

    def complete_multipart(self, uri: str, multipart_id: str, etags: Sequence[str], size: int) -> None:
        """CompleteMultipartUpload of parts 1, 2, 3 ...; raises UploadGone, ObjectExists, PartsRefused."""
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
            known={
                "NoSuchUpload": UploadGone,
                **dict.fromkeys(_CHANGED, ObjectExists),
                **dict.fromkeys(_BAD_PARTS, PartsRefused),
            },
        )

    def abort_multipart(self, uri: str, multipart_id: str) -> None:
        """AbortMultipartUpload; raises UploadGone."""
        bucket, key = split_uri(uri)
        self._send(
            lambda: self.client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=multipart_id),
            known={"NoSuchUpload": UploadGone},
        )

    def _listed(self, bucket: str, prefix: str, more: Any) -> Any:
        return self._send(lambda: self.client.list_objects_v2(Bucket=bucket, Prefix=prefix, **more))

    def _delete(self, bucket: str, keys: Sequence[str]) -> None:
        objects: Any = [{"Key": key} for key in keys]
        answer = self._send(
            lambda: self.client.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        )
        codes = {error.get("Code", "") for error in answer.get("Errors", [])}
        if codes & {"SlowDown", "InternalError", "ServiceUnavailable"}:
            raise Unavailable("The object store is busy; try again.")
        if codes:
            raise InternalError(f"S3 refused to delete objects with {sorted(codes)}")

    def _send(self, request: Callable[[], _Result], known: Mapping[str, type[Exception]] | None = None) -> _Result:
        for attempt in range(1, self._attempts + 1):
            try:
                return request()
            except ClientError as error:
                code = error.response["Error"]["Code"]
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
                # First what may pass: a request that conflicts with another one under way has a 409 of its own.
                if not (code in _TRANSIENT or code == "ConditionalRequestConflict" or status >= 500 or status == 429):
                    raise _refusal(code, known or {}) from error
                failure: Exception = error
            except BotoCoreError as error:  # not reached, no answer in time, or one that broke off
                failure = error
            if attempt < self._attempts:
                self._sleep(random.uniform(0, LONGEST_WAIT))
        raise Unavailable("The object store is busy; try again.") from failure


class _BehindTheEnd(Exception):
    """The range begins where the object has ended."""


def _refusal(code: str, known: Mapping[str, type[Exception]]) -> Exception:
    if code in known:
        return known[code](code)
    if code in _ABSENT:
        return ObjectGone("The object is gone.")
    if code in _CHANGED:
        return ObjectChanged("The object was replaced.")
    if code in ("InvalidRange", "416"):
        return _BehindTheEnd(code)
    return InternalError(f"S3 refused a request with {code}")


class ObjectSource:
    """An object as a Source of shared/media/source.py; it is the same object at each read, or ObjectChanged."""

    def __init__(self, objects: Objects, uri: str, etag: str, size: int) -> None:
        self._objects = objects
        self._uri = uri
        self._etag = etag
        self._size = size

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return self._size

    def read(self, start: int, length: int) -> bytes:
        """The bytes from `start`: `length` of them, or fewer at the end."""
        return self._objects.read(self._uri, start, length, self._etag)
