"""Directives for the solvers of :mod:`headrace.quant.solver`. A string of the same letters is accepted as well."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from headrace.errors import did_you_mean
from headrace.inject.errors import QuantizerValueError

__all__ = [
    "BitWidthImplType",
    "FloatToIntImplType",
    "LearnedRoundImplType",
    "QuantType",
    "RestrictValueType",
    "ScalingImplType",
    "ScalingPerOutputType",
    "StatsOp",
    "TruncScalingImplType",
]


class Directive(StrEnum):
    """Base of the enums: a string with its own name, matched without regard to case."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[Any]) -> str:
        return name

    @classmethod
    def _missing_(cls, value: object) -> Directive | None:
        for member in cls:
            if isinstance(value, str) and member.value == value.upper():
                return member
        names = [member.value for member in cls]
        hint = did_you_mean(str(value).upper(), names)
        raise QuantizerValueError(f"{value!r} is no {cls.__name__}{hint}; accepted: {', '.join(names)}")

    def __str__(self) -> str:
        return str(self.value)


class BitWidthImplType(Directive):
    """How the bit width comes about."""

    CONST = "CONST"
    PARAMETER = "PARAMETER"
    STATEFUL_CONST = "STATEFUL_CONST"


class QuantType(Directive):
    """Kind of quantization; FP is none."""

    BINARY = "BINARY"
    TERNARY = "TERNARY"
    INT = "INT"
    FP = "FP"


class RestrictValueType(Directive):
    """Values that a scale may take."""

    FP = "FP"
    SIGNED_FP = "SIGNED_FP"
    LOG_FP = "LOG_FP"
    INT = "INT"
    POWER_OF_TWO = "POWER_OF_TWO"


class FloatToIntImplType(Directive):
    """Rounding."""

    ROUND = "ROUND"
    CEIL = "CEIL"
    FLOOR = "FLOOR"
    ROUND_TO_ZERO = "ROUND_TO_ZERO"
    DPU = "DPU"
    LEARNED_ROUND = "LEARNED_ROUND"
    STOCHASTIC_ROUND = "STOCHASTIC_ROUND"


class LearnedRoundImplType(Directive):
    """What the learned values of LEARNED_ROUND mean."""

    HARD_SIGMOID = "HARD_SIGMOID"
    SIGMOID = "SIGMOID"
    IDENTITY = "IDENTITY"


class ScalingImplType(Directive):
    """How the scale comes about."""

    HE = "HE"
    CONST = "CONST"
    STATS = "STATS"
    AFFINE_STATS = "AFFINE_STATS"
    PARAMETER = "PARAMETER"
    PARAMETER_FROM_STATS = "PARAMETER_FROM_STATS"


class TruncScalingImplType(Directive):
    """How many bits a truncation cuts off: down to the most significant ones, or as a scale says."""

    MSB = "MSB"
    WRAPPER = "WRAPPER"


class ScalingPerOutputType(Directive):
    """Granularity of the scale."""

    TENSOR = "TENSOR"
    CHANNEL = "CHANNEL"
    GROUP = "GROUP"


class StatsOp(Directive):
    """Statistic from which the scale starts."""

    MAX = "MAX"
    AVE = "AVE"
    MAX_AVE = "MAX_AVE"
    MEAN_SIGMA_STD = "MEAN_SIGMA_STD"
    MEAN_LEARN_SIGMA_STD = "MEAN_LEARN_SIGMA_STD"
    PERCENTILE = "PERCENTILE"
    MIN_MAX = "MIN_MAX"
    PERCENTILE_INTERVAL = "PERCENTILE_INTERVAL"
    SIGNED_MAX = "SIGNED_MAX"
