"""The command that makes flow records with known truth: simulate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from prism_ch.cli.session import shared_options
from prism_ch.errors import InputError, UsageError


@click.command(short_help="Make flow records whose truth is known.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER")
@click.option("--tp", default=4, show_default=True, help="Tensor-parallel size, at most 8; stays inside a server.")
@click.option("--pp", default=4, show_default=True, help="Pipeline stages.")
@click.option("--dp", default=4, show_default=True, help="Data-parallel size.")
@click.option("--jobs", default=1, show_default=True, help="Equal jobs, each of another tenant.")
@click.option("--gpus", type=int, help="Size of the cluster, a multiple of 8.  [default: as many as the jobs take]")
@click.option("--step-s", default=2.0, show_default=True, help="About how long a step takes, in seconds.")
@click.option("--steps", type=int, help="About how many steps to record.  [default: as many as fit into 180 s]")
@click.option("--duration-s", type=float, help="How many seconds to record, in place of --steps.")
@click.option("--microbatches", default=8, show_default=True, help="Microbatches of a step.")
@click.option("--queue-pairs", default=1, show_default=True, help="Records that a message is divided over.")
@click.option("--overlap", is_flag=True, help="Reduce gradients in buckets, during the backward pass.")
@click.option(
    "--slow-gpu",
    type=(int, float, int, int),
    metavar="RANK FACTOR FIRST LAST",
    help="Let this rank of the first job compute FACTOR (> 1) times longer in steps FIRST to LAST.",
)
@click.option(
    "--slow-link",
    type=(int, int, float, float, float),
    metavar="RANK PEER FACTOR FROM TO",
    help="Leave the link RANK to PEER only FACTOR (< 1) of its bandwidth from second FROM to second TO.",
)
@click.option("--seed", default=0, show_default=True, help="The same seed makes the same records.")
@shared_options
def simulate(
    folder: Path,
    jobs: int,
    tp: int,
    pp: int,
    dp: int,
    gpus: int | None,
    **options: Any,
) -> None:
    """Make flow records of training jobs in a rail-optimised cluster, and their truth.

    FOLDER receives flows/*.parquet, topology.csv and truth/: jobs, members, pairs, groups, steps, phases, faults. The
    jobs are tensor x pipeline x data parallel, scheduled 1F1B, with the noise of real computing.

    \b
    Examples:
      prism-ch simulate sim
      prism-ch simulate sim --tp 8 --pp 2 --dp 8 --slow-gpu 5 2.5 20 35
      prism-ch run 'sim/flows/*.parquet' --topology sim/topology.csv
    """
    from pydantic import ValidationError

    from prism_ch.simulate import generate, textbook, write

    size = -(-jobs * tp * pp * dp // 8) * 8 if gpus is None else gpus
    try:
        simulation = generate(textbook(size, tp, pp, dp, jobs=jobs, **options))
        write(simulation, folder)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise UsageError(f"{wrong['loc'][-1]}: {wrong['msg']}, not {wrong['input']}") from None
    except OSError as error:
        raise InputError(f"{folder}: can't be written: {error.strerror}") from error
    click.echo(f"wrote {len(simulation.flows):,} flow records of {size} GPUs, topology and truth to {folder}")
    click.echo(f"analyse them: prism-ch run '{folder}/flows/*.parquet' --topology {folder}/topology.csv")
