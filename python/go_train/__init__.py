"""Training of the learned policy: network, data, behaviour cloning, export.

TF-GNN is written for Keras 2, which TensorFlow picks when it is first imported. Importing this
package before TensorFlow settles that; importing it after TensorFlow with Keras 3 is refused with
the fix.
"""

import importlib.util
import os
import sys

_LEGACY_KERAS = "TF_USE_LEGACY_KERAS"
_TRUE = ("1", "true", "True")


def _require_legacy_keras() -> None:
    """Makes sure that `tf.keras` is Keras 2, which TF-GNN needs.

    Raises:
        ImportError: TensorFlow was imported without the setting, or a training requirement is
            missing.
    """
    if os.environ.get(_LEGACY_KERAS) not in _TRUE:
        if "tensorflow" in sys.modules:
            raise ImportError(
                f"go_train needs Keras 2: set {_LEGACY_KERAS}=1 in the environment,"
                " or import go_train before tensorflow"
            )
        os.environ[_LEGACY_KERAS] = "1"
    for module, package in (("tensorflow_gnn", "tensorflow-gnn"), ("tf_keras", "tf_keras")):
        if importlib.util.find_spec(module) is None:
            raise ImportError(f"go_train needs {module}: pip install {package}")


_require_legacy_keras()
