"""OpenSearch cluster of the search engine `opensearch`, and the functions' permissions for its indexes.

The functions are in no VPC, so the cluster has a public endpoint. It accepts only requests that a permitted role has
signed. The indexes contain no data that the tables lack, so the cluster can be deleted and rebuilt.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from aws_cdk import aws_opensearchserverless as serverless
from aws_cdk import aws_opensearchservice as managed

from infra.encryption import Encryption
from infra.function import ServiceFunction
from infra.nag import accept
from infra.settings import ClusterKind, DeploymentSettings, DomainNodes

ENGINE_VERSION = "OpenSearch_2.19"
TLS_POLICY = "Policy-Min-TLS-1-2-PFS-2023-10"
"""Security policy of a domain's endpoint: TLS 1.2 or later, with forward secrecy."""
DOMAIN_LOGS = {
    "SEARCH_SLOW_LOGS": "SlowSearchLogs",
    "INDEX_SLOW_LOGS": "SlowIndexingLogs",
    "ES_APPLICATION_LOGS": "ErrorLogs",
}
"""Logs that a domain publishes, and the ids of their log groups.

A slow log is empty until an operator sets its thresholds on an index. The service sets none, because the lines of slow
logs contain what users searched for.
"""

GENERATED = "????????-????????"
"""IAM pattern of the generated part at the end of an index name.

The pattern has a fixed length, so it matches no index of an environment with a longer name. Each `?` can also match `,`
or `*`. The pattern therefore also matches some lists of several indexes, such as `videos-prod-x,movies-archive1`.
"""
SEARCH_ACCESS = ("aoss:DescribeIndex", "aoss:ReadDocument")
"""Permissions of the search function on the indexes of a collection.
https://docs.aws.amazon.com/opensearch-service/latest/developerguide/serverless-genref.html
"""
INDEXER_ACCESS = (
    *("aoss:CreateIndex", "aoss:DeleteIndex", "aoss:UpdateIndex", "aoss:WriteDocument"),
    *SEARCH_ACCESS,
)
"""Permissions of the indexer on the indexes of a collection."""
ALIAS_ACCESS = (
    "aoss:CreateCollectionItems",
    "aoss:DescribeCollectionItems",
    "aoss:UpdateCollectionItems",
)
"""Permissions of the indexer on the aliases of a collection. A policy cannot name single aliases."""


def prefix_of(settings: DeploymentSettings) -> str:
    """Return the prefix of the names of a deployment's indexes.

    It contains the environment, because several deployments may share an existing cluster.
    """
    return f"videos-{settings.env}"


@dataclass(frozen=True, kw_only=True)
class SearchCluster:
    """An OpenSearch domain, or a serverless collection."""

    kind: ClusterKind
    name: str
    arn: str
    url: str
    collection_id: str = ""
    """Id of a collection; empty for a domain."""
    nodes: DomainNodes | None = None
    """Nodes of a domain that the deployment creates; otherwise `None`."""

    @classmethod
    def existing(cls, settings: DeploymentSettings) -> "SearchCluster | None":
        """Return the existing cluster from the settings, or `None` if the settings have none."""
        kind, name, url = settings.open_search
        if name is None or url is None:
            return None
        collection_id = url.removeprefix("https://").partition(".")[0] if kind == "collection" else ""
        return cls(
            kind=kind,
            name=name,
            arn=_arn("aoss", f"collection/{collection_id}") if collection_id else _arn("es", f"domain/{name}"),
            url=url,
            collection_id=collection_id,
        )

    def environment(self) -> dict[str, str]:
        """Return the environment variables of the functions that use the cluster."""
        return {
            "SEARCH_ENGINE": "opensearch",
            "OPENSEARCH_URL": self.url,
            "OPENSEARCH_SERVICE": "es" if self.kind == "domain" else "aoss",
        }

    def allow_searching(self, function: ServiceFunction, settings: DeploymentSettings) -> None:
        """Allow reading the deployment's indexes."""
        prefix = prefix_of(settings)
        if self.kind == "domain":
            index = f"{prefix}-{GENERATED}"
            function.allow_domain(self.arn, {"Post": (f"{index}/_mget", f"{index}/_search")})
        else:
            self._allow_collection(function, f"{prefix}-search", self._index_rule(prefix, SEARCH_ACCESS))

    def allow_indexing(self, function: ServiceFunction, settings: DeploymentSettings) -> None:
        """Allow listing, creating, writing and deleting the deployment's indexes."""
        prefix = prefix_of(settings)
        if self.kind == "domain":
            # IAM checks the path of a request, not its body. A new index can therefore have any alias. The path
            # `_aliases` is not permitted, because it would also permit changes of all other aliases.
            index = f"{prefix}-{GENERATED}"
            requests = {
                "Delete": (index,),
                "Get": (f"{prefix}-*/_alias",),
                "Post": (f"{index}/_count", f"{index}/_refresh", f"{index}-write/_bulk"),
                "Put": (index,),
            }
            function.allow_domain(self.arn, requests)
        else:
            aliases = {
                "ResourceType": "collection",
                "Resource": [f"collection/{self.name}"],
                "Permission": ALIAS_ACCESS,
            }
            self._allow_collection(function, f"{prefix}-indexer", self._index_rule(prefix, INDEXER_ACCESS), aliases)

    def _index_rule(self, prefix: str, permissions: Sequence[str]) -> Mapping[str, Any]:
        return {
            "ResourceType": "index",
            "Resource": [f"index/{self.name}/{prefix}-*"],
            "Permission": permissions,
        }

    def _allow_collection(self, function: ServiceFunction, policy: str, *rules: Mapping[str, Any]) -> None:
        """Allow requests to the collection's endpoint, and add a data access policy with these rules for the function."""
        function.allow_collection(self.arn)
        serverless.CfnAccessPolicy(
            function,
            "DataAccess",
            name=policy,
            type="data",
            policy=json.dumps([{"Rules": rules, "Principal": [function.role_arn]}]),
        )


class SearchStack(cdk.Stack):
    """Stack of a new OpenSearch cluster for a deployment.

    An operator can delete the stack when no function uses the cluster any more. The function `indexer` can rebuild the
    index in any other cluster.
    """

    def __init__(
        self, scope: cdk.App, id_: str, *, settings: DeploymentSettings, encryption: Encryption, **kwargs: Any
    ) -> None:
        super().__init__(scope, id_, description="Video metadata: the OpenSearch cluster", **kwargs)
        self._settings, self._encryption = settings, encryption
        name = f"videos-{settings.env}"
        self.cluster = self._domain(name) if settings.open_search.kind == "domain" else self._collection(name)

    def _domain(self, name: str) -> SearchCluster:
        """Return a managed domain with encryption at rest and in transit.

        The domain's access policy only denies requests from other accounts. It cannot allow the functions' roles,
        because their stacks already refer to this stack. Therefore the policies of the roles allow the requests.
        """
        arn, nodes = _arn("es", f"domain/{name}"), self._settings.open_search_nodes
        groups = self._log_groups()
        options = managed.CfnDomain
        domain = managed.CfnDomain(
            self,
            "Domain",
            domain_name=name,
            engine_version=ENGINE_VERSION,
            cluster_config=options.ClusterConfigProperty(
                instance_count=nodes.number,
                instance_type=f"{nodes.type}.search",
                zone_awareness_enabled=nodes.number > 1,
                zone_awareness_config=options.ZoneAwarenessConfigProperty(availability_zone_count=min(nodes.number, 3))
                if nodes.number > 1
                else None,
            ),
            ebs_options=options.EBSOptionsProperty(ebs_enabled=True, volume_size=nodes.gigabytes, volume_type="gp3"),
            encryption_at_rest_options=options.EncryptionAtRestOptionsProperty(
                enabled=True, kms_key_id=self._encryption.data.key_id if self._encryption.data else None
            ),
            node_to_node_encryption_options=options.NodeToNodeEncryptionOptionsProperty(enabled=True),
            domain_endpoint_options=options.DomainEndpointOptionsProperty(
                enforce_https=True, tls_security_policy=TLS_POLICY
            ),
            # A bulk request could otherwise name indexes in its body, which IAM does not check.
            advanced_options={"rest.action.multi.allow_explicit_index": "false"},
            access_policies={
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Effect": "Deny",
                        "Principal": {"AWS": "*"},
                        "Action": "es:*",
                        "Resource": f"{arn}/*",
                        "Condition": {"StringNotEquals": {"aws:PrincipalAccount": cdk.Aws.ACCOUNT_ID}},
                    }
                ],
            },
            log_publishing_options={
                kind: options.LogPublishingOptionProperty(
                    cloud_watch_logs_log_group_arn=group.log_group_arn, enabled=True
                )
                for kind, group in groups.items()
            },
            software_update_options=options.SoftwareUpdateOptionsProperty(auto_software_update_enabled=True),
        )
        domain.add_resource_dependency(self._allow_logging(arn, groups.values()))
        accept(
            domain,
            rule="AwsSolutions-OS1",
            reason="The functions are in no VPC. The domain accepts only HTTPS requests that a permitted role has signed.",
        )
        accept(
            domain,
            rule="AwsSolutions-OS4",
            reason="Dedicated master nodes pay off in larger clusters. The index can be rebuilt from the tables.",
        )
        if nodes.number == 1:
            accept(domain, rule="AwsSolutions-OS7", reason="The settings choose a single node.")
        url = f"https://{domain.attr_domain_endpoint}"
        return SearchCluster(kind="domain", name=name, arn=arn, url=url, nodes=nodes)

    def _log_groups(self) -> Mapping[str, logs.LogGroup]:
        """Return a new log group for each log of DOMAIN_LOGS."""
        return {
            kind: logs.LogGroup(
                self,
                id_,
                encryption_key=self._encryption.logs,
                retention=self._settings.log_retention,
                removal_policy=cdk.RemovalPolicy.DESTROY,
            )
            for kind, id_ in DOMAIN_LOGS.items()
        }

    def _allow_logging(self, domain_arn: str, groups: Iterable[logs.LogGroup]) -> logs.CfnResourcePolicy:
        """Allow OpenSearch to write the domain's logs to these groups."""
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": "es.amazonaws.com"},
            "Action": ["logs:CreateLogStream", "logs:PutLogEvents", "logs:PutLogEventsBatch"],
            "Resource": [group.log_group_arn for group in groups],
            "Condition": {
                "StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID},
                "ArnLike": {"aws:SourceArn": domain_arn},
            },
        }
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        return logs.CfnResourcePolicy(self, "LogAccess", policy_name=self.stack_name, policy_document=document)

    def _collection(self, name: str) -> SearchCluster:
        """Return a serverless collection, with its encryption policy and network policy.

        The functions' stacks add the data access policies. The network policy permits no access to OpenSearch
        Dashboards.
        """
        rule = {"ResourceType": "collection", "Resource": [f"collection/{name}"]}
        key = self._encryption.data
        policies = {
            "encryption": {"Rules": [rule], **({"KmsARN": key.key_arn} if key else {"AWSOwnedKey": True})},
            "network": [{"Rules": [rule], "AllowFromPublic": True}],
        }
        collection = serverless.CfnCollection(self, "Collection", name=name, type="SEARCH", standby_replicas="ENABLED")
        for type_, policy in policies.items():
            security = serverless.CfnSecurityPolicy(
                self, f"{type_.capitalize()}Policy", name=name, type=type_, policy=json.dumps(policy)
            )
            collection.add_resource_dependency(security)
        return SearchCluster(
            kind="collection",
            name=name,
            arn=collection.attr_arn,
            url=collection.attr_collection_endpoint,
            collection_id=collection.attr_id,
        )


def _arn(service: str, resource: str) -> str:
    return f"arn:{cdk.Aws.PARTITION}:{service}:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:{resource}"
