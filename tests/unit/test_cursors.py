"""Tests that cursors are opaque, unforgeable, short-lived, and valid only for their query."""

import base64
import hashlib
import string
from typing import Any

import boto3
import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from local.testbed.harness import NOW, Clock
from shared.aws.lean.client import Client, ErrorResponse, ResponseLost
from shared.aws.secrets import REQUEST_ATTEMPTS, secret_reader
from shared.core.deadline import LONGEST_ATTEMPT, limit_time
from shared.core.errors import InvalidCursor, Unavailable
from shared.core.position import Position
from shared.web.cursors import LIFETIME_SECONDS, LONGEST, Cursors

CURSORS = Cursors(lambda: "secret")
POSITION = Position(1_700_000_000, "3f2504e0-4f89-41d3-9a0c-0305e82c3301")
SEALED = CURSORS.seal("q", POSITION, NOW)


@given(st.text(), st.integers(0, 253402300799), st.uuids())
def test_cursor_round_trip_returns_its_position(query: str, at: int, video_id: object) -> None:
    position = Position(at, str(video_id))
    cursor = CURSORS.seal(query, position, NOW)
    assert CURSORS.open(query, cursor, NOW) == position
    assert len(cursor) < LONGEST


def test_cursor_of_another_query_is_refused() -> None:
    cursor = CURSORS.seal("category=a", POSITION, NOW)
    with pytest.raises(InvalidCursor, match="another query"):
        CURSORS.open("category=b", cursor, NOW)


def test_cursor_is_valid_for_a_day() -> None:
    cursor = CURSORS.seal("q", POSITION, NOW)
    assert CURSORS.open("q", cursor, NOW + LIFETIME_SECONDS) == POSITION
    with pytest.raises(InvalidCursor, match="expired"):
        CURSORS.open("q", cursor, NOW + LIFETIME_SECONDS + 1)


@given(st.data())
def test_cursor_with_any_character_changed_is_refused(data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(SEALED) - 1))
    other = data.draw(st.sampled_from("ABCabc019-_").filter(lambda letter: letter != SEALED[index]))
    with pytest.raises(InvalidCursor):
        CURSORS.open("q", SEALED[:index] + other + SEALED[index + 1 :], NOW)


@pytest.mark.parametrize("junk", ["x", "null", "é", "a b", "a=" * 3, "A" * LONGEST, "A" * (LONGEST + 1), "gAAAAA"])
def test_malformed_cursor_is_refused(junk: str) -> None:
    with pytest.raises(InvalidCursor):
        CURSORS.open("q", junk, NOW)


def test_cursor_of_another_deployment_is_refused() -> None:
    cursor = Cursors(lambda: "another secret").seal("q", POSITION, NOW)
    with pytest.raises(InvalidCursor):
        CURSORS.open("q", cursor, NOW)


def test_cursor_of_an_earlier_release_is_refused() -> None:
    """Test a cursor of earlier releases: a Fernet token, with a key derived from the same secret."""
    key = base64.urlsafe_b64encode(hashlib.sha256(b"secret").digest())
    cursor = Fernet(key).encrypt_at_time(b'["digest",1700000000,"id"]', NOW).decode().rstrip("=")
    with pytest.raises(InvalidCursor, match="Start again from the first page"):
        CURSORS.open("q", cursor, NOW)


def test_position_has_only_one_accepted_spelling() -> None:
    """Test that a client can detect a repeated page by comparing cursors."""
    cursor = CURSORS.seal("q", POSITION, NOW)
    assert len(cursor) % 4 == 2  # the last letter has four unused bits
    letters = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
    spare = letters.index(cursor[-1])
    others = [cursor[:-1] + letters[spare + more] for more in range(1, 16)]
    for other in (*others, cursor + "=", cursor + "==", cursor + "\n", f" {cursor}"):
        with pytest.raises(InvalidCursor):
            CURSORS.open("q", other, NOW)


def test_cursor_length_reveals_little_of_its_position() -> None:
    lengths = {len(CURSORS.seal("q", Position(10**digits, POSITION.id), NOW)) for digits in range(12)}
    assert len(lengths) <= 2


def test_cursor_does_not_contain_its_position_in_plain_text() -> None:
    cursor = CURSORS.seal("q", POSITION, NOW)
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    assert POSITION.id.encode() not in raw
    assert str(POSITION.at).encode() not in raw


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalServiceError", "ResourceNotFoundException"])
def test_unreadable_secret_is_503(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ErrorResponse(400, {"__type": code})

    monkeypatch.delenv("DYNAMODB_CLIENT", raising=False)
    monkeypatch.setattr(Client, "begin", fail)
    with pytest.raises(Unavailable):
        Cursors(secret_reader("arn", sleep=lambda _: None)).seal("q", POSITION, NOW)


def test_secret_read_is_retried_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, attempts = Clock(), 0

    def slow(*_: Any, **__: Any) -> Any:
        nonlocal attempts
        attempts += 1
        clock.advance(LONGEST_ATTEMPT)
        raise ResponseLost

    monkeypatch.delenv("DYNAMODB_CLIENT", raising=False)
    monkeypatch.setattr(Client, "begin", slow)
    read = secret_reader("arn", sleep=clock.advance)
    for seconds, expected in (
        (LONGEST_ATTEMPT, 1),
        (2 * LONGEST_ATTEMPT, 1),
        (2 * LONGEST_ATTEMPT + 1, 2),
        (99, REQUEST_ATTEMPTS),
    ):
        attempts, begun = 0, clock.now
        with limit_time(seconds, clock), pytest.raises(Unavailable):
            read()
        assert attempts == expected
        assert clock.now - begun <= seconds


def test_cursor_secret_is_read_from_secrets_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test boto3's client, which reads the secret from moto. tests/unit/test_client.py compares the lean client with
    boto3."""
    monkeypatch.setenv("DYNAMODB_CLIENT", "boto3")
    with mock_aws():
        arn = boto3.client("secretsmanager").create_secret(Name="cursors", SecretString="kept")["ARN"]
        cursor = Cursors(secret_reader(arn)).seal("q", POSITION, NOW)
    assert Cursors(lambda: "kept").open("q", cursor, NOW) == POSITION


def test_secret_is_read_once_when_first_needed() -> None:
    reads = []

    def read() -> str:
        reads.append(1)
        return "secret"

    cursors = Cursors(read)
    assert reads == []
    cursors.open("q", cursors.seal("q", POSITION, NOW), NOW)
    assert reads == [1]
