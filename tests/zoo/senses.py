"""Vision, audio, several senses at once, and torch's own modules."""

from __future__ import annotations

from torch import nn

from .row import captioned_images, floats, images, module, positional, transformer, warmed
from .sizes import PATCHES, SHORT, SHORT_GROUPED, STAGES, TEXT_TOWER, VISION_TOWER, WAVEFORM, WHISPER

VISION = (
    transformer("vit", "vision", "ViTModel", images(), **PATCHES),
    transformer("deit", "vision", "DeiTModel", images(), **PATCHES),
    transformer("beit", "vision", "BeitModel", images(), **PATCHES, use_relative_position_bias=True),
    transformer("dinov2", "vision", "Dinov2Model", images(), **PATCHES),
    transformer("dinov3", "vision", "DINOv3ViTModel", images(), **PATCHES),
    transformer(
        "swin",
        "vision",
        "SwinModel",
        images(),
        image_size=32,
        patch_size=4,
        embed_dim=16,
        depths=[2, 1],
        num_heads=[2, 4],
        window_size=4,
    ),
    transformer(
        "swinv2",
        "vision",
        "Swinv2Model",
        images(),
        image_size=32,
        patch_size=4,
        embed_dim=16,
        depths=[2, 1],
        num_heads=[2, 4],
        window_size=4,
    ),
    transformer("convnext", "vision", "ConvNextModel", images(), hidden_sizes=[16, 32], depths=[1, 1], num_stages=2),
    transformer(
        "convnextv2", "vision", "ConvNextV2Model", images(), hidden_sizes=[16, 32], depths=[1, 1], num_stages=2
    ),
    transformer("resnet", "vision", "ResNetModel", images(), **STAGES, layer_type="basic"),
    transformer("regnet", "vision", "RegNetModel", images(), **STAGES, groups_width=8),
    transformer(
        "mobilenet-v2",
        "vision",
        "MobileNetV2Model",
        images(),
        depth_multiplier=0.25,
        min_depth=4,
        initializer_range=0.3,
    ),
    transformer(
        "efficientnet",
        "vision",
        "EfficientNetModel",
        images(),
        width_coefficient=0.25,
        depth_coefficient=0.1,
        initializer_range=0.3,
        hidden_dim=320,
    ),
    transformer(
        "segformer",
        "vision",
        "SegformerModel",
        images(),
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[16, 32],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[2, 4],
        mlp_ratios=[2, 2],
    ),
    transformer(
        "pvt",
        "vision",
        "PvtModel",
        images(),
        image_size=32,
        num_encoder_blocks=2,
        depths=[1, 1],
        sequence_reduction_ratios=[2, 1],
        hidden_sizes=[16, 32],
        patch_sizes=[4, 2],
        strides=[4, 2],
        num_attention_heads=[2, 4],
        mlp_ratios=[2, 2],
    ),
    transformer(
        "poolformer", "vision", "PoolFormerModel", images(), hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1]
    ),
    warmed(
        transformer(
            "levit",
            "vision",
            "LevitModel",
            images(64),
            image_size=64,
            hidden_sizes=[16, 32, 32],
            num_attention_heads=[2, 2, 2],
            depths=[1, 1, 1],
            key_dim=[8, 8, 8],
            initializer_range=0.3,
        )
    ),
    transformer(
        "mobilevit",
        "vision",
        "MobileViTModel",
        images(),
        image_size=32,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 64],
        num_attention_heads=2,
        initializer_range=0.3,
    ),
)

AUDIO = (
    transformer("wav2vec2", "audio", "Wav2Vec2Model", floats("input_values", 2, 800), **WAVEFORM),
    transformer("hubert", "audio", "HubertModel", floats("input_values", 2, 800), **WAVEFORM),
    transformer("wavlm", "audio", "WavLMModel", floats("input_values", 2, 800), **WAVEFORM),
    transformer(
        "ast",
        "audio",
        "ASTModel",
        floats("input_values", 2, 24, 16),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        patch_size=8,
        frequency_stride=4,
        time_stride=4,
        max_length=24,
        num_mel_bins=16,
    ),
    transformer("unispeech", "audio", "UniSpeechModel", floats("input_values", 2, 800), **WAVEFORM),
    transformer("data2vec-audio", "audio", "Data2VecAudioModel", floats("input_values", 2, 800), **WAVEFORM),
    transformer("sew", "audio", "SEWModel", floats("input_values", 2, 800), **WAVEFORM, squeeze_factor=2),
    transformer(
        "whisper-encoder", "audio", "WhisperForAudioClassification", floats("input_features", 2, 16, 40), **WHISPER
    ),
)

MULTIMODAL = (
    transformer(
        "clip",
        "multimodal",
        "CLIPModel",
        captioned_images(),
        text_config=TEXT_TOWER,
        vision_config=VISION_TOWER,
        projection_dim=16,
    ),
    transformer("siglip", "multimodal", "SiglipModel", captioned_images(), text_config=SHORT, vision_config=PATCHES),
    transformer(
        "blip",
        "multimodal",
        "BlipModel",
        captioned_images(),
        text_config=TEXT_TOWER,
        vision_config=VISION_TOWER,
        projection_dim=16,
    ),
    transformer(
        "altclip",
        "multimodal",
        "AltCLIPModel",
        captioned_images(),
        text_config={**TEXT_TOWER, "project_dim": 16},
        vision_config=VISION_TOWER,
        projection_dim=16,
    ),
    transformer(
        "chinese-clip",
        "multimodal",
        "ChineseCLIPModel",
        captioned_images(),
        text_config=TEXT_TOWER,
        vision_config=VISION_TOWER,
        projection_dim=16,
    ),
    transformer(
        "git",
        "multimodal",
        "GitModel",
        captioned_images(),
        **SHORT,
        vision_config=PATCHES,
    ),
    warmed(
        transformer(
            "llava",
            "multimodal",
            "LlavaModel",
            captioned_images(length=24, picture=3),
            text_config={**SHORT_GROUPED, "model_type": "llama"},
            vision_config={**PATCHES, "model_type": "clip_vision_model"},
            image_token_id=3,
            vision_feature_layer=-1,
        )
    ),
)

TORCH = (
    module("lstm", lambda: nn.LSTM(16, 32, 2, batch_first=True, bidirectional=True), positional((2, 7, 16))),
    module("gru", lambda: nn.GRU(16, 32, 2), positional((7, 2, 16))),
    module(
        "transformer-encoder",
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2),
        positional((2, 7, 32)),
    ),
    module(
        "transformer", lambda: nn.Transformer(32, 4, 2, 2, 64, batch_first=True), positional((2, 7, 32), (2, 5, 32))
    ),
    module(
        "multihead-attention",
        lambda: nn.MultiheadAttention(32, 4, batch_first=True),
        positional((2, 7, 32), (2, 7, 32), (2, 7, 32)),
    ),
)
