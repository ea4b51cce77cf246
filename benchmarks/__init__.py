"""Benchmarks: every figure of the specification, next to a reference measured in the same run."""
