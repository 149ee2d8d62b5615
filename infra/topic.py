"""SNS topics for notifications from AWS services."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.settings import DeploymentSettings


def topic_for(publisher: str, scope: Construct, settings: DeploymentSettings) -> sns.Topic:
    """Return an encrypted topic. Only the AWS service `publisher` may publish to the topic, and only for this account."""
    # A separate customer-managed key, because only the policy of such a key can grant access to an AWS service.
    key = kms.Key(
        scope,
        "TopicKey",
        description=f"Video metadata, {settings.env}: encrypts notifications of {publisher}",
        enable_key_rotation=True,
        pending_window=cdk.Duration.days(7),
        removal_policy=cdk.RemovalPolicy.DESTROY,  # no retained data is encrypted with this key
    )
    topic = sns.Topic(
        scope,
        "Topic",
        display_name=f"Video metadata, {settings.env}",
        master_key=key,
        enforce_ssl=True,
    )
    principal = iam.ServicePrincipal(publisher, conditions={"StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID}})
    topic.add_to_resource_policy(
        iam.PolicyStatement(principals=[principal], actions=["sns:Publish"], resources=[topic.topic_arn])
    )
    key.add_to_resource_policy(
        # In a key policy, "*" is the key itself.
        iam.PolicyStatement(principals=[principal], actions=["kms:Decrypt", "kms:GenerateDataKey*"], resources=["*"])
    )
    if settings.alarm_email:
        topic.add_subscription(subscriptions.EmailSubscription(settings.alarm_email))
    return topic
