# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution environment as ansible-builder builds it from awx/execution-environment.yml.

Users build it on an image that they pull. Here it is built on the testbed's machine image of Debian 13, with
the same steps of ansible-builder, the collection of this checkout, and wheels that were downloaded before.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from scripts import build_collection, checkout
from testbed.basics import files, paths
from testbed.basics.podman import podman, settings
from testbed.basics.process import run
from testbed.basics.progress import step
from testbed.execution import wheelhouse
from testbed.host import packages
from testbed.images import recipes, rootfs

REPOSITORY = f"{rootfs.REPOSITORY}/execution-environment"
DEFINITION = checkout.ROOT / "awx" / "execution-environment.yml"
PLATFORM = "debian13"
BUILD_SECONDS = 900
COUNTS = ("galaxy.yml", "meta", "playbooks", "plugins", "requirements.txt", "roles")
KEPT = 2
"""Images of earlier contents that stay: a build of another branch is not lost at once."""


def definition(base: str, tarball: str) -> dict[str, Any]:
    """The definition that users build, with another base image, its Python, and other places of packages."""
    found: dict[str, Any] = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))
    found["images"] = {"base_image": {"name": base}}
    # Debian has no ensurepip without a package, and what the base image lacks comes from the wheels alone.
    found["options"] = {"package_manager_path": "/usr/bin/apt-get", "skip_pip_install": True}
    found["build_arg_defaults"] = {"PKGMGR_PRESERVE_CACHE": "always"}
    needs = found["dependencies"]
    needs["python_interpreter"] = {"python_path": "/usr/bin/python3"}
    needs["galaxy"] = {"collections": [{"name": f"collection/{tarball}", "type": "file"}]}
    found["additional_build_files"] = [{"src": tarball, "dest": "collection"}]
    steps = found["additional_build_steps"]
    steps["prepend_base"] = [f"RUN $PYCMD $(ls {wheelhouse.INSIDE}/pip-*.whl)/pip install pip"]
    # What is installed in this stage is thrown away: compiling it would be in vain.
    steps["prepend_builder"] = ["ENV PIP_NO_COMPILE=1"]
    return found


def name() -> str:
    """The image of this checkout; the tag changes whenever a job could notice it: not with documentation."""
    digest = hashlib.sha256()
    base = recipes.node(PLATFORM).image
    words = [definition(base, ""), files.sha256(wheelhouse.LOCK), version("ansible-builder"), paths.arch()]
    digest.update(json.dumps(words, sort_keys=True).encode())
    for file in checkout.shipped_files():
        if file.parts[0] not in COUNTS or file.suffix == ".md":
            continue
        digest.update(f"\0{file}\0".encode() + (checkout.ROOT / file).read_bytes())
    return f"{REPOSITORY}:{digest.hexdigest()[:12]}"


def ensure() -> str:
    """Build the image if it does not exist; return its name."""
    packages.TESTBED.ensure()
    image = name()
    with files.lock(paths.cache() / "locks" / "image-execution-environment"):
        if podman("image", "exists", image, check=False).returncode != 0:
            base = rootfs.ensure(recipes.node(PLATFORM))
            wheels = wheelhouse.ensure()
            with step("build the execution environment"):
                _build(image, base, wheels)
            _forget_older()
    return image


def _build(image: str, base: str, wheels: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="flexnode-ee-") as work:
        tarball = build_collection.build(Path(work))
        file = Path(work) / "execution-environment.yml"
        file.write_text(yaml.safe_dump(definition(base, tarball.name)), encoding="utf-8")
        mounts = ((wheels, wheelhouse.INSIDE), (wheels / "pip.conf", "/etc/pip.conf"))
        # Layers of each step would be kept for a next build, which has another collection in its second step.
        options = [
            "--layers=false",
            "--network=none",
            *(f"--volume={here}:{there}:ro" for here, there in mounts),
        ]
        builder = [sys.executable, "-m", "ansible_builder", "build", "--verbosity=2"]
        builder += [f"--file={file}", f"--context={work}/context", f"--tag={image}"]
        runtime = ["--container-runtime=podman", f"--extra-build-cli-args={' '.join(options)}"]
        run([*builder, *runtime], env=settings(), timeout=BUILD_SECONDS)


def _forget_older() -> None:
    """Remove images of earlier contents; one that a container uses stays."""
    listed = podman(
        "images", "--sort=created", "--format={{.Repository}}:{{.Tag}}", REPOSITORY
    ).stdout.split()
    for old in listed[1 + KEPT :]:
        podman("rmi", old, check=False)
