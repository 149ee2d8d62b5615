"""The service in one process, over stand-ins for AWS: what tests and benchmarks share.

Of all that is in `local`, this alone imports `functions`.
"""
