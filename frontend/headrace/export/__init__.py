"""Export of quantized models to ONNX. The model that is exported does not change.

* :func:`export_qonnx`: QONNX, arbitrary bit widths (domain ``qonnx.custom_op.general``).
* :func:`export_onnx_qcdq`: standard ONNX with QuantizeLinear, Clip and DequantizeLinear, at most 8 bits.
* :func:`export_onnx_qop`: standard ONNX with integer operators (QLinearConv, QLinearMatMul).
"""

from headrace.export.errors import ExportError
from headrace.export.qcdq import export_onnx_qcdq
from headrace.export.qonnx import export_qonnx
from headrace.export.qop import export_onnx_qop

__all__ = ["ExportError", "export_onnx_qcdq", "export_onnx_qop", "export_qonnx"]
