"""Text models of other shapes: encoder with decoder, mixture of experts, state space."""

from __future__ import annotations

from .row import VOCABULARY, heard_speech, tokens, transformer, translation, warmed
from .sizes import BART, EXPERTS, SHORT, SHORT_GROUPED, SIZES, T5, WHISPER

ENCODER_DECODERS = (
    transformer("t5", "encoder-decoder", "T5Model", translation(), **T5),
    transformer("t5-lm", "encoder-decoder", "T5ForConditionalGeneration", translation(), **T5),
    transformer("mt5", "encoder-decoder", "MT5Model", translation(), **T5),
    transformer("longt5", "encoder-decoder", "LongT5Model", translation(), **T5, local_radius=4),
    transformer("bart", "encoder-decoder", "BartModel", translation(), **BART),
    transformer("mbart", "encoder-decoder", "MBartModel", translation(), **BART),
    transformer("pegasus", "encoder-decoder", "PegasusModel", translation(), **BART),
    transformer("marian", "encoder-decoder", "MarianModel", translation(), **BART),
    transformer("blenderbot", "encoder-decoder", "BlenderbotModel", translation(), **BART),
    transformer("m2m-100", "encoder-decoder", "M2M100Model", translation(), **BART),
    transformer("whisper", "encoder-decoder", "WhisperModel", heard_speech(frames=40), **WHISPER),
)

EXPERT_MIXTURES = (
    transformer(
        "mixtral", "experts", "MixtralModel", tokens(), **SHORT_GROUPED, num_local_experts=4, num_experts_per_tok=2
    ),
    transformer("qwen2-moe", "experts", "Qwen2MoeModel", tokens(), **EXPERTS, shared_expert_intermediate_size=32),
    transformer("qwen3-moe", "experts", "Qwen3MoeModel", tokens(), **EXPERTS, head_dim=8),
    transformer("olmoe", "experts", "OlmoeModel", tokens(), **SHORT_GROUPED, num_experts=4, num_experts_per_tok=2),
    transformer(
        "phimoe", "experts", "PhimoeModel", tokens(), **SHORT_GROUPED, num_local_experts=4, num_experts_per_tok=2
    ),
    transformer(
        "granite-moe",
        "experts",
        "GraniteMoeModel",
        tokens(),
        **SHORT_GROUPED,
        num_local_experts=4,
        num_experts_per_tok=2,
    ),
    transformer(
        "gpt-oss",
        "experts",
        "GptOssModel",
        tokens(),
        **SHORT_GROUPED,
        num_local_experts=4,
        num_experts_per_tok=2,
        head_dim=8,
        sliding_window=4,
    ),
    transformer(
        "deepseek-v3",
        "experts",
        "DeepseekV3Model",
        tokens(),
        **SHORT,
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        n_group=2,
        topk_group=1,
        first_k_dense_replace=1,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=8,
        num_key_value_heads=4,
    ),
)

STATE_SPACES = (
    transformer(
        "mamba",
        "state space",
        "MambaModel",
        tokens(),
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        state_size=8,
    ),
    transformer(
        "mamba2",
        "state space",
        "Mamba2Model",
        tokens(),
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        state_size=8,
        num_heads=8,
        head_dim=8,
        n_groups=1,
        chunk_size=4,
    ),
    transformer(
        "falcon-mamba",
        "state space",
        "FalconMambaModel",
        tokens(),
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        state_size=8,
    ),
    transformer(
        "recurrent-gemma",
        "state space",
        "RecurrentGemmaModel",
        tokens(),
        **SIZES,
        lru_width=32,
        attention_window_size=8,
        block_types=["recurrent", "attention"],
    ),
    warmed(
        transformer(
            "rwkv",
            "state space",
            "RwkvModel",
            tokens(),
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            attention_hidden_size=32,
            intermediate_size=64,
            context_length=64,
        )
    ),
    transformer(
        "bamba",
        "state space",
        "BambaModel",
        tokens(),
        **SHORT_GROUPED,
        attn_layer_indices=[1],
        mamba_n_heads=8,
        mamba_d_head=8,
        mamba_n_groups=1,
        mamba_d_state=8,
        mamba_chunk_size=4,
    ),
)
