"""Where in a model a forward pass fails: a module does not know its path, but the frames of the failure do."""

from __future__ import annotations

import sys

from torch import nn

_PARTS = ("headrace.proxy.", "headrace.core.")  # inside a quantizer; its layer is what a user knows


def running_module() -> str | None:
    """Path of the innermost layer whose ``forward`` is running, in the outermost module that contains it.

    ``None`` outside of forward passes, and where the layer is the model. Frames are looked at only here, so that a
    forward pass that does not fail pays nothing.
    """
    running: list[nn.Module] = []  # innermost first
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "forward":
            module = frame.f_locals.get("self")
            if isinstance(module, nn.Module) and not type(module).__module__.startswith(_PARTS):
                running.append(module)
        frame = frame.f_back  # type: ignore[assignment]  # None ends it
    for outer in reversed(running):
        for path, module in outer.named_modules():
            if module is running[0]:
                return path or None
    return None


__all__ = ["running_module"]
