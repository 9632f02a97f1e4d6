"""The alert rules, each with the reason for its numbers; their queries are in sql/alerts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prism_ch.assets import asset

#: What an alert becomes where its query answers with no row at all, or where Grafana can't ask.
State = Literal["OK", "Alerting", "NoData", "Error"]


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert rule: each row of its query is an alert of its own, with texts as labels and one number to judge."""

    #: File of the query in sql/alerts, and end of the rule's uid.
    name: str
    title: str
    severity: Literal["warning", "critical"]
    #: Fires where the number is above this, and stays so for `lasting_s`.
    above: float
    lasting_s: int
    #: How far back the query looks, in seconds.
    range_s: int
    no_data: State
    #: Whether tenants have the rule as well, on their own rows.
    is_for_tenants: bool
    #: Where to look: a dashboard's uid and the title of a panel in it.
    dashboard: str
    panel: str
    #: Texts of a notification, in Grafana's templates. Without a dollar sign: files and API would read it differently.
    summary: str
    description: str
    #: Label of all its alerts, also of the one that tells that there is no data; empty where the query tells the kind.
    kind: str = ""

    @property
    def uid(self) -> str:
        """Identity of the rule in each organisation."""
        return f"prism-{self.name.replace('_', '-')}"

    @property
    def sql(self) -> str:
        """The query, with the macros of the data source, without the comment on top."""
        lines = asset(f"sql/alerts/{self.name}.sql").read_text(encoding="utf-8").splitlines()
        begin = next(number for number, line in enumerate(lines) if not line.startswith("--"))
        return "\n".join(lines[begin:])


ALERTS = (
    Alert(
        name="job_slowed",
        title="Job slowed",
        kind="slowed",
        severity="warning",
        # Steps of a healthy job vary by 1 to 3 %, and the median of five by less: a tenth is no accident. A checkpoint
        # or an evaluation makes one step long, not three of five.
        above=0.1,
        lasting_s=120,
        # Five steps of 5 minutes, twice over.
        range_s=3600,
        # No job has taken five steps of late: nobody waits for a step.
        no_data="OK",
        is_for_tenants=True,
        dashboard="prism-job",
        panel="Step time against the usual",
        summary="Steps of job {{ .Labels.job }} take {{ humanizePercentage .Values.A.Value }} longer than usual",
        description=(
            "The median of its last five steps against that of all its steps. The findings on the job say what slows "
            "it."
        ),
    ),
    Alert(
        name="hang",
        title="Job hangs",
        kind="hang",
        severity="critical",
        # A finding has been confirmed by the analysis already.
        above=0,
        lasting_s=0,
        # A job that has hung for a week is known to those whom it concerns.
        range_s=7 * 86_400,
        # No job has been seen for a week.
        no_data="OK",
        is_for_tenants=True,
        dashboard="prism-job",
        panel="Findings",
        summary="Job {{ .Labels.job }} hangs: all its traffic has ceased in the middle of a step",
        description="The finding names the last collective that was not completed, and the endpoints that were in it.",
    ),
    Alert(
        name="critical_finding",
        title="Critical finding",
        severity="critical",
        above=0,
        lasting_s=0,
        # What is neither renewed nor closed for a day is of a job that is gone.
        range_s=86_400,
        # No critical finding all day: as it should be.
        no_data="OK",
        is_for_tenants=True,
        dashboard="prism-finding",
        panel="Verdict",
        summary="{{ .Labels.kind }} on {{ .Labels.subject }}, job {{ .Labels.job }}",
        description="Finding {{ .Labels.finding }} is critical and still lasts; the panel says what to do.",
    ),
    Alert(
        name="culprit_persisting",
        title="Culprit persists",
        severity="warning",
        # Minutes. Half an hour of a day is more than congestion and restarts of neighbours cause on healthy hardware.
        above=30,
        lasting_s=0,
        range_s=86_400,
        # Nobody is blamed for anything.
        no_data="OK",
        is_for_tenants=True,
        dashboard="prism-tenant",
        panel="Servers that cost most",
        summary=(
            "{{ .Labels.subject }} has been to blame for {{ humanize .Values.A.Value }} minutes ({{ .Labels.kind }})"
        ),
        description=(
            "It was named by findings of warning or worse in the last day, and again within the last hour: replace "
            "or drain it."
        ),
    ),
    Alert(
        name="exporter_silent",
        title="Exporter silent",
        kind="exporter_silent",
        severity="warning",
        # Seconds. Well beyond the longest usual active timeout (60 s) and the time that windows wait for it (120 s).
        above=300,
        lasting_s=0,
        # The service notes its measures every 15 seconds.
        range_s=600,
        # No service notes anything, which the rule on the pipeline tells, or records name no exporter.
        no_data="OK",
        is_for_tenants=False,
        dashboard="prism-pipeline",
        panel="Exporters",
        summary="Nothing has come from exporter {{ .Labels.exporter }} for {{ humanizeDuration .Values.A.Value }}",
        description=(
            "What crosses it is not seen: steps and findings of jobs behind it are missing or late. After a day of "
            "silence it counts as removed."
        ),
    ),
    Alert(
        name="pipeline_behind",
        title="Pipeline behind",
        kind="pipeline_behind",
        severity="critical",
        # Windows. While the newest are being worked, up to five wait.
        above=5,
        # A backfill of some size is worked in less.
        lasting_s=900,
        range_s=600,
        # No service has noted its measures for 10 minutes: none runs, or none reaches the database.
        no_data="Alerting",
        is_for_tenants=False,
        dashboard="prism-pipeline",
        panel="Windows behind",
        summary="The analysis is behind or has stopped; results are missing or old",
        description=(
            "Closed windows wait for longer than they should, or `prism-ch serve` has not noted its health for 10 "
            "minutes. `prism-ch doctor` says what is amiss."
        ),
    ),
    Alert(
        name="rejects_rising",
        title="Rejected records rising",
        kind="rejects_rising",
        severity="warning",
        # The share of records from which `prism-ch doctor` no longer takes it for an accident.
        above=0.01,
        lasting_s=0,
        # A day to compare with, and the quarter of an hour.
        range_s=90_000,
        # No record has ever been rejected, or no service runs, which the rule on the pipeline tells.
        no_data="OK",
        is_for_tenants=False,
        dashboard="prism-pipeline",
        panel="Records rejected, by reason",
        summary="{{ humanizePercentage .Values.A.Value }} of the records are rejected: {{ .Labels.reason }}",
        description=(
            "Of the last quarter of an hour, and more than twice the share of the day before. `flows_rejected` holds "
            "the records."
        ),
    ),
)
