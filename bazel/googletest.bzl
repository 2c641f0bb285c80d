"""Offers the system's GoogleTest (Debian: libgtest-dev, libgmock-dev) as @googletest."""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "gtest_main",
    srcs = ["lib/libgmock_main.a", "lib/libgmock.a", "lib/libgtest.a"],
    hdrs = glob(["include/**"]),
    includes = ["include"],
    linkopts = ["-lpthread"],
)
"""

_LIBRARIES = ["libgmock_main.a", "libgmock.a", "libgtest.a"]

def _system_googletest_impl(ctx):
    # Only the two folders: -isystem /usr/include would break #include_next of the C++ library.
    for folder in ["gtest", "gmock"]:
        path = ctx.path("/usr/include/" + folder)
        if not path.exists:
            fail("%s not found: install libgtest-dev and libgmock-dev" % path)
        ctx.symlink(path, "include/" + folder)
    for library in _LIBRARIES:
        # The compiler knows its multiarch folder; it echoes the name of a library it does not find.
        path = ctx.execute(["g++", "-print-file-name=" + library]).stdout.strip()
        if not path.startswith("/"):
            fail("%s not found: install libgtest-dev and libgmock-dev" % library)
        ctx.symlink(path, "lib/" + library)
    ctx.file("BUILD", _BUILD)

system_googletest = repository_rule(
    implementation = _system_googletest_impl,
    local = True,
)
