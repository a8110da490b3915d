"""The steps of a build, in the order of :data:`STEPS`; each does its part and says in one line what came out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headrace.build.config import CONFIG_FILE
from headrace.build.design import Design
from headrace.build.journal import Journal
from headrace.build.output import write_files
from headrace.build.report import report_files
from headrace.build.verify import Comparison, verify_stages
from headrace.schedule import apply_folding, folding_json
from headrace.schedule.streams import layers


@dataclass
class Build:
    """A build under way: the design, the folder that is being filled, and what was found so far."""

    design: Design
    folder: Path
    journal: Journal
    comparisons: list[Comparison] = field(default_factory=list)


def analyse(job: Build) -> str:
    """Scaled-integer analysis: the model becomes head, core and tail."""
    core = job.design.parts.core
    operators = len(core) - len(core.inputs) - len(core.outputs)
    return f"{operators} integer operators, {len(job.design.integer.blockers)} left to the host"


def lower(job: Build) -> str:
    """Integer operators become hardware layers."""
    return f"{len(layers(job.design.unfolded.graph))} layers"


def fold(job: Build) -> str:
    """PE and SIMD are chosen, streams matched in width, FIFO depths computed."""
    design = job.design
    settings = design.config.folding
    notes = apply_folding(design.unfolded.graph, settings, file=design.config.folding_source).notes if settings else ()
    expected = design.performance
    return "; ".join([f"interval {expected.interval:,} cycles, set by '{expected.bottleneck}'", *notes])


def verify(job: Build) -> str:
    """The stages so far compute the same values on random frames (E4)."""
    job.comparisons += verify_stages(job.design, job.design.config.verify_frames, job.design.config.seed)
    return f"{sum(c.values for c in job.comparisons):,} values equal in model, integer graph and layer arithmetic"


def generate(job: Build) -> str:
    """SystemVerilog, memory files, manifest, and the folding that was used."""
    job.design.plan.write(job.folder)
    files = {
        "folding.json": folding_json(job.design.hardware.graph),
        CONFIG_FILE: job.design.config.model_dump_json(indent=2) + "\n",
    }
    write_files(job.folder, files)
    return f"{len(job.design.plan.files)} files"


def report(job: Build) -> str:
    """The page and its data."""
    write_files(job.folder, report_files(job.design, job.comparisons, job.journal.records))
    return "report/index.html"


STEPS: tuple[Callable[[Build], str], ...] = (analyse, lower, fold, verify, generate, report)
