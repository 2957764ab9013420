"""The Runge-Kutta methods: name -> coefficients, with the polynomial between the ends of a step."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tableau:
    """An explicit method, whose last stage is the first of the next step: y1 = y0 + h sum a[-1] k.

    Between the ends of a step y(theta) = y0 + h sum_p theta^p sum_i dense[i][p - 1] k_i.
    """

    order: int
    a: tuple[tuple[float, ...], ...]
    """Row i has the i weights of the stages before stage i."""
    c: tuple[float, ...]
    e: tuple[float, ...] | None
    """Weights of the error estimate; None for a method without one, whose steps are fixed."""
    dense: tuple[tuple[float, ...], ...]

    @property
    def adaptive(self) -> bool:
        """Whether it chooses its own steps."""
        return self.e is not None


def _quartic(b: Sequence[float], middle: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """The polynomial through y0, y(1/2), y1 with the slopes at both ends, where y(1/2) = y0 + h sum middle k."""
    last = len(b) - 1
    rows = []
    for i, (end, half) in enumerate(zip(b, middle, strict=True)):
        first_slope, last_slope = float(i == 0), float(i == last)
        rows.append(
            (
                first_slope,
                last_slope - 4 * first_slope - 5 * end + 16 * half,
                5 * first_slope - 3 * last_slope + 14 * end - 32 * half,
                2 * (last_slope - first_slope) - 8 * end + 16 * half,
            )
        )
    return tuple(rows)


_TSIT5_B = (
    0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774, 0.0
)  # fmt: skip

# Ch. Tsitouras, Runge-Kutta pairs of order 5(4) satisfying only the first column simplifying assumption,
# Computers & Mathematics with Applications 62 (2011), 770-775; the middle is that of its interpolant.
TSIT5 = Tableau(
    order=5,
    a=(
        (),
        (0.161,),
        (-0.008480655492356989, 0.335480655492357),
        (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
        (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
        (5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383),
        _TSIT5_B[:-1],
    ),
    c=(0.0, 0.161, 0.327, 0.9, 0.9800255409045097, 1.0, 1.0),
    e=(
        -0.00178001105222577714,
        -0.0008164344596567469,
        0.007880878010261995,
        -0.1447110071732629,
        0.5823571654525552,
        -0.45808210592918697,
        1 / 66,
    ),
    dense=_quartic(
        _TSIT5_B,
        (
            0.10741235230096867,
            0.01135625,
            0.395609030560453,
            -0.3447521435259353,
            1.316185364958165,
            -1.01706085429365,
            0.03125,
        ),
    ),
)

_DOPRI5_B = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0)

# Dormand and Prince 1980; the middle is that of Shampine, Some Practical Runge-Kutta Formulas (1986).
DOPRI5 = Tableau(
    order=5,
    a=(
        (),
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        _DOPRI5_B[:-1],
    ),
    c=(0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0),
    e=(
        35 / 384 - 1951 / 21600,
        0.0,
        500 / 1113 - 22642 / 50085,
        125 / 192 - 451 / 720,
        -2187 / 6784 + 12231 / 42400,
        11 / 84 - 649 / 6300,
        -1 / 60,
    ),
    dense=_quartic(
        _DOPRI5_B,
        (
            6025192743 / 30085553152 / 2,
            0.0,
            51252292925 / 65400821598 / 2,
            -2691868925 / 45128329728 / 2,
            187940372067 / 1594534317056 / 2,
            -1776094331 / 19743644256 / 2,
            11237099 / 235043384 / 2,
        ),
    ),
)

# The 3/8 rule, which torchdiffeq means by rk4; a straight line between the ends, as there.
RK4 = Tableau(
    order=4,
    a=((), (1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0), (1 / 8, 3 / 8, 3 / 8, 1 / 8)),
    c=(0.0, 1 / 3, 2 / 3, 1.0, 1.0),
    e=None,
    dense=tuple((weight, 0.0, 0.0, 0.0) for weight in (1 / 8, 3 / 8, 3 / 8, 1 / 8, 0.0)),
)

EULER = Tableau(order=1, a=((), (1.0,)), c=(0.0, 1.0), e=None, dense=((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)))

METHODS = {"tsit5": TSIT5, "dopri5": DOPRI5, "rk4": RK4, "euler": EULER}
