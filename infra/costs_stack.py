"""Cost anomaly monitoring, for accounts that support it."""

import json
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ce as ce
from constructs import Construct

from infra.settings import DeploymentSettings
from infra.topic import topic_for

COSTS_TAG = "deployment"
"""Key of the cost allocation tag that selects a deployment's costs. A cost monitor accepts only one tag key."""


class CostsStack(cdk.Stack):
    """Notifications of unusual costs. They arrive some hours after the costs. COSTS_TAG must be active in Billing.

    AWS rejects cost monitors in member accounts of an organisation. Because the stack is separate, such a failure does
    not affect the alarms.
    """

    def __init__(self, scope: Construct, id_: str, *, settings: DeploymentSettings, **kwargs: Any) -> None:
        super().__init__(scope, id_, description="Video metadata: cost anomaly monitoring", **kwargs)
        topic = topic_for("costalerts.amazonaws.com", self, settings)
        # Notifications show the names of monitor and subscription, so one of them names the runbook.
        monitor = ce.CfnAnomalyMonitor(
            self,
            "Costs",
            monitor_name=f"{settings.deployment}: costs",
            monitor_type="CUSTOM",
            monitor_specification=json.dumps({"Tags": {"Key": COSTS_TAG, "Values": [settings.tags[COSTS_TAG]]}}),
        )
        unusual = {
            "Dimensions": {
                "Key": "ANOMALY_TOTAL_IMPACT_ABSOLUTE",
                "MatchOptions": ["GREATER_THAN_OR_EQUAL"],
                "Values": [str(settings.anomaly_usd)],
            }
        }
        ce.CfnAnomalySubscription(
            self,
            "UnusualCosts",
            subscription_name=f"{settings.deployment}: unusual costs. Runbook: docs/runbooks/cost-anomaly.md",
            frequency="IMMEDIATE",
            monitor_arn_list=[monitor.attr_monitor_arn],
            subscribers=[ce.CfnAnomalySubscription.SubscriberProperty(type="SNS", address=topic.topic_arn)],
            threshold_expression=json.dumps(unusual),
        )
        cdk.CfnOutput(self, "CostsTopic", description="SNS topic of cost anomalies", value=topic.topic_arn)
