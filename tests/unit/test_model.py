"""Random requests to the service on moto; each response must equal the response of the model in `tests/model.py`."""

from uuid import uuid4

import pytest
from moto import mock_aws

from local.testbed.harness import Api, Clock, create_table, make_api
from shared.aws.dynamodb import Table, make_client
from tests.model import check


@pytest.mark.slow
def test_the_service_responds_as_the_model_does() -> None:
    with mock_aws():
        client = make_client()

        def new_api(clock: Clock) -> Api:
            name = f"videos-{uuid4()}"
            create_table(client, name)
            return make_api(Table(name, client, sleep=lambda _: None), clock=clock)

        check(new_api, examples=15)  # fewer examples than on an endpoint, because moto is slower
