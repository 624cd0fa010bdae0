"""The image of the server and compose.yaml: they agree, steps run in a chroot, and options are known."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from data.params import SCHEDULER, STORAGE
from tests.imports import ROOT
from tests.system.conftest import output_of


@pytest.fixture(scope="module")
def instructions():
    """The arguments of each instruction of the Dockerfile, by its name."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    lines = [line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    assert len({name for name, _ in lines}) == len(lines)
    return dict(lines)


@pytest.fixture(scope="module")
def content():
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def health_check(instructions):
    return json.loads(instructions["HEALTHCHECK"].partition("CMD ")[2])


def entry(instructions):
    return json.loads(instructions["ENTRYPOINT"]) + json.loads(instructions["CMD"])


def bind_mounts(instructions, context):
    """Yield source and target of what the build mounts; what comes from an image of uv is the uv of here."""
    for mount in re.findall(r"--mount=(\S+)", instructions["RUN"]):
        fields = dict(field.split("=") for field in mount.split(","))
        if "source" in fields:
            source = shutil.which("uv") if "from" in fields else context / fields["source"]
            yield f"{source} {fields['target']}"


def test_image_script_and_service_agree_on_paths_and_ports(instructions, content):
    script, service = (ROOT / "deploy/install.sh").read_text(), content["services"]["serve"]
    run, volume, port = instructions["RUN"], instructions["VOLUME"], instructions["EXPOSE"]
    assert run.endswith('/deploy/install.sh "$EXTRAS" /dist/perfjudge-*.whl')
    assert f"chown {instructions['USER']} {volume}\n" in script
    assert (f"mkdir -p {volume}\n" in script, instructions["WORKDIR"]) == (True, volume)
    environment = dict(pair.split("=") for pair in instructions["ENV"].split())
    assert (
        f'uv venv --quiet --python "$(command -v python3)" {environment["PATH"].removesuffix("/bin:$PATH")}\n'
        in script
    )
    assert environment["PERFJUDGE_TOKENS_FILE"] == f"{volume}/tokens"
    assert (service["read_only"], service["tmpfs"]) == (True, [environment["HOME"]])
    assert [mount.partition(":")[2] for mount in service["volumes"]] == [volume]
    assert [mapping.rpartition(":")[2] for mapping in service["ports"]] == [port]
    assert f"--port={port}" in entry(instructions)
    assert f"http://127.0.0.1:{port}/readyz" in health_check(instructions)[-1]
    assert service["build"]["args"].keys() == {instructions["ARG"].rstrip("=")}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(service["build"]["args"]["EXTRAS"].split(",")) <= extras.keys()


def test_the_script_of_the_image_wants_exactly_one_wheel(tmp_path):
    for wheels in ([], [tmp_path / "absent.whl"], [ROOT / "README.md", ROOT / "README.md"]):
        command = ["sh", ROOT / "deploy/install.sh", "", *wheels]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert (done.returncode, "expected EXTRAS and one wheel" in done.stderr) == (2, True)


def test_server_of_the_image_answers_without_rights_on_read_only_files(instructions, wheel, tmp_path):
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv", "ip", "curl", "uv"))):
        pytest.skip("needs root, util-linux, iproute2, curl and uv")
    place = tmp_path / "container"
    for directory in (place, tmp_path / "dist"):
        directory.mkdir()
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    shutil.copy(wheel, tmp_path / "dist")
    path = f"{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    user, group = instructions["USER"].split(":")
    variables = {
        "PATH": path, "place": str(place), "user": user, "group": group,
        "binds": "\n".join(bind_mounts(instructions, tmp_path)),
        "run": re.sub(r"--mount=\S+ ", "", instructions["RUN"]),
        "variables": instructions["ENV"].replace("$PATH", path), "volume": instructions["VOLUME"],
        "entry": shlex.join(entry(instructions)), "health": shlex.join(health_check(instructions)),
        "port": instructions["EXPOSE"], "sample": str(ROOT / "docs/samples/mine.json"),
    }  # fmt: skip
    command = ["unshare", "--mount", "bash", "-euo", "pipefail", Path(__file__).with_name("container.sh")]
    answer = json.loads(output_of(*command, env=os.environ | variables))
    assert answer["model"]["version"] == wheel.name.split("-")[1]
    assert [verdict["verdict"] for verdict in answer["verdicts"]] == ["fail"]


#: What this project uses of the Compose Specification.
KEYS = {
    "build", "cap_drop", "command", "configs", "depends_on", "entrypoint", "environment", "healthcheck",
    "image", "ports", "profiles", "read_only", "restart", "security_opt", "tmpfs", "volumes",
}  # fmt: skip


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
    environment = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"}
    command = (preloaded_programs / "python", "-m", program, what, "--help")
    said = output_of(*command, env=environment)
    options = [option.partition("=")[0] for option in given if option.startswith("--")]
    assert options
    assert [option for option in options if not re.search(rf"{option}\b", said)] == []
