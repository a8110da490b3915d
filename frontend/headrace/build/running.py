"""Runs the steps of a build: finds them by name, times them, keeps what they leave, and checks what they return."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from headrace.bounded_text import kept_text
from headrace.build.checkpoint import restore, save_checkpoint
from headrace.build.config import BuildConfig
from headrace.build.design import STAGES
from headrace.build.expected import FOLDER as OUTPUT
from headrace.build.expected import expected_files, validation_files
from headrace.build.journal import Journal
from headrace.build.own_steps import run_own
from headrace.build.state import BuildState
from headrace.build.step_list import first_and_last, resolve_steps
from headrace.build.steps import lower
from headrace.build.vendor import check_board, part_of
from headrace.build.vocabulary import STEP_OF, DataflowOutputType
from headrace.codegen.design import check_counters
from headrace.schedule import read_folding

TIMES_FILE = "time_per_step.json"

_KEPT = ("integer", "parts", "unfolded", "hardware", "performance", "plan")
"""Stages that a checkpoint does not hold: they follow from the model and the folding."""


def check_settings(config: BuildConfig) -> None:
    """Refuse what can be seen to be wrong before a model is read.

    Raises:
        InputError: for a step, a board or a part that is not known, a file to verify with that is not there, or
            settings that exclude each other.
        FoldingError: for a part or resource to fit that is not known, or a file of layers that cannot be read.
    """
    first_and_last(config, resolve_steps(config))
    _ = config.goal
    if config.specialize_layers_config_file is not None:
        read_folding(config.specialize_layers_config_file)
    check_counters(config.performance_counters, config.backend)
    check_board(config.board)
    if DataflowOutputType.STITCHED_IP in config.generate_outputs:
        part_of(config)
    if config.verify_steps:
        expected_files(config)
    validation_files(config)


def run_steps(state: BuildState, config: BuildConfig) -> BuildState:
    """Run the steps between ``start_step`` and ``stop_step``.

    Raises:
        HeadraceError: what a step raises; or when one returns something else than a state.
    """
    steps = resolve_steps(config)
    first, last = first_and_last(config, steps)
    lost = ""
    times = _earlier_times(state.folder) if first else {}
    for number, step in enumerate(steps[first : last + 1]):
        state.journal.overall(number, last + 1 - first)
        with state.journal.step(step.name):
            before = state
            if step.own:
                state, config = run_own(step.name, step.function, state, config)
                state = _with_layers(before, state, config)
            else:
                state = step.function(state, config)
                if state is before:
                    state.journal.note_nothing()
        times[step.name] = round(state.journal.records[-1].seconds, 6)
        if step.own and _changed(before, state):
            lost = lost or f"step '{step.name}' changed it in its own way"
        if config.save_intermediate_models:
            state = save_checkpoint(before, state, step.name, lost)
    state.write_json(TIMES_FILE, times)
    if last + 1 == len(steps):
        _warn_of_unchecked(state, config)
    return state


def _with_layers(before: BuildState, after: BuildState, config: BuildConfig) -> BuildState:
    """*after* with the layers of its model, where those of the model *before* were there already."""
    lost = before.design.reached("unfolded") and not after.design.reached("unfolded")
    return lower(after, config) if lost else after


def _warn_of_unchecked(state: BuildState, config: BuildConfig) -> None:
    """Say which comparisons with the expected output no step has made."""
    for kind in config.verify_steps or ():
        if not any((state.folder / OUTPUT).glob(f"verify_{kind}_*")):
            state.journal.warn(
                f"verify_steps: '{kind}' was not compared: '{STEP_OF[kind][config.finn_compatible]}', which does it, "
                "is not in the list of steps"
            )


def resumed(folder: Path, config: BuildConfig, journal: Journal, file: Path) -> BuildState | None:
    """The state before ``start_step``, from what the earlier build in *folder* kept; None when it is the first step.

    Raises:
        InputError: when it was not kept; *file* is what the message calls the build.
    """
    steps = resolve_steps(config)
    first, _ = first_and_last(config, steps)
    return restore(folder, steps[first - 1].name, config, journal, file) if first else None


def _changed(before: BuildState, after: BuildState) -> bool:
    """Whether a stage that was there, or that follows from nothing, is now another."""
    if before.model is not after.model:
        return False
    old, new = vars(before.design), vars(after.design)
    known = [stage for stage in _KEPT if stage in old and stage in new]
    given = {stage for stage in STAGES if stage in after.design.given} - {"folded"}
    return any(old[stage] is not new[stage] for stage in known) or bool(given - before.design.given)


def _earlier_times(folder: Path) -> dict[str, float]:
    try:
        return TypeAdapter(dict[str, float]).validate_json(kept_text(folder / TIMES_FILE))
    except (OSError, ValueError):
        return {}
