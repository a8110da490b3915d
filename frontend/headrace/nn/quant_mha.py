"""Quantized multi-head attention."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.inject.errors import QuantizerTypeError, QuantizerValueError, QuantLayerError
from headrace.nn import exact
from headrace.nn.elementwise import Softmax
from headrace.nn.keywords import keywords_of, split_keywords
from headrace.nn.quant_activation import QuantIdentity
from headrace.nn.quant_linear import QuantLinear
from headrace.quant import Int8ActPerTensorFloat, Int8WeightPerTensorFloat, Int32Bias, Uint8ActPerTensorFloat
from headrace.quant_tensor import unpack_quant_tensor

_PREFIXES = (
    "in_proj_",
    "out_proj_",
    "softmax_input_",
    "attn_output_weights_",
    "q_scaled_",
    "k_transposed_",
    "v_",
)


class QuantMultiheadAttention(nn.Module):
    """:class:`torch.nn.MultiheadAttention` with quantized projections and products; loads its state dictionary.

    Args:
        embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype: of
            :class:`torch.nn.MultiheadAttention`.
        packed_in_proj: one projection for query, key and value, which then have to be the same tensor.
        in_proj_input_quant, in_proj_weight_quant, in_proj_bias_quant: quantizers of the input projections.
        softmax_input_quant: quantizer of the scores.
        attn_output_weights_quant: quantizer of the attention weights.
        q_scaled_quant, k_transposed_quant, v_quant: quantizers of the projected query, key and value of a head.
        out_proj_input_quant, out_proj_weight_quant, out_proj_bias_quant, out_proj_output_quant: quantizers of the
            output projection.
        return_quant_tensor: return the attention output as a quant tensor.
        kwargs: attributes of the quantizers, prefixed by ``in_proj_input_``, ``in_proj_weight_``, ``softmax_input_``,
            ``attn_output_weights_``, ``q_scaled_``, ``k_transposed_``, ``v_``, ``out_proj_weight_`` and so on.

    Raises:
        QuantizerTypeError: an unknown keyword or a value of the wrong type.
        QuantizerValueError: *num_heads* does not divide *embed_dim*.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        packed_in_proj: bool = True,
        in_proj_input_quant: Any = Int8ActPerTensorFloat,
        in_proj_weight_quant: Any = Int8WeightPerTensorFloat,
        in_proj_bias_quant: Any = Int32Bias,
        softmax_input_quant: Any = None,
        attn_output_weights_quant: Any = Uint8ActPerTensorFloat,
        q_scaled_quant: Any = Int8ActPerTensorFloat,
        k_transposed_quant: Any = Int8ActPerTensorFloat,
        v_quant: Any = Int8ActPerTensorFloat,
        out_proj_input_quant: Any = Int8ActPerTensorFloat,
        out_proj_weight_quant: Any = Int8WeightPerTensorFloat,
        out_proj_bias_quant: Any = Int32Bias,
        out_proj_output_quant: Any = None,
        batch_first: bool = False,
        return_quant_tensor: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise QuantizerValueError(f"num_heads={num_heads} does not divide embed_dim={embed_dim}")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        groups: dict[str, dict[str, Any]] = split_keywords(type(self).__name__, kwargs, _PREFIXES)
        factory: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        inward = {
            **factory,
            "input_quant": in_proj_input_quant,
            "weight_quant": in_proj_weight_quant,
            "bias_quant": in_proj_bias_quant,
            **groups["in_proj_"],
        }
        self.in_proj: Any = None
        self.q_proj: Any = None
        self.k_proj: Any = None
        self.v_proj: Any = None
        with keywords_of(type(self).__name__, "in_proj_"):
            if packed_in_proj and self.kdim == self.vdim == embed_dim:
                self.in_proj = QuantLinear(embed_dim, 3 * embed_dim, **inward)
            else:
                self.q_proj = QuantLinear(embed_dim, embed_dim, **inward)
                self.k_proj = QuantLinear(self.kdim, embed_dim, **inward)
                self.v_proj = QuantLinear(self.vdim, embed_dim, **inward)
        outward: dict[str, Any] = {
            **factory,
            "input_quant": out_proj_input_quant,
            "weight_quant": out_proj_weight_quant,
            "bias_quant": out_proj_bias_quant,
            "output_quant": out_proj_output_quant,
            "return_quant_tensor": return_quant_tensor,
            **groups["out_proj_"],
        }
        with keywords_of(type(self).__name__, "out_proj_"):
            self.out_proj = QuantLinear(embed_dim, embed_dim, **outward)
        self.bias_k: nn.Parameter | None = None
        self.bias_v: nn.Parameter | None = None
        if add_bias_kv:
            self.bias_k = nn.Parameter(torch.empty(1, 1, embed_dim, device=device, dtype=dtype))
            self.bias_v = nn.Parameter(torch.empty(1, 1, embed_dim, device=device, dtype=dtype))
        self.softmax_input_quant = self._quantizer("softmax_input_", softmax_input_quant, groups)
        self.softmax = Softmax(dim=-1)
        self.attn_output_weights_quant = self._quantizer("attn_output_weights_", attn_output_weights_quant, groups)
        self.q_scaled_quant = self._quantizer("q_scaled_", q_scaled_quant, groups)
        self.k_transposed_quant = self._quantizer("k_transposed_", k_transposed_quant, groups)
        self.v_quant = self._quantizer("v_", v_quant, groups)
        self._reset_parameters()

    def _quantizer(self, prefix: str, quantizer: Any, keywords: dict[str, dict[str, Any]]) -> QuantIdentity:
        with keywords_of(type(self).__name__, prefix):
            return QuantIdentity(quantizer, **keywords[prefix])

    def _reset_parameters(self) -> None:
        projections = [self.in_proj] if self.in_proj is not None else [self.q_proj, self.k_proj, self.v_proj]
        for projection in projections:
            nn.init.xavier_uniform_(projection.weight)
        for projection in (*projections, self.out_proj):
            if projection.bias is not None:
                nn.init.constant_(projection.bias, 0.0)
        for parameter in (self.bias_k, self.bias_v):
            if parameter is not None:
                nn.init.xavier_normal_(parameter)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
    ) -> tuple[Any, Tensor | None]:
        """Shapes and masks as of :meth:`torch.nn.MultiheadAttention.forward`.

        Raises:
            QuantLayerError: shapes that do not fit, or different query, key and value for a packed projection.
        """
        batched = _check_shapes(query, key, value, self.embed_dim)
        packed = self.in_proj is not None
        if packed and not (_same(query, key) and _same(key, value)):
            raise QuantLayerError(
                "query, key and value differ, but packed_in_proj=True has one projection for all of them; set "
                "packed_in_proj=False"
            )
        inputs = [query] if packed else [query, key, value]
        if not batched:
            inputs = [x.unsqueeze(1) for x in inputs]
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif self.batch_first:
            inputs = [x.transpose(0, 1) for x in inputs]
        if packed:
            all_three = self.in_proj(inputs[0])
            q, k, v = (all_three[..., i * self.embed_dim : (i + 1) * self.embed_dim] for i in range(3))
        else:
            q, k, v = self.q_proj(inputs[0]), self.k_proj(inputs[1]), self.v_proj(inputs[2])
        out, weights = self._attend(q, k, v, key_padding_mask, attn_mask)
        if not batched:
            out = out.squeeze(1)
        elif self.batch_first:
            out = out.transpose(0, 1)
        if not need_weights:
            return out, None
        if average_attn_weights:
            weights = weights.sum(dim=1) / self.num_heads
        return out, weights if batched else weights.squeeze(0)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None, mask: Tensor | None) -> tuple[Any, Any]:
        """Output ``(L, N, E)`` and weights ``(N, heads, L, S)`` for projections ``(L, N, E)`` and ``(S, N, E)``."""
        length, batch, _ = q.shape
        extra = 0
        if self.bias_k is not None and self.bias_v is not None:
            k = torch.cat([k, self.bias_k.repeat(1, batch, 1)])
            v = torch.cat([v, self.bias_v.repeat(1, batch, 1)])
            extra += 1
        q, k, v = (self._heads(x) for x in (q, k, v))
        if self.add_zero_attn:
            zeros = q.new_zeros(q.shape[0], 1, self.head_dim)
            k, v = torch.cat([k, zeros], dim=1), torch.cat([v, zeros], dim=1)
            extra += 1
        bias = self._mask(mask, padding, (batch, length, k.shape[1] - extra), extra, q.dtype)
        q = self.q_scaled_quant(q / math.sqrt(self.head_dim))
        k = self.k_transposed_quant(k.transpose(-2, -1))
        scores = self.softmax_input_quant(_scores(q, k, bias))
        weights = F.dropout(self.softmax(scores), self.dropout, self.training)
        weights = self.attn_output_weights_quant(weights)
        v = self.v_quant(v)
        mixed = exact.product(weights, v)
        out = torch.bmm(weights, v) if mixed is None else mixed
        out = self.out_proj(out.transpose(0, 1).contiguous().view(length, batch, self.embed_dim))
        return out, weights.view(batch, self.num_heads, length, -1)

    def _heads(self, x: Tensor) -> Tensor:
        """``(L, N, E)`` as ``(N * heads, L, E / heads)``."""
        return x.contiguous().view(x.shape[0], x.shape[1] * self.num_heads, self.head_dim).transpose(0, 1)

    def _mask(
        self,
        mask: Tensor | None,
        padding: Tensor | None,
        sizes: tuple[int, int, int],
        extra: int,
        dtype: torch.dtype,
    ) -> Tensor | None:
        """What is added to the scores ``(N * heads, L, S + extra)``, ``None`` for nothing."""
        batch, length, source = sizes
        total: Tensor | None = None
        if mask is not None:
            accepted = ((length, source), (batch * self.num_heads, length, source))
            if mask.shape not in accepted:
                raise QuantLayerError(
                    f"attn_mask has shape {tuple(mask.shape)}; accepted: {accepted[0]} or {accepted[1]}"
                )
            total = _additive(mask, "attn_mask", dtype)
            total = total if total.dim() == 3 else total.unsqueeze(0)
        if padding is not None:
            if padding.shape != (batch, source):
                raise QuantLayerError(
                    f"key_padding_mask has shape {tuple(padding.shape)}, expected {(batch, source)} (or "
                    f"{(source,)} without a batch)"
                )
            ignored = _additive(padding, "key_padding_mask", dtype).view(batch, 1, 1, source)
            ignored = ignored.expand(-1, self.num_heads, -1, -1).reshape(batch * self.num_heads, 1, source)
            total = ignored if total is None else total + ignored
        return total if total is None or not extra else F.pad(total, (0, extra))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for kind in ("weight", "bias"):
            packed = state_dict.pop(f"{prefix}in_proj_{kind}", None)
            if packed is not None and self.in_proj is not None:
                state_dict[f"{prefix}in_proj.{kind}"] = packed
            parts = [None] * 3 if packed is None or self.in_proj is not None else list(torch.chunk(packed, 3))
            for name, part in zip("qkv", parts, strict=True):
                own = state_dict.pop(f"{prefix}{name}_proj_{kind}", part)
                if own is not None:
                    state_dict[f"{prefix}{name}_proj.{kind}"] = own
        super()._load_from_state_dict(state_dict, prefix, *args)


def _same(a: Any, b: Any) -> bool:
    """Whether both are one tensor, or views of the same elements."""
    if a is b or torch.compiler.is_compiling():  # a traced tensor has no address
        return a is b
    x, y = unpack_quant_tensor(a), unpack_quant_tensor(b)
    return bool(x.data_ptr() == y.data_ptr() and x.shape == y.shape and x.stride() == y.stride())


def _scores(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    product = exact.product(q, k)
    if product is not None:
        return product if mask is None else product + mask
    return torch.bmm(q, k) if mask is None else torch.baddbmm(mask, q, k)


def _additive(mask: Tensor, name: str, dtype: torch.dtype) -> Tensor:
    """A mask as what is added to the scores: minus infinity where a boolean mask is true."""
    if mask.is_floating_point():
        return mask
    if mask.dtype not in (torch.bool, torch.uint8):
        raise QuantizerTypeError(f"{name} has data type {mask.dtype}; accepted: a float type, torch.bool")
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask.bool(), float("-inf"))


def _check_shapes(query: Any, key: Any, value: Any, embed_dim: int) -> bool:
    """Whether the input has a batch dimension."""
    dims = {x.dim() for x in (query, key, value)}
    if len(dims) > 1 or not dims <= {2, 3}:
        found = ", ".join(f"{x.dim()}-D" for x in (query, key, value))
        raise QuantLayerError(f"query, key and value must all be 3-D, or all 2-D without a batch; got {found}")
    if query.shape[-1] != embed_dim:
        raise QuantLayerError(f"query has {query.shape[-1]} features, expected embed_dim={embed_dim}")
    if key.shape[:-1] != value.shape[:-1]:
        raise QuantLayerError(
            f"key and value differ in length or batch: {tuple(key.shape[:-1])} and {tuple(value.shape[:-1])}"
        )
    return dims == {3}
