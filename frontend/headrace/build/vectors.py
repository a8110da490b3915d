"""Vectors for an RTL regression: integers at the boundary of the design, and what its streams must carry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.build.verify import random_frames
from headrace.errors import InputError
from headrace.ir import Array
from headrace.whole_files import output_file

if TYPE_CHECKING:
    from headrace.build.design import Design


def write_vectors(
    design: Design, path: Path, feeds: Mapping[str, Array] | None, frames: int, seed: int, streams: bool
) -> None:
    """Write what the hardware of *design* is given for *feeds* (or random frames), and what it must give.

    The file is read by ``headrace_sim.read_vectors``.

    Args:
        design: with RTL or not; the expected values are computed, not simulated.
        path: the ``.npz`` file.
        feeds: checked arrays for the model's inputs; random frames when None.
        frames: number of these.
        seed: of these.
        streams: whether the words on every inner stream are expected as well.

    Raises:
        InputError: when the file cannot be written.
    """
    from headrace_sim import Vectors
    from headrace_sim import write_vectors as write

    given = random_frames(design.source, frames, seed) if feeds is None else feeds
    packed = design.hardware.pack_frames(design.core_feeds(given))
    by_node = {port.node: packed[port.name].reshape(-1, *port.layout.frame) for port in design.hardware.inputs}
    inner: dict[str, Array] = {}

    def observe(node: str, arrays: tuple[Array, ...]) -> None:
        for port, values in enumerate(arrays):
            if streams and (node, port) in design.plan.streams:
                inner[design.plan.streams[node, port]] = values.reshape(len(values), -1)

    outputs = design.hardware.graph.run(by_node, observe=observe)
    expected = {port.name: outputs[port.node].reshape(len(outputs[port.node]), -1) for port in design.hardware.outputs}
    try:
        with output_file(path) as file:
            write(file, Vectors(packed, {**inner, **expected}))
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
