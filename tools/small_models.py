# SPDX-License-Identifier: Apache-2.0
"""A model of a few layers of each family, of so many tokens: of the small checkpoints that make_small_models.py writes."""

import transformers

SIZES = {"hidden": 32, "layers": 2, "heads": 4, "intermediate": 64, "positions": 200}


def roberta(tokens):
    s = SIZES
    return transformers.RobertaForMaskedLM(transformers.RobertaConfig(
        vocab_size=tokens, hidden_size=s["hidden"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
        intermediate_size=s["intermediate"], max_position_embeddings=s["positions"] + 2, type_vocab_size=1))  # fmt: skip


def xlm_roberta(tokens):
    s = SIZES
    return transformers.XLMRobertaForMaskedLM(transformers.XLMRobertaConfig(
        vocab_size=tokens, hidden_size=s["hidden"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
        intermediate_size=s["intermediate"], max_position_embeddings=s["positions"] + 2, type_vocab_size=1))  # fmt: skip


def distilbert(tokens):
    s = SIZES
    return transformers.DistilBertForMaskedLM(transformers.DistilBertConfig(
        vocab_size=tokens, dim=s["hidden"], n_layers=s["layers"], n_heads=s["heads"], hidden_dim=s["intermediate"],
        max_position_embeddings=s["positions"]))  # fmt: skip


def longformer(tokens):
    """Windows of two widths, of which texts are shorter and longer."""
    s = SIZES
    return transformers.LongformerForMaskedLM(transformers.LongformerConfig(
        vocab_size=tokens, hidden_size=s["hidden"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
        intermediate_size=s["intermediate"], max_position_embeddings=s["positions"] + 2, type_vocab_size=1,
        layer_norm_eps=1e-5, attention_window=[8, 16], pad_token_id=1, bos_token_id=0, eos_token_id=2, sep_token_id=2))  # fmt: skip


def mpnet(tokens):
    """More positions than the others', for texts that reach beyond the last bucket of distances."""
    s = SIZES
    return transformers.MPNetForMaskedLM(transformers.MPNetConfig(
        vocab_size=tokens, hidden_size=s["hidden"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
        intermediate_size=s["intermediate"], max_position_embeddings=300 + 2, layer_norm_eps=1e-5))  # fmt: skip


def t5_sizes(tokens, **more):
    """Rows of the table that no token has, as of the published checkpoints: 32,128 for 32,100 tokens."""
    s = SIZES
    return dict(vocab_size=tokens + 8, d_model=s["hidden"], d_ff=s["intermediate"], num_layers=3, decoder_start_token_id=0, **more)


def t5(tokens):
    """The first T5 with its decoder, which nothing reads; heads wider together than the model, and few buckets of distances."""
    return transformers.T5ForConditionalGeneration(transformers.T5Config(
        num_heads=4, d_kv=12, num_decoder_layers=1, relative_attention_num_buckets=16, relative_attention_max_distance=40,
        **t5_sizes(tokens)))  # fmt: skip


def t5_gated(tokens):
    """T5 1.1's encoder alone, whose heads are narrower together than the model."""
    return transformers.T5EncoderModel(transformers.T5Config(
        num_heads=3, d_kv=8, feed_forward_proj="gated-gelu", tie_word_embeddings=False, **t5_sizes(tokens)))  # fmt: skip


def gpt2(tokens):
    s = SIZES
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=tokens, n_embd=s["hidden"], n_layer=s["layers"], n_head=s["heads"], n_positions=s["positions"],
        bos_token_id=0, eos_token_id=0))  # fmt: skip


def modernbert(tokens):
    """Layers that see everything and layers that see 6 keys to either side, by angles of their own."""
    s = SIZES
    return transformers.ModernBertForMaskedLM(transformers.ModernBertConfig(
        vocab_size=tokens, hidden_size=s["hidden"], num_hidden_layers=5, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=s["positions"], local_attention=12,
        pad_token_id=2, bos_token_id=0, cls_token_id=0, eos_token_id=1, sep_token_id=1))  # fmt: skip


def modernbert_with_biases(tokens):
    model = modernbert(tokens)
    model.config.attention_bias = model.config.mlp_bias = model.config.norm_bias = True
    model.config.layer_types = ["sliding_attention", "full_attention"] * 2 + ["sliding_attention"]
    return transformers.ModernBertForMaskedLM(model.config)


def decoder_sizes(tokens, **more):
    s = SIZES
    return dict(vocab_size=tokens, hidden_size=s["hidden"], num_hidden_layers=3, num_attention_heads=s["heads"],
                intermediate_size=48, max_position_embeddings=s["positions"], **more)  # fmt: skip


def llama(tokens):
    """Two heads a key head; angles as Llama 3.1's, with pairs of all three kinds: slowed, between, as they were."""
    rope = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64}  # fmt: skip
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        num_key_value_heads=2, head_dim=16, rope_parameters=rope, **decoder_sizes(tokens)))  # fmt: skip


def llama_with_biases(tokens):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        attention_bias=True, mlp_bias=True, rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
        **decoder_sizes(tokens)))  # fmt: skip


def mistral(tokens):
    """A window, one key head for all, heads wider together than the model."""
    return transformers.MistralForCausalLM(transformers.MistralConfig(
        num_key_value_heads=1, head_dim=12, sliding_window=10, **decoder_sizes(tokens)))  # fmt: skip


def qwen2(tokens):
    """Windows from the second layer on, angles scaled as YaRN's, one table for tokens and logits."""
    rope = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 50}
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        num_key_value_heads=2, use_sliding_window=True, sliding_window=16, max_window_layers=1, rope_parameters=rope,
        tie_word_embeddings=True, **decoder_sizes(tokens)))  # fmt: skip


def qwen3(tokens):
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        num_key_value_heads=2, head_dim=20, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=True, **decoder_sizes(tokens)))  # fmt: skip


def phi3(tokens):
    """A window in all layers, two heads a key head, q, k and v as one matrix, and the gate with what it lets through."""
    return transformers.Phi3ForCausalLM(transformers.Phi3Config(
        num_key_value_heads=2, sliding_window=12, pad_token_id=0, bos_token_id=1, eos_token_id=2, **decoder_sizes(tokens)))  # fmt: skip


def phi4(tokens):
    """Six of eight pairs of a head turn, in texts of more than 20 tokens by other angles; one table for tokens and logits."""
    rope = {"rope_type": "longrope", "short_factor": [1.0, 1.05, 1.1, 1.25, 1.4, 1.5], "long_factor": [1.0, 1.5, 3.0, 8.0, 20.0, 30.0]}
    return transformers.Phi3ForCausalLM(transformers.Phi3Config(
        num_key_value_heads=1, pad_token_id=0, bos_token_id=1, eos_token_id=2, partial_rotary_factor=0.75, rope_parameters=rope,
        original_max_position_embeddings=20, tie_word_embeddings=True, **{**decoder_sizes(tokens), "num_attention_heads": 2}))  # fmt: skip


def gemma2(tokens):
    """Windows in every other layer; scores divided by another number than the heads' width, and capped where they are not yet
    large, as those of the vocabulary are."""
    return transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
        num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=20, sliding_window=10, attn_logit_softcapping=2.0,
        final_logit_softcapping=2.0, attn_implementation="eager", **{**decoder_sizes(tokens), "num_hidden_layers": 4}))  # fmt: skip


def eurobert(tokens):
    """Two heads a key head, which are wider together than the model, and biases of the feed-forward part."""
    return transformers.EuroBertForMaskedLM(transformers.EuroBertConfig(
        num_key_value_heads=2, head_dim=12, mlp_bias=True, pad_token_id=0, bos_token_id=1, eos_token_id=2, mask_token_id=3,
        rope_parameters={"rope_type": "default", "rope_theta": 2500.0}, **decoder_sizes(tokens)))  # fmt: skip


def nomic(tokens):
    s = SIZES
    return transformers.NomicBertForMaskedLM(transformers.NomicBertConfig(
        vocab_size=tokens, hidden_size=s["hidden"], num_hidden_layers=3, num_attention_heads=s["heads"], intermediate_size=48,
        max_position_embeddings=s["positions"]))  # fmt: skip


def gemma3(tokens):
    """Windows by angles of their own in all layers but one, of which the angles are slowed; scores divided by another
    number than the heads' width."""
    rope = {"sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
            "full_attention": {"rope_type": "linear", "rope_theta": 5000.0, "factor": 2.0}}  # fmt: skip
    sizes = {**decoder_sizes(tokens), "num_hidden_layers": 4}
    return transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(
        num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=20, sliding_window=10, rope_parameters=rope,
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
        attn_implementation="eager", **sizes))  # fmt: skip
