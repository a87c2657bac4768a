"""A clock that the test moves, so that every figure of a measurement is known beforehand."""

from __future__ import annotations

import time

import pytest


@pytest.fixture
def clock(monkeypatch):
    """A list of one number, which `time.perf_counter` returns."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now
