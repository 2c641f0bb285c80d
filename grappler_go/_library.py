"""Loads the C++ library into TensorFlow, once a process."""

import functools
import pathlib
import types

import tensorflow as tf

# The library is compiled against one minor version's C++ headers, and C++ has no stable interface
# across them.
TENSORFLOW_VERSION = "2.21"
LIBRARY_PATH = pathlib.Path(__file__).parent / "_lib" / "libgrappler_go.so"
PASS_NAME = "grappler_go"


def check_tensorflow_version(version: str) -> None:
    """Raises ImportError, with the fix, unless `version` is of the minor version built for."""
    if version.split(".")[:2] != TENSORFLOW_VERSION.split("."):
        raise ImportError(
            f"grappler_go is built for TensorFlow {TENSORFLOW_VERSION}.*, but {version} is loaded; "
            f"fix: pip install 'tensorflow=={TENSORFLOW_VERSION}.*'"
        )


@functools.cache
def ops() -> types.ModuleType:
    """The library's TensorFlow ops.

    Raises:
      ImportError: the library is missing, or does not register the pass.
    """
    check_tensorflow_version(tf.__version__)
    if not LIBRARY_PATH.exists():
        raise ImportError(
            f"the compiled library {LIBRARY_PATH} is missing; "
            "fix: `pip install .`, or `make build` in a checkout"
        )
    module = tf.load_op_library(str(LIBRARY_PATH))
    with tf.init_scope():
        registered = [name.decode() for name in module.grappler_go_registered_optimizers().numpy()]
    if PASS_NAME not in registered:
        raise ImportError(
            f"TensorFlow does not know the optimizer '{PASS_NAME}' after loading {LIBRARY_PATH}, "
            f"only {registered}; fix: rebuild the library against the installed TensorFlow"
        )
    return module
