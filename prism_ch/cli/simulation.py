"""The command that makes flow records with known truth: simulate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prism_ch.cli.session import shared_options
from prism_ch.errors import InputError, UsageError

if TYPE_CHECKING:
    from prism_ch.simulate import Scenario, Simulation

#: The longest recording, in seconds: a week has tens of millions of records even for a small job.
_LONGEST_S = 7 * 86_400


def _known(context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    """Return a known name; print all of them and end for `list`."""
    if name is None or context.resilient_parsing:
        return name
    from prism_ch.simulate.families import CONDITIONS, FAMILIES

    names = list(FAMILIES if option.name == "family" else CONDITIONS)
    if name == "list":
        click.echo("\n".join(names))
        context.exit()
    if name not in names:
        raise UsageError(f"no {option.name} {name!r}; `prism-ch simulate --{option.name} list` shows them")
    return name


@click.command(short_help="Make flow records whose truth is known.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER")
@click.option(
    "--family",
    metavar="NAME",
    is_eager=True,
    callback=_known,
    help="Draw the jobs, their cluster and other traffic from this family; `list` shows all.",
)
@click.option(
    "--condition", metavar="NAME", is_eager=True, callback=_known, help="How records are taken; `list` shows all."
)
@click.option(
    "--fault",
    "faults",
    type=(str, str, str, str, str),
    multiple=True,
    metavar="KIND SUBJECT MAGNITUDE FROM_S TO_S",
    help="Make something slow, as described above; may be repeated.",
)
@click.option(
    "--silence",
    "silences",
    type=(str, float, str),
    multiple=True,
    metavar="EXPORTERS FROM_S TO_S",
    help="Lose all records of these exporters, as described above; may be repeated.",
)
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
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The same seed makes the same records."
)
@click.option("--force", is_flag=True, help="Replace the recording that is in FOLDER.")
@shared_options
def simulate(
    folder: Path,
    *,
    force: bool,
    family: str | None,
    condition: str | None,
    faults: tuple[tuple[str, ...], ...],
    silences: tuple[tuple[str, float, str], ...],
    **options: Any,
) -> None:
    """Make flow records of training jobs, and their truth.

    FOLDER receives flows/*.parquet, topology.csv and truth/: jobs, members, pairs, groups, steps, phases, faults.
    Without --family the jobs are tensor x pipeline x data parallel in a rail-optimised cluster, scheduled 1F1B, with
    the noise of real computing. With it, --seed, --duration-s, --condition, --fault and --silence are all there is to
    choose.

    --fault slows SUBJECT from second FROM_S of the recording to second TO_S (- for its end):

    \b
    KIND         SUBJECT   MAGNITUDE
    slow_gpu     GPU       computing takes this many times as long (> 1)
    slow_drift   GPU       the same, reached slowly until TO_S; it stays
    slow_stage   JOB/stage/N  computing takes as long on all of its GPUs
    hang         GPU       -; it never ends: TO_S is - as well
    slow_nic     GPU       share of the bandwidth left (< 1), both directions
    slow_link    GPU->GPU  share of the bandwidth left, in this direction
    slow_switch  leaf      share of the bandwidth left, on all of its ports
    slow_spine   spine     the same; flows between leaves cross one, by port
    slow_uplink  LEAF->SPINE  share of the bandwidth left, in this direction

    A GPU is a number from 0, SERVER/GPU, or its endpoint's address; names are those of topology.csv.

    --silence leaves out the records of EXPORTERS that end from second FROM_S to second TO_S (- for its end):
    `all`, or addresses of switches with commas between.

    \b
    Examples:
      prism-ch simulate sim
      prism-ch simulate sim --tp 8 --pp 2 --dp 8 --slow-gpu 5 2.5 20 35
      prism-ch simulate --family list
      prism-ch simulate sim --family zero3 --seed 7 --condition loss-2%
      prism-ch simulate sim --fault slow_gpu 5 1.5 40 80 --fault hang server-00003/2 - 120 -
      prism-ch simulate sim --fault slow_link '10.16.0.2->10.16.0.1' 0.2 40 -
      prism-ch run 'sim/flows/*.parquet' --topology sim/topology.csv
    """
    from pydantic import ValidationError

    from prism_ch.simulate import generate, write
    from prism_ch.simulate.subjects import read_fault

    old = _recording_in(folder, may_be_replaced=force)
    try:
        scenario = _textbook(**options) if family is None else _drawn(family, **options)
        if scenario.duration_s > _LONGEST_S:
            raise UsageError(f"a recording lasts at most {_LONGEST_S:,} s, not {scenario.duration_s:,.0f}")
        scenario = _observed(scenario, condition, silences)
        added = tuple(read_fault(words, scenario) for words in faults)
        simulation = generate(replace(scenario, faults=scenario.faults + added))
        write(simulation, folder, instead_of=old)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise UsageError(f"{wrong['loc'][-1]}: {wrong['msg']}, not {wrong['input']}") from None
    except OSError as error:
        raise InputError(f"{folder}: can't be written: {error.strerror}") from error
    gpus = scenario.cluster.servers * scenario.cluster.gpus
    click.echo(f"wrote {len(simulation.flows):,} flow records of {gpus} GPUs, topology and truth to {folder}")
    for line in _effects(simulation, len(added)):
        click.echo(line)
    click.echo(f"analyse them: prism-ch run '{folder}/flows/*.parquet' --topology {folder}/topology.csv")


def _recording_in(folder: Path, *, may_be_replaced: bool) -> list[Path]:
    """List the files of a recording in a folder. They are what this command writes, and nothing else.

    Raises UsageError if there are some that may not be replaced.
    """
    parts = ("topology.csv", "flows/part-*.parquet", "truth/*")
    found = [file for part in parts for file in sorted(folder.glob(part))]
    if found and not may_be_replaced:
        raise UsageError(f"{folder} holds a recording already, {found[0].name} in it; give another folder, or --force")
    return found


def _observed(scenario: Scenario, condition: str | None, silences: tuple[tuple[str, float, str], ...]) -> Scenario:
    """Choose how the records of a scenario are taken. Raises UsageError for unknown exporters."""
    from prism_ch.simulate.families import CONDITIONS
    from prism_ch.simulate.subjects import read_silence

    if condition is not None:
        path = scenario.observation.path or CONDITIONS[condition].path
        scenario = replace(scenario, observation=replace(CONDITIONS[condition], path=path))
    if silences:
        unseen = tuple(read_silence(words, scenario) for words in silences)
        scenario = replace(scenario, observation=replace(scenario.observation, silences=unseen))
    return scenario


def _textbook(jobs: int, tp: int, pp: int, dp: int, gpus: int | None, **options: Any) -> Scenario:
    from prism_ch.simulate import textbook

    size = -(-jobs * tp * pp * dp // 8) * 8 if gpus is None else gpus
    return textbook(size, tp, pp, dp, jobs=jobs, **options)


def _drawn(family: str, *, seed: int, duration_s: float | None, **others: Any) -> Scenario:
    """Draw a scenario of a family. Raises UsageError if one of the other options is given."""
    from prism_ch.simulate.families import FAMILIES

    context = click.get_current_context()
    for name in others:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise UsageError(f"--{name.replace('_', '-')} goes without --family, which draws its jobs by itself")
    scenario = FAMILIES[family](seed)
    return scenario if duration_s is None else replace(scenario, duration_s=duration_s)


def _effects(simulation: Simulation, count: int) -> Iterator[str]:
    """Describe what the last `count` faults cost, one line each."""
    rows = [row for row in simulation.truth["faults"].to_pylist() if row["kind"] != "silence"]
    for row in rows[len(rows) - count :]:
        if not row["effective"]:
            cost = "slows no job"
        elif row["kind"] == "hang":
            cost = f"stops {row['job_id']}"
        else:
            cost = f"steps of {row['job_id']} take {row['impact']:.0%} longer"
        yield f"{row['fault_id']}: {row['kind']} {row['subject']}: {cost}"
