"""The trade-off curve of accuracy and area on real digits.

python -m examples.bit_width_search.search [PICTURE.svg]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

import headrace.nn as qnn
from headrace.graph.bit_width import freeze_bit_widths
from headrace.inject.enum import BitWidthImplType, RestrictValueType, ScalingImplType
from headrace.loss import HardwareCost
from headrace.quant import Int8WeightPerTensorFloat, Uint8ActPerTensorFloat

PRICES = (0.0, 1e-7, 1e-6, 1e-5, 3e-5, 1e-4)
"""Added to the loss for each estimated lookup table."""
BATCH = 100
BIT_RATE = 0.04
"""Learning rate of bit widths: far enough to go from eight bits to two within the training."""
HELD_OUT = 400


class LearnedWeight(Int8WeightPerTensorFloat):
    """Weights with learned scale and bit width."""

    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS
    restrict_scaling_type = RestrictValueType.LOG_FP
    bit_width_impl_type = BitWidthImplType.PARAMETER


class LearnedActivation(Uint8ActPerTensorFloat):
    """Unsigned activations with learned scale and bit width."""

    restrict_scaling_type = RestrictValueType.LOG_FP
    bit_width_impl_type = BitWidthImplType.PARAMETER
    collect_stats_steps = 30


@dataclass(frozen=True)
class Point:
    """One point of the curve."""

    price: float
    bits: tuple[int, ...]
    bit_operations: float
    luts: float
    accuracy: float


def network(start_bits: int = 8) -> nn.Sequential:
    """64-16-16-10; pixels of 4 bits enter, all other bit widths are learned."""
    layers: list[nn.Module] = [
        qnn.QuantIdentity(act_quant=Uint8ActPerTensorFloat, bit_width=4, return_quant_tensor=True)
    ]
    for inputs, outputs in ((64, 16), (16, 16)):
        layers += [
            qnn.QuantLinear(inputs, outputs, weight_quant=LearnedWeight, weight_bit_width=start_bits),
            nn.BatchNorm1d(outputs),
            qnn.QuantReLU(act_quant=LearnedActivation, bit_width=start_bits, return_quant_tensor=True),
        ]
    layers.append(qnn.QuantLinear(16, 10, weight_quant=LearnedWeight, weight_bit_width=start_bits))
    return nn.Sequential(*layers)


def digits() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Training and held-out digits, ``(images in [0, 1], labels)`` each."""
    data = load_digits()
    images = torch.tensor(data.data, dtype=torch.float32) / 16
    labels = torch.tensor(data.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    train, test = order[HELD_OUT:], order[:HELD_OUT]
    return (images[train], labels[train]), (images[test], labels[test])


def train(model: nn.Module, data: tuple[Tensor, Tensor], epochs: int, rate: float, price: float) -> None:
    """Cross entropy plus *price* a lookup table."""
    cost = HardwareCost(model)
    named = list(model.named_parameters())
    bits = [p for name, p in named if name.endswith("bit_width_offset")]
    others = [p for name, p in named if not name.endswith("bit_width_offset")]
    groups: list[dict[str, Any]] = [{"params": others}, {"params": bits, "lr": BIT_RATE}]
    optimizer = torch.optim.Adam(groups, rate)
    model.train()
    images, labels = data
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(labels)), BATCH):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images[batch]), labels[batch])
            if price:
                loss = loss + price * cost.luts()
            torch.autograd.backward(loss)
            optimizer.step()
    cost.remove_hooks()


def search(price: float, epochs: int = 30, fine_tuning: int = 10) -> Point:
    """Train at one price, freeze what was found, fine-tune, measure."""
    torch.manual_seed(0)
    training, (images, labels) = digits()
    model = network()
    train(model, training, epochs, 0.01, price)
    bits = freeze_bit_widths(model)
    train(model, training, fine_tuning, 0.002, 0.0)
    cost = HardwareCost(model)
    model.eval()
    with torch.no_grad():
        accuracy = float((model(images).argmax(1) == labels).float().mean())
        return Point(price, tuple(bits.values()), float(cost.bit_operations()), float(cost.luts()), accuracy)


def show(point: Point) -> str:
    """One line of the table."""
    bits = " ".join(map(str, point.bits))
    return f"{point.price:8.0e}  {bits:<10} {point.bit_operations:12,.0f} {point.luts:10,.0f} {point.accuracy:9.1%}"


def picture(points: list[Point]) -> str:
    """The curve as SVG: LUTs to the right, accuracy upwards, bit widths at the points."""
    width, height, left, bottom = 720, 420, 70, 50
    most = 1.1 * max(p.luts for p in points)
    low = min(p.accuracy for p in points) - 0.01
    high = max(p.accuracy for p in points) + 0.01

    def x(luts: float) -> float:
        return left + (width - left - 140) * luts / most

    def y(accuracy: float) -> float:
        return 20 + (height - 20 - bottom) * (high - accuracy) / (high - low)

    ordered = sorted(points, key=lambda p: p.luts)
    line = " ".join(f"{x(p.luts):.1f},{y(p.accuracy):.1f}" for p in ordered)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<path d="M{left} 20V{height - bottom}H{width - 20}" fill="none" stroke="black"/>',
        f'<polyline points="{line}" fill="none" stroke="#2a6db0" stroke-width="2"/>',
        f'<text x="{(left + width) / 2}" y="{height - 10}" text-anchor="middle" font-size="13">estimated LUTs</text>',
        f'<text x="16" y="{height / 2}" font-size="13" text-anchor="middle" '
        f'transform="rotate(-90 16 {height / 2})">accuracy on held-out digits</text>',
    ]
    for p in ordered:
        bits = " ".join(map(str, p.bits))
        parts += [
            f'<circle cx="{x(p.luts):.1f}" cy="{y(p.accuracy):.1f}" r="4" fill="#2a6db0"/>',
            f'<text x="{x(p.luts) + 8:.1f}" y="{y(p.accuracy) + 14:.1f}" font-size="11">{bits}</text>',
        ]
    for share in (0.0, 0.5, 1.0):
        luts, accuracy = share * most, low + share * (high - low)
        below = height - bottom + 16
        parts += [
            f'<text x="{x(luts):.1f}" y="{below}" font-size="11" text-anchor="middle">{luts:,.0f}</text>',
            f'<text x="{left - 6}" y="{y(accuracy) + 4:.1f}" font-size="11" text-anchor="end">{accuracy:.1%}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def main(arguments: list[str] | None = None) -> list[Point]:
    torch.set_num_threads(1)
    print(f"{'price':>8}  {'w a w a w':<10} {'bit products':>12} {'LUTs':>10} {'accuracy':>9}", flush=True)
    points = []
    for price in PRICES:
        points.append(search(price))
        print(show(points[-1]), flush=True)
    for path in (arguments or [])[:1]:
        Path(path).write_text(picture(points), encoding="utf-8")
    return points


if __name__ == "__main__":
    main(sys.argv[1:])
