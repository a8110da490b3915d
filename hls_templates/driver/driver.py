"""Runs a generated accelerator on a board with PYNQ: packs frames into stream words, moves them by DMA, unpacks.

    accelerator = Accelerator("accelerator.bit")
    outputs = accelerator.execute({"tensor": integers})

``io.json`` beside this file describes the streams. Arrays are the integers that the hardware works on, ``(frames,
*shape)``; what of the model runs on the host before and after is the user's (headrace: ``Design.core_feeds``).

The overlay must have an AXI DMA for every stream: input k is read by ``axi_dma_<k>.sendchannel``, output k written by
``axi_dma_<k>.recvchannel``. This file needs numpy, and pynq on the board; nothing of headrace.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


class Stream:
    """One stream of the accelerator, as ``io.json`` describes it."""

    def __init__(self, description: dict) -> None:
        self.name = description["name"]
        self.shape = tuple(description["shape"])
        self.order = np.asarray(description["order"], np.int64) if description["order"] else None
        self.bits = description["bits"]
        self.encoding = description["encoding"]
        self.elements = description["elements_per_word"]
        self.word_bytes = description["word_bytes"]
        self.words = int(np.prod(self.shape)) // self.elements

    def pack(self, array: np.ndarray) -> np.ndarray:
        """Bytes of the words of ``(frames, *shape)`` integers: element 0 lowest, zeros above the last."""
        array = np.asarray(array)
        if array.shape[1:] != self.shape:
            raise ValueError(f"'{self.name}': expected frames of shape {self.shape}, got {array.shape[1:]}")
        low, high = self.limits
        if array.size and (array.min() < low or array.max() > high or (self.encoding == "bipolar" and not array.all())):
            raise ValueError(f"'{self.name}': values must be {low} to {high} ({self.encoding})")
        flat = array.reshape(len(array), -1).astype(np.int64)
        if self.order is not None:
            flat = flat[:, self.order]
        codes = (flat > 0).astype(np.int64) if self.encoding == "bipolar" else flat
        lanes = (codes.reshape(-1, self.elements, 1) >> np.arange(self.bits)) & 1
        packed = np.packbits(lanes.astype(np.uint8).reshape(len(lanes), -1), axis=1, bitorder="little")
        words = np.zeros((len(lanes), self.word_bytes), np.uint8)
        words[:, : packed.shape[1]] = packed
        return words.reshape(-1)

    def unpack(self, data: np.ndarray) -> np.ndarray:
        """The integers ``(frames, *shape)`` in the bytes of words."""
        words = np.asarray(data, np.uint8).reshape(-1, self.word_bytes)
        lanes = np.unpackbits(words, axis=1, count=self.elements * self.bits, bitorder="little")
        lanes = lanes.reshape(-1, self.elements, self.bits).astype(np.int64)
        codes = (lanes << np.arange(self.bits)).sum(axis=2)
        if self.encoding == "signed":
            codes -= lanes[:, :, -1] << self.bits
        elif self.encoding == "bipolar":
            codes = 2 * codes - 1
        stream = codes.reshape(-1, self.words * self.elements)
        frames = np.empty_like(stream)
        frames[:, slice(None) if self.order is None else self.order] = stream
        return frames.reshape(-1, *self.shape)

    def bytes_of(self, frames: int) -> int:
        """How many bytes so many frames are."""
        return frames * self.words * self.word_bytes

    @property
    def limits(self) -> tuple:
        """Least and greatest value."""
        if self.encoding == "bipolar":
            return -1, 1
        if self.encoding == "unsigned":
            return 0, (1 << self.bits) - 1
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1


class Accelerator:
    """The accelerator in the fabric.

    Args:
        bitfile: loaded when no *overlay* is given.
        overlay: with the DMAs as its attributes; for tests, anything that has them.
        allocate: makes buffers that a DMA can reach; that of pynq by default.
        folder: where ``io.json`` is.
    """

    def __init__(self, bitfile=None, overlay=None, allocate=None, folder=None) -> None:
        if overlay is None:
            from pynq import Overlay

            overlay = Overlay(str(bitfile))
        if allocate is None:
            from pynq import allocate
        self.overlay, self.allocate = overlay, allocate
        description = json.loads((Path(folder or Path(__file__).parent) / "io.json").read_text(encoding="utf-8"))
        self.inputs = [Stream(stream) for stream in description["inputs"]]
        self.outputs = [Stream(stream) for stream in description["outputs"]]

    def execute(self, arrays: dict) -> dict:
        """Send a batch through the accelerator.

        Args:
            arrays: integers ``(frames, *shape)`` by input name.

        Returns:
            integers by output name.

        Raises:
            ValueError: for a missing name, another shape, or a value that does not fit.
        """
        missing = [stream.name for stream in self.inputs if stream.name not in arrays]
        if missing:
            raise ValueError(f"no array for input '{missing[0]}'")
        frames = {len(arrays[stream.name]) for stream in self.inputs}
        if len(frames) != 1:
            raise ValueError(f"inputs with different numbers of frames: {sorted(frames)}")
        (count,) = frames
        sent = [self._buffer(stream.pack(arrays[stream.name])) for stream in self.inputs]
        received = [self._buffer(np.zeros(stream.bytes_of(count), np.uint8)) for stream in self.outputs]
        receivers = [getattr(self.overlay, f"axi_dma_{k}").recvchannel for k in range(len(self.outputs))]
        senders = [getattr(self.overlay, f"axi_dma_{k}").sendchannel for k in range(len(self.inputs))]
        for frame in range(count):  # tlast ends a transfer, and marks the last word of each frame
            for channel, buffer, stream in zip(receivers, received, self.outputs, strict=True):
                size = stream.bytes_of(1)
                channel.transfer(buffer, start=frame * size, nbytes=size)
            if frame == 0:  # after the first receivers are ready, so that nothing waits for them
                for channel, buffer in zip(senders, sent, strict=True):
                    channel.transfer(buffer)
            for channel in receivers:
                channel.wait()
        for channel in senders if count else ():
            channel.wait()
        return {stream.name: stream.unpack(data) for stream, data in zip(self.outputs, received, strict=True)}

    def _buffer(self, data: np.ndarray):
        buffer = self.allocate(shape=data.shape, dtype=np.uint8)
        buffer[:] = data
        return buffer
