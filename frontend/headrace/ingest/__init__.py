"""Import of ONNX dialects: QONNX, FINN-ONNX and QDQ files to source graphs."""

from headrace.ingest.files import read_onnx, unwrapped
from headrace.ingest.importer import from_bytes, from_proto, load_onnx

__all__ = ["from_bytes", "from_proto", "load_onnx", "read_onnx", "unwrapped"]
