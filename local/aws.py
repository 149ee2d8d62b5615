"""Client settings of the embedded AWS: two endpoints, and the secret key that signs requests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config

ACCOUNT = "000000000000"
"""Account id of the embedded AWS. Clients send it as the access key id, from which MiniStack derives the account."""
REGION = "us-east-1"


@dataclass(frozen=True)
class Aws:
    """Endpoints and credentials of one running MiniStack.

    Each start generates a new secret key. `local.guard` rejects requests that are not signed with this key.
    """

    endpoint: str
    """Base URL of AWS, and of the deployed API."""
    objects_endpoint: str
    """Base URL of S3. Objects have a separate port, so their origin is not the origin of the console."""
    secret_access_key: str = field(repr=False)

    @classmethod
    def of(cls, service: Mapping[str, Any]) -> "Aws":
        """Return the endpoints and credentials from `service`, the parsed `service.json` of the running service."""
        return cls(str(service["endpoint"]), str(service["objectsEndpoint"]), str(service["secretAccessKey"]))

    def described(self) -> dict[str, str]:
        """Return the endpoints and the secret key as entries of `service.json`, from which `of` reads them."""
        return {
            "endpoint": self.endpoint,
            "objectsEndpoint": self.objects_endpoint,
            "secretAccessKey": self.secret_access_key,
        }

    def environment(self) -> dict[str, str]:
        """Return the environment variables that make any AWS SDK call this MiniStack."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_S3": self.objects_endpoint,
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }

    def client(self, service: Any, **config: Any) -> Any:
        """Return a boto3 client for an AWS service on this MiniStack. `config` has options of botocore's Config."""
        settings: dict[str, Any] = {
            "proxies": {},
            "connect_timeout": 5,
            "read_timeout": 30,
            "retries": {"max_attempts": 2},
        }
        return boto3.client(
            service,
            endpoint_url=self.objects_endpoint if service == "s3" else self.endpoint,
            region_name=REGION,
            aws_access_key_id=ACCOUNT,
            aws_secret_access_key=self.secret_access_key,
            config=Config(**settings | config),
        )
