"""A suite that measures nothing, and its rows."""

import dataclasses

import numpy as np
from go_bench import rows, runner, stored_plan

DEVICE = "/device:CPU:0"


def row(**fields):
    base = {
        "suite": "fake",
        "case": "",
        "workload": "w",
        "preset": "tiny",
        "mode": "train",
        "nodes": 3,
        "devices": (DEVICE,),
        "method": "m",
    }
    return rows.Row(**{**base, **fields})


def plan(*devices, priority=None):
    order = None if priority is None else np.asarray(priority)
    return stored_plan.pack(np.asarray(devices, np.int32), order)


@dataclasses.dataclass
class FakeSuite:
    """Two rows a case, of 1 and 2 seconds; breaks off in the middle of the case `breaks`.

    Replaying, it finds what `now` has by method, else what the row says.
    """

    breaks: str = ""
    name: str = "fake"
    description: str = "a fake"
    now: dict = dataclasses.field(default_factory=dict)
    measured: bool = False
    ran: list = dataclasses.field(default_factory=list)

    def cases(self, settings):
        return settings.workloads or ("a", "b", "c")

    def run(self, case, settings):
        self.ran.append(case)
        yield row(workload=case, method="ours", step_s=1.0, plan=plan(0, 0, 0))
        if case == self.breaks:
            raise KeyboardInterrupt
        yield row(workload=case, method="tf_default", step_s=2.0)

    def summarize(self, all_rows):
        return {"count": len(all_rows)}

    def replay(self, all_rows):
        for each in all_rows:
            yield runner.Replayed(
                row=each,
                step_s=self.now.get(each.method, each.step_s),
                spread_s=0.0,
                measured=self.measured,
            )
