"""`make deploy`, before anything is built: are there credentials, and is the account prepared for the CDK?"""

import os
import sys

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from local import LocalError


def check() -> str:
    """Account and region, as `123456789012 in us-east-1`; raises LocalError with what to do when not ready."""
    # The CDK knows AWS_REGION as well, boto3 only AWS_DEFAULT_REGION and the profile.
    session = boto3.Session(region_name=os.environ.get("AWS_REGION"))
    region = session.region_name
    if region is None:
        raise LocalError("No AWS region is set: export AWS_REGION=<region>, or set one in your AWS profile.")
    try:
        account = session.client("sts").get_caller_identity()["Account"]
    except (BotoCoreError, ClientError) as error:
        raise LocalError(f"No usable AWS credentials: sign in, or set AWS_PROFILE, and try again ({error}).") from error
    try:
        session.client("ssm").get_parameter(Name="/cdk-bootstrap/hnb659fds/version")
    except ClientError as error:
        if error.response["Error"]["Code"] != "ParameterNotFound":
            raise LocalError(f"Cannot tell whether the account is bootstrapped for the CDK ({error}).") from error
        raise LocalError(
            f"The account is not prepared for the CDK in this region: run `npx cdk bootstrap aws://{account}/{region}` once."
        ) from error
    except BotoCoreError as error:
        raise LocalError(f"AWS cannot be reached ({error}).") from error
    return f"{account} in {region}"


def main() -> int:
    """Print where a deploy would go; the exit status."""
    try:
        print(f"Deploying to account {check()}.")
    except LocalError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
