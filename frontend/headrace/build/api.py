"""``headrace.build`` and ``headrace.load``: what a user calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from headrace.build.config import CONFIG_FILE, BuildConfig, Folding, read_config
from headrace.build.design import Design
from headrace.build.journal import Journal
from headrace.build.output import MARKER, staged
from headrace.build.steps import STEPS, Build, fold
from headrace.codegen.design import Backend

if TYPE_CHECKING:
    from onnx import ModelProto

MODEL_COPY = "model.onnx"


class BuildSettings(TypedDict, total=False):
    """Keywords of :func:`build`; :class:`~headrace.build.config.BuildConfig` says what each means."""

    name: str | None
    target_fps: float | None
    clock_mhz: float
    folding: Path | str | Folding | None
    backend: Backend
    verify_frames: int
    seed: int


def load(model: str | Path | ModelProto) -> Design:
    """Read a model, or reopen a build.

    Args:
        model: a QONNX file, an ``onnx.ModelProto``, or the folder that an earlier :func:`build` wrote.

    Raises:
        ModelError: when it cannot be read or is not well formed.
        UnsupportedError: when it holds an operator that is not known.
    """
    design, _ = _read(model)
    return design


def build(
    model: str | Path | ModelProto,
    output_dir: str | Path,
    *,
    journal: Journal | None = None,
    **settings: Unpack[BuildSettings],
) -> Design:
    """Compile a model into a verified design on disk.

    Args:
        model: as for :func:`load`.
        output_dir: folder to write; it may be new, empty, or an earlier build, which is replaced once the new one is
            whole.
        journal: told of the steps.
        settings: ``name``, ``target_fps``, ``clock_mhz`` (default 200), ``folding`` (a FINN-style dictionary or JSON
            file), ``backend`` (``"rtl"``, ``"hls"`` or ``"both"``), ``verify_frames``, ``seed``.

    Returns:
        the design; ``design.run(feeds, mode="rtl")`` simulates it.

    Raises:
        ModelError, UnsupportedError: as for :func:`load`, or when no exact hardware exists.
        FoldingError: for PE or SIMD that do not divide.
        InputError: for a setting that is not known or an output folder that may not be replaced.
        VerificationError: when two stages of the compiler disagree.
    """
    config = BuildConfig.checked(**settings)
    folder = Path(output_dir)
    journal = journal or Journal()
    with staged(folder) as scratch:
        with journal.step("read") as note:
            read, proto = _read(model)
            note(f"{len(read.source)} nodes")
        design = Design(read.source, config.model_copy(update={"name": config.name or read.name}))
        job = Build(design, scratch, journal)
        for step in STEPS:
            with journal.step(step.__name__) as note:
                outcome = step(job)
                missed = design.shortfall if step is fold else ""
                note("; ".join(part for part in (outcome, missed) if part))
            if missed:
                journal.warn(missed)
        (scratch / MODEL_COPY).write_bytes(proto.SerializeToString())
        (scratch / "build.log").write_text(journal.text(), encoding="utf-8")
    design.folder = folder
    return design


def _read(model: str | Path | ModelProto) -> tuple[Design, ModelProto]:
    """The design as it was built, or the model alone; and the model's text."""
    from headrace.ingest import from_proto, read_onnx

    if not isinstance(model, str | Path):
        return Design(from_proto(model)), model
    path = Path(model)
    if not (path / MARKER).is_file():
        proto = read_onnx(path)
        return Design(from_proto(proto, str(path))), proto
    proto = read_onnx(path / MODEL_COPY)
    return Design(from_proto(proto, str(path / MODEL_COPY)), read_config(path / CONFIG_FILE), path), proto
