"""Writes what a project for FINN has beside its build script: model, folding file, input and expected output.

python -m finn_build.prepare FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx

from third_party_model.demo import execute
from third_party_model.make import SIZE, by_hand

FOLDING = {
    "Defaults": {},
    "MVAU_hls_0": {"PE": 2, "SIMD": 9, "ram_style": "auto", "mem_mode": "internal_decoupled"},
    "MVAU_hls_1": {"PE": 2, "SIMD": 4, "ram_style": "distributed"},
}
"""As FINN writes it; what is said of memories has no effect here, and a warning says so."""


def main(folder: Path) -> None:
    """Fill *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(by_hand(), folder / "model.onnx")
    (folder / "folding.json").write_text(json.dumps(FOLDING, indent=2))
    image = np.random.default_rng(2).normal(0, 1, (1, 1, SIZE, SIZE)).astype(np.float32)
    np.save(folder / "input.npy", image)
    np.save(folder / "expected_output.npy", execute(folder / "model.onnx", image)[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
