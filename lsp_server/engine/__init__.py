"""Tokens in, tokens out: models, drafters, verification and the decoding loop.

Knows no text, no URI and no LSP type.
"""
