"""IAM evaluation: compares the statements of a synthesised role with the requests that its function sends.

It supports only features that this service's policies use, and raises an error for others, so that no statement is
misread. AWS documents the condition keys at
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from local.testbed.harness import MEDIA_BUCKET, SOURCES_BUCKET
from local.testbed.wire import intercept
from shared.archive_tables import RESULTS, workgroup_of
from shared.core.settings import LambdaHandler
from shared.schema import AUDIT_TABLE_NAME, PARTITION_KEY, TABLE_NAME
from tests.unit.infra.templates import Json, as_list, to_text

ARCHIVE_BUCKET, ANALYTICS_BUCKET = "archive", "analytics"

RESOURCES = {
    TABLE_NAME: "Table",
    AUDIT_TABLE_NAME: "AuditTable",
    SOURCES_BUCKET: "Sources",
    MEDIA_BUCKET: "Media",
    ARCHIVE_BUCKET: "Archive",
    ANALYTICS_BUCKET: "Analytics",
}
"""Logical names in the CDK app, by name of the table or bucket in the tests."""

OBJECT_ACTIONS = {
    "AbortMultipartUpload": "AbortMultipartUpload",
    "CompleteMultipartUpload": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "GetObject": "GetObject",
    "HeadObject": "GetObject",
    "ListParts": "ListMultipartUploadParts",
    "PutObject": "PutObject",
    "UploadPart": "PutObject",
}
"""IAM permission on an object, by S3 operation."""

WORDS = frozenset(
    {"ADD", "AND", "BETWEEN", "DELETE", "IN", "NOT", "OR", "REMOVE", "SET"}
    | {"attribute_exists", "attribute_not_exists", "begins_with", "if_not_exists", "contains", "size"}
)
"""Tokens of expressions other than placeholders."""

EXPRESSIONS = (
    "ConditionExpression",
    "FilterExpression",
    "KeyConditionExpression",
    "ProjectionExpression",
    "UpdateExpression",
)


@dataclass(frozen=True)
class Access:
    """Access to one resource, as IAM evaluates it. A transaction has one access per item."""

    action: str
    resource: str
    context: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Values of the condition keys in the request."""


def accesses(service: str, operation: str, parameters: Mapping[str, Any]) -> Iterator[Access]:
    """Yield each access for which a request needs permission."""
    if service == "s3":
        yield from _of_s3(operation, parameters)
    elif service == "athena":
        yield from _of_athena(operation, parameters)
    elif service != "dynamodb":
        raise NotImplementedError(service)
    elif operation == "TransactWriteItems":
        for part in parameters["TransactItems"]:
            ((kind, write),) = part.items()
            yield _on_item("ConditionCheckItem" if kind == "ConditionCheck" else f"{kind}Item", write)
    elif operation == "BatchGetItem":
        for name, request in parameters["RequestItems"].items():
            yield _on_items(operation, name, request["Keys"], request)
    elif operation == "BatchWriteItem":
        for name, writes in parameters["RequestItems"].items():
            keys = [write["DeleteRequest"]["Key"] for write in writes]
            yield _on_items(operation, name, keys, {})
    elif operation == "Query":
        yield _query(parameters)
    elif operation in ("DeleteItem", "GetItem", "PutItem", "UpdateItem"):
        yield _on_item(operation, parameters)
    else:
        raise NotImplementedError(f"{service}:{operation}")


def _on_item(action: str, request: Mapping[str, Any]) -> Access:
    item = request["Item"] if "Item" in request else request["Key"]
    return _on_items(action, request["TableName"], [item], request)


def _on_items(action: str, table: str, items: Sequence[Mapping[str, Any]], request: Mapping[str, Any]) -> Access:
    named = {name for item in items for name in item} | _named(request)
    context = {
        "dynamodb:LeadingKeys": frozenset(item[PARTITION_KEY]["S"] for item in items),
        "dynamodb:Attributes": frozenset(named),
    }
    if "ReturnValues" in request:
        context["dynamodb:ReturnValues"] = frozenset({request["ReturnValues"]})
    return Access(f"dynamodb:{action}", RESOURCES[table], context | _selection(action, request))


def _query(request: Mapping[str, Any]) -> Access:
    index = request.get("IndexName")
    names, values = request["ExpressionAttributeNames"], request["ExpressionAttributeValues"]
    equal = re.findall(r"(#\w+) = (:\w+)", request["KeyConditionExpression"])
    leading = [next(iter(values[value].values())) for name, value in equal if index or names[name] == PARTITION_KEY]
    context = {
        "dynamodb:LeadingKeys": frozenset(str(value) for value in leading),
        "dynamodb:Attributes": frozenset(_named(request)),
    }
    resource = RESOURCES[request["TableName"]] + (f"/index/{index}" if index else "")
    return Access("dynamodb:Query", resource, context | _selection("Query", request))


def _selection(action: str, request: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    if action not in ("BatchGetItem", "GetItem", "Query"):
        return {}
    return {
        "dynamodb:Select": frozenset({"SPECIFIC_ATTRIBUTES" if "ProjectionExpression" in request else "ALL_ATTRIBUTES"})
    }


def _named(request: Mapping[str, Any]) -> set[str]:
    """Return the top-level attributes in a request's expressions."""
    named = set()
    for expression in EXPRESSIONS:
        text = re.sub(r":\w+", "", request.get(expression, ""))
        for word in re.findall(r"(?<![\w.#])#?\w+", text):
            if word.startswith("#"):
                named.add(request["ExpressionAttributeNames"][word])
            elif word not in WORDS:
                raise NotImplementedError(f"{word} in {expression}")
    return named


def _of_s3(operation: str, request: Mapping[str, Any]) -> Iterator[Access]:
    bucket = RESOURCES[request["Bucket"]]
    if operation == "ListObjectsV2":
        yield Access("s3:ListBucket", bucket, {"s3:prefix": frozenset({request.get("Prefix", "")})})
    elif operation == "DeleteObjects":
        for named in request["Delete"]["Objects"]:
            yield Access("s3:DeleteObject", f"{bucket}/{named['Key']}")
    else:
        yield Access(f"s3:{OBJECT_ACTIONS[operation]}", f"{bucket}/{request['Key']}")


def _of_athena(operation: str, request: Mapping[str, Any]) -> Iterator[Access]:
    """Yield the accesses of a request to Athena, which sends requests to Glue and S3 with the caller's permissions."""
    yield Access(f"athena:{operation}", f"athena:workgroup/{workgroup_of(TABLE_NAME)}")
    if operation == "StartQueryExecution":
        database = request["QueryExecutionContext"]["Database"]
        tables = re.findall(r"FROM (\w+)", request["QueryString"])
        described = ("catalog", f"database/{database}", *(f"table/{database}/{table}" for table in tables))
        for action in ("GetDatabase", "GetTable", "GetPartitions"):
            yield from (Access(f"glue:{action}", f"glue:{resource}") for resource in described)
        yield from (Access(f"s3:{action}", "Analytics") for action in ("GetBucketLocation", "ListBucket"))
        yield from (Access("s3:GetObject", f"Analytics/{table}/x") for table in tables)
        yield Access("s3:PutObject", f"Analytics/{RESULTS}x")
    elif operation == "GetQueryResults":
        yield Access("s3:GetObject", f"Analytics/{RESULTS}x")


@dataclass(frozen=True)
class IamRole:
    """Permissions of one function. A request that no statement allows is denied."""

    statements: Sequence[Json]

    def refusal(self, access: Access) -> str | None:
        """Return the reason why the role denies an access, or `None` if the role allows it."""
        about = [
            statement
            for statement in self.statements
            if access.action in as_list(statement["Action"])
            and any(fnmatchcase(access.resource, to_text(resource)) for resource in as_list(statement["Resource"]))
        ]
        if not about:
            return f"no statement allows {access.action} on {access.resource}"
        reasons = [_unmet(statement.get("Condition", {}), access.context) for statement in about]
        return None if None in reasons else f"{access.action} on {access.resource}: " + "; or ".join(map(str, reasons))


def _unmet(conditions: Mapping[str, Mapping[str, Any]], context: Mapping[str, frozenset[str]]) -> str | None:
    """Return a description of the first condition that a request does not meet, or `None`."""
    for operator, expectations in conditions.items():
        for key, expected in expectations.items():
            if not _holds(operator, [to_text(value) for value in as_list(expected)], context.get(key)):
                actual = sorted(context.get(key, ()))
                return f"{key} is {actual}, not {operator} {expected}"
    return None


def _holds(operator: str, expected: Sequence[str], actual: frozenset[str] | None) -> bool:
    """Return whether a condition holds for the values of its key in a request. The values are `None` if the request
    lacks the key."""
    if operator == "Null":
        return expected == ["false" if actual else "true"]
    if operator == "ForAllValues:StringLike":
        return all(any(fnmatchcase(value, pattern) for pattern in expected) for value in actual or ())
    if operator == "ForAllValues:StringEquals":
        return all(value in expected for value in actual or ())
    if operator == "StringEqualsIfExists":
        return actual is None or all(value in expected for value in actual)
    if operator == "StringLike":
        return bool(actual) and all(any(fnmatchcase(value, pattern) for pattern in expected) for value in actual or ())
    raise NotImplementedError(f"the condition operator {operator}")


class PolicyWatch:
    """Check of functions against their roles: it evaluates each request of a watched client with the role of the
    running function."""

    def __init__(self, roles: Mapping[str, IamRole]) -> None:
        self.roles = roles
        self.accesses: list[tuple[str, Access]] = []
        """Accesses in order, each with its function."""
        self.refused: list[str] = []
        self._running: str | None = None

    def wrap(self, function: str, handler: LambdaHandler) -> LambdaHandler:
        """Wrap a handler so that its requests are attributed to its function."""

        def watched(event: Any, context: Any) -> Any:
            with self._running_as(function):
                return handler(event, context)

        return watched

    def observe(self, *clients: Any) -> None:
        """Watch the requests and presigned URLs of these clients."""
        for client in clients:
            service = client.meta.service_model.service_name
            intercept(client, partial(self._sent, service))
            if service == "s3":
                self._watch_signing(client)

    def _watch_signing(self, client: Any) -> None:
        """Check each presigned URL against the role of the function that signs it, because S3 checks that role when the
        URL is used."""
        sign = client.generate_presigned_url

        def signed(method: str, Params: Mapping[str, Any], **options: Any) -> str:
            operation = client.meta.method_to_api_mapping[method]
            return str(self._sent("s3", operation, Params, lambda: sign(method, Params=Params, **options)))

        vars(client)["generate_presigned_url"] = signed

    def as_test(self) -> AbstractContextManager[None]:
        """Attribute requests within the context to the test, which may send any request."""
        return self._running_as(None)

    def check(self, access: Access) -> None:
        """Record an access of the running function, and whether its role denies the access."""
        if self._running is None:
            return
        self.accesses.append((self._running, access))
        reason = self.roles[self._running].refusal(access)
        if reason:
            self.refused.append(f"{self._running}: {reason}")

    @contextmanager
    def _running_as(self, function: str | None) -> Iterator[None]:
        before, self._running = self._running, function
        try:
            yield
        finally:
            self._running = before

    def _sent(self, service: str, operation: str, parameters: Mapping[str, Any], send: Callable[[], Any]) -> Any:
        if self._running is not None:  # otherwise, the test itself sends the request
            for access in accesses(service, operation, parameters):
                self.check(access)
        return send()
