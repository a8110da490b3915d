"""Switches of the quantized layers that hold for the whole process."""

from __future__ import annotations

IGNORE_MISSING_KEYS: bool = False
"""Accept state dictionaries without quantizer parameters (retraining from a float model)."""

REINIT_ON_STATE_DICT_LOAD: bool = True
"""Rebuild weight and bias quantizers when a state dictionary is loaded, so that statistics follow the new weights."""
