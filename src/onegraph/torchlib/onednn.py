"""What the library oneDNN can do on this processor."""

from __future__ import annotations

import torch

_KNOWN = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}


def multiplies(dtype: torch.dtype) -> bool:
    """Whether the processor has instructions for products of elements of this type, and oneDNN takes them."""
    return dtype is torch.float32 or (dtype in _KNOWN and bool(getattr(torch.ops.mkldnn, _KNOWN[dtype])()))
