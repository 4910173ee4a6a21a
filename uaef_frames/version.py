"""The version of this package, in one place."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("uaef-frames")
except PackageNotFoundError:  # read from a checkout that is not installed
    __version__ = "0.0.0"
