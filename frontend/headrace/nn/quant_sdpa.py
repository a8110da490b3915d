"""Scaled dot-product attention, with and without quantization."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.core.function_wrapper import Identity
from headrace.inject.errors import QuantLayerError
from headrace.nn import exact
from headrace.nn.elementwise import Softmax
from headrace.nn.keywords import keywords_of, split_keywords
from headrace.nn.quant_activation import QuantIdentity
from headrace.quant import Int8ActPerTensorFloat, Uint8ActPerTensorFloat

Preprocess = Callable[[Tensor], Tensor]

_PREFIXES = ("softmax_input_", "attn_output_weights_", "q_scaled_", "k_transposed_", "v_", "sdpa_output_")


class ScaledDotProductAttention(nn.Module):
    """:func:`torch.nn.functional.scaled_dot_product_attention` as a module, to be replaced by the quantized one.

    Args:
        pre_process_q, pre_process_k, pre_process_v: applied to query, key and value first.
    """

    def __init__(
        self,
        pre_process_q: Preprocess | None = None,
        pre_process_k: Preprocess | None = None,
        pre_process_v: Preprocess | None = None,
    ) -> None:
        super().__init__()
        self.pre_process_q = pre_process_q or Identity()
        self.pre_process_k = pre_process_k or Identity()
        self.pre_process_v = pre_process_v or Identity()

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Arguments and shapes as of the function."""
        return F.scaled_dot_product_attention(
            self.pre_process_q(query),
            self.pre_process_k(key),
            self.pre_process_v(value),
            attn_mask=attn_mask,
            dropout_p=dropout_p,
            is_causal=is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
        )


class QuantScaledDotProductAttention(ScaledDotProductAttention):
    """The same with quantized operands of both products; integers are accumulated as integers in evaluation.

    Args:
        pre_process_q, pre_process_k, pre_process_v: applied to query, key and value first.
        softmax_input_quant: quantizer of the scores.
        attn_output_weights_quant: quantizer of the attention weights.
        q_scaled_quant, k_transposed_quant, v_quant: quantizers of scaled query, transposed key, and value.
        sdpa_output_quant: quantizer of the output.
        kwargs: attributes of the quantizers, prefixed by ``softmax_input_``, ``attn_output_weights_``, ``q_scaled_``,
            ``k_transposed_``, ``v_`` or ``sdpa_output_``.

    Raises:
        QuantizerTypeError: an unknown keyword or a value of the wrong type.
    """

    def __init__(
        self,
        pre_process_q: Preprocess | None = None,
        pre_process_k: Preprocess | None = None,
        pre_process_v: Preprocess | None = None,
        softmax_input_quant: Any = None,
        attn_output_weights_quant: Any = Uint8ActPerTensorFloat,
        q_scaled_quant: Any = Int8ActPerTensorFloat,
        k_transposed_quant: Any = Int8ActPerTensorFloat,
        v_quant: Any = Int8ActPerTensorFloat,
        sdpa_output_quant: Any = None,
        **kwargs: object,
    ) -> None:
        super().__init__(pre_process_q, pre_process_k, pre_process_v)
        keywords: dict[str, dict[str, Any]] = split_keywords(type(self).__name__, kwargs, _PREFIXES)
        self.q_scaled_quant = self._quantizer("q_scaled_", q_scaled_quant, keywords)
        self.k_transposed_quant = self._quantizer("k_transposed_", k_transposed_quant, keywords)
        self.v_quant = self._quantizer("v_", v_quant, keywords)
        self.softmax_input_quant = self._quantizer("softmax_input_", softmax_input_quant, keywords)
        self.softmax = Softmax(dim=-1)
        self.attn_output_weights_quant = self._quantizer("attn_output_weights_", attn_output_weights_quant, keywords)
        self.sdpa_output_quant = self._quantizer("sdpa_output_", sdpa_output_quant, keywords)

    def _quantizer(self, prefix: str, quantizer: Any, keywords: dict[str, dict[str, Any]]) -> QuantIdentity:
        with keywords_of(type(self).__name__, prefix):
            return QuantIdentity(quantizer, **keywords[prefix])

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Arguments and shapes as of the function; a query that may look at nothing gets zeros.

        Raises:
            QuantLayerError: a mask together with ``is_causal=True``, or heads that do not divide.
        """
        factor = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
        mask, blind = _additive_mask(query, key, attn_mask, is_causal)
        query, key, value = self.pre_process_q(query), self.pre_process_k(key), self.pre_process_v(value)
        if enable_gqa:
            key, value = (_repeated(x, query.size(-3)) for x in (key, value))
        scores = _product(self.q_scaled_quant(query * factor), self.k_transposed_quant(key.transpose(-2, -1)))
        scores = scores if mask is None else scores + mask
        weights = self.softmax(self.softmax_input_quant(scores))
        if blind is not None:
            weights = weights.masked_fill(blind, 0.0)
        if dropout_p:
            weights = F.dropout(weights, dropout_p, training=True)  # as the function: its caller decides
        out: Tensor = self.sdpa_output_quant(_product(self.attn_output_weights_quant(weights), self.v_quant(value)))
        return out


def _product(a: Tensor, b: Tensor) -> Tensor:
    product = exact.product(a, b)
    return torch.matmul(a, b) if product is None else product


def _repeated(x: Tensor, heads: int) -> Tensor:
    """Heads of key or value repeated to those of the query."""
    if heads % x.size(-3):
        raise QuantLayerError(f"enable_gqa=True: {x.size(-3)} heads of key and value do not divide {heads}")
    return x.repeat_interleave(heads // x.size(-3), -3)


def _additive_mask(
    query: Tensor, key: Tensor, mask: Tensor | None, causal: bool
) -> tuple[Tensor | None, Tensor | None]:
    """What is added to the scores, and the queries that may look at nothing; ``None`` for nothing and none."""
    if causal:
        if mask is not None:
            raise QuantLayerError("attn_mask and is_causal=True exclude each other: give one of them")
        mask = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool, device=query.device).tril()
    if mask is None:
        return None, None
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask.logical_not(), float("-inf"))
    blind = torch.isneginf(mask).all(dim=-1, keepdim=True)
    return mask.masked_fill(blind, 0.0), blind
