"""Tests of sheets: what people type, and what files really hold."""
