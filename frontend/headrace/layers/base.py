"""What a hardware layer is: streams in, streams out, a folding, a cycle count, and a template to render.

A layer is an operator of the hardware graph. Its arrays are integers ``(frames, *stream.shape)``, channels last.
Adding a file to this package registers what it defines: layers, and how integer operators are lowered to them.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.adder_graph import Rounding
from headrace.arithmetic import Estimate
from headrace.errors import FoldingError, UnsupportedError
from headrace.ir import IntRange, Op, TensorType
from headrace.layers.hls import HlsCall, HlsStream

if TYPE_CHECKING:
    from headrace.layers.parameter import Parameter


@dataclass(frozen=True)
class StreamType:
    """A stream of frames: ``elements`` neighbouring values of the last axis travel in one word.

    ``shape`` is the physical frame, channels last: ``(C,)``, ``(L, C)`` or ``(H, W, C)``. Element 0 of a word is in
    its least significant bits; elements are ``range.bits`` wide with no padding inside.

    Raises:
        FoldingError: when ``elements`` does not divide the last axis.
    """

    shape: tuple[int, ...]
    range: IntRange
    elements: int = 1

    def __post_init__(self) -> None:
        if self.elements < 1 or self.shape[-1] % self.elements:
            raise FoldingError(f"{self.elements} elements a word do not divide {self.shape[-1]} channels")

    @property
    def frame_elements(self) -> int:
        """Values in one frame."""
        total = 1
        for n in self.shape:
            total *= n
        return total

    @property
    def words(self) -> int:
        """Words in one frame."""
        return self.frame_elements // self.elements

    @property
    def bits(self) -> int:
        """Width of one element."""
        return self.range.bits

    @property
    def word_bits(self) -> int:
        """Width of one word."""
        return self.elements * self.bits

    @property
    def tensor(self) -> TensorType:
        """The tensor type that travels."""
        return TensorType(self.shape, self.range)


@dataclass(frozen=True)
class Resources:
    """Estimated FPGA resources of one layer."""

    lut: float = 0.0
    ff: float = 0.0
    dsp: float = 0.0
    bram18: float = 0.0
    uram: float = 0.0

    @property
    def weight(self) -> float:
        """One number to choose an implementation by: a flip-flop is half a LUT, a DSP 100, a block RAM 200, an UltraRAM
        as much as eight of them."""
        return Estimate(self.lut, self.ff, self.dsp).weight + 200 * self.bram18 + 1600 * self.uram

    def __add__(self, other: Resources) -> Resources:
        a, b = self, other
        return Resources(a.lut + b.lut, a.ff + b.ff, a.dsp + b.dsp, a.bram18 + b.bram18, a.uram + b.uram)

    def times(self, count: int) -> Resources:
        """Of so many alike."""
        return Resources(*(count * amount for amount in (self.lut, self.ff, self.dsp, self.bram18, self.uram)))


@dataclass(frozen=True)
class RtlModule:
    """What to render for one layer.

    Attributes:
        template: file name in ``hls_templates/rtl``.
        context: the template's variables; the code generator adds ``module`` (a legal unique identifier) and
            ``layer`` (the layer's display name, already made safe for a comment).
        memories: ``$readmemh`` texts by short suffix; the generator writes each as ``<module>_<suffix>.hex`` and gives
            the template that base name as ``memory[suffix]``.
        library: names of shared template files this module instantiates (rendered once a design, no context).
    """

    template: str
    context: Mapping[str, object]
    memories: Mapping[str, str] = field(default_factory=dict)
    library: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Layer(Op):
    """Base of the hardware layers: a frozen dataclass whose fields fix the generated module entirely.

    Every generated module has the ports ``ap_clk``, ``ap_rst_n`` (synchronous, active low), and per stream
    ``in<k>_tdata/_tvalid/_tready`` and ``out<k>_tdata/_tvalid/_tready``, words exactly ``word_bits`` wide.
    """

    kind: ClassVar[str]
    """The field's name of the layer, as in folding files: ``MVAU``, ``Thresholding``, ``SWG`` ..."""

    replaceable: ClassVar[bool] = False
    """Whether its constants may be made such that they can be replaced at run time (:attr:`parameters`)."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[StreamType, ...]:
        """Streams read, by port."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[StreamType, ...]:
        """Streams written, by port."""

    @property
    @abstractmethod
    def cycles(self) -> int:
        """Initiation interval: clock cycles a frame, when nothing stalls it. Exact."""

    @property
    @abstractmethod
    def latency(self) -> int:
        """Clock cycles from accepting the first input word to offering the first output word, unstalled."""

    @property
    def style_in_use(self) -> str:
        """How the module is made, of several ways; empty where there is one. High-level synthesis chooses itself."""
        return ""

    @property
    def folding(self) -> dict[str, int]:
        """Current folding values by name (``PE``, ``SIMD``)."""
        return {}

    @property
    def width_name(self) -> str | None:
        """The folding value that says how wide its words are, of a layer that has little other work: its only one."""
        names = list(self.folding_choices)
        return names[0] if len(names) == 1 else None

    @property
    def folding_choices(self) -> dict[str, tuple[int, ...]]:
        """Legal values of each folding name, ascending."""
        return {}

    @property
    def weight_bits_a_pe(self) -> int:
        """Bits of weights that one PE reads a cycle; 0 for a layer without weights."""
        return 0

    @property
    def counts(self) -> dict[str, int]:
        """Operations a frame and parameters by their types, as FINN names them: ``op_mac_2bx4b``, fewer bits first."""
        return {}

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Constants that can be replaced at run time. A layer with some has the ports ``cfg_access``, ``cfg_restore``,
        ``cfg_write``, ``cfg_address``, ``cfg_wdata`` and ``cfg_rdata`` too (:mod:`headrace.layers.parameter`)."""
        return ()

    @property
    def runtime_settings(self) -> dict[str, object]:
        """What a folding file says of a layer with :attr:`parameters`, under FINN's names."""
        return {}

    def with_folding(self, **values: int) -> Self:
        """This layer folded differently.

        Raises:
            FoldingError: names the value, what it must divide, and the legal values.
        """
        for name, value in values.items():
            choices = self.folding_choices.get(name)
            if choices is None:
                known = ", ".join(self.folding_choices) or "none"
                raise FoldingError(f"{self.kind} has no folding '{name}'; it has: {known}")
            if value not in choices:
                raise FoldingError(
                    f"{self.kind}: {name}={value} does not divide {choices[-1]}; valid: {', '.join(map(str, choices))}"
                )
        fields = {name.lower(): value for name, value in values.items()}
        return replace(self, **fields)

    @abstractmethod
    def resources(self) -> Resources:
        """Estimated resources at this folding, quickly: the folding solver asks for those of every choice."""

    def counted_resources(self) -> Resources:
        """Estimated resources of a layer that is folded for good, of which what it is made of may be counted."""
        return self.resources()

    @abstractmethod
    def rtl(self) -> RtlModule:
        """The SystemVerilog module of this layer."""

    def hls(self) -> HlsCall | HlsStream:
        """The C++ function of this layer for high-level synthesis.

        Raises:
            UnsupportedError: when there is none; names the layer's kind.
        """
        raise UnsupportedError(f"layer kind {self.kind} has no HLS template; use the backend 'rtl'")

    def absorb(self, after: Layer) -> Layer | None:
        """This layer and *after*, which alone reads its output, as one layer in their place; None where that is no
        gain."""
        return None

    def as_rounding(self) -> tuple[NDArray[np.int64], Rounding] | None:
        """``(bias, rounding)`` when this layer is ``rounding(x + bias[c])`` for every x of its input; else None."""
        return None

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return tuple(stream.tensor for stream in self.outputs)


def divisors(number: int) -> tuple[int, ...]:
    """All divisors of *number*, ascending."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))


# -- registry -------------------------------------------------------------------------------------------------------

LoweringRule = Callable[..., Sequence[Layer]]
"""``rule(op, *streams) -> chain of layers``: input streams (shape and range as they arrive, channels last, one element
a word) to a chain in which each layer feeds the next; the first takes all inputs, the last gives the result."""

_rules: dict[type[Op], LoweringRule] = {}
_Rule = TypeVar("_Rule", bound=LoweringRule)


def lowers(operator: type[Op]) -> Callable[[_Rule], _Rule]:
    """Decorator: register how *operator* of the integer graph becomes layers."""

    def register(rule: _Rule) -> _Rule:
        if operator in _rules:
            raise RuntimeError(f"two lowering rules for {operator.__name__}")
        _rules[operator] = rule
        return rule

    return register


@cache
def load_layers() -> None:
    """Import every module of this package, which registers its layers and lowering rules."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{__package__}.{module.name}")


def layer_types() -> list[type[Layer]]:
    """Every kind of layer that there is."""
    load_layers()
    found = list(Layer.__subclasses__())
    for type_ in found:
        found.extend(type_.__subclasses__())
    return [type_ for type_ in found if hasattr(type_, "kind")]


def lower(op: Op, streams: Sequence[StreamType], node: str) -> Sequence[Layer]:
    """The layers that implement *op*, folded as little as possible (PE = SIMD = 1).

    Raises:
        UnsupportedError: when no layer implements the operator; names *node*.
    """
    load_layers()
    rule = _rules.get(type(op))
    if rule is None:
        known = ", ".join(sorted(k.__name__ for k in _rules))
        raise UnsupportedError(
            f"{type(op).__name__} has no hardware layer; operators that have one: {known}", node=f"'{node}'"
        )
    return rule(op, *streams)
