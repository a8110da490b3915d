"""What the scripts for Vivado may do: a model of its commands that refuses what it does not know.

Commands, properties, pins of IPs and their names are Xilinx's (PG021 for the DMA, PG247 for SmartConnect, PG164 for the
reset, UG835 for Tcl). A name that is not in these tables is refused: extend them after looking it up, not before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

IP_PROPERTIES = {
    "zynq_ultra_ps_e": {
        *("PSU__USE__M_AXI_GP0", "PSU__USE__M_AXI_GP1", "PSU__USE__M_AXI_GP2", "PSU__USE__S_AXI_GP2"),
        *("PSU__FPGA_PL0_ENABLE", "PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ"),
    },
    "processing_system7": {
        *("PCW_USE_M_AXI_GP0", "PCW_USE_S_AXI_HP0", "PCW_EN_CLK0_PORT", "PCW_EN_RST0_PORT"),
        *("PCW_FPGA0_PERIPHERAL_FREQMHZ", "PCW_CRYSTAL_PERIPHERAL_FREQMHZ"),
    },
    "proc_sys_reset": set[str](),
    "smartconnect": {"NUM_SI", "NUM_MI", "NUM_CLKS"},
    "axi_dma": {
        *("c_include_sg", "c_sg_include_stscntrl_strm", "c_sg_length_width", "c_addr_width", "c_include_mm2s"),
        *("c_include_s2mm", "c_m_axi_mm2s_data_width", "c_m_axis_mm2s_tdata_width", "c_m_axi_s2mm_data_width"),
        *("c_s_axis_s2mm_tdata_width", "c_include_mm2s_dre", "c_include_s2mm_dre"),
    },
}
"""By IP of xilinx.com:ip."""

DEFAULTS = {
    "zynq_ultra_ps_e": {"PSU__USE__M_AXI_GP0": "1", "PSU__USE__M_AXI_GP1": "1", "PSU__USE__M_AXI_GP2": "0"},
    "processing_system7": {"PCW_USE_M_AXI_GP0": "1", "PCW_EN_CLK0_PORT": "1", "PCW_EN_RST0_PORT": "1"},
    "smartconnect": {"NUM_SI": "2", "NUM_MI": "1"},
    "axi_dma": {
        "c_include_sg": "1",
        "c_sg_length_width": "14",
        "c_include_mm2s": "1",
        "c_include_s2mm": "1",
        "c_m_axi_mm2s_data_width": "32",
        "c_m_axis_mm2s_tdata_width": "32",
        "c_m_axi_s2mm_data_width": "32",
        "c_s_axis_s2mm_tdata_width": "32",
    },
}

PROCESSORS = {
    "zynq_ultra_ps_e": {
        "M_AXI_HPM0_FPD": ("PSU__USE__M_AXI_GP0", True, "maxihpm0_fpd_aclk"),
        "M_AXI_HPM1_FPD": ("PSU__USE__M_AXI_GP1", True, "maxihpm1_fpd_aclk"),
        "M_AXI_HPM0_LPD": ("PSU__USE__M_AXI_GP2", True, "maxihpm0_lpd_aclk"),
        "S_AXI_HP0_FPD": ("PSU__USE__S_AXI_GP2", False, "saxihp0_fpd_aclk"),
    },
    "processing_system7": {
        "M_AXI_GP0": ("PCW_USE_M_AXI_GP0", True, "M_AXI_GP0_ACLK"),
        "S_AXI_HP0": ("PCW_USE_S_AXI_HP0", False, "S_AXI_HP0_ACLK"),
    },
}
"""Interfaces by property: whether master, and their clock."""

KERNEL_PROPERTIES = {"sdx_kernel", "sdx_kernel_type", "vitis_drc", "ipi_drc"}
CORE_PROPERTIES = KERNEL_PROPERTIES | {"name", "version", "display_name", "description", "auto_family_support_level"}
FAMILY = {"zynq_ultra_ps_e": ("xczu", "xck"), "processing_system7": ("xc7z",)}


class Refused(Exception):
    """What Vivado would not do."""


@dataclass(frozen=True)
class Interface:
    """An interface pin: kind, direction, width of its data in bits (0: any), and the clock and reset that it is of."""

    kind: str
    master: bool
    bits: int
    clock: str
    optional: bool = False


@dataclass
class Cell:
    """A cell of a block design."""

    ip: str
    config: dict[str, str]
    packaged: dict[str, Interface] = field(default_factory=dict)

    def on(self, name: str) -> bool:
        return self.config.get(name, "0") == "1"

    def interfaces(self) -> dict[str, Interface]:
        """Those that its configuration leaves."""
        c = self.config
        if self.ip in PROCESSORS:
            ports = PROCESSORS[self.ip].items()
            return {name: Interface("aximm", master, 0, clock) for name, (use, master, clock) in ports if self.on(use)}
        if self.ip == "smartconnect":
            sides = [(f"S{k:02d}_AXI", False) for k in range(int(c["NUM_SI"]))]
            sides += [(f"M{k:02d}_AXI", True) for k in range(int(c["NUM_MI"]))]
            return {name: Interface("aximm", master, 0, "aclk") for name, master in sides}
        if self.ip == "axi_dma":
            found = {"S_AXI_LITE": Interface("aximm", False, 32, "s_axi_lite_aclk")}
            if self.on("c_include_mm2s"):
                memory, stream = (int(c[f"c_m_{kind}"]) for kind in ("axi_mm2s_data_width", "axis_mm2s_tdata_width"))
                found["M_AXI_MM2S"] = Interface("aximm", True, memory, "m_axi_mm2s_aclk")
                found["M_AXIS_MM2S"] = Interface("axis", True, stream, "m_axi_mm2s_aclk")
            if self.on("c_include_s2mm"):
                memory, stream = int(c["c_m_axi_s2mm_data_width"]), int(c["c_s_axis_s2mm_tdata_width"])
                found["M_AXI_S2MM"] = Interface("aximm", True, memory, "m_axi_s2mm_aclk")
                found["S_AXIS_S2MM"] = Interface("axis", False, stream, "m_axi_s2mm_aclk")
            return found
        return self.packaged

    def pins(self) -> dict[str, str]:
        """Direction by pin: ``I`` must be driven, ``i`` may be, ``O`` drives."""
        clocks = {interface.clock: "I" for interface in self.interfaces().values()}
        more = {
            "zynq_ultra_ps_e": {"pl_clk0": "O", "pl_resetn0": "O"},
            "processing_system7": {"FCLK_CLK0": "O", "FCLK_RESET0_N": "O"},
            "proc_sys_reset": {
                "slowest_sync_clk": "I",
                "ext_reset_in": "I",
                "aux_reset_in": "i",
                "dcm_locked": "i",
                "peripheral_aresetn": "O",
                "interconnect_aresetn": "O",
                "peripheral_reset": "O",
            },
            "smartconnect": {"aresetn": "I"},
            "axi_dma": {"axi_resetn": "I", "mm2s_introut": "O", "s2mm_introut": "O"},
        }
        return {**clocks, **more.get(self.ip, {"ap_rst_n": "I"})}

    def check(self) -> None:
        """What its own rules say of its configuration."""
        c = self.config
        if self.ip == "smartconnect" and not (1 <= int(c["NUM_SI"]) <= 16 and 1 <= int(c["NUM_MI"]) <= 16):
            raise Refused(f"SmartConnect with {c['NUM_SI']} x {c['NUM_MI']} ports")
        if self.ip != "axi_dma":
            return
        if c.get("c_include_sg") != "0" or int(c["c_sg_length_width"]) != 26:
            raise Refused("the driver works in simple mode, with transfers of up to 2**26 - 1 bytes")
        widths = {name: i.bits for name, i in self.interfaces().items()}
        for stream, memory in (("M_AXIS_MM2S", "M_AXI_MM2S"), ("S_AXIS_S2MM", "M_AXI_S2MM")):
            if stream in widths:
                if widths[stream] not in (8, 16, 32, 64, 128, 256, 512, 1024):
                    raise Refused(f"{stream}: {widths[stream]} bits")
                if widths[memory] not in (32, 64, 128, 256, 512, 1024) or widths[memory] < widths[stream]:
                    raise Refused(f"{memory}: {widths[memory]} bits for a stream of {widths[stream]}")


_PIN = re.compile(r"^\s*(input|output)\s+wire\s*(?:\[(\d+):0\])?\s*(\w+),?$", re.MULTILINE)
_INFO = re.compile(r'X_INTERFACE_INFO = "([^"]+)"')
_PARAMETER = re.compile(r'X_INTERFACE_PARAMETER = "([^"]+)"')


def interfaces_of(verilog: str) -> dict[str, Interface]:
    """The interfaces of a Verilog top, as the packager infers them from its attributes."""
    found: dict[str, dict[str, tuple[str, int]]] = {}
    kinds: dict[str, str] = {}
    header = verilog[verilog.index("(\n") : verilog.index(");")]
    infos = _INFO.findall(header)
    pins = _PIN.findall(header)
    assert len(infos) == len(pins), "a pin without an interface"
    associated = ""
    for parameter in _PARAMETER.findall(header):
        associated += re.sub(r".*ASSOCIATED_BUSIF ([^,]+),.*|.*", r"\1", parameter)
    for info, (direction, high, name) in zip(infos, pins, strict=True):
        kind, interface, signal = re.fullmatch(r"xilinx\.com:(\w+:\w+):1\.0 (\w+) (\w+)", info).groups()  # type: ignore[union-attr]
        kinds[interface] = kind
        found.setdefault(interface, {})[signal] = (direction, int(high or 0) + 1)
        if kind.startswith("interface"):
            assert name == f"{interface}_{signal.lower()}"
    assert kinds.pop("ap_clk") == "signal:clock"
    assert kinds.pop("ap_rst_n") == "signal:reset"
    assert set(associated.split(":")) == set(kinds), "every interface belongs to the clock"
    result = {}
    for interface, kind in kinds.items():
        signals = found[interface]
        if kind == "interface:axis":
            assert {"TDATA", "TVALID", "TREADY", "TLAST"} <= signals.keys()
            assert signals["TDATA"][1] % 8 == 0
            if "TKEEP" in signals:
                assert signals["TKEEP"][1] * 8 == signals["TDATA"][1]
            result[interface] = Interface("axis", signals["TVALID"][0] == "output", signals["TDATA"][1], "ap_clk")
        else:
            assert kind == "interface:aximm"
            result[interface] = Interface("aximm", signals["AWVALID"][0] == "output", signals["WDATA"][1], "ap_clk")
    return result


class Vivado:
    """One run of a script.

    Args:
        board_parts: those that are installed, as patterns name them.
        packaged: Verilog texts by VLNV, of IPs that were packaged before.
    """

    def __init__(self, board_parts: tuple[str, ...] = (), packaged: dict[str, str] | None = None) -> None:
        self.board_parts, self.packaged = board_parts, packaged or {}
        self.cells: dict[str, Cell] = {}
        self.buses: dict[str, str] = {}
        self.drivers: dict[str, str] = {}
        self.part, self.board_part, self.properties = "", "", dict[str, dict[str, str]]()
        self.files: dict[str, str] = {}
        self.cores: list[dict[str, Any]] = []
        self.kernels: dict[str, Path] = {}
        self.validated = self.assigned = False
        self.copied: list[tuple[str, str]] = []
        self.said: list[str] = []
        self.errors: list[Exception] = []

    def run(self, script: Path) -> None:
        """Run *script*; raises Refused, or what Tcl says."""
        tkinter = pytest.importorskip("tkinter", reason="no Tcl interpreter in this Python")
        self.script = script
        tcl = tkinter.Tcl()
        tcl.eval("rename puts {}; rename file tcl_file; rename exec {}; rename open {}; namespace eval ipx {}")
        for name in dir(self):
            if name.startswith("do_"):
                command = name.removeprefix("do_").replace("ipx_", "ipx::")
                tcl.createcommand(command, self._guarded(getattr(self, name)))
        tcl.eval(
            "proc file {what args} { if {$what eq {copy}} { copy {*}$args } "
            "elseif {$what ne {mkdir}} { tcl_file $what {*}$args } }\n"
            "proc unknown {name args} { refuse $name }"
        )
        tcl.eval(f"info script {{{script}}}")
        self.tcl = tcl
        try:
            tcl.eval(script.read_text())
        except tkinter.TclError as error:
            raise (self.errors[0] if self.errors else Refused(str(error))) from error
        if self.errors:
            raise self.errors[0]

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., str]:
        def call(*args: str) -> str:
            try:
                found = function(*map(str, args))
            except Exception as error:
                self.errors.append(error)
                raise
            return "" if found is None else str(found)

        return call

    def list(self, text: str) -> list[str]:
        return [str(item) for item in self.tcl.splitlist(text)]

    # -- projects and files --------------------------------------------------------------------------------------

    def do_refuse(self, name: str) -> None:
        raise Refused(f"no command {name}")

    def do_puts(self, text: str) -> None:
        self.said.append(text)

    def do_copy(self, *args: str) -> None:
        assert args[0] == "-force"
        self.copied.append((args[1], args[2]))

    def do_create_project(self, *args: str) -> str:
        force, self.project, self.project_folder, part, self.part = args
        assert (force, part) == ("-force", "-part")
        self.files = {}
        return "project"

    def do_close_project(self) -> None: ...

    def do_current_project(self) -> str:
        return "project"

    def do_current_fileset(self) -> str:
        return "fileset"

    def do_update_ip_catalog(self) -> None:
        folder = self.properties["project"]["IP_REPO_PATHS"]
        assert self.list(folder) == [str(self.script.parent / "ip")]

    def do_get_board_parts(self, *args: str) -> str:
        assert args[:2] == ("-quiet", "-latest_file_version")
        assert re.fullmatch(r"[\w.]+:[\w-]+:part0:\*", args[2])
        return " ".join(p for p in self.board_parts if p.startswith(args[2].removesuffix("*")))

    def do_add_files(self, *args: str) -> None:
        assert args[0] == "-norecurse"
        path = Path(args[1])
        if not path.is_file():
            raise Refused(f"no file {path}")
        self.files[str(path)] = {".sv": "SystemVerilog", ".v": "Verilog"}.get(path.suffix, "")

    def do_get_files(self, name: str) -> str:
        if name != "system.bd" and name not in self.files:
            raise Refused(f"no file {name} in the project")
        return f"file {name}" if name in self.files else name

    def do_update_compile_order(self, *args: str) -> None:
        assert args == ("-fileset", "sources_1")

    # -- properties ----------------------------------------------------------------------------------------------

    def do_set_property(self, *args: str) -> None:
        if args[0] == "-dict":
            pairs, target = self.list(args[1]), args[2]
            settings = dict(zip(pairs[::2], pairs[1::2], strict=True))
        else:
            settings, target = {args[0]: args[1]}, args[2]
        for name, value in settings.items():
            self._set(target, name, value)

    def _set(self, target: str, name: str, value: str) -> None:
        kind, _, rest = target.partition(" ")
        if kind == "cell":
            cell = self.cells[rest]
            if name.removeprefix("CONFIG.") not in IP_PROPERTIES.get(cell.ip, ()) or not name.startswith("CONFIG."):
                raise Refused(f"{cell.ip} has no property {name}")
            cell.config[name.removeprefix("CONFIG.")] = value
            return
        allowed = {
            "project": {"IP_REPO_PATHS", "BOARD_PART"},
            "fileset": {"TOP"},
            "file": {"FILE_TYPE"},
            "core": CORE_PROPERTIES,
            "bus": {"slave_memory_map_ref"},
            "block": {"range", "width", "usage", "access"},
            "register": {"address_offset", "size"},
        }
        if name not in allowed.get(kind, ()):
            raise Refused(f"no property {name} of {target}")
        if kind == "project" and name == "BOARD_PART":
            assert value in self.board_parts
            self.board_part = value
        if kind == "file":
            assert value == "Memory File"
            self.files[rest] = value
        self.properties.setdefault(target, {})[name] = value

    def do_get_property(self, name: str, target: str) -> str:
        if target == "run":
            return {"PROGRESS": "100%", "STATS.WNS": "0.5"}[name]
        if name == "name":
            return target.split()[-1]
        raise Refused(f"no property {name} of {target}")

    # -- block designs -------------------------------------------------------------------------------------------

    def do_create_bd_design(self, name: str) -> None:
        assert name == "system"

    def do_create_bd_cell(self, *args: str) -> str:
        kind, ip, vlnv, name, cell = args
        assert (kind, ip, vlnv) == ("-type", "ip", "-vlnv")
        assert re.fullmatch(r"[a-z]\w*", cell)
        assert cell not in self.cells
        vendor, library, which, *version = name.split(":")
        if (vendor, library) == ("xilinx.com", "ip"):
            if which not in IP_PROPERTIES:
                raise Refused(f"no IP {name}")
            if not self.part.lower().startswith(FAMILY.get(which, ("xc",))):
                raise Refused(f"{name} is not for {self.part}")
            self.cells[cell] = Cell(which, dict(DEFAULTS.get(which, {})))
        else:
            assert version == ["1.0"]
            if name not in self.packaged:
                raise Refused(f"no IP {name} in the repository")
            self.cells[cell] = Cell(name, {}, interfaces_of(self.packaged[name]))
        return f"cell {cell}"

    def do_get_bd_cells(self, name: str) -> str:
        if name not in self.cells:
            raise Refused(f"no cell {name}")
        return f"cell {name}"

    def do_apply_bd_automation(self, *args: str) -> None:
        rule, which, config, given, target = args
        assert (rule, config) == ("-rule", "-config")
        cell = self.cells[target.removeprefix("cell ")]
        if which.removeprefix("xilinx.com:bd_rule:") != cell.ip:
            raise Refused(f"rule {which} for {cell.ip}")
        pairs = self.list(given)
        settings = dict(zip(pairs[::2], pairs[1::2], strict=True))
        assert settings["apply_board_preset"] == str(int(bool(self.board_part)))
        if cell.ip == "processing_system7":
            assert settings["make_external"] == "FIXED_IO, DDR"

    def do_get_bd_pins(self, path: str) -> str:
        cell, _, pin = path.partition("/")
        if pin not in self.cells[cell].pins():
            raise Refused(f"no pin {path}")
        return f"pin {path}"

    def do_get_bd_intf_pins(self, path: str) -> str:
        cell, _, pin = path.partition("/")
        if pin not in self.cells[cell].interfaces():
            raise Refused(f"no interface {path}")
        return f"interface {path}"

    def _pin(self, path: str) -> str:
        cell, _, pin = path.removeprefix("pin ").partition("/")
        return self.cells[cell].pins()[pin]

    def do_connect_bd_net(self, source: str, sink: str) -> None:
        if self._pin(source) != "O" or self._pin(sink) == "O":
            raise Refused(f"{sink} is no sink of {source}")
        target = sink.removeprefix("pin ")
        if target in self.drivers:
            raise Refused(f"{target} has two drivers")
        self.drivers[target] = source.removeprefix("pin ")

    def interface(self, path: str) -> Interface:
        cell, _, pin = path.partition("/")
        return self.cells[cell].interfaces()[pin]

    def do_connect_bd_intf_net(self, one: str, other: str) -> None:
        master, slave = (path.removeprefix("interface ") for path in (one, other))
        a, b = self.interface(master), self.interface(slave)
        if not a.master or b.master or a.kind != b.kind:
            raise Refused(f"{master} and {slave} do not fit")
        if a.kind == "axis" and a.bits != b.bits:
            raise Refused(f"{master} has {a.bits} bits, {slave} {b.bits}")
        if master in self.buses or slave in self.buses.values():
            raise Refused(f"{master} or {slave} is connected twice")
        self.buses[master] = slave

    def do_assign_bd_address(self) -> None:
        self.assigned = True

    def do_validate_bd_design(self) -> None:
        """Everything is connected, once, to one clock and its reset, and every master reaches a slave."""
        assert self.assigned, "no addresses"
        for name, cell in self.cells.items():
            cell.check()
            for pin, direction in cell.pins().items():
                if direction == "I" and f"{name}/{pin}" not in self.drivers:
                    raise Refused(f"{name}/{pin} has no driver")
            for pin in cell.interfaces():
                if f"{name}/{pin}" not in {*self.buses, *self.buses.values()}:
                    raise Refused(f"{name}/{pin} is not connected")
        clock = next(
            f"{name}/{c}" for name, cell in self.cells.items() for c in ("pl_clk0", "FCLK_CLK0") if c in cell.pins()
        )
        for sink, source in self.drivers.items():
            if "clk" in sink.lower():
                assert source == clock, sink
            elif not sink.endswith("ext_reset_in"):
                assert source.partition("/")[2] in ("peripheral_aresetn", "interconnect_aresetn"), sink
        self.validated = True

    def do_save_bd_design(self) -> None:
        assert self.validated

    def do_make_wrapper(self, *args: str) -> None:
        assert args == ("-files", "system.bd", "-top", "-import")

    def do_launch_runs(self, *args: str) -> None:
        assert args[:3] == ("impl_1", "-to_step", "write_bitstream")
        assert self.validated
        assert self.properties["fileset"]["TOP"] == "system_wrapper"

    def do_wait_on_run(self, name: str) -> None:
        assert name == "impl_1"

    def do_get_runs(self, name: str) -> str:
        assert name == "impl_1"
        return "run"

    def do_open_run(self, name: str) -> None:
        assert name == "impl_1"

    def do_report_utilization(self, *args: str) -> None:
        assert args[:2] == ("-hierarchical", "-file")

    def do_report_timing_summary(self, *args: str) -> None:
        assert args[0] == "-file"

    # -- packaging -----------------------------------------------------------------------------------------------

    def do_ipx_package_project(self, *args: str) -> None:
        options = dict(zip(args[::2], args[1::2], strict=False))
        top = self.properties["fileset"]["TOP"]
        sources = [path for path in self.files if Path(path).stem == top]
        if not sources or self.files[sources[0]] != "Verilog":
            raise Refused(f"the top {top} of an IP is in Verilog or VHDL (UG1118)")
        assert "-import_files" in args
        self.core = {
            "root": options["-root_dir"],
            "top": top,
            "verilog": Path(sources[0]).read_text(),
            "files": dict(self.files),
            "interfaces": interfaces_of(Path(sources[0]).read_text()),
            "clocked": set(),
            "maps": {name for name, i in interfaces_of(Path(sources[0]).read_text()).items() if i.kind == "aximm"},
            "blocks": {"reg0"},
            "registers": {},
        }

    def do_ipx_current_core(self) -> str:
        return "core"

    def do_ipx_associate_bus_interfaces(self, *args: str) -> None:
        assert args[-1] == "core"
        options = dict(zip(args[:-1:2], args[1:-1:2], strict=True))
        assert options["-clock"] == "ap_clk"
        if "-busif" in options:
            if options["-busif"] not in self.core["interfaces"]:
                raise Refused(f"no interface {options['-busif']}")
            self.core["clocked"].add(options["-busif"])
        else:
            self.core["reset"] = options["-reset"]

    def do_ipx_get_memory_maps(self, name: str, option: str, core: str) -> str:
        assert (option, core) == ("-of_objects", "core")
        return f"{{map {name}}}" if name in self.core["maps"] else ""

    def do_ipx_add_memory_map(self, name: str, core: str) -> str:
        self.core["maps"].add(name)
        return f"map {name}"

    def do_ipx_get_bus_interfaces(self, name: str, option: str, core: str) -> str:
        assert name in self.core["interfaces"]
        return f"bus {name}"

    def do_ipx_get_address_blocks(self, option: str, owner: str) -> str:
        assert option == "-of_objects"
        return " ".join(f"{{block {name}}}" for name in self.core["blocks"])

    def do_ipx_remove_address_block(self, name: str, owner: str) -> None:
        self.core["blocks"].remove(name)

    def do_ipx_add_address_block(self, name: str, owner: str) -> str:
        assert name not in self.core["blocks"]
        self.core["blocks"].add(name)
        return f"block {name}"

    def do_ipx_add_register(self, name: str, block: str) -> str:
        self.core["registers"][name] = f"register {name}"
        return f"register {name}"

    def do_package_xo(self, *args: str) -> None:
        assert args[0] == "-force"
        options = dict(zip(args[1::2], args[2::2], strict=True))
        core = next(core for core in self.cores if core["name"] == options["-kernel_name"])
        assert options["-ip_directory"] == core["root"]
        assert options.keys() == {"-xo_path", "-kernel_name", "-ip_directory", "-ctrl_protocol"}
        assert core["sdx_kernel"] == "true"
        assert core["sdx_kernel_type"] == "rtl"
        assert core["vitis_drc"] == f"ctrl_protocol {options['-ctrl_protocol']}"
        controlled = any(interface.kind == "aximm" for interface in core["interfaces"].values())
        assert options["-ctrl_protocol"] == ("user_managed" if controlled else "ap_ctrl_none")
        self.kernels[options["-kernel_name"]] = Path(options["-xo_path"])

    def do_ipx_create_xgui_files(self, core: str) -> None: ...

    def do_ipx_update_checksums(self, core: str) -> None: ...

    def do_ipx_check_integrity(self, core: str) -> None:
        core_data = self.core
        assert core_data["clocked"] == set(core_data["interfaces"])
        assert core_data["reset"] == "ap_rst_n"

    def do_ipx_save_core(self, core: str) -> None:
        properties = self.properties["core"]
        registers = {name: self.properties[key] for name, key in self.core["registers"].items()}
        self.cores.append(
            {**self.core, **properties, "registers": registers, "block": self.properties.get("block reg0")}
        )
