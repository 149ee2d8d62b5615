"""moto, with what it does again and again for nothing done once, or not at all.

Three quarters of the unit tests' time were moto's. Each replacement here answers as the original does, which
tests/unit/test_lean_moto.py holds it to.
"""

import base64
import copy
import pickle
import threading
from collections import defaultdict
from functools import cache
from typing import Any

import pytest
from botocore.utils import merge_dicts
from moto import backend_index
from moto.core import responses
from moto.core.base_backend import AccountSpecificBackend, BaseBackend
from moto.core.botocore_stubber import BotocoreStubber
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.core.serialize import AttributePicker, BaseJSONSerializer
from moto.core.utils import method_names_from_class
from moto.dynamodb.exceptions import ItemSizeTooLarge
from moto.dynamodb.models import DynamoDBBackend, dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType, Item, LimitedSizeDict, deserializer, serializer
from moto.dynamodb.models.table import Table
from moto.dynamodb.models.utilities import find_nested_key

SERVICES = frozenset({"cloudformation", "dynamodb", "dynamodbstreams", "s3", "secretsmanager", "sqs", "ssm", "sts"})
"""All that the tests talk to. moto knows some 190, and tries the patterns of all of them for each request."""

LARGEST_ITEM = 405_000
"""Bytes, as moto has it."""


def install(patch: pytest.MonkeyPatch) -> None:
    """Replace what is dear for as long as the patch lasts."""
    _answer_one_at_a_time(patch)
    _know_few_services(patch)
    _remember_what_never_changes(patch)
    _back_up_items_alone(patch)
    _pass_values_through(patch)
    _project_once(patch)
    _add_up_sizes_once(patch)


def stored_tables() -> bytes:
    """All tables of the account, for `put_back`: creating ours again takes longer than many tests."""
    return pickle.dumps(dict(dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].tables))


def put_back(tables: bytes) -> None:
    """Put copies of the tables into the account."""
    dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].tables.update(pickle.loads(tables))  # noqa: S301 -- made here


def _answer_one_at_a_time(patch: pytest.MonkeyPatch) -> None:
    """Let no other thread change a table in the middle of a transaction."""
    turn, process = threading.RLock(), BotocoreStubber.process_request

    def in_turn(stubber: BotocoreStubber, request: Any) -> Any:
        with turn:
            return process(stubber, request)

    patch.setattr(BotocoreStubber, "process_request", in_turn)


def _know_few_services(patch: pytest.MonkeyPatch) -> None:
    known = [(service, pattern) for service, pattern in backend_index.backend_url_patterns if service in SERVICES]
    patch.setattr(backend_index, "backend_url_patterns", known)


def _remember_what_never_changes(patch: pytest.MonkeyPatch) -> None:
    """The regions of a service, the addresses of a backend, its methods, the nodes that a step of a parser looks at."""
    generate, urls = AccountSpecificBackend._generate_regions.__wrapped__, vars(BaseBackend)["urls"].fget

    @cache
    def regions(service: str) -> list[str]:
        return list(generate(AccountSpecificBackend, service))

    addresses: dict[type, Any] = {}

    def known_addresses(backend: BaseBackend) -> Any:
        if type(backend) not in addresses:
            addresses[type(backend)] = urls(backend)
        return addresses[type(backend)]

    def known_nodes(traverser: Any) -> Any:
        if "nodes" not in vars(traverser):
            traverser.nodes = tuple(traverser._processing_map())
        return traverser.nodes

    patch.setattr(AccountSpecificBackend, "_generate_regions", lambda _, service: regions(service))
    patch.setattr(BaseBackend, "urls", property(known_addresses))
    patch.setattr("moto.dynamodb.parsing.ast_nodes.DepthFirstTraverser.nodes_to_be_processed", known_nodes)
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

    patch.setattr(Item, "__init__", make)
