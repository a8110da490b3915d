"""Tables of layers for the conformance suite, one file for each kind of layer."""
