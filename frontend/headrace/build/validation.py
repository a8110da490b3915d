"""Top-1 accuracy on labelled frames: of the model, of its integer network, and of what is generated, simulated."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from headrace.bounded_text import kept_text
from headrace.build.arrays import check_feeds, read_array, read_arrays
from headrace.build.config import VALIDATED
from headrace.build.journal import Journal
from headrace.build.verify import Comparison, compare, compare_simulation
from headrace.errors import InputError, counted
from headrace.ir import Array

if TYPE_CHECKING:
    from headrace.build.design import Design
    from headrace.build.simulate import CSimulation, Simulation

FILE = "report/validation.json"
"""Where a build keeps it."""

MODEL, INTEGER = "model, in float32", "integer network"

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Score:
    """How often one form of the network named the right class: among all frames (None: not run on all), and among the
    first, which were simulated (None: nothing was)."""

    stage: str
    right: int | None
    first: int | None


@dataclass(frozen=True)
class Validation:
    """Top-1 accuracies of one design.

    Attributes:
        digest: of the design's files.
        output: of the model, that names the class: by its value, or by its largest entry.
        frames: that have a label.
        simulated: how many of them, from the first, were simulated.
        scores: by form of the network.
        reference: share that the user knows from elsewhere, such as of the trained network in PyTorch.
        language: what was simulated, ``SystemVerilog`` or ``C++``; empty when nothing was.
    """

    digest: str
    output: str
    frames: int
    simulated: int
    scores: Sequence[Score]
    reference: float | None = None
    language: str = ""

    @classmethod
    def of(
        cls,
        design: Design,
        labels: Labels,
        predicted: Mapping[str, Labels],
        simulated: int,
        reference: float | None = None,
        language: str = "",
    ) -> Validation:
        """From the classes that each form of the network named: for all frames, or for the *simulated* first ones."""
        scores = [
            Score(
                stage,
                int((classes == labels).sum()) if len(classes) == len(labels) else None,
                int((classes[:simulated] == labels[:simulated]).sum()) if simulated else None,
            )
            for stage, classes in predicted.items()
        ]
        output = design.source.outputs[0]
        return cls(design.plan.digest, output, len(labels), simulated, scores, reference, language)

    @property
    def top1(self) -> float:
        """Of the integer network, on all frames: the first stage that ran on all, which all others equal."""
        return next((s.right for s in self.scores if s.right is not None), 0) / self.frames

    @property
    def note(self) -> str:
        """In one line."""
        few = next((s for s in reversed(self.scores) if s.first is not None), None)
        text = f"top-1 accuracy {self.top1:.2%} of {counted(self.frames, 'frame')}"
        if few is not None:
            text += f"; {few.stage}: {few.first:,} of the first {self.simulated:,} right"
        return text

    @property
    def data(self) -> dict[str, object]:
        """All of it, for machines."""
        return {"top1": self.top1, **asdict(self)}

    def json(self) -> str:
        """Text of the file."""
        return json.dumps(self.data, indent=2) + "\n"


def read_validation(folder: Path, digest: str) -> Validation | None:
    """The accuracies that a build kept of the design with *digest*, or None."""
    try:
        found = TypeAdapter(Validation).validate_json(kept_text(folder / FILE))
    except (OSError, ValueError):
        return None
    return found if found.digest == digest and found.frames > 0 else None


def read_labels(path: Path) -> Labels:
    """A whole number a frame, the class that it belongs to, from an ``.npy`` file or the only array of an ``.npz``.

    Raises:
        InputError: when the file is missing or holds anything else.
    """
    arrays = list(read_arrays(path).values()) if path.suffix == ".npz" else [read_array(path)]
    if len(arrays) != 1 or not np.issubdtype(arrays[0].dtype, np.integer) or not arrays[0].size:
        raise InputError(f"{path}: expected one array of whole numbers, a class for each frame")
    return arrays[0].reshape(-1).astype(np.int64)


def check_labels(feeds: Mapping[str, Array], labels: Labels, origin: str) -> None:
    """Refuse labels that are not one a frame.

    Raises:
        InputError: says how many there are of each.
    """
    for name, array in feeds.items():
        if len(array) != len(labels):
            frames = counted(len(array), "frame")
            raise InputError(f"{origin}: has {counted(len(labels), 'label')} for {frames} of '{name}'")


def named_classes(outputs: Mapping[str, Array]) -> Labels:
    """The class that the first output names in each frame: by its value, or by its largest entry."""
    values = next(iter(outputs.values()))
    flat = values.reshape(len(values), -1)
    return np.asarray(flat[:, 0] if flat.shape[1] == 1 else flat.argmax(axis=1))


@dataclass(frozen=True)
class Settings:
    """How much is run: *simulated* frames from the first, with *engine*; *reference* is known from elsewhere."""

    simulated: int = VALIDATED
    engine: Literal["cpp", "cocotb"] = "cpp"
    reference: float | None = None


def validate(
    design: Design, feeds: Mapping[str, Array], labels: Labels, settings: Settings, journal: Journal
) -> tuple[Validation, list[Comparison]]:
    """Run labelled frames through every form of the network.

    Returns:
        the accuracies, and what was equal: outputs of model and integer network, of these and the simulation.

    Raises:
        VerificationError: when two of them differ.
        ToolError: when a tool for the simulation is missing.
    """
    outputs = {MODEL: design.run(feeds, mode="float"), INTEGER: design.run(feeds, mode="integer")}
    equal = _equal("model = integer graph", outputs[MODEL], outputs[INTEGER])
    count, language = min(settings.simulated, len(labels)), ""
    if count:
        few = {name: array[:count] for name, array in feeds.items()}
        simulation: Simulation | CSimulation
        if design.config.backend == "hls":
            language, simulation = "C++", design.csim(few, trace=True, journal=journal)
        else:
            simulation = design.simulate(few, trace=True, engine=settings.engine, journal=journal)
            language = "SystemVerilog"
        compare_simulation(design, few, simulation)
        expected = {name: array[:count] for name, array in outputs[INTEGER].items()}
        equal += _equal(f"integer graph = simulated {language}", expected, simulation.outputs, language)
        outputs[f"simulated {language}"] = simulation.outputs
    _warn_of_labels(labels, outputs[INTEGER], journal)
    predicted = {stage: named_classes(arrays) for stage, arrays in outputs.items()}
    return Validation.of(design, labels, predicted, count, settings.reference, language), equal


def _warn_of_labels(labels: Labels, outputs: Mapping[str, Array], journal: Journal) -> None:
    """Say when a label is of no class that the largest entry of an output can name."""
    first = next(iter(outputs.values()))
    classes = first[0].size
    strange = labels[(labels < 0) | (labels >= classes)]
    if classes > 1 and len(strange):
        journal.warn(
            f"{len(strange):,} of {counted(len(labels), 'label')} are no class of the network, which names 0 to "
            f"{classes - 1}; the first is {strange[0]}"
        )


def _equal(
    stages: str, expected: Mapping[str, Array], got: Mapping[str, Array], simulated: str = ""
) -> list[Comparison]:
    found = (compare(stages, name, array, got[name]) for name, array in expected.items())
    return [replace(c, data="labelled", simulated=simulated) for c in found]


def validate_build(
    design: Design, feeds: Mapping[str, Array], labels: Labels, settings: Settings, journal: Journal
) -> Validation:
    """Find the accuracies of a design that was built, keep them beside it, and show them in its report.

    Args:
        design: as :func:`headrace.load` opens it from the folder of a build.
        feeds: as for :meth:`Design.run`.
        labels: the right class of every frame.
        settings: how much is run.
        journal: told of the steps.

    Raises:
        InputError: when nothing was built, or feeds or labels do not fit.
        VerificationError, ToolError: as :func:`validate`.
    """
    design.built_folder("validate")
    checked = check_feeds(design.source, feeds)
    check_labels(checked, labels, "labels")
    with journal.step("validate") as note:
        found, _ = validate(design, checked, labels, settings, journal)
        note(found.note)
    keep_validation(design, found)
    return found


def keep_validation(design: Design, found: Validation) -> None:
    """Write the accuracies of a design that was built to its folder, and into its report.

    Raises:
        InputError: when there is no folder or no report.
    """
    from headrace.build.report import add_to_report

    add_to_report(design, design.built_folder("validate"), {FILE: found.json()})
