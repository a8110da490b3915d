"""Weights and thresholds for the memories of a design: those of its own model, or of another that was trained anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.build.output import FOLDING_FILE, named_folder
from headrace.codegen.control import MAP_JSON, address_map
from headrace.codegen.names import Namespace
from headrace.codegen.plan import Plan
from headrace.codegen.top import assemble
from headrace.errors import FoldingError, InputError, printable
from headrace.ir import Array
from headrace.layers.parameter import Parameter
from headrace.schedule.streams import layers
from headrace.whole_files import write_whole

if TYPE_CHECKING:
    from headrace.build.design import Design

FOLDER = "runtime_weights"
"""Where a driver finds the files, as FINN's does."""


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """What the memories of one layer hold.

    Attributes:
        layer: its name.
        base: address of its window.
        file: name of the file that holds :attr:`words`.
        parameters: its arrays, and where their elements are.
    """

    layer: str
    base: int
    file: str
    parameters: tuple[Parameter, ...]

    @property
    def arrays(self) -> dict[str, Array]:
        """The values by name: ``weights``; or ``thresholds``, and ``falling`` for channels that fall."""
        return {p.name: p.values for p in self.parameters}

    @property
    def words(self) -> Array:
        """All words of the window from its base on, as they are written; 0 where nothing is."""
        image = np.zeros(max(p.end for p in self.parameters), np.uint32)
        for p in self.parameters:
            image[p.addresses[:, None] + np.arange(p.columns)] = p.control_words
        return image

    @property
    def text(self) -> str:
        """The file: a word a line, in hexadecimal, as in the ``.dat`` files of FINN."""
        return "".join(f"{word:08x}\n" for word in self.words.tolist())

    @property
    def writes(self) -> list[tuple[int, int]]:
        """Address and data of every write that puts them into the hardware."""
        return [(self.base + 4 * k, word) for k, word in enumerate(self.words.tolist())]


def runtime_weights(design: Design, model: Any = None) -> dict[str, LayerWeights]:
    """What to write to *design* so that it computes *model*, by layer.

    Args:
        design: with layers that have ``runtime_writeable_weights``.
        model: as for :func:`headrace.load`; None for the design's own.

    Raises:
        InputError: when the design has no such layers, or the model differs from its own in something else; names the
            first layer that does.
        FoldingError: when a weight does not fit its type.
    """
    table = address_map(design.plan.files)
    if table is None or not table["layers"]:
        raise InputError(
            f"design '{design.name}' has no layer that can be written at run time; set runtime_writeable_weights=1 for "
            "some in the folding, and build it again"
        )
    source = design if model is None else alike(design, model)
    bases = {entry["layer"]: entry["base"] for entry in table["layers"]}
    names = Namespace()
    found: dict[str, LayerWeights] = {}
    for node, layer in layers(source.hardware.graph).items():
        if layer.parameters:
            file = f"{len(found)}_{names.new(node)}.dat"
            found[node] = LayerWeights(node, bases[node], file, layer.parameters)
    return found


def write_runtime_weights(weights: Mapping[str, LayerWeights], folder: str | Path) -> list[Path]:
    """Write *weights* as files that the driver loads; returns their paths.

    Raises:
        InputError: when the folder cannot be written, or its path is empty.
    """
    target = named_folder(folder, "folder")
    paths = []
    try:
        target.mkdir(parents=True, exist_ok=True)
        for entry in weights.values():
            paths.append(target / entry.file)
            write_whole(paths[-1], entry.text)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
    return paths


def alike(design: Design, model: Any) -> Design:
    """*model* in the hardware of *design*.

    Raises:
        InputError: when it differs in more than what is written at run time.
    """
    from headrace.build.api import load
    from headrace.build.design import Design as AnyDesign

    config = design.config.model_copy(update={"name": design.name})
    other = AnyDesign(load(model).source, config, kept_folding=design.final_folding)
    try:
        files = other.plan.files
    except FoldingError as error:
        raise InputError(f"the model does not fit the design '{design.name}': {_without_file(str(error))}") from error
    if where := _difference(design, design.plan, files):
        raise InputError(
            f"the model does not fit the design '{design.name}': {where} is another, and is not written at run time; "
            "accepted is a model that differs in weights and thresholds of layers with runtime_writeable_weights=1 only"
        )
    return other


def _without_file(text: str) -> str:
    """*text* without the file that nobody has given."""
    return text.split(f" Set in {FOLDING_FILE}")[0].removeprefix(f"{FOLDING_FILE}, ")


def _difference(design: Design, plan: Plan, files: Mapping[str, str]) -> str:
    """What of a design is not as in *files*, but for the contents of memories that are written; empty when all is."""
    top = assemble(design.hardware, design.name)
    own: dict[str, str] = {}
    for instance in top.instances:
        layer = instance.layer
        suffixes = () if layer.parameters else tuple(layer.rtl().memories)
        own[f"rtl/{instance.module}.sv"] = instance.node
        own |= {f"rtl/{instance.module}_{suffix}.hex": instance.node for suffix in suffixes}
    for path, node in own.items():
        if plan.files[path] != files.get(path):
            return f"layer '{printable(node)}'"
    same = plan.files[f"rtl/{top.module}.sv"] == files.get(f"rtl/{top.module}.sv")
    return "" if same and plan.files[MAP_JSON] == files.get(MAP_JSON) else "the order of its layers"
