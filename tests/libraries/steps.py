"""Programs of libraries that know nothing of compilers, for which `onegraph.compile` is the one line that is added.

A program is a function that makes everything anew from fixed seeds, and returns one step: a function without arguments,
which gives the tensors or numbers to compare. One more library is one more decorated function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Program:
    """A library by the name that it is imported by, what is asked of it, and what makes the step."""

    library: str
    what: str
    make: Callable[[], Callable[[], Any]]


PROGRAMS: list[Program] = []


def program(library: str, what: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def register(make: Callable[[], Any]) -> Callable[[], Any]:
        PROGRAMS.append(Program(library, what, make))
        return make

    return register


def drawn(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(1))


@program("gpytorch", "a step of training of an exact GP")
def exact_gp() -> Callable[[], Any]:
    import gpytorch

    class Model(gpytorch.models.ExactGP):
        def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = torch.linspace(0, 1, 64)
    y = torch.sin(6 * x) + 0.1 * drawn(64)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(x, y, likelihood).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    likelihood_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def step() -> Any:
        optimizer.zero_grad()
        loss = -likelihood_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


@program("pyro", "a step of SVI of a Bayesian regression")
def inference() -> Callable[[], Any]:
    import pyro
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoNormal

    pyro.clear_param_store()
    x, y = drawn(32, 3), drawn(32)

    def model(x: torch.Tensor, y: torch.Tensor) -> None:
        weight = pyro.sample("weight", dist.Normal(torch.zeros(3), 1.0).to_event(1))
        scale = pyro.sample("scale", dist.HalfNormal(1.0))
        with pyro.plate("rows", 32):
            pyro.sample("y", dist.Normal(x @ weight, scale), obs=y)

    inferred = SVI(model, AutoNormal(model), pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
    return lambda: inferred.step(x, y)


@program("torchrl", "PPO's loss and its gradients")
def policy_gradient() -> Callable[[], Any]:
    from tensordict import TensorDict
    from tensordict.nn import NormalParamExtractor, TensorDictModule
    from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import ClipPPOLoss

    network = torch.nn.Sequential(
        torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4), NormalParamExtractor()
    )
    module = TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"])
    keys = {"in_keys": ["loc", "scale"], "out_keys": ["action"]}
    actor = ProbabilisticActor(module, distribution_class=TanhNormal, return_log_prob=True, **keys)
    critic = ValueOperator(
        torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)), in_keys=["observation"]
    )
    loss_of = ClipPPOLoss(actor, critic)
    data = TensorDict({"observation": drawn(64, 4)}, batch_size=[64])
    with torch.no_grad():
        data = actor(data)
    data["advantage"], data["value_target"] = drawn(64, 1), drawn(64, 1)

    def step() -> Any:
        losses = loss_of(data)
        loss = losses["loss_objective"] + losses["loss_critic"]
        loss.backward()
        gradients = [parameter.grad.clone() for parameter in loss_of.parameters() if parameter.grad is not None]
        loss_of.zero_grad()
        return loss, gradients

    return step


@program("opacus", "a private step of training")
def private_training() -> Callable[[], Any]:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    network = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    model = GradSampleModule(network)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=32
    )
    x, y = drawn(32, 16), torch.randint(0, 4, (32,), generator=torch.Generator().manual_seed(2))

    def step() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def pictures() -> torch.Tensor:
    return drawn(4, 3, 32, 32).sigmoid()


@program("kornia", "augmentations of pictures")
def augmentations() -> Callable[[], Any]:
    import kornia.augmentation as augmentation

    steps = augmentation.AugmentationSequential(
        augmentation.RandomHorizontalFlip(p=0.5),
        augmentation.RandomAffine(15.0, p=1.0),
        augmentation.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0),
        augmentation.RandomErasing(p=0.5),
    )
    seen = pictures()
    return lambda: steps(seen)


@program("kornia", "filters of pictures")
def filters() -> Callable[[], Any]:
    import kornia

    seen = pictures()

    def step() -> Any:
        blurred = kornia.filters.gaussian_blur2d(seen, (5, 5), (1.5, 1.5))
        return kornia.filters.sobel(blurred), kornia.color.rgb_to_hsv(blurred)

    return step


@program("torchmetrics", "an accuracy and an F1 score, kept over batches")
def metrics() -> Callable[[], Any]:
    import torchmetrics

    kinds = {"task": "multiclass", "num_classes": 5}
    kept = torchmetrics.MetricCollection([torchmetrics.Accuracy(**kinds), torchmetrics.F1Score(**kinds)])
    scores, labels = drawn(64, 5), torch.randint(0, 5, (64,), generator=torch.Generator().manual_seed(2))

    def step() -> Any:
        kept.update(scores, labels)
        return kept.compute()

    return step


def detector() -> torch.nn.Module:
    from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

    kinds = {"weights": None, "weights_backbone": None, "num_classes": 5}
    return fasterrcnn_mobilenet_v3_large_320_fpn(box_score_thresh=0.0, box_detections_per_img=10, **kinds)


@program("torchvision", "Faster R-CNN looks at two pictures")
def detection() -> Callable[[], Any]:
    model = detector().eval()
    seen = [drawn(3, 96, 128).sigmoid(), drawn(3, 128, 96).sigmoid()]

    def step() -> Any:
        with torch.no_grad():
            return model(seen)

    return step


@program("torchvision", "a step of training of Faster R-CNN")
def detection_training() -> Callable[[], Any]:
    model = detector().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    seen = [drawn(3, 96, 128).sigmoid(), drawn(3, 128, 96).sigmoid()]
    boxes = torch.tensor([[10.0, 10.0, 60.0, 60.0], [20.0, 30.0, 90.0, 80.0]])
    targets = [{"boxes": boxes, "labels": torch.tensor([1, 3])}, {"boxes": boxes[:1], "labels": torch.tensor([2])}]

    def step() -> Any:
        optimizer.zero_grad()
        losses = model(seen, targets)
        sum(losses.values()).backward()
        optimizer.step()
        return losses

    return step
