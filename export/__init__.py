"""Checkpoint in, model folder out. Heavy imports live here only.

`BUILDER_VERSION` rises whenever the same checkpoint would give another folder; folders made by an
older builder are then made again. This module imports nothing, so reading it costs nothing.
"""

BUILDER_VERSION = 2
