"""Generates the modules `prebuilt.py` of shared/.

Each module contains models of request bodies. The models use pydantic_core, but do not import pydantic, because that
takes long.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

from local import ROOT
from shared.videos.models import NewVideo, VideoContent, VideoPatch
from shared.views.models import NewView
from shared.web.bodies import Content

MODULES: Mapping[str, Sequence[type[Content]]] = {
    "shared/videos/prebuilt.py": (VideoContent, NewVideo, VideoPatch),
    "shared/views/prebuilt.py": (NewView,),
}
"""Models of request bodies to generate, by path of the module. The models validate the most frequent requests."""
FOR_PYDANTIC = ("metadata", "ref", "serialization")
"""Keys of a core schema that the generated models omit, because pydantic_core does not need them.

`serialization` is not needed because only `PlainValidator` adds it, and that serialization returns the value unchanged.
"""
FIELD = "\n" + " " * 16
"""Line break and indentation before each field of a model."""


def prebuilt() -> dict[Path, str]:
    """Return the source of each generated module, by path."""
    return {ROOT / file: _module(models) for file, models in MODULES.items()}


def _module(models: Sequence[type[Content]]) -> str:
    functions: dict[str, set[str]] = {}
    classes = [_class(model, functions) for model in models]
    home = models[0].__module__
    names = ", ".join(f"{model.__name__} as {model.__name__}" for model in models)
    lines = [
        f'"""Models of {home} that do not need pydantic, written by `python -m local.readme`."""\n',
        "from typing import TYPE_CHECKING\n",
        *(f"from {module} import {', '.join(sorted(used))}" for module, used in sorted(functions.items())),
        f"from shared.web.prebuilt_model import PrebuiltModel\n\nif TYPE_CHECKING:\n    from {home} import {names}\nelse:",
    ]
    return "\n".join([*lines, *classes])


def _class(model: type[Content], functions: dict[str, set[str]]) -> str:
    """Return the source of a model's class. Adds the names that the class imports, by module, to `functions`."""
    model.model_rebuild()
    text = _literal(model.__pydantic_core_schema__, model, functions)
    return f"\n    class {model.__name__}(PrebuiltModel):\n        @classmethod\n        def core_schema(cls):\n            return {text}\n"


def _literal(part: Any, model: type[Content], functions: dict[str, set[str]]) -> str:
    """Return the source of a part of pydantic's core schema. Each field of a model is on a new line."""
    if isinstance(part, dict):
        entries = []
        for key, value in part.items():
            # The fields of a model have a dict without a type, and one of them may be called metadata.
            if not (key in FOR_PYDANTIC and isinstance(part.get("type"), str)):
                is_field = isinstance(value, dict) and value.get("type") == "model-field"
                entries.append(f"{FIELD if is_field else ''}{key!r}: {_literal(value, model, functions)}")
        return f"{{{', '.join(entries)}}}"
    if isinstance(part, list | tuple):
        return f"[{', '.join(_literal(value, model, functions) for value in part)}]"
    if isinstance(part, partial):
        functions.setdefault("functools", set()).add("partial")
        options = "".join(f", {name}={value!r}" for name, value in part.keywords.items())
        return f"partial({_literal(part.func, model, functions)}{options})"
    if isinstance(part, FunctionType):
        functions.setdefault(part.__module__, set()).add(part.__qualname__)
        return part.__qualname__
    if part is str.lower:
        return "str.lower"
    if isinstance(part, type):
        return "cls" if part is model else "PrebuiltModel"
    if part is None or isinstance(part, str | int | float):
        return repr(part)
    raise TypeError(f"{part!r} cannot be written into a prebuilt model")
