"""Passes, in the order in which a build runs them: each a plain function from graph to graph, one file each."""

from headrace.passes.partition import Partition, partition
from headrace.passes.to_integer import Blocker, IntegerModel, to_integer

__all__ = ["Blocker", "IntegerModel", "Partition", "partition", "to_integer"]
