"""From a model file to a verified design on disk, and running it.

``headrace.build`` is this package and, called, the function that builds: importing a package binds its name in the
parent, so the two can only share the name by being one object.
"""

from __future__ import annotations

import sys
from types import ModuleType

from headrace.build.api import build, load
from headrace.build.config import BuildConfig
from headrace.build.design import Design

__all__ = ["BuildConfig", "Design", "build", "load"]


class _Package(ModuleType):
    __call__ = staticmethod(build)


sys.modules[__name__].__class__ = _Package
