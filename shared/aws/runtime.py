"""A function in Lambda: its entry point, and the AWS resources that it uses."""

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
    """The AWS resources of a function, with one client for each service, and its clocks.

    Imports of S3 and SQS load botocore, so they happen on first use. Tests derive from it to put other resources in place.
    """

    clock: Callable[[], float] = staticmethod(time.time)
    """Epoch seconds."""
    elapsed: Callable[[], float] = staticmethod(time.monotonic)
    """Seconds that only increase."""

    @cached_property
    def _dynamodb(self) -> Any:
        return dynamodb.make_client()

    def table(self, name: str) -> dynamodb.Table:
        """Return a table of DynamoDB."""
        return dynamodb.Table(name, self._dynamodb)

    def _make_client(self, service: str, config: Any) -> Any:
        from shared.aws.boto3_client import botocore_client

        return botocore_client(service, config)

    @cached_property
    def objects(self) -> "Objects":
        """The objects of all buckets in S3."""
        from shared.aws.s3 import Objects, make_client

        return Objects(make_client(self._make_client))

    @cached_property
    def _sqs(self) -> Any:
        from shared.aws.sqs import make_client

        return make_client(self._make_client)

    def queue(self, url: str) -> "Queue":
        """Return a queue of SQS."""
        from shared.aws.sqs import Queue

        return Queue(url, self._sqs)

    def secret(self, arn: str) -> Callable[[], str]:
        """Return a function that reads a secret of Secrets Manager; it raises Unavailable."""
        from shared.aws.secrets import secret_reader

        return secret_reader(arn)

    def events(self) -> Any:
        """Return boto3's client of EventBridge."""
        from shared.aws.boto3_client import make_events_client

        return make_events_client()


class BackgroundResources(Resources):
    """The AWS resources of a function that no caller waits for: all clients are boto3's, except the DynamoDB client."""

    def _make_client(self, service: str, config: Any) -> Any:
        from shared.aws.boto3_client import boto3_client

        return boto3_client(service, config)

    def secret(self, arn: str) -> Callable[[], str]:
        """Return a function that reads a secret of Secrets Manager; it raises Unavailable."""
        from shared.aws.boto3_client import make_secrets_client
        from shared.aws.secrets import secret_reader

        return secret_reader(arn, make_client=make_secrets_client)


def process(event: Mapping[str, Any], handler: Callable[[Any], object], processor: "BatchProcessor") -> dict[str, Any]:
    """Process a batch, and return the report of the records that failed.

    Powertools' `process_partial_response` does the same, but refuses an empty batch.
    """
    with processor(event["Records"], handler):
        processor.process()
    return dict(processor.response())


class EntryPoint(Generic[_Settings]):
    """The handler of a function, built once: while Lambda starts the function, elsewhere at the first event.

    Lambda gives a starting function more processor time than it will ever have again, so clients are created then; tests that
    import a handler's module need no environment. `preload` names modules that only some requests need: they are imported
    on demand, or at the start if no request waits for it, with the modules that log and renew credentials.
    https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html, AWS_LAMBDA_INITIALIZATION_TYPE

        lambda_handler = EntryPoint(UploadsSettings, http_function(Uploads), preload=("shared.films.models",))
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
            if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand") != "on-demand":
                for module in ("aws_lambda_powertools", "botocore.session", *preload):
                    import_module(module)

    def __call__(self, event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        # Seeded in each instance: instances of one snapshot would otherwise all wait equally long before a retry.
        self._seed()
        return self._handler()(event, context)
