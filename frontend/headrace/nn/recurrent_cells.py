"""One direction of one layer of a quantized recurrent network: gate parameters and the step function."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from headrace.inject.errors import QuantizerValueError, QuantLayerError
from headrace.nn import exact
from headrace.nn.elementwise import Tanh
from headrace.nn.geometry import LinearGeometry
from headrace.nn.quant_activation import QuantIdentity, QuantSigmoid, QuantTanh
from headrace.nn.quant_layer import QuantLayer, _build_quantizer
from headrace.proxy.quant_proxy import QuantProxyFromInjector
from headrace.quant import NoneBiasQuant, NoneWeightQuant
from headrace.quant_tensor import unpack_quant_tensor

Keywords = Mapping[str, Mapping[str, object]]
"""Quantizer attributes by prefix (``weight_``, ``bias_``, ``io_``, ...)."""


class GateWeight(QuantLayer):
    """A quantized matrix ``(output_features, input_features)``."""

    geometry = LinearGeometry()
    output_channel_dim = 0

    def __init__(
        self,
        input_features: int,
        output_features: int,
        weight_quant: Any,
        keywords: Mapping[str, object],
        device: torch.device | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(output_features, input_features, device=device, dtype=dtype))
        self._weight_cache = exact.WeightCache()
        shared = isinstance(weight_quant, QuantProxyFromInjector)
        self.weight_quant: Any = _build_quantizer(
            self, "weight_quant", weight_quant, NoneWeightQuant, {} if shared else keywords, {}, "weight_"
        )

    @property
    def out_channels(self) -> int:
        """Number of rows."""
        return self.weight.shape[0]

    def forward(self) -> Any:
        """The quantized matrix."""
        return self._weight_cache.weight(self)

    def product(self, x: Any, weight: Any) -> Tensor:
        """*x* times the transposed *weight*, which :meth:`forward` has returned; exact in evaluation."""
        exactly = None if self.training else exact.apply(self, x, weight, None, self.geometry)
        out: Tensor = F.linear(unpack_quant_tensor(x), unpack_quant_tensor(weight)) if exactly is None else exactly
        return out


class GateParams(QuantLayer):
    """The parameters of a gate: matrices of input and hidden state, which share a quantizer, and a bias."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        weight_quant: Any,
        bias_quant: Any,
        input_weight: GateWeight | None,
        keywords: Keywords,
        device: torch.device | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(hidden_size, device=device, dtype=dtype)) if bias else None
        self.bias_quant: Any = _build_quantizer(
            self, "bias_quant", bias_quant, NoneBiasQuant, keywords["bias_"], {}, "bias_"
        )
        if input_weight is None:
            input_weight = GateWeight(input_size, hidden_size, weight_quant, keywords["weight_"], device, dtype)
        self.input_weight = input_weight
        self.hidden_weight = GateWeight(hidden_size, hidden_size, input_weight.weight_quant, {}, device, dtype)

    def forward(self, input: Any) -> tuple[Any, Any, Any]:
        """Quantized input matrix, hidden matrix, and bias (0 where there is none)."""
        weight = self.input_weight()
        bias = 0.0 if self.bias is None else unpack_quant_tensor(self.bias_quant(self.bias, input, weight))
        return weight, self.hidden_weight(), bias

    def gate(self, x: Any, hidden: Any, parameters: tuple[Any, Any, Any]) -> Tensor:
        """What the gate sums up; *hidden* is ``None`` for zeros."""
        of_input, of_hidden, bias = parameters
        total = self.input_weight.product(x, of_input)
        if hidden is not None:
            total = total + self.hidden_weight.product(hidden, of_hidden)
        out: Tensor = total + bias
        return out


class RnnCell(nn.Module):
    """Quantizers and activation of an Elman step."""

    def __init__(self, activation: nn.Module, gate_acc_quant: nn.Module, output_quant: nn.Module) -> None:
        super().__init__()
        self.act_fn = activation
        self.gate_acc_quant = gate_acc_quant
        self.output_quant = output_quant


class LstmCell(nn.Module):
    """Quantizers of an LSTM step."""

    output_quant: Any
    cell_state_quant: Any
    input_acc_quant: Any
    forget_acc_quant: Any
    cell_acc_quant: Any
    output_acc_quant: Any
    input_sigmoid_quant: Any
    forget_sigmoid_quant: Any
    cell_tanh_quant: Any
    output_sigmoid_quant: Any
    hidden_state_tanh_quant: Any

    def __init__(self, **quantizers: nn.Module) -> None:
        super().__init__()
        for name, quantizer in quantizers.items():
            self.add_module(name, quantizer)


class RecurrentLayer(QuantLayer):
    """One direction of one layer.

    Args:
        hidden_size: size of the hidden state.
        batch_first: sequences are ``(N, L, features)`` instead of ``(L, N, features)``.
        reverse_input: run from the last step to the first.
        quantize_output_only: the input is quantized already.
        return_quant_tensor: return quant tensors where the output is quantized.
        io_quant: quantizer of input and output.
    """

    cell: Any

    def __init__(
        self,
        hidden_size: int,
        batch_first: bool,
        reverse_input: bool,
        quantize_output_only: bool,
        return_quant_tensor: bool,
    ) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.time_dim = 1 if batch_first else 0
        self.reverse_input = reverse_input
        self.quantize_output_only = quantize_output_only
        self.return_quant_tensor = return_quant_tensor

    io_quant: Any

    def reset_parameters(self) -> None:
        """Uniform in ``+-1/sqrt(hidden_size)``, as in torch."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for name, parameter in self.named_parameters():
            if name.endswith(("bias", "weight")):
                nn.init.uniform_(parameter, -bound, bound)

    def steps(self, input: Any) -> tuple[Any, list[Any]]:
        """The quantized sequence, and its steps in the order in which they are taken."""
        if isinstance(input, PackedSequence):
            raise QuantLayerError("a PackedSequence cannot be quantized; pass a padded tensor")
        if not self.quantize_output_only:
            input = self.io_quant(input)
        quant = exact.quantized(input)
        sequence: Tensor = unpack_quant_tensor(input)
        values = [sequence.select(self.time_dim, step) for step in range(sequence.shape[self.time_dim])]
        steps: list[Any] = values if quant is None else [quant.set(value=v) for v in values]
        return input, steps[::-1] if self.reverse_input else steps

    @staticmethod
    def state(given: Any, quantizer: Any) -> Any:
        """The first state: *given* quantized, ``None`` for zeros."""
        return None if given is None else quantizer(given)

    def sequence(self, outputs: Sequence[Any]) -> Any:
        """Outputs of steps, in the order in which they were taken, as one tensor."""
        ordered = list(outputs)[::-1] if self.reverse_input else list(outputs)
        return self._returned(torch.cat([out.unsqueeze(self.time_dim) for out in ordered], dim=self.time_dim))

    def _returned(self, out: Any) -> Any:
        return out if self.return_quant_tensor else exact.plain(out)

    def last(self, state: Any) -> Any:
        """A final state, with a dimension for layers and directions."""
        return self._returned(state.unsqueeze(0))


class RnnLayer(RecurrentLayer):
    """One direction of one layer of an Elman network."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        nonlinearity: str,
        quantizers: Mapping[str, Any],
        keywords: Keywords,
        shared: RnnLayer | None,
        device: torch.device | None,
        dtype: torch.dtype | None,
        **direction: bool,
    ) -> None:
        super().__init__(hidden_size, **direction)
        if nonlinearity not in ("tanh", "relu"):
            raise QuantizerValueError(f"nonlinearity={nonlinearity!r} is not supported; accepted: 'tanh', 'relu'")
        io_quant = _activation(QuantIdentity, quantizers["io_quant"], keywords["io_"])
        gate_acc = _activation(QuantIdentity, quantizers["gate_acc_quant"], keywords["gate_acc_"])
        self.cell = RnnCell(Tanh() if nonlinearity == "tanh" else nn.ReLU(), gate_acc, io_quant)
        self.io_quant = io_quant
        input_weight: GateWeight | None = None if shared is None else shared.gate_params.input_weight
        self.gate_params: GateParams = GateParams(
            input_size,
            hidden_size,
            bias,
            quantizers["weight_quant"],
            quantizers["bias_quant"],
            input_weight,
            keywords,
            device,
            dtype,
        )
        if any(True for _ in gate_acc.parameters()):
            torch.rand(())  # Brevitas draws for the scale of this quantizer too: equal seeds give equal weights
        self.reset_parameters()

    def shared_quantizers(self) -> dict[str, Any]:
        """Quantizers of further directions and layers."""
        return {"io_quant": self.io_quant}

    def forward(self, input: Any, state: Any = None) -> tuple[Any, Any]:
        input, steps = self.steps(input)
        parameters = self.gate_params(input)
        hidden = self.state(state, self.cell.output_quant)
        outputs = []
        for step in steps:
            total = unpack_quant_tensor(self.cell.gate_acc_quant(self.gate_params.gate(step, hidden, parameters)))
            hidden = self.cell.output_quant(self.cell.act_fn(total))
            outputs.append(hidden)
        return self.sequence(outputs), self.last(hidden)


_GATES = ("input", "forget", "cell", "output")


class LstmLayer(RecurrentLayer):
    """One direction of one layer of an LSTM."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        coupled: bool,
        share_weight_quant: bool,
        share_gate_acc_quant: bool,
        quantizers: Mapping[str, Any],
        keywords: Keywords,
        shared: LstmLayer | None,
        device: torch.device | None,
        dtype: torch.dtype | None,
        **direction: bool,
    ) -> None:
        super().__init__(hidden_size, **direction)
        self.coupled = coupled
        self.cell = _lstm_cell(coupled, share_gate_acc_quant, quantizers, keywords)
        self.io_quant = self.cell.output_quant
        weight_quant = quantizers["weight_quant"]
        for gate in _GATES:
            if gate == "forget" and coupled:
                self.forget_gate_params = None
                continue
            other = None if shared is None else getattr(shared, f"{gate}_gate_params").input_weight
            parameters = GateParams(
                input_size,
                hidden_size,
                bias,
                weight_quant,
                quantizers["bias_quant"],
                other,
                keywords,
                device,
                dtype,
            )
            setattr(self, f"{gate}_gate_params", parameters)
            if share_weight_quant:
                weight_quant = parameters.input_weight.weight_quant
        self.reset_parameters()

    def shared_quantizers(self) -> dict[str, Any]:
        """Quantizers of further directions and layers."""
        return {"io_quant": self.io_quant, "cell_state_quant": self.cell.cell_state_quant}

    def forward(self, input: Any, hidden_state: Any = None, cell_state: Any = None) -> tuple[Any, Any, Any]:
        input, steps = self.steps(input)
        gates = {
            name: (parameters, parameters(input))
            for name in _GATES
            if (parameters := getattr(self, f"{name}_gate_params")) is not None
        }
        hidden = self.state(hidden_state, self.cell.output_quant)
        memory = self.state(cell_state, self.cell.cell_state_quant)
        outputs = []
        for step in steps:
            hidden, memory = self._step(step, hidden, memory, gates)
            outputs.append(hidden)
        return self.sequence(outputs), self.last(hidden), self.last(memory)

    def _step(self, x: Any, hidden: Any, memory: Any, gates: Mapping[str, tuple[GateParams, Any]]) -> Any:
        """Hidden and cell state after one step."""
        cell = self.cell

        def value(name: str, activation: Any) -> Tensor:
            parameters, quantized = gates[name]
            total = getattr(cell, f"{name}_acc_quant")(parameters.gate(x, hidden, quantized))
            out: Tensor = unpack_quant_tensor(activation(unpack_quant_tensor(total)))
            return out

        entering = value("input", cell.input_sigmoid_quant)
        kept = self._ones(entering) - entering if self.coupled else value("forget", cell.forget_sigmoid_quant)
        proposed = value("cell", cell.cell_tanh_quant)
        shown = value("output", cell.output_sigmoid_quant)
        old = unpack_quant_tensor(
            cell.cell_state_quant(kept * (0.0 if memory is None else unpack_quant_tensor(memory)))
        )
        new = unpack_quant_tensor(cell.cell_state_quant(entering * proposed))
        state = cell.cell_state_quant(old + new)
        squashed = unpack_quant_tensor(cell.hidden_state_tanh_quant(unpack_quant_tensor(state)))
        return cell.output_quant(shown * squashed), state

    _one: Tensor | float = 1.0

    def _ones(self, like: Tensor) -> Tensor | float:
        """The number 1 on the grid of the input gate, for coupled gates; the last one where that cannot be asked."""
        fused = getattr(self.cell.input_sigmoid_quant, "fused_activation_quant_proxy", None)
        if fused is None or fused.tensor_quant is None:
            return self._one
        ones: Tensor = fused.tensor_quant(torch.ones_like(like) if self.training else like.new_ones(()))[0]
        if not self.training:
            self._one = ones.detach()
        return ones


def _activation(kind: Any, quantizer: Any, keywords: Mapping[str, object]) -> Any:
    """The quantizer of an activation layer; a shared one as it is."""
    shared = isinstance(quantizer, QuantProxyFromInjector)
    return kind(quantizer, **({} if shared else keywords)).act_quant


def _lstm_cell(coupled: bool, share_acc: bool, quantizers: Mapping[str, Any], keywords: Keywords) -> LstmCell:
    """The quantizers of a step; coupled gates and shared accumulator quantizers appear under several names."""

    def build(kind: Any, name: str, prefix: str) -> Any:
        return _activation(kind, quantizers[name], keywords[prefix])

    built: dict[str, Any] = {
        "output_quant": build(QuantIdentity, "io_quant", "io_"),
        "cell_state_quant": build(QuantIdentity, "cell_state_quant", "cell_state_"),
    }
    for gate in _GATES:
        same = gate != "input" and (share_acc or (coupled and gate == "forget"))
        acc = built["input_acc_quant"] if same else build(QuantIdentity, "gate_acc_quant", "gate_acc_")
        built[f"{gate}_acc_quant"] = acc
    built["input_sigmoid_quant"] = build(QuantSigmoid, "sigmoid_quant", "sigmoid_")
    built["forget_sigmoid_quant"] = (
        built["input_sigmoid_quant"] if coupled else build(QuantSigmoid, "sigmoid_quant", "sigmoid_")
    )
    built["cell_tanh_quant"] = build(QuantTanh, "tanh_quant", "tanh_")
    built["output_sigmoid_quant"] = build(QuantSigmoid, "sigmoid_quant", "sigmoid_")
    built["hidden_state_tanh_quant"] = build(QuantTanh, "tanh_quant", "tanh_")
    return LstmCell(**built)


__all__ = ["GateParams", "GateWeight", "LstmLayer", "RecurrentLayer", "RnnLayer"]
