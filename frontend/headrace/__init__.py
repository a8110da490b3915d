"""Headrace: low-bit PyTorch networks to simulated, bit-exact FPGA dataflow accelerators."""

__version__ = "0.1.0"
