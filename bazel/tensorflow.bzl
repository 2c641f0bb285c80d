"""Finds the TensorFlow that pip installed and offers it as @tensorflow."""

# Prints one line a value, its kind before it.
_PROBE = """
import tensorflow as tf
print("version", tf.__version__)
print("lib_dir", tf.sysconfig.get_lib())
for flag in tf.sysconfig.get_compile_flags():
    print("compile", flag)
for flag in tf.sysconfig.get_link_flags():
    print("link", flag)
"""

_ADVICE = "but Grappler GO needs 2.21.*: pip install 'tensorflow==2.21.*'"

# tf.sysconfig leaves out the library with Grappler, the C++ clients and SavedModel. Both are kept
# even if the linker sees no use of them: their static initialisers register operations and kernels.
_LIBRARIES = [
    "-Wl,--no-as-needed",
    "-l:libtensorflow_cc.so.2",
    "-l:libtensorflow_framework.so.2",
    "-Wl,--as-needed",
]

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "tensorflow",
    hdrs = glob([
        "include/**",
    ]),
    # NDEBUG as in TensorFlow's own build: some of its classes are laid out differently without it.
    defines = {defines},
    # `includes` makes this -isystem: no warnings from TensorFlow's headers.
    includes = ["include"],
    linkopts = {linkopts},
)
"""

_DEFS = """
# Flags from tf.sysconfig of TensorFlow {version}, for rules that need them by name.
TF_COPTS = {copts}

# For programs that are not started by Python, where TensorFlow is loaded already.
TF_RPATH = ["-Wl,-rpath,{lib_dir}"]
"""

def _python(ctx):
    """The interpreter to ask: GRAPPLER_GO_PYTHON, else .venv of the checkout, else python3."""
    named = ctx.os.environ.get("GRAPPLER_GO_PYTHON", "")
    if named:
        return named
    checkout = ctx.path(Label("//:WORKSPACE")).dirname
    python = checkout.get_child(".venv").get_child("bin").get_child("python")
    if python.exists:
        return str(python)
    python = ctx.which("python3")
    if not python:
        fail("no Python found: set GRAPPLER_GO_PYTHON to one that has tensorflow 2.21")
    return str(python)

def _installed_tensorflow_impl(ctx):
    python = _python(ctx)
    result = ctx.execute([python, "-c", _PROBE], environment = {"TF_CPP_MIN_LOG_LEVEL": "3"})
    if result.return_code:
        fail("GRAPPLER_GO_PYTHON: %s cannot import tensorflow, %s:\n%s" %
             (python, _ADVICE, result.stderr))
    values = {"version": [], "lib_dir": [], "compile": [], "link": []}
    for line in result.stdout.splitlines():
        kind, _, value = line.partition(" ")
        if kind in values:
            values[kind].append(value)
    version = values["version"][0]
    if not version.startswith("2.21."):
        fail("GRAPPLER_GO_PYTHON: %s has tensorflow %s, %s" % (python, version, _ADVICE))
    include_dirs = [flag[2:] for flag in values["compile"] if flag.startswith("-I")]
    ctx.symlink(include_dirs[0], "include")
    defines = [flag[2:] for flag in values["compile"] if flag.startswith("-D")]
    copts = [flag for flag in values["compile"] if flag[:2] not in ["-I", "-D"]]

    linkopts = values["link"] + _LIBRARIES
    ctx.file("BUILD", _BUILD.format(
        defines = repr(defines + ["NDEBUG"]),
        linkopts = repr(linkopts),
    ))
    ctx.file("defs.bzl", _DEFS.format(
        copts = repr(copts),
        lib_dir = values["lib_dir"][0],
        version = version,
    ))

installed_tensorflow = repository_rule(
    implementation = _installed_tensorflow_impl,
    configure = True,
    environ = ["GRAPPLER_GO_PYTHON"],
    # Asked again by each Bazel server: the environment may have been changed by pip.
    local = True,
)
