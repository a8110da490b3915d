"""A convolutional MNIST network from training to simulated hardware: ``headrace demo --example mnist_cnn``."""
