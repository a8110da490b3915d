"""The list of steps of a build: found by name, phases spread out, injected steps in their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.build.config import BuildConfig, step_name
from headrace.build.finn_steps import build_dataflow_step_lookup
from headrace.build.steps import STEPS, Step
from headrace.build.vocabulary import PHASES, default_build_dataflow_steps
from headrace.errors import InputError, did_you_mean

OURS = frozenset((*STEPS, *build_dataflow_step_lookup.values()))
"""The functions that are no user's."""


@dataclass(frozen=True)
class NamedStep:
    """A step, and what it is called."""

    name: str
    function: Callable[..., Any]
    own: bool
    """Whether it is a user's."""


def known_steps() -> dict[str, Step]:
    """Steps that have a name: those of Headrace, those of FINN, and what users put into FINN's table."""
    return {**{step.__name__: step for step in STEPS}, **build_dataflow_step_lookup}


def resolve_steps(config: BuildConfig) -> list[NamedStep]:
    """The steps of a build, all of them.

    Raises:
        InputError: for a name that is not known, or one that is there twice.
    """
    default: Sequence[str | Step] = default_build_dataflow_steps if config.finn_compatible else STEPS
    asked = default if config.steps is None else config.steps
    injected = (config.inject_steps_before or {}, config.inject_steps_after or {})
    found: list[NamedStep] = []
    for step in (inner for outer in asked for inner in _spread(outer, *injected)):
        named = _named(step)
        same = sum(other.name == named.name or other.name.startswith(f"{named.name}_again") for other in found)
        if same and not config.finn_compatible:
            raise InputError(
                f"setting 'steps': two steps are called '{named.name}'; every step needs a name of its own"
            )
        name = f"{named.name}_again{same if same > 1 else ''}" if same else named.name
        found.append(NamedStep(name, named.function, named.own))
    if not found:
        raise InputError("setting 'steps': the list is empty")
    _check_injected(config, [*map(step_name, asked), *(step.name for step in found)])
    return found


def _spread(
    step: str | Callable[..., Any], before: Mapping[str, Sequence[Any]], after: Mapping[str, Sequence[Any]]
) -> Iterator[str | Callable[..., Any]]:
    """*step*, or the steps of a phase of FINN, with what is injected around."""
    name = step_name(step)
    yield from before.get(name, ())
    if isinstance(step, str) and step in PHASES:
        for inner in PHASES[step]:
            yield from _spread(inner, before, after)
    else:
        yield step
    yield from after.get(name, ())


def _named(step: str | Callable[..., Any]) -> NamedStep:
    name, known = step_name(step), known_steps()
    if isinstance(step, str) and step not in known:
        if "." in step:
            raise InputError(
                f"setting 'steps': '{step}' is a function of a Python module, which is not imported by its name as in "
                "FINN+; import it in a build script, and put the function itself into the list"
            )
        hint = did_you_mean(step, known)
        raise InputError(f"setting 'steps': there is no step '{step}'{hint}; known: {', '.join([*known, *PHASES])}")
    if not name.isidentifier():
        raise InputError(f"setting 'steps': {name!r} is not the name of a function; define the step with def")
    function = known[step] if isinstance(step, str) else step
    return NamedStep(name, function, function not in OURS)


def _check_injected(config: BuildConfig, names: Sequence[str]) -> None:
    for setting in ("inject_steps_before", "inject_steps_after"):
        for key in getattr(config, setting) or {}:
            if key not in names:
                hint = did_you_mean(key, names)
                raise InputError(
                    f"setting '{setting}': there is no step '{key}'{hint} in this build: {', '.join(names)}"
                )


def first_and_last(config: BuildConfig, steps: Sequence[NamedStep]) -> tuple[int, int]:
    """Positions of the first and of the last step to run; a phase of FINN starts and stops with its steps.

    Raises:
        InputError: when ``start_step`` or ``stop_step`` is no step, or they are in the wrong order.
    """
    names = [step.name for step in steps]
    first, last = 0, len(names) - 1
    for setting, end in (("start_step", 0), ("stop_step", -1)):
        wanted = getattr(config, setting)
        if wanted is None:
            continue
        inner = [name for name in PHASES.get(wanted, (wanted,)) if name in names]
        if not inner:
            hint = did_you_mean(wanted, names)
            raise InputError(
                f"setting '{setting}': there is no step '{wanted}'{hint} in this build: {', '.join(names)}"
            )
        place = names.index(inner[end])
        first, last = (place, last) if setting == "start_step" else (first, place)
    if last < first:
        raise InputError(f"setting 'stop_step': '{names[last]}' comes before 'start_step', '{names[first]}'")
    return first, last


def resolve_build_steps(cfg: BuildConfig, partial: bool = True) -> list[Callable[..., Any]]:
    """FINN's way to ask for the steps of a build, as functions; *partial* heeds ``start_step`` and ``stop_step``.

    Raises:
        InputError: as a build would.
    """
    steps = resolve_steps(cfg)
    first, last = first_and_last(cfg, steps) if partial else (0, len(steps) - 1)
    return [step.function for step in steps[first : last + 1]]
