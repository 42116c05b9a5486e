"""The models that are trained: real architectures at their real sizes, with random weights and small batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from benchmarks.zoo import PIXELS

TOKENS = 64
Built = tuple[nn.Module, dict[str, Tensor]]


@dataclass(frozen=True, slots=True)
class Learner:
    """A model in train mode that returns its loss, and one batch for it."""

    key: str
    name: str
    build: Callable[[], Built]


class Loss(nn.Module):
    """A model of transformers, returning the loss alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: Tensor) -> Tensor:
        return self.model(**inputs).loss


def tokens(vocabulary: int, batch: int, length: int = TOKENS) -> Tensor:
    return torch.randint(vocabulary, (batch, length))


def language(model: nn.Module, batch: int = 1) -> Built:
    """A model of language, which predicts the next token of each, or the token itself."""
    ids = tokens(model.config.vocab_size, batch)
    return Loss(model), {"input_ids": ids, "labels": ids}


def bert() -> Built:
    return language(transformers.BertForMaskedLM(transformers.BertConfig()))


def gpt2() -> Built:
    return language(transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False)))


def t5() -> Built:
    config = transformers.T5Config(
        d_model=512,
        d_kv=64,
        d_ff=2048,
        num_layers=6,
        num_heads=8,
        use_cache=False,
        vocab_size=32128,
        decoder_start_token_id=0,
    )
    inputs = {"input_ids": tokens(config.vocab_size, 1, 128), "labels": tokens(config.vocab_size, 1)}
    return Loss(transformers.T5ForConditionalGeneration(config)), inputs


def mixture() -> Built:
    config = transformers.MixtralConfig(
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        num_local_experts=4,
        vocab_size=8000,
        use_cache=False,
    )
    return language(transformers.MixtralForCausalLM(config))


def images(model: nn.Module, batch: int) -> Built:
    inputs = {"pixel_values": torch.randn(batch, 3, PIXELS, PIXELS), "labels": torch.randint(1000, (batch,))}
    return Loss(model), inputs


def vit() -> Built:
    return images(transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000)), 1)


def resnet() -> Built:
    return images(transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=1000)), 2)


class Characters(nn.Module):
    """Two layers of LSTM that predict the next character."""

    def __init__(self, vocabulary: int = 96, width: int = 256) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, text: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.table(text[:, :-1]))
        return F.cross_entropy(self.head(hidden).flatten(0, 1), text[:, 1:].flatten())


def lstm() -> Built:
    return Characters(), {"text": tokens(96, 16, 33)}


class Classifier(nn.Module):
    """Four layers of 512."""

    def __init__(self, width: int = 512, classes: int = 10) -> None:
        super().__init__()
        layers = [layer for _ in range(3) for layer in (nn.Linear(width, width), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(width, classes))

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.layers(x), labels)


def mlp() -> Built:
    return Classifier(), {"x": torch.randn(64, 512), "labels": torch.randint(10, (64,))}


LEARNERS = (
    Learner("mlp", "MLP 4 x 512, batch 64", mlp),
    Learner("lstm", "LSTM 2 x 256, batch 16", lstm),
    Learner("mixture", "Mixtral, 4 layers of 512", mixture),
    Learner("t5", "T5-small", t5),
    Learner("gpt2", "GPT-2 small", gpt2),
    Learner("bert", "BERT-base", bert),
    Learner("vit", "ViT-base", vit),
    Learner("resnet", "ResNet-50, batch 2", resnet),
)


def built(learner: Learner) -> Built:
    torch.manual_seed(0)
    model, inputs = learner.build()
    return model.train(), inputs
