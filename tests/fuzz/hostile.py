"""A network whose names mean something to a file system, shell, template, language or terminal."""

from __future__ import annotations

import onnx
from fuzz.mutations import NAMES
from models import quantized_mlp

EVIL = [name for name in NAMES if name]


def renamed(rotation: int) -> onnx.ModelProto:
    """The tiny network under names that mean something to some tool, each in another place for another *rotation*."""
    model = quantized_mlp((6, 5, 3), 3, seed=1)
    pool = [*EVIL[rotation:], *EVIL[:rotation]]
    names = {"": ""}
    for name in ("x", "label", *(name for node in model.graph.node for name in (*node.input, *node.output))):
        number = len(names) - 1
        names.setdefault(name, pool[number % len(pool)] + (str(number) if number >= len(pool) else ""))
    for k, node in enumerate(model.graph.node):
        node.name = pool[(3 * k + 1) % len(pool)]
        node.input[:] = [names[name] for name in node.input]
        node.output[:] = [names[name] for name in node.output]
    for named in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        named.name = names[named.name]
    model.graph.name = pool[5]
    return model
