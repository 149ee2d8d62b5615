"""Checks before `make bootstrap` and `make deploy`: tools, credentials, region and account."""

import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from local import toolbox
from tools import ToolError

BOOTSTRAPPED = "/cdk-bootstrap/hnb659fds/version"
"""Name of the SSM parameter that contains the version of the CDK's bootstrap stack."""
OLDEST_BOOTSTRAP = 8
"""Minimum version of the bootstrap stack that the pinned CDK requires."""
WORKERS_AT_A_TIME = 52
"""Maximum concurrent executions of all queue workers of an environment: the sum of `max_concurrency` of all queues."""
KEPT_WARM = 2
"""Number of functions that have provisioned concurrency if `coldStart` is `provisioned:N`. Each function has N
provisioned instances."""
UNRESERVED = 100
"""Number of an account's concurrent executions that cannot be reserved or provisioned."""
ENOUGH = WORKERS_AT_A_TIME + UNRESERVED
"""Minimum concurrent executions of an account for production.

Below this minimum, busy workers could prevent requests, stream consumers and scheduled functions from running.
"""
MORE_CONCURRENCY = "`aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384 --desired-value 1000`"
ENVIRONMENT = re.compile(r"[a-z][a-z0-9]{0,15}")
DEFAULT_ENV = "dev"
"""Name of the default environment, for development. It allows requests from every web site."""


NO_REGION = "No AWS region is set: `export AWS_REGION=<region>`, or set one in your AWS profile."
SIGN_IN = "sign in with `aws sso login`, or choose others with `export AWS_PROFILE=<name>`"


def session() -> boto3.Session:
    """Return a session for the account and region that the CDK uses. The CDK reads AWS_REGION, but boto3 ignores this
    variable.

    Raises ToolError if the profile does not exist, or if its credentials cannot be read.
    """
    try:
        chosen = boto3.Session(region_name=os.environ.get("AWS_REGION"))
        chosen.get_credentials()
    except BotoCoreError as error:
        raise ToolError(f"The AWS credentials cannot be read: {SIGN_IN} ({error}).") from error
    return chosen


def destination() -> str:
    """Return the account and region of a deployment in the CDK's form, such as `aws://123456789012/us-east-1`.

    Costs one STS request. Raises ToolError without valid credentials or a region.
    """
    chosen = session()
    require(_credentials(chosen), _region(chosen))
    try:
        account = chosen.client("sts").get_caller_identity()["Account"]
    except (BotoCoreError, ClientError) as error:
        raise ToolError(f"The AWS credentials are refused: {SIGN_IN} ({error}).") from error
    return f"aws://{account}/{chosen.region_name}"


def require_ready(env: str, values: Mapping[str, Any], *, is_answered: bool) -> str:
    """Check that an environment can be deployed, and return the target as `destination` does.

    `values` are the context values of the CDK app, from cdk.json and the command line. `is_answered` is true if the CDK
    will not ask for confirmation before it adds permissions to roles. Prints a warning if the account's concurrency is
    too low for production. Raises ToolError with one line per missing prerequisite.
    """
    sentences = [*_terminal(is_answered=is_answered), *(_environment(env) or _sites(env, values)), *toolbox.missing()]
    where = ""
    try:
        where = destination()
    except ToolError as error:
        sentences.append(str(error))
    else:
        sentences += _bootstrap(session(), where)
        sentences += _concurrency(session(), values)
    require(sentences)
    return where


def require(*sentences: Iterable[str]) -> None:
    """Raise ToolError with one line per sentence. Does nothing if there are no sentences."""
    lines = [line for sentence in sentences for line in sentence]
    if lines:
        raise ToolError("\n".join(lines))


def _environment(env: str) -> list[str]:
    if ENVIRONMENT.fullmatch(env):
        return []
    return [
        f"An environment's name must be up to 16 lower-case letters and digits, not {env!r}: `make deploy ENV=staging`."
    ]


def is_attended() -> bool:
    """Return whether the CDK can ask for confirmation: both standard input and standard output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _terminal(*, is_answered: bool) -> list[str]:
    if is_answered or is_attended():
        return []
    return [
        "Without a terminal, the CDK cannot ask before it widens roles. Confirm with `make deploy ENV=staging YES=1`."
    ]


def _sites(env: str, values: Mapping[str, Any]) -> list[str]:
    if env == DEFAULT_ENV or values.get("target") == "local":
        return []
    asked = {"allowOrigins": "web sites whose pages may call the API, such as https://videos.example, or *"}
    if not values.get("issuer"):
        asked["callbackUrls"] = (
            "URLs to which users may be redirected after sign-in, in addition to the console's, such as https://videos.example/signed-in"
        )
    return [
        f'{env} does not set `{name}`: {what}. Set it in `environments.{env}` of cdk.json, or with CDK_ARGS="-c {name}=..."; '
        "the value `none` allows no site."
        for name, what in asked.items()
        if not values.get(name)
    ]


def _credentials(chosen: boto3.Session) -> list[str]:
    if chosen.get_credentials() is not None:
        return []
    return [f"There are no AWS credentials: {SIGN_IN}."]


def _region(chosen: boto3.Session) -> list[str]:
    if chosen.region_name:
        return []
    return [NO_REGION]


def _bootstrap(chosen: boto3.Session, where: str) -> list[str]:
    try:
        version = chosen.client("ssm").get_parameter(Name=BOOTSTRAPPED)["Parameter"]["Value"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ParameterNotFound":
            return [f"{where} is not prepared for the CDK. Run `make bootstrap` once."]
        return [f"The CDK version of {where} cannot be read ({error}). Allow reading {BOOTSTRAPPED} in SSM."]
    except BotoCoreError as error:
        return [f"AWS is unreachable ({error})."]
    if int(version) < OLDEST_BOOTSTRAP:
        return [
            f"{where} is prepared for an older CDK (version {version}, required {OLDEST_BOOTSTRAP}). Run `make bootstrap` again."
        ]
    return []


def _concurrency(chosen: boto3.Session, values: Mapping[str, Any]) -> list[str]:
    """Return a list with one sentence if the account's concurrency prevents a deployment, otherwise an empty list.

    Prints a warning if the concurrency suffices for a deployment, but not for production. Also prints a warning if the
    concurrency cannot be read.
    """
    try:
        free = unreserved_concurrency(chosen)
    except (BotoCoreError, ClientError) as error:
        _warn(f"The concurrency quota of the account cannot be read ({error}). Allow lambda:GetAccountSettings.")
        return []
    matched = re.fullmatch(r"provisioned:(\d+)", str(values.get("coldStart") or ""))
    searching = re.fullmatch(r"\d+", str(values.get("searchInstances") or ""))
    instances = (KEPT_WARM * int(matched[1]) if matched else 0) + (int(searching[0]) if searching else 0)
    if instances and free - instances < UNRESERVED:
        return [
            f"`coldStart` and `searchInstances` need {instances} concurrent executions, but {free - UNRESERVED} can be reserved. "
            f"Choose fewer instances, or request more: {MORE_CONCURRENCY}."
        ]
    if free - instances < ENOUGH:
        _warn(
            f"The account has {free} concurrent executions in {chosen.region_name}, and the workers of an environment use up to "
            f"{WORKERS_AT_A_TIME}. Production needs at least {ENOUGH + instances}, else requests get 503. Request more: {MORE_CONCURRENCY}."
        )
    return []


def unreserved_concurrency(chosen: boto3.Session) -> int:
    """Return the number of concurrent executions that the account has not reserved for single functions."""
    limit = chosen.client("lambda").get_account_settings()["AccountLimit"]
    return int(limit["UnreservedConcurrentExecutions"])


def _warn(sentence: str) -> None:
    print(f"Warning: {sentence}", file=sys.stderr, flush=True)


def main() -> int:
    """Print the target of a deployment, for `make bootstrap`. Returns the exit status."""
    try:
        print(destination())
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
