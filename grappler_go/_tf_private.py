"""All use of TensorFlow's private Python API."""

from tensorflow.core.protobuf import config_pb2
from tensorflow.python.eager import context


def base_config() -> config_pb2.ConfigProto:
    """A copy of the eager context's base ConfigProto, from which all function configs derive."""
    config = context.context()._config
    copy = config_pb2.ConfigProto()
    if config is not None:
        copy.CopyFrom(config)
    return copy


def set_base_config(config: config_pb2.ConfigProto) -> None:
    """Sets the base ConfigProto of the eager context, and drops this thread's cached call options.

    TensorFlow's public setter forwards a fixed list of toggles and drops custom optimizers, hence
    this way. Other
    threads that have called functions before keep their options, as with TensorFlow's own setters.
    """
    ctx = context.context()
    ctx._config = config
    ctx._thread_local_data.function_call_options = None
