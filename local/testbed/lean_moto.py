"""DynamoDB client for tests over moto, with patches that make moto faster.

Without the patches, most store tests need 3.7 times the CPU time. The docstrings of the largest patches state how much
more CPU time these tests use without the patch. tests/unit/test_lean_moto.py compares every patch with the original.
"""

import base64
import copy
import json
import pickle
import threading
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC
from functools import cache
from inspect import signature
from typing import Any

import orjson
import pytest
from moto.core import models
from moto.core.botocore_stubber import BotocoreStubber
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.comparisons import AttributeValue, ConditionExpressionParser
from moto.dynamodb.models import DynamoDBBackend, dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType, Item, LimitedSizeDict
from moto.dynamodb.models.table import Table
from moto.dynamodb.models.utilities import bytesize
from moto.dynamodb.parsing import ast_nodes, expressions
from moto.dynamodb.responses import DynamoHandler
from moto.s3 import urls as s3_urls
from moto.s3.exceptions import NoSuchUpload
from moto.s3.models import S3Backend, s3_backends
from werkzeug.exceptions import HTTPException

from local.testbed.wire import WholeClient, raised
from shared.aws.dynamodb import OPERATIONS
from shared.aws.lean.client import ErrorResponse

LARGEST_ITEM = 405_000
"""Maximum size of an item in moto, in bytes."""
_lock = threading.RLock()


def install(patch: pytest.MonkeyPatch) -> None:
    """Apply all patches with `patch`. Undoing `patch` removes them."""
    # moto also patches the library `requests`, which the service does not use. Its 1,288 mocks per test take 4 % of the
    # unit tests' CPU time.
    patch.setattr(models, "RESPONSES_METHODS", ())
    # moto would import the URLs of S3 again for each test, because variables of the environment could change them.
    patch.setattr(S3Backend, "_url_module", s3_urls)
    _serialise_requests(patch)
    _reject_unknown_uploads(patch)
    _back_up_shallowly(patch)
    _cache_expressions(patch)
    _cache_conditions(patch)
    _use_value_types(patch)
    _query_one_partition(patch)
    _copy_mutable_values(patch)


def stored_tables() -> bytes:
    """Return a serialised copy of all tables of the account. Restoring the copy with `restore_tables` is faster than
    creating the tables."""
    return pickle.dumps(dict(dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].tables))


def restore_tables(tables: bytes) -> None:
    """Restore the tables that `stored_tables` returned."""
    dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].tables.update(pickle.loads(tables))  # noqa: S301 -- made here


def create_buckets(*names: str) -> None:
    """Create buckets directly in moto. This is ten times as fast as by requests."""
    for name in names:
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].create_bucket(name, "us-east-1")


def _serialise_requests(patch: pytest.MonkeyPatch) -> None:
    """Execute one request at a time. Transactions are then atomic across threads. This patch saves no CPU time."""
    process = BotocoreStubber.process_request

    def locked(stubber: BotocoreStubber, request: Any) -> Any:
        with _lock:
            return process(stubber, request)

    patch.setattr(BotocoreStubber, "process_request", locked)


class MotoClient(WholeClient):
    """The service's DynamoDB client, but it calls moto in process instead of sending HTTP requests."""

    def begin(self, operation: str, **parameters: Any) -> Callable[[], Any]:
        """Execute the operation immediately. The returned function returns the response or raises the error."""
        request = {"body": orjson.dumps(parameters, default=_base64), "headers": {}}
        status, answer = _answer(OPERATIONS[operation], "us-east-1", request)
        return lambda: answer if status == 200 else raised(ErrorResponse(status, json.loads(answer)))

    def scan(self, **parameters: Any) -> Any:
        """Return a page of a table's items. boto3's client would take ten times as long. Only tests scan tables."""
        request = {"body": orjson.dumps(parameters, default=_base64), "headers": {}}
        status, answer = _answer("scan", "us-east-1", request)
        return answer if status == 200 else raised(ErrorResponse(status, json.loads(answer)))

    def get_paginator(self, name: str) -> Any:
        """Return boto3's paginator. The paginator of `scan` calls this client's method."""
        paginator = self._others.get_paginator(name)
        if name == "scan":
            paginator._method = self.scan
        return paginator


def _answer(action: str, region: str, request: Any) -> tuple[int, Any]:
    """Execute a request in moto. Returns the HTTP status, and the body: parsed after success, otherwise bytes."""
    text = request["body"]
    handler = DynamoHandler()
    handler.region, handler.current_account, handler.headers = region, DEFAULT_ACCOUNT_ID, request["headers"]
    handler.body = handler.params = json.loads(text, object_hook=_bytes) if b'"B' in text else orjson.loads(text)
    try:
        with _lock:
            result = getattr(handler, action)().result
    except HTTPException as error:
        return int(error.code or 500), str(error.description).encode()
    result.pop("ConsumedCapacityUnits", None)  # absent from DynamoDB's responses unless requested
    return 200, orjson.loads(orjson.dumps(result, default=_base64))


def stream_records(table: str, start: int) -> list[dict[str, Any]]:
    """Return the records of a table's stream, starting at the offset `start`, in boto3's format.

    The function reads moto's memory, because boto3's three requests take longer than most writes.
    """
    with _lock:
        shard = dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].tables[table].stream_shard
        records = [record.to_json() for record in shard.items[start:]] if shard else []
        return [record | {"dynamodb": _change(record["dynamodb"])} for record in records]


def _change(record: dict[str, Any]) -> dict[str, Any]:
    images = {
        part: {name: _wire_format(value) for name, value in record[part].items()}
        for part in ("Keys", "OldImage", "NewImage")
        if part in record
    }
    # Copied through JSON, because a test may change the records.
    text = orjson.dumps(images)
    parsed: dict[str, Any] = json.loads(text, object_hook=_bytes) if b'"B' in text else orjson.loads(text)
    at = record["ApproximateCreationDateTime"].replace(tzinfo=UTC)
    return record | parsed | {"ApproximateCreationDateTime": at}


def _bytes(members: dict[str, Any]) -> dict[str, Any]:
    match members:
        case {"B": str(content)}:
            return {"B": base64.b64decode(content)}
        case {"BS": [*contents]}:
            return {"BS": [base64.b64decode(content) for content in contents]}
    return members


def _back_up_shallowly(patch: pytest.MonkeyPatch) -> None:
    """Replace items instead of modifying them. A transaction can then back up a table by a shallow copy.

    Without this patch, tests use 110 % more CPU time.
    """
    update = DynamoDBBackend.update_item

    def update_copy(backend: DynamoDBBackend, table_name: str, key: Any, *arguments: Any, **options: Any) -> Item:
        table = backend.get_table(table_name)
        partition, sort = backend.get_keys_value(table, key)
        current = table.get_item(partition, sort)
        if current is not None:
            replaced = copy.deepcopy(current)
            if sort is None:
                table.items[partition] = replaced  # type: ignore[assignment]
            else:
                table.items[partition][sort] = replaced
        return update(backend, table_name, key, *arguments, **options)

    def shallow(table: Table, _: Any) -> Table:
        other = copy.copy(table)
        other.items = defaultdict(dict)
        other.items.update(
            {key: copy.copy(items) if table.has_range_key else items for key, items in table.items.items()}
        )
        if table.stream_shard is not None:
            other.stream_shard = copy.copy(table.stream_shard)
            other.stream_shard.table = other
            other.stream_shard.items = list(table.stream_shard.items)
        return other

    patch.setattr(DynamoDBBackend, "update_item", update_copy)
    patch.setattr(Table, "__deepcopy__", shallow, raising=False)


def _wire_format(value: Any) -> Any:
    if isinstance(value, DynamoType):
        value = value.to_regular_json()
    ((kind, content),) = value.items()
    if kind == "M":
        return {kind: {name: _wire_format(member) for name, member in content.items()}}
    if kind == "L":
        return {kind: [_wire_format(member) for member in content]}
    if kind == "B":
        return {kind: _base64(content)}
    if kind == "BS":
        return {kind: [_base64(member) for member in content]}
    return {kind: content}


def _base64(content: str | bytes) -> str:
    return base64.b64encode(content.encode() if isinstance(content, str) else content).decode()


def _cache_expressions(patch: pytest.MonkeyPatch) -> None:
    """Parse each expression only once, and walk and copy its tree without isinstance checks.

    Without this patch, tests use 30 % more CPU time.
    """

    node_type = vars(ast_nodes)["Node"]  # the module has no type annotations
    kinds: dict[type, bool] = {}

    def is_node(value: Any) -> bool:
        """Return whether a value is a syntax node. Results are cached by type, because isinstance is slow for abstract
        classes.
        """
        kind = type(value)
        if kind not in kinds:
            kinds[kind] = issubclass(kind, node_type)
        return kinds[kind]

    def copied(node: Any, _: Any = None) -> Any:
        other = object.__new__(type(node))
        other.type, other.parent = node.type, None
        other.children = None if node.children is None else []
        for child in node.children or ():
            other.children.append(copied(child) if is_node(child) else child)
            if other.children[-1] is not child:
                other.children[-1].parent = other
        return other

    traverser_type = vars(ast_nodes)["DepthFirstTraverser"]
    prepared_by_none = traverser_type.pre_processing_of_child
    concerns: dict[type, dict[type, type | None]] = defaultdict(dict)

    def concern(traverser: Any, kind: type) -> type | None:
        """Return the class, either `kind` or a base class of it, for which a traverser has a function. `None` if the
        traverser skips nodes of the class `kind`."""
        known = concerns[type(traverser)]
        if kind not in known:
            known[kind] = next((wanted for wanted in traverser._processing_map() if issubclass(kind, wanted)), None)
        return known[kind]

    def process(traverser: Any, node: Any) -> Any:
        wanted = concern(traverser, type(node))
        return traverser._processing_map()[wanted](node) if wanted else None

    def traverse(traverser: Any, node: Any, place: int = -1) -> Any:
        is_prepared = type(traverser).pre_processing_of_child is not prepared_by_none
        known = concerns[type(traverser)]

        def walk(node: Any, place: int) -> Any:
            parent = node.parent
            for position, child in enumerate(node.children or ()):
                if is_prepared:
                    traverser.pre_processing_of_child(node, position)
                if kinds.get(type(child)) or is_node(child):
                    walk(child, position)
            kind = type(node)
            if known[kind] if kind in known else concern(traverser, kind):
                node = process(traverser, node)
                node.parent = parent
                if parent:
                    parent.children[place] = node
            return node

        return walk(node, place)

    nesting = tuple(vars(ast_nodes)[name] for name in ("Expression", "UpdateExpressionFunction"))
    nests: dict[type, bool] = {}

    def find_clauses(node: Any, wanted: Any) -> list[Any]:
        clauses = []
        for child in node.children or ():
            kind = type(child)
            if kind not in nests:
                nests[kind] = issubclass(kind, nesting)
            if kind in wanted:
                clauses.append(child)
            elif nests[kind]:
                clauses += find_clauses(child, wanted)
        return clauses

    parser = vars(expressions)["UpdateExpressionParser"]
    patch.setattr(node_type, "find_clauses", find_clauses)
    patch.setattr(node_type, "__deepcopy__", copied, raising=False)
    patch.setattr(traverser_type, "traverse_node_recursively", traverse)
    patch.setattr(traverser_type, "process", process)
    patch.setattr(parser, "make", cache(parser.make))


def _use_value_types(patch: pytest.MonkeyPatch) -> None:
    """Replace moto's methods that create, compare, measure and serialise values by methods that are faster for common
    DynamoDB types.

    Without this patch and `_copy_mutable_values`, tests use 16 % more CPU time.
    """
    make, size, every_item = DynamoType.__init__, DynamoType.size, Table.all_items
    make_item_in_steps = Item.__init__
    cast, write_out = vars(DynamoType)["cast_value"].fget, DynamoType.to_regular_json

    def make_value(value: DynamoType, given: Any) -> None:
        if type(given) is DynamoType:
            kind, content = given.type, given.value
        elif type(given) is dict and len(given) == 1:
            ((kind, content),) = given.items()
        else:
            make(value, given)
            return
        if kind == "M":
            content = {name: DynamoType(member) for name, member in content.items()}
        elif kind == "L":
            content = [DynamoType(member) for member in content]
        value.type, value.value = kind, content

    def cast_value(value: DynamoType) -> Any:
        return value.value if value.type == "S" else cast(value)

    def size_of(value: DynamoType) -> int:
        kind, content = value.type, value.value
        if kind == "S":
            return bytesize(content)
        if kind == "M":
            return sum(bytesize(name) + size_of(member) for name, member in content.items())
        return size(value)

    def regular(value: DynamoType) -> Any:
        kind, content = value.type, value.value
        if kind == "M":
            return {kind: {name: regular(member) for name, member in content.items()}}
        if kind == "L":
            return {kind: [regular(member) for member in content]}
        return {kind: content} if type(content) is str and kind != "B" else write_out(value)

    def item_size(item: Item) -> int:
        return sum(bytesize(name) + size_of(value) for name, value in item.attrs.items())

    def make_item(item: Item, hash_key: DynamoType, range_key: DynamoType | None, attrs: dict[str, Any]) -> None:
        # Measured once. moto measures the item again after each added attribute.
        item.hash_key, item.range_key, item.attrs = hash_key, range_key, LimitedSizeDict()
        dict.update(item.attrs, {name: DynamoType(value) for name, value in attrs.items()})
        if item_size(item) > LARGEST_ITEM:
            make_item_in_steps(item, hash_key, range_key, attrs)  # raises

    def all_items(table: Table) -> list[Item]:
        if not table.range_key_attr:
            return every_item(table)
        items = [item for partition in table.items.values() for item in partition.values()]
        return sorted(items, key=lambda item: (item.hash_key.cast_value, item.range_key.cast_value))

    patch.setattr(DynamoType, "cast_value", property(cast_value))
    patch.setattr(DynamoType, "__init__", make_value)
    patch.setattr(DynamoType, "size", size_of)
    patch.setattr(DynamoType, "to_regular_json", regular)
    patch.setattr(Item, "size", item_size)
    patch.setattr(Item, "__init__", make_item)
    patch.setattr(Table, "all_items", all_items)


def _query_one_partition(patch: pytest.MonkeyPatch) -> None:
    """Examine only the items of one partition in a query. Without this patch, moto sorts the whole table for each query."""
    query = Table.query
    given = signature(query)

    def query_partition(table: Table, *asked: Any, **named: Any) -> Any:
        details = given.bind(table, *asked, **named).arguments
        if details.get("index_name") or not table.range_key_attr:
            return query(table, *asked, **named)
        hash_key = details["hash_key"]
        partition = list(table.items[hash_key].values()) if hash_key in table.items else []
        vars(table)["all_items"] = lambda: partition
        try:
            return query(table, *asked, **named)
        finally:
            del vars(table)["all_items"]

    patch.setattr(Table, "query", query_partition)


def _copy_mutable_values(patch: pytest.MonkeyPatch) -> None:
    """Copy only maps, lists and sets, because updates modify these values in place. Updates replace values of all other
    types."""

    def copied(value: DynamoType, _: Any = None) -> DynamoType:
        kind = value.type
        if kind == "M":
            content: Any = {name: copied(member) for name, member in value.value.items()}
        elif kind == "L":
            content = [copied(member) for member in value.value]
        elif kind in ("SS", "NS", "BS"):
            content = list(value.value)
        else:
            return value
        other = object.__new__(DynamoType)
        other.type, other.value = kind, content
        return other

    def copy_item(item: Item, _: Any) -> Item:
        other = object.__new__(Item)
        other.hash_key, other.range_key = item.hash_key, item.range_key
        other.attrs = LimitedSizeDict()
        dict.update(other.attrs, {name: copied(value) for name, value in item.attrs.items()})
        return other

    patch.setattr(DynamoType, "__deepcopy__", copied)
    patch.setattr(Item, "__deepcopy__", copy_item)


class _TreeParser(ConditionExpressionParser):
    """Condition parser that returns the syntax tree instead of an executable condition."""

    def _make_op_condition(self, node: Any) -> Any:
        return node


def _cache_conditions(patch: pytest.MonkeyPatch) -> None:
    """Cache parsed conditions by text, attribute names, and types of the values. Each request inserts its own values into
    the cached condition.

    Without this patch, tests use 25 % more CPU time.
    """
    parse, operand_of = ConditionExpressionParser.parse, ConditionExpressionParser._make_operand
    known: dict[Any, tuple[Any, list[str], list[str]]] = {}

    def parse_once(parser: ConditionExpressionParser) -> Any:
        text = parser.condition_expression
        if not text:
            return parse(parser)
        names, values = parser.expression_attribute_names, parser.expression_attribute_values
        kinds = tuple((name, *value) for name, value in (values or {}).items())
        key = (text, tuple((names or {}).items()), kinds)
        if key not in known:
            other = _TreeParser(text, names, values)
            known[key] = parse(other), other.expr_attr_names_found, other.expr_attr_values_found
        tree, names_found, values_found = known[key]
        parser.expr_attr_names_found.extend(names_found)
        parser.expr_attr_values_found.extend(values_found)
        return parser._make_op_condition(tree)

    def make_operand(parser: ConditionExpressionParser, node: Any) -> Any:
        if node.kind == parser.Kind.EXPRESSION_ATTRIBUTE_VALUE:
            return AttributeValue((parser.expression_attribute_values or {})[node.text])
        return operand_of(parser, node)

    patch.setattr(ConditionExpressionParser, "parse", parse_once)
    patch.setattr(ConditionExpressionParser, "_make_operand", make_operand)


def _reject_unknown_uploads(patch: pytest.MonkeyPatch) -> None:
    """Raise NoSuchUpload for an unknown upload, as S3 does. moto would raise KeyError."""
    whole = S3Backend.complete_multipart_upload

    def complete(backend: S3Backend, bucket_name: str, multipart_id: str, body: Any) -> Any:
        if multipart_id not in backend.get_bucket(bucket_name).multiparts:
            raise NoSuchUpload(upload_id=multipart_id)
        return whole(backend, bucket_name, multipart_id, body)

    patch.setattr(S3Backend, "complete_multipart_upload", complete)
