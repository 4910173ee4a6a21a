"""Tests of the judge, over real HTTP against a server that misbehaves on demand."""
