"""Runs a generated accelerator on a board with PYNQ: packs frames into stream words, moves them by DMA, unpacks.

    accelerator = Accelerator("accelerator.bit")
    outputs = accelerator.execute({"tensor": integers})

``io.json`` beside this file describes the streams. Arrays are the integers that the hardware works on, ``(frames,
*shape)``; what of the model runs on the host before and after is the user's (headrace: ``Design.core_feeds``).

With ``control.json`` beside this file, weights and thresholds of layers are read and written, and counters read::

    accelerator.load_runtime_weights("runtime_weights")
    accelerator.write_array("fc1", "weights", integers)
    accelerator.clear_counters()
    accelerator.read_counters()["span"]

The overlay must have an AXI DMA for every stream: input k is read by ``axi_dma_<k>.sendchannel``, output k written by
``axi_dma_<k>.recvchannel``; the control interface is that of its IP ``accelerator``. This file needs numpy, and pynq on
the board; nothing of headrace.
"""

from __future__ import annotations

import json
import time
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


class Registers:
    """The accelerator's control interface, as ``control.json`` describes it.

    Args:
        mmio: has ``read(address)`` and ``write(address, word)``, as the IP of an overlay of pynq has.
        description: the content of ``control.json``.

    Raises:
        RuntimeError: when the hardware is not that of the description.
    """

    MAGIC = 0x43524448

    def __init__(self, mmio, description: dict) -> None:
        self.mmio, self.description = mmio, description
        self.address = {register["name"]: register["address"] for register in description["registers"]}
        self.layers = {layer["layer"]: layer for layer in description["layers"]}
        found = self.read("MAGIC"), self.read("VERSION"), self.read("MAP_ID")
        if found != (self.MAGIC, description["version"], description["map_id"]):
            raise RuntimeError(f"the hardware is not that of control.json: it says {[hex(word) for word in found]}")

    def read(self, name: str) -> int:
        """A register by its name."""
        return int(self.mmio.read(self.address[name]))

    def write(self, name: str, word: int) -> None:
        """Write a register."""
        self.mmio.write(self.address[name], int(word))

    @property
    def idle(self) -> bool:
        """Whether no frame is in the accelerator."""
        return bool(self.read("STATUS") & 1)

    def wait_idle(self, seconds: float) -> None:
        """Wait until no frame is in the accelerator; raises TimeoutError after so many *seconds*."""
        end = time.monotonic() + seconds
        while not self.idle:
            if time.monotonic() > end:
                raise TimeoutError(f"frames are in the accelerator after {seconds} s; is something reading its output?")

    def write_words(self, address: int, words: np.ndarray, verify: bool) -> None:
        """Write *words* one after the other, and read them back."""
        for k, word in enumerate(words.tolist()):
            self.mmio.write(address + 4 * k, word)
        for k, word in enumerate(words.tolist() if verify else []):
            back = int(self.mmio.read(address + 4 * k))
            if back != word:
                raise RuntimeError(f"address {address + 4 * k:#x} holds {back:#x} after {word:#x} was written")

    def array(self, layer: str, name: str) -> dict:
        """The description of an array; raises KeyError with what there is."""
        if layer not in self.layers:
            raise KeyError(f"no layer '{layer}' can be written; there are: {', '.join(self.layers) or 'none'}")
        arrays = {array["name"]: array for array in self.layers[layer]["arrays"]}
        if name not in arrays:
            raise KeyError(f"layer '{layer}' has no array '{name}'; it has: {', '.join(arrays)}")
        return arrays[name]

    def places(self, layer: str, array: dict) -> tuple:
        """Address of each memory word of *array* in bytes, and how its elements are packed into one."""
        lead = len(array["strides"])
        grid = [array["split"][axis] for axis in array["axes"][:lead]]
        steps = np.indices(grid).reshape(lead, -1)
        words = array["offset"] + (np.array(array["strides"], np.int64)[:, None] * steps).sum(axis=0)
        elements = int(np.prod(array["split"])) // int(np.prod(grid))
        size = -(-elements * array["bits"] // 32) * 4
        packing = {key: array[key] for key in ("bits", "encoding")}
        packing.update(name=array["name"], shape=[elements], order=None, elements_per_word=elements, word_bytes=size)
        return self.layers[layer]["base"] + 4 * words, Stream(packing)

    def write_array(self, layer: str, name: str, values: np.ndarray, verify: bool = True) -> None:
        """Write integers of the array's shape.

        Raises:
            ValueError: for another shape, values outside the type, or thresholds that do not ascend.
        """
        array = self.array(layer, name)
        values = np.asarray(values)
        if list(values.shape) != array["shape"]:
            raise ValueError(f"'{layer}' {name}: expected shape {array['shape']}, got {list(values.shape)}")
        if name == "thresholds" and np.any(np.diff(values, axis=1) < 0):
            raise ValueError(f"'{layer}' thresholds: those of a channel must ascend")
        addresses, packing = self.places(layer, array)
        ordered = values.astype(np.int64).reshape(array["split"]).transpose(array["axes"]) - array["stored_less"]
        words = packing.pack(ordered.reshape(len(addresses), -1)).view("<u4").reshape(len(addresses), -1)
        for address, word in zip(addresses.tolist(), words, strict=True):
            self.write_words(address, word, verify)

    def read_array(self, layer: str, name: str) -> np.ndarray:
        """The integers that an array holds now."""
        array = self.array(layer, name)
        addresses, packing = self.places(layer, array)
        columns = packing.word_bytes // 4
        words = [[int(self.mmio.read(address + 4 * k)) for k in range(columns)] for address in addresses.tolist()]
        values = packing.unpack(np.array(words, "<u4").view(np.uint8)) + array["stored_less"]
        ordered = values.reshape([array["split"][axis] for axis in array["axes"]])
        return ordered.transpose(np.argsort(array["axes"])).reshape(array["shape"])

    def counters(self) -> dict:
        """All counters: ``cycles``, ``span``, and by stream ``words``, ``stalled``, ``starved`` (and ``frames``).

        Raises:
            RuntimeError: when the design has none.
        """
        table = self.description["counters"]
        if not table:
            raise RuntimeError("the design has no counters; build it with performance_counters=True")
        result = {}
        for name in ("cycles", "span"):
            low = int(self.mmio.read(table[name]))  # which keeps the upper half of the same moment
            result[name] = low | int(self.mmio.read(table[name] + 4)) << 32
        names = ("words", "stalled", "starved", "frames")
        result["streams"] = {
            stream["stream"]: {name: int(self.mmio.read(stream[name])) for name in names if name in stream}
            for stream in table["streams"]
        }
        return result


class Accelerator:
    """The accelerator in the fabric.

    Args:
        bitfile: loaded when no *overlay* is given.
        overlay: with the DMAs as its attributes; for tests, anything that has them.
        allocate: makes buffers that a DMA can reach; that of pynq by default.
        folder: where ``io.json`` is.
        mmio: the control interface, with ``read`` and ``write``; ``accelerator`` of the overlay by default.
    """

    def __init__(self, bitfile=None, overlay=None, allocate=None, folder=None, mmio=None) -> None:
        if overlay is None:
            from pynq import Overlay

            overlay = Overlay(str(bitfile))
        if allocate is None:
            from pynq import allocate
        self.overlay, self.allocate = overlay, allocate
        self.folder = Path(folder or Path(__file__).parent)
        description = json.loads((self.folder / "io.json").read_text(encoding="utf-8"))
        self.inputs = [Stream(stream) for stream in description["inputs"]]
        self.outputs = [Stream(stream) for stream in description["outputs"]]
        self._registers = None
        control = self.folder / "control.json"
        if control.is_file():
            mmio = self.overlay.accelerator if mmio is None else mmio
            self._registers = Registers(mmio, json.loads(control.read_text(encoding="utf-8")))

    @property
    def registers(self) -> Registers:
        """The control interface.

        Raises:
            RuntimeError: when the design has none.
        """
        if self._registers is None:
            raise RuntimeError("the design has no control interface: no layer is writable, and there are no counters")
        return self._registers

    def load_runtime_weights(self, folder=None, verify: bool = True, seconds: float = 10.0) -> list:
        """Write the files of *folder* (``runtime_weights`` beside this file) to the layers that they are for.

        Waits until no frame is inside. Layers without a file keep what they have.

        Returns:
            names of the layers that were written.

        Raises:
            ValueError: for a file that holds another number of words than the layer takes.
            RuntimeError: when something else is read back.
            TimeoutError: when frames stay inside for so many *seconds*.
        """
        registers, loaded = self.registers, []
        folder = Path(folder or self.folder / "runtime_weights")
        files = {name: folder / layer["file"] for name, layer in registers.layers.items()}
        images = {name: self._image(registers, name, path) for name, path in files.items() if path.is_file()}
        registers.wait_idle(seconds)
        for name, words in images.items():
            registers.write_words(registers.layers[name]["base"], words, verify)
            loaded.append(name)
        return loaded

    def _image(self, registers: Registers, name: str, path: Path) -> np.ndarray:
        words = np.array([int(word, 16) for word in path.read_text(encoding="ascii").split()], np.int64)
        ends = []
        for array in registers.layers[name]["arrays"]:
            addresses, packing = registers.places(name, array)
            ends.append(int(addresses.max()) - registers.layers[name]["base"] + packing.word_bytes)
        if len(words) != max(ends) // 4 or (len(words) and not 0 <= words.min() <= words.max() < 2**32):
            raise ValueError(f"{path}: expected {max(ends) // 4} words of 32 bits for layer '{name}', got {len(words)}")
        return words

    def write_array(self, layer: str, name: str, values: np.ndarray, seconds: float = 10.0) -> None:
        """Write an array of a layer once no frame is inside; see :meth:`Registers.write_array`."""
        self.registers.wait_idle(seconds)
        self.registers.write_array(layer, name, values)

    def read_array(self, layer: str, name: str) -> np.ndarray:
        """The integers that an array of a layer holds now."""
        return self.registers.read_array(layer, name)

    def read_counters(self) -> dict:
        """See :meth:`Registers.counters`."""
        return self.registers.counters()

    def clear_counters(self) -> None:
        """Start all counters again from 0."""
        self.registers.write("CONTROL", 3)

    def stop_counters(self) -> None:
        """Keep all counters as they are until they are cleared."""
        self.registers.write("CONTROL", 0)

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
