"""Images a CPU second of the integer graph, of qonnx's executor on the same file, of onnxruntime on the float network.

    python benchmarks/integer_graph.py [cnv-w2a2|cnv-w1a1|tfc-w2a2|mobilenet-w4a4|resnet50-w4a4] [--batch N]

All on one thread. The integer graph is exact; onnxruntime runs the network of the same shape without quantizers, which
is as fast as floating point gets on this machine.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import argparse
import time
from collections.abc import Callable
from functools import partial

import networks
import numpy as np
import onnx

from headrace.ingest import from_proto
from headrace.ir import Array
from headrace.passes import to_integer

NETWORKS: dict[str, Callable[..., onnx.ModelProto]] = {
    "cnv-w2a2": partial(networks.cnv, 2, 2),
    "cnv-w1a1": partial(networks.cnv, 1, 1),
    "tfc-w2a2": partial(networks.tfc, 2, 2),
    "mobilenet-w4a4": networks.mobilenet,
    "resnet50-w4a4": networks.resnet50,
}
SHORTEST = 2.0
"""CPU seconds that every executor runs at least."""


def images_per_second(run: Callable[[], object], images: int) -> float:
    """Of *run*, which takes so many images, after a first call that counts for nothing."""
    run()
    start, calls = time.process_time(), 0
    while calls == 0 or time.process_time() - start < SHORTEST:
        run()
        calls += 1
    return calls * images / (time.process_time() - start)


def qonnx_executor(model: onnx.ModelProto, image: Array) -> Callable[[], object]:
    """qonnx's ``execute_onnx`` on one image, after its own clean-up."""
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.util.cleanup import cleanup_model

    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    wrapped = cleanup_model(ModelWrapper(model))
    return partial(execute_onnx, wrapped, {wrapped.graph.input[0].name: image})


def float_session(model: onnx.ModelProto, batch: Array) -> Callable[[], object]:
    """onnxruntime with all its optimisations on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return partial(session.run, None, {"x": batch})


def measure(name: str, size: int) -> None:
    """Print the three figures and the two ratios for one network."""
    build = NETWORKS[name]
    model = build()
    graph = to_integer(from_proto(model)).graph
    shape = tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)[1:]
    batch = np.random.default_rng(0).uniform(-1, 1, (size, *shape)).astype(np.float32)
    ours = images_per_second(lambda: graph.run({"x": batch}), size)
    executor = images_per_second(qonnx_executor(build(), batch[:1]), 1)
    plain = images_per_second(float_session(build(quantized=False), batch), size)
    print(
        f"{name}: integer graph {ours:,.1f} images/s; qonnx execute_onnx {executor:.1f} ({ours / executor:.0f}x); "
        f"onnxruntime, float {plain:,.0f} ({ours / plain:.2f}x)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", help=f"any of {', '.join(NETWORKS)}; the first when none is given")
    parser.add_argument("--batch", type=int, default=64, help="images at a time")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.networks if name not in NETWORKS]
    if unknown:
        parser.error(f"no network '{unknown[0]}'; there are: {', '.join(NETWORKS)}")
    for name in arguments.networks or list(NETWORKS)[:1]:
        measure(name, arguments.batch)


if __name__ == "__main__":
    main()
