"""Jets told apart by a fully unrolled network, a jet every cycle: ``headrace demo --example jet_tagging``."""
