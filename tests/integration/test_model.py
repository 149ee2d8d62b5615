"""Random requests to the service on a DynamoDB endpoint; each response must equal the response of the model in
`tests/model.py`."""

from local.testbed.harness import make_api
from tests.integration.conftest import NewTable
from tests.model import check


def test_service_responds_as_the_model_does(new_table: NewTable) -> None:
    check(lambda clock: make_api(new_table(), clock=clock))
