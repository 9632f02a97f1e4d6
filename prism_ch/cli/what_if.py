"""The command that replays a job's steps: what-if."""

from __future__ import annotations

from typing import Any

import click

from prism_ch.cli.questions import answer_options, ask
from prism_ch.cli.session import Session, pass_session, shared_options
from prism_ch.cli.terminal import progress
from prism_ch.errors import UsageError


@click.command("what-if", short_help="What a job's steps would take without something slow.")
@click.argument("job", metavar="[JOB]", default="")
@click.option("--without", "removed", metavar="SUBJECT", multiple=True, help="As its peers; may be given again.")
@click.option("--balanced", is_flag=True, help="With all pipeline stages computing for equally long.")
@click.option(
    "--slower",
    nargs=2,
    type=(str, click.FloatRange(min=0, min_open=True)),
    metavar="SUBJECT X",
    help="Taking X times as long.",
)
@answer_options
@shared_options
@pass_session
def what_if(
    session: Session,
    /,
    job: str,
    removed: tuple[str, ...],
    *,
    balanced: bool,
    slower: tuple[str, float] | None,
    **options: Any,
) -> None:
    """Replay a job's steps, and show what they would take.

    Without JOB: the share of GPU time that stragglers cost, of all jobs together and of each, and how much of it the
    worst 1, 3 and 10 workers explain. With JOB alone: what each incident cost it, and stragglers. Both over all steps
    that windows replayed: they do unless `replay = false`. With --without, --balanced or --slower: the job's last
    window, replayed from its flows with an endpoint, server, leaf or link `a->b` as its peers, with balanced stages, or
    with something that takes X times as long.

    How far to trust it: a replay with nothing changed gives actual_s by construction, so that replayed_s is no measure
    of error; `make accuracy ARGS='--parts replay'` prints how far without_s is from the same run without its fault.

    \b
    Examples:
      prism-ch what-if
      prism-ch what-if job-1f0a6c
      prism-ch what-if job-1f0a6c --without 10.16.0.13
      prism-ch what-if job-1f0a6c --balanced
      prism-ch what-if job-1f0a6c --slower server-00003 1.3
    """
    chosen = bool(removed) + balanced + (slower is not None)
    if chosen > 1:
        raise UsageError("give --without, --balanced or --slower, not several of them")
    if chosen and not job:
        raise UsageError("name the JOB to replay; `prism-ch jobs` lists them")
    if not chosen:
        if not session.settings().replay:
            click.echo(
                "windows replay nothing with replay = false: leave it out, or ask with --without, --balanced, --slower",
                err=True,
            )
        ask(session, "list_what_if" if job else "list_stragglers", {"job_id": job}, **options)
        return
    from prism_ch.worker import Change, replay_job

    with session.store() as store, progress("replaying"):
        found = replay_job(
            store, session.settings(), job, Change(removed, balanced, slower), tenant=options.get("tenant")
        )
    names = ("without", "first_step", "last_step", "actual_s", "replayed_s", "without_s", "saved_gpu_h")
    ask(session, "show_what_if", {name: str(getattr(found, name)) for name in names}, **options)
