"""An error in a forward pass begins with the path of the module in the model."""

import pickle

import pytest
import torch
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.errors import HeadraceError
from headrace.inject.errors import QuantizerTypeError, QuantLayerError


class Classifier(nn.Module):
    """A quantized layer two levels down that cannot describe its output."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), qnn.QuantReLU(bit_width=4), self.broken())

    def broken(self):
        return qnn.QuantLinear(4, 2, weight_bit_width=4, return_quant_tensor=True)

    def forward(self, x):
        return self.features(x)


def _message(run, error=HeadraceError):
    with pytest.raises(error) as info:
        run()
    return str(info.value)


def test_the_path_comes_first():
    message = _message(lambda: Classifier()(torch.ones(1, 4)), QuantLayerError)
    assert message.startswith("module 'features.2': QuantLayer is not correctly configured")
    assert "in_features=4" in message


def test_the_path_is_from_the_outermost_model():
    model = nn.ModuleDict({"left": nn.Sequential(Classifier())})
    wrapped = nn.Sequential(nn.Identity(), model["left"])
    assert _message(lambda: wrapped(torch.ones(1, 4))).startswith("module '1.0.features.2': ")


def test_a_shared_layer_is_called_by_its_first_path():
    layer = Classifier().features[2]
    assert _message(lambda: nn.Sequential(layer, layer)(torch.ones(1, 4))).startswith("module '0': ")


def test_an_error_within_a_quantizer_names_its_layer():
    model = nn.Sequential(
        nn.Sequential(qnn.QuantIdentity(quant.ShiftedUint8ActPerTensorFloat, return_quant_tensor=True))
    )
    model.append(qnn.ClampQuantAccumulator(quant.ClampTo8bit))
    assert _message(lambda: model(torch.randn(8, 4))).startswith("module '1': clamping integers with a zero point")


def test_arithmetic_names_the_module_whose_forward_does_it():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = qnn.QuantIdentity(bit_width=4, return_quant_tensor=True)
            self.b = qnn.QuantIdentity(bit_width=4, return_quant_tensor=True)

        def forward(self, x):
            return self.a(x) + self.b(4 * x)

    model = nn.Sequential(nn.Sequential(), Sum())
    model(torch.randn(8, 4))
    model.eval()
    assert _message(lambda: model(torch.randn(8, 4))).startswith("module '1': Scaling factors are different: ")


def test_a_layer_alone_and_a_constructor_have_no_path():
    assert _message(lambda: Classifier().features[2](torch.ones(1, 4))).startswith("QuantLayer is not")

    class Late(nn.Module):
        def forward(self, x):
            return qnn.QuantLinear(4, 2, return_quant_tensor=1)(x)

    assert _message(lambda: Late()(torch.ones(1, 4)), QuantizerTypeError).startswith("return_quant_tensor must be")


def test_the_error_survives_pickling_and_raising_again():
    with pytest.raises(QuantLayerError) as info:
        Classifier()(torch.ones(1, 4))
    again = pickle.loads(pickle.dumps(info.value))
    assert str(again) == str(info.value)


def test_the_cost_of_a_forward_pass_is_nothing(monkeypatch):
    def forbidden():
        raise AssertionError("the frames are looked at")

    monkeypatch.setattr("headrace.inject.errors.running_module", forbidden)
    nn.Sequential(qnn.QuantIdentity(bit_width=4), qnn.QuantLinear(4, 2, weight_bit_width=4))(torch.ones(1, 4))
