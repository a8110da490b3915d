"""Pytest plugin: options and the fixture `rtl_sim`."""
