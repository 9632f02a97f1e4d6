"""A failed request to Grafana becomes one line that says what to do, and shows no secret."""

import re

import niquests
import pytest
from grafana_client.client import GrafanaClientError, GrafanaServerError, GrafanaTimeoutError
from pydantic import SecretStr

from prism_ch.errors import SettingsError
from prism_ch.grafana.client import Grafana
from prism_ch.settings import GrafanaSettings

SETTINGS = GrafanaSettings(url="https://host:1/graf", password=SecretStr("gr4f-pw"))


@pytest.mark.parametrize(
    "error, complaint",
    [
        (GrafanaTimeoutError(0, None, "slow"), "has not answered for 30 s; try again"),
        (GrafanaClientError(401, {}, "no"), "does not let user admin in"),
        (GrafanaClientError(403, {"message": "no"}, "no"), r"refused \(403\): no; user admin needs the role Admin"),
        (GrafanaClientError(409, {"message": "taken"}, "no"), r"refused \(409\): taken; someone else"),
        (GrafanaClientError(412, {"message": "stale"}, "no"), "someone else has changed it meanwhile; try again"),
        (
            GrafanaServerError(500, "<html> gr4f-pw d4ta-pw", "no"),
            r"refused \(500\): <html> \*\*\* \*\*\*; see Grafana's",
        ),
        (niquests.exceptions.TooManyRedirects(), "redirects elsewhere"),
        (niquests.exceptions.ConnectionError("gr4f-pw"), r"can't be reached \(\*\*\*\)"),
    ],
)
def test_error_explained_without_secrets(error: Exception, complaint: str) -> None:
    with Grafana(SETTINGS, [SecretStr("d4ta-pw")]) as grafana:
        explained = str(grafana.explain(error))
    assert explained.startswith("Grafana at https://host:1/graf ")
    assert "-pw" not in explained
    assert re.search(complaint, explained)


def test_client_refused_without_password_and_token() -> None:
    with pytest.raises(SettingsError, match="PRISM_CH_GRAFANA_PASSWORD"):
        Grafana(GrafanaSettings())
