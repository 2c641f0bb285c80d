"""Graphs from files, SavedModels and functions: what is read is what was written."""

import collections
import textwrap

import numpy as np
import pytest
import tensorflow as tf

import grappler_go
from grappler_go import inputs
from grappler_go.errors import BadInput

v1 = tf.compat.v1
WORKERS = [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(2)]
_CALLS = {"PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile", "If"}


class _Model(tf.Module):
    """A loop, a branch and calls, on two variables."""

    def __init__(self):
        super().__init__()
        self.loop = tf.Variable(
            np.linspace(-0.5, 0.5, 16, dtype=np.float32).reshape(4, 4), name="loop"
        )
        self.last = tf.Variable(
            np.linspace(0.3, 1.5, 16, dtype=np.float32).reshape(4, 4), name="last"
        )

    @tf.function
    def inner(self, x):
        return tf.nn.relu(x) + 1.0

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def serve(self, x):
        def body(i, y):
            return i + 1, self.inner(y) @ self.loop

        _, y = tf.while_loop(lambda i, y: i < 3, body, [0, x])
        branch = tf.cond(tf.reduce_sum(y) > 0, lambda: y @ self.last, lambda: -y)
        return {"branch": branch, "loop": y}


@pytest.fixture(scope="module", name="model")
def fixture_model():
    return _Model()


@pytest.fixture(scope="module", name="saved")
def fixture_saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model"
    tf.saved_model.save(model, str(path), signatures=model.serve)
    return path


def _graph():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [2, 2], name="x")
        tf.add(x @ x, 1.0, name="y")
    return graph


def _meta_graph(graph):
    meta = v1.MetaGraphDef(graph_def=graph.as_graph_def())
    meta.signature_def["serving_default"].inputs["in"].name = "x:0"
    meta.signature_def["serving_default"].outputs["out"].name = "y:0"
    return meta


class TestGraphFiles:
    def test_a_graph_is_read_as_it_is(self, tmp_path):
        graph = _graph().as_graph_def()
        (tmp_path / "g.pb").write_bytes(graph.SerializeToString())
        (tmp_path / "g.pbtxt").write_text(str(graph))
        for name in ("g.pb", "g.pbtxt"):
            read = inputs.read(tmp_path / name)
            assert read.graph_def == graph
            assert read.source == str(tmp_path / name)
            assert not read.declared and not read.fetch and not read.feed and not read.devices

    def test_a_meta_graph_has_a_signature(self, tmp_path):
        meta = _meta_graph(_graph())
        (tmp_path / "m.pb").write_bytes(meta.SerializeToString())
        (tmp_path / "m.pbtxt").write_text(str(meta))
        for name in ("m.pb", "m.pbtxt"):
            read = inputs.read(tmp_path / name)
            assert read.graph_def == meta.graph_def
            assert (read.fetch, read.feed) == (("y:0",), ("x:0",))
            assert inputs.read(tmp_path / name, signature="other").fetch == ()

    @pytest.mark.parametrize(
        ("name", "content", "cause"),
        [
            ("g.pb", b"\xff\xff\xff", "neither a GraphDef nor MetaGraphDef with nodes"),
            ("g.pb", b"", "neither a GraphDef"),
            ("g.pbtxt", b"nothing", "neither a GraphDef, MetaGraphDef nor CostGraphDef"),
            ("g.pbtxt", b"node {", "not a CostGraphDef: 1:6"),
            ("g.pbtxt", b"node \xff", "not text: invalid start byte at byte 5"),
            ("g.json", b"\xff", "not text: invalid start byte at byte 0"),
            ("g.txt", b"", "must be a SavedModel directory, a file that ends in .pb, .pbtxt or"),
            ("missing.pb", None, "No such file"),
        ],
    )
    def test_a_bad_file_is_one_line_that_names_it(self, tmp_path, name, content, cause):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(BadInput, match=cause) as raised:
            inputs.read(path)
        assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)


def _evaluate(read, feeds, variables):
    """The fetches of a graph; variables get their values by the name of their handle."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(read.graph_def, name="")
        handles = {
            op.get_attr("shared_name").decode(): op.outputs[0]
            for op in graph.get_operations()
            if op.type == "VarHandleOp"
        }
        assert set(handles) == set(variables)
        assigns = [
            tf.raw_ops.AssignVariableOp(resource=handles[name], value=value)
            for name, value in variables.items()
        ]
        with v1.Session(graph=graph) as session:
            session.run(assigns)
            return session.run(list(read.fetch), feeds)


class TestSavedModels:
    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_the_inlined_graph_computes_the_signature(self, model, saved, sign):
        read = inputs.read(saved)
        ops = collections.Counter(node.op for node in read.graph_def.node)
        assert not _CALLS & set(ops) and not read.graph_def.library.function
        assert ops["NextIteration"] >= 2 and ops["Switch"] > 2 and ops["MatMul"] == 2
        assert ops["VarHandleOp"] == 2 and not ops["RestoreV2"]
        x = sign * np.linspace(0.1, 2, 8, dtype=np.float32).reshape(2, 4)
        (feed,) = read.feed
        expected = model.serve(tf.constant(x))
        variables = {"loop": model.loop.numpy(), "last": model.last.numpy()}
        seen = _evaluate(read, {feed: x}, variables)
        for value, name in zip(seen, ("branch", "loop"), strict=True):
            np.testing.assert_allclose(value, expected[name], rtol=1e-6)

    def test_its_ops_can_be_planned(self, saved):
        read = inputs.read(saved)
        opened = grappler_go.OpGraph(read.graph_def, WORKERS, fetch=read.fetch, feed=read.feed)
        rules = dict(zip(opened.names, opened.rules, strict=True))
        assert "function call" not in rules.values()
        assert rules[read.feed[0].partition(":")[0]] == "feed"

    def test_a_model_of_tensorflow_1(self, tmp_path):
        path = tmp_path / "model"
        with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
            x = v1.placeholder(tf.float32, [None, 2], name="x")
            v = v1.get_variable("v", initializer=tf.constant([[1.0, 2], [3, 4]]), use_resource=True)
            y = tf.matmul(x, v, name="y")
            session.run(v1.global_variables_initializer())
            builder = v1.saved_model.Builder(str(path))
            signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
            builder.add_meta_graph_and_variables(session, ["serve"], {"predict": signature})
            builder.save(as_text=True)
        read = inputs.read(path, signature="predict")
        assert (read.fetch, read.feed) == (("y:0",), ("x:0",))
        value = np.asarray([[1, 2], [3, 4]], np.float32)
        (y,) = _evaluate(read, {"x:0": [[1, 1]]}, {"v": value})
        np.testing.assert_array_equal(y, [[4, 6]])
        with pytest.raises(BadInput, match="no signature 'serving_default'; known are predict"):
            inputs.read(path)

    def test_wrong_models_are_named(self, saved, tmp_path):
        with pytest.raises(BadInput, match="no signature 'train'; known are serving_default$"):
            inputs.read(saved, signature="train")
        with pytest.raises(BadInput, match="saved_model.pb: No such file"):
            inputs.read(tmp_path)
        (tmp_path / "saved_model.pb").write_bytes(b"\xff")
        with pytest.raises(BadInput, match="saved_model.pb: not a SavedModel"):
            inputs.read(tmp_path)
        (tmp_path / "saved_model.pb").write_bytes(b"")
        with pytest.raises(BadInput, match="no graph has the tag 'serve' alone; tags are: none"):
            inputs.read(tmp_path)


@pytest.fixture(name="module")
def fixture_module(tmp_path, monkeypatch):
    (tmp_path / "users_module.py").write_text(
        textwrap.dedent(
            """
            import tensorflow as tf

            def graph():
                with tf.Graph().as_default() as made:
                    tf.constant(1.0, name="one")
                return made

            def graph_def():
                return graph().as_graph_def()

            @tf.function(input_signature=[tf.TensorSpec([2, 2])])
            def step(x):
                return inner(x) @ x

            @tf.function
            def inner(x):
                return x + 1.0

            def concrete():
                variable = tf.Variable([1.0, 2.0])

                @tf.function
                def update(x):
                    variable.assign_add(inner(x))
                    return tf.reduce_sum(x)

                return update.get_concrete_function(tf.TensorSpec([2]))

            class Holder:
                graph = staticmethod(graph)

            def number():
                return 3

            def fails():
                raise KeyError("no such thing")
            """
        )
    )
    monkeypatch.chdir(tmp_path)
    return "users_module"


class TestFunctions:
    def test_graphs(self, module):
        for name in ("graph", "graph_def", "Holder.graph"):
            read = inputs.read(f"{module}:{name}")
            assert [node.name for node in read.graph_def.node] == ["one"]
            assert read.source == f"{module}:{name}"

    def test_a_function_of_tensorflow_is_inlined(self, module):
        read = inputs.read(f"{module}:step")
        assert not _CALLS & {node.op for node in read.graph_def.node}
        assert (read.fetch, read.feed) == (("Identity:0",), ("x:0",))
        x = np.asarray([[1, 2], [3, 4]], np.float32)
        (y,) = _evaluate(read, {"x:0": x}, {})
        np.testing.assert_array_equal(y, (x + 1) @ x)

    def test_what_a_function_updates_is_fetched(self, module):
        read = inputs.read(f"{module}:concrete")
        assert not _CALLS & {node.op for node in read.graph_def.node}
        (update,) = [n.name for n in read.graph_def.node if n.op == "AssignAddVariableOp"]
        assert update in read.fetch

    def test_the_search_path_is_left_as_it_was(self, module):
        import sys

        before = list(sys.path)
        inputs.read(f"{module}:graph")
        assert sys.path == before

    @pytest.mark.parametrize(
        ("name", "cause"),
        [
            ("users_module:number", "returns a int, must be a tf.Graph, a GraphDef"),
            ("users_module:fails", "KeyError: 'no such thing'"),
            ("users_module:missing", "AttributeError: .* has no attribute 'missing'"),
            ("users_module:inner", "missing .* argument"),
            ("no_such_module:f", "ModuleNotFoundError: No module named 'no_such_module'"),
            ("users_module", "must be a SavedModel directory, a file .*, or module:function"),
        ],
    )
    @pytest.mark.usefixtures("module")
    def test_a_bad_function_is_one_line(self, name, cause):
        with pytest.raises(BadInput, match=cause) as raised:
            inputs.read(name)
        assert str(raised.value).startswith(f"{name}: ") and "\n" not in str(raised.value)
