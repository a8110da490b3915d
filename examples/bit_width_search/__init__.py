"""Learned bit widths that trade accuracy against area."""
