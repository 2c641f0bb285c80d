"""Switching the pass on and off, and the protos that do it."""

from typing import Any

from absl import logging
from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

from grappler_go import _library, _tf_private

# Option name -> type. The C++ side (cc/options.h) documents and checks the values.
OPTION_TYPES: dict[str, type] = {
    "candidates": str,
    "costs": str,
    "expected_steps": int,
    "fail_on_error": bool,
    "keep_default": bool,
    "margin": float,
    "move_state": bool,
    "optimize_timeout_ms": int,
    "override_user_devices": bool,
    "plan": str,
    "policy": str,
    "profile": str,
    "report": str,
    "samples": int,
    "save_graphs": bool,
    "search": int,
    "seed": int,
    "tasks": str,
}


def _attr(name: str, value: Any) -> attr_value_pb2.AttrValue:
    want = OPTION_TYPES.get(name)
    if want is None:
        known = ", ".join(OPTION_TYPES)
        raise ValueError(f"unknown option '{name}'; known are {known}")
    if want is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if want is str and isinstance(value, (list, tuple)):
        value = ",".join(value)
    if type(value) is not want:
        raise TypeError(f"option '{name}' is {value!r}, must be of type {want.__name__}")
    if want is bool:
        return attr_value_pb2.AttrValue(b=value)
    if want is int:
        return attr_value_pb2.AttrValue(i=value)
    if want is float:
        return attr_value_pb2.AttrValue(f=value)
    return attr_value_pb2.AttrValue(s=str(value).encode())


def custom_optimizer(**options: Any) -> rewriter_config_pb2.RewriterConfig.CustomGraphOptimizer:
    """The optimizer's entry in a RewriterConfig.

    Options: see `enable`. Raises ValueError for an unknown name, TypeError for a value of the
      wrong type.
    """
    optimizer = rewriter_config_pb2.RewriterConfig.CustomGraphOptimizer(name=_library.PASS_NAME)
    for name, value in options.items():
        optimizer.parameter_map[name].CopyFrom(_attr(name, value))
    return optimizer


def rewriter_config(**options: Any) -> rewriter_config_pb2.RewriterConfig:
    """A RewriterConfig with the pass after TensorFlow's own optimizers. Options: see `enable`."""
    _library.ops()
    config = rewriter_config_pb2.RewriterConfig()
    config.custom_optimizers.append(custom_optimizer(**options))
    # With this off, TensorFlow drops an optimizer's error on the floor.
    config.fail_on_optimizer_errors = bool(options.get("fail_on_error", False))
    return config


def session_config(**options: Any) -> config_pb2.ConfigProto:
    """A ConfigProto with the pass in it, for `tf.compat.v1.Session`. Options: see `enable`.

    With a `grpc://` target the pass runs in the target's process, which must have the library
    loaded, as the
    workers of `local_cluster` do.
    """
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.CopyFrom(rewriter_config(**options))
    return config


def _remove(rewrite: rewriter_config_pb2.RewriterConfig) -> bool:
    kept = [o for o in rewrite.custom_optimizers if o.name != _library.PASS_NAME]
    found = len(kept) < len(rewrite.custom_optimizers)
    del rewrite.custom_optimizers[:]
    rewrite.custom_optimizers.extend(kept)
    return found


def enable(**options: Any) -> None:
    """Switches the pass on for all functions and Keras models traced or first called from now on.

    For `tf.compat.v1.Session`, see `session_config`. Calling it again replaces the options.

    Args:
      **options: All optional.
        candidates: planners that may propose, comma-separated or a list: policy, critical_path,
          m_etf, heft, celeritas, m_topo, single_device, random.
        keep_default: keep the incoming graph unless a plan is predicted better by `margin` (True).
        margin: smallest gain worth a change, a share of the step time (0.05).
        samples: plans drawn from the policy (16). seed: of all draws (0).
        search: simulated steps of local search from the best proposal; -1 = by graph size (-1).
        policy: directory of a policy SavedModel; "" = the shipped one, "none" = none.
        profile: device profile, JSON text; "" = built-in figures.
        costs: file of measured op times, JSON; "" = analytical estimates.
        override_user_devices: move ops that the program pinned with tf.device, too (False).
        move_state: variables may move with their users; only for graphs that never ran (False).
        optimize_timeout_ms: time limit of the pass for one graph, milliseconds, 0 = none (60000).
        report: directory that gets a JSON file for each graph the pass looked at.
        save_graphs: beside each report goes the graph it is about, a GraphDef (False).
        plan: file of a plan, as a report has it, to apply as it is to the graph that it was made
          for; other graphs stay as they are.
        tasks: what is decided, out of placement, scheduling and fusion, comma-separated or a list
          ("placement,scheduling"). Fusion groups ops into XLA clusters, on one device too.
        expected_steps: how often a graph will run, for clusters to pay for their compiling (1000).
        fail_on_error: raise instead of leaving the graph as it was with one warning (False).

    Raises:
      ImportError: TensorFlow is of another version, or does not know the pass.
      ValueError, TypeError: an unknown option, or a value of the wrong type.
    """
    config = _tf_private.base_config()
    rewrite = config.graph_options.rewrite_options
    _remove(rewrite)
    rewrite.MergeFrom(rewriter_config(**options))
    rewrite.fail_on_optimizer_errors = bool(options.get("fail_on_error", False))
    _tf_private.set_base_config(config)
    logging.info("grappler_go is on: %s", options or "default options")


def disable() -> None:
    """Switches the pass off for every tf.function that is traced or first called from now on."""
    config = _tf_private.base_config()
    if _remove(config.graph_options.rewrite_options):
        config.graph_options.rewrite_options.ClearField("fail_on_optimizer_errors")
        _tf_private.set_base_config(config)


def is_enabled() -> bool:
    """Whether `enable` is in force for functions called from this thread."""
    rewrite = _tf_private.base_config().graph_options.rewrite_options
    return any(o.name == _library.PASS_NAME for o in rewrite.custom_optimizers)
