"""What a user gets wrong, and the sentence that says so."""

import pytest
import torch

import headrace.nn as qnn
from headrace import quant
from headrace.core.function_wrapper import RoundSte
from headrace.core.quant import IntQuant
from headrace.errors import HeadraceError
from headrace.inject import ExtendedInjector, this, value
from headrace.inject.resolver import Resolver
from headrace.proxy import WeightQuantProxyFromInjector
from headrace.quant.solver import WeightQuantSolver


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: qnn.QuantLinear(2, 4, weight_bitwidth=4), TypeError, "did you mean 'weight_bit_width'"),
        (lambda: qnn.QuantLinear(2, 4, wieght_bit_width=4), TypeError, "did you mean 'weight_bit_width'"),
        (lambda: qnn.QuantLinear(2, 4, weigth_quant=None), TypeError, "unknown keyword 'weigth_quant'"),
        (lambda: qnn.QuantReLU(bitwidth=4), TypeError, "unknown keyword 'bitwidth' .did you mean 'bit_width'"),
        (lambda: qnn.QuantReLU(max_val=6.0), TypeError, "'max_val' has no effect on .* Uint8ActPerTensorFloat"),
        (lambda: qnn.QuantLinear(2, 4, input_bit_width=4), TypeError, "'input_bit_width' has no effect"),
        (lambda: qnn.QuantLinear(2, 4, weight_bit_width=3.5), TypeError, "must be an integer from 1 to 32"),
        (lambda: qnn.QuantLinear(2, 4, weight_bit_width="4"), TypeError, "must be an integer"),
        (lambda: qnn.QuantLinear(2, 4, weight_bit_width=True), TypeError, "must be an integer"),
        (lambda: qnn.QuantLinear(2, 4, weight_bit_width=0), ValueError, "must be an integer from 1 to 32"),
        (lambda: qnn.QuantLinear(2, 4, weight_bit_width=1), ValueError, "narrow_range.*1 bit"),
        (lambda: qnn.QuantLinear(2, 4, weight_narrow_range="yes"), TypeError, "must be True or False"),
        (lambda: qnn.QuantLinear(2, 4, return_quant_tensor=1), TypeError, "return_quant_tensor must be True or"),
        (lambda: qnn.QuantLinear(2, 4, weight_quant=8), TypeError, "weight_quant=8 is not a quantizer"),
        (lambda: qnn.QuantLinear(2, 4, weight_scaling_impl_type="STAT"), ValueError, "did you mean 'STATS'"),
        (lambda: qnn.QuantLinear(2, 4, weight_scaling_impl_type=3), TypeError, "must be a ScalingImplType"),
        (
            lambda: qnn.QuantLinear(
                2, 4, weight_quant=quant.SignedBinaryWeightPerTensorConst, weight_scaling_const=0.0
            ),
            ValueError,
            "scaling_const.*must be a number above 0",
        ),
        (
            lambda: qnn.QuantHardTanh(min_val=float("nan"), max_val=1.0),
            ValueError,
            "min_val=nan is not accepted",
        ),
        (lambda: qnn.QuantHardTanh(), TypeError, "min_val and max_val: give both"),
        (lambda: qnn.QuantReLU(collect_stats_steps=0), ValueError, "must be an integer of at least 1"),
    ],
)
def test_bad_arguments(build, error, message):
    with pytest.raises(error, match=message) as info:
        build()
    assert isinstance(info.value, HeadraceError)


def test_attribute_that_nothing_uses():
    class Misspelt(quant.Int8WeightPerTensorFloat):
        bit_widht = 4

    with pytest.raises(TypeError, match=r"Misspelt: attribute 'bit_widht' is not used.*did you mean 'bit_width'"):
        qnn.QuantLinear(2, 4, weight_quant=Misspelt)


def test_attribute_that_is_missing():
    class Incomplete(WeightQuantSolver):
        quant_type = "INT"
        bit_width = 4

    with pytest.raises(AttributeError, match=r"Incomplete has no attribute '.*', which '.*' needs"):
        qnn.QuantLinear(2, 4, weight_quant=Incomplete)


def test_missing_part_of_a_quantizer_from_scratch_suggests_the_nearest():
    class FromScratch(ExtendedInjector):
        proxy_class = WeightQuantProxyFromInjector
        tensor_quant = IntQuant
        float_to_int_impl = RoundSte
        signd = True
        narrow_range = False

    with pytest.raises(AttributeError, match=r"no attribute 'signed', which 'tensor_quant' needs.*'signd'"):
        qnn.QuantLinear(2, 4, weight_quant=FromScratch)


def test_attributes_that_depend_on_each_other():
    class Circular(ExtendedInjector):
        a = this.b

        @value
        def b(a):
            return a

    with pytest.raises(TypeError, match="a -> b -> a"):
        Resolver(Circular)["a"]


def test_layer_is_not_configured_for_quant_tensors():
    layer = qnn.QuantLinear(2, 4, bias_quant=quant.Int16Bias, return_quant_tensor=True)
    with pytest.raises(RuntimeError, match="QuantLayer is not correctly configured"):
        layer(torch.randn(3, 2))
    with pytest.raises(RuntimeError, match="not correctly configured"):
        qnn.QuantIdentity(act_quant=None, return_quant_tensor=True)(torch.randn(3))


def test_bias_scale_needs_a_quantized_input():
    with pytest.raises(RuntimeError, match="Input scale required"):
        qnn.QuantLinear(2, 4, bias_quant=quant.Int16Bias)(torch.randn(3, 2))


def test_keywords_of_a_shared_quantizer():
    first = qnn.QuantLinear(2, 4)
    with pytest.raises(TypeError, match="weight_quant is shared with another layer: weight_bit_width"):
        qnn.QuantLinear(2, 4, weight_quant=first.weight_quant, weight_bit_width=4)
