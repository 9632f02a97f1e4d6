"""How long a report and the pages at `/` take, and how large the report is.

Part of `make bench`. The report is of a made-up job of 2,880 GPUs (sql/examples/data.sql). The pages are of 40 jobs
over a week: 2.3 million steps, the revisions of each window, and 20 incidents a job; a client asks over HTTP, and the
time to the first byte counts.
"""

from __future__ import annotations

import argparse
import http.client
import statistics
import tempfile
import time
from base64 import b64encode
from contextlib import closing
from pathlib import Path

from bench import example_data
from prism_ch.report.ask import AskStore
from prism_ch.report.document import Subject, write_report
from prism_ch.serve.http import application, listening
from prism_ch.serve.pages import Pages
from prism_ch.serve.sql import SqlEndpoint
from prism_ch.serve.users import hash_password
from prism_ch.settings import ServeSettings
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from prism_ch.store.statements import split_statements

#: Bounds on the report of 2,880 GPUs, and on the 95th percentile to the first byte of the page at `/`.
REPORT_S, REPORT_BYTES, FIRST_BYTE_S = 5.0, 2_000_000, 0.150

_PASSWORD = "of-the-bench"  # noqa: S105 - of a server that ends with this process


def fill_week(store: Store, jobs: int, windows: int) -> None:
    """Write what a number of jobs leaves in a number of windows of a minute."""
    for text in split_statements(Path(__file__).with_name("week.sql").read_text(encoding="utf-8")):
        sizes = {"jobs": jobs, "windows": windows}
        store.command(text, {name: size for name, size in sizes.items() if f"{{{name}:" in text})


def main() -> None:
    """Fill databases in temporary folders, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=2880, help="of the job in the report (default: 2880)")
    parser.add_argument("--jobs", type=int, default=40, help="on the page (default: 40)")
    parser.add_argument("--windows", type=int, default=10_080, help="of a minute each (default: 10080, a week)")
    parser.add_argument("--repeats", type=int, default=200, help="how often the page is asked (default: 200)")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="prism-ch-bench-") as folder,
        connect(f"chdb://{folder}?database=a") as store,
    ):
        migrate(store)
        example_data.fill(store, chosen.gpus, 1000)
        _measure_report(store, chosen.gpus)
        with connect(f"chdb://{folder}?database=b") as week:
            migrate(week)
            fill_week(week, chosen.jobs, chosen.windows)
            _measure_pages(week, Path(folder), chosen.jobs, chosen.windows, chosen.repeats)


def _measure_report(store: Store, gpus: int) -> None:
    times, page = [], ""
    for _ in range(5):
        began = time.perf_counter()
        page = write_report(AskStore(store), Subject(job_id="job-one"))
        times.append(time.perf_counter() - began)
    size = len(page.encode())
    print(f"Report of {gpus:,} GPUs: {max(times):.2f} s at most of 5, {size / 1e6:.2f} MB")
    print(f"  bound {REPORT_S:.0f} s: {_kept(max(times) <= REPORT_S)}")
    print(f"  bound {REPORT_BYTES / 1e6:.0f} MB: {_kept(size <= REPORT_BYTES)}")


def _measure_pages(store: Store, folder: Path, jobs: int, windows: int, repeats: int) -> None:
    users = {
        "bench": {"password": hash_password(_PASSWORD), "role": "operator"},
        "tenant": {"password": hash_password(_PASSWORD), "role": "tenant", "tenant": "tenant-1"},
    }
    settings = ServeSettings.model_validate({"users": users, "requests_per_minute": 1_000_000})
    with (
        closing(SqlEndpoint(store, folder, settings)) as sql,
        closing(Pages(sql)) as pages,
        listening(application(list, list, sql, pages), "127.0.0.1", 0) as port,
    ):
        print(f"Pages of {jobs} jobs and {windows / 1440:.1f} days, to the first byte:")
        for user, path in (
            ("bench", "/"),
            ("tenant", "/"),
            ("bench", "/job?id=job-7"),
            ("bench", "/incident?id=incident-39"),
        ):
            began_s = time.process_time()
            times = _first_bytes_s(port, user, path, repeats)
            cpu_s = (time.process_time() - began_s) / len(times)
            p95 = statistics.quantiles(times, n=20)[-1]
            bound = f", bound {FIRST_BYTE_S * 1e3:.0f} ms: {_kept(p95 <= FIRST_BYTE_S)}" if path == "/" else ""
            taken = f"median {statistics.median(times) * 1e3:.0f} ms, p95 {p95 * 1e3:.0f} ms, CPU {cpu_s * 1e3:.0f} ms"
            print(f"  {path:26} as {user:7} {taken}{bound}")


def _first_bytes_s(port: int, user: str, path: str, repeats: int) -> list[float]:
    """Ask for a page again and again; return the seconds to each first byte."""
    login = "Basic " + b64encode(f"{user}:{_PASSWORD}".encode()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    times = []
    for _ in range(repeats + 5):
        began = time.perf_counter()
        connection.request("GET", path, headers={"Authorization": login, "Accept": "text/html"})
        with connection.getresponse() as answer:
            times.append(time.perf_counter() - began)
            assert answer.status == 200, answer.read()
            answer.read()
    connection.close()
    return times[5:]


def _kept(is_kept: bool) -> str:
    return "ok" if is_kept else "MISSED"


if __name__ == "__main__":
    main()
