"""Transformations of whole models for training and post-training quantization."""
