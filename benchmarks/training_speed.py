"""CPU time of training steps and evaluation against float torch and Brevitas 0.13.4, side by side in one run.

    python benchmarks/training_speed.py                  # everything, one thread
    python benchmarks/training_speed.py --rounds 9 --only linear
    python benchmarks/training_speed.py --device cuda    # events on the device instead of CPU time

Every case is one model three times: float torch, Headrace, and Brevitas (where installed). The three take turns, each
turn is measured in CPU time of the process, and the median of the turns counts; load of other processes cancels as far
as it slows all three alike. A ratio is CPU time over that of float torch. Quantized models are past the collection of
statistics, so that a step is what it is for nearly all of a training. Exit status 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEP_TARGETS = {"linear": 1.5, "conv": 1.3, "cnv": 1.2}
EVAL_TARGET = 1.15
IMPORT_TARGET = 1.3


@dataclass(frozen=True)
class Family:
    """One library: its layers, or float torch when *layers* is ``None``."""

    name: str
    layers: ModuleType | None

    def linear(
        self, inputs: int, outputs: int, bits: int, quantized_input: bool = False, bias: bool = True
    ) -> nn.Module:
        if self.layers is None:
            return nn.Linear(inputs, outputs, bias)
        act = {"input_quant": self._act8(), "input_bit_width": bits} if quantized_input else {}
        made: nn.Module = self.layers.QuantLinear(inputs, outputs, bias, weight_bit_width=bits, **act)
        return made

    def conv(self, inputs: int, outputs: int, bits: int, padding: int, per_channel: bool = False) -> nn.Module:
        if self.layers is None:
            return nn.Conv2d(inputs, outputs, 3, padding=padding, bias=False)
        options = {"weight_bit_width": bits, "weight_scaling_per_output_channel": per_channel}
        made: nn.Module = self.layers.QuantConv2d(inputs, outputs, 3, padding=padding, bias=False, **options)
        return made

    def relu(self, bits: int) -> nn.Module:
        if self.layers is None:
            return nn.ReLU()
        made: nn.Module = self.layers.QuantReLU(bit_width=bits, return_quant_tensor=True)
        return made

    def identity(self, bits: int) -> nn.Module:
        if self.layers is None:
            return nn.Identity()
        made: nn.Module = self.layers.QuantIdentity(bit_width=bits, return_quant_tensor=True)
        return made

    def _act8(self) -> Any:
        package = "headrace" if self.name == "headrace" else "brevitas"
        return __import__(f"{package}.quant", fromlist=["x"]).Int8ActPerTensorFloat


class Chain(nn.Sequential):
    """Layers one after the other; quant tensors pass between them."""


def linear_weights(family: Family) -> nn.Module:
    return Chain(family.linear(1024, 1024, 4))


def linear_full(family: Family) -> nn.Module:
    return Chain(family.linear(1024, 1024, 4, quantized_input=True))


def conv_tensor(family: Family) -> nn.Module:
    return Chain(family.relu(4), family.conv(64, 64, 4, 1), family.relu(4))


def conv_channel(family: Family) -> nn.Module:
    return Chain(family.relu(4), family.conv(64, 64, 4, 1, per_channel=True), family.relu(4))


def cnv_w2a2(family: Family) -> nn.Module:
    """The CNV topology for 32 x 32 images: six convolutions, three dense layers, batch norms."""
    layers: list[nn.Module] = [family.identity(8)]
    channels = 3
    for width, pool in ((64, False), (64, True), (128, False), (128, True), (256, False), (256, False)):
        layers += [family.conv(channels, width, 2, 0), nn.BatchNorm2d(width), family.relu(2)]
        layers += [nn.MaxPool2d(2)] if pool else []
        channels = width
    layers.append(nn.Flatten())
    for inputs, outputs in ((256, 512), (512, 512)):
        layers += [family.linear(inputs, outputs, 2, bias=False), nn.BatchNorm1d(outputs), family.relu(2)]
    return Chain(*layers, family.linear(512, 10, 2, bias=False))


@dataclass(frozen=True)
class Case:
    """A model and its input; *group* names the target of its training step."""

    name: str
    group: str
    model: Callable[[Family], nn.Module]
    shape: tuple[int, ...]
    calls: int
    """Calls in a turn: enough to be long against the clock."""


CASES = (
    Case("Linear 1024x1024, w4", "linear", linear_weights, (128, 1024), 6),
    Case("Linear 1024x1024, w4 a4", "linear", linear_full, (128, 1024), 6),
    Case("ReLU a4, Conv 64->64 3x3 w4, ReLU a4", "conv", conv_tensor, (32, 64, 32, 32), 1),
    Case("the same, a scale a channel", "conv", conv_channel, (32, 64, 32, 32), 1),
    Case("CNV-w2a2", "cnv", cnv_w2a2, (64, 3, 32, 32), 1),
)


def families() -> list[Family]:
    """Float torch, Headrace, and Brevitas if it is installed."""
    import headrace.nn

    found = [Family("torch", None), Family("headrace", headrace.nn)]
    try:
        import brevitas.nn
    except ImportError:
        return found
    return [*found, Family("brevitas", brevitas.nn)]


def trained(case: Case, family: Family, device: str) -> nn.Module:
    """The model of *case*, on *device*, with scales that are past the collection of statistics."""
    torch.manual_seed(0)
    model = case.model(family).to(device)
    for module in model.modules():
        if hasattr(module, "collect_stats_steps"):
            module.collect_stats_steps = 2
    model.train()
    for _ in range(4):
        model(torch.randn(case.shape, device=device))
    return model


def step(model: nn.Module, x: Tensor) -> Callable[[], object]:
    """Forward and backward pass."""
    x = x.clone().requires_grad_()

    def run() -> None:
        model.zero_grad()
        out = model(x)
        (out if isinstance(out, Tensor) else out.value).square().sum().backward()

    return run


def evaluation(model: nn.Module, x: Tensor) -> Callable[[], object]:
    def run() -> None:
        with torch.no_grad():
            model(x)

    return run


def turn(run: Callable[[], object], calls: int, device: str) -> float:
    """Seconds of *calls* calls: CPU time, or time on the GPU."""
    if device == "cuda":
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3
    before = time.process_time()
    for _ in range(calls):
        run()
    return time.process_time() - before


def ratios(case: Case, made: list[Family], rounds: int, mode: str, device: str) -> dict[str, float]:
    """Median time of each library over that of the first."""
    torch.manual_seed(1)
    x = torch.randn(case.shape, device=device)
    runs: dict[str, Callable[[], object]] = {}
    for family in made:
        model = trained(case, family, device)
        if mode == "step":
            runs[family.name] = step(model, x)
        else:
            runs[family.name] = evaluation(model.eval(), x)
        runs[family.name]()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(turn(run, case.calls, device))
    medians = {name: statistics.median(t) for name, t in times.items()}
    return {name: t / medians["torch"] for name, t in medians.items()}


def import_seconds(statement: str) -> float:
    """User and system time of a Python process that runs *statement*."""
    before = os.times()
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def import_ratios(made: list[Family], rounds: int) -> dict[str, float]:
    """Median time to import each library over that of torch."""
    statements = {f.name: "import torch" if f.layers is None else f"import {f.layers.__name__}" for f in made}
    times: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(rounds):
        for name, statement in statements.items():
            times[name].append(import_seconds(statement))
    base = statistics.median(times["torch"])
    return {name: statistics.median(t) / base for name, t in times.items()}


def report(name: str, mode: str, target: float, found: dict[str, float]) -> bool:
    """Print one line; whether the target is met."""
    peers = "  ".join(f"{library} {ratio:5.2f}x" for library, ratio in found.items() if library != "torch")
    met = found["headrace"] <= target
    print(f"{name:<38} {mode:<6} {peers}  (at most {target:.2f}x{'' if met else ', missed'})", flush=True)
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each library")
    parser.add_argument("--only", default="", help="a part of the name or group of the cases to run")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    F.relu(torch.zeros(1))
    made = families()
    met = []
    for case in CASES:
        if chosen.only not in case.name and chosen.only not in case.group:
            continue
        for mode, target in (("step", STEP_TARGETS[case.group]), ("eval", EVAL_TARGET)):
            found = ratios(case, made, chosen.rounds, mode, chosen.device)
            met.append(report(case.name, mode, target, found))
    if chosen.only in "import" and chosen.device == "cpu":
        met.append(report("import", "", IMPORT_TARGET, import_ratios(made, min(chosen.rounds, 3))))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
