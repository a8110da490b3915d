"""Hardware layers, one file each."""

from headrace.layers.base import Layer, Resources, RtlModule, StreamType, load_layers, lower, lowers

__all__ = ["Layer", "Resources", "RtlModule", "StreamType", "load_layers", "lower", "lowers"]
