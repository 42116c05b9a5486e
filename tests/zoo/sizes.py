"""The small sizes that configurations share, under the names that transformers spells alike."""

from __future__ import annotations

from .row import VOCABULARY

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {**SIZES, "num_key_value_heads": 2}
SHORT = {**SIZES, "max_position_embeddings": 64}
SHORT_GROUPED = {**GROUPED, "max_position_embeddings": 64}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
EXPERTS = {**SHORT_GROUPED, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
BART = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 2,
    **SPECIAL,
}
T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
PATCHES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
STAGES = {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]}
WAVEFORM = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 32,
    "conv_dim": (16, 16),
    "conv_stride": (4, 2),
    "conv_kernel": (8, 4),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
WHISPER = {
    "vocab_size": VOCABULARY,
    "num_mel_bins": 16,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_source_positions": 20,
    "max_target_positions": 32,
    "decoder_start_token_id": 1,
    **SPECIAL,
}
TEXT_TOWER = {**SHORT, "projection_dim": 16}
VISION_TOWER = {**PATCHES, "projection_dim": 16}
