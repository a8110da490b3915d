"""In the simulator: frames through a design with the public AXI4-Stream models, which know nothing of Headrace."""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource


def pauses(rng: random.Random, probability: float) -> Iterator[bool]:
    """Bursts of random length in which a side waits or not."""
    while True:
        yield from itertools.repeat(rng.random() < probability, rng.randrange(1, 9))


@cocotb.test()
async def frames(dut: object) -> None:
    """Every frame in, every frame out, on all ports at once; tlast must end each frame."""
    job = json.loads(Path(os.environ["AXI_JOB"]).read_text())
    rng = random.Random(job["seed"])
    Clock(dut.ap_clk, 10, unit="ns").start()
    dut.ap_rst_n.value = 0
    options = {"clock": dut.ap_clk, "reset": dut.ap_rst_n, "reset_active_level": False}
    sources = {p: AxiStreamSource(AxiStreamBus.from_prefix(dut, p), byte_lanes=n, **options) for p, n in job["inputs"]}
    sinks = {p: AxiStreamSink(AxiStreamBus.from_prefix(dut, p), byte_lanes=n, **options) for p, n in job["outputs"]}
    for side in (*sources.values(), *sinks.values()):
        side.set_pause_generator(pauses(rng, job["pause"]))
    for _ in range(8):
        await RisingEdge(dut.ap_clk)
    dut.ap_rst_n.value = 1
    for port, given in job["frames"].items():
        for text in given:
            await sources[port].send(AxiStreamFrame(bytes.fromhex(text)))
    got: dict[str, list[str]] = {port: [] for port in sinks}
    for _ in range(job["count"]):
        for port, sink in sinks.items():
            frame = await with_timeout(sink.recv(), 5, "ms")
            got[port].append(bytes(frame.tdata).hex())
    for _ in range(200):
        await RisingEdge(dut.ap_clk)
    assert all(sink.empty() for sink in sinks.values()), "more came out than went in"
    Path(job["result"]).write_text(json.dumps(got))
