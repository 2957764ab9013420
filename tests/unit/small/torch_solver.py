"""The native core's Runge-Kutta solver once more, over torch operators: what the native one is compared with."""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch

from hotlap.small.solve import SolveFailed
from hotlap.small.solve_settings import fixed_times, read_settings
from hotlap.small.tableau import METHODS, Tableau

Field = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def odeint(
    func: Any,
    y0: torch.Tensor,
    t: torch.Tensor,
    *,
    rtol: float,
    atol: float,
    method: str,
    options: Mapping[str, Any] | None = None,
) -> torch.Tensor:
    """As `hotlap.small.odeint`. Differentiable, step sizes being constants."""
    settings = read_settings(method, rtol, atol, options)
    sign = -1.0 if t[1] < t[0] else 1.0
    solver = _Solver(
        lambda now, y: sign * func(sign * now, y),
        METHODS[settings.method],
        {**settings.control, "rtol": rtol, "atol": atol},
    )
    grid = fixed_times(sign * t, settings)

    return solver.adaptive(y0, sign * t) if grid is None else solver.fixed(y0, sign * t, grid)


class _Solver:
    """One solve: its method and its control."""

    def __init__(self, field: Field, tableau: Tableau, control: dict[str, Any]) -> None:
        self.field = field
        self.tableau = tableau
        self.control = control

    def stages(
        self, y: torch.Tensor, k1: torch.Tensor, t: torch.Tensor, h: torch.Tensor
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The end of a step, and the slopes of its stages."""
        k = [k1]
        step = h.to(y.dtype)
        arrived = y
        for row, c in zip(self.tableau.a[1:], self.tableau.c[1:], strict=True):
            arrived = y + step * _weighted(row, k)
            k.append(self.field((t + c * h).to(y.dtype), arrived))
        return arrived, k

    def between(self, y: torch.Tensor, k: list[torch.Tensor], h: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
        """The polynomial of a step at `theta` in [0, 1]."""
        powers = [theta ** (p + 1) for p in range(len(self.tableau.dense[0]))]
        total = y
        for row, slope in zip(self.tableau.dense, k, strict=True):
            weight = sum(c * power for c, power in zip(row, powers, strict=True))
            total = total + (h * weight).to(y.dtype) * slope
        return total

    def fixed(self, y: torch.Tensor, t: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        """Steps between the times of `grid`."""
        out = [y]
        for start, end in pairwise(grid):
            h = end - start
            arrived, k = self.stages(y, self.field(start.to(y.dtype), y), start, h)
            while len(out) < len(t) and end >= t[len(out)]:
                out.append(self.between(y, k, h, (t[len(out)] - start) / h))
            y = arrived
        if not bool(torch.isfinite(y).all()):
            raise SolveFailed(f"the state is not finite at t = {float(grid[-1]):.6g}.")
        return torch.stack(out)

    def adaptive(self, y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Steps of the solver's own choice, past the last time."""
        c = self.control
        now, out = t[0].double(), [y]
        slope = self.field(now.to(y.dtype), y)
        h = c["first_step"] or self.first_step(y, slope, now)
        tries = 0
        while len(out) < len(t):
            h = self.checked(h, float(now), tries)
            tries += 1
            size = torch.tensor(h, dtype=torch.float64)
            arrived, k = self.stages(y, slope, now, size)
            error = self.error(y.detach(), arrived.detach(), k, h)
            if math.isnan(error):
                raise SolveFailed(f"the state or its slope is not finite at t = {float(now):.6g}, step size {h:.6g}.")
            accepted = h <= c["min_step"] or error <= 1
            if accepted:
                end = now + size
                while len(out) < len(t) and t[len(out)] <= end:
                    out.append(self.between(y, k, size, (t[len(out)] - now) / size))
                    tries = 0
                y, slope, now = arrived, k[-1], end
            h *= self.factor(error)
        return torch.stack(out)

    def checked(self, h: float, now: float, tries: int) -> float:
        """The step size within its limits."""
        where = f"at t = {now:.6g}, step size {h:.6g}."
        if not math.isfinite(h):
            raise SolveFailed(f"the state or its slope is not finite {where}")
        h = min(max(h, self.control["min_step"]), self.control["max_step"])
        if not now + h > now:
            raise SolveFailed(
                f"the step size has become too small: the problem is stiff, or the tolerance too tight {where}"
            )
        if tries >= self.control["max_num_steps"]:
            raise SolveFailed(f"more than max_num_steps steps {where}")
        return h

    def norm(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> float:
        """Root mean square of x in units of the tolerance."""
        scale = self.control["atol"] + self.control["rtol"] * torch.maximum(y.abs(), z.abs())
        return float((x / scale).square().mean().sqrt())

    def error(self, y: torch.Tensor, arrived: torch.Tensor, k: list[torch.Tensor], h: float) -> float:
        """The estimated error of a step in units of the tolerance."""
        assert self.tableau.e is not None
        with torch.no_grad():
            return self.norm(h * _weighted(self.tableau.e, k), y, arrived)

    def first_step(self, y: torch.Tensor, slope: torch.Tensor, now: torch.Tensor) -> float:
        """Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section II.4."""
        with torch.no_grad():
            d0, d1 = self.norm(y, y, y), self.norm(slope, y, y)
            h0 = 1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1
            arrived = self.field((now + h0).to(y.dtype), y + h0 * slope)
            d2 = self.norm(arrived - slope, y, y) / h0
        flat = d1 <= 1e-15 and d2 <= 1e-15
        h1 = max(1e-6, h0 * 1e-3) if flat else (0.01 / max(d1, d2)) ** (1 / self.tableau.order)
        return min(100 * h0, h1)

    def factor(self, error: float) -> float:
        """What the next step is longer by."""
        c, order = self.control, self.tableau.order
        if error == 0:
            return float(c["ifactor"])
        return float(min(c["ifactor"], max(c["safety"] / error ** (1 / order), 1 if error < 1 else c["dfactor"])))


def _weighted(weights: tuple[float, ...], k: list[torch.Tensor]) -> torch.Tensor:
    total = None
    for w, slope in zip(weights, k, strict=False):
        if w != 0:
            total = w * slope if total is None else total + w * slope
    assert total is not None
    return total
