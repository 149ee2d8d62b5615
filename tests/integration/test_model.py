"""Random requests, compared with a model one by one; see tests/model.py."""

from local.testbed.harness import make_api
from tests.integration.conftest import NewTable
from tests.model import check


def test_the_service_answers_as_the_model_does(new_table: NewTable) -> None:
    check(lambda clock: make_api(new_table(), clock=clock))
