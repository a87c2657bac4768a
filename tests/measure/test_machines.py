"""Data sheets: complete, with a source each, in the units that they promise."""

from __future__ import annotations

import pytest
import torch

from specdec_lab.measure.machines import BYTES, MACHINES


@pytest.mark.parametrize("name", MACHINES)
def test_figures_are_in_bytes_and_flops_per_second_and_have_a_source(name):
    machine = MACHINES[name]
    assert 50e9 <= machine.bandwidth < 10e12
    assert machine.flops is None or 100e12 <= machine.flops < 2000e12
    assert machine.source.startswith(("https://www.", "https://images."))


def test_machines_differ_in_the_ways_that_the_lesson_names():
    """An H200 is an H100 with more bandwidth; machine balance fell."""
    h100, h200 = MACHINES["H100 SXM"], MACHINES["H200 SXM"]
    assert h100.flops == h200.flops and h100.bandwidth < h200.bandwidth
    assert [machine.bandwidth for machine in MACHINES.values()] == sorted(
        machine.bandwidth for machine in MACHINES.values()
    )


def test_bytes_are_those_of_the_dtypes():
    assert [BYTES[name] for name in ("float32", "bfloat16", "int8")] == [
        getattr(torch, name).itemsize for name in ("float32", "bfloat16", "int8")
    ]
    assert BYTES["int4"] == 4 / 8
