"""Service in one process over fakes of AWS, shared by tests and benchmarks.

No other package of `local` imports `functions`.
"""
