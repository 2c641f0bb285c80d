"""The step times that "Transferable Graph Optimizers for ML Compilers" (GO) itself reports.

Source: Zhou et al., NeurIPS 2020, arXiv 2010.12438, the table on individual graphs; its devices are
P100 GPUs. Names are those of `go_bench.workloads.registry`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from go_bench.rows import OOM

METHODS = ("go", "human_expert", "metis", "hdp")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperRow:
    """A row of the paper's table.

    Attributes:
      devices: number of GPUs.
      step_s: step time in seconds by method, as this benchmark names them; None = out of memory.
        `go` is the paper's GO-one.
      search_speedup: how much faster than HDP's its search was.
      inferred: whether the row's label is inferred from its place in the table.
    """

    devices: int
    step_s: Mapping[str, float | None]
    search_speedup: float
    inferred: bool = False


def _row(
    devices: int,
    go: float,
    human: float,
    metis: float | None,
    hdp: float,
    search_speedup: float,
    *,
    inferred: bool = False,
) -> PaperRow:
    return PaperRow(
        devices=devices,
        step_s=dict(zip(METHODS, (go, human, metis, hdp), strict=True)),
        search_speedup=search_speedup,
        inferred=inferred,
    )


ROWS: Mapping[str, PaperRow] = {
    "rnnlm-2": _row(2, 0.173, 0.192, 0.355, 0.191, 2.95),
    "rnnlm-4": _row(4, 0.210, 0.239, 0.503, 0.251, 1.76),
    "rnnlm-8": _row(8, 0.320, 0.332, None, 0.764, 27.8),
    "gnmt-2": _row(2, 0.301, 0.384, 0.344, 0.327, 30.0),
    "gnmt-4": _row(4, 0.350, 0.469, 0.466, 0.432, 58.8),
    "gnmt-8": _row(8, 0.440, 0.562, None, 0.693, 7.35, inferred=True),
    "transformer_xl-2": _row(2, 0.223, 0.268, 0.370, 0.262, 40.0),
    "transformer_xl-4": _row(4, 0.230, 0.270, None, 0.259, 26.7),
    "transformer_xl-8": _row(8, 0.350, 0.460, None, 0.425, 16.7),
    "inception_v3-b32": _row(2, 0.229, 0.312, None, 0.301, 13.5, inferred=True),
    "inception_v3-b64": _row(2, 0.423, 0.731, None, 0.498, 21.0),
    "amoebanet": _row(4, 0.394, 0.440, 0.426, 0.418, 58.8),
    "wavenet-2x9": _row(2, 0.317, 0.376, None, 0.354, 6.67),
    "wavenet-4x9": _row(4, 0.659, 0.988, None, 0.721, 20.0),
}


def speedup(workload: str, devices: int, method: str, baseline: str) -> float | str | None:
    """Returns the paper's t_baseline / t_method of a workload on that many devices.

    "OOM" where the method ran out of memory there; None where the paper does not have both, or has
    the workload on another number of devices, or where its baseline ran out of memory.
    """
    row = ROWS.get(workload)
    if row is None or row.devices != devices or not {method, baseline} <= row.step_s.keys():
        return None
    ours, theirs = row.step_s[method], row.step_s[baseline]
    if ours is None:
        return OOM
    return None if theirs is None else theirs / ours
