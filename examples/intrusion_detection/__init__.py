"""Network flows, attack or not, by a binary or ternary network: ``headrace demo --example intrusion_detection``."""
