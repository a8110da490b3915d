"""The parts that a quantizer is assembled from: rounding, clamping, statistics, scales, zero points, bit widths."""
