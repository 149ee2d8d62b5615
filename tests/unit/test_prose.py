"""Rules of `local.prose`, with examples of good and bad texts."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from local import ROOT, prose
from shared.core import errors
from shared.core.errors import ServiceError


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("What tells services apart.", 'begins with "What"'),
        ("How long to wait.", 'begins with "How"'),
        ("Return a list\nof its own.", '"of its own"'),
        ("Retry but for a conflict.", '"but for"'),
        ("Delete it for good.", '"for good"'),
        ("Serve somebody.", '"somebody"'),
        (f"Good. Return {'a word ' * 13}.", "a sentence of 27 words: Return a word a word a word a ..."),
    ],
)
def test_prose_reports_a_bad_docstring(text: str, fault: str) -> None:
    assert [*prose.faults(text)] == [fault]


@pytest.mark.parametrize(
    "text",
    [
        "Return the item, or `None` if it does not exist.",
        "Whatever the caller sends.",
        "Call `somebody` with `what is`.",
        f"Return {'a word ' * 12}. Raises {'an error ' * 12}.",
        f"Notebook.\n\n    >>> shall({'a_word, ' * 26})\n    'nobody'\n",
        f"Steps:\n\n- read {'a word ' * 11}\n- write {'a word ' * 11}\n",
    ],
)
def test_prose_accepts_a_plain_docstring(text: str) -> None:
    assert [*prose.faults(text)] == []


def test_prose_reads_docstrings_attribute_docs_and_test_names() -> None:
    source = (
        '"""Whose module."""\nclass A:\n    """Of a class."""\n    a = 1\n    """Which attribute."""\n'
        '    async def test_it_works(self) -> None:\n        """As ever."""\n'
        'def test_item_is_read() -> None:\n    "x" + "What is not a docstring"\n'
    )
    assert sorted(prose.faults_of_module(ast.parse(source))) == [
        (1, 'begins with "Whose"'),
        (3, 'begins with "Of"'),
        (5, 'begins with "Which"'),
        (6, "the test name test_it_works is not a complete claim"),
        (7, 'begins with "As"'),
    ]


def test_prose_reports_a_class_name_that_two_product_modules_have(tmp_path: Path) -> None:
    for name in ("shared/a.py", "functions/b/handler.py", "tests/c.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("class Store:\n    pass\n", encoding="utf-8")
    faults_ = [*prose.check(tmp_path, ("shared/a.py", "functions", "tests"))]
    assert faults_ == ["shared/a.py: the class name Store is also in functions/b/handler.py"]


def test_prose_reports_a_raised_error_that_does_not_exist(tmp_path: Path) -> None:
    source = (
        'class Moved(Exception):\n    """Raised."""\ndef f():\n    """Raises Moved. Raises KeyError; raises Gone."""\n'
    )
    (tmp_path / "a.py").write_text(source, encoding="utf-8")
    assert [*prose.check(tmp_path, ("a.py",))] == ["a.py:4: Gone, which it raises, does not exist"]


def test_prose_checks_the_openapi_document_when_it_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = {"summary": "What is new", "description": "Returns nothing but ids."}
    monkeypatch.setattr(prose, "document", lambda: {"paths": {"/v1/videos": {"get": operation}}})
    assert [*prose.check(checked=("openapi",))] == [
        'GET /v1/videos: begins with "What"',
        'GET /v1/videos: "What is"',
        'GET /v1/videos: "nothing but"',
    ]


_DETAILS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, ServiceError)}
_DETAILS.remove("WriteContention")  # its argument is the name of an item
_PREDICATES = {"named": 1, "invalid_field": 1, "ForbiddenAddress": 0}
"""Position of the detail in the arguments, by constructor. These constructors put the field name before the detail,
such as `must be a whole number`."""


def _texts_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the error texts that a module raises, and whether a field name precedes the text. Values of f-strings
    become `1`."""
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        is_predicate = name in _PREDICATES
        if is_predicate or name in _DETAILS | {"InvalidCaptions"}:
            position = _PREDICATES.get(name, 0) + (name == "InvalidCaptions")
            for argument in call.args[position : position + 1]:
                pieces = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
                if all(isinstance(piece, ast.Constant | ast.FormattedValue) for piece in pieces):
                    yield (
                        "".join(str(piece.value) if isinstance(piece, ast.Constant) else "1" for piece in pieces),
                        is_predicate,
                    )


_TEXTS = [
    faults_
    for folder in ("shared", "functions")
    for path in (ROOT / folder).rglob("*.py")
    if path.name != "errors.py"
    for faults_ in _texts_of(path)
]


def test_error_details_are_one_or_two_short_sentences() -> None:
    details = [text for text, is_predicate in _TEXTS if not is_predicate]
    assert len(details) > 80
    sentences = {text: re.split(r"(?<=[.?]) (?=[A-Z1])", text) for text in details}
    assert [text for text in details if not re.fullmatch(r'[A-Z1"].*[.1]', text)] == []
    assert [text for text in details if len(sentences[text]) > 2] == []
    assert [text for text in details if max(len(each.split()) for each in sentences[text]) > 25] == []


def test_error_details_of_fields_and_parameters_continue_the_name() -> None:
    predicates = [text for text, is_predicate in _TEXTS if is_predicate]
    assert len(predicates) > 40
    assert [text for text in predicates if not re.fullmatch(r"(must|is|cannot|1)\b.*(?<!\.)", text)] == []
