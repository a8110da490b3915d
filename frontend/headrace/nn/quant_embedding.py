"""Embedding with a quantized table."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.nn import exact
from headrace.nn.keywords import split_keywords
from headrace.nn.quant_layer import QuantLayer, _build_quantizer, _flag
from headrace.quant import Int8WeightPerTensorFloat, NoneWeightQuant


class QuantEmbedding(QuantLayer, nn.Embedding):
    """:class:`torch.nn.Embedding` with a quantized weight.

    Args:
        num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse: of the torch
            layer; *max_norm* acts on the float weight.
        weight_quant: quantizer of the weight.
        return_quant_tensor: return a quant tensor, for a weight with one scale.
        kwargs: attributes of the quantizer, prefixed by ``weight_``.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        weight_quant: Any = Int8WeightPerTensorFloat,
        return_quant_tensor: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
        **kwargs: object,
    ) -> None:
        nn.Embedding.__init__(
            self,
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            device=device,
            dtype=dtype,
        )
        self.return_quant_tensor = _flag("return_quant_tensor", return_quant_tensor)
        self._weight_cache = exact.WeightCache()
        groups = split_keywords(type(self).__name__, kwargs, ("weight_",))
        self.weight_quant: Any = _build_quantizer(
            self, "weight_quant", weight_quant, NoneWeightQuant, groups["weight_"], {}, "weight_"
        )

    @property
    def output_channel_dim(self) -> int:
        """Dimension of the weight with a scale each, per channel."""
        return 0

    @property
    def out_channels(self) -> int:
        """Number of rows of the table."""
        return self.num_embeddings

    def quant_weight(self) -> Any:
        """The quantized table."""
        return self.weight_quant(self.weight)

    def forward(self, input: Any) -> Any:
        out = F.embedding(
            input,
            self._weight_cache.weight(self),
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )
        return self._pack(out, self.return_quant_tensor)
