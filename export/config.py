"""What the graph needs to know of a checkpoint, whatever file it came from."""

from dataclasses import dataclass
from typing import Literal, get_args

WeightFormat = Literal["int8", "int4", "fp32"]
WEIGHT_FORMATS: tuple[str, ...] = get_args(WeightFormat)

Form = Literal["chain", "tree", "exit"]

MAX_CONTEXT = 8192
"""Default bound on the rotary tables; a longer context would be slow on a CPU long before."""
LEAST_CONTEXT = 64
"""Less has no room for the passes whose cost is measured when a model is loaded."""

DRAFT_VOCABULARY = 4096
"""Default number of ids that a reduced head knows; 0 keeps the whole head."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    num_heads: int
    num_kv_heads: int
    head_size: int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A decoder of the Llama shape: RMSNorm, rotary positions, gated SiLU, no biases."""

    family: str
    num_layers: int
    attention: AttentionShape
    hidden_size: int
    vocab_size: int
    context_length: int
    """Rows of the rotary tables, so the longest text that a folder can serve."""
    rope_base: float
    norm_epsilon: float
    tied_head: bool
    """The output matrix is the embedding table."""
    exit_layers: int = 0
    """Layers of the form `exit`."""
