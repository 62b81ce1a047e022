"""Selective backpropagation: of each batch, train on the samples that still teach something."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import torch


class Selection(NamedTuple):
    """What of a batch to train on."""

    indices: torch.Tensor
    """Places in the batch."""
    weights: torch.Tensor
    """1 / (B · p) for each, so that the sum of weighted losses is an unbiased estimate of the batch's mean loss."""


class SelectiveBackprop:
    """Chooses the samples of a batch by their loss: with probability percentile(loss) ** beta, at least `floor`.

        select = SelectiveBackprop(beta=1.0)
        with torch.no_grad():
            losses = criterion(model(images), targets)          # one for each sample
        chosen = select(losses)
        loss = (criterion(model(images[chosen.indices]), targets[chosen.indices]) * chosen.weights).sum()

    The percentile is among the last `history` losses. A loss that is no number is always chosen and not remembered: the
    training loop should see it. With `generator` the choice is repeatable.
    """

    def __init__(
        self, beta: float = 1.0, floor: float = 0.05, history: int = 4096, generator: torch.Generator | None = None
    ) -> None:
        if not (beta >= 0 and 0 < floor <= 1 and history > 0):
            raise ValueError("beta must be at least 0, floor above 0 and at most 1, and history above 0")
        self.beta, self.floor, self.generator = beta, floor, generator
        self._history: deque[float] = deque(maxlen=history)

    def __call__(self, losses: torch.Tensor) -> Selection:
        flat = losses.detach().reshape(-1).float().cpu()
        chances = self.chances(flat)
        drawn = torch.rand(len(flat), generator=self.generator) < chances
        self._history.extend(flat[torch.isfinite(flat)].tolist())
        indices = drawn.nonzero().reshape(-1)
        weights = 1.0 / (len(flat) * chances[indices])
        return Selection(indices.to(losses.device), weights.to(losses.device))

    def chances(self, losses: torch.Tensor) -> torch.Tensor:
        """The probability with which each is chosen."""
        if not self._history:
            return torch.ones(len(losses))
        known = torch.tensor(sorted(self._history))
        below = torch.searchsorted(known, losses.contiguous(), right=True).float() / len(known)
        chances = below.pow(self.beta).clamp(min=self.floor, max=1.0)
        return torch.where(torch.isfinite(losses), chances, torch.ones_like(chances))

    def state_dict(self) -> dict[str, Any]:
        """What to keep for a resume."""
        return {"history": list(self._history)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from there."""
        self._history.clear()
        self._history.extend(state["history"])
