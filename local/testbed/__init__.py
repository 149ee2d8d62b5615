"""The whole service in one process, over fakes of AWS. Tests and benchmarks use it.

It is the only package of `local` that imports `functions`.
"""
