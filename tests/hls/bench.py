"""Many layers side by side in one C++ project, each between its own AXI4-Stream ports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from layers.conformance import input_names, output_names

from headrace.codegen.hls import assemble_hls, compiled_files, render_hls
from headrace.codegen.names import Namespace
from headrace.codegen.top import Boundary, Instance, Top, Wire
from headrace.ir import Value
from headrace.layers import Layer
from headrace_sim.manifest import Manifest, Port


def top_of(layers: Mapping[str, Layer], name: str = "bench") -> Top:
    """A top in which nothing is connected but the ports of each layer."""
    names = Namespace()
    inputs: list[Boundary] = []
    outputs: list[Boundary] = []
    wires: list[Wire] = []
    instances: list[Instance] = []
    for case, layer in layers.items():
        module = names.new(case)
        reads, writes = [], []
        for k, stream in enumerate(layer.inputs):
            reads.append(f"input{len(inputs)}")
            inputs.append(Boundary(f"s_axis_{len(inputs)}", input_names(case, layer)[k], stream, reads[-1]))
        for k, stream in enumerate(layer.outputs):
            writes.append(f"s_{module}_out{k}")
            wires.append(Wire(writes[-1], f"{case}.wire{k}", Value(case, k), stream))
            outputs.append(Boundary(f"m_axis_{len(outputs)}", output_names(case, layer)[k], stream, writes[-1]))
        instances.append(Instance(case, layer, f"bench_{module}", f"i_{module}", tuple(reads), tuple(writes)))
    return Top(name, tuple(inputs), tuple(outputs), tuple(wires), tuple(instances))


def build_bench(layers: Mapping[str, Layer], folder: Path, own_types: bool = True) -> Manifest:
    """Write the C++ of all *layers* into *folder*, perhaps without the ap types for simulation."""
    hls = assemble_hls(top_of(layers))
    files = render_hls(hls, "bench")
    if not own_types:
        del files["hls/sim/ap_int.h"]
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return Manifest(
        root=folder,
        name="bench",
        top="bench",
        sources=(),
        inputs=tuple(map(_port, hls.inputs)),
        outputs=tuple(map(_port, hls.outputs)),
        hls=tuple(compiled_files(files)),
    )


def _port(boundary: Boundary) -> Port:
    stream = boundary.stream
    return Port(
        port=boundary.port,
        tensor=boundary.tensor,
        bits=stream.bits,
        encoding=stream.range.encoding,
        elements_per_word=stream.elements,
        frame_elements=stream.frame_elements,
        tdata_bits=8 * boundary.bytes,
    )
