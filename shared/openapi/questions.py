"""OpenAPI documentation of saved questions about the archive."""

from shared.core import errors
from shared.openapi.spec import BODY_ERRORS, EMPTY_BODY, Operation, header, json_content, object_of, ref
from shared.questions.saved import DEFAULT_DAYS, LARGEST_QUESTION, QUESTIONS, STATES, TYPES
from shared.web.parameters import Schema
from shared.web.requests import LONGEST_KEY

_NAME = "top-editors"
_RUN: Schema = {
    "runId": "9d2f0e6c-1c5b-4b53-8a43-6f2b1f0d7c11",
    "question": _NAME,
    "from": "2026-06-01",
    "to": "2026-06-30",
    "state": "succeeded",
    "error": None,
    "rows": [["user_789", 42, 7]],
    "more": False,
    "bytes": 20_000_000,
    "dollars": 0.0001,
}
_QUEUED: Schema = _RUN | {"state": "queued", "rows": [], "bytes": 0, "dollars": 0}
_RUN_ERRORS = (errors.InvalidParameter, errors.Forbidden, errors.NotFound)

PATH_PARAMETERS: dict[str, Schema] = {
    "question": {
        "description": "Name of the saved question",
        "schema": {"type": "string", "pattern": "^[a-z-]+$", "maxLength": 100},
        "example": _NAME,
    },
    "runId": {"description": "Id of the run", "schema": {"type": "string", "format": "uuid"}, "example": _RUN["runId"]},
}
OPERATIONS: dict[str, Operation] = {
    "listQuestions": Operation(
        "List the saved questions about the archive",
        "For admins: SQL queries over changes, videos and views (docs/archive.md), with the columns of their results.",
        {
            200: {
                "description": "All questions",
                **json_content(
                    ref("QuestionList"),
                    {"items": [question.document(name) for name, question in QUESTIONS.items()][:1]},
                ),
            }
        },
        (errors.InvalidParameter, errors.Forbidden),
    ),
    "runQuestion": Operation(
        "Run a saved question",
        f"Starts a query by Athena about the days from `from` to `to`, by default the {DEFAULT_DAYS} days until `to`. "
        "Poll `Location` for the result. Each run costs money.",
        {
            202: {
                "description": "Started",
                "headers": {
                    "Location": {
                        "description": "The run, relative to this request's URL",
                        "schema": {"type": "string", "format": "uri-reference"},
                    }
                },
                **json_content(ref("QuestionRun"), _QUEUED),
            }
        },
        (*BODY_ERRORS, *_RUN_ERRORS, errors.KeyReused),
        (
            header(
                "Idempotency-Key",
                "Identifies a request per caller: Athena runs it once, and retries return the same run.",
                {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"},
            ),
        ),
        body=EMPTY_BODY,
    ),
    "getQuestionRun": Operation(
        "Get the result of a saved question",
        f"Returns at most {LARGEST_QUESTION} rows once the state is `succeeded`. Lists of changes have the newest first.",
        {200: {"description": "The run", **json_content(ref("QuestionRun"), _RUN)}},
        (*_RUN_ERRORS, errors.Gone),
    ),
}


def schemas() -> Schema:
    """Return the schemas of responses, by name."""
    text: Schema = {"type": "string"}
    number: Schema = {"type": "integer", "minimum": 0}
    day: Schema = {"type": "string", "format": "date"}
    name: Schema = {**text, "description": "Name of the question"}
    chart = object_of(
        {
            "labels": {**text, "description": "Column with the labels"},
            "numbers": {**text, "description": "Column with the numbers"},
        }
    )
    return {
        "QuestionColumn": object_of({"name": text, "type": {**text, "enum": list(TYPES)}}),
        "QuestionChart": chart,
        "Question": object_of(
            {
                "question": name,
                "title": text,
                "columns": {"type": "array", "items": ref("QuestionColumn")},
                "chart": {
                    "anyOf": [ref("QuestionChart"), {"type": "null"}],
                    "description": "Columns of a chart, if the result has a label and a number in each row",
                },
            }
        ),
        "QuestionList": object_of({"items": {"type": "array", "items": ref("Question")}}),
        "QuestionRun": object_of(
            {
                "runId": {"type": "string", "format": "uuid"},
                "question": name,
                "from": day,
                "to": {**day, "description": "The last day, which is included"},
                "state": {**text, "enum": list(STATES)},
                "error": {"type": ["string", "null"], "description": "Reason of the state `failed`"},
                "rows": {
                    "type": "array",
                    "maxItems": LARGEST_QUESTION,
                    "items": {"type": "array", "items": {"type": ["string", "integer", "null"]}},
                    "description": "Values in the order of the question's columns",
                },
                "more": {"type": "boolean", "description": "Whether the result may have more rows"},
                "bytes": {**number, "description": "Bytes that Athena read"},
                "dollars": {"type": "number", "minimum": 0, "description": "Cost of the query in US dollars"},
            }
        ),
    }
