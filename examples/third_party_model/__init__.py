"""A QONNX file that another tool has made, built and verified without PyTorch."""
