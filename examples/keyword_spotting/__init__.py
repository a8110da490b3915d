"""A one-dimensional CNN that tells sounds apart: ``headrace demo --example keyword_spotting``."""
