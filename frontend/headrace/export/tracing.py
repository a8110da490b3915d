"""Running torch's exporter on a prepared model."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from headrace.export.cleanup import clean
from headrace.export.errors import ExportError

BATCH = "batch"
TRACE_OPSET = 18
"""The opset that torch's exporter writes natively."""


def example_arguments(args: Any, input_t: Any, input_shape: tuple[int, ...] | None) -> tuple[Any, ...]:
    """The example inputs as a tuple.

    Raises:
        ExportError: none given, or more than one of the three.
    """
    given = [x for x in (args, input_t, input_shape) if x is not None]
    if len(given) != 1:
        raise ExportError("give an example input by exactly one of args, input_t and input_shape")
    if input_shape is not None:
        return (torch.randn(*input_shape),)
    return tuple(given[0]) if isinstance(given[0], tuple | list) else (given[0],)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks on packages that are not installed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def trace(
    model: nn.Module,
    args: tuple[Any, ...],
    opset_version: int,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    dynamic_batch: bool,
) -> onnx.ModelProto:
    """*model* as a clean ONNX model.

    Raises:
        ExportError: torch cannot export the model.
    """
    traced = _traced_with_batch(model, args) if dynamic_batch else None
    if traced is None:
        traced = _traced(model, args, None)
    return clean(traced, opset_version, input_names, output_names)


def _traced_with_batch(model: nn.Module, args: tuple[Any, ...]) -> onnx.ModelProto | None:
    """With dimension 0 of all tensor inputs symbolic; ``None`` where the model does not allow it."""
    tensors = [a for a in args if isinstance(a, Tensor)]
    sizes = {a.shape[0] if a.dim() else 0 for a in tensors}
    if len(sizes) != 1 or 0 in sizes:
        return None
    if sizes == {1}:  # torch takes a size of 1 for a constant
        args = tuple(torch.cat([a, a]) if isinstance(a, Tensor) else a for a in args)
    dimension = torch.export.Dim(BATCH)
    shapes = tuple({0: dimension} if isinstance(a, Tensor) else None for a in args)
    try:
        return _traced(model, args, shapes)
    except ExportError:
        return None


def _traced(model: nn.Module, args: tuple[Any, ...], dynamic_shapes: Any) -> onnx.ModelProto:
    try:
        with _quiet(), torch.no_grad():
            program: Any = torch.onnx.export(
                model,
                args,
                dynamo=True,
                optimize=False,
                verbose=False,
                opset_version=TRACE_OPSET,
                dynamic_shapes=dynamic_shapes,
            )
    except Exception as error:  # torch raises a different type for every reason
        cause = error.__cause__ or error
        reason = next((line for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
        raise ExportError(f"torch cannot export {type(model).__name__}: {reason.strip()}") from error
    proto: onnx.ModelProto = program.model_proto
    return proto
