"""The attributes that the built-in parts of quantizers understand, and what each accepts.

One table serves three purposes: a spelling check for keywords, type and range checks, and documentation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from headrace.inject.errors import QuantizerTypeError, QuantizerValueError

MAX_BIT_WIDTH = 32


@dataclass(frozen=True)
class Attribute:
    """An attribute: what it means, and a check that returns what would be accepted, or ``None`` if *value* is."""

    description: str
    problem: Callable[[object], str | None] = lambda value: None
    wrong_type: Callable[[object], bool] = lambda value: False


def _integer(low: int, high: int | None = None) -> Attribute:
    accepted = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"

    def problem(value: object) -> str | None:
        ok = isinstance(value, int) and not isinstance(value, bool) and value >= low and (high is None or value <= high)
        return None if ok else accepted

    def wrong_type(value: object) -> bool:
        return isinstance(value, bool) or not isinstance(value, int)

    return Attribute("", problem, wrong_type)


def _flag() -> Attribute:
    return Attribute(
        "",
        lambda value: None if isinstance(value, bool) else "True or False",
        lambda value: not isinstance(value, bool),
    )


def _number(low: float, high: float, *, above: bool = False, optional: bool = False) -> Attribute:
    """A finite number in ``[low, high]``, or in ``(low, high]`` when *above*."""
    accepted = f"a number {'above' if above else 'from'} {low:g}" + ("" if math.isinf(high) else f" to {high:g}")

    def problem(value: object) -> str | None:
        if value is None and optional:
            return None
        if isinstance(value, torch.Tensor):
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return accepted
        inside = (value > low if above else value >= low) and value <= high
        return None if inside else accepted

    def wrong_type(value: object) -> bool:
        return isinstance(value, bool) or not isinstance(value, int | float | torch.Tensor)

    return Attribute("", problem, wrong_type)


def _described(description: str, attribute: Attribute) -> Attribute:
    return Attribute(description, attribute.problem, attribute.wrong_type)


_INF = math.inf
VOCABULARY: dict[str, Attribute] = {
    "bit_width": _described("bits of the integer format", _integer(1, MAX_BIT_WIDTH)),
    "exponent_bit_width": _described("exponent bits of a minifloat", _integer(1, 8)),
    "mantissa_bit_width": _described("mantissa bits of a minifloat", _integer(0, 10)),
    "exponent_bias": _described("subtracted from the stored exponent of a minifloat", _integer(0, 127)),
    "saturating": _described("minifloat: clamp to the largest number instead of overflowing", _flag()),
    "inf_values": Attribute("minifloat: mantissas that stand for infinity at the highest exponent"),
    "nan_values": Attribute("minifloat: mantissas that stand for NaN at the highest exponent"),
    "float_scaling_impl": Attribute("number of a minifloat that the threshold of the scale maps to"),
    "min_bit_width": _described("lower bound of a learned bit width", _integer(1, MAX_BIT_WIDTH)),
    "signed": _described("signed or unsigned integers", _flag()),
    "narrow_range": _described("drop the lowest (signed) or highest (unsigned) integer", _flag()),
    "quant_type": Attribute("kind of quantization: INT, BINARY, TERNARY, FP (none)"),
    "bit_width_impl_type": Attribute("how the bit width comes about: CONST, PARAMETER, STATEFUL_CONST"),
    "float_to_int_impl_type": Attribute(
        "rounding: ROUND, FLOOR, CEIL, ROUND_TO_ZERO, DPU, LEARNED_ or STOCHASTIC_ROUND"
    ),
    "scaling_impl_type": Attribute("how the scale comes about"),
    "scaling_stats_op": Attribute("statistic from which the scale starts"),
    "restrict_scaling_type": Attribute("values that the scale may take: FP, LOG_FP, POWER_OF_TWO"),
    "restrict_value_float_to_int_impl": Attribute("rounding of the exponent of a power-of-two scale"),
    "scaling_per_output_channel": _described("one scale a channel instead of one a tensor", _flag()),
    "scaling_per_output_type": Attribute("granularity of the scale: TENSOR, CHANNEL, GROUP"),
    "scaling_const": _described("the constant scale, or where a learned one starts", _number(0, _INF, above=True)),
    "scaling_init": _described("the constant scale, or where a learned one starts", _number(0, _INF, above=True)),
    "scaling_min_val": _described("lower bound of the scale", _number(0, _INF, optional=True)),
    "scaling_shape": Attribute("shape of the scale"),
    "scaling_stats_momentum": _described("momentum of the running average", _number(0, 1, optional=True)),
    "scaling_stats_permute_dims": Attribute("dimension order that puts channels first for statistics"),
    "scaling_affine_rescaling_init": _described("start of a learned factor", _number(-_INF, _INF, optional=True)),
    "scaling_affine_shifting_init": _described("start of a learned offset", _number(-_INF, _INF, optional=True)),
    "affine_shift_scale": _described("learn an offset of the scale too", _flag()),
    "per_channel_broadcastable_shape": Attribute("shape of a per-channel scale of activations, e.g. (1, C, 1, 1)"),
    "collect_stats_steps": _described("training steps that collect statistics", _integer(1)),
    "high_percentile_q": _described("upper percentile", _number(0, 100, above=True)),
    "low_percentile_q": _described("lower percentile", _number(0, 100)),
    "sigma": _described("standard deviations above the mean", _number(0, _INF)),
    "min_val": _described("smallest real value of the activation", _number(-_INF, _INF, optional=True)),
    "max_val": _described("largest real value of the activation", _number(-_INF, _INF, optional=True)),
    "threshold": _described("ternary: |x| above threshold * scale is kept", _number(0, _INF)),
    "quantize_zero_point": _described("round the zero point to an integer", _flag()),
    "zero_point_init": _described("start of a learned zero point, as a real offset", _number(-_INF, _INF)),
    "accumulator_bit_width": _described("bits of the accumulator that the weights are bounded for", _integer(2, 64)),
    "zero_center": _described("subtract the mean of each channel (A2Q+)", _flag()),
    "pre_scaling_min_val": _described("lower bound of the divisor of the weights", _number(0, _INF, above=True)),
    "group_size": _described("elements that share a scale", _integer(1)),
    "group_dim": Attribute("dimension that groups divide"),
    "mse_iters": _described("candidates of the search for the least squared error", _integer(2)),
    "mse_init_op": Attribute("statistic that the search for the least squared error ends at"),
    "asymmetric": _described("search for a scale together with a zero point", _flag()),
    "hqo_init_op_scale": Attribute("statistic that half-quadratic optimization starts from"),
    "hqo_beta_scale": _described("half-quadratic: weight of the sparse part", _number(0, _INF, above=True)),
    "hqo_kappa_scale": _described("half-quadratic: factor of that weight a turn", _number(1, _INF)),
    "hqo_lp_norm_scale": _described("half-quadratic: exponent of the norm", _number(0, 1, above=True)),
    "hqo_iters_scale": _described("half-quadratic: most turns", _integer(1)),
    "hqo_beta_zp": _described("half-quadratic: weight of the sparse part", _number(0, _INF, above=True)),
    "hqo_kappa_zp": _described("half-quadratic: factor of that weight a turn", _number(1, _INF)),
    "hqo_lp_norm_zp": _described("half-quadratic: exponent of the norm", _number(0, 1, above=True)),
    "hqo_iters_zp": _described("half-quadratic: most turns", _integer(1)),
    "learned_round_impl_type": Attribute("meaning of learned rounding: HARD_SIGMOID, SIGMOID, IDENTITY"),
    "learned_round_impl": Attribute("module that learned rounding goes through"),
    "learned_round_init": Attribute("where learned rounding starts, in the shape of the weight"),
    "learned_round_zeta": _described("upper end of the stretched sigmoid", _number(1, _INF)),
    "learned_round_gamma": _described("lower end of the stretched sigmoid", _number(-_INF, 0)),
    "learned_round_temperature": _described("divisor of learned values", _number(0, _INF, above=True)),
    "deterministic_inference": _described("random rounding: to nearest in evaluation", _flag()),
    "stochastic_round_seed": Attribute("random rounding: start of a random sequence of its own, or None"),
    "trunc_scaling_impl_type": Attribute("what a truncation cuts off: MSB (all but the first bits), WRAPPER (a scale)"),
    "trunc_scaling_impl": Attribute("module of the step of a truncation"),
    "trunc_int_scaling_impl": Attribute("integer that the largest result of a truncation maps to"),
    "bit_width_to_remove": Attribute("bits that clamping removes; None to keep up to bit_width"),
    "min_overall_bit_width": _described("fewest bits that clamping leaves", _integer(1, MAX_BIT_WIDTH)),
    "max_overall_bit_width": _described("most bits that clamping leaves", _integer(1, MAX_BIT_WIDTH)),
    "std_dev_epsilon": _described("added to a variance", _number(0, _INF)),
    "stats_output_shape": Attribute("shape of a learned factor of a statistic"),
    "keepdim": _described("whether statistics keep the dimension that they reduce", _flag()),
    "decoupled_int_quant": Attribute("integer quantization with one scale before and one after the rounding"),
    "pre_scaling_impl": Attribute("scale before the rounding"),
    "pre_scaling_shape": Attribute("shape of the scale before the rounding"),
    "restrict_pre_scaling_impl": Attribute("restriction of the learned norm of weight normalization"),
    "normalize_stats_impl": Attribute("norm of weight normalization"),
    "pre_zero_point_impl": Attribute("zero point before the rounding"),
    "quant_delay_steps": _described("training steps before quantization starts", _integer(0)),
    "override_pretrained_bit_width": _described("ignore a loaded bit width", _flag()),
    "requires_input_scale": _described("bias: use input scale times weight scale", _flag()),
    "stats_reduce_dim": Attribute("dimension that statistics reduce"),
    "dtype": Attribute("data type of scale, zero point and bit width"),
    "device": Attribute("device of scale, zero point and bit width"),
    "proxy_class": Attribute("module between the layer and the quantizer"),
    "tensor_quant": Attribute("module that quantizes a tensor"),
    "int_quant": Attribute("integer quantization"),
    "float_to_int_impl": Attribute("rounding module"),
    "tensor_clamp_impl": Attribute("clamping module"),
    "input_view_impl": Attribute("view of the input before quantization"),
    "scaling_impl": Attribute("scale module"),
    "int_scaling_impl": Attribute("integer that the threshold of the scale maps to"),
    "restrict_scaling_impl": Attribute("restriction of the scale"),
    "scaling_stats_impl": Attribute("statistic module"),
    "scaling_stats_input_view_shape_impl": Attribute("view for statistics"),
    "scaling_init_impl": Attribute("function that returns scaling_init"),
    "zero_point_impl": Attribute("zero point module"),
    "zero_point_shape": Attribute("shape of the zero point"),
    "zero_point_stats_impl": Attribute("statistic of the zero point"),
    "zero_point_stats_input_view_shape_impl": Attribute("view for statistics of the zero point"),
    "zero_point_stats_input_concat_dim": Attribute("concatenation of shared parameters for the zero point"),
    "zero_point_stats_momentum": _described("momentum of the running average", _number(0, 1, optional=True)),
    "bit_width_impl": Attribute("bit width module"),
    "act_impl": Attribute("activation before the quantizer"),
    "passthrough_act": Attribute("whether the activation keeps a quantized input quantized"),
}


def check_attribute(name: str, value: object, owner: str) -> None:
    """Raise if *value* is not accepted for the attribute *name*.

    Raises:
        QuantizerTypeError: wrong type.
        QuantizerValueError: right type, not accepted.
    """
    attribute = VOCABULARY.get(name)
    accepted = attribute.problem(value) if attribute else None
    if attribute is None or accepted is None:
        return
    error = QuantizerTypeError if attribute.wrong_type(value) else QuantizerValueError
    raise error(f"{owner}: {name}={value!r} is not accepted; {name} ({attribute.description}) must be {accepted}")
