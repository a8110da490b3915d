"""Export of quantized models to ONNX. The model that is exported does not change.

* :func:`export_qonnx`: QONNX, arbitrary bit widths (domain ``qonnx.custom_op.general``).
"""

from headrace.export.errors import ExportError
from headrace.export.qonnx import export_qonnx

__all__ = ["ExportError", "export_qonnx"]
