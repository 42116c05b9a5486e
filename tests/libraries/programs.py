"""Programs that use a library which calls `torch.compile` itself. Each is run twice: as eager, and with it asked for.

A program is a function of whether to compile; its result is the tensors or numbers to compare. One more library is one
more decorated function.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Use:
    """A library by the name that it is imported by, what is asked of it, and the program."""

    library: str
    what: str
    run: Callable[[bool], Any]


USES: list[Use] = []


def use(library: str, what: str) -> Callable[[Callable[[bool], Any]], Callable[[bool], Any]]:
    def register(run: Callable[[bool], Any]) -> Callable[[bool], Any]:
        USES.append(Use(library, what, run))
        return run

    return register


def language_model() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=64, max_position_embeddings=128, **sizes))


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))


def rows() -> torch.Tensor:
    return torch.randn(32, 4, generator=torch.Generator().manual_seed(1))


@use("transformers", "generate with a static cache and a compile_config")
def generation(compiled: bool) -> Any:
    from transformers import CompileConfig

    how = CompileConfig(fullgraph=False, dynamic=False)
    how._compile_all_devices = True
    ids = torch.randint(0, 64, (1, 5), generator=torch.Generator().manual_seed(1))
    asked = {"max_new_tokens": 12, "do_sample": False, "cache_implementation": "static"}
    return language_model().eval().generate(ids, compile_config=how, disable_compile=not compiled, **asked)


@use("accelerate", "Trainer with torch_compile=True")
def trainer(compiled: bool) -> Any:
    from transformers import Trainer, TrainingArguments

    tokens = torch.randint(0, 64, (16, 16), generator=torch.Generator().manual_seed(1))
    quiet = {"report_to": [], "disable_tqdm": True, "logging_steps": 1, "save_strategy": "no", "use_cpu": True}
    with tempfile.TemporaryDirectory() as folder:
        how = TrainingArguments(
            folder, max_steps=4, per_device_train_batch_size=4, seed=3, torch_compile=compiled, **quiet
        )
        made = Trainer(language_model(), how, train_dataset=[{"input_ids": row, "labels": row} for row in tokens])
        made.train()
    return [entry["loss"] for entry in made.state.log_history if "loss" in entry]


@use("accelerate", "Accelerator with dynamo_backend='inductor'")
def accelerator(compiled: bool) -> Any:
    from accelerate import Accelerator

    made = Accelerator(cpu=True, dynamo_backend="inductor" if compiled else "no")
    model = network()
    model, optimizer = made.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
    losses = []
    for _ in range(3):
        loss = model(rows()).square().mean()
        made.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@use("lightning", "Trainer with a compiled module")
def lightning(compiled: bool) -> Any:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.network(x)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return self(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    module = Module()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    made = lightning.Trainer(max_epochs=2, accelerator="cpu", enable_model_summary=False, **quiet)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows()), 8)
    made.fit(torch.compile(module) if compiled else module, data)
    return [parameter.detach().clone() for parameter in module.parameters()]


@use("lightning", "Fabric with a compiled module")
def fabric(compiled: bool) -> Any:
    import lightning

    made = lightning.Fabric(accelerator="cpu", devices=1)
    model = network()
    model, optimizer = made.setup(torch.compile(model) if compiled else model, torch.optim.SGD(model.parameters(), 0.1))
    losses = []
    for _ in range(3):
        loss = model(rows()).square().mean()
        made.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@use("diffusers", "a compiled UNet in a loop over time steps")
def diffusion(compiled: bool) -> Any:
    from diffusers import UNet2DModel

    torch.manual_seed(0)
    kinds = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
    sizes = {"block_out_channels": (8, 16), "norm_num_groups": 4, "attention_head_dim": 4, "layers_per_block": 1}
    model = UNet2DModel(sample_size=8, in_channels=1, out_channels=1, **sizes, **kinds).eval()
    model = torch.compile(model) if compiled else model
    x = torch.randn(1, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for step in range(3, 0, -1):
            x = x - 0.1 * model(x, torch.tensor(step)).sample
    return x


@use("diffusers", "compile_repeated_blocks of a transformer")
def repeated_blocks(compiled: bool) -> Any:
    from diffusers import FluxTransformer2DModel

    torch.manual_seed(0)
    sizes = {"num_layers": 1, "num_single_layers": 2, "attention_head_dim": 8, "num_attention_heads": 2}
    model = FluxTransformer2DModel(
        in_channels=4, joint_attention_dim=8, pooled_projection_dim=8, axes_dims_rope=(2, 2, 4), **sizes
    ).eval()
    if compiled:
        model.compile_repeated_blocks(fullgraph=True)
    random = torch.Generator().manual_seed(1)
    tokens, text = torch.randn(1, 16, 4, generator=random), torch.randn(1, 3, 8, generator=random)
    places = {"img_ids": torch.zeros(16, 3), "txt_ids": torch.zeros(3, 3)}
    with torch.no_grad():
        return model(tokens, text, torch.ones(1, 8), torch.tensor([0.5]), return_dict=False, **places)


@use("sentence_transformers", "SentenceTransformer.compile, and encode")
def sentences(compiled: bool) -> Any:
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "small", "graph", "of", "one", "program"]
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "vocab.txt").write_text("\n".join(words))
        BertTokenizerFast(f"{folder}/vocab.txt").save_pretrained(folder)
        BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=32, **sizes)).save_pretrained(folder)
        made = SentenceTransformer(modules=[models.Transformer(folder), models.Pooling(16)], device="cpu")
    if compiled:
        made.compile()
    return made.encode(["a small graph", "one program of a graph", "small"], convert_to_tensor=True)


@use("torchao", "a compiled network with weights of 8 bits")
def quantized(compiled: bool) -> Any:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = network().eval()
    quantize_(model, Int8WeightOnlyConfig())
    model = torch.compile(model) if compiled else model
    with torch.no_grad():
        return model(rows())


warnings.simplefilter("ignore")
