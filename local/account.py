"""Before `make bootstrap` and `make deploy`: are there credentials, and is the account prepared for the CDK?"""

import os
import sys

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from local import LocalError, exit_status

BOOTSTRAPPED = "/cdk-bootstrap/hnb659fds/version"
"""The parameter that `cdk bootstrap` leaves."""


def destination() -> str:
    """Where a deploy would go, as the CDK writes it: `aws://123456789012/us-east-1`; raises LocalError."""
    session = _session()
    if session.region_name is None:
        raise LocalError("No AWS region is set: export AWS_REGION=<region>, or set one in your AWS profile.")
    try:
        account = session.client("sts").get_caller_identity()["Account"]
    except (BotoCoreError, ClientError) as error:
        raise LocalError(f"No usable AWS credentials: sign in, or set AWS_PROFILE, and try again ({error}).") from error
    return f"aws://{account}/{session.region_name}"


def require_bootstrapped() -> None:
    """Raise LocalError with what to do when the account is not prepared for the CDK."""
    try:
        _session().client("ssm").get_parameter(Name=BOOTSTRAPPED)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ParameterNotFound":
            raise LocalError(f"Cannot tell whether the account is bootstrapped for the CDK ({error}).") from error
        raise LocalError(
            "The account is not prepared for the CDK in this region: run `make bootstrap` once."
        ) from error
    except BotoCoreError as error:
        raise LocalError(f"AWS cannot be reached ({error}).") from error


def _session() -> boto3.Session:
    # The CDK knows AWS_REGION as well, boto3 only AWS_DEFAULT_REGION and the profile.
    return boto3.Session(region_name=os.environ.get("AWS_REGION"))


def main(arguments: list[str]) -> int:
    """Check all and say where a deploy goes; with `--destination` print only that, for bootstrap. The exit status."""
    return exit_status(lambda: print(destination() if arguments == ["--destination"] else _checked()))


def _checked() -> str:
    where = destination()
    require_bootstrapped()
    return f"Deploying to {where}."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
