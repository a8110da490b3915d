"""What a step leaves for ``start_step``: the model, and the folding so far.

Everything else follows from these two without a choice, and is computed again. A checkpoint is a JSON text in
``intermediate_models/``, and an ONNX file where the model has changed. Beside them lie the graphs themselves, as
:meth:`headrace.ir.Graph.save` writes them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from headrace.bounded_text import kept_text
from headrace.build.config import BuildConfig
from headrace.build.design import Design
from headrace.build.journal import Journal
from headrace.build.state import BuildState
from headrace.build.verify import Comparison
from headrace.errors import FoldingError, InputError, ModelError
from headrace.schedule import connect, fold_by_file, write_folding

FOLDER = "intermediate_models"
FORMAT = "headrace-checkpoint"
VERSION = 1

GRAPHS = ("integer", "unfolded", "folded", "hardware")
"""Stages of a design that are graphs; see :data:`headrace.build.design.STAGES`."""


def save_checkpoint(before: BuildState, state: BuildState, step: str, lost: str = "") -> BuildState:
    """Keep *state* after *step*; returns it with the place of its model.

    Args:
        before: the state before the step; graphs that are the same are there.
        state: after the step.
        step: its name, which is the name of the file.
        lost: what of the state is not kept, one sentence; the state can then not be restored.
    """
    folder = state.folder / FOLDER
    folder.mkdir(exist_ok=True)
    if not state.model_file:
        state = replace(state, model_file=f"{step}.onnx")
        (folder / state.model_file).write_bytes(state.model.SerializeToString(deterministic=True))
    design = state.design
    data = {
        "format": FORMAT,
        "version": VERSION,
        "step": step,
        "model": state.model_file,
        "name": design.name,
        "folding": _folding(design) if design.reached("folded") else None,
        "connected": design.reached("hardware"),
        "notes": list(design.folded.notes) if design.reached("folded") else [],
        "comparisons": [asdict(c) for c in state.comparisons],
        "lost": lost,
    }
    (folder / f"{step}.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    _save_graphs(before.design, design, folder, step if lost else Path(state.model_file).stem)
    return state


def _folding(design: Design) -> dict[str, Any]:
    folded = design.folded
    kept = write_folding(folded.graph, folded.backends, folded.pixels, folded.fifos)
    return {key: dict(values) for key, values in kept.items()}


def _save_graphs(before: Design, design: Design, folder: Path, stem: str) -> None:
    """The graphs that the design has reached, as they are now: to look at, and to run with ``Graph.load``."""
    for stage in GRAPHS:
        if not design.reached(stage):
            continue
        path, same = folder / f"{stem}.{stage}.graph", before.reached(stage) and vars(before)[stage]
        if same is not vars(design)[stage] or not path.is_file():
            getattr(design, stage).graph.save(path)


def restore(folder: Path, step: str, config: BuildConfig, journal: Journal, file: Path) -> BuildState:
    """The state after *step* of the earlier build in *folder*; *file* is what messages call that build.

    Raises:
        InputError: when there is none that can be restored.
    """
    data = _read(folder / FOLDER / f"{step}.json", step, file)
    if lost := data.get("lost"):
        raise InputError(f"{file}: the result of step '{step}' was not kept: {lost}; start at an earlier step")
    from headrace.ingest import from_proto, read_onnx

    try:
        model_file = Path(data["model"]).name
        model = read_onnx(folder / FOLDER / model_file)
        named = config.model_copy(update={"name": config.name or data["name"]})
        design = Design(from_proto(model, str(file)), named, kept_folding=data["folding"])
        if data["folding"] is not None:
            folded = fold_by_file(design.unfolded, data["folding"], file=f"{step}.json")
            design = design.with_stage(folded=replace(folded, notes=tuple(data["notes"])))
        if data["connected"]:
            design = design.with_stage(hardware=connect(design.folded if data["folding"] else design.unfolded))
        comparisons = TypeAdapter(tuple[Comparison, ...]).validate_python(data["comparisons"])
    except (OSError, LookupError, TypeError, ValueError, AttributeError, FoldingError, ModelError) as error:
        raise InputError(f"{file}: the result of step '{step}' cannot be restored ({error}); build anew") from error
    return BuildState(model, design, folder, journal, comparisons, model_file)


def _read(path: Path, step: str, file: Path) -> dict[str, Any]:
    missing = f"{file}: no result of step '{step}' to start from; build up to it with stop_step='{step}' first"
    try:
        data = json.loads(kept_text(path))
    except OSError as error:
        raise InputError(missing) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: the result of step '{step}' is not JSON; build anew") from error
    if not isinstance(data, dict) or (data.get("format"), data.get("version")) != (FORMAT, VERSION):
        raise InputError(f"{file}: the result of step '{step}' is of another version of Headrace; build anew")
    return data
