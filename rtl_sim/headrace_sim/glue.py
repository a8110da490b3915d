"""What ties one design to the generic driver, or to cocotb: C++ for its ports and streams, and what stays visible."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from headrace_sim.control import SIGNALS
from headrace_sim.errors import BuildError, ManifestError
from headrace_sim.manifest import Manifest, Port

# -O1 and above take ten times longer than -Os on the long expressions of an unrolled layer
# (measured: 35 s against 5 s a file, for a model only 1.5 times faster); -O0 runs 14 times slower.
DEFAULT_OPTIMIZE = "s"
OPTIMIZE_LEVELS = ("0", "s", "1", "2", "3")


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


def _cocotb_main() -> Path:
    from cocotb_tools import config

    return Path(config.share_dir) / "lib" / "verilator" / "verilator.cpp"
