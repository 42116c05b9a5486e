"""Graph breaks because a function asks for gradients, or changes how they are computed."""

from __future__ import annotations

from onegraph.capture.breaks.reason import theme as _theme

_define = _theme("Gradients")

BACKWARD_CALL = _define(
    "backward-call",
    "call of {name} {why}",
    "The graph differentiates what it has computed itself, and adds to the gradients of leaves that no hook looks at.",
    "return the loss, and call backward() behind the compiled function",
)
GRADIENT_CALL = _define(
    "gradient-call",
    "call of {name} {why}",
    "The graph differentiates what it has computed itself, with respect to leaves that no hook looks at.",
    "return the outputs, and take the gradient behind the compiled function",
)
FUNCTION_TRANSFORM = _define(
    "function-transform",
    "call of {name}, which transforms a function",
    "torch.autograd.functional, and torch.func.linearize where gradients are recorded, are not captured.",
    "use a transform of torch.func that is captured: grad, vjp, jvp, jacrev, jacfwd, hessian",
    "apply the transformation outside, and compile what is done with its result",
)
TENSOR_HOOK = _define(
    "tensor-hook",
    "call of {name} {why}",
    "The graph gives the tensor, and the hook is registered on it behind the graph: backward passes run both as eager"
    " does. That must be the tensor of which the program has said it.",
    "register the hook behind the last write to the tensor",
    "register the hook outside of the compiled function, on its input or result",
)
MODULE_BACKWARD_HOOK = _define(
    "module-backward-hook",
    "a module with backward hooks {why}",
    "The hooks of a module become a hook of its input and one of its output, which must be a single tensor.",
    "register the hooks on a module that is outside of the compiled function",
)
SAVED_TENSOR_HOOKS = _define(
    "saved-tensor-hooks",
    "use of {name}, which changes what autograd saves",
    "The compiled graph decides by itself what it keeps for the backward pass.",
    "use the context outside, and compile what is in front of and behind it",
)
CHECKPOINT = _define(
    "activation-checkpoint",
    "call of {name} {why}",
    "A checkpoint in the graph records gradients of all that its function uses, and computes it again with the same"
    " numbers.",
    "pass use_reentrant=False, and no debug, and preserve_rng_state as it is",
    "apply the checkpoint around the compiled function, with use_reentrant=True",
)
REQUIRES_GRAD = _define(
    "requires-grad-change",
    "call of {name}, which tells autograd what to record",
    "Autograd records outside of the graph, and must know before the graph runs.",
    "call it outside of the compiled function",
)
CUSTOM_FUNCTION = _define(
    "custom-autograd-function",
    "call of {name}, {why}",
    "The backward of a custom function is captured where it does nothing but compute gradients.",
    "let backward compute gradients only, from what forward has saved",
    "call the function under torch.no_grad() where no gradient is needed: it is captured there",
)
SHARED_HISTORY = _define(
    "shared-history",
    "a write after which gradients are recorded for {name}, which shares its memory with another input",
    "The other input gets a history too if both are views of one tensor, which only the real tensors can tell.",
    "write under torch.no_grad(), or write what is detached, if no gradient is needed",
    "make a new tensor: y = x * w instead of x.mul_(w)",
)
