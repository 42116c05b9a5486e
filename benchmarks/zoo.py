"""The models that are measured: real architectures at their real sizes, with random weights."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import transformers
from torch import Tensor, nn

from benchmarks.mobilenet import MobileNetV3
from benchmarks.unet import UNet

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
from models import PIXELS, TOKENS, WORKLOADS, Workload  # noqa: E402 - the examples are not a package
from models import tensors as tensors  # noqa: E402

Built = tuple[nn.Module, dict[str, Tensor]]


def llama(tokens: int) -> Built:
    """110 million parameters in the shape of a Llama."""
    config = transformers.LlamaConfig(
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        vocab_size=32000,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(config).eval(), {"input_ids": torch.randint(config.vocab_size, (1, tokens))}


def t5() -> Built:
    config = transformers.T5Config(
        d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, use_cache=False, vocab_size=32128
    )
    source, target = torch.randint(config.vocab_size, (1, TOKENS)), torch.randint(config.vocab_size, (1, 32))
    return transformers.T5ForConditionalGeneration(config).eval(), {"input_ids": source, "decoder_input_ids": target}


def mobilenet() -> Built:
    return MobileNetV3().eval(), {"pixels": torch.randn(1, 3, PIXELS, PIXELS)}


class WhisperEncoder(nn.Module):
    """The encoder alone, giving its last hidden states."""

    def __init__(self, config: transformers.WhisperConfig) -> None:
        super().__init__()
        self.encoder = transformers.WhisperModel(config).get_encoder()

    def forward(self, input_features: Tensor) -> Tensor:
        return self.encoder(input_features).last_hidden_state


def whisper() -> Built:
    config = transformers.WhisperConfig(
        d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536, decoder_layers=1
    )
    return WhisperEncoder(config).eval(), {"input_features": torch.randn(1, 80, 3000)}


def electra() -> Built:
    config = transformers.ElectraConfig()
    return transformers.ElectraModel(config).eval(), {"input_ids": torch.randint(config.vocab_size, (1, TOKENS))}


def unet() -> Built:
    return UNet().eval(), {"image": torch.randn(1, 3, 32, 32), "time": torch.tensor([100])}


class LanguageLSTM(nn.Module):
    """The medium one of "Recurrent Neural Network Regularization" (Zaremba et al., 2014), without its dropout."""

    def __init__(self, vocabulary: int = 10_000, width: int = 650) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, text: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.table(text))
        return self.head(hidden)


def lstm() -> Built:
    return LanguageLSTM().eval(), {"text": torch.randint(10_000, (1, TOKENS))}


MODELS = (
    *WORKLOADS,
    Workload("llama", "Llama 110M, 128 tokens", lambda: llama(TOKENS)),
    Workload("llama1", "Llama 110M, 1 token", lambda: llama(1)),
    Workload("t5", "T5-small", t5),
    Workload("mobilenet", "MobileNetV3-large", mobilenet),
    Workload("whisper", "Whisper-tiny encoder", whisper),
    Workload("electra", "ELECTRA-small", electra),
    Workload("unet", "DDPM UNet, 32 x 32", unet),
    Workload("lstm", "LSTM 2 x 650", lstm),
)
