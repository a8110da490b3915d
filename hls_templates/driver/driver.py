"""Runs a generated accelerator on a board with PYNQ: packs frames into stream words, moves them by DMA, unpacks.

    accelerator = Accelerator("net.bit")
    outputs = accelerator.execute({"tensor": integers})
    accelerator.throughput_test(1000)

or from a shell, on arrays in files::

    python driver.py --bitfile net.bit --inputfile x.npz --outputfile y.npz
    python driver.py --bitfile net.bit --exec_mode throughput_test --batchsize 1000

``io.json`` beside this file describes the streams. Arrays are the integers that the hardware works on, ``(frames,
*shape)``; what of the model runs on the host before and after is the user's (headrace: ``Design.core_feeds``).

With ``control.json`` beside this file, weights and thresholds of layers are read and written, and counters read::

    accelerator.load_runtime_weights("runtime_weights")
    accelerator.write_array("fc1", "weights", integers)
    accelerator.clear_counters()
    accelerator.read_counters()["span"]

The overlay is that of build_zynq.tcl. It has an AXI DMA for every stream: input k is read by
``axi_dma_<k>.sendchannel``, output k written by ``axi_dma_<k>.recvchannel``; the control interface is that of its IP
``accelerator``. On an Alveo card (build_alveo.mk) kernels ``mm2s_<k>`` and ``s2mm_<k>`` are in their place. In memory
a word of a stream takes whole beats of its DMA, and what is sent to input 0 begins with the number of frames. This file
needs numpy, and pynq on the board; nothing of headrace.
"""

from __future__ import annotations

# ruff: noqa: B905 - boards have Python 3.8, whose zip has no `strict`
import argparse
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
        self.beat_bytes = description["beat_bytes"]
        self.row_bytes = -(-self.word_bytes // self.beat_bytes) * self.beat_bytes  # of a word, in whole beats
        self.words = int(np.prod(self.shape)) // self.elements

    def checked(self, array: np.ndarray) -> np.ndarray:
        """*array* when it is integers ``(frames, *shape)`` that the stream carries; raises ValueError."""
        array = np.asarray(array)
        if array.shape[1:] != self.shape:
            raise ValueError(f"'{self.name}': expected frames of shape {self.shape}, got {array.shape[1:]}")
        low, high = self.limits
        if array.size and (array.min() < low or array.max() > high or (self.encoding == "bipolar" and not array.all())):
            raise ValueError(f"'{self.name}': values must be {low} to {high} ({self.encoding})")
        if array.dtype.kind not in "iub" and (array != np.floor(array)).any():
            raise ValueError(f"'{self.name}': values must be integers: those that the hardware works on")
        return array

    def pack(self, array: np.ndarray) -> np.ndarray:
        """Bytes of the words of ``(frames, *shape)`` integers: element 0 lowest, zeros above the last."""
        array = self.checked(array)
        flat = array.reshape(len(array), self.words * self.elements).astype(np.int64)
        if self.order is not None:
            flat = flat[:, self.order]
        codes = (flat > 0).astype(np.int64) if self.encoding == "bipolar" else flat
        smallest = next(f"<u{size}" for size in (1, 2, 4, 8) if 8 * size >= self.bits)
        held = np.unpackbits(codes.astype(smallest).reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")
        lanes = held[:, : self.bits].reshape(-1, self.elements * self.bits)
        packed = np.packbits(lanes, axis=1, bitorder="little")
        words = np.zeros((len(lanes), self.row_bytes), np.uint8)
        words[:, : packed.shape[1]] = packed
        return words.reshape(-1)

    def unpack(self, data: np.ndarray) -> np.ndarray:
        """The integers ``(frames, *shape)`` in the bytes of words."""
        words = np.asarray(data, np.uint8).reshape(-1, self.row_bytes)
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
        return frames * self.words * self.row_bytes

    def random(self, rng, frames: int) -> np.ndarray:
        """Random integers ``(frames, *shape)``."""
        values = rng.integers(self.limits[0], self.limits[1] + 1, (frames, *self.shape))
        return np.where(values >= 0, 1, -1) if self.encoding == "bipolar" else values

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
        packing.update(name=array["name"], shape=[elements], order=None, elements_per_word=elements)
        packing.update(word_bytes=size, beat_bytes=1)
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
        for address, word in zip(addresses.tolist(), words):
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


class Mover:
    """A kernel of an Alveo card that moves beats, used as a channel of a DMA is."""

    def __init__(self, kernel, beat_bytes: int, sends: bool) -> None:
        self.kernel, self.beat_bytes, self.sends = kernel, beat_bytes, sends
        self.buffer = self.running = None

    def transfer(self, buffer) -> None:
        """Start to move all of *buffer*."""
        self.buffer = buffer
        if self.sends:
            buffer.sync_to_device()
        self.running = self.kernel.start(buffer, buffer.nbytes // self.beat_bytes)

    def wait(self) -> None:
        """Until it is there."""
        self.running.wait()
        if not self.sends:
            self.buffer.sync_from_device()


class Accelerator:
    """The accelerator in the fabric.

    Args:
        bitfile: ``.bit``, or ``.xclbin`` of an Alveo card; loaded when no *overlay* is given.
        overlay: with the DMAs as its attributes; for tests, anything that has them.
        allocate: makes buffers that a DMA can reach; that of pynq by default.
        folder: where ``io.json`` is.
        mmio: the control interface, with ``read`` and ``write``; ``accelerator`` of the overlay by default.
    """

    LONGEST_TRANSFER = 2**26 - 1  # bytes that the length register of a DMA can say
    CHUNK = 2**20  # bytes of a transfer of `execute`, about: packing takes some fifty times that in memory

    def __init__(self, bitfile=None, overlay=None, allocate=None, folder=None, mmio=None) -> None:
        if overlay is None:
            from pynq import Overlay

            overlay = Overlay(str(bitfile))
        if allocate is None:
            from pynq import allocate
        self.overlay, self.allocate = overlay, allocate
        self._buffers = {}  # the last of each stream, by end and number
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
            ValueError: for a missing name, another shape, a value that does not fit, or a frame that no DMA can move.
            RuntimeError: when fewer bytes come back than the frames have.
        """
        missing = [stream.name for stream in self.inputs if stream.name not in arrays]
        if missing:
            raise ValueError(f"no array for input '{missing[0]}'")
        frames = {len(arrays[stream.name]) for stream in self.inputs}
        if len(frames) != 1:
            raise ValueError(f"inputs with different numbers of frames: {sorted(frames)}")
        (count,) = frames
        given = [stream.checked(arrays[stream.name]) for stream in self.inputs]
        parts = [[np.zeros((0, *stream.shape), np.int64)] for stream in self.outputs]
        step = self._frames_in(self.CHUNK) if count else 1
        for first in range(0, count, step):
            chunk = [array[first : first + step] for array in given]
            self._fill(len(chunk[0]), [stream.pack(array) for stream, array in zip(self.inputs, chunk)])
            for found, stream, data in zip(parts, self.outputs, self._transfer(len(chunk[0]))):
                found.append(stream.unpack(data))
        return {stream.name: np.concatenate(found) for stream, found in zip(self.outputs, parts)}

    def throughput_test(self, frames: int = 1000, seed: int = 0) -> dict:
        """Time transfers of random frames, which are packed before; the names are those of FINN's drivers.

        Args:
            frames: of one batch; as many as one transfer holds when there is no room for all.
            seed: of the random integers.
        """
        rng, count = np.random.default_rng(seed), min(frames, self._frames_in(self.LONGEST_TRANSFER))
        self._fill(count, [stream.pack(stream.random(rng, count)) for stream in self.inputs])
        start = time.perf_counter()
        self._transfer(count)
        seconds = time.perf_counter() - start
        sent, received = (sum(s.bytes_of(count) for s in side) for side in (self.inputs, self.outputs))
        return {
            "batch_size": count,
            "runtime[ms]": 1000 * seconds,
            "throughput[images/s]": count / seconds,
            "DRAM_in_bandwidth[MB/s]": sent / seconds / 1e6,
            "DRAM_out_bandwidth[MB/s]": received / seconds / 1e6,
        }

    def _frames_in(self, size: int) -> int:
        """How many frames a transfer of *size* bytes has, one at least."""
        largest = max(stream.bytes_of(1) for stream in (*self.inputs, *self.outputs))
        if self._header + largest > self.LONGEST_TRANSFER:
            raise ValueError(f"a frame takes {largest} bytes; a DMA moves {self.LONGEST_TRANSFER} at once")
        return max((size - self._header) // largest, 1)

    @property
    def _header(self) -> int:
        """Bytes before the frames of a transfer to input 0."""
        return max(4, self.inputs[0].beat_bytes)

    def _fill(self, count: int, packed: list) -> None:
        """Put frames into the buffers that are sent, and make room for their results."""
        for k, (stream, data) in enumerate(zip(self.inputs, packed)):
            head = self._header if k == 0 else 0
            buffer = self._buffer("input", k, head + stream.bytes_of(count))
            if head:
                buffer[:head] = 0
                buffer[:4] = np.frombuffer(int(count).to_bytes(4, "little"), np.uint8)
            buffer[head:] = data
        for k, stream in enumerate(self.outputs):
            self._buffer("output", k, stream.bytes_of(count))

    def _transfer(self, count: int) -> list:
        """Send what is in the buffers; returns those with the results."""
        senders = [self._channel(False, k) for k in range(len(self.inputs))]
        receivers = [self._channel(True, k) for k in range(len(self.outputs))]
        for k, channel in enumerate(receivers):  # these first, so that nothing waits for them
            channel.transfer(self._buffers["output", k])
        for k, channel in enumerate(senders):
            channel.transfer(self._buffers["input", k])
        for channel in senders:
            channel.wait()
        for channel, stream in zip(receivers, self.outputs):
            channel.wait()
            wanted = stream.bytes_of(count)
            moved = getattr(channel, "transferred", wanted)  # which pynq has since 2.7
            if moved != wanted:
                raise RuntimeError(f"'{stream.name}': {moved} of {wanted} bytes; is io.json of this bitfile?")
        return [self._buffers["output", k] for k in range(len(self.outputs))]

    def _channel(self, output: bool, index: int):
        """What moves the beats of a stream: a direction of its DMA, or its kernel."""
        kernel = getattr(self.overlay, f"{'s2mm' if output else 'mm2s'}_{index}", None)
        if kernel is not None:
            stream = (self.outputs if output else self.inputs)[index]
            return Mover(kernel, stream.beat_bytes, sends=not output)
        dma = getattr(self.overlay, f"axi_dma_{index}")
        return dma.recvchannel if output else dma.sendchannel

    def _buffer(self, end: str, index: int, size: int):
        """A buffer of so many bytes that the DMA reaches: the last one of this stream where it has that size."""
        buffer = self._buffers.get((end, index))
        if buffer is None or buffer.nbytes != size:
            if hasattr(buffer, "freebuffer"):
                buffer.freebuffer()  # memory that a DMA reaches is scarce
            buffer = self._buffers[end, index] = self.allocate(shape=(size,), dtype=np.uint8)
        return buffer


def main() -> None:
    """Run the command line, whose names are those of FINN's drivers."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bitfile", required=True, help="with its .hwh beside it, or .xclbin")
    parser.add_argument("--exec_mode", choices=("execute", "throughput_test"), default="execute")
    parser.add_argument("--inputfile", default="input.npz", help="arrays (frames, *shape) by input name")
    parser.add_argument("--outputfile", default="output.npz", help="arrays by output name")
    parser.add_argument("--batchsize", type=int, default=1000, help="frames of the throughput test")
    parser.add_argument("--runtime_weight_dir", default=None, help="files to load before")
    options = parser.parse_args()
    accelerator = Accelerator(options.bitfile)
    if options.runtime_weight_dir is not None:
        accelerator.load_runtime_weights(options.runtime_weight_dir)
    if options.exec_mode == "throughput_test":
        print(json.dumps(accelerator.throughput_test(options.batchsize), indent=1))
        return
    with np.load(options.inputfile, allow_pickle=False) as arrays:
        np.savez(options.outputfile, **accelerator.execute(dict(arrays)))


if __name__ == "__main__":
    main()
