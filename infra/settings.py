"""Deployment settings from CDK context: `-c name=value` or cdk.json."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from aws_cdk import Aws, RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Node

from shared import schema

Target = Literal["aws", "local"]
Architecture = Literal["arm64", "x86_64"]
Shift = Literal["none", "canary", "linear"]
CapacityMode = Literal["onDemand", "provisioned"]
SearchEngine = Literal["embedded", "opensearch"]
ClusterKind = Literal["domain", "collection"]
"""Kinds of OpenSearch clusters: a managed domain, or a serverless collection."""
LogLevel = Literal["INFO", "WARNING", "ERROR"]
"""Supported log levels. With DEBUG, botocore would log whole requests, with personal data and the role's credentials."""

DEFAULT_ENV = "dev"
TABLES = (schema.TABLE_NAME, schema.AUDIT_TABLE_NAME)
"""Names of the tables in settings such as `readUnits`. They do not contain the environment."""
INDEXES = tuple(index.name for index in (*schema.INDEXES, *schema.AUDIT_INDEXES))
WARM_READS, WARM_WRITES = 12_000, 4_000
"""Read and write units per second for which DynamoDB prepares each on-demand table by default. `warmThroughput` must
not be lower."""
ANY_ORIGIN, LOCAL_CALLBACK = "*", "http://localhost:3000/callback"
"""Default web origin and callback URL of `dev` and of the local target. Other environments must set both."""
NO_SITES = "none"
COGNITO_RESERVES = ("aws", "amazon", "cognito")
"""Words that Cognito rejects in a domain prefix.
https://docs.aws.amazon.com/cognito/latest/developerguide/cognito-user-pools-assign-domain-prefix.html
"""
DEFAULT_RENDITIONS: dict[Target, str] = {
    "aws": "1080p,720p,480p,240p",
    "local": "240p",  # the local transcoder runs on the developer's machine
}


LADDER = ("1080p", "720p", "480p", "360p", "240p")
"""Supported renditions. tests/unit/infra/test_infra.py compares them with shared/media/ladder.py."""


MAX_CUES = 40_000
"""Maximum value of `captionCues`. tests/unit/infra/test_infra.py compares it with shared/search/document.py."""

GENERATED = "generated"
"""Value of `webhookSecret` that gives the secret a generated name."""


class Misconfigured(ValueError):
    """Error of configuration, with a message for the operator. `app.py` prints the message without a traceback."""


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
"""Supported log retention periods, by number of days. CloudWatch supports more."""

LOCAL: Mapping[str, Any] = {
    "keepData": False,
    "deletionProtection": False,
    "alarms": False,
    "deliveryWorkers": 3,
    "coldStart": "none",
    "shift": "none",
    "kmsKey": "none",
    "eventBus": "none",
    "capacityMode": "onDemand",
    "readUnits": "none",
    "writeUnits": "none",
    "capacitySteps": "none",
    "warmThroughput": "none",
    "infrequentAccess": "none",
    "searchEngine": "embedded",
    "searchInstances": 0,
    "snapshotDays": 0,
}
"""Settings that the local target uses instead of the values in cdk.json, because a local deployment is temporary."""


class ContextValue(NamedTuple):
    """Description of a value in the CDK context."""

    description: str
    """Meaning and permitted values, in Markdown, for the table of docs/environments.md."""
    default: Any = None
    """Value that is used if the context has none. `None` if the setting has no constant default."""
    otherwise: str = "none"
    """Behaviour if there is neither a value in the context nor a default, in Markdown."""


_FOR_TRYING = "in `dev` and on a laptop `{}`; elsewhere [required](#web-sites)"

VALUES: Mapping[str, ContextValue] = {
    "target": ContextValue("`aws`, or `local` for the embedded AWS of `make run`", "aws"),
    "env": ContextValue(
        "name of the environment: up to 16 lower-case letters and digits; with Cognito, not containing `aws`, `amazon` or `cognito`",
        DEFAULT_ENV,
    ),
    "issuer": ContextValue(
        "URL of the OpenID Connect issuer whose tokens are accepted", otherwise="a Cognito user pool"
    ),
    "audience": ContextValue(
        "accepted audiences of the issuer's tokens, separated by commas", otherwise="the pool's clients"
    ),
    "consoleClient": ContextValue(
        "client id of the [console](console.md#signing-in) at `issuer`",
        otherwise="no sign-in to the console with your issuer",
    ),
    "allowOrigins": ContextValue(
        "web origins that may call the API, load thumbnails, upload and play: separated by commas, `none`, or `*` for all",
        otherwise=_FOR_TRYING.format(ANY_ORIGIN),
    ),
    "callbackUrls": ContextValue(
        "redirect URLs of the user pool after sign-in, in addition to the console's: separated by commas, or `none`",
        otherwise=_FOR_TRYING.format(LOCAL_CALLBACK),
    ),
    "throttleRate": ContextValue("requests per second that the gateway accepts", 200),
    "throttleBurst": ContextValue("burst of requests that the gateway accepts", 400),
    "endpoint": ContextValue("URL of S3 in the embedded AWS, for the local target only"),
    "jobsPerDay": ContextValue("jobs that one owner may start a day ([the quota](jobs.md#the-quota))", 500),
    "deliveryWorkers": ContextValue(
        "[webhooks](webhooks.md#slow-receivers) served concurrently, 3 to 1000: at most 30 % of them for one owner, and half "
        "for slow receivers",
        10,
    ),
    "viewWindow": ContextValue("minutes during which repeated views by one viewer count once, 1 to 1440", 30),
    "captionDays": ContextValue(
        "days after a video's creation during which [search](search-index.md#size) covers its captions; 0: no limit", 0
    ),
    "captionCues": ContextValue("maximum number of a video's caption cues that search covers, 0 to 40000", MAX_CUES),
    "searchEngine": ContextValue("`embedded`, or `opensearch` for a [larger index](opensearch.md)", "embedded"),
    "openSearch": ContextValue(
        "cluster for `opensearch`: `domain` or `collection` creates one; `domain:<name>=<URL>` or `collection:<name>=<URL>` names an existing one",
        "domain",
    ),
    "openSearchNodes": ContextValue(
        "number, type and GB of the nodes of a new domain, such as `3xm7g.medium:50`", "2xt3.small:20"
    ),
    "searchInstances": ContextValue(
        "instances of `search` that always run, and [load the index](search-index.md#readers) before their first request, up to 100",
        0,
    ),
    "countOwnViews": ContextValue("whether views by a video's owner are counted", False),
    "renditions": ContextValue(
        "renditions of each video that is large enough for them: one or more of `1080p`, `720p`, `480p`, `360p`, `240p`",
        otherwise="`1080p,720p,480p,240p`; on a laptop `240p`",
    ),
    "snapshotDays": ContextValue(
        "days for which [a nightly snapshot](archive.md#snapshots) of all videos can be queried, up to 3650; 0: no snapshots",
        0,
    ),
    "auditDays": ContextValue("days for which the audit trail can be read; its archive in S3 is permanent", 400),
    "capacityMode": ContextValue(
        "`onDemand`, or `provisioned` with [auto scaling](dynamodb.md#capacity-on-demand-or-provisioned) of each table and index",
        "onDemand",
    ),
    "readUnits": ContextValue(
        "minimum and maximum of read units a second, such as `5-1000`; on demand, only the maximum applies",
        otherwise="no maximum; required for `provisioned`",
    ),
    "writeUnits": ContextValue(
        "minimum and maximum of write units a second, as `readUnits`",
        otherwise="no maximum; required for `provisioned`",
    ),
    "targetUse": ContextValue("percentage of use that auto scaling maintains, 20 to 90", 70),
    "capacitySteps": ContextValue(
        "UTC times at which the minimum units are multiplied, such as `06:30=x10,20:00=x1`, or `none`", "none"
    ),
    "warmThroughput": ContextValue(
        f"read and write units a second for which tables and indexes are prepared, at least `{WARM_READS}/{WARM_WRITES}`, or `none`",
        "none",
    ),
    "infrequentAccess": ContextValue(
        "tables in the class Standard-IA: `VideoMetadata`, `VideoAudit`, both separated by a comma, or `none`", "none"
    ),
    "logDays": ContextValue("log retention in days", 30),
    "logLevel": ContextValue("lowest level that is logged: `INFO`, `WARNING` or `ERROR`", "INFO"),
    "recoveryDays": ContextValue("days of point-in-time recovery, 1 to 35", 35),
    "keepData": ContextValue(
        "whether tables, buckets, users and the key are retained when their stacks are deleted", True
    ),
    "deletionProtection": ContextValue(
        "whether tables, users and the stacks with data are protected from deletion", True
    ),
    "alarms": ContextValue("whether there are alarms", True),
    "dashboard": ContextValue("whether there is a [dashboard](operations.md#dashboard), for $3 a month", True),
    "alarmEmail": ContextValue("address that alarms notify", otherwise="no address"),
    "anomalyUsd": ContextValue(
        "report costs that are at least this amount above the expected costs, in US dollars; 0: never ([not every account can](operations.md#cost-anomalies))",
        0,
    ),
    "coldStart": ContextValue(
        "`none`, `snapstart`, or `provisioned:N` for N instances ([cold starts](cold-start.md))", "none"
    ),
    "shift": ContextValue(
        "how requests move to a new version: `none`, `canary`, `linear` "
        "([releases](cold-start.md#versions-and-gradual-shifts))",
        "none",
    ),
    "kmsKey": ContextValue("`none`, `create`, or the ARN of a KMS key ([encryption](encryption.md))", "none"),
    "indexes": ContextValue(
        "indexes of the tables; `make deploy` sets this value while it adds indexes one at a time", otherwise="all"
    ),
    "streamArn": ContextValue(
        "stream of a restored table; `make deploy` finds the stream ([restore a deleted table](deleted-table.md))",
        otherwise="the stream of the table's stack",
    ),
    "webhookSecret": ContextValue(
        "`generated`, or the ARN of the secret from which webhook secrets are derived; `make deploy` finds the secret "
        "([secrets](upgrading.md#secrets-of-webhooks))",
        otherwise="a secret that the stack creates",
    ),
    "eventBus": ContextValue("name or ARN of an [EventBridge bus](#an-event-bus) for all changes, or `none`", "none"),
    "architecture": ContextValue("processors of the functions: `arm64` or `x86_64`", "arm64"),
}
"""Descriptions of all context values, by name of the value. DeploymentSettings contains the validated values."""

_Choice = TypeVar("_Choice", bound=str)


@dataclass(frozen=True, kw_only=True)
class TokenIssuer:
    """OpenID Connect issuer of the tokens that the API accepts, and the accepted audiences."""

    url: str
    audience: tuple[str, ...]


class UnitRange(NamedTuple):
    """Minimum and maximum of capacity units per second."""

    minimum: int
    maximum: int


@dataclass(frozen=True)
class Throughput:
    """Ranges of read units or of write units."""

    common: UnitRange
    own: tuple[tuple[str, UnitRange], ...] = ()
    """Unit ranges of the tables and indexes to which `common` does not apply, by name. The names of tables do not
    contain the environment."""

    def of(self, name: str) -> UnitRange:
        """Return the range of the table or index with this name."""
        return dict(self.own).get(name, self.common)


class CapacityStep(NamedTuple):
    """Daily change of the minimum capacity. It lasts until the next step."""

    hour: int
    """Hour of the day in UTC."""
    minute: int
    factor: int
    """Multiplier of each configured minimum."""


class OpenSearchChoice(NamedTuple):
    """OpenSearch cluster of a deployment."""

    kind: ClusterKind
    name: str | None = None
    """Name of an existing cluster. `None` creates a cluster."""
    url: str | None = None
    """URL of an existing cluster. `None` creates a cluster."""


class DomainNodes(NamedTuple):
    """Data nodes of an OpenSearch domain that the deployment creates."""

    number: int
    type: str
    """Instance type without the suffix `.search`, such as `t3.small`."""
    gigabytes: int
    """Size of each node's disk."""


class WarmThroughput(NamedTuple):
    """Units per second for which DynamoDB prepares a table and its indexes."""

    reads: int
    writes: int


@dataclass(frozen=True, kw_only=True)
class DeploymentSettings:
    """Validated settings of one deployment. VALUES describes them."""

    target: Target
    """Target of the deployment: `aws`, or `local` for an embedded AWS. The embedded AWS runs functions on this
    machine's Python interpreter."""
    env: str
    """Name of the environment. Stack names contain it, so one account can have several deployments."""
    issuer: TokenIssuer | None
    """Issuer of the tokens that the API accepts. `None` creates a Cognito user pool."""
    allow_origins: tuple[str, ...]
    """Web origins that may call the API, load thumbnails and upload. `*` allows all origins. An empty tuple allows only
    the console.
    """
    callback_urls: tuple[str, ...]
    """Redirect URLs after sign-in, in addition to the console's."""
    console_client: str | None
    """Client id of the console at an external issuer. `None` disables sign-in to the console."""
    throttle_rate: int
    throttle_burst: int
    endpoint: str | None
    """Base URL at which the embedded AWS serves objects to clients; `None` on AWS."""
    jobs_per_day: int
    delivery_workers: int
    view_window: int
    """Minutes within which repeated views by one viewer count once. At most one day, because the items that record
    viewers expire after a day."""
    caption_days: int
    """Number of days after a video's creation during which its captions are in the index. 0 sets no limit."""
    caption_cues: int
    """Maximum number of a video's cues in the search index."""
    search_engine: SearchEngine
    open_search: OpenSearchChoice
    """Cluster of the search engine `opensearch`. The embedded engine ignores it."""
    open_search_nodes: DomainNodes
    search_instances: int
    """Provisioned concurrency of the search function. 0 disables it."""
    count_own_views: bool
    renditions: tuple[str, ...]
    snapshot_days: int
    """Days for which nightly snapshots of videos are retained. 0 disables the snapshots."""
    audit_days: int
    capacity_mode: CapacityMode
    read_units: Throughput | None
    """Ranges of read units. In mode `onDemand`, only the maximum applies, and `None` sets no maximum."""
    write_units: Throughput | None
    target_use: int
    """Percentage of the provisioned capacity that auto scaling keeps in use."""
    capacity_steps: tuple[CapacityStep, ...]
    warm_throughput: WarmThroughput | None
    """Warm throughput of each table. `None` leaves it to DynamoDB."""
    infrequent_access: tuple[str, ...]
    """Tables of the class Standard-IA, whose storage costs less and whose requests cost more."""
    log_days: int
    log_level: LogLevel
    recovery_days: int
    keep_data: bool
    deletion_protection: bool
    alarms: bool
    dashboard: bool
    alarm_email: str | None
    """Email address that receives alarms. `None` creates no subscription, so the operator must add one."""
    anomaly_usd: int
    snap_start: bool
    """Whether API functions use SnapStart."""
    provisioned: int
    """Provisioned concurrency of each of the busiest functions. 0 disables it."""
    shift: Shift
    kms_key: str | None
    """ARN of a KMS key, `create` for a new key, or `None` for keys that the AWS services own."""
    indexes: tuple[str, ...]
    """Names of the indexes of both tables.

    During an upgrade, `make deploy` omits some, because CloudFormation adds only one index to a table per update.
    """
    stream_arn: str | None
    """ARN of the stream of a restored table. Such a table is not a resource of the stack. `None` uses the stream of the
    stack's table.
    """
    webhook_secret: str | None
    """ARN of the secret from which functions derive webhook secrets.

    `generated` creates a secret with a generated name. `None` creates a secret with a fixed name if the settings retain
    data, otherwise with a generated name (infra/data_stack.py).
    """
    architecture: Architecture
    event_bus: str | None
    """Name or ARN of the EventBridge bus that receives all changes. `None` if no bus receives them."""

    @classmethod
    def from_context(cls, node: Node, region: str | None = None) -> "DeploymentSettings":
        """Read the settings from the context. Raises Misconfigured if a value is invalid.

        `region` is the target region, or `None` if it is unknown.

        Direct values (`-c name=value`, or at the top level of cdk.json) override the values of `environments` in
        cdk.json. An environment that `environments` does not list uses the values of the default environment.
        """
        target = _choice("target", node.try_get_context("target") or VALUES["target"].default, get_args(Target))
        env = node.try_get_context("env") or DEFAULT_ENV
        if not re.fullmatch(r"[a-z][a-z0-9]{0,15}", env):
            raise Misconfigured(f"Context 'env' must be up to 16 lower-case letters and digits, not {env!r}.")
        context = _Context(node, env, target)
        issuer = _issuer(context.get("issuer"), context.get("audience"))
        reserved = [word for word in COGNITO_RESERVES if word in env]
        if reserved and issuer is None and target == "aws":
            raise Misconfigured(
                f"Context 'env' must not contain {reserved[0]!r}, which Cognito reserves in sign-in domains, but is {env!r}. "
                "Choose another name, or set 'issuer' and 'audience'."
            )
        if target == "local" and issuer is None:
            raise Misconfigured(
                "The target 'local' has no Cognito. Set an issuer with '-c issuer=... -c audience=...'."
            )
        endpoint = context.get("endpoint") or None
        if (target == "local") != (endpoint is not None):
            raise Misconfigured(
                "Context 'endpoint' is required for the target 'local', and not allowed for 'aws'. It is the URL of objects in MiniStack."
            )
        snap_start, provisioned = _cold_start(context.get("coldStart"))
        is_for_trying = target == "local" or env == DEFAULT_ENV
        settings = cls(
            target=target,
            env=env,
            issuer=issuer,
            allow_origins=_sites(context.get("allowOrigins") or (ANY_ORIGIN if is_for_trying else NO_SITES)),
            callback_urls=_sites(context.get("callbackUrls") or (LOCAL_CALLBACK if is_for_trying else NO_SITES)),
            console_client=context.get("consoleClient") or None,
            throttle_rate=context.count("throttleRate"),
            throttle_burst=context.count("throttleBurst"),
            endpoint=endpoint.rstrip("/") if endpoint else None,
            jobs_per_day=context.count("jobsPerDay"),
            delivery_workers=context.count("deliveryWorkers", among=range(3, 1001)),
            view_window=context.count("viewWindow", among=range(1, 24 * 60 + 1)),
            caption_days=context.count("captionDays", among=range(36_501)),
            caption_cues=context.count("captionCues", among=range(MAX_CUES + 1)),
            search_engine=_choice("searchEngine", context.get("searchEngine"), get_args(SearchEngine)),
            open_search=_open_search(context.get("openSearch"), region),
            open_search_nodes=_nodes(context.get("openSearchNodes")),
            search_instances=context.count("searchInstances", among=range(101)),
            count_own_views=context.flag("countOwnViews"),
            renditions=_renditions(context.get("renditions") or DEFAULT_RENDITIONS[target]),
            snapshot_days=context.count("snapshotDays", among=range(3651)),
            audit_days=context.count("auditDays"),
            capacity_mode=_choice("capacityMode", context.get("capacityMode"), get_args(CapacityMode)),
            read_units=_throughput("readUnits", context.get("readUnits")),
            write_units=_throughput("writeUnits", context.get("writeUnits")),
            target_use=context.count("targetUse", among=range(20, 91)),
            capacity_steps=_steps(context.get("capacitySteps")),
            warm_throughput=_warm_throughput(context.get("warmThroughput")),
            infrequent_access=_infrequent(context.get("infrequentAccess")),
            log_days=context.count("logDays", among=LOG_PERIODS),
            log_level=_choice("logLevel", context.get("logLevel"), get_args(LogLevel)),
            recovery_days=context.count("recoveryDays", among=range(1, 36)),
            keep_data=context.flag("keepData"),
            deletion_protection=context.flag("deletionProtection"),
            alarms=context.flag("alarms"),
            dashboard=context.flag("dashboard"),
            alarm_email=context.get("alarmEmail") or None,
            anomaly_usd=context.count("anomalyUsd", among=range(100_000)),
            snap_start=snap_start,
            provisioned=provisioned,
            shift=_choice("shift", context.get("shift"), get_args(Shift)),
            kms_key=_key(context.get("kmsKey")),
            indexes=_indexes(context.get("indexes")),
            stream_arn=_stream(context.get("streamArn")),
            webhook_secret=_secret(context.get("webhookSecret")),
            event_bus=_bus(context.get("eventBus"), region),
            architecture=_choice("architecture", context.get("architecture"), get_args(Architecture)),
        )
        context.check_names()
        if settings.alarms and settings.log_level != "INFO":
            raise Misconfigured(
                f"Context 'logLevel' must be INFO, not {settings.log_level}, because alarms read metrics from log lines of that "
                "level. Set 'logLevel' to INFO, or 'alarms' to false."
            )
        settings._check_capacity()
        return settings

    def _check_capacity(self) -> None:
        """Raise Misconfigured if the settings of capacity contradict each other."""
        if self.capacity_mode == "onDemand":
            if self.capacity_steps:
                raise Misconfigured(
                    "Context 'capacitySteps' requires 'capacityMode' provisioned, because an on-demand table has no minimum."
                )
            return
        if self.read_units is None or self.write_units is None:
            raise Misconfigured(
                "Context 'capacityMode' provisioned requires 'readUnits' and 'writeUnits', such as 5-1000."
            )
        largest = max((step.factor for step in self.capacity_steps), default=1)
        for name, units in (("readUnits", self.read_units), ("writeUnits", self.write_units)):
            for range_ in (units.common, *(range_ for _, range_ in units.own)):
                if range_.minimum * largest > range_.maximum:
                    raise Misconfigured(
                        f"Context 'capacitySteps' has the factor x{largest}, which raises the minimum {range_.minimum} of '{name}' above "
                        f"its maximum {range_.maximum}. Choose a smaller factor or a higher maximum."
                    )

    @property
    def is_watched(self) -> bool:
        """Whether the deployment has an operations stack.

        The local target has none. A deployment without alarms and dashboard also has none, because CloudFormation
        rejects empty stacks.
        """
        return self.target == "aws" and (self.alarms or self.dashboard)

    @property
    def log_retention(self) -> logs.RetentionDays:
        """Log retention period, as CDK's type."""
        return LOG_PERIODS[self.log_days]

    @property
    def removal_policy(self) -> RemovalPolicy:
        """Removal policy of stateful resources. Retains them if the settings retain data, otherwise deletes them.

        In both cases, CloudFormation deletes the resources of a failed first deployment. These resources are empty, and
        would block the next deployment.
        """
        return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if self.keep_data else RemovalPolicy.DESTROY

    @property
    def table_name(self) -> str:
        """Name of the main table. The name ends with the environment, except in the default environment."""
        return schema.TABLE_NAME if self.env == DEFAULT_ENV else f"{schema.TABLE_NAME}-{self.env}"

    @property
    def audit_table_name(self) -> str:
        """Name of the audit table. The name ends with the environment, except in the default environment."""
        return self.table_name.replace(schema.TABLE_NAME, schema.AUDIT_TABLE_NAME)

    @property
    def sources_bucket_name(self) -> str:
        """Name of the bucket for source files. Policies must name the bucket before the bucket exists."""
        return f"videos-{self.env}-sources-{Aws.ACCOUNT_ID}-{Aws.REGION}"

    def stack_name(self, part: str) -> str:
        """Return the name of a stack, such as `VideoMetadata-dev-Api`."""
        return f"{self.deployment}-{part}"

    @property
    def deployment(self) -> str:
        """Name of the deployment, such as `VideoMetadata-dev`. The dashboard, the stacks and the bill show this
        name."""
        return f"{schema.TABLE_NAME}-{self.env}"

    @property
    def tags(self) -> dict[str, str]:
        """Tags that CloudFormation adds to all taggable resources."""
        return {"app": schema.TABLE_NAME, "environment": self.env, "deployment": self.deployment}


class _Context:
    """Context values of one environment."""

    def __init__(self, node: Node, env: str, target: Target) -> None:
        environments = node.try_get_context("environments") or {}
        self._node = node
        self._requested: set[str] = set()
        self._env = environments.get(env, environments.get(DEFAULT_ENV, {})) | (LOCAL if target == "local" else {})

    def get(self, name: str) -> Any:
        """Return a value of the context, or the default of VALUES if the value is absent.

        If the default is a string, it also replaces an empty value.
        """
        self._requested.add(name)
        given = self._node.try_get_context(name)
        value, default = self._env.get(name) if given is None else given, VALUES[name].default
        return default if value is None or (value == "" and isinstance(default, str)) else value

    def check_names(self) -> None:
        """Raise Misconfigured if the environment has a setting that no call of `get` has read.

        Call this method after all values have been read.
        """
        unknown = sorted(set(self._env) - self._requested)
        if unknown:
            known = ", ".join(sorted(self._requested))
            raise Misconfigured(f"The environment has the unknown setting {unknown[0]!r}. The settings are {known}.")

    def count(self, name: str, *, among: Container[int] | None = None) -> int:
        """Return a value as an integer. It must be one of `among`, or a positive integer if `among` is `None`.

        Raises Misconfigured for other values.
        """
        given = self.get(name)
        text = str(given)
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise Misconfigured(f"Context '{name}' must be a whole number, not {given!r}.")
        if int(text) not in among if among is not None else int(text) == 0:
            number = "a whole number from 1" if among is None else _listed(among)
            raise Misconfigured(f"Context '{name}' must be {number}, not {given!r}.")
        return int(text)

    def flag(self, name: str) -> bool:
        """Return a value as a boolean. The context may contain a JSON boolean, or the text `true` or `false`."""
        return _choice(name, str(self.get(name)).lower(), ("true", "false")) == "true"


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


def _issuer(url: str | None, audience: Any) -> TokenIssuer | None:
    if bool(url) != bool(audience):
        raise Misconfigured(
            "Context 'issuer' and 'audience' require each other. Set both, or neither for a Cognito user pool."
        )
    return TokenIssuer(url=url, audience=_several(audience)) if url else None


def _cold_start(text: str) -> tuple[bool, int]:
    """Parse `none`, `snapstart` or `provisioned:<instances>`.

    Returns whether to use SnapStart, and the provisioned concurrency, which is 0 if it is not configured.
    """
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
            f"Context 'eventBus' names a bus in {matched[1]}, but the service is deployed to {region}, and can only put "
            f"events on buses of its own region. Name a bus in {region}, and forward its events by a rule."
        )
    return text


def _open_search(text: str, region: str | None) -> OpenSearchChoice:
    """Parse `domain`, `collection`, or the name and URL of an existing cluster as `domain:films=https://...`.

    The URL of a collection must be generated by AWS, because it contains the id of the collection.
    """
    matched = re.fullmatch(r"(domain|collection)(?::([a-z][a-z0-9-]{2,27})=https://([a-z0-9.-]+))?", text, re.ASCII)
    host = matched[3] or "" if matched else ""
    generated = re.fullmatch(r"[a-z0-9-]+\.([a-z0-9-]+)\.(es|aoss)\.amazonaws\.com", host)
    if matched is None or (host and matched[1] == "collection" and (not generated or generated[2] != "aoss")):
        raise Misconfigured(
            "Context 'openSearch' must be domain, collection, or an existing one with its name and URL, such as "
            f"domain:films=https://search-films-abc.eu-west-1.es.amazonaws.com, not {text!r}."
        )
    if host.startswith("vpc-"):
        raise Misconfigured(
            f"Context 'openSearch' names a domain in a VPC, which the functions cannot reach: {text!r}. Name a domain with "
            "public access. It accepts only requests that a permitted role has signed."
        )
    if region and generated and generated[1] != region:
        raise Misconfigured(
            f"Context 'openSearch' names a cluster in {generated[1]}, but the service is deployed to {region}. Name a cluster "
            f"in {region}."
        )
    kind: ClusterKind = "domain" if matched[1] == "domain" else "collection"
    return OpenSearchChoice(kind, matched[2], f"https://{host}" if host else None)


def _nodes(text: str) -> DomainNodes:
    matched = re.fullmatch(r"([1-9]\d?)x([a-z0-9]+\.[a-z0-9]+):([1-9]\d{1,4})", text, re.ASCII)
    if matched is None:
        raise Misconfigured(
            f"Context 'openSearchNodes' must be the number, type and GB (at least 10) of the nodes, such as 3xm7g.medium:50, not {text!r}."
        )
    return DomainNodes(int(matched[1]), matched[2], int(matched[3]))


def _throughput(name: str, text: str | None) -> Throughput | None:
    """Parse `5-1000`, or `5-1000,RelationIndex=5-4000` with other ranges for some tables and indexes."""
    if not text or text == "none":
        return None
    matches = [re.fullmatch(r"(?:(\w+)=)?(\d{1,6})-(\d{1,6})", part, re.ASCII) for part in _several(text)]
    ranges = [(match[1], UnitRange(int(match[2]), int(match[3]))) for match in matches if match]
    names = [table for table, _ in ranges]
    is_valid = (
        len(ranges) == len(matches)
        and names[0] is None
        and set(names[1:]) <= {*TABLES, *INDEXES}
        and len(set(names)) == len(names)
        and all(1 <= range_.minimum <= range_.maximum for _, range_ in ranges)
    )
    if not is_valid:
        raise Misconfigured(
            f"Context '{name}' must be a range such as 5-1000, which ranges of single tables or indexes may follow, such as "
            f"RelationIndex=5-4000 ({', '.join((*TABLES, *INDEXES))}), not {text!r}."
        )
    return Throughput(ranges[0][1], tuple(ranges[1:]))


def _steps(text: str) -> tuple[CapacityStep, ...]:
    if text == "none":
        return ()
    matches = [re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)=x([1-9]\d{0,3})", part, re.ASCII) for part in _several(text)]
    steps = tuple(CapacityStep(int(match[1]), int(match[2]), int(match[3])) for match in matches if match)
    if len({step[:2] for step in steps}) < len(matches):
        raise Misconfigured(
            f"Context 'capacitySteps' must be none, or UTC times with factors such as 06:30=x10,20:00=x1, without repeated times, not {text!r}."
        )
    return steps


def _warm_throughput(text: str) -> WarmThroughput | None:
    if text == "none":
        return None
    matched = re.fullmatch(r"(\d{1,7})/(\d{1,7})", text, re.ASCII)
    warm = WarmThroughput(int(matched[1]), int(matched[2])) if matched else None
    if warm is None or warm.reads < WARM_READS or warm.writes < WARM_WRITES:
        raise Misconfigured(
            f"Context 'warmThroughput' must be none, or reads/writes of at least {WARM_READS}/{WARM_WRITES}, not {text!r}."
        )
    return warm


def _infrequent(value: Any) -> tuple[str, ...]:
    return _some_of("infrequentAccess", _sites(value), TABLES, value)


def _indexes(value: Any) -> tuple[str, ...]:
    if value is None:
        return INDEXES
    return _some_of("indexes", tuple(name for name in _several(value) if name), INDEXES, value)


def _renditions(value: Any) -> tuple[str, ...]:
    return _some_of("renditions", _several(value), LADDER, value)


def _some_of(name: str, names: tuple[str, ...], known: tuple[str, ...], value: Any) -> tuple[str, ...]:
    """Return `names`. Raises Misconfigured, with `value` in the message, if a name is not in `known` or is repeated."""
    if not set(names) <= set(known) or len(set(names)) < len(names):
        raise Misconfigured(
            f"Context '{name}' must be one or more of {', '.join(known)}, without duplicates, not {value!r}."
        )
    return names


def _sites(value: Any) -> tuple[str, ...]:
    """Parse a comma-separated list of origins. The value `none` returns an empty tuple."""
    sites = _several(value)
    return () if sites == (NO_SITES,) else sites


def _several(value: Any) -> tuple[str, ...]:
    """Return the parts of a comma-separated value, or of a JSON list, without surrounding spaces."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts)
