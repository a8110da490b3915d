"""Conformance of the hardware layers."""
