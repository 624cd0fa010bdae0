"""compose.yaml: what it starts are programs that are there, with options that they have."""

import os
import re
import subprocess

import pytest
import yaml

from data.params import SCHEDULER, STORAGE
from tests.imports import ROOT

#: What this project uses of the Compose Specification.
KEYS = {
    "build", "cap_drop", "command", "configs", "depends_on", "entrypoint", "environment", "healthcheck",
    "image", "ports", "profiles", "read_only", "restart", "security_opt", "tmpfs", "volumes",
}  # fmt: skip


@pytest.fixture(scope="module")
def content():
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def test_services_name_only_existing_volumes_and_configs(content):
    services = content["services"]
    assert {key for one in services.values() for key in one} <= KEYS
    for one in services.values():
        assert set(one.get("depends_on", ())) <= services.keys()
        assert {config["source"] for config in one.get("configs", ())} <= content["configs"].keys()
        named = {volume.partition(":")[0] for volume in one.get("volumes", ())}
        assert named <= {".", *content["volumes"]}
    hosts = set(re.findall(r"(?://|@)([a-z0-9]+)(?::\d|/)", (ROOT / "compose.yaml").read_text()))
    assert hosts == {"mlflow", "postgres", "s3", "scheduler"}
    databases = set(re.findall(r"@postgres/(\w+)", str(content)))
    assert databases == set(re.findall(r"DATABASE (\w+);", content["configs"]["databases"]["content"]))
    assert {SCHEDULER, STORAGE} <= content["x-environment"].keys()


@pytest.mark.parametrize("service", ["mlflow", "scheduler", "worker"])
def test_a_service_is_started_with_known_options(content, service, preloaded_programs):
    program, what, *given = content["services"][service]["command"]
    command = [preloaded_programs / "python", "-m", program, what, "--help"]
    environment = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"}
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    options = [option.partition("=")[0] for option in given if option.startswith("--")]
    assert options
    assert [option for option in options if not re.search(rf"{option}\b", said)] == []
