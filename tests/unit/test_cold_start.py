"""What a function loads while it starts: every module costs its callers time."""

import subprocess
import sys
from pathlib import Path

import pytest

FUNCTIONS = tuple(sorted(path.parent.name for path in (Path(__file__).parents[2] / "functions").glob("*/handler.py")))
WITH_MEDIA = ("probe", "thumbnails")
HEAVY = ("cryptography", "aws_cdk", "moto", "aws_xray_sdk", "requests")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_loads_no_module_that_its_first_request_may_not_need(function: str) -> None:
    script = f"import sys, functions.{function}.handler; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    heavy = HEAVY if function in WITH_MEDIA else (*HEAVY, "av", "PIL")
    assert [name for name in heavy if name in loaded] == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_reads_no_setting_before_it_is_called(function: str) -> None:
    # Tests, tools and `sam local` may load a handler without the environment that it runs in.
    script = f"import functions.{function}.handler as handler; print(callable(handler.lambda_handler))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env={})
    assert done.stdout == "True\n"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_in_lambda_a_function_makes_its_client_while_it_starts(function: str) -> None:
    settings = {
        "AWS_LAMBDA_FUNCTION_NAME": function,
        "AWS_DEFAULT_REGION": "us-east-1",
        "TABLE_NAME": "T",
        "CURSOR_SECRET_ARN": "arn",
        "AUDIT_TABLE_NAME": "A",
        "AUDIT_DAYS": "400",
        "JOBS_PER_DAY": "500",
        "RENDITIONS": "240p",
        "MEDIA_URL": "https://example.com",
        **{f"{bucket}_BUCKET": "b" for bucket in ("SOURCES", "MEDIA", "ARCHIVE")},
        **{f"{queue}_QUEUE_URL": "https://q" for queue in ("PROBE", "THUMBNAILS", "TRANSCODE", "PURGE", "AGGREGATES")},
    }
    script = (
        f"import functions.{function}.handler, shared.dynamodb; print(shared.dynamodb._session.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=settings)
    assert done.stdout == "1\n"
