# SPDX-License-Identifier: Apache-2.0
"""Keywords that models of transformers hand on to their attention besides what it is computed from."""

from __future__ import annotations

import re
from typing import Any

from stof.c_library import Unsupported

# Of kernels that take packed texts, and of calls of whole models: the attention functions of transformers compute the same with them.
_WITHOUT_EFFECT = {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "seq_idx", "position_ids", "text_position_ids", "deterministic",
                   "layer_idx", "past_key_values", "past_key_value", "use_cache", "cache_position", "position_embeddings", "logits_to_keep",
                   "num_logits_to_keep", "num_items_in_batch", "return_dict", "return_loss", "labels", "shift_labels", "input_ids", "inputs_embeds",
                   "token_type_ids", "mm_token_type_ids", "interpolate_pos_encoding", "rope_deltas", "second_per_grid_ts", "padding_mask",
                   "kernel_options", "debug_io", "debug_io_dir", "prune_layers"}  # fmt: skip
# What a model returns besides, and inputs of other modalities, which parts of a model leave to each other.
_OF_MODELS = re.compile("(?!.*bias)(output|pixel|image|video|audio|vision|decoder|encoder|input_features|input_values)(s?_.*|s?)")


def refuse_uncomputed(module: Any, dropout: float, given: dict[str, Any]) -> None:
    """What attention functions of transformers are asked for by name, of that which is for training or for looking at weights."""
    if given.get("position_bias") is not None or given.get("output_attentions"):
        raise Unsupported(3, "attention by stof neither adds a position bias nor keeps weights; use another attn_implementation")
    if dropout != 0 and module.training:
        raise Unsupported(3, f"attention by stof is for inference: dropout {dropout} in training; call model.eval()")


def refuse_others(given: dict[str, Any]) -> None:
    """What is not known may change attention: indices of chosen keys, biases. Nothing is left out of it silently."""
    for name, value in given.items():
        if value is not None and value is not False and name not in _WITHOUT_EFFECT and not _OF_MODELS.fullmatch(name):
            raise Unsupported(3, f"attention by stof with {name}, {_said(value)}, which it does not compute; accepted: None, a call or model "
                              "without it, or another attn_implementation")  # fmt: skip


def _said(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" + (f" {list(shape)}" if shape is not None else "")
