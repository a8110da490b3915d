"""RTL simulation of Headrace designs: needs only numpy and cocotb."""
