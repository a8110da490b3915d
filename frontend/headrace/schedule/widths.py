"""Width converters: between two layers whose words hold different numbers of elements."""

from __future__ import annotations

from functools import lru_cache

from headrace.ir import Graph, IntRange
from headrace.layers.base import Layer, Resources, StreamType
from headrace.layers.fifo import FIFO
from headrace.layers.width_converter import StreamingDataWidthConverter
from headrace.schedule.inserting import insert_layers
from headrace.schedule.streams import Link, source_stream, target_stream


def insert_width_converters(graph: Graph) -> Graph:
    """*graph* with a width converter on every link whose ends differ in elements a word."""

    def wanted(link: Link) -> tuple[Layer, ...]:
        written, read = source_stream(graph, link), target_stream(graph, link)
        if written is None or read is None or written.elements == read.elements:
            return ()
        shape = written.shape
        if shape[-1] % read.elements:  # words run over the ends of the last axis: the frame as one vector
            shape = (written.frame_elements,)
        return (StreamingDataWidthConverter(StreamType(shape, written.range, written.elements), read.elements),)

    return insert_layers(graph, wanted)


@lru_cache(maxsize=16384)
def link_resources(values: IntRange, frame_elements: int, written: int, read: int) -> Resources:
    """What is needed between words of *written* and of *read* elements: a register slice, and where they differ a
    width converter and a slice behind it."""
    stream = StreamType((frame_elements,), values, written)
    if written == read:
        return FIFO(stream).resources()
    converter = StreamingDataWidthConverter(stream, read)
    return FIFO(stream).resources() + converter.resources() + FIFO(converter.outputs[0]).resources()
