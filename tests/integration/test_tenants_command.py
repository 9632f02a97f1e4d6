"""What `prism-ch sql --tenant`, its pages and `prism-ch tenants apply` print and refuse."""

import pytest

from bench import example_data
from prism_ch.cli import main
from prism_ch.store.client import Store
from prism_ch.store.statements import split_statements


@pytest.fixture
def url(store: Store, store_url: str) -> str:
    """URL of a database with two tenants' jobs."""
    example_data.fill(store, 8, 500)
    return store_url


def test_a_tenants_jobs_are_listed_alone(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "SELECT job_id FROM jobs", "--tenant", "product", "--url", url]) == 0
    assert capfd.readouterr().out.split() == ["job_id", "job-two"]


def test_a_tenant_can_not_name_the_flows(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "SELECT count() FROM flows", "--tenant", "product", "--url", url]) == 2
    assert "the table flows is not offered; a tenant can read" in capfd.readouterr().err


def test_a_page_is_cut_from_the_result(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = "SELECT step FROM steps WHERE job_id = 'job-one' ORDER BY step"
    assert main(["sql", text, "--rows", "2", "--first-row", "7", "--format", "csv", "--url", url]) == 0
    assert capfd.readouterr().out.split() == ['"step"', "7", "8"]


def test_apply_says_what_to_do_on_the_embedded_engine(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["tenants", "apply", "--url", url]) == 2
    assert "prism-ch sql --tenant NAME" in capfd.readouterr().err


def test_apply_prints_what_it_would_run(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["tenants", "apply", "--print", "--url", url]) == 0
    statements = split_statements(capfd.readouterr().out)
    assert [sql.split("`")[1] for sql in statements if sql.startswith("CREATE USER")] == [
        "prism_user_product",
        "prism_user_research",
    ]
