"""The table of models. One more model is one more row of one of the tables that it joins."""

from __future__ import annotations

from .mixed import ENCODER_DECODERS, EXPERT_MIXTURES, STATE_SPACES
from .row import Model
from .senses import AUDIO, MULTIMODAL, TORCH, VISION
from .text import DECODERS, ENCODERS
from .unusual import UNUSUAL

MODELS: tuple[Model, ...] = (
    *DECODERS,
    *ENCODERS,
    *ENCODER_DECODERS,
    *EXPERT_MIXTURES,
    *STATE_SPACES,
    *UNUSUAL,
    *VISION,
    *AUDIO,
    *MULTIMODAL,
    *TORCH,
)
