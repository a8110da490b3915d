"""Comparison with the output that a user expects: FINN's ``verify_steps``.

What a stage gives is written to ``verification_output/``, a file a frame. Values must be equal. In FINN's reading, real
outputs that another executor computed may differ by less than ``verification_atol``, as they may there, but never in
silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from headrace.build.arrays import check_feeds, plain_arrays, read_array, read_arrays, write_array, write_arrays
from headrace.build.config import VALIDATED, BuildConfig
from headrace.build.design import Design
from headrace.build.simulate import Simulation
from headrace.build.state import BuildState
from headrace.build.verify import Comparison, compare, compare_simulation
from headrace.build.vocabulary import VerificationStepType as Kind
from headrace.errors import InputError, VerificationError
from headrace.ir import Array, FloatType, Graph
from headrace.schedule import connect

FOLDER = "verification_output"

Arrays = dict[str, Array]
Results = tuple[Arrays, Arrays]
"""The outputs of a model, and tensors inside."""


def check_expected(state: BuildState, config: BuildConfig, *kinds: Kind) -> BuildState:
    """Compare with the expected output at those of *kinds* that the configuration lists.

    Raises:
        InputError: when a file is missing or does not fit the model.
        VerificationError: at the first value that differs.
    """
    for kind in kinds:
        if kind in (config.verify_steps or ()):
            state = _check(state, config, kind)
    return state


def _check(state: BuildState, config: BuildConfig, kind: Kind) -> BuildState:
    source = state.design.source
    feeds, expected = read_pair(config, source)
    outputs, inside = _RUNS[kind](state, config, feeds)
    comparisons = list(state.comparisons)
    try:
        for name, values in expected.items():
            found = _compare(state, config, kind, name, values, outputs[name])
            comparisons.append(replace(found, data="expected", simulated=_SIMULATED.get(kind, "")))
    except VerificationError:
        _write(state, config, kind, outputs, inside, expected)
        raise
    _write(state, config, kind, outputs, inside, {})
    state.note(f"{kind}: equal to the expected output in {len(next(iter(outputs.values()))):,} frames")
    return replace(state, comparisons=tuple(comparisons))


def read_pair(config: BuildConfig, source: Graph) -> tuple[Arrays, Arrays]:
    """Inputs and expected outputs by name, in the shapes of the model.

    Raises:
        InputError: when a file is missing, cannot be read or does not fit.
    """
    inputs, outputs = expected_files(config)
    checked = read_frames(inputs, source)
    expected = {
        name: _shaped(array, source.types(source.output_node(name))[0].shape, outputs)
        for name, array in _named(outputs, source.outputs).items()
    }
    frames = len(next(iter(checked.values())))
    for array in expected.values():
        if len(array) != frames:
            raise InputError(f"{outputs}: holds {len(array)} frames, but {inputs} holds {frames}")
    return checked, expected


def read_frames(path: Path, source: Graph) -> Arrays:
    """Inputs of a model by name, in its shapes, from an ``.npz`` file, or an ``.npy`` file where there is one.

    Raises:
        InputError: when the file is missing, cannot be read or does not fit.
    """
    found = _named(path, source.inputs).items()
    feeds = {name: _fitting(array, source, source.input_node(name), path) for name, array in found}
    return check_feeds(source, feeds, str(path))


def expected_files(config: BuildConfig) -> tuple[Path, Path]:
    """The files with inputs and expected outputs.

    Raises:
        InputError: when one is not named, or not there.
    """
    inputs, outputs = config.verify_input_npy, config.verify_expected_output_npy
    if inputs is None or outputs is None:
        raise InputError("setting 'verify_steps' needs 'verify_input_npy' and 'verify_expected_output_npy'")
    return _there(inputs, outputs)


def validation_files(config: BuildConfig) -> tuple[Path, Path] | None:
    """The files with labelled frames and their classes, or None where the configuration names none.

    Raises:
        InputError: when only one of them is named, one is not there, or none is named and other settings are for them.
    """
    inputs, labels = config.validation_input_npy, config.validation_labels_npy
    if inputs is None and labels is None:
        if config.validation_reference is not None or config.validation_rtlsim_frames != VALIDATED:
            name = "validation_rtlsim_frames" if config.validation_reference is None else "validation_reference"
            raise InputError(
                f"setting '{name}' is for frames of known class, and there are none; give 'validation_input_npy' and "
                "'validation_labels_npy', too"
            )
        return None
    if inputs is None or labels is None:
        raise InputError("settings 'validation_input_npy' and 'validation_labels_npy' go together; only one is given")
    return _there(inputs, labels)


def _there(one: str, other: str) -> tuple[Path, Path]:
    """Two files of arrays, which must be there."""
    for path in (one, other):
        if not Path(path).is_file():
            raise InputError(f"{path}: no such file; expected an .npy or .npz file of arrays")
    return Path(one), Path(other)


def _named(path: Path, names: tuple[str, ...]) -> Arrays:
    """The arrays of a file by name: several in an ``.npz``, the only one in an ``.npy``."""
    if path.suffix == ".npz":
        found = read_arrays(path)
        if set(found) != set(names):
            raise InputError(f"{path}: holds {', '.join(sorted(found))}; the model has {', '.join(names)}")
        return found
    if len(names) != 1:
        raise InputError(
            f"{path}: one array, but the model has {', '.join(names)}; give an .npz file with each by name"
        )
    return {names[0]: read_array(path)}


def _shaped(array: Array, shape: tuple[int, ...], path: Path) -> Array:
    """*array* as ``(frames, *shape)``, where its elements are in that order already."""
    if array.shape[1:] == shape:
        return array
    frames = len(array) if array.ndim else 0
    if frames == 0 or array.size != frames * int(np.prod(shape)):
        raise InputError(f"{path}: holds an array {list(array.shape)}; expected {['frames', *shape]}")
    return array.reshape(frames, *shape)


def _fitting(array: Array, source: Graph, node: str, path: Path) -> Array:
    """An input in the shape of the model; whole numbers become the type that the model takes."""
    kind = source.types(node)[0]
    shaped = _shaped(array, kind.shape, path)
    wanted = np.float32 if isinstance(kind.element, FloatType) else np.int64
    with np.errstate(invalid="ignore"):
        converted = shaped.astype(wanted)
    return converted if np.array_equal(converted, shaped) else shaped


def _compare(state: BuildState, config: BuildConfig, kind: Kind, name: str, expected: Array, got: Array) -> Comparison:
    stages = f"expected output = {kind}"
    tolerance = config.verification_atol or 0.0
    close = np.issubdtype(got.dtype, np.floating) and np.allclose(got, expected, rtol=1e-5, atol=tolerance)
    different = int((got != expected).sum())
    if config.finn_compatible and close and different:
        worst = float(np.abs(got.astype(np.float64) - expected).max())
        state.journal.warn(
            f"{kind}: {different:,} of {got.size:,} values of '{name}' differ from the expected output, by at most "
            f"{worst:.2g}; verification_atol={tolerance:g} accepts that. Who computed it did not compute as the "
            "hardware does"
        )
        return Comparison(f"{stages}, to {tolerance:g}", name, len(got), int(got.size))
    return compare(stages, name, expected, got)


def _write(state: BuildState, config: BuildConfig, kind: Kind, outputs: Arrays, inside: Arrays, missed: Arrays) -> None:
    """A file a frame; one whose outputs are not those in *missed* is a failure."""
    folder = state.folder / FOLDER
    folder.mkdir(exist_ok=True)
    for frame in range(len(next(iter(outputs.values())))):
        equal = all(np.array_equal(outputs[name][frame], values[frame]) for name, values in missed.items())
        stem = f"verify_{kind}_{frame}_{'SUCCESS' if equal else 'FAIL'}"
        if config.verify_save_full_context or len(outputs) > 1:
            every = {**inside, **outputs} if config.verify_save_full_context else outputs
            write_arrays(folder / f"{stem}.npz", {name: a[frame : frame + 1] for name, a in every.items()})
        else:
            (only,) = outputs.values()
            write_array(folder / f"{stem}.npy", only[frame : frame + 1])


# -- the stages -----------------------------------------------------------------------------------------------------


def _run_graph(state: BuildState, config: BuildConfig, feeds: Arrays, graph: Graph) -> Results:
    with np.errstate(all="ignore"):
        values = plain_arrays(graph.values(feeds, list(graph))) if config.verify_save_full_context else {}
    mode = "float" if graph is state.design.source else "integer"
    return state.design.run(feeds, mode=mode), values  # type: ignore[arg-type]  # a literal, not any text


def _float(state: BuildState, config: BuildConfig, feeds: Arrays) -> Results:
    return _run_graph(state, config, feeds, state.design.source)


def _integer(state: BuildState, config: BuildConfig, feeds: Arrays) -> Results:
    return _run_graph(state, config, feeds, state.design.integer.graph)


def _cppsim(state: BuildState, config: BuildConfig, feeds: Arrays) -> Results:
    design = state.design.with_stage(hardware=connect(state.design.folded))
    simulation = design.csim(feeds, trace=bool(config.verify_save_full_context), journal=state.journal)
    return simulation.outputs, simulation.result.streams


def _rtlsim(state: BuildState, config: BuildConfig, feeds: Arrays) -> Results:
    simulation = simulated(state.design, feeds, state, config, f"{FOLDER}/verify_rtlsim.vcd")
    return simulation.outputs, simulation.result.streams


def _node_by_node(state: BuildState, config: BuildConfig, feeds: Arrays) -> Results:
    design = state.design
    simulation = simulated(design, feeds, state, config, f"{FOLDER}/verify_node_by_node.vcd")
    compare_simulation(design, feeds, simulation)
    return simulation.outputs, simulation.result.streams


def simulated(
    design: Design, feeds: Mapping[str, Array], state: BuildState, config: BuildConfig, waves: str
) -> Simulation:
    """The RTL simulated with every stream traced, as the configuration says; a waveform goes to *waves* if any."""
    options: dict[str, object] = {}
    if config.verify_save_rtlsim_waveforms:
        path = state.folder / waves
        path.parent.mkdir(parents=True, exist_ok=True)
        options["waves"] = path
    engine = "cocotb" if config.force_python_rtlsim else "cpp"
    return design.simulate(feeds, engine=engine, journal=state.journal, trace=True, **options)  # type: ignore[arg-type]


_SIMULATED = {
    Kind.FOLDED_HLS_CPPSIM: "C++",
    Kind.NODE_BY_NODE_RTLSIM: "SystemVerilog",
    Kind.STITCHED_IP_RTLSIM: "SystemVerilog",
}

_RUNS: dict[Kind, Callable[[BuildState, BuildConfig, Arrays], Results]] = {
    Kind.QONNX_TO_FINN_PYTHON: _float,
    Kind.TIDY_UP_PYTHON: _float,
    Kind.STREAMLINED_PYTHON: _integer,
    Kind.FOLDED_HLS_CPPSIM: _cppsim,
    Kind.NODE_BY_NODE_RTLSIM: _node_by_node,
    Kind.STITCHED_IP_RTLSIM: _rtlsim,
}
