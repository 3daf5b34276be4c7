"""Measurements behind the `bench` command; each suite is one module."""
