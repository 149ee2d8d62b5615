"""OpenSearch instead of the embedded search engine: the cluster, the functions' access to it, and its alarms."""

import json
import re
from contextlib import nullcontext
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import unquote

import pytest

from infra.opensearch import SearchCluster
from local.testbed.harness import Clock, make_api
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.search import opensearch_index
from shared.search.builder import IndexBuilder
from shared.search.generations import KEPT_SECONDS, PointerStore
from shared.search.opensearch_index import OpenSearchStore
from tests.indexed import IndexedService
from tests.opensearch import Cluster
from tests.unit.infra import page_tables
from tests.unit.infra.page_tables import cluster_alarms, metrics_of
from tests.unit.infra.templates import (
    EXISTING_KEY,
    ROOT,
    Json,
    Templates,
    as_list,
    settings_of,
    synthesized_cluster,
    to_text,
)

Clusters = dict[str, dict[str, Json]]
CLUSTER_USERS = ("indexer", "search")
DOMAIN = "arn:AWS::Partition:es:AWS::Region:AWS::AccountId:domain/films"
VARIABLES = ("SEARCH_ENGINE", "OPENSEARCH_SERVICE", "OPENSEARCH_URL")


def _resource(parts: dict[str, Json], type_: str) -> Json:
    (resource,) = (each for each in parts["Search"]["Resources"].values() if each["Type"] == type_)
    return dict(resource["Properties"])


def _policy(value: object) -> Json:
    """Return a policy that a template contains as text."""
    return dict(as_list(json.loads(to_text(value)))[0])


class TestDomain:
    def test_domain_encrypts_stored_data_and_traffic(self, clusters: Clusters) -> None:
        domain = _resource(clusters["domain"], "AWS::OpenSearchService::Domain")
        assert domain["EncryptionAtRestOptions"] == {"Enabled": True}
        assert domain["NodeToNodeEncryptionOptions"] == {"Enabled": True}
        options = domain["DomainEndpointOptions"]
        assert options["EnforceHTTPS"] is True
        assert options["TLSSecurityPolicy"].startswith("Policy-Min-TLS-1-2")

    def test_domain_access_policy_allows_no_requests_and_denies_other_accounts(self, clusters: Clusters) -> None:
        domain = _resource(clusters["domain"], "AWS::OpenSearchService::Domain")
        (statement,) = domain["AccessPolicies"]["Statement"]
        assert statement["Effect"] == "Deny"
        assert statement["Condition"] == {"StringNotEquals": {"aws:PrincipalAccount": {"Ref": "AWS::AccountId"}}}
        assert "AdvancedSecurityOptions" not in domain

    def test_bulk_requests_cannot_name_other_indexes_in_their_body(self, clusters: Clusters) -> None:
        domain = _resource(clusters["domain"], "AWS::OpenSearchService::Domain")
        assert domain["AdvancedOptions"] == {"rest.action.multi.allow_explicit_index": "false"}

    def test_domain_publishes_its_logs_with_limited_retention(self, clusters: Clusters) -> None:
        search = clusters["domain"]["Search"]["Resources"]
        groups = {id_ for id_, resource in search.items() if resource["Type"] == "AWS::Logs::LogGroup"}
        assert {search[id_]["Properties"]["RetentionInDays"] for id_ in groups} == {90}
        options = _resource(clusters["domain"], "AWS::OpenSearchService::Domain")["LogPublishingOptions"]
        assert options.keys() == {"SEARCH_SLOW_LOGS", "INDEX_SLOW_LOGS", "ES_APPLICATION_LOGS"}
        assert {option["CloudWatchLogsLogGroupArn"]["Fn::GetAtt"][0] for option in options.values()} == groups

    def test_only_opensearch_may_write_the_logs_of_the_domain(self, clusters: Clusters) -> None:
        document = _resource(clusters["domain"], "AWS::Logs::ResourcePolicy")["PolicyDocument"]
        (statement,) = _policy(document)["Statement"]
        assert statement["Principal"] == {"Service": "es.amazonaws.com"}
        assert statement["Condition"]["ArnLike"]["aws:SourceArn"].endswith(":domain/videos-prod")
        assert statement["Condition"]["StringEquals"] == {"aws:SourceAccount": "AWS::AccountId"}

    @pytest.mark.parametrize(
        ("nodes", "zones"), [("1xt3.small:10", None), ("2xt3.small:20", 2), ("6xm7g.medium:50", 3)]
    )
    def test_domain_spreads_its_nodes_over_zones(self, tmp_path: Path, nodes: str, zones: int | None) -> None:
        context = {"searchEngine": "opensearch", "openSearchNodes": nodes, "kmsKey": EXISTING_KEY}
        domain = _resource(synthesized_cluster(context, tmp_path), "AWS::OpenSearchService::Domain")
        config = domain["ClusterConfig"]
        count, type_, gigabytes = re.split("[x:]", nodes, maxsplit=2)
        assert (config["InstanceCount"], config["InstanceType"]) == (int(count), f"{type_}.search")
        assert domain["EBSOptions"]["VolumeSize"] == int(gigabytes)
        assert config["ZoneAwarenessEnabled"] is (zones is not None)
        assert config.get("ZoneAwarenessConfig") == ({"AvailabilityZoneCount": zones} if zones else None)
        assert domain["EncryptionAtRestOptions"]["KmsKeyId"] == EXISTING_KEY.rpartition("/")[2]


class TestCollection:
    def test_collection_is_encrypted_and_reachable_by_https_without_dashboards(self, clusters: Clusters) -> None:
        resources = clusters["collection"]["Search"]["Resources"]
        policies = {
            resource["Properties"]["Type"]: _policy(resource["Properties"]["Policy"])
            for resource in resources.values()
            if resource["Type"] == "AWS::OpenSearchServerless::SecurityPolicy"
        }
        rules = [{"ResourceType": "collection", "Resource": ["collection/videos-prod"]}]
        assert policies == {
            "encryption": {"Rules": rules, "AWSOwnedKey": True},
            "network": {"Rules": rules, "AllowFromPublic": True},
        }
        assert set(resources["Collection"]["DependsOn"]) == {"EncryptionPolicy", "NetworkPolicy"}

    def test_collection_uses_the_kms_key_of_the_deployment(self, tmp_path: Path) -> None:
        context = {"searchEngine": "opensearch", "openSearch": "collection", "kmsKey": EXISTING_KEY}
        resources = synthesized_cluster(context, tmp_path)["Search"]["Resources"]
        assert _policy(resources["EncryptionPolicy"]["Properties"]["Policy"])["KmsARN"] == EXISTING_KEY

    def test_each_function_has_a_data_access_policy_for_its_own_role(self, other_values: Templates) -> None:
        policies = {}
        for policy in other_values.all("AWS::OpenSearchServerless::AccessPolicy").values():
            document = _policy(policy["Properties"]["Policy"])
            (principal,) = document["Principal"]
            policies[principal] = {
                (resource, permission.removeprefix("aoss:"))
                for rule in document["Rules"]
                for resource in rule["Resource"]
                for permission in rule["Permission"]
            }
        indexes = "index/videos-dev/videos-dev-*"
        read = {(indexes, name) for name in ("DescribeIndex", "ReadDocument")}
        write = {(indexes, name) for name in ("CreateIndex", "DeleteIndex", "UpdateIndex", "WriteDocument")}
        aliases = {("collection/videos-dev", f"{name}CollectionItems") for name in ("Create", "Describe", "Update")}
        assert policies == {"SearchRole": read, "IndexerRole": read | write | aliases}

    def test_only_the_search_functions_may_call_the_collection(self, other_values: Templates) -> None:
        for folder in CLUSTER_USERS:
            assert _allowed(other_values, folder, "aoss:") == {"aoss:APIAccessAll CollectionArn"}
        assert json.dumps(other_values.parts()).count('"aoss:APIAccessAll"') == len(CLUSTER_USERS)


class TestFunctions:
    @pytest.mark.parametrize(
        "request_line",
        [
            "Delete /films",
            "Delete /videos-dev-00000001-1f0a9c3e,films",
            "Delete /videos-dev-eu-00000001-1f0a9c3e",
            "Post /films/_search",
            "Post /videos-dev-00000001-1f0a9c3e,films/_search",
            "Post /_aliases",
            "Post /_bulk",
            "Put /films/_alias/videos-dev",
            "Put /videos-dev-00000001-1f0a9c3e/_settings",
        ],
    )
    def test_roles_permit_no_requests_for_other_indexes_or_settings(
        self, snapstart: Templates, request_line: str
    ) -> None:
        method, path = request_line.split()
        for folder in CLUSTER_USERS:
            allowed = _allowed(snapstart, folder, "es:")
            assert not [pattern for pattern in allowed if fnmatchcase(f"es:ESHttp{method} {DOMAIN}{path}", pattern)]

    def test_roles_permit_exactly_the_requests_that_the_functions_send(
        self, snapstart: Templates, table: Table, objects: Objects, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service, cluster, sent = IndexedService(table, objects, clock), Cluster(), dict[str, set[str]]()
        store = OpenSearchStore(PointerStore(table, clock, engine="opensearch"), cluster.client(), "videos-dev")
        builder = IndexBuilder(store, service.table, service.feed, service.loader, clock=clock, heartbeat=nullcontext)
        video_ids = [service.publish_video(f"Apples {number}") for number in range(2)]
        service.put_captions(video_ids[0], "An apple a day")
        for _ in range(3):
            builder.run(from_scratch=True)
        clock.advance(KEPT_SECONDS)
        service.publish_video("Pears")
        assert builder.run().removed
        sent["indexer"] = {*cluster.requests}
        cluster.requests.clear()
        monkeypatch.setattr(opensearch_index, "make_client", lambda *_, **__: cluster.client())
        api = make_api(table, clock, objects, SEARCH_ENGINE="opensearch", OPENSEARCH_URL="https://search.example")
        for path, query in (("/v1/search", "q=apple&facets=tag"), (f"/v1/videos/{video_ids[0]}/similar", "")):
            assert api.get(path, query=query, user="carol").json["items"]
        sent["search"] = {*cluster.requests}
        for folder, requests in sent.items():
            unused = allowed = _allowed(snapstart, folder, "es:")
            for request in requests:
                method, path = unquote(request).split()
                line = f"es:ESHttp{method.capitalize()} {DOMAIN}{path}"
                matching = {pattern for pattern in allowed if fnmatchcase(line, pattern)}
                assert matching, request
                unused = unused - matching
            assert not unused

    def test_functions_receive_the_address_of_the_cluster(self, other_values: Templates, snapstart: Templates) -> None:
        addresses = {
            ("aoss", "CollectionCollectionEndpoint"): other_values,
            ("es", "https://search-films-abc.eu-west-1.es.amazonaws.com"): snapstart,
        }
        for (service, url), templates in addresses.items():
            for folder in CLUSTER_USERS:
                variables = templates.function(folder)[1]["Environment"]["Variables"]
                assert [to_text(variables[name]) for name in VARIABLES] == ["opensearch", service, url]
            assert templates.function("indexer")[1]["Environment"]["Variables"]["OPENSEARCH_PREFIX"] == "videos-dev"

    def test_functions_have_neither_storage_nor_objects_for_an_embedded_index(self, snapstart: Templates) -> None:
        for folder in CLUSTER_USERS:
            assert "EphemeralStorage" not in snapstart.function(folder)[1]
            assert not [line for line in snapstart.allowed(folder) if "Media/index/" in line]

    def test_search_function_reads_neither_captions_nor_child_items_beside_a_cluster(
        self, snapstart: Templates
    ) -> None:
        allowed = snapstart.allowed("search")
        assert not [line for line in allowed if line.startswith("s3:")]
        assert "dynamodb:Query Table VIDEO#*" not in allowed
        assert "dynamodb:Query AuditTable CHANGES#*" in allowed

    def test_existing_cluster_needs_no_stack(self, snapstart: Templates, other_values: Templates) -> None:
        assert "Search" not in snapstart.parts()
        assert "Search" in other_values.parts()

    def test_existing_collection_is_identified_by_its_url(self) -> None:
        chosen = "collection:films=https://abc123.us-east-1.aoss.amazonaws.com"
        cluster = SearchCluster.existing(settings_of({"openSearch": chosen}, "us-east-1"))
        assert cluster is not None
        assert (cluster.name, cluster.collection_id) == ("films", "abc123")
        assert cluster.arn.endswith(":collection/abc123")
        assert cluster.environment()["OPENSEARCH_SERVICE"] == "aoss"

    def test_default_deployment_has_nothing_of_opensearch(self, defaults: Templates, prod: Templates) -> None:
        for templates in (defaults, prod):
            text = json.dumps(templates.parts()).lower()
            assert not [word for word in ("opensearch", "search_engine", "aoss:") if word in text]

    def test_local_deployment_always_uses_the_embedded_engine(self) -> None:
        settings = settings_of(
            {
                "target": "local",
                "endpoint": "http://127.0.0.1:4566",
                "issuer": "http://127.0.0.1:9000",
                "audience": "a",
                "environments": {"dev": {"searchEngine": "opensearch"}},
            }
        )
        assert settings.search_engine == "embedded"


def _allowed(templates: Templates, folder: str, prefix: str) -> set[str]:
    return {line for line in templates.allowed(folder) if line.startswith(prefix)}


class TestAlarms:
    def test_alarm_names_the_metric_of_its_own_cluster(self, clusters: Clusters) -> None:
        account = "ClientId=AWS::AccountId"
        own = {
            "domain": {f"AWS/ES {account} DomainName=videos-prod"},
            "collection": {
                f"AWS/AOSS {account}",  # the limit of capacity units is for all collections of the account
                f"AWS/AOSS {account} CollectionId=CollectionId CollectionName=videos-prod",
            },
        }
        for kind, parts in clusters.items():
            named = set()
            for alarm in cluster_alarms(parts):
                (metric,) = (each["Metric"] for each in metrics_of(alarm))
                dimensions = sorted(f"{each['Name']}={to_text(each['Value'])}" for each in metric["Dimensions"])
                named.add(" ".join([metric["Namespace"], *dimensions]))
            assert named == own[kind]

    def test_alarm_on_storage_fires_at_a_quarter_of_a_disk(self, clusters: Clusters) -> None:
        (alarm,) = (each for each in cluster_alarms(clusters["domain"]) if each["MetricName"] == "FreeStorageSpace")
        assert alarm["Threshold"] == 20 * 1024 / 4

    def test_embedded_index_has_an_alarm_on_its_size_and_a_cluster_has_none(
        self, prod: Templates, clusters: Clusters
    ) -> None:
        large = "prod Search index is large"
        assert large in page_tables.alarms(prod)
        assert large not in {alarm["AlarmName"] for parts in clusters.values() for alarm in cluster_alarms(parts)}

    def test_page_lists_the_alarms_of_both_kinds_of_clusters(self, clusters: Clusters) -> None:
        contents = page_tables.cluster_alarm_table(clusters)
        assert page_tables.is_current(page_tables.OPENSEARCH, contents), page_tables.HINT


def test_page_names_the_stack_and_the_reserved_prefix_of_indexes() -> None:
    page = (ROOT / "docs" / "opensearch.md").read_text(encoding="utf-8")
    assert "`VideoMetadata-<env>-Search`" in page
    assert "begin with `videos-<env>`" in page
