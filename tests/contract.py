"""The tables that others' SQL may rely on, with their columns, and their content for comparison.

Run with the URL of a database, it prints the content as JSON.
"""

from __future__ import annotations

import json
import re
import sys

from prism_ch.store.client import Store, connect

_KINDS = (
    "slow_step, slow_group, slow_switch, slow_gpu, slow_nic, slow_link, congestion, stall, hang, restart, imbalance,"
    " telemetry"
)

#: The columns of each table in order, each with its type; an Enum by its names. Columns behind the bar were added to
#: the first version.
_PROMISE = {
    "jobs": (
        "job_id String; tenant String; status Enum(running, stalled, ended); first_seen DateTime64(9);"
        " last_seen DateTime64(9); endpoints UInt32; servers UInt32; dp_size UInt32; pp_size UInt32; steps UInt64;"
        " step_s_median Float64"
    ),
    "job_members": (
        "job_id String; endpoint String; server String; gpu UInt8; dp_group UInt32; pp_stage UInt32;"
        " first_seen DateTime64(9); last_seen DateTime64(9)"
    ),
    "pairs": (
        "job_id String; src_addr String; dst_addr String; kind Enum(DP, PP, EP, CP, TP, other); confidence Float64;"
        " flows UInt64; bytes UInt64; first_seen DateTime64(9); last_seen DateTime64(9)"
    ),
    "groups": "job_id String; group_id UInt32; kind Enum(DP, PP, EP, CP, TP); pp_stage UInt32; members Array(String)",
    "steps": (
        "job_id String; tenant String; step UInt64; start_time DateTime64(9); end_time DateTime64(9);"
        " duration_s Float64; compute_s Float64; pp_s Float64; dp_s Float64;"
        " slowest_endpoint String; slowest_endpoints Array(String) | complete UInt8"
    ),
    "gpu_steps": (
        "job_id String; tenant String; endpoint String; step UInt64; start_time DateTime64(9);"
        " end_time DateTime64(9); duration_s Float64; compute_s Float64; pp_s Float64; dp_s Float64 | complete UInt8;"
        " idle_s Nullable(Float64); bubble_s Nullable(Float64)"
    ),
    "timeline": (
        "job_id String; endpoint String; step UInt64; phase Enum(compute, PP, DP, EP, CP, TP);"
        " start_time DateTime64(9); end_time DateTime64(9)"
    ),
    "diagnoses": (
        f"diagnosis_id String; job_id String; tenant String; kind Enum({_KINDS});"
        " subject_type Enum(job, group, endpoint, server, switch, link, exporter); subject String;"
        " first_step UInt64; last_step UInt64; start_time DateTime64(9); end_time DateTime64(9);"
        " status Enum(open, closed); severity Enum(info, warning, critical); observed Float64; expected Float64;"
        " score Float64; slowdown Float64; summary String; evidence String; incident_id String; confidence Float64"
    ),
    "incidents": (
        f"incident_id String; kind Enum({_KINDS});"
        " subject_type Enum(job, group, endpoint, server, switch, link, exporter, stage); subject String;"
        " may_also_be Array(String); confidence Float64; start_time DateTime64(9); end_time DateTime64(9);"
        " status Enum(open, closed); severity Enum(info, warning, critical); jobs Array(String);"
        " tenants Array(String); gpus UInt32; lost_gpu_h Float64; slowdown Float64; summary String; action String"
        " | jobs_lost_s Array(Float64); jobs_gpus Array(UInt32)"
    ),
    "diagnosed_steps": (
        "job_id String; tenant String; step UInt64; start_time DateTime64(9); end_time DateTime64(9);"
        " duration_s Float64; findings UInt32; severity LowCardinality(String); kinds Array(String);"
        " diagnosis_ids Array(String); summaries Array(String)"
    ),
    "losses": (
        f"job_id String; tenant String; cause Enum({_KINDS}); findings UInt64; open_findings UInt64;"
        " first_time DateTime64(9); last_time DateTime64(9); lost_s Float64; gpu_hours_lost Float64"
        " | interruptions UInt64; gap_s Float64; members_before UInt32; members_after UInt32"
    ),
    "tenant_summary": (
        "tenant String; jobs UInt64; running_jobs UInt64; gpus UInt64; steps UInt64; gpu_hours Float64;"
        " gpu_hours_lost Float64; findings UInt64; open_findings UInt64; worst_open LowCardinality(String)"
    ),
    "visibility": (
        "job_id String; tenant String; window_start DateTime64(9); endpoints UInt32; endpoints_seen UInt32;"
        " share Float64; why String"
    ),
    "what_if": (
        "job_id String; tenant String; incident_id String; without String; first_step UInt64; last_step UInt64;"
        " actual_s Float64; replayed_s Float64; without_s Float64; saved_gpu_h Float64"
    ),
    "exporters": (
        "exporter String; first_seen DateTime64(9); last_seen DateTime64(9); flows UInt64; lag_s Float64;"
        " clock_offset_s Nullable(Float64); idle_timeout_s Nullable(Float64); lost UInt64"
        " | active_timeout_s Nullable(Float64)"
    ),
    "flows": (
        "time_flow_start_ns Int64; time_flow_end_ns Int64; src_addr LowCardinality(String);"
        " dst_addr LowCardinality(String); src_port UInt16; dst_port UInt16; proto UInt8; bytes UInt64;"
        " packets UInt64; sampler_address LowCardinality(String); sampling_rate UInt32;"
        " path Array(LowCardinality(String)) | received_at DateTime64(3, 'UTC'); sample UInt64"
    ),
    "flows_rejected": (
        "received_at DateTime64(3, 'UTC'); source LowCardinality(String); reason LowCardinality(String);"
        " record String | position UInt64"
    ),
    "windows": (
        "window_start DateTime64(9); window_end DateTime64(9); flows UInt64; late_flows UInt64;"
        " worked_at DateTime64(3); attempts UInt32; status Enum(worked, failed, partial); error String"
    ),
}

#: Columns that depend on when and how often windows were analysed, and from where records came.
VOLATILE = {
    "exporters": {"lag_s"},
    "flows": {"received_at"},
    "flows_rejected": {"received_at", "source", "position"},
    "windows": {"late_flows", "worked_at", "attempts"},
}

#: Tables of sums of floating-point numbers, whose last digit depends on the order in which parts are read.
_SUMS = ("losses", "tenant_summary")

#: The analysis's results: tables that are the same whichever way the same records came in.
RESULTS = (
    *("jobs", "job_members", "pairs", "groups", "steps", "gpu_steps", "timeline"),
    *("diagnoses", "incidents", "visibility"),
)

Columns = dict[str, str]
Snapshot = dict[str, list[str]]


def _parse_columns(columns: str) -> Columns:
    return {name: kind.strip() for name, kind in re.findall(r"(\w+) ([^;]+)", columns)}


#: Columns with their types, by table.
PROMISED = {table: _parse_columns(columns.partition("|")[0]) for table, columns in _PROMISE.items()}
ADDED = {table: _parse_columns(columns.partition("|")[2]) for table, columns in _PROMISE.items()}


def columns(store: Store, table: str) -> Columns:
    """Return the columns of a table with their types, an Enum by its names."""
    described = store.rows("DESCRIBE TABLE {table:Identifier}", {"table": table})
    return {row[0]: re.sub(r"'(\w+)' = -?\d+", r"\1", row[1]).replace("Enum8(", "Enum(") for row in described}


def snapshot(store: Store, *tables: str) -> Snapshot:
    """Return the rows of tables, by default all, as sorted text.

    Times are to the nanosecond, and volatile columns are left out.
    """
    return {table: _rows(store, table) for table in tables or tuple(PROMISED)}


def _rows(store: Store, table: str) -> list[str]:
    columns = PROMISED[table] | ADDED[table]
    kept = [name for name in columns if name not in VOLATILE.get(table, ())]
    if table in _SUMS:
        kept = [f"round({name}, 9)" if columns[name] == "Float64" else name for name in kept]
    text = store.raw(f"SELECT {', '.join(kept)} FROM {table} ORDER BY ALL", fmt="TSV")  # noqa: S608 (our own names)
    return text.decode().splitlines()


if __name__ == "__main__":
    with connect(sys.argv[1]) as opened:
        print(json.dumps(snapshot(opened)))  # noqa: T201 (another process reads it)
