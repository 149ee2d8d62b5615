"""The whole service in one process, over fakes of AWS. Tests and benchmarks use it.

No other package of `local` imports `functions`.
"""
