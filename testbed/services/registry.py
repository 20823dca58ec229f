# SPDX-License-Identifier: GPL-3.0-or-later
"""A real container registry over TLS with the images pods use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from testbed.basics import files
from testbed.images import addons, oci, workload
from testbed.layout.site import Site
from testbed.services.service import Service

PORT = 5000
INSIDE = "/srv/registry"

CONFIG = f"""version: 0.1
log: {{level: warn}}
storage:
  filesystem: {{rootdirectory: {INSIDE}/data}}
  delete: {{enabled: true}}
http:
  addr: 0.0.0.0:{PORT}
  tls: {{certificate: {INSIDE}/tls.crt, key: {INSIDE}/tls.key}}
"""


class Registry:
    """Debian's docker-registry at a fixed address."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._directory = site.directory / "registry"

    @property
    def host(self) -> str:
        """IP:PORT, the first part of image names."""
        return f"{self._site.plan.service('registry')}:{PORT}"

    @property
    def pause_image(self) -> str:
        """The image that holds a pod's namespaces."""
        return self._reference(*workload.PAUSE)

    @property
    def workload_image(self) -> str:
        """A busybox image."""
        return self._reference(*workload.WORKLOAD)

    @property
    def kube_proxy_image(self) -> str:
        """kube-proxy, with the nft that it calls."""
        return self._reference(*addons.kube_proxy_name(self._site.kubernetes))

    @property
    def coredns_image(self) -> str:
        """CoreDNS."""
        return self._reference(*addons.COREDNS)

    def _reference(self, repository: str, tag: str) -> str:
        return f"{self.host}/{repository}:{tag}"

    def service(self) -> Service:
        """The container that serves it."""
        pair = self._site.authority.issue("registry", "registry", names=[self._site.plan.service("registry")])
        files.write(self._directory / "tls.crt", pair.cert.read_bytes())
        files.write(self._directory / "tls.key", pair.key.read_bytes(), 0o600)
        files.write(self._directory / "config.yml", CONFIG)
        return Service(
            name="registry",
            argv=("/usr/bin/docker-registry", "serve", f"{INSIDE}/config.yml"),
            port=PORT,
            mounts=((self._directory, INSIDE, True),),
        )

    def fill(self, architectures: Sequence[str]) -> None:
        """Push the images that are missing; a tag serves machines of all these architectures."""
        ca_file = self._site.authority.pair.cert
        images: tuple[Callable[[str], oci.Pushable], ...] = (
            workload.pause,
            workload.workload,
            partial(addons.kube_proxy, self._site.kubernetes),
            addons.coredns,
        )

        def push(make: Callable[[str], oci.Pushable]) -> None:
            oci.push([make(arch) for arch in architectures], self.host, ca_file)

        with ThreadPoolExecutor(max_workers=len(images)) as pool:
            list(pool.map(push, images))
