"""The trade-off curve of accuracy and area on real digits.

python -m examples.bit_width_search.search
"""

from __future__ import annotations

from dataclasses import dataclass
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


def main() -> list[Point]:
    torch.set_num_threads(1)
    print(f"{'price':>8}  {'w a w a w':<10} {'bit products':>12} {'LUTs':>10} {'accuracy':>9}", flush=True)
    points = []
    for price in PRICES:
        points.append(search(price))
        print(show(points[-1]), flush=True)
    return points


if __name__ == "__main__":
    main()
