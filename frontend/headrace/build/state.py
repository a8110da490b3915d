"""What a step of a build gets and returns."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.build.design import Design
from headrace.build.journal import Journal
from headrace.build.output import write_files
from headrace.build.verify import Comparison
from headrace.errors import InputError

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class BuildState:
    """A build under way.

    Attributes:
        model: the ONNX model.
        design: what was made of it so far, stage by stage.
        folder: where files are written; it becomes the output folder when the build is whole.
        journal: told of what happens.
        comparisons: of stages that were equal.
        model_file: where the model is kept for ``start_step``, a name; empty when it is not yet.
    """

    model: ModelProto
    design: Design
    folder: Path
    journal: Journal
    comparisons: tuple[Comparison, ...] = ()
    model_file: str = ""

    def with_stage(self, **stages: object) -> BuildState:
        """This state with another integer model, hardware graph or other stage; see :meth:`Design.with_stage`."""
        return replace(self, design=self.design.with_stage(**stages))

    def with_model(self, model: ModelProto) -> BuildState:
        """This state with another ONNX model, or a ``ModelWrapper`` of qonnx; its layers, if there were any, are gone.

        Raises:
            InputError: when the layers of the earlier model are folded.
            ModelError, UnsupportedError: as :func:`headrace.load`.
        """
        from headrace.ingest import from_proto, unwrapped

        if self.design.reached("folded") or self.design.reached("hardware"):
            raise InputError("the model cannot be replaced once its layers are folded; put the step before that")
        proto = unwrapped(model)
        read = self.design
        return replace(
            self, model=proto, model_file="", design=Design(from_proto(proto, read.source.file), read.config)
        )

    def note(self, text: str) -> None:
        """Say in one line what came out of the running step."""
        self.journal.note(text)

    def write(self, path: str, text: str) -> None:
        """Write a text below the output folder."""
        write_files(self.folder, {path: text})

    def write_json(self, path: str, data: Any) -> None:
        """Write data as JSON below the output folder."""
        self.write(path, json.dumps(data, indent=2) + "\n")
