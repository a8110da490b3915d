"""Compile a design into a simulator with Verilator and the C++ compiler, through the build cache.

Verilator's own makefile is not used: it needs make, perl and a path without spaces, recompiles
Verilator's run-time library for every design, and in the PyPI wheel names a compiler that only
exists where the wheel was built. Here the library and the driver are compiled once per tool
version, a small design is one translation unit, and a large one is compiled in parallel.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from headrace_sim.cache import BuildCache, content_key
from headrace_sim.control import SIGNALS
from headrace_sim.errors import BuildError, ManifestError, SimulatorNotFound
from headrace_sim.manifest import Manifest, Port
from headrace_sim.toolchain import Verilator, cxx_compiler, has_fst, verilator

# -O1 and above take ten times longer than -Os on the long expressions of an unrolled layer
# (measured: 35 s against 5 s a file, for a model only 1.5 times faster); -O0 runs 14 times slower.
DEFAULT_OPTIMIZE = "s"
OPTIMIZE_LEVELS = ("0", "s", "1", "2", "3")
IP_OPTIMIZE = "1"
_SINGLE_UNIT_BYTES = 300_000
_LOG_CHARACTERS = 6000


@dataclass(frozen=True)
class BuildOptions:
    """What a compiled simulator depends on besides the sources."""

    bench: str = "cpp"  # "cpp": the C++ driver; "cocotb": cocotb's main and VPI
    trace: bool = False
    waves: str = ""  # "", "vcd" or "fst"
    optimize: str = DEFAULT_OPTIMIZE
    coverage: bool = False

    def __post_init__(self) -> None:
        if self.optimize not in OPTIMIZE_LEVELS:
            raise BuildError(f"optimize={self.optimize!r} is not one of {', '.join(OPTIMIZE_LEVELS)}")


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
            f"-I{_package_file('driver.h').parent}",
        ]
        self.link_flags = ["-pthread", *(["-lz", "-llz4"] if waves == "fst" else [])]
        if options.bench == "cocotb":
            libs = _cocotb_libs()
            self.link_flags += [f"-Wl,-rpath,{libs}", f"-L{libs}", "-lcocotbvpi_verilator"]
        driver = b"".join(_package_file(name).read_bytes() for name in ("driver.cpp", "driver.h"))
        self.identity = content_key([tool.version, version, *self.flags, driver])

    def compile(self, source: Path, target: Path, optimize: str, extra: Sequence[str] = ()) -> None:
        command = [str(self.path), f"-O{optimize}", *self.flags, f"-I{source.parent}", *extra]
        run_tool([*command, "-c", str(source), "-o", str(target)], target.parent)

    def link(self, objects: Sequence[Path], runtime: Sequence[Path], target: Path) -> None:
        files = [str(path) for path in (*objects, *runtime)]
        run_tool([str(self.path), "-o", str(target), *files, *self.link_flags], target.parent)


def run_tool(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run a build tool in `folder` and return its output.

    Raises:
        BuildError: it failed; the message ends with the end of its output.
    """
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        log = done.stdout[-_LOG_CHARACTERS:]
        raise BuildError(f"{Path(command[0]).name} failed with exit status {done.returncode}:\n{log}")
    return done.stdout


def verilator_command(tool: Verilator, manifest: Manifest) -> list[str]:
    """The options that linting and compiling share.

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
    command += [str(folder / "visible.vlt"), *(str(path) for path in manifest.simulated_paths)]
    run_tool(command, folder, tool.environment())


def control_file(manifest: Manifest, options: BuildOptions) -> str:
    """Verilator control file that keeps the observed signals of the top module accessible."""
    lines = ["`verilator_config"]
    if options.bench == "cocotb":
        names = [manifest.clock, manifest.reset]
        for port in (*manifest.inputs, *manifest.outputs):
            names += [f"{port.port}_{field}" for field in ("tdata", "tvalid", "tready", "tlast")]
        names += [f"{manifest.control}_{signal}" for signal in SIGNALS] if manifest.control else []
        lines += [f'public_flat_rw -module "{manifest.top}" -var "{name}"' for name in names]
    if options.trace:
        for stream in manifest.streams:
            for field in ("tdata", "tvalid", "tready"):
                lines.append(f'public_flat_rd -module "{manifest.top}" -var "{stream.signal}_{field}"')
    return "\n".join(lines) + "\n"


_GLUE = """\
#include "driver.h"
#include "Vtop.h"
#include "verilated_sym_props.h"
#include <cstdio>
#include <cstdlib>
#if VM_TRACE_FST
#include "verilated_fst_c.h"
using Wave = VerilatedFstC;
#elif VM_TRACE
#include "verilated_vcd_c.h"
using Wave = VerilatedVcdC;
#endif

namespace {{

template <typename T>
uint8_t* at(T& signal) {{ return reinterpret_cast<uint8_t*>(&signal); }}

class Design final : public headrace::Model {{
public:
    explicit Design(VerilatedContext* context) : context_(context), top_(context, "TOP") {{
        clock = at(top_.{clock});
        reset = at(top_.{reset});
{ports}
{streams}
    }}
    void eval() override {{ top_.eval(); }}
    void finish() override {{
        top_.final();
#if VM_TRACE
        wave_.close();
#endif
    }}
    void open_wave(const char* path) override {{
#if VM_TRACE
        context_->traceEverOn(true);
        top_.trace(&wave_, 99);
        wave_.open(path);
#endif
    }}
    void dump_wave(uint64_t time) override {{
#if VM_TRACE
        wave_.dump(time);
#endif
    }}

private:
    uint8_t* find(const char* name, uint32_t bits) {{
        const VerilatedScope* scope = context_->scopeFind("TOP.{top}");
        VerilatedVar* var = scope ? scope->varFind(name) : nullptr;
        if (var && var->entBits() == bits) return static_cast<uint8_t*>(var->datap());
        std::fprintf(stderr, "signal %s of {top} %s %u bits wide, as the manifest says\\n", name,
                     var ? "is not" : "does not exist or is not", bits);
        std::exit(3);
    }}

    VerilatedContext* context_;
    Vtop top_;
#if VM_TRACE
    Wave wave_;
#endif
}};

}}  // namespace

std::unique_ptr<headrace::Model> headrace::make_model(VerilatedContext* context) {{
    return std::make_unique<Design>(context);
}}
"""


def glue_source(manifest: Manifest, options: BuildOptions) -> str:
    """C++ that ties the ports and streams of one design to the generic driver (or to cocotb)."""
    if options.bench == "cocotb":
        return _cocotb_main().read_text()

    def port(group: str, spec: Port) -> str:
        pins = ", ".join(f"at(top_.{spec.port}_{field})" for field in ("tdata", "tvalid", "tready", "tlast"))
        return f"        {group}.push_back({{{pins}, {spec.word_bytes}}});"

    ports = [port("inputs", spec) for spec in manifest.inputs]
    ports += [port("outputs", spec) for spec in manifest.outputs]
    for name in SIGNALS if manifest.control else ():
        signal = f"top_.{manifest.control}_{name}"
        ports.append(f"        control.{name} = {{at({signal}), sizeof({signal})}};")
    streams = []
    for stream in manifest.streams if options.trace else ():
        widths = {"tdata": stream.word_bits, "tvalid": 1, "tready": 1}
        pins = ", ".join(f'find("{stream.signal}_{field}", {bits})' for field, bits in widths.items())
        streams.append(f"        streams.push_back({{{pins}, nullptr, {stream.word_bytes}}});")
    return _GLUE.format(
        clock=manifest.clock,
        reset=manifest.reset,
        top=manifest.top,
        ports="\n".join(ports),
        streams="\n".join(streams),
    )


def check_ports(manifest: Manifest, header: str) -> None:
    """Compare the ports declared in the verilated model's header with the manifest.

    Raises:
        ManifestError: a port is missing, has another direction or another width.
    """
    found = {
        name: (direction, int(high) - int(low) + 1)
        for direction, name, high, low in re.findall(r"VL_(IN|OUT)(?:8|16|64|W)?\(&(\w+),(\d+),(\d+)", header)
    }
    expected = {manifest.clock: ("IN", 1), manifest.reset: ("IN", 1)}
    for forward, backward, ports in (("IN", "OUT", manifest.inputs), ("OUT", "IN", manifest.outputs)):
        for port in ports:
            expected[f"{port.port}_tdata"] = (forward, port.tdata_bits)
            expected[f"{port.port}_tvalid"] = (forward, 1)
            expected[f"{port.port}_tlast"] = (forward, 1)
            expected[f"{port.port}_tready"] = (backward, 1)
    for name, (direction, bits) in SIGNALS.items() if manifest.control else ():
        expected[f"{manifest.control}_{name}"] = (direction, bits or manifest.control_address_bits)
    for name, (direction, bits) in expected.items():
        if name not in found:
            raise ManifestError(f"module {manifest.top}: the manifest names a port {name}, the RTL has none")
        if found[name] != (direction, bits):
            got_direction, got_bits = found[name]
            raise ManifestError(
                f"module {manifest.top}: port {name} is {got_direction.lower()}put, {got_bits} bits in the RTL; "
                f"the manifest says {direction.lower()}put, {bits} bits"
            )
    for name, (direction, _) in found.items():
        if direction == "IN" and name not in expected:
            raise ManifestError(f"module {manifest.top}: input port {name} is not in the manifest")


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
        sources = {"FAST": [_joined(folder, "unit.cpp", every)], "SLOW": []}
    elif _size(folder, sources["SLOW"]) < _SINGLE_UNIT_BYTES:  # most of each is the headers, without precompilation
        sources["SLOW"] = [_joined(folder, "slow.cpp", sources["SLOW"])]
    tasks = [(folder / name, compiler.options.optimize, header) for name in sources["FAST"]]
    tasks += [(folder / name, "0", []) for name in sources["SLOW"]]
    tasks.sort(key=lambda task: task[0].stat().st_size, reverse=True)

    def compile_one(task: tuple[Path, str, list[str]]) -> Path:
        source, optimize, extra = task
        compiler.compile(source, source.with_suffix(".o"), optimize, extra)
        return source.with_suffix(".o")

    with ThreadPoolExecutor(compiler.jobs) as pool:
        return list(pool.map(compile_one, tasks))


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
    tasks = [(source, folder / f"ip{k}.o") for k, source in enumerate(sources)]

    def compile_one(task: tuple[Path, Path]) -> Path:
        compiler.compile(task[0], task[1], IP_OPTIMIZE, ["-DHEADRACE_DATAFLOW", *includes])
        return task[1]

    with ThreadPoolExecutor(compiler.jobs) as pool:
        return list(pool.map(compile_one, tasks))


def _runtime(compiler: Compiler, stems: dict[str, list[str]], cache: BuildCache) -> list[Path]:
    """Object files of the driver and of Verilator's run-time library, each compiled once per tool version."""
    # no cycle runs through Verilator's own files, so that optimising them would only take time
    sources = [(compiler.include / f"{name}.cpp", "0") for name in stems["FAST"] + stems["SLOW"]]
    if compiler.options.bench == "cpp":
        sources.append((_package_file("driver.cpp"), "1"))

    def cached_object(task: tuple[Path, str]) -> Path:
        source, optimize = task
        key = content_key(["object", compiler.identity, source.name, optimize])
        folder, _ = cache.get(key, lambda work: compiler.compile(source, work / "object.o", optimize))
        return folder / "object.o"

    with ThreadPoolExecutor(compiler.jobs) as pool:
        return list(pool.map(cached_object, sources))


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


def _package_file(name: str) -> Path:
    return Path(str(resources.files("headrace_sim"))) / "cpp" / name


def _cocotb_main() -> Path:
    from cocotb_tools import config

    return Path(config.share_dir) / "lib" / "verilator" / "verilator.cpp"


def _cocotb_libs() -> Path:
    from cocotb_tools import config

    return Path(config.libs_dir)
