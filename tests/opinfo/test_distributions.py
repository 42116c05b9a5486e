"""The distributions of torch: what they draw, and what they compute of it, in compiled code and in eager mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributions as dist

import onegraph


def positive(*shape: int) -> torch.Tensor:
    return torch.rand(*shape) + 0.5


def normal() -> dist.Normal:
    return dist.Normal(torch.randn(3), positive(3))


DISTRIBUTIONS: dict[str, Callable[[], dist.Distribution]] = {
    "bernoulli": lambda: dist.Bernoulli(probs=torch.rand(3)),
    "beta": lambda: dist.Beta(positive(3), positive(3)),
    "binomial": lambda: dist.Binomial(10, torch.rand(3)),
    "categorical": lambda: dist.Categorical(logits=torch.randn(4, 3)),
    "cauchy": lambda: dist.Cauchy(torch.randn(3), positive(3)),
    "chi2": lambda: dist.Chi2(positive(3)),
    "continuous-bernoulli": lambda: dist.ContinuousBernoulli(torch.rand(3) / 4),
    "dirichlet": lambda: dist.Dirichlet(positive(2, 3)),
    "exponential": lambda: dist.Exponential(positive(3)),
    "f": lambda: dist.FisherSnedecor(positive(3), positive(3)),
    "gamma": lambda: dist.Gamma(positive(3), positive(3)),
    "geometric": lambda: dist.Geometric(torch.rand(3)),
    "gumbel": lambda: dist.Gumbel(torch.randn(3), positive(3)),
    "half-cauchy": lambda: dist.HalfCauchy(positive(3)),
    "half-normal": lambda: dist.HalfNormal(positive(3)),
    "independent": lambda: dist.Independent(normal(), 1),
    "inverse-gamma": lambda: dist.InverseGamma(positive(3), positive(3)),
    "kumaraswamy": lambda: dist.Kumaraswamy(positive(3), positive(3)),
    "laplace": lambda: dist.Laplace(torch.randn(3), positive(3)),
    "lkj": lambda: dist.LKJCholesky(3, 1.0),
    "log-normal": lambda: dist.LogNormal(torch.randn(3), positive(3)),
    "low-rank": lambda: dist.LowRankMultivariateNormal(torch.randn(3), torch.randn(3, 1), positive(3)),
    "mixture": lambda: dist.MixtureSameFamily(dist.Categorical(torch.rand(3)), normal()),
    "multinomial": lambda: dist.Multinomial(5, torch.rand(3)),
    "multivariate-normal": lambda: dist.MultivariateNormal(torch.randn(3), torch.eye(3)),
    "negative-binomial": lambda: dist.NegativeBinomial(5, torch.rand(3) / 2),
    "normal": normal,
    "one-hot": lambda: dist.OneHotCategorical(torch.rand(4, 3)),
    "pareto": lambda: dist.Pareto(positive(3), positive(3)),
    "poisson": lambda: dist.Poisson(positive(3)),
    "relaxed-bernoulli": lambda: dist.RelaxedBernoulli(torch.tensor(1.0), torch.rand(3)),
    "student-t": lambda: dist.StudentT(positive(3)),
    "transformed": lambda: dist.TransformedDistribution(
        normal(), [dist.SigmoidTransform(), dist.AffineTransform(1.0, 2.0)]
    ),
    "uniform": lambda: dist.Uniform(torch.randn(3) - 5, torch.randn(3) + 5),
    "von-mises": lambda: dist.VonMises(torch.randn(3), positive(3)),
    "weibull": lambda: dist.Weibull(positive(3), positive(3)),
    "wishart": lambda: dist.Wishart(torch.tensor([4.0]), torch.eye(3)),
}


def use(make: Callable[[], dist.Distribution]) -> list[torch.Tensor]:
    """Draws and densities, all with the random numbers that follow from one seed."""
    distribution = make()
    sample = distribution.sample()
    found = [sample, distribution.log_prob(sample)]
    for name in ("mean", "variance"):
        try:
            found.append(getattr(distribution, name))
        except NotImplementedError:
            pass
    if distribution.has_rsample:
        found.append(distribution.rsample(torch.Size([2])))
    return found


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution(name: str) -> None:
    """Without its checks of values, which break the graph: most are one graph then."""
    check(name, "native", False)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution_with_checks(name: str, backend: str) -> None:
    check(name, backend, True)


def check(name: str, backend: str, validate: bool) -> None:
    before = dist.Distribution._validate_args
    dist.Distribution.set_default_validate_args(validate)
    try:
        torch.manual_seed(7)
        expected = use(DISTRIBUTIONS[name])
        torch.manual_seed(7)
        found = onegraph.compile(use, backend=backend)(DISTRIBUTIONS[name])
    finally:
        dist.Distribution.set_default_validate_args(before)
    torch.testing.assert_close(found, expected, equal_nan=True)
