"""A random two-layer model on disk, built by the real builder, so that tests run a real graph.

Its text is noise; its shape, files, tokenizer and arithmetic are those of a real folder.
"""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from export.build import build, build_draft
from export.heads import build_heads
from export.random_heads import write_random_heads
from lsp_server.engine.manifest import Manifest

CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
NUM_HEADS, NUM_KV_HEADS, HEAD_SIZE, FEED_FORWARD = 4, 2, 16, 96
HIDDEN_SIZE = NUM_HEADS * HEAD_SIZE
CONTEXT_LENGTH = 512

_SAMPLE = (
    "def total(values):\n    result = 0\n    for value in values:\n        result += value\n"
    "    return result\n\n\nclass Point:\n    def __init__(self, x, y):\n        self.x = x\n"
    "        self.y = y\n\n    def size(self):\n        return (self.x ** 2 + self.y ** 2) ** 0.5\n"
)


def build_tiny_model(
    folder: Path,
    *,
    seed: int = 0,
    vocab: int = 320,
    layers: int = 2,
    weights: str = "int8",
    draft_vocabulary: int = 0,
) -> Manifest:
    """Write a random checkpoint beside `folder` and build it there; about half a second.

    `vocab` counts 3 control tokens, the 256 bytes and the merges learned from a few lines of code.
    The early exit is after the first layer; its head knows `draft_vocabulary` ids (0: all).
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    source = folder.parent / f"{folder.name}.gguf"
    write_tiny_gguf(source, seed=seed, vocab=vocab, layers=layers)
    name = f"tiny-{seed}"
    return build(source, folder, name=name, weights=weights, draft_vocabulary=draft_vocabulary)


def build_tiny_drafters(
    folder: Path,
    target: Path,
    *,
    seed: int = 0,
    weights: str = "int8",
    draft_vocabulary: int = 200,
    num_medusa_heads: int = 4,
) -> dict[str, Path]:
    """What can draft for the folder that `build_tiny_model` made, below `folder`, by kind.

    `draft` (its first layer alone), `medusa`, `eagle` and `eagle3`, random all of them; about a
    second. Their heads know `draft_vocabulary` ids (0: all). The public checkpoints stay beside the
    built folders as `{kind}-checkpoint`.
    """
    made = {"draft": folder / "draft"}
    build_draft(
        target.parent / f"{target.name}.gguf",
        made["draft"],
        name="tiny-draft",
        layers=[0],
        weights=weights,
        draft_vocabulary=draft_vocabulary,
    )
    for kind in ("medusa", "eagle", "eagle3"):
        made[kind] = folder / kind
        checkpoint = folder / f"{kind}-checkpoint"
        write_random_heads(
            kind,
            target,
            checkpoint,
            seed=seed,
            draft_vocabulary=draft_vocabulary,
            num_medusa_heads=num_medusa_heads,
        )
        build_heads(
            kind,
            checkpoint,
            target,
            made[kind],
            name=f"tiny-{kind}",
            weights=weights,
            draft_vocabulary=draft_vocabulary,
        )
    return made


def write_tiny_gguf(
    path: Path,
    *,
    seed: int = 0,
    vocab: int = 320,
    layers: int = 2,
    architecture: str = "llama",
    pre: str = "smollm",
    tied: bool = False,
    down_type: gguf.GGMLQuantizationType | None = None,
    extra_tensor: str | None = None,
    num_kv_heads: int | list[int] = NUM_KV_HEADS,
) -> None:
    """The checkpoint alone. An untied head keeps it from echoing its last token for ever.

    `down_type` claims that type for the first `ffn_down`; `extra_tensor` adds one of that name;
    `num_kv_heads` changes the metadata only.
    """
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(layers)
    writer.add_context_length(CONTEXT_LENGTH)
    writer.add_embedding_length(HIDDEN_SIZE)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(NUM_HEADS)
    writer.add_head_count_kv(num_kv_heads)
    writer.add_rope_dimension_count(HEAD_SIZE)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_license("apache-2.0")
    tokens, merges = tiny_vocabulary(vocab)
    _add_tokenizer(writer, tokens, merges, pre)
    tensors = _random_tensors(len(tokens), layers, tied, np.random.default_rng(seed))
    if extra_tensor is not None:
        tensors[extra_tensor] = np.zeros(HIDDEN_SIZE, np.float32)
    for name, values in tensors.items():
        if down_type is not None and name == "blk.0.ffn_down.weight":
            block_values, block_bytes = gguf.GGML_QUANT_SIZES[down_type]
            width = 256 // block_values * block_bytes
            writer.add_tensor(name, np.zeros((HIDDEN_SIZE, width), np.uint8), raw_dtype=down_type)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tiny_vocabulary(size: int) -> tuple[list[str], list[str]]:
    """Tokens by id and merges; fewer than `size` if the sample has no more pairs."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(CONTROL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([_SAMPLE], trainer)
    learned = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(learned["vocab"], key=learned["vocab"].__getitem__)
    return tokens, [" ".join(merge) for merge in learned["merges"]]


def _add_tokenizer(writer: gguf.GGUFWriter, tokens: list[str], merges: list[str], pre: str) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(
        [
            gguf.TokenType.CONTROL if token in CONTROL_TOKENS else gguf.TokenType.NORMAL
            for token in tokens
        ]
    )
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def _random_tensors(
    vocab_size: int, num_layers: int, tied: bool, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    tensors: dict[str, np.ndarray] = {}

    def add(name: str, num_out: int, num_in: int, gain: float = 1.0) -> None:
        values = rng.standard_normal((num_out, num_in)) * gain / np.sqrt(num_in)
        tensors[f"{name}.weight"] = values.astype(np.float32)

    def add_norm(name: str) -> None:
        values = 1 + 0.1 * rng.standard_normal(HIDDEN_SIZE)
        tensors[f"{name}.weight"] = values.astype(np.float32)

    add("token_embd", vocab_size, HIDDEN_SIZE, gain=8.0)
    for layer in range(num_layers):
        block = f"blk.{layer}"
        add_norm(f"{block}.attn_norm")
        add(f"{block}.attn_q", HIDDEN_SIZE, HIDDEN_SIZE, gain=2.0)
        add(f"{block}.attn_k", NUM_KV_HEADS * HEAD_SIZE, HIDDEN_SIZE, gain=2.0)
        add(f"{block}.attn_v", NUM_KV_HEADS * HEAD_SIZE, HIDDEN_SIZE)
        add(f"{block}.attn_output", HIDDEN_SIZE, HIDDEN_SIZE, gain=2.0)
        add_norm(f"{block}.ffn_norm")
        add(f"{block}.ffn_gate", FEED_FORWARD, HIDDEN_SIZE)
        add(f"{block}.ffn_up", FEED_FORWARD, HIDDEN_SIZE)
        add(f"{block}.ffn_down", HIDDEN_SIZE, FEED_FORWARD, gain=2.0)
    add_norm("output_norm")
    if not tied:
        # Logits of standard deviation 4: clear choices, as a trained model has.
        add("output", vocab_size, HIDDEN_SIZE, gain=4.0)
    return tensors
