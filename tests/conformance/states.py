"""Programs that have changed the state of torch where the graph breaks."""

from __future__ import annotations

from textwrap import dedent

STATES: dict[str, str] = {}


def state(name: str, source: str) -> None:
    STATES[name] = dedent(source).strip() + "\n"


for _context in (
    "torch.no_grad()",
    "torch.set_grad_enabled(False)",
    "torch.autocast('cpu', torch.bfloat16)",
    "torch.inference_mode()",
):
    state(
        f"in_{_context}",
        f"""
        def f(x, log):
            x.requires_grad_()
            y = x * 2
            with {_context}:
                z = y @ y.unsqueeze(1)
                BREAK
                w = z + y @ y.unsqueeze(1)
                log.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), str(w.dtype), w.requires_grad))
            u = y @ y.unsqueeze(1)
            return w.detach(), u.detach(), u.dtype, u.requires_grad
        """,
    )
    state(
        f"raised_in_{_context}",
        f"""
        def f(x, log):
            y = x * 2
            try:
                with {_context}:
                    z = y @ y.unsqueeze(1)
                    BREAK
                    w = z + y @ y.unsqueeze(1)
                    log.append(str(w.dtype))
                    raise ValueError("inside")
            except ValueError:
                log.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
            return y @ y.unsqueeze(1)
        """,
    )
state(
    "nested_contexts",
    """
    def f(x, log):
        with torch.no_grad():
            y = x * 2
            with torch.autocast("cpu", torch.bfloat16):
                z = y @ y.unsqueeze(1)
                with torch.enable_grad():
                    BREAK
                    log.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
                    z = z + y @ y.unsqueeze(1)
                log.append((torch.is_grad_enabled(), str(z.dtype)))
        return z, y @ y.unsqueeze(1)
    """,
)
state(
    "autocast_left_in_a_called_function",
    """
    def body(x):
        y = x @ x.unsqueeze(1)
        BREAK
        return y + x @ x.unsqueeze(1)

    def f(x, log):
        with torch.autocast("cpu", torch.bfloat16):
            y = body(x * 2)
        log.append(str(y.dtype))
        return y, x @ x.unsqueeze(1)
    """,
)
state(
    "default_dtype",
    """
    def f(x, log):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            y = torch.ones(2) + x[:2]
            BREAK
            z = torch.ones(2) * y
        finally:
            torch.set_default_dtype(before)
        return y, z, torch.ones(1)
    """,
)
state(
    "deterministic",
    """
    def f(x, log):
        torch.use_deterministic_algorithms(True)
        y = x + 1
        BREAK
        log.append(torch.are_deterministic_algorithms_enabled())
        torch.use_deterministic_algorithms(False)
        return y * 2
    """,
)
state(
    "grad_mode_switched",
    """
    def f(x, log):
        torch.set_grad_enabled(False)
        y = x + 1
        BREAK
        log.append(torch.is_grad_enabled())
        torch.set_grad_enabled(True)
        return y * 2
    """,
)
