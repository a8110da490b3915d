"""Runs the steps of a build: finds them by name, times them, keeps what they leave, and checks what they return."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from headrace.build.checkpoint import restore, save_checkpoint
from headrace.build.config import BuildConfig, step_name
from headrace.build.design import STAGES
from headrace.build.expected import expected_files, validation_files
from headrace.build.finn_steps import build_dataflow_step_lookup
from headrace.build.journal import Journal
from headrace.build.state import BuildState
from headrace.build.steps import STEPS, Step
from headrace.build.vendor import check_board, part_of
from headrace.build.vocabulary import DataflowOutputType, default_build_dataflow_steps
from headrace.codegen.design import check_counters
from headrace.errors import InputError, did_you_mean
from headrace.schedule import read_folding

TIMES_FILE = "time_per_step.json"

KNOWN: dict[str, Step] = {**{step.__name__: step for step in STEPS}, **build_dataflow_step_lookup}
"""Steps that have a name: those of Headrace and those of FINN."""

_KEPT = ("integer", "parts", "unfolded", "hardware", "performance", "plan")
"""Stages that a checkpoint does not hold: they follow from the model and the folding."""


@dataclass(frozen=True)
class NamedStep:
    """A step, and what it is called."""

    name: str
    function: Step
    own: bool
    """Whether it is a user's."""


def resolve_steps(config: BuildConfig) -> list[NamedStep]:
    """The steps of a build, all of them.

    Raises:
        InputError: for a name that is not known, or one that is there twice.
    """
    default: Sequence[str | Step] = default_build_dataflow_steps if config.finn_compatible else STEPS
    found: list[NamedStep] = []
    for step in default if config.steps is None else config.steps:
        name = step_name(step)
        if isinstance(step, str) and step not in KNOWN:
            hint = did_you_mean(step, KNOWN)
            raise InputError(f"setting 'steps': there is no step '{step}'{hint}; known: {', '.join(KNOWN)}")
        if any(name == other.name for other in found):
            raise InputError(f"setting 'steps': two steps are called '{name}'; every step needs a name of its own")
        if not name.isidentifier():
            raise InputError(f"setting 'steps': {name!r} is not the name of a function; define the step with def")
        function = KNOWN[step] if isinstance(step, str) else step
        found.append(NamedStep(name, function, function not in KNOWN.values()))
    if not found:
        raise InputError("setting 'steps': the list is empty")
    return found


def first_and_last(config: BuildConfig, steps: Sequence[NamedStep]) -> tuple[int, int]:
    """Positions of the first and of the last step to run.

    Raises:
        InputError: when ``start_step`` or ``stop_step`` is no step, or they are in the wrong order.
    """
    names = [step.name for step in steps]
    for setting in ("start_step", "stop_step"):
        wanted = getattr(config, setting)
        if wanted is not None and wanted not in names:
            hint = did_you_mean(wanted, names)
            raise InputError(
                f"setting '{setting}': there is no step '{wanted}'{hint} in this build: {', '.join(names)}"
            )
    first = 0 if config.start_step is None else names.index(config.start_step)
    last = len(names) - 1 if config.stop_step is None else names.index(config.stop_step)
    if last < first:
        raise InputError(f"setting 'stop_step': '{names[last]}' comes before 'start_step', '{names[first]}'")
    return first, last


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
            state = _checked(step, as_step(step.function)(state, config), state)
        times[step.name] = round(state.journal.records[-1].seconds, 6)
        if step.own and _changed(before, state):
            lost = lost or f"step '{step.name}' changed it in its own way"
        if config.save_intermediate_models:
            state = save_checkpoint(before, state, step.name, lost)
    state.write_json(TIMES_FILE, times)
    return state


def resumed(folder: Path, config: BuildConfig, journal: Journal, file: Path) -> BuildState | None:
    """The state before ``start_step``, from what the earlier build in *folder* kept; None when it is the first step.

    Raises:
        InputError: when it was not kept; *file* is what the message calls the build.
    """
    steps = resolve_steps(config)
    first, _ = first_and_last(config, steps)
    return restore(folder, steps[first - 1].name, config, journal, file) if first else None


def as_step(function: Callable[..., Any]) -> Callable[[BuildState, BuildConfig], object]:
    """*function* as a step; one whose first parameter is a ``ModelWrapper`` of qonnx is given the model as that."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return function
    annotation = parameters[0].annotation if parameters else None
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if name.split(".")[-1] != "ModelWrapper":
        return function

    def on_model(state: BuildState, config: BuildConfig) -> object:
        from qonnx.core.modelwrapper import ModelWrapper

        return function(ModelWrapper(state.model, make_deepcopy=True), config)

    return on_model


def _checked(step: NamedStep, result: object, before: BuildState) -> BuildState:
    """The state that a step returned, or the one with the model that it returned."""
    from onnx import ModelProto

    from headrace.ingest import unwrapped

    if isinstance(result, BuildState):
        return result
    if isinstance(proto := unwrapped(result), ModelProto):  # type: ignore[arg-type]  # of unknown type until here
        return before.with_model(proto)
    raise InputError(
        f"step '{step.name}' returned {type(result).__name__}; expected the state that it was given, or one made of it"
    )


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
        return TypeAdapter(dict[str, float]).validate_json((folder / TIMES_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
