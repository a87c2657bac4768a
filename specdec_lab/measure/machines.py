"""What makers print about their machines: two numbers each, with the page they stand on. Nothing here is measured.

Plain Python, loads at once. What your own machine does is measured by `passes`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """A machine by its data sheet.

    Attributes:
        bandwidth: bytes per second from its memory.
        flops: dense FLOPs per second in bfloat16; None where the maker prints none.
        source: the page that both were read from.
    """

    bandwidth: float
    flops: float | None
    source: str


# NVIDIA's pages also print twice the FLOP/s, with half of the weights zero ("sparsity"), for some as the only figure.
MACHINES: dict[str, Machine] = {
    "desktop, 2 × DDR5": Machine(  # DDR5-5600 on two channels: 89.6 GB/s
        90e9,
        None,
        "https://www.intel.com/content/www/us/en/products/sku/230496/"
        "intel-core-i913900k-processor-36m-cache-up-to-5-80-ghz/specifications.html",
    ),
    "Apple M4": Machine(120e9, None, "https://www.apple.com/newsroom/2024/05/apple-introduces-m4-chip/"),
    "RTX 4090": Machine(
        1008e9,
        165.2e12,
        "https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf",
    ),
    "A100 80 GB SXM": Machine(2039e9, 312e12, "https://www.nvidia.com/en-us/data-center/a100/"),
    "H100 SXM": Machine(3350e9, 989e12, "https://www.nvidia.com/en-us/data-center/h100/"),
    "H200 SXM": Machine(4800e9, 989e12, "https://www.nvidia.com/en-us/data-center/h200/"),
}
BYTES: dict[str, float] = {"float32": 4, "bfloat16": 2, "int8": 1, "int4": 0.5}  # of one parameter
