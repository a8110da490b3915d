"""Steps of a user's own: how they are called, and what of their results counts as another model.

A step of Headrace is ``step(state, config) -> state``; one of FINN is ``step(model, cfg) -> model`` on a
``ModelWrapper`` of qonnx. Which of the two a function is, its first parameter tells.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.build.config import BuildConfig
from headrace.build.state import BuildState
from headrace.errors import InputError

if TYPE_CHECKING:
    from onnx import ModelProto


def run_own(
    name: str, function: Callable[..., Any], state: BuildState, config: BuildConfig
) -> tuple[BuildState, BuildConfig]:
    """State and configuration after a step of a user's own, which is given the folder under way as ``output_dir``.

    Raises:
        InputError: when it returns something else than a state or a model, or a model that comes too late; or when it
            changes the list of steps.
    """
    own = config.model_copy(update={"output_dir": str(state.folder), "folding_config_file": config.folding_file})
    given = _wrapped(name, state) if takes_model(function, config.finn_compatible) else state
    try:
        result = function(given, own)
    except Exception as error:
        if given is not state and state.design.reached("unfolded"):
            error.add_note(
                f"(Headrace, step '{name}': layers are no nodes of the model here. What a step did to FINN's layers is "
                "done by Headrace's steps and settings; leave it out of the list)"
            )
        raise
    return _with_settings(name, _after(name, result, state), config, own)


def _after(name: str, result: object, state: BuildState) -> BuildState:
    """The state that a step returned, or *state* with the model that it returned."""
    if isinstance(result, BuildState):
        return result
    proto = _proto(result)
    if proto is None:
        raise InputError(
            f"step '{name}' returned {type(result).__name__}; expected the state that it was given, or one made of it"
        )
    if _bytes_of(proto) == _bytes_of(state.model):
        return state
    if state.design.reached("unfolded") and same_function(state.model, proto):
        return state  # only names are other ones, which those of the layers come from
    return state.with_model(proto)


def _with_settings(
    name: str, state: BuildState, before: BuildConfig, after: BuildConfig
) -> tuple[BuildState, BuildConfig]:
    """*state* and the settings for the steps that follow, some of which a step may have changed."""
    changed = [
        field
        for field in type(before).model_fields
        if field not in ("output_dir", "folding_config_file") and getattr(before, field) != getattr(after, field)
    ]
    if after.folding_config_file != before.folding_file:
        changed.append("folding_config_file")
    if not changed:
        return state, before
    if late := [field for field in changed if field in _LIST]:
        raise InputError(f"step '{name}' changed the setting '{late[0]}' of a build that is under way")
    update: dict[str, Any] = {field: getattr(after, field) for field in changed}
    if "folding_config_file" in changed:
        update["folding"] = None
    config = before.model_copy(update=update).with_folding_read()
    state.note(f"changed settings: {', '.join(changed)}")
    named = config.model_copy(update={"name": state.design.config.name})
    return replace(state, design=state.design.with_config(named)), config


_LIST = ("steps", "start_step", "stop_step", "inject_steps_before", "inject_steps_after", "finn_compatible")
"""Settings that the steps of a build follow from."""


def takes_model(function: Callable[..., Any], finn_compatible: bool) -> bool:
    """Whether the first parameter of *function* is a ``ModelWrapper``.

    It is where it is annotated so, or called ``model``; in FINN's reading also where nothing says otherwise.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return finn_compatible
    if not parameters:
        return False
    annotation = parameters[0].annotation
    if annotation is inspect.Parameter.empty:
        return parameters[0].name == "model" or (finn_compatible and parameters[0].name != "state")
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return name.split(".")[-1].strip("'\"") == "ModelWrapper"


def _wrapped(name: str, state: BuildState) -> object:
    try:
        from qonnx.core.modelwrapper import ModelWrapper
    except ImportError as error:
        raise InputError(
            f"step '{name}' takes a ModelWrapper of qonnx, which is not installed; install the package qonnx"
        ) from error
    return ModelWrapper(state.model, make_deepcopy=True)


def _proto(result: object) -> ModelProto | None:
    from onnx import ModelProto

    from headrace.ingest import unwrapped

    found = unwrapped(result)  # type: ignore[arg-type]  # of unknown type until here
    return found if isinstance(found, ModelProto) else None


def same_function(one: ModelProto, other: ModelProto) -> bool:
    """Whether two models have the same operators, constants and types of inputs, whatever they are called."""
    return _digests(one) == _digests(other)


def _bytes_of(model: ModelProto) -> bytes:
    return bytes(model.SerializeToString(deterministic=True))


def _digests(model: ModelProto) -> list[str]:
    """A digest of what each output is computed by, from inputs that are told apart by their place: without names."""
    graph = model.graph
    types = {note.tensor_name: str(note.quant_parameter_tensor_names) for note in graph.quantization_annotation}
    found = {"": ""}
    for tensor in graph.initializer:
        found[tensor.name] = _digest(tensor.data_type, tuple(tensor.dims), _bytes(tensor), types.get(tensor.name))
    inputs = [value for value in graph.input if value.name not in found]
    for place, value in enumerate(inputs):
        found[value.name] = _digest(place, str(value.type), types.get(value.name))
    for node in graph.node:  # in the order of computation
        attributes = sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)
        read = [found.get(name, name) for name in node.input]
        for place, name in enumerate(node.output):
            found[name] = _digest(node.domain, node.op_type, attributes, read, place)
    return [found[value.name] for value in inputs] + [found.get(value.name, value.name) for value in graph.output]


def _digest(*content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()


def _bytes(tensor: Any) -> bytes:
    from onnx import numpy_helper

    return bytes(numpy_helper.to_array(tensor).tobytes())
