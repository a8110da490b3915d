"""A build script as one writes it for FINN; the imports alone are others."""
