"""What a deployment can choose, from CDK's context: `-c name=value` or cdk.json."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from aws_cdk import Aws, RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Node

from shared import schema

Target = Literal["aws", "local"]
Architecture = Literal["arm64", "x86_64"]
Shift = Literal["none", "canary", "linear"]
LogLevel = Literal["INFO", "WARNING", "ERROR"]
"""Not DEBUG: at that level botocore would log whole requests, with people's data and the role's credentials."""

DEFAULT_ENV = "dev"
ANY_ORIGIN, LOCAL_CALLBACK = "*", "http://localhost:3000/callback"
"""What `dev` and a laptop allow without being asked; for any other environment it has to be given."""
NO_SITES = "none"
COGNITO_RESERVES = ("aws", "amazon", "cognito")
"""The words that Cognito refuses in a domain's prefix.
https://docs.aws.amazon.com/cognito/latest/developerguide/cognito-user-pools-assign-domain-prefix.html
"""
DEFAULT_RENDITIONS: dict[Target, str] = {
    "aws": "1080p,720p,480p,240p",
    "local": "240p",  # a laptop makes them itself
}


LADDER = ("1080p", "720p", "480p", "360p", "240p")
"""The renditions that there are; tests/unit/infra/test_infra.py holds it to shared/media/ladder.py."""


GENERATED = "generated"
"""The value of `webhookSecret` for a secret with a generated name."""


class Misconfigured(Exception):
    """A sentence for the person who deploys; `app.py` shows it without a traceback."""


LOG_PERIODS: Mapping[int, logs.RetentionDays] = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    731: logs.RetentionDays.TWO_YEARS,
    3653: logs.RetentionDays.TEN_YEARS,
}
"""Of the periods for which CloudWatch keeps logs, those that one may ask for, in days."""

LOCAL: Mapping[str, Any] = {
    "keepData": False,
    "deletionProtection": False,
    "alarms": False,
    "deliveryWorkers": 3,
    "coldStart": "none",
    "shift": "none",
    "kmsKey": "none",
    "eventBus": "none",
}
"""What holds for the local target, whatever cdk.json says for its environment: it comes and goes as a whole."""

_Choice = TypeVar("_Choice", bound=str)


@dataclass(frozen=True, kw_only=True)
class Issuer:
    """Whose tokens the API accepts: an OpenID Connect issuer, and for whom the tokens must be meant."""

    url: str
    audience: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The choices of one deployment, checked."""

    target: Target
    """`aws`, or `local`: an embedded AWS whose functions run on this machine's interpreter."""
    env: str
    """Tells several deployments in one account apart, in the names of the stacks and of the table."""
    issuer: Issuer | None
    """None: a Cognito user pool is made."""
    allow_origins: tuple[str, ...]
    """The web sites whose pages may call the API, see pictures and upload; `*`: all. Empty: none but the console's."""
    callback_urls: tuple[str, ...]
    """Where the user pool may send people after they signed in, besides the console."""
    console_client: str | None
    """The console's client id at an issuer that was given; None: nobody can sign in to the console there."""
    throttle_rate: int
    throttle_burst: int
    endpoint: str | None
    """Base URL at which the embedded AWS serves objects to clients; `None` on AWS."""
    jobs_per_day: int
    """How many jobs one owner may start on one day."""
    delivery_workers: int
    """How many webhooks are served at a time. One worker serves a webhook, and sends it the changes of eight videos side by side."""
    view_window: int
    """In how many minutes the views of one viewer count once: a day at most, as markers are kept for that."""
    count_own_views: bool
    """Whether the views of a video's owner count."""
    renditions: tuple[str, ...]
    """Which of the ladder's renditions are made of every film that is large enough."""
    audit_days: int
    """How long the audit trail can be asked; the archive in S3 is kept for good."""
    log_days: int
    """How long logs are kept."""
    log_level: LogLevel
    recovery_days: int
    """How far back in time the tables can be restored: 1 to 35 days."""
    keep_data: bool
    """Whether tables, buckets and users outlive their stacks."""
    deletion_protection: bool
    """Whether tables, users and the stacks that hold data refuse to be deleted at all."""
    alarms: bool
    """Whether there are alarms, and a topic that they notify."""
    dashboard: bool
    """Whether there is a dashboard, which costs 3 US dollars a month."""
    alarm_email: str | None
    """Who is written to when an alarm goes off; None: whoever subscribes to the topic."""
    anomaly_usd: int
    """US dollars a day above the expected cost from which an anomaly is reported; 0: never."""
    snap_start: bool
    """Whether functions that answer requests start from a snapshot."""
    provisioned: int
    """How many instances of the functions that answer most requests are kept warm; 0: none."""
    shift: Shift
    """How requests move to a new version: all at once, or a tenth first, or a tenth each minute; then an alarm takes
    them back."""
    kms_key: str | None
    """What data is encrypted with: None for the services' own keys, `create`, or the ARN of a KMS key."""
    indexes: tuple[str, ...]
    """The indexes of both tables. All, but while an upgrade adds some: CloudFormation makes one of a table in each update."""
    stream_arn: str | None
    """The stream of a table that was restored, which its stack knows nothing of; None: the one that the stack knows."""
    webhook_secret: str | None
    """ARN of an existing secret from which those of webhooks are derived; `generated` to keep one whose name CloudFormation generated;
    `None` to create it (infra/data_stack.py)."""
    architecture: Architecture
    """Of the processors that the functions run on, on AWS."""
    event_bus: str | None
    """The name or ARN of a bus of EventBridge that all changes are put on; None: none."""

    @classmethod
    def from_context(cls, node: Node, region: str | None = None) -> "Settings":
        """Read the context; raises Misconfigured, which says what is wrong with it.

        `region` is where the stacks go; None: nobody knows yet.

        What is given by itself (`-c name=value`, or in cdk.json) comes before what `environments` in cdk.json says for
        the present `env`; an environment that is not listed there is made like the default one.
        """
        target = _choice("target", node.try_get_context("target") or "aws", get_args(Target))
        env = node.try_get_context("env") or DEFAULT_ENV
        if not re.fullmatch(r"[a-z][a-z0-9]{0,15}", env):
            raise Misconfigured(f"Context 'env' must be up to 16 lower-case letters and digits, not {env!r}.")
        context = _Context(node, env, target)
        issuer = _issuer(context.get("issuer"), context.get("audience"))
        reserved = [word for word in COGNITO_RESERVES if word in env]
        if reserved and issuer is None and target == "aws":
            raise Misconfigured(
                f"Context 'env' cannot have {reserved[0]!r} in it, as {env!r} has: it is part of the sign-in domain, "
                "and Cognito reserves the word. Choose another name, or give an issuer of your own."
            )
        if target == "local" and issuer is None:
            raise Misconfigured("The local target has no Cognito: give its issuer by '-c issuer=... -c audience=...'.")
        endpoint = context.get("endpoint") or None
        if (target == "local") != (endpoint is not None):
            raise Misconfigured(
                "The local target, and it alone, needs '-c endpoint=http://...', where MiniStack serves objects."
            )
        snap_start, provisioned = _cold_start(context.get("coldStart") or "none")
        is_for_trying = target == "local" or env == DEFAULT_ENV
        settings = cls(
            target=target,
            env=env,
            issuer=issuer,
            allow_origins=_sites(context.get("allowOrigins") or (ANY_ORIGIN if is_for_trying else NO_SITES)),
            callback_urls=_sites(context.get("callbackUrls") or (LOCAL_CALLBACK if is_for_trying else NO_SITES)),
            console_client=context.get("consoleClient") or None,
            throttle_rate=context.count("throttleRate", 200),
            throttle_burst=context.count("throttleBurst", 400),
            endpoint=endpoint.rstrip("/") if endpoint else None,
            jobs_per_day=context.count("jobsPerDay", 500),
            delivery_workers=context.count("deliveryWorkers", 10, among=range(3, 1001)),
            view_window=context.count("viewWindow", 30, among=range(1, 24 * 60 + 1)),
            count_own_views=context.flag("countOwnViews", False),
            renditions=_renditions(context.get("renditions") or DEFAULT_RENDITIONS[target]),
            audit_days=context.count("auditDays", 400),
            log_days=context.count("logDays", 30, among=LOG_PERIODS),
            log_level=_choice("logLevel", context.get("logLevel") or "INFO", get_args(LogLevel)),
            recovery_days=context.count("recoveryDays", 35, among=range(1, 36)),
            keep_data=context.flag("keepData", True),
            deletion_protection=context.flag("deletionProtection", True),
            alarms=context.flag("alarms", True),
            dashboard=context.flag("dashboard", True),
            alarm_email=context.get("alarmEmail") or None,
            anomaly_usd=context.count("anomalyUsd", 0, among=range(100_000)),
            snap_start=snap_start,
            provisioned=provisioned,
            shift=_choice("shift", context.get("shift") or "none", get_args(Shift)),
            kms_key=_key(context.get("kmsKey")),
            indexes=_indexes(context.get("indexes")),
            stream_arn=_stream(context.get("streamArn")),
            webhook_secret=_secret(context.get("webhookSecret")),
            event_bus=_bus(context.get("eventBus"), region),
            architecture=_choice("architecture", context.get("architecture") or "arm64", get_args(Architecture)),
        )
        context.check_names()
        if settings.alarms and settings.log_level != "INFO":
            raise Misconfigured(
                "Alarms need context 'logLevel' INFO: metrics are log lines of that level, and Lambda drops those "
                "below the level that is set. Give '-c alarms=false' with another one."
            )
        return settings

    @property
    def is_watched(self) -> bool:
        """Whether the deployment has a stack for alarms and dashboard. A stack cannot be empty."""
        return self.target == "aws" and (self.alarms or self.dashboard)

    @property
    def log_retention(self) -> logs.RetentionDays:
        """How long logs are kept, as the CDK has it."""
        return LOG_PERIODS[self.log_days]

    @property
    def removal_policy(self) -> RemovalPolicy:
        """What becomes of data when its stack is deleted.

        What a failed deployment has just made is never kept: it is empty, and would stand in the way of the next.
        """
        return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if self.keep_data else RemovalPolicy.DESTROY

    @property
    def table_name(self) -> str:
        """The product's own name in the default environment, so that others can stand beside it."""
        return schema.TABLE_NAME if self.env == DEFAULT_ENV else f"{schema.TABLE_NAME}-{self.env}"

    @property
    def audit_table_name(self) -> str:
        """Named like the table beside it."""
        return self.table_name.replace(schema.TABLE_NAME, schema.AUDIT_TABLE_NAME)

    @property
    def sources_bucket_name(self) -> str:
        """The one bucket whose name has to be known before it is there."""
        return f"videos-{self.env}-sources-{Aws.ACCOUNT_ID}-{Aws.REGION}"

    def stack_name(self, part: str) -> str:
        """Such as `VideoMetadata-dev-Api`."""
        return f"{self.deployment}-{part}"

    @property
    def deployment(self) -> str:
        """Such as `VideoMetadata-dev`: one name for all of it, in alarms, on the dashboard and on the bill."""
        return f"{schema.TABLE_NAME}-{self.env}"

    @property
    def tags(self) -> dict[str, str]:
        """What CloudFormation puts on everything that can have tags."""
        return {"app": schema.TABLE_NAME, "environment": self.env, "deployment": self.deployment}


class _Context:
    """The context's values for one environment."""

    def __init__(self, node: Node, env: str, target: Target) -> None:
        environments = node.try_get_context("environments") or {}
        self._node = node
        self._asked: set[str] = set()
        self._env = environments.get(env, environments.get(DEFAULT_ENV, {})) | (LOCAL if target == "local" else {})

    def get(self, name: str) -> Any:
        """A value, or None."""
        self._asked.add(name)
        given = self._node.try_get_context(name)
        return self._env.get(name) if given is None else given

    def check_names(self) -> None:
        """Once every value was asked for: no other may be given to an environment, where it would have no effect."""
        unknown = sorted(set(self._env) - self._asked)
        if unknown:
            known = ", ".join(sorted(self._asked))
            raise Misconfigured(f"The environment has no setting {unknown[0]!r}; there are {known}.")

    def count(self, name: str, default: int, *, among: Container[int] | None = None) -> int:
        """A whole number from 1, or one of some."""
        given = self.get(name)
        text = str(default if given is None else given)
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise Misconfigured(f"Context '{name}' must be a whole number, not {given!r}.")
        if int(text) not in among if among is not None else int(text) == 0:
            wanted = "a whole number from 1" if among is None else _listed(among)
            raise Misconfigured(f"Context '{name}' must be {wanted}, not {given!r}.")
        return int(text)

    def flag(self, name: str, default: bool) -> bool:
        """True or false, as JSON or as text."""
        given = self.get(name)
        text = str(default if given is None else given).lower()
        return _choice(name, text, ("true", "false")) == "true"


def _listed(numbers: Container[int]) -> str:
    match numbers:
        case range():
            return f"from {numbers.start} to {numbers.stop - 1}"
        case Mapping():
            return f"one of {', '.join(map(str, numbers))}"
        case _:
            raise TypeError(numbers)


def _choice(name: str, value: str, choices: tuple[_Choice, ...]) -> _Choice:
    for choice in choices:
        if value == choice:
            return choice
    raise Misconfigured(f"Context '{name}' must be one of {', '.join(choices)}, not {value!r}.")


def _issuer(url: str | None, audience: Any) -> Issuer | None:
    if bool(url) != bool(audience):
        raise Misconfigured(
            "Context 'issuer' and 'audience' go together: give both, or neither for a Cognito user pool."
        )
    return Issuer(url=url, audience=_several(audience)) if url else None


def _cold_start(text: str) -> tuple[bool, int]:
    """`none`, `snapstart`, or `provisioned:2`: whether there are snapshots, and how many instances are kept warm."""
    matched = re.fullmatch(r"none|snapstart|provisioned:([1-9][0-9]{0,2})", text)
    if matched is None:
        raise Misconfigured(f"Context 'coldStart' must be none, snapstart or provisioned:<instances>, not {text!r}.")
    return text == "snapstart", int(matched[1] or 0)


def _key(text: str | None) -> str | None:
    if not text or text == "none":
        return None
    if text != "create" and not re.fullmatch(r"arn:aws[\w-]*:kms:[\w-]+:\d{12}:key/[\w-]+", text):
        raise Misconfigured(f"Context 'kmsKey' must be none, create, or the ARN of a KMS key, not {text!r}.")
    return text


def _stream(text: str | None) -> str | None:
    if text and not re.fullmatch(r"arn:aws[\w-]*:dynamodb:[\w-]+:\d{12}:table/[\w.-]+/stream/[\w.:-]+", text):
        raise Misconfigured(f"Context 'streamArn' must be the ARN of a table's stream, not {text!r}.")
    return text or None


def _secret(text: str | None) -> str | None:
    arn = r"arn:aws[\w-]*:secretsmanager:[\w-]+:\d{12}:secret:[\w/+=.@-]+-\w{6}"
    if text and text != GENERATED and not re.fullmatch(arn, text, re.ASCII):
        raise Misconfigured(
            f"Context 'webhookSecret' must be generated, or the complete ARN of a secret, not {text!r}."
        )
    return text or None


def _bus(text: str | None, region: str | None) -> str | None:
    if not text or text == "none":
        return None
    matched = re.fullmatch(r"(?:arn:aws[\w-]*:events:([\w-]+):\d{12}:event-bus/)?[\w./-]{1,256}", text, re.ASCII)
    if matched is None:
        raise Misconfigured(f"Context 'eventBus' must be none, or the name or ARN of an event bus, not {text!r}.")
    if region and matched[1] and matched[1] != region:
        raise Misconfigured(
            f"Context 'eventBus' names a bus in {matched[1]}, but the service is deployed to {region}, and puts events on "
            f"buses of its own region only. Name a bus in {region}; a rule of that bus can pass events on."
        )
    return text


def _indexes(value: Any) -> tuple[str, ...]:
    known = tuple(index.name for index in (*schema.INDEXES, *schema.AUDIT_INDEXES))
    if value is None:
        return known
    names = tuple(name for name in _several(value) if name)
    if not set(names) <= set(known) or len(set(names)) < len(names):
        raise Misconfigured(f"Context 'indexes' must be some of {', '.join(known)}, each once, not {value!r}.")
    return names


def _renditions(value: Any) -> tuple[str, ...]:
    names = _several(value)
    if not set(names) <= set(LADDER) or len(set(names)) < len(names):
        raise Misconfigured(f"Context 'renditions' must be some of {', '.join(LADDER)}, each once, not {value!r}.")
    return names


def _sites(value: Any) -> tuple[str, ...]:
    """The addresses that are given; `none` stands for none."""
    sites = _several(value)
    return () if sites == (NO_SITES,) else sites


def _several(value: Any) -> tuple[str, ...]:
    """A list in cdk.json, or separated by commas on the command line."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts)
