"""Buckets of moto, made without requests."""

from typing import Any

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.exceptions import NoSuchUpload
from moto.s3.models import S3Backend, s3_backends


def create_buckets(*names: str) -> None:
    """Create buckets as a request would, which takes ten times as long."""
    for name in names:
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].create_bucket(name, "us-east-1")


def refuse_unknown_uploads(patch: pytest.MonkeyPatch) -> None:
    """Refuse to complete an unknown upload, as S3 does; moto fails."""
    whole = S3Backend.complete_multipart_upload

    def complete(backend: S3Backend, bucket_name: str, multipart_id: str, body: Any) -> Any:
        if multipart_id not in backend.get_bucket(bucket_name).multiparts:
            raise NoSuchUpload(upload_id=multipart_id)
        return whole(backend, bucket_name, multipart_id, body)

    patch.setattr(S3Backend, "complete_multipart_upload", complete)
