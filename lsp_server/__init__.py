"""The product: a language server that completes code from models on this machine."""

__version__ = "0.1.0"
"""Kept equal to pyproject.toml by a test; reading it from there would cost start-up time."""
