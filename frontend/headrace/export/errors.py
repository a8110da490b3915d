"""Errors of exporters."""

from __future__ import annotations

from headrace.errors import HeadraceError


class ExportError(HeadraceError, RuntimeError):
    """A model that the format cannot express, or that is not ready for export; names the module."""
