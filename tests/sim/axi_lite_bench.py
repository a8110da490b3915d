"""In the simulator: the control interface by the public AXI4-Lite model, frames by the public stream models."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from sim.axi_bench import pauses


class Counts:
    """What happens on every stream while the design counts, cycle by cycle."""

    def __init__(self, dut: object, signals: list[str]) -> None:
        self.dut, self.signals = dut, signals
        self.counts = {signal: {"words": 0, "stalled": 0, "starved": 0} for signal in signals}

    async def run(self) -> None:
        control = self.dut.i_control_interface
        while True:
            await RisingEdge(self.dut.ap_clk)
            if not int(self.dut.ap_rst_n.value):
                continue
            if int(control.clear.value):
                for counts in self.counts.values():
                    counts.update(dict.fromkeys(counts, 0))
                continue
            if not int(control.enable_q.value):
                continue
            for signal, counts in self.counts.items():
                valid = int(getattr(self.dut, f"{signal}_tvalid").value)
                ready = int(getattr(self.dut, f"{signal}_tready").value)
                counts["words"] += valid and ready
                counts["stalled"] += valid and not ready
                counts["starved"] += ready and not valid


class Control:
    """Reads and writes, and remembers what was refused."""

    def __init__(self, master: AxiLiteMaster) -> None:
        self.master = master

    async def write(self, address: int, data: bytes) -> bool:
        """Whether it was accepted."""
        answer = await with_timeout(self.master.write(address, data), 1, "ms")
        return answer.resp == AxiResp.OKAY

    async def read(self, address: int) -> tuple[int, bool]:
        """The word, and whether it was accepted."""
        answer = await with_timeout(self.master.read(address, 4), 1, "ms")
        return int.from_bytes(answer.data, "little"), answer.resp == AxiResp.OKAY


async def registers(control: Control, job: dict) -> None:
    """Fixed words, byte strobes, and addresses where nothing is."""
    assert await control.read(0x00) == (0x43524448, True)
    assert await control.read(0x0C) == (job["map_id"], True)
    assert await control.write(0x1C, bytes(4))
    for k, byte in enumerate((0x11, 0x22, 0x33, 0x44)):
        assert await control.write(0x1C + k, bytes([byte]))
    assert await control.read(0x1C) == (0x44332211, True)
    assert await control.write(0x1D, b"\xaa\xbb")
    assert await control.read(0x1C) == (0x44BBAA11, True)
    for address in (0x00, 0x14, 0x100):  # read-only
        assert not await control.write(address, b"\xff\xff\xff\xff")
    assert await control.read(0x00) == (0x43524448, True)
    for address in (0x20, 0xFFC, *job["unmapped"]):
        assert not (await control.read(address))[1]
        assert not await control.write(address, b"\x01\x02\x03\x04")
    base = job["writes"][0][0]
    before = await control.read(base)
    assert not await control.write(base, b"\xff")  # part of a word of a memory
    assert await control.read(base) == before


async def many_at_once(control: Control, rng: random.Random) -> None:
    """Reads and writes of one word that wait for each other: the last write is what is read in the end."""
    tasks = []
    for _ in range(20):
        word = rng.randrange(2**32)
        tasks.append(cocotb.start_soon(control.write(0x1C, word.to_bytes(4, "little"))))
        tasks.append(cocotb.start_soon(control.read(0x00)))
    for task in tasks:
        await task
    assert await control.read(0x1C) == (word, True)


@cocotb.test()
async def control(dut: object) -> None:
    """The registers, new weights, frames, counters."""
    job = json.loads(Path(os.environ["AXI_JOB"]).read_text())
    rng = random.Random(job["seed"])
    Clock(dut.ap_clk, 10, unit="ns").start()
    dut.ap_rst_n.value = 0
    options = {"clock": dut.ap_clk, "reset": dut.ap_rst_n, "reset_active_level": False}
    (name, lanes), (out, out_lanes) = job["input"], job["output"]
    source = AxiStreamSource(AxiStreamBus.from_prefix(dut, name), byte_lanes=lanes, **options)
    sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, out), byte_lanes=out_lanes, **options)
    bus = AxiLiteBus.from_prefix(dut, "s_axi_control")
    master = AxiLiteMaster(bus, dut.ap_clk, dut.ap_rst_n, reset_active_level=False)
    channels = (master.write_if.aw_channel, master.write_if.w_channel, master.write_if.b_channel)
    for side in (source, sink, *channels, master.read_if.ar_channel, master.read_if.r_channel):
        side.set_pause_generator(pauses(rng, job["pause"]))
    counts = Counts(dut, job["signals"])
    cocotb.start_soon(counts.run())
    for _ in range(8):
        await RisingEdge(dut.ap_clk)
    dut.ap_rst_n.value = 1
    control = Control(master)
    await registers(control, job)
    await many_at_once(control, rng)
    for address, word in job["writes"]:
        assert await control.write(address, word.to_bytes(4, "little"))
    for address, word in job["writes"]:
        assert await control.read(address) == (word, True)
    assert await control.write(0x10, b"\x03\x00\x00\x00")
    for text in job["frames"]:
        await source.send(AxiStreamFrame(bytes.fromhex(text)))
    idle = [(await control.read(0x14))[0]]
    got = [bytes((await with_timeout(sink.recv(), 5, "ms")).tdata).hex() for _ in job["frames"]]
    assert await control.write(0x10, b"\x00\x00\x00\x00")
    idle.append((await control.read(0x14))[0])
    read = [[(await control.read(address))[0] for address in places] for places in job["counters"]]
    expected = [list(counts.counts[signal].values()) for signal in job["signals"]]
    result = {"frames": got, "read": read, "expected": expected, "idle": idle}
    Path(job["result"]).write_text(json.dumps(result))
