"""moto, with what it does again and again for nothing done once, or not at all.

Three quarters of the unit tests' time were moto's. Each replacement here answers as the original does, which
tests/unit/test_lean_moto.py holds it to.
"""

import base64
import copy
import json
import pickle
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from functools import cache
from inspect import signature
from typing import Any

import orjson
import pytest
from botocore.client import BaseClient
from botocore.utils import merge_dicts
from moto import backend_index
from moto.core import responses
from moto.core.base_backend import AccountSpecificBackend, BaseBackend
from moto.core.botocore_stubber import BotocoreStubber
from moto.core.models import DEFAULT_ACCOUNT_ID, botocore_stubber
from moto.core.serialize import AttributePicker, BaseJSONSerializer
from moto.core.utils import method_names_from_class
from moto.dynamodb import responses as dynamodb_responses
from moto.dynamodb.comparisons import ConditionExpressionParser
from moto.dynamodb.exceptions import ItemSizeTooLarge
from moto.dynamodb.models import DynamoDBBackend, dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType, Item, LimitedSizeDict, deserializer, serializer
from moto.dynamodb.models.table import Table
from moto.dynamodb.models.utilities import bytesize, find_nested_key
from moto.dynamodb.parsing import ast_nodes, expressions
from moto.dynamodb.parsing.executors import UpdateExpressionExecutor
from moto.dynamodb.parsing.validators import (
    ActionCountValidator,
    OverlappingPathsValidator,
    UpdateHashRangeKeyValidator,
    Validator,
)
from moto.dynamodb.responses import DynamoHandler
from moto.dynamodbstreams.models import dynamodbstreams_backends
from werkzeug.exceptions import HTTPException

from shared.aws.boto3_client import _PlainParserFactory
from shared.aws.client import Refused
from shared.aws.dynamodb import OPERATIONS
from tests.wire import WholeClient, raised

SERVICES = frozenset({"cloudformation", "dynamodb", "dynamodbstreams", "s3", "secretsmanager", "sqs", "ssm", "sts"})
"""All that the tests talk to. moto knows some 190, and tries the patterns of all of them for each request."""

LARGEST_ITEM = 405_000
"""Bytes, as moto has it."""

CONDITION = ("condition_expression", "expression_attribute_names", "expression_attribute_values")
"""What a condition is made of."""

_turn = threading.RLock()


def install(patch: pytest.MonkeyPatch) -> None:
    """Replace what is dear for as long as the patch lasts."""
    _answer_one_at_a_time(patch)
    _leave_out_the_wire(patch)
    _know_few_services(patch)
    _remember_what_never_changes(patch)
    _back_up_items_alone(patch)
    _pass_values_through(patch)
    _walk_expressions_quickly(patch)
    _check_an_update_once(patch)
    _split_conditions_once(patch)
    _look_at_values_once(patch)
    _look_in_one_partition(patch)
    _project_once(patch)
    _add_up_sizes_once(patch)
    _copy_what_can_change(patch)
    _parse_a_condition_once(patch)
    _convert_answers_by_their_types(patch)


def stored_tables() -> bytes:
    """All tables of the account, for `put_back`: creating ours again takes longer than many tests."""
    return pickle.dumps(dict(dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].tables))


def put_back(tables: bytes) -> None:
    """Put copies of the tables into the account."""
    dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].tables.update(pickle.loads(tables))  # noqa: S301 -- made here


def _answer_one_at_a_time(patch: pytest.MonkeyPatch) -> None:
    """Let no other thread change a table in the middle of a transaction."""
    process = BotocoreStubber.process_request

    def in_turn(stubber: BotocoreStubber, request: Any) -> Any:
        with _turn:
            return process(stubber, request)

    patch.setattr(BotocoreStubber, "process_request", in_turn)


def _leave_out_the_wire(patch: pytest.MonkeyPatch) -> None:
    """Hand what our own client asks of an item straight to moto: no signature, no HTTP, no shapes.

    Other clients go the whole way, which is what ours is compared with, and so do requests that a test intercepts. The
    stream's records, which tests ask for all the time, are handed over as well.
    """
    send = vars(BaseClient)["_make_request"]

    def hand_over(client: Any, operation: Any, request: Any, context: Any) -> Any:
        action = OPERATIONS.get(operation.name)
        parsers = client._endpoint._response_parser_factory
        if operation.name == "GetRecords" and not _is_intercepted(client, operation.name):
            return _Sent(200), _records(client.meta.region_name, json.loads(request["body"]))
        if action is None or type(parsers) is not _PlainParserFactory or _is_intercepted(client, operation.name):
            return send(client, operation, request, context)
        status, body = _answer(action, client.meta.region_name, request)
        metadata = {"HTTPStatusCode": status, "HTTPHeaders": {}, "RequestId": "moto"}
        if status == 200:
            return _Sent(status), body | {"ResponseMetadata": metadata}
        answer = {"status_code": status, "headers": {}, "body": body}
        parser = parsers.create_parser("json")
        parsed = parser.parse(answer, operation.output_shape)
        client._endpoint._add_modeled_error_fields(answer, parsed, operation, parser)
        return _Sent(status), parsed

    patch.setattr(BaseClient, "_make_request", hand_over)


class MotoClient(WholeClient):
    """Our client, with moto at the other end of the wire."""

    def begin(self, operation: str, **parameters: Any) -> Callable[[], Any]:
        """Carry the operation out at once; the answer is kept."""
        request = {"body": orjson.dumps(parameters, default=_base64), "headers": {}}
        status, answer = _answer(OPERATIONS[operation], "us-east-1", request)
        return lambda: answer if status == 200 else raised(Refused(status, json.loads(answer)))


def _is_intercepted(client: Any, operation: str) -> bool:
    """Whether anything but moto would answer in DynamoDB's place."""
    service = client.meta.service_model.service_id.hyphenize()
    handlers = client.meta.events._emitter._handlers.prefix_search(f"before-send.{service}.{operation}")
    return not botocore_stubber.enabled or any(handler is not botocore_stubber for handler in handlers)


@dataclass(frozen=True)
class _Sent:
    status_code: int


def _answer(action: str, region: str, request: Any) -> tuple[int, Any]:
    """The status, and what our parser makes of the body; of an error the body itself."""
    text = request["body"]
    handler = DynamoHandler()
    handler.region, handler.current_account, handler.headers = region, DEFAULT_ACCOUNT_ID, request["headers"]
    handler.body = handler.params = json.loads(text, object_hook=_bytes) if b'"B' in text else orjson.loads(text)
    try:
        with _turn:
            result = getattr(handler, action)().result
    except HTTPException as error:
        return int(error.code or 500), str(error.description).encode()
    result.pop("ConsumedCapacityUnits", None)  # which DynamoDB's answers do not have
    return 200, orjson.loads(orjson.dumps(result, default=_base64))


def _records(region: str, query: dict[str, Any]) -> dict[str, Any]:
    """What boto3 makes of the stream's records."""
    with _turn:
        page = dynamodbstreams_backends[DEFAULT_ACCOUNT_ID][region].get_records(
            query["ShardIterator"], query.get("Limit", 1000)
        )
    return {
        "NextShardIterator": page["NextShardIterator"],
        "Records": _as_read(page["Records"]),
        "ResponseMetadata": {"HTTPStatusCode": 200, "HTTPHeaders": {}, "RequestId": "moto"},
    }


def stream_records(table: str, start: int) -> list[dict[str, Any]]:
    """What boto3 makes of the records of a table's stream from a place on, counted from 0, without asking for them: three
    requests for a few records take longer than most writes.
    """
    with _turn:
        shard = dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].tables[table].stream_shard
        return _as_read([record.to_json() for record in shard.items[start:]]) if shard else []


def _as_read(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record | {"dynamodb": _change(record["dynamodb"])} for record in records]


def _change(record: dict[str, Any]) -> dict[str, Any]:
    images = {
        part: {name: _on_the_wire(value) for name, value in record[part].items()}
        for part in ("Keys", "OldImage", "NewImage")
        if part in record
    }
    # Through JSON, as a test may change what it is given.
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


def _know_few_services(patch: pytest.MonkeyPatch) -> None:
    known = [(service, pattern) for service, pattern in backend_index.backend_url_patterns if service in SERVICES]
    patch.setattr(backend_index, "backend_url_patterns", known)


def _remember_what_never_changes(patch: pytest.MonkeyPatch) -> None:
    """The regions of a service, the addresses of a backend and its methods."""
    generate, urls = AccountSpecificBackend._generate_regions.__wrapped__, vars(BaseBackend)["urls"].fget

    @cache
    def regions(service: str) -> list[str]:
        return list(generate(AccountSpecificBackend, service))

    addresses: dict[type, Any] = {}

    def known_addresses(backend: BaseBackend) -> Any:
        if type(backend) not in addresses:
            addresses[type(backend)] = urls(backend)
        return addresses[type(backend)]

    patch.setattr(AccountSpecificBackend, "_generate_regions", lambda _, service: regions(service))
    patch.setattr(BaseBackend, "urls", property(known_addresses))
    patch.setattr(responses, "method_names_from_class", cache(method_names_from_class))


def _back_up_items_alone(patch: pytest.MonkeyPatch) -> None:
    """Replace items instead of changing them, so that the copy of a table which each transaction begins with is shallow."""
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


def _pass_values_through(patch: pytest.MonkeyPatch) -> None:
    """Write attribute values as they are: the original looks for each of ten types in each value, under many names."""
    serialize = BaseJSONSerializer._serialize_type_structure

    def serialize_structure(serializer: Any, serialized: Any, value: Any, shape: Any, key: str) -> None:
        if shape.name == "AttributeValue" and key and value is not None:
            serialized[key] = _on_the_wire(value)
        else:
            serialize(serializer, serialized, value, shape, key)

    pick = AttributePicker.__call__

    def pick_what_is_there(picker: AttributePicker, context: Any) -> Any:
        members = context.obj
        if type(members) is dict and context.key in members and not picker.response_transformers:
            return members[context.key]
        return pick(picker, context)

    patch.setattr(BaseJSONSerializer, "_serialize_type_structure", serialize_structure)
    patch.setattr(AttributePicker, "__call__", pick_what_is_there)


def _on_the_wire(value: Any) -> Any:
    if isinstance(value, DynamoType):
        value = value.to_regular_json()
    ((kind, content),) = value.items()
    if kind == "M":
        return {kind: {name: _on_the_wire(member) for name, member in content.items()}}
    if kind == "L":
        return {kind: [_on_the_wire(member) for member in content]}
    if kind == "B":
        return {kind: _base64(content)}
    if kind == "BS":
        return {kind: [_base64(member) for member in content]}
    return {kind: content}


def _base64(content: str | bytes) -> str:
    return base64.b64encode(content.encode() if isinstance(content, str) else content).decode()


def _walk_expressions_quickly(patch: pytest.MonkeyPatch) -> None:
    """Parse an expression once, and copy and look through the tree that it is without asking each node what it may be."""

    node_type = vars(ast_nodes)["Node"]  # a module without types

    kinds: dict[type, bool] = {}

    def is_node(value: Any) -> bool:
        """As isinstance, which takes its time with abstract classes."""
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
        """As what a step of moto's has something to do at nodes of a kind; None: nothing."""
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


def _check_an_update_once(patch: pytest.MonkeyPatch) -> None:
    """Do not check again what an update says by itself, whatever the values and the item are."""
    build, alone = Validator.__init__, (ActionCountValidator, OverlappingPathsValidator, UpdateHashRangeKeyValidator)
    good: dict[Any, Any] = {}

    def keep_expression(validator: Validator, expression: Any, *arguments: Any, **options: Any) -> None:
        build(validator, expression, *arguments, **options)
        vars(validator)["expression"] = expression

    def validate(validator: Validator) -> Any:
        expression, names = vars(validator)["expression"], validator.expression_attribute_names or {}
        said = id(expression), frozenset(names.items()), tuple(validator.table.table_key_attrs)
        node = validator.node_to_validate
        for processor in validator.processors:
            if not isinstance(processor, alone):
                # They come first: all of them found nothing.
                good[said] = expression  # kept, so that no other gets its id
            elif said in good:
                continue
            node = processor.traverse(node)
        return node

    patch.setattr(Validator, "__init__", keep_expression)
    patch.setattr(Validator, "validate", validate)


def _split_conditions_once(patch: pytest.MonkeyPatch) -> None:
    """Split each text of a condition into its parts, which are tuples, once."""
    split = ConditionExpressionParser._lex_condition_expression

    @cache
    def parts(text: str) -> tuple[Any, ...]:
        return tuple(split(ConditionExpressionParser(text, None, None)))

    patch.setattr(
        ConditionExpressionParser, "_lex_condition_expression", lambda parser: deque(parts(parser.condition_expression))
    )


def _look_at_values_once(patch: pytest.MonkeyPatch) -> None:
    """Make, compare, measure and write out values by their types, without asking seven times what each is."""
    make, size, every_item = DynamoType.__init__, DynamoType.size, Table.all_items
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
    patch.setattr(Table, "all_items", all_items)


def _look_in_one_partition(patch: pytest.MonkeyPatch) -> None:
    """Query the items of one partition: the original sorts all of the table, and then leaves out the other partitions."""
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


def _project_once(patch: pytest.MonkeyPatch) -> None:
    """Convert the attributes that are asked for: the original converts the whole item again for each of them."""

    def project(item: Item, paths: list[list[str]]) -> Item:
        result: dict[str, Any] = {}
        for path in paths:
            names = {path[0], path[0].partition("[")[0]} & item.attrs.keys()
            part = {name: deserializer.deserialize(item.attrs[name].to_regular_json()) for name in names}
            merge_dicts(result, find_nested_key(path, part))
        return Item(item.hash_key, item.range_key, dict(serializer.serialize(result)["M"]))

    patch.setattr(Item, "project", project)


def _add_up_sizes_once(patch: pytest.MonkeyPatch) -> None:
    """Look how large an item is when all of it is there: the original does after each attribute."""

    def make(item: Item, hash_key: DynamoType, range_key: DynamoType | None, attrs: dict[str, Any]) -> None:
        item.hash_key, item.range_key = hash_key, range_key
        item.attrs = LimitedSizeDict()
        dict.update(item.attrs, {name: DynamoType(value) for name, value in attrs.items()})
        if item.size() > LARGEST_ITEM:
            raise ItemSizeTooLarge

    execute = UpdateExpressionExecutor.execute

    def execute_whole(executor: UpdateExpressionExecutor, node: Any = None) -> None:
        attributes = executor.item.attrs
        before = dict(attributes) if node is None else {}
        execute(executor, node)
        if node is None and executor.item.size() > LARGEST_ITEM:
            attributes.clear()
            dict.update(attributes, before)
            raise ItemSizeTooLarge

    patch.setattr(Item, "__init__", make)
    patch.setattr(UpdateExpressionExecutor, "execute", execute_whole)
    patch.setattr(LimitedSizeDict, "__setitem__", dict.__setitem__)


def _copy_what_can_change(patch: pytest.MonkeyPatch) -> None:
    """Copy maps, lists and sets, which updates change; all other values are only ever replaced."""

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


def _parse_a_condition_once(patch: pytest.MonkeyPatch) -> None:
    """Parse the condition of a write once: the original does to check it, and again to carry it out."""
    parse = ConditionExpressionParser.parse
    last: list[ConditionExpressionParser] = []

    def parse_once(parser: ConditionExpressionParser) -> Any:
        said = vars(parser)
        for known in last:
            if all(vars(known)[name] is said[name] for name in CONDITION):
                said["expr_attr_names_found"] = list(known.expr_attr_names_found)
                said["expr_attr_values_found"] = list(known.expr_attr_values_found)
                return vars(known)["parsed"]
        said["parsed"] = parsed = parse(parser)
        last[:] = [parser]
        return parsed

    patch.setattr(ConditionExpressionParser, "parse", parse_once)


def _convert_answers_by_their_types(patch: pytest.MonkeyPatch) -> None:
    """Convert texts, maps and lists, as nearly all of an answer are, without asking first what else they may be."""
    convert = vars(dynamodb_responses)["dynamo_to_dict"]

    def converted(value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return value
        if kind in (dict, LimitedSizeDict):  # the second holds an item's attributes
            return {name: converted(member) for name, member in value.items()}
        if kind is list:
            return [converted(member) for member in value]
        if kind is DynamoType and value.type not in ("B", "BS"):
            return {value.type: converted(value.value)}
        return convert(value)

    patch.setattr(dynamodb_responses, "dynamo_to_dict", converted)
