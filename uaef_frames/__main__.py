"""`python -m uaef_frames` is the command line."""

from __future__ import annotations

from uaef_frames.cli import main

main()
