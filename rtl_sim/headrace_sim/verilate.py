"""Compile a design into a simulator with Verilator and the C++ compiler, through the build cache.

Verilator's own makefile is not used: it needs make, perl and a path without spaces, recompiles
Verilator's run-time library for every design, and in the PyPI wheel names a compiler that only
exists where the wheel was built. Here the library and the driver are compiled once per tool
version, a small design is one translation unit, and a large one is compiled in parallel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from headrace_sim.cache import BuildCache, content_key
from headrace_sim.errors import BuildError, SimulatorNotFound
from headrace_sim.glue import DEFAULT_OPTIMIZE, BuildOptions, check_ports, control_file, glue_source
from headrace_sim.manifest import Manifest
from headrace_sim.processes import run, side_by_side
from headrace_sim.toolchain import Verilator, cxx_compiler, has_fst, verilator

IP_OPTIMIZE = "1"
_DRIVER = Path(str(resources.files("headrace_sim"))) / "cpp"
_SINGLE_UNIT_BYTES = 300_000
_LOG_CHARACTERS = 6000


def build(manifest: Manifest, options: BuildOptions, cache: BuildCache, jobs: int) -> tuple[Path, bool]:
    """Executable of the compiled simulator of `manifest`, and whether it came from the cache.

    Raises:
        SimulatorNotFound: Verilator, the C++ compiler or a header that it needs is missing.
        BuildError: one of them refused the design.
        ManifestError: the top module's ports differ from the manifest.
    """
    tool = verilator()
    compiler = Compiler(tool, options, jobs)
    if options.waves == "fst" and not has_fst():
        raise SimulatorNotFound(
            "FST waveforms need the headers of lz4 and zlib (Debian, Ubuntu: `apt install liblz4-dev zlib1g-dev`); "
            "a waveform named .vcd needs nothing"
        )
    glue = glue_source(manifest, options)
    control = control_file(manifest, options)
    parts: list[str | bytes] = [compiler.identity, *compiler.link_flags, repr(options), manifest.top, glue, control]
    for path in (*manifest.source_paths, *manifest.model_paths):
        parts += [path.name, path.read_bytes()]

    def make(folder: Path) -> None:
        (folder / "visible.vlt").write_text(control)
        _verilate(manifest, options, tool, folder)
        check_ports(manifest, (folder / "Vtop.h").read_text())
        (folder / "glue.cpp").write_text(glue)
        runtime = _runtime(compiler, _class_list(folder, "GLOBAL"), cache)
        header = _precompiled_header(compiler, cache)
        objects = _compile_model(compiler, folder, header) + _compile_ips(compiler, manifest, folder)
        compiler.link(objects, runtime, folder / manifest.top)
        for file in folder.iterdir():
            if file.name != manifest.top:
                file.unlink()

    folder, cached = cache.get(content_key(parts), make)
    return folder / manifest.top, cached


class Compiler:
    """The C++ compiler with the flags that every object file of one kind of simulator shares."""

    def __init__(self, tool: Verilator, options: BuildOptions, jobs: int) -> None:
        self.path, version = cxx_compiler()
        self.is_clang = "clang" in version
        self.options = options
        self.jobs = jobs
        waves = options.waves
        macros = {
            "VERILATOR": 1,
            "VM_COVERAGE": int(options.coverage),
            "VM_SC": 0,
            "VM_TIMING": 0,
            "VM_TRACE": int(bool(waves)),
            "VM_TRACE_FST": int(waves == "fst"),
            "VM_TRACE_VCD": int(waves == "vcd"),
            "VM_TRACE_SAIF": 0,
        }
        self.include = tool.include
        self.flags = [
            "-std=gnu++17",
            "-pthread",
            "-faligned-new",
            "-w",
            *(f"-D{name}={value}" for name, value in macros.items()),
            f"-I{tool.include}",
            f"-I{tool.include / 'vltstd'}",
            f"-I{_DRIVER}",
        ]
        self.link_flags = ["-pthread", *(["-lz", "-llz4"] if waves == "fst" else [])]
        if options.bench == "cocotb":
            libs = _cocotb_libs()
            self.link_flags += [f"-Wl,-rpath,{libs}", f"-L{libs}", "-lcocotbvpi_verilator"]
        driver = b"".join(path.read_bytes() for path in sorted(_DRIVER.iterdir()))
        self.identity = content_key([tool.version, version, *self.flags, driver])

    def compile(self, source: Path, target: Path, optimize: str, extra: Sequence[str] = ()) -> None:
        command = [str(self.path), f"-O{optimize}", *self.flags, f"-I{source.parent}", *extra]
        run_tool([*command, "-c", str(source), "-o", str(target)], target.parent)

    def compile_all(self, tasks: Sequence[tuple[Path, Path, str, Sequence[str]]]) -> list[Path]:
        """Compile side by side; a task is what :meth:`compile` takes. Returns the targets."""
        side_by_side(lambda task: self.compile(*task), tasks, self.jobs)
        return [target for _, target, _, _ in tasks]

    def link(self, objects: Sequence[Path], runtime: Sequence[Path], target: Path) -> None:
        files = [str(path) for path in (*objects, *runtime)]
        run_tool([str(self.path), "-o", str(target), *files, *self.link_flags], target.parent)


def run_tool(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run a build tool in `folder` and return its output.

    Raises:
        BuildError: it failed; the message ends with the end of its output.
    """
    done = run(command, folder, environment=environment)
    if done.returncode != 0:
        log = done.stdout[-_LOG_CHARACTERS:]
        raise BuildError(f"{Path(command[0]).name} failed with exit status {done.returncode}:\n{log}")
    return done.stdout


def verilator_command(tool: Verilator, manifest: Manifest) -> list[str]:
    """The options that linting and compiling share, for a run in the folder of the design.

    Sources are named from there: Verilator reads `$(x)` in a path as a variable of the environment.

    Loops of more than 8 turns stay loops in C++. Unrolled, the adder trees of a wide layer become megabytes: a layer of
    64 x 64 weights without folding took over 10 minutes to compile instead of 9 s (to run twice as fast).
    """
    return [str(tool.binary), "--no-timing", "--assert", "--unroll-count", "8", "--top-module", manifest.top]


def _verilate(manifest: Manifest, options: BuildOptions, tool: Verilator, folder: Path) -> None:
    command = verilator_command(tool, manifest)
    command += ["--cc", "--prefix", "Vtop", "-Mdir", str(folder), "-Wno-fatal", "--quiet-stats"]
    command += ["--timescale", "1ns/1ps", "--x-initial", "unique", "--x-assign", "unique"]
    if options.bench == "cocotb":
        command.append("--vpi")
    if options.waves:
        command.append(f"--trace-{options.waves}")
    if options.coverage:
        command += ["--coverage-line", "--coverage-toggle"]
    command += [str(folder / "visible.vlt"), *manifest.simulated]
    run_tool(command, manifest.root, tool.environment())


def _class_list(folder: Path, group: str) -> dict[str, list[str]]:
    """The file stems that Verilator lists as VM_<group>_FAST and VM_<group>_SLOW."""
    text = (folder / "Vtop_classes.mk").read_text()
    lists = {}
    for speed in ("FAST", "SLOW"):
        match = re.search(rf"^VM_{group}_{speed} \+= \\\n((?:.*\\\n)*)", text, re.MULTILINE)
        lists[speed] = match[1].replace("\\", " ").split() if match else []
    return lists


def _compile_model(compiler: Compiler, folder: Path, header: list[str]) -> list[Path]:
    """Compile the generated classes; the functions that run once are never optimised in a large model."""
    sources: dict[str, list[str]] = {"FAST": [], "SLOW": []}
    for group in ("CLASSES", "SUPPORT"):
        for speed, stems in _class_list(folder, group).items():
            sources[speed] += [f"{stem}.cpp" for stem in stems]
    sources["FAST"].append("glue.cpp")
    every = sources["FAST"] + sources["SLOW"]
    if _size(folder, every) < _SINGLE_UNIT_BYTES:
        sources = {"FAST": every, "SLOW": []}
    least = min(max(_size(folder, every) // (2 * compiler.jobs), _SINGLE_UNIT_BYTES // 3), _SINGLE_UNIT_BYTES)
    sources = {speed: _units(folder, speed.lower(), names, least) for speed, names in sources.items()}
    how: dict[str, tuple[str, list[str]]] = {"FAST": (compiler.options.optimize, header), "SLOW": ("0", [])}
    files = [(folder / name, *how[speed]) for speed, names in sources.items() for name in names]
    return compiler.compile_all([(path, path.with_suffix(".o"), level, extra) for path, level, extra in files])


def _units(folder: Path, stem: str, names: Sequence[str], least: int) -> list[str]:
    """Files that include *names*, of *least* bytes or more, the largest first: most of a small one is the headers."""
    groups: list[list[str]] = [[]]
    for name in sorted(names, key=lambda name: (-_size(folder, [name]), name)):
        if groups[-1] and _size(folder, groups[-1]) >= least:
            groups.append([])
        groups[-1].append(name)
    return [_joined(folder, f"{stem}_{k}.cpp", group) for k, group in enumerate(groups) if group]


def _size(folder: Path, names: Sequence[str]) -> int:
    return sum((folder / name).stat().st_size for name in names)


def _joined(folder: Path, unit: str, names: Sequence[str]) -> str:
    """Write the file *unit*, which is all of *names* in one translation unit, and return its name."""
    (folder / unit).write_text("".join(f'#include "{name}"\n' for name in names))
    return unit


def _compile_ips(compiler: Compiler, manifest: Manifest, folder: Path) -> list[Path]:
    """Compile the C++ of models, which runs side by side with the RTL, clock cycle by clock cycle."""
    sources = [path for path in manifest.model_paths if path.suffix == ".cpp"]
    includes = sorted({f"-I{path.parent}" for path in manifest.model_paths if path.suffix == ".h"})
    extra = ["-DHEADRACE_DATAFLOW", *includes]
    return compiler.compile_all([(p, folder / f"ip{k}.o", IP_OPTIMIZE, extra) for k, p in enumerate(sources)])


def _runtime(compiler: Compiler, stems: dict[str, list[str]], cache: BuildCache) -> list[Path]:
    """Object files of the driver and of Verilator's run-time library, each compiled once per tool version."""
    # no cycle runs through Verilator's own files, so that optimising them would only take time
    sources = [(compiler.include / f"{name}.cpp", "0") for name in stems["FAST"] + stems["SLOW"]]
    if compiler.options.bench == "cpp":
        sources.append((_DRIVER / "driver.cpp", "1"))

    def cached_object(task: tuple[Path, str]) -> Path:
        source, optimize = task
        key = content_key(["object", compiler.identity, source.name, optimize])
        folder, _ = cache.get(key, lambda work: compiler.compile(source, work / "object.o", optimize))
        return folder / "object.o"

    return side_by_side(cached_object, sources, compiler.jobs)


def _precompiled_header(compiler: Compiler, cache: BuildCache) -> list[str]:
    """Flags that make a model's files start from a precompiled header, which halves the time of a small one.

    The header fits one set of flags, so it exists for the usual ones only, and in the format of GCC.
    """
    options = compiler.options
    if compiler.is_clang or options.optimize != DEFAULT_OPTIMIZE or options.waves:
        return []

    def make(folder: Path) -> None:
        (folder / "model.h").write_text('#include "driver.h"\n#include "verilated_sym_props.h"\n')
        compiler.compile(folder / "model.h", folder / "model.h.gch", options.optimize, ["-x", "c++-header"])

    folder, _ = cache.get(content_key(["header", compiler.identity, options.optimize]), make)
    return ["-include", str(folder / "model.h")]


def _cocotb_libs() -> Path:
    from cocotb_tools import config

    return Path(config.libs_dir)
