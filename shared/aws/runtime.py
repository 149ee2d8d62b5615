"""Entry point of a Lambda function, and the AWS clients that it uses."""

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from shared.aws import dynamodb
from shared.core.settings import LambdaHandler, Settings

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.batch import BatchProcessor
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from shared.aws.s3 import Objects
    from shared.aws.sqs import Queue

_Settings = TypeVar("_Settings", bound=Settings)


class Resources:
    """AWS clients and clocks of a function, with one client per service.

    The clients of S3, SQS and Athena are imported at first use, because they load botocore. Tests replace clients in
    subclasses.
    """

    clock: Callable[[], float] = staticmethod(time.time)
    """Clock in epoch seconds."""
    elapsed: Callable[[], float] = staticmethod(time.monotonic)
    """Monotonic clock in seconds."""

    @cached_property
    def _dynamodb(self) -> Any:
        return dynamodb.make_client()

    def table(self, name: str) -> dynamodb.Table:
        """Return the DynamoDB table of this name."""
        return dynamodb.Table(name, self._dynamodb)

    def _make_client(self, service: str, config: Any) -> Any:
        from shared.aws.boto3_client import botocore_client

        return botocore_client(service, config)

    @cached_property
    def objects(self) -> "Objects":
        """Client for objects in any S3 bucket."""
        from shared.aws.s3 import Objects, make_client

        return Objects(make_client(self._make_client))

    @cached_property
    def _sqs(self) -> Any:
        from shared.aws.sqs import make_client

        return make_client(self._make_client)

    def queue(self, url: str) -> "Queue":
        """Return the SQS queue with this URL, for sending messages."""
        from shared.aws.sqs import Queue

        return Queue(url, self._sqs)

    def secret(self, arn: str) -> Callable[[], str]:
        """Return a function that reads a secret of Secrets Manager, and raises Unavailable if the secret cannot be
        read."""
        from shared.aws.secrets import secret_reader

        return secret_reader(arn)

    def events(self) -> Any:
        """Return boto3's client of EventBridge."""
        from shared.aws.boto3_client import make_events_client

        return make_events_client()

    @cached_property
    def athena(self) -> Any:
        """botocore's client of Athena."""
        from shared.aws.boto3_client import make_athena_client

        return make_athena_client()


class BackgroundResources(Resources):
    """AWS clients of a background function. All are boto3's, except the lean client of DynamoDB."""

    def _make_client(self, service: str, config: Any) -> Any:
        from shared.aws.boto3_client import boto3_client

        return boto3_client(service, config)

    def secret(self, arn: str) -> Callable[[], str]:
        """Return a function that reads a secret of Secrets Manager, and raises Unavailable if the secret cannot be
        read."""
        from shared.aws.boto3_client import make_secrets_client
        from shared.aws.secrets import secret_reader

        return secret_reader(arn, make_client=make_secrets_client)


def is_provisioned() -> bool:
    """Return whether this process is an instance of provisioned concurrency. Such an instance starts before its first
    request."""
    return _initialization_type() == "provisioned-concurrency"


def _initialization_type() -> str:
    return os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")


def process(event: Mapping[str, Any], handler: Callable[[Any], object], processor: "BatchProcessor") -> dict[str, Any]:
    """Process the records of a Lambda event, and return Lambda's report of the records that failed.

    Powertools' `process_partial_response` does the same, but rejects an empty batch.
    """
    with processor(event["Records"], handler):
        processor.process()
    return dict(processor.response())


class EntryPoint(Generic[_Settings]):
    """Lambda handler that is built once, by the function `make`.

    In Lambda, the handler is built during initialisation, because Lambda then provides more CPU time than later.
    Elsewhere, it is built at the first event, because tests import handler modules without environment variables.

    `preload` names modules that only some requests need. By default, a module is imported by the first request that
    needs it. With provisioned concurrency or SnapStart, these modules are imported during initialisation, as are the
    modules for logs and credentials. AWS_LAMBDA_INITIALIZATION_TYPE names the kind of initialisation:
    https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html

        lambda_handler = EntryPoint(UploadsSettings, http_function(Uploads), preload=("shared.processing.models",))
    """

    def __init__(
        self,
        settings: type[_Settings],
        make: Callable[[_Settings, Resources], LambdaHandler],
        *,
        preload: Sequence[str] = (),
        resources: type[Resources] = Resources,
    ) -> None:
        self.settings = settings
        self.make = make
        self._handler = cache(lambda: make(settings.read(os.environ), resources()))
        self._seed = cache(random.seed)
        if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
            self._handler()
            if _initialization_type() != "on-demand":
                for module in ("aws_lambda_powertools", "botocore.session", *preload):
                    import_module(module)

    def __call__(self, event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        # Without a new seed, all instances of one snapshot would have the same random numbers, and wait equally long
        # before retries.
        self._seed()
        return self._handler()(event, context)
