"""Rendering of SystemVerilog and assembly of designs."""
