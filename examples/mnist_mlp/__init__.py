"""An MNIST network from training to simulated hardware: ``headrace demo``."""
