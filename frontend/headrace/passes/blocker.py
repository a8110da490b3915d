"""Reasons why parts of a model stay on the host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Blocker:
    """Why a part of the model stays on the host."""

    node: str
    operator: str
    reason: str

    @property
    def where(self) -> str:
        """The node and its operator."""
        return f"node '{self.node}' ({self.operator})"

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"
