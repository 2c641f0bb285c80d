"""What all tests of one process share: four CPU devices, and a pass that is off between tests."""

import os

# A warning of the pass that nobody can see cannot be tested.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"

import pytest
import tensorflow as tf

NUM_DEVICES = 4


def pytest_sessionstart(session: pytest.Session) -> None:
    """Splits the CPU in four: TensorFlow takes that only before its first op."""
    del session
    # With a GPU in sight the placer would put most ops there: another machine, other tests.
    tf.config.set_visible_devices([], "GPU")
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * NUM_DEVICES,
    )


@pytest.fixture(autouse=True)
def pass_is_off():
    """Switches the pass off after a test, whatever it left."""
    yield
    import grappler_go

    grappler_go.disable()
