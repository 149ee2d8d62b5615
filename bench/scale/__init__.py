"""Load at which each access pattern and each consumer reaches its first limit: `python -m bench.scale`.

The package measures the DynamoDB requests of each access pattern as `make cost` does. It applies the published limits
of AWS, and the settings of the synthesized templates, to the load of target-2026-11-26.toml. No AWS account is used.
"""
