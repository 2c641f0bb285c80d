"""What a plan decides and why, in words, as data and as a page."""

import collections
import dataclasses
import importlib.resources
import json
import re
from collections.abc import Sequence
from typing import Any

from grappler_go.plans import Plan

_LAYER = re.compile(r"(?:^|[/_])layer_(\d+)(?:/|$)")
_LARGEST = 10  # Transfers, layers and clusters that are listed.
_FREE = "free"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceUse:
    """What one device does in a step.

    Attributes:
      name: full name.
      ops, before_ops: ops on it, with the plan and without.
      busy_us, before_busy_us: their time, likewise.
      peak_bytes: simulated peak memory.
      sent_bytes, received_bytes: over links.
    """

    name: str
    ops: int
    before_ops: int
    busy_us: float
    before_busy_us: float
    peak_bytes: float
    sent_bytes: float
    received_bytes: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Transfer:
    """A tensor that goes from one device to another.

    Attributes:
      name: the op that makes it.
      source, target: full device names.
      bytes: its size.
      us: time on the link.
    """

    name: str
    source: str
    target: str
    bytes: float
    us: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """A plan in figures; times are simulated, in microseconds.

    Attributes:
      graph: the graph's name.
      source, applied, reason: which planner won, whether its plan is written, and why.
      before_us, after_us, bound_us: step of the incoming graph and of the plan, and what none can
        be faster than.
      devices: what each does.
      moved: ops on another device than before.
      transfers: number of tensors sent; largest: those that take longest.
      critical_path: the layers (or scopes) that the step waits for, with their time, most first.
      clusters: number of XLA clusters, and of ops in them.
      ordered: whether ops have priorities.
      bound_ops: ops that may not move, by rule.
      candidates: planners that proposed: name, plans tried, step of the best, whether it fits.
    """

    graph: str
    source: str
    applied: bool
    reason: str
    before_us: float
    after_us: float
    bound_us: float
    devices: tuple[DeviceUse, ...]
    moved: int
    transfers: int
    largest: tuple[Transfer, ...]
    critical_path: tuple[tuple[str, float], ...]
    clusters: int
    fused_ops: int
    ordered: bool
    bound_ops: dict[str, int]
    candidates: tuple[tuple[str, int, float, bool], ...]
    plan: Plan = dataclasses.field(repr=False)

    @property
    def speedup(self) -> float:
        """before_us / after_us."""
        return self.before_us / self.after_us if self.after_us else 1.0

    def to_json(self) -> str:
        """The figures as JSON, without the plan itself."""
        fields = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("plan", "devices", "largest")
        }
        fields["devices"] = [dataclasses.asdict(each) for each in self.devices]
        fields["largest"] = [dataclasses.asdict(each) for each in self.largest]
        return json.dumps(fields | {"speedup": self.speedup}, indent=1) + "\n"

    def to_text(self) -> str:
        """The figures as plain text."""
        return _text(self)

    def to_html(self) -> str:
        """One page that needs nothing else: figures, and the step's timeline before and after."""
        template = importlib.resources.files("grappler_go").joinpath("explain.html").read_text()
        data = json.dumps(_page_data(self), separators=(",", ":"))
        # As text inside a script element.
        return template.replace("/*DATA*/null", data.replace("</", "<\\/"))


def explain(plan: Plan) -> Explanation:
    """Explains a plan.

    Args:
      plan: from `plan`, or the content of a report that `enable(report=DIR)` wrote.

    Raises:
      ValueError: the plan lacks what the pass writes beside the decisions.
    """
    report = plan.report
    nodes, names = report.get("nodes", []), report.get("devices", [])
    for field in ("reason", "incoming_step_us", "predicted_step_us", "transfers", "candidates"):
        if field not in report:
            raise ValueError(f"explain: the plan has no field '{field}'; it is no whole report")
    transfers = report["transfers"]
    fused = [node["fusion"] for node in nodes if node["fusion"] >= 0]
    rules = collections.Counter(node["rule"] for node in nodes if node["rule"] != _FREE)
    return Explanation(
        graph=report["graph"],
        source=report["source"],
        applied=report["applied"],
        reason=report["reason"],
        before_us=report["incoming_step_us"],
        after_us=report["predicted_step_us"],
        bound_us=report["lower_bound_us"],
        devices=tuple(_use(report, number) for number in range(len(names))),
        moved=sum(node["device"] != node["incoming_device"] for node in nodes),
        transfers=len(transfers),
        largest=tuple(
            Transfer(
                name=each["name"],
                source=names[each["source"]],
                target=names[each["target"]],
                bytes=each["bytes"],
                us=each["end_us"] - each["start_us"],
            )
            for each in sorted(transfers, key=_link_us, reverse=True)[:_LARGEST]
        ),
        critical_path=_critical_path(report),
        clusters=len(set(fused)),
        fused_ops=len(fused),
        ordered=any(node["priority"] for node in nodes),
        bound_ops=dict(rules.most_common()),
        candidates=tuple(
            (each["source"], each["tried"], each["step_us"], each["feasible"])
            for each in report["candidates"]
        ),
        plan=plan,
    )


def _use(report: dict[str, Any], number: int) -> DeviceUse:
    nodes, transfers = report["nodes"], report["transfers"]
    here = [node for node in nodes if node["device"] == number]
    before = [node for node in nodes if node["incoming_device"] == number]
    return DeviceUse(
        name=report["devices"][number],
        ops=len(here),
        before_ops=len(before),
        busy_us=sum(node["end_us"] - node["start_us"] for node in here),
        before_busy_us=sum(node["incoming_end_us"] - node["incoming_start_us"] for node in before),
        peak_bytes=report["peak_bytes"][number],
        sent_bytes=sum(each["bytes"] for each in transfers if each["source"] == number),
        received_bytes=sum(each["bytes"] for each in transfers if each["target"] == number),
    )


def _link_us(transfer: dict[str, Any]) -> float:
    return transfer["end_us"] - transfer["start_us"]


def _critical_path(report: dict[str, Any]) -> tuple[tuple[str, float], ...]:
    """Time of the chain of ops that the step waits for, by layer."""
    us: collections.Counter[str] = collections.Counter()
    for link in report.get("critical_path", []):
        us[layer(report["nodes"][link["node"]]["name"])] += link["us"]
    return tuple(us.most_common(_LARGEST))


def layer(name: str) -> str:
    """The layer of an op by its name: `layer_N` in it, else its first scope."""
    match = _LAYER.search(name)
    if match:
        return f"layer_{match[1]}"
    scope, slash, _ = name.partition("/")
    return scope if slash else "(no scope)"


def _text(e: Explanation) -> str:
    gain = f"{_ms(e.before_us)} -> {_ms(e.after_us)} a step, {e.speedup:.2f}x"
    lines = [
        f"{e.graph}: {'written' if e.applied else 'left as it was'}, plan from {e.source}",
        f"why: {e.reason}",
        f"predicted: {gain} (no placement below {_ms(e.bound_us)})",
        f"moved: {e.moved} ops; order: {'by priority' if e.ordered else 'as TensorFlow has it'}; "
        f"clusters: {e.clusters} of {e.fused_ops} ops",
        "",
        *_table(
            ("device", "ops", "before", "busy", "before", "peak", "sent", "received"),
            [
                (
                    each.name,
                    str(each.ops),
                    str(each.before_ops),
                    _ms(each.busy_us),
                    _ms(each.before_busy_us),
                    _mb(each.peak_bytes),
                    _mb(each.sent_bytes),
                    _mb(each.received_bytes),
                )
                for each in e.devices
            ],
        ),
    ]
    if e.largest:
        lines += ["", f"transfers: {e.transfers}, the longest:"]
        lines += _table(
            ("tensor of", "from", "to", "size", "link"),
            [(t.name, t.source, t.target, _mb(t.bytes), _ms(t.us)) for t in e.largest],
        )
    if e.critical_path:
        lines += ["", "what the step waits for:"]
        lines += _table(("layer", "time"), [(name, _ms(us)) for name, us in e.critical_path])
    if e.bound_ops:
        lines += ["", "ops that may not move:"]
        lines += _table(("rule", "ops"), [(rule, str(n)) for rule, n in e.bound_ops.items()])
    lines += ["", "who proposed:"]
    lines += _table(
        ("planner", "plans", "best step"),
        [
            (name, str(tried), "-" if not tried else _ms(us) if fits else "does not fit")
            for name, tried, us, fits in e.candidates
        ],
    )
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of columns; the first is flush left, the others right."""
    widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *rows]
    ]


def _ms(us: float) -> str:
    return f"{us * 1e-3:.4g} ms"


def _mb(size: float) -> str:
    return f"{size * 1e-6:.4g} MB"


def _page_data(e: Explanation) -> dict[str, Any]:
    """What the page draws: ops that take time, by device, before and after."""
    report = e.plan.report
    layers: dict[str, int] = {}
    ops = []
    critical = {link["node"] for link in report.get("critical_path", [])}
    for number, node in enumerate(report["nodes"]):
        after = (node["start_us"], node["end_us"])
        before = (node["incoming_start_us"], node["incoming_end_us"])
        if after[1] <= after[0] and before[1] <= before[0]:
            continue
        colour = layers.setdefault(layer(node["name"]), len(layers))
        ops.append(
            [
                node["name"],
                node["op"],
                colour,
                node["device"],
                *(round(us, 1) for us in after),
                node["incoming_device"],
                *(round(us, 1) for us in before),
                int(number in critical),
                node["fusion"],
            ]
        )
    return {
        "summary": json.loads(e.to_json()),
        "layers": list(layers),
        "ops": ops,
        "transfers": [
            [t["name"], t["source"], t["target"], t["bytes"], t["start_us"], t["end_us"]]
            for t in report["transfers"]
        ],
    }
