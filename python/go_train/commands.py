"""`grappler-go pretrain`: trains a policy on many graphs, or goes on from a checkpoint."""

from __future__ import annotations

import argparse
import pathlib

from grappler_go.errors import BadInput


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    pretrain = subparsers.add_parser("pretrain", help="train a policy on many graphs")
    pretrain.add_argument("--out", type=pathlib.Path, required=True, help="output directory")
    pretrain.add_argument("--config", type=pathlib.Path, help="settings, JSON (PretrainConfig)")
    pretrain.add_argument(
        "--data", type=pathlib.Path, help="where graphs and plans are kept; default: OUT/data"
    )
    pretrain.set_defaults(run=_pretrain)


def _pretrain(arguments: argparse.Namespace) -> int:
    from go_train import pretrain

    try:
        settings = pretrain.read_settings(arguments.config)
        _run(settings, arguments.out, arguments.data or arguments.out / "data")
    except (OSError, ValueError) as error:
        raise BadInput(str(error)) from error
    return 0


def _run(settings: object, out: pathlib.Path, data: pathlib.Path) -> None:
    import tensorflow as tf
    import tqdm
    from absl import logging

    import grappler_go
    from go_train import dataset, pretrain
    from go_train.table import FeatureTable

    assert isinstance(settings, pretrain.PretrainConfig)
    tf.config.experimental.enable_op_determinism()
    logging.set_verbosity(logging.INFO)
    table = FeatureTable.from_rows(grappler_go.feature_table())
    with tqdm.tqdm(total=dataset.count_graphs(settings.data), unit="graph") as bar:
        examples = dataset.load(
            settings.data,
            table=table,
            op_graph=grappler_go.OpGraph,
            folder=data,
            on_graph=lambda: bar.update(1),
        )
    with tqdm.tqdm(unit="update") as bar:

        def progress(stage: str, step: int, steps: int) -> None:
            bar.set_description(stage)
            bar.total = steps
            bar.update(step - bar.n)

        pretrain.run(settings, examples, table=table, out=out, on_step=progress)
