"""Benchmarks: figures of this machine, printed by `make bench`."""

from __future__ import annotations
