"""What the graph needs to know of a checkpoint, whatever file it came from."""

from dataclasses import dataclass
from typing import Literal, get_args

WeightFormat = Literal["int8", "int4", "fp32"]
WEIGHT_FORMATS: tuple[str, ...] = get_args(WeightFormat)

Form = Literal["chain", "tree"]
FORMS: tuple[Form, ...] = get_args(Form)

MAX_CONTEXT = 8192
"""Default bound on the rotary tables; a longer context would be slow on a CPU long before."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A decoder of the Llama shape: RMSNorm, rotary positions, gated SiLU, no biases."""

    family: str
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    hidden_size: int
    vocab_size: int
    context_length: int
    """Rows of the rotary tables, so the longest text that a folder can serve."""
    rope_base: float
    norm_epsilon: float
    tied_head: bool
    """The output matrix is the embedding table."""
