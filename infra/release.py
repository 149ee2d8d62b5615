"""Gradual deployment of new function versions."""

from collections.abc import Mapping

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.function import LIVE, ServiceFunction
from infra.nag import accept
from infra.settings import DeploymentSettings

RUNBOOK = "Runbook: docs/runbooks/rolled-back.md"


class GradualShift(Construct):
    """CodeDeploy deployments that shift a tenth of the requests first, and roll back if the new version fails.

    CodeDeploy moves each function's alias while CloudFormation waits. If CodeDeploy rolls back, the deployment fails,
    and CloudFormation reverts all other changes. The alarms measure only the new version. Each version has separate
    alarms. Otherwise the alarms of a failing version would block the deployment of the fix.
    """

    def __init__(
        self, scope: Construct, id_: str, *, settings: DeploymentSettings, functions: Mapping[str, ServiceFunction]
    ) -> None:
        super().__init__(scope, id_)
        self._settings = settings
        self._application = codedeploy.LambdaApplication(
            self, "Application", application_name=settings.stack_name("Api")
        )
        self._role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "codedeploy.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
            ),
        )
        self._allow(functions)
        for folder, function in functions.items():
            self._shift(folder, function)

    def _allow(self, functions: Mapping[str, ServiceFunction]) -> None:
        """Allow CodeDeploy to shift the aliases of these functions.

        AWS's managed policy would allow more: all functions, hooks and S3 objects.
        """
        self._role.add_to_policy(
            iam.PolicyStatement(
                actions=["lambda:GetAlias", "lambda:GetProvisionedConcurrencyConfig", "lambda:UpdateAlias"],
                resources=[
                    arn
                    for function in functions.values()
                    for arn in (function.function.function_arn, f"{function.function.function_arn}:{LIVE}")
                ],
            )
        )
        self._role.add_to_policy(iam.PolicyStatement(actions=["cloudwatch:DescribeAlarms"], resources=["*"]))
        accept(
            self._role,
            rule="AwsSolutions-IAM5[Resource::*]",
            reason="IAM cannot restrict DescribeAlarms to some alarms, and the state of alarms is not secret.",
        )

    def _shift(self, folder: str, function: ServiceFunction) -> None:
        gradually = {
            "canary": codedeploy.LambdaDeploymentConfig.CANARY_10_PERCENT_5_MINUTES,
            "linear": codedeploy.LambdaDeploymentConfig.LINEAR_10_PERCENT_EVERY_1_MINUTE,
        }
        group = codedeploy.LambdaDeploymentGroup(
            self,
            folder.capitalize(),
            application=self._application,
            deployment_group_name=folder,
            alias=function.alias,
            deployment_config=gradually[self._settings.shift],
            # Otherwise CDK adds AWS's managed policy.
            role=self._role.without_policy_updates(),
            alarms=[self._crashes(folder, function), self._unhandled_errors(folder, function)],
            auto_rollback=codedeploy.AutoRollbackConfig(
                failed_deployment=True, stopped_deployment=True, deployment_in_alarm=True
            ),
        )
        group.node.add_dependency(self._role)  # includes its policy
        # The alarms must cover the new version before requests move to it.
        function.alias.node.add_dependency(group)

    def _crashes(self, folder: str, function: ServiceFunction) -> cloudwatch.Alarm:
        """Return the alarm for invocations that end without a response.

        Causes are import errors, timeouts and exhausted memory.
        """
        metric = cloudwatch.Metric(
            namespace="AWS/Lambda",
            metric_name="Errors",
            # Lambda emits metrics with these three dimensions only while an alias routes to two versions.
            dimensions_map={
                "FunctionName": function.function.function_name,
                "Resource": f"{function.function.function_name}:{LIVE}",
                "ExecutedVersion": function.function.current_version.version,
            },
            statistic="Sum",
            period=Duration.minutes(1),
        )
        return self._alarm(folder, function, "crashes", "did not respond to a request", metric)

    def _unhandled_errors(self, folder: str, function: ServiceFunction) -> cloudwatch.Alarm:
        """Return the alarm for 500 responses. Lambda does not count such responses as errors. The alarm therefore
        counts the log lines that shared/web/http.py writes for them. Each line names the function's version.
        """
        failed = logs.MetricFilter(
            self,
            f"{folder.capitalize()}UnhandledErrors",
            log_group=function.log_group,
            filter_pattern=logs.FilterPattern.string_value("$.message", "=", "unhandled error"),
            metric_namespace=self._settings.stack_name("Api"),
            metric_name="UnhandledErrors",
            metric_value="1",
            dimensions={"service": "$.service", "version": "$.function_version"},
        )
        version = {"service": folder, "version": function.function.current_version.version}
        metric = failed.metric(statistic="Sum", period=Duration.minutes(1), dimensions_map=version)
        return self._alarm(folder, function, "fails", "responded to a request with 500", metric)

    def _alarm(
        self, folder: str, function: ServiceFunction, kind: str, what: str, metric: cloudwatch.IMetric
    ) -> cloudwatch.Alarm:
        version = function.function.current_version.version
        return cloudwatch.Alarm(
            self,
            f"{folder.capitalize()}{kind.capitalize()}Alarm",
            # The name contains the version, so that each version gets a new alarm. A reused alarm would keep its state
            # until the next evaluation, and CodeDeploy does not start while an alarm is active.
            alarm_name=f"{self._settings.env} version {version} of {folder} {kind}",
            alarm_description=f"The version of '{folder}' that is being deployed {what}. CodeDeploy returns all "
            f"requests to the previous version. {RUNBOOK}",
            metric=metric,
            # One failure is enough, because crashes and unhandled errors are bugs. A deployment that was rolled back
            # needlessly can be repeated.
            threshold=1,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            # The metric has no data if there are no failures, or if the version is not being deployed.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
