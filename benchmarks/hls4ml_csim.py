"""C simulation of one model by hls4ml, for ``hls_csim.py``, which may run this with another interpreter.

    python benchmarks/hls4ml_csim.py MODEL.onnx FRAMES.npz FOLDER

``FRAMES.npz`` holds the frames ``x`` and the outputs ``expected``. Vivado backend, ``io_parallel``, precisions from the
model. Prints one line of JSON: seconds to compile, images a second, and the share of outputs that are exact; or what it
raised, as that is its result for a model that it does not take. Imports nothing of Headrace.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import hls4ml
import numpy as np
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.util.cleanup import cleanup_model


def child_seconds() -> float:
    """CPU time of the processes that this one has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(model: str, frames: str, folder: str) -> dict[str, float]:
    """Convert, compile, predict."""
    with np.load(frames) as archive:
        x, expected = archive["x"], archive["expected"]
    wrapped = cleanup_model(ModelWrapper(model))
    config = hls4ml.utils.config_from_onnx_model(wrapped, granularity="name", backend="Vivado")
    project = hls4ml.converters.convert_from_onnx_model(
        wrapped, output_dir=folder, io_type="io_parallel", backend="Vivado", hls_config=config
    )
    start = child_seconds()
    project.compile()
    compiled = child_seconds() - start
    start = time.process_time()
    got = np.asarray(project.predict(np.ascontiguousarray(x))).reshape(expected.shape)
    running = time.process_time() - start
    return {"compile": compiled, "rate": len(x) / running, "exact": float((got == expected).mean())}


def main() -> None:
    try:
        result: dict[str, object] = {**measure(*sys.argv[1:4])}
    except Exception as error:  # whatever it raises for a model that it does not take is its result
        result = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
