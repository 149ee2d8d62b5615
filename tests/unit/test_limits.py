"""Tests of the simulation of DynamoDB's limits. It throttles requests above an item's throughput, and loses no accepted
write."""

from contextlib import nullcontext
from typing import Any

import pytest

from local.testbed.limits import SLOWEST, WRITES, SimulatedRun, Simulation
from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.core.errors import NotApplied

KEY = {"pk": "A#1", "sk": "COUNT"}
ONE_MORE = Expression.of("ADD #count :one", one=1)


def _counting(table: Table, _: int) -> None:
    table.write(table.update(KEY, ONE_MORE))


def _simulated(**options: Any) -> Simulation[Table]:
    # One attempt per call, so a throttled request is not retried.
    return Simulation(lambda table: Table(table.name, table.client, attempts=1), **options)


class TestLimits:
    @pytest.mark.slow
    def test_item_accepts_its_rate_and_the_unused_capacity_of_a_burst(self) -> None:
        simulation = _simulated(burst=0.5)
        run = simulation.run(1, 4 * WRITES, _counting)
        assert run.done == pytest.approx(1.5 * WRITES, rel=0.01)
        assert len(run.failed) == run.requests["throttled"] == run.calls - run.done
        assert {type(error) for error in run.failed} <= {NotApplied, *NotApplied.__subclasses__()}
        assert simulation.items.stored() == [KEY | {"count": run.done}]

    @pytest.mark.slow
    def test_items_have_separate_limits(self) -> None:
        def counting(table: Table, _: int) -> None:
            slot = next(slots)
            table.write(table.update(KEY | {"pk": f"A#{slot}"}, ONE_MORE))

        slots = iter(number % 4 for number in range(4 * WRITES))
        assert _simulated(burst=0.1).run(1, 4 * WRITES, counting).failed == []

    @pytest.mark.slow
    def test_pause_restores_at_most_a_burst(self) -> None:
        simulation = _simulated(burst=0.5)
        simulation.run(1, 2 * WRITES, _counting)
        simulation.rest(60)
        assert simulation.run(1, 2 * WRITES, _counting).done == pytest.approx(1.5 * WRITES, rel=0.01)

    def test_large_item_consumes_more_capacity(self) -> None:
        simulation = _simulated(burst=0.1)
        simulation.table.write(simulation.table.put(KEY | {"text": "x" * 3000}))
        assert simulation.run(1, WRITES, _counting).done == pytest.approx(WRITES / 3, rel=0.2)


class TestTime:
    def test_calls_begin_at_the_rate_and_end_with_their_responses(self) -> None:
        run = _simulated().run(10, 5, _counting)
        assert (run.done, 9.8 < run.seconds < 9.8 + SLOWEST) == (50, True)

    def test_calls_wait_for_a_writer(self) -> None:
        run = _simulated(writers=1).run(1, WRITES, _counting)
        assert run.done == WRITES
        assert run.seconds > 2

    @pytest.mark.slow
    def test_run_is_reproducible(self) -> None:
        def outcome() -> SimulatedRun:
            simulation = Simulation(lambda table: table, writers=8)  # retries with random waits
            return simulation.run(0.5, 4 * WRITES, _counting)

        one, other = outcome(), outcome()
        assert one.requests["throttled"] > 0
        assert (one.done, one.seconds, one.requests) == (other.done, other.seconds, other.requests)

    def test_error_of_the_simulated_work_is_raised(self) -> None:
        def failing(table: Table, _: int) -> None:
            raise LookupError

        with pytest.raises(LookupError):
            _simulated().run(1, 10, failing)


class TestExpressions:
    """Conditions and updates have the same meaning as in DynamoDB. Expressions that the stores do not use raise an
    error."""

    @pytest.mark.parametrize(
        ("condition", "is_met"),
        [
            (Expression.of("#n = :n", n=5), True),
            (Expression.of("#n < :n", n=5), False),
            (Expression.of("#n > :n", n=4) & Expression.of("attribute_exists(#pk)"), True),
            (Expression.of("attribute_not_exists(#x) AND attribute_not_exists(#n)"), False),
            (Expression.of("attribute_not_exists(#n) OR #n <= :n", n=10), True),
            (Expression.of("(attribute_not_exists(#n) OR #n > :m) AND #n <> :n", m=4, n=5), False),
            (Expression.of("#x < :n", n=5), False),
            (Expression.of("#b < :b", b=b"\x02"), True),
            (Expression.of("size(#s) < :n", n=2), False),
            (Expression.of("size(#x) < :n", n=2), False),
            (Expression.of("contains(#s, :s)", s="a"), True),
            (Expression.of("contains(#s, :s) OR contains(#x, :s)", s="c"), False),
        ],
    )
    def test_condition_is_evaluated_as_by_dynamodb(self, condition: Expression, is_met: bool) -> None:
        table, stored = _simulated().table, KEY | {"n": 5, "b": b"\x01", "s": {"a", "b"}}
        table.write(table.put(stored))
        with nullcontext() if is_met else pytest.raises(ConditionFailed) as failure:
            table.write(table.update(KEY, ONE_MORE, condition=condition))
        assert failure is None or failure.value.item == stored

    def test_update_reads_the_attributes_of_the_former_item(self) -> None:
        table = _simulated().table
        table.write(table.put(KEY | {"a": 1, "b": 2, "c": 3}))
        change = Expression.of("SET #a = #b + :one, #b = if_not_exists(#x, #a) REMOVE #c ADD #d :one", one=1)
        assert table.write(table.update(KEY, change), returning="ALL_NEW") == KEY | {"a": 3, "b": 1, "d": 1}

    def test_update_adds_members_to_a_set_and_deletes_them(self) -> None:
        table = _simulated().table
        for text, members in (("ADD #s :s", {"a"}), ("ADD #s :s", {"a", "b"}), ("DELETE #s :s", {"a", "c"})):
            table.write(table.update(KEY, Expression.of(text, s=members)))
        assert table.get(KEY) == KEY | {"s": {"b"}}
        table.write(table.update(KEY, Expression.of("DELETE #s :s", s={"b"})))
        assert table.get(KEY) == KEY

    @pytest.mark.parametrize(
        "text", ["SET #a.#b = :one", "ADD #a :one DELETE #b :one", "SET #a = list_append(#a, :one)"]
    )
    def test_unsupported_update_expression_raises_not_implemented(self, text: str) -> None:
        table = _simulated().table
        with pytest.raises(NotImplementedError):
            table.write(table.update(KEY, Expression.of(text, one=1)))

    def test_items_of_a_partition_are_read_and_deleted(self) -> None:
        table = _simulated().table
        for name in ("COUNT", "HOUR"):
            table.write(table.put(KEY | {"sk": name}))
        page = table.query(index=None, condition=Expression.of("#pk = :pk", pk="A#1"), limit=10)
        assert page.items == table.batch_get([KEY, KEY | {"sk": "HOUR"}])
        table.batch_delete([KEY])
        assert (table.get(KEY), table.get(KEY | {"sk": "HOUR"})) == (None, KEY | {"sk": "HOUR"})
