# Looking at whether a view is a leaf made its history: then requires_grad_ refused it, or autograd refused to tell.
import marshal

import torch

LOG = []


def f(x, y, z):
    with torch.no_grad():
        view = z.view(4)
        z[:2] += 1
        marshal.dumps(0)
        try:
            LOG.append(torch.where(z > 0.5, z, view))
            LOG.append((view.requires_grad, view.is_leaf))
        except RuntimeError as error:
            LOG.append(type(error))
    try:
        LOG.append(view * 2)
    except RuntimeError as error:
        LOG.append(type(error))
    y[0] = x[1]
    with torch.inference_mode():
        y.requires_grad_(False)
    return z**2


def call_0():
    return torch.rand(4).requires_grad_(), torch.rand(8)[None], torch.rand(4).requires_grad_()


def call_1():
    return torch.rand(4), torch.rand(8)[None], torch.rand(4).requires_grad_() * 2


def call_2():
    x = torch.rand(4).requires_grad_()
    return x, torch.rand(8).view(2, 4), x
