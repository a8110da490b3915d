"""Quantized recurrent networks."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import nn

from headrace.inject.errors import QuantizerTypeError, QuantizerValueError
from headrace.nn.keywords import split_keywords
from headrace.nn.quant_layer import _flag
from headrace.nn.recurrent_cells import LstmLayer, RnnLayer
from headrace.quant import Int8ActPerTensorFloat, Int8WeightPerTensorFloat, Int32Bias, Uint8ActPerTensorFloat

_FLOAT_NAME = re.compile(r"(weight|bias)_(ih|hh)_l(\d+)(_reverse)?")


class _RecurrentStack(nn.Module):
    """Layers and directions, and the state dictionary of torch's recurrent networks.

    Args:
        bidirectional: run in both directions.
        return_quant_tensor: return quant tensors; needs *io_quant*.
        shared_input_hidden_weights: both directions share the matrices of the input.
        quantizers: by the name of their argument.
    """

    gates: tuple[str, ...]
    layers: Any

    def _check(
        self, bidirectional: bool, shared: bool, return_quant_tensor: bool, io_quant: Any, **flags: object
    ) -> None:
        named = {"bidirectional": bidirectional, "shared_input_hidden_weights": shared}
        for name, given in {**named, "return_quant_tensor": return_quant_tensor, **flags}.items():
            _flag(name, given)
        if shared and not bidirectional:
            raise QuantizerValueError("shared_input_hidden_weights=True needs bidirectional=True")
        if return_quant_tensor and io_quant is None:
            raise QuantizerTypeError("return_quant_tensor=True needs io_quant")

    def _build(
        self,
        kind: Any,
        sizes: tuple[int, int, int],
        bidirectional: bool,
        shared_weights: bool,
        shared_quantizers: tuple[str, ...],
        return_quant_tensor: bool,
        batch_first: bool,
        quantizers: dict[str, Any],
        **options: Any,
    ) -> None:
        """Build the layers; the first direction of the first layer makes the quantizers that all share."""
        input_size, hidden_size, num_layers = sizes
        self.directions = 2 if bidirectional else 1
        self.batch_first = batch_first
        self.layers = nn.ModuleList()
        for index in range(num_layers):
            width = input_size if index == 0 else hidden_size * self.directions
            layer = nn.ModuleList()
            for reverse in range(self.directions):
                direction = kind(
                    width,
                    hidden_size,
                    quantizers=quantizers,
                    shared=layer[0] if reverse and shared_weights else None,
                    batch_first=batch_first,
                    reverse_input=bool(reverse),
                    quantize_output_only=index > 0,
                    return_quant_tensor=return_quant_tensor or index < num_layers - 1,
                    **options,
                )
                layer.append(direction)
                shared = direction.shared_quantizers()
                quantizers = {**quantizers, **{name: shared[name] for name in shared_quantizers}}
            self.layers.append(layer)

    def _state(self, states: Any, layer: int, direction: int) -> Any:
        return None if states is None else states[self.directions * layer + direction]

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        biases: dict[str, Any] = {}
        for name in [key for key in state_dict if key.startswith(prefix)]:
            match = _FLOAT_NAME.fullmatch(name.removeprefix(prefix))
            if match is None:
                continue
            kind, source, layer, reverse = match.groups()
            parts = torch.chunk(state_dict.pop(name), len(self.gates))
            for gate, part in zip(self.gates, parts, strict=True):
                path = f"{prefix}layers.{layer}.{int(reverse is not None)}.{gate}"
                if kind == "weight":
                    state_dict[f"{path}.{'input' if source == 'ih' else 'hidden'}_weight.weight"] = part
                else:  # torch has two biases, which are added
                    biases[f"{path}.bias"] = biases.get(f"{path}.bias", 0.0) + part
        state_dict.update(biases)
        super()._load_from_state_dict(state_dict, prefix, *args)


def _joined(parts: list[Any], dim: int) -> Any:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=dim)


class QuantRNN(_RecurrentStack):
    """:class:`torch.nn.RNN` with quantized weights, sums and states; loads its state dictionary.

    Args:
        input_size, hidden_size, num_layers, nonlinearity, bias, batch_first, bidirectional, device, dtype: of
            :class:`torch.nn.RNN`.
        weight_quant, bias_quant: quantizers of the matrices of a layer, which share one, and of its bias.
        io_quant: quantizer of input and output, shared by all layers.
        gate_acc_quant: quantizer of the sum before the nonlinearity.
        shared_input_hidden_weights: both directions share the matrices of the input.
        return_quant_tensor: return quant tensors; needs *io_quant*.
        kwargs: attributes of the quantizers, prefixed by ``weight_``, ``bias_``, ``io_`` or ``gate_acc_``.

    Raises:
        QuantizerTypeError: an unknown keyword or a value of the wrong type.
        QuantizerValueError: a value that is not accepted.
    """

    gates = ("gate_params",)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool | None = True,
        batch_first: bool = False,
        bidirectional: bool = False,
        weight_quant: Any = Int8WeightPerTensorFloat,
        bias_quant: Any = Int32Bias,
        io_quant: Any = Int8ActPerTensorFloat,
        gate_acc_quant: Any = Int8ActPerTensorFloat,
        shared_input_hidden_weights: bool = False,
        return_quant_tensor: bool = False,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__()
        self._check(bidirectional, shared_input_hidden_weights, return_quant_tensor, io_quant)
        prefixes = ("weight_", "bias_", "io_", "gate_acc_quant_", "gate_acc_")
        keywords = split_keywords(type(self).__name__, kwargs, prefixes)
        keywords["gate_acc_"].update(keywords.pop("gate_acc_quant_"))  # the spelling of Brevitas
        self._build(
            RnnLayer,
            (input_size, hidden_size, num_layers),
            bidirectional,
            shared_input_hidden_weights,
            ("io_quant",),
            return_quant_tensor,
            batch_first,
            {
                "weight_quant": weight_quant,
                "bias_quant": bias_quant,
                "io_quant": io_quant,
                "gate_acc_quant": gate_acc_quant,
            },
            bias=bool(bias),
            nonlinearity=nonlinearity,
            keywords=keywords,
            device=device,
            dtype=dtype,
        )

    def forward(self, inp: Any, hx: Any = None) -> tuple[Any, Any]:
        """Output ``(L, N, directions * hidden_size)`` and last state ``(layers * directions, N, hidden_size)``."""
        states = []
        for index, layer in enumerate(self.layers):
            results = [direction(inp, self._state(hx, index, d)) for d, direction in enumerate(layer)]
            inp = _joined([out for out, _ in results], -1)
            states += [state for _, state in results]
        return inp, _joined(states, 0)


class QuantLSTM(_RecurrentStack):
    """:class:`torch.nn.LSTM` with quantized weights, sums, activations and states; loads its state dictionary.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, bidirectional, device, dtype: of
            :class:`torch.nn.LSTM`.
        weight_quant, bias_quant: quantizers of the matrices of a gate, which share one, and of its bias.
        io_quant: quantizer of input and output, shared by all layers.
        gate_acc_quant: quantizer of the sums of the gates.
        sigmoid_quant, tanh_quant: quantizers of the activations.
        cell_state_quant: quantizer of the cell state and of the two products it is the sum of.
        coupled_input_forget_gates: the forget gate is one minus the input gate.
        cat_output_cell_states: return one tensor of cell states instead of a list.
        shared_input_hidden_weights: both directions share the matrices of the input.
        shared_intra_layer_weight_quant: the gates of a layer share one weight quantizer.
        shared_intra_layer_gate_acc_quant: the gates of a layer share one quantizer of their sums.
        shared_cell_state_quant: all layers share *cell_state_quant*.
        return_quant_tensor: return quant tensors; needs *io_quant* and *cell_state_quant*.
        kwargs: attributes of the quantizers, prefixed by ``weight_``, ``bias_``, ``io_``, ``gate_acc_``,
            ``sigmoid_``, ``tanh_`` or ``cell_state_``.

    Raises:
        QuantizerTypeError: an unknown keyword or a value of the wrong type.
        QuantizerValueError: a value that is not accepted.
    """

    gates = ("input_gate_params", "forget_gate_params", "cell_gate_params", "output_gate_params")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool | None = True,
        batch_first: bool = False,
        bidirectional: bool = False,
        weight_quant: Any = Int8WeightPerTensorFloat,
        bias_quant: Any = Int32Bias,
        io_quant: Any = Int8ActPerTensorFloat,
        gate_acc_quant: Any = Int8ActPerTensorFloat,
        sigmoid_quant: Any = Uint8ActPerTensorFloat,
        tanh_quant: Any = Int8ActPerTensorFloat,
        cell_state_quant: Any = Int8ActPerTensorFloat,
        coupled_input_forget_gates: bool = False,
        cat_output_cell_states: bool = True,
        shared_input_hidden_weights: bool = False,
        shared_intra_layer_weight_quant: bool = False,
        shared_intra_layer_gate_acc_quant: bool = False,
        shared_cell_state_quant: bool = True,
        return_quant_tensor: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__()
        self._check(
            bidirectional,
            shared_input_hidden_weights,
            return_quant_tensor,
            io_quant,
            coupled_input_forget_gates=coupled_input_forget_gates,
            cat_output_cell_states=cat_output_cell_states,
            shared_intra_layer_weight_quant=shared_intra_layer_weight_quant,
            shared_intra_layer_gate_acc_quant=shared_intra_layer_gate_acc_quant,
            shared_cell_state_quant=shared_cell_state_quant,
        )
        if cat_output_cell_states and cell_state_quant is not None and not shared_cell_state_quant:
            raise QuantizerValueError("cat_output_cell_states=True needs shared_cell_state_quant=True")
        if return_quant_tensor and cell_state_quant is None:
            raise QuantizerTypeError("return_quant_tensor=True needs cell_state_quant")
        self.cat_output_cell_states = cat_output_cell_states
        prefixes = ("weight_", "bias_", "io_", "gate_acc_", "sigmoid_", "tanh_", "cell_state_")
        self._build(
            LstmLayer,
            (input_size, hidden_size, num_layers),
            bidirectional,
            shared_input_hidden_weights,
            ("io_quant", "cell_state_quant") if shared_cell_state_quant else ("io_quant",),
            return_quant_tensor,
            batch_first,
            {
                "weight_quant": weight_quant,
                "bias_quant": bias_quant,
                "io_quant": io_quant,
                "gate_acc_quant": gate_acc_quant,
                "sigmoid_quant": sigmoid_quant,
                "tanh_quant": tanh_quant,
                "cell_state_quant": cell_state_quant,
            },
            bias=bool(bias),
            coupled=coupled_input_forget_gates,
            share_weight_quant=shared_intra_layer_weight_quant,
            share_gate_acc_quant=shared_intra_layer_gate_acc_quant,
            keywords=split_keywords(type(self).__name__, kwargs, prefixes),
            device=device,
            dtype=dtype,
        )

    def forward(self, inp: Any, hx: Any = None, cx: Any = None) -> tuple[Any, tuple[Any, Any]]:
        """Output ``(L, N, directions * hidden_size)``, last hidden and cell states.

        Args:
            inp: the sequence.
            hx: first hidden states ``(layers * directions, N, hidden_size)``, or a pair of them and *cx* as in torch.
            cx: first cell states.
        """
        if isinstance(hx, tuple):
            hx, cx = hx
        hidden_states, cell_states = [], []
        for index, layer in enumerate(self.layers):
            results = [
                direction(inp, self._state(hx, index, d), self._state(cx, index, d))
                for d, direction in enumerate(layer)
            ]
            inp = _joined([out for out, _, _ in results], -1)
            hidden_states += [hidden for _, hidden, _ in results]
            cell_states += [cell for _, _, cell in results]
        cells = _joined(cell_states, 0) if self.cat_output_cell_states else cell_states
        return inp, (_joined(hidden_states, 0), cells)
