"""Weights of a batch, which follow the losses that they are multiplied with to their device."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map


class SampleWeights(torch.Tensor):
    """A tensor that is moved to the device of the other operand. Every result is an ordinary tensor."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = (args, kwargs or {})
        others = [v for v in tree_leaves(given) if isinstance(v, torch.Tensor) and not isinstance(v, cls)]
        device = next((other.device for other in others if other.dim()), None)

        def plain(value: Any) -> Any:
            if not isinstance(value, cls):
                return value
            with torch._C.DisableTorchFunctionSubclass():
                tensor = value.as_subclass(torch.Tensor)
                return tensor if device is None else tensor.to(device)

        args, kwargs = tree_map(plain, given)
        return func(*args, **kwargs)


def sample_weights(weights: torch.Tensor) -> torch.Tensor:
    """These weights as a tensor that follows the losses."""
    return weights.as_subclass(SampleWeights)
