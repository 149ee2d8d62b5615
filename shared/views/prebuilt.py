"""Models of shared.views.models that do not need pydantic, written by `python -m local.readme`."""

from typing import TYPE_CHECKING

from shared.core.checks import whole
from shared.web.prebuilt_model import PrebuiltModel

if TYPE_CHECKING:
    from shared.views.models import NewView as NewView
else:

    class NewView(PrebuiltModel):
        @classmethod
        def core_schema(cls):
            return {'type': 'model', 'cls': cls, 'schema': {'type': 'model-fields', 'fields': {
                'viewerId': {'type': 'model-field', 'schema': {'type': 'default', 'schema': {'type': 'nullable', 'schema': {'type': 'str', 'min_length': 1, 'max_length': 128, 'pattern': '^[^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]*[^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\x20\\xa0\\u1680\\u2000-\\u200b\\u202f\\u205f\\u3000\\ufeff][^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]*$'}}, 'default': None}}, 
                'watchedMs': {'type': 'model-field', 'schema': {'type': 'default', 'schema': {'type': 'nullable', 'schema': {'type': 'function-before', 'function': {'type': 'no-info', 'function': whole}, 'schema': {'type': 'int', 'strict': True, 'ge': 0, 'le': 86400000}}}, 'default': None}}, 
                'at': {'type': 'model-field', 'schema': {'type': 'default', 'schema': {'type': 'nullable', 'schema': {'type': 'function-before', 'function': {'type': 'no-info', 'function': whole}, 'schema': {'type': 'int', 'strict': True, 'ge': 0, 'le': 253402300799}}}, 'default': None}}}, 'model_name': 'NewView', 'computed_fields': []}, 'custom_init': False, 'root_model': False, 'config': {'extra_fields_behavior': 'forbid', 'strict': True, 'title': 'NewView'}}
