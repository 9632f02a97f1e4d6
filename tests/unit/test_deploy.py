"""What deploy/ ships fits together: services, files, names of cluster, topics and collections."""

import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

from prism_ch.cli.root import cli
from prism_ch.grafana.alerts import DATASOURCE_TYPE
from prism_ch.store.url import ServerLocation, parse_url

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert isinstance(compose["services"], dict)
    return compose["services"]


@pytest.fixture(scope="module")
def volumes() -> set[str]:
    return set(yaml.safe_load((DEPLOY / "compose.yaml").read_text())["volumes"])


def xml(path: str) -> ET.Element:
    return ET.parse(DEPLOY / path).getroot()  # noqa: S314 - a file of ours


def text(root: ET.Element, path: str) -> str:
    found = root.find(path)
    assert found is not None, path
    assert found.text, path
    return found.text


def url(services: dict[str, Any]) -> ServerLocation:
    """Return what prism-ch connects to, with a password in the place of the variable."""
    given = re.sub(r"\$\{[^}]*\}", "secret", services["prism-ch"]["environment"]["PRISM_CH_URL"])
    location = parse_url(given)
    assert isinstance(location, ServerLocation)
    return location


def test_images_are_pinned(services: dict[str, Any]) -> None:
    built = {service["image"] for service in services.values() if "build" in service}
    for name, service in services.items():
        assert service["image"] in built or re.fullmatch(r"[\w./-]+:v?\d+(\.\d+)+", service["image"]), name


def test_services_wait_for_existing_ones_and_have_health_checks(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for other, wait in service.get("depends_on", {}).items():
            assert other in services, name
            assert wait["condition"] != "service_healthy" or "healthcheck" in services[other], (name, other)


def test_mounted_files_and_volumes_exist(services: dict[str, Any], volumes: set[str]) -> None:
    used = set()
    for name, service in services.items():
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), (name, mount)
            elif not source.startswith("${"):
                used.add(source)
    assert used == volumes


def test_every_variable_is_in_the_example_and_has_no_default() -> None:
    used = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
    offered = set(re.findall(r"^(\w+)=", (DEPLOY / ".env.example").read_text(), re.MULTILINE))
    assert used == offered
    assert not re.search(r"\$\{\w+(?!:\?)[^?}]*\}", (DEPLOY / "compose.yaml").read_text())


def test_only_the_collector_listens_beyond_this_machine(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:") or (name == "goflow2" and port.endswith("/udp")), (name, port)


def test_prism_ch_connects_to_the_cluster_that_is_configured(services: dict[str, Any]) -> None:
    location, cluster = url(services), xml("clickhouse/cluster.xml")
    assert location.cluster in {shards.tag for shards in cluster.findall("remote_servers/*")}
    hosts = [host.text for host in cluster.iter("host")]
    assert location.host in hosts
    assert {host for host in hosts if host} <= services.keys()
    assert location.user == services["clickhouse"]["environment"]["CLICKHOUSE_USER"]
    assert location.user == text(cluster, f"remote_servers/{location.cluster}/shard/replica/user")


def test_macros_come_from_variables_that_the_server_is_given(services: dict[str, Any]) -> None:
    cluster = xml("clickhouse/cluster.xml")
    wanted = {element.get("from_env") for element in cluster.iter() if element.get("from_env")}
    assert wanted <= services["clickhouse"]["environment"].keys()
    assert {macro.tag for macro in cluster.findall("macros/*")} == {"shard", "replica"}


def test_keeper_is_where_the_server_looks_for_it() -> None:
    cluster, keeper = xml("clickhouse/cluster.xml"), xml("keeper/keeper.xml")
    assert text(cluster, "zookeeper/node/host") == text(keeper, "keeper_server/raft_configuration/server/hostname")
    assert text(cluster, "zookeeper/node/port") == text(keeper, "keeper_server/tcp_port")
    assert text(keeper, "keeper_server/tcp_port") in yaml.safe_dump(
        yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["keeper"]["healthcheck"]
    )


def test_flows_of_the_collector_reach_the_table_that_reads_them(services: dict[str, Any]) -> None:
    flags = dict(flag.lstrip("-").split("=", 1) for flag in services["goflow2"]["command"])
    stream = services["migrate"]["command"][-1]
    sql = (ROOT / "sql" / "kafka" / f"{stream}.sql").read_text()
    assert f"kafka_topic_list = '{flags['transport.kafka.topic']}'" in sql
    (collection,) = re.findall(r"ENGINE = Kafka\((\w+)\)", sql)
    brokers = text(xml("clickhouse/kafka.xml"), f"named_collections/{collection}/kafka_broker_list")
    assert brokers == flags["transport.kafka.brokers"]
    assert brokers in services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]


def test_grafana_is_provisioned_with_a_database_user_that_exists(services: dict[str, Any]) -> None:
    apply, users = services["grafana-apply"], xml("clickhouse/grafana.xml")
    environment = apply["environment"]
    (user,) = users.findall("users/*")
    assert environment["PRISM_CH_GRAFANA_DATABASE_USER"] == user.tag
    assert environment["PRISM_CH_GRAFANA_URL"] == "http://grafana:3000"
    assert environment["PRISM_CH_URL"] == services["prism-ch"]["environment"]["PRISM_CH_URL"]
    given = services["grafana"]["environment"]["GF_SECURITY_ADMIN_PASSWORD"]
    assert environment["PRISM_CH_GRAFANA_PASSWORD"] == given
    assert services["grafana"]["environment"]["GF_PLUGINS_PREINSTALL"] == DATASOURCE_TYPE
    password = users.find(f"users/{user.tag}/password")
    assert password is not None
    (mounted,) = apply["configs"]
    assert mounted["target"] == environment["PRISM_CH_GRAFANA_PASSWORDS"]
    configs = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["configs"]
    passwords = tomllib.loads(configs[mounted["source"]]["content"])
    assert passwords == {user.tag: services["clickhouse"]["environment"][password.get("from_env", "")]}
    assert text(users, f"users/{user.tag}/profile") in {profile.tag for profile in users.findall("profiles/*")}


def test_commands_exist(services: dict[str, Any]) -> None:
    for name in ("migrate", "topology", "prism-ch", "grafana-apply"):
        assert services[name]["command"][0] in cli.commands


def test_the_page_names_commands_that_exist(services: dict[str, Any]) -> None:
    page = (DEPLOY / "README.md").read_text()
    named = re.findall(r"\bprism-ch ([a-z-]+)(?: ([a-z]+))?", page)
    assert {"tenants", "grafana", "doctor", "serve"} <= {name for name, _ in named} & cli.commands.keys()
    run = re.findall(r"docker compose (?:exec|run)(?: --rm)?(?: -T)? ([a-z-]+)", page)
    assert {*run} <= services.keys()
    (variable,) = set(re.findall(r'--password "\$(\w+)"', page))
    assert variable in services["clickhouse"]["environment"]
    assert f"--user {services['clickhouse']['environment']['CLICKHOUSE_USER']} " in page


def test_the_image_copies_what_exists() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert copied
    for names in copied:
        for name in names.split():
            assert (ROOT / name).exists(), name
