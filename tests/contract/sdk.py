# SPDX-License-Identifier: GPL-3.0-or-later
"""The clients of the real Azure SDK, pointed at the emulated Azure as a user of another cloud would do it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import ContentDecodePolicy, RequestIdPolicy, RetryPolicy
from azure.core.polling import LROPoller
from azure.core.rest import HttpRequest, HttpResponse
from azure.identity import ClientSecretCredential
from azure.mgmt.authorization import AuthorizationManagementClient
from azure.mgmt.containerservice import ContainerServiceClient
from azure.mgmt.core import ARMPipelineClient
from azure.mgmt.core.exceptions import ARMErrorFormat
from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy
from azure.mgmt.core.polling.arm_polling import ARMPolling

from testbed.azure import Azure, Principal

API_VERSION = "2026-05-01-preview"
SCOPE = "https://management.azure.com/.default"


class Sdk:
    """What a program has that works with Azure."""

    def __init__(self, azure: Azure, principal: Principal, ca_file: Path, secret: str = "") -> None:
        self._azure = azure
        self.principal = principal
        trust = {"connection_verify": str(ca_file)}
        self.credential = ClientSecretCredential(
            azure.tenant_id,
            principal.client_id,
            secret or principal.secret,
            authority=azure.url,
            disable_instance_discovery=True,
            **trust,
        )
        self.where: dict[str, Any] = {"base_url": azure.url, "credential_scopes": [SCOPE], **trust}
        self._pipeline: ARMPipelineClient[HttpRequest, HttpResponse] = ARMPipelineClient(
            azure.url,
            policies=[
                RequestIdPolicy(),
                RetryPolicy(retry_backoff_factor=0.1),
                ARMChallengeAuthenticationPolicy(self.credential, SCOPE),
                ContentDecodePolicy(),
            ],
            **trust,
        )

    @cached_property
    def containers(self) -> ContainerServiceClient:
        """The client of AKS."""
        return ContainerServiceClient(self.credential, self._azure.subscription_id, **self.where)

    @cached_property
    def authorization(self) -> Any:
        """The client of roles; its operations depend on the api-version, so it has no types."""
        return AuthorizationManagementClient(self.credential, self._azure.subscription_id, **self.where)

    def send(self, method: str, path: str, body: Any = None, **query: str) -> HttpResponse:
        """A request through the pipeline; an error answer is raised as the SDK's clients raise it."""
        response = self.try_send(method, path, body, **query)
        if response.status_code >= 400:
            raise HttpResponseError(response=response, error_format=ARMErrorFormat)
        return response

    def try_send(self, method: str, path: str, body: Any = None, **query: str) -> HttpResponse:
        """The same, whatever the answer."""
        return self.try_with({}, method, path, body, **query)

    def try_with(
        self, headers: dict[str, str], method: str, path: str, body: Any = None, **query: str
    ) -> HttpResponse:
        """The same with headers of its own."""
        params = {k: v for k, v in {"api-version": API_VERSION, **query}.items() if v}
        request = HttpRequest(method, f"{self._azure.url}{path}", params=params, json=body, headers=headers)
        return self._pipeline.send_request(request)

    def node(self, name: str = "", cluster_id: str = "") -> str:
        """The id of a flexNodeConfig, or of all of them."""
        base = f"{cluster_id or self._azure.cluster_id}/flexNodeConfig"
        return f"{base}/{name}" if name else base

    def put(self, name: str, properties: Any = None, **query: str) -> HttpResponse:
        """PUT a flexNodeConfig."""
        return self.send("PUT", self.node(name), {"properties": properties or {}}, **query)

    def poll(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """A long-running operation, to its end."""
        params = {"api-version": API_VERSION, **query}
        request = HttpRequest(method, f"{self._azure.url}{path}", params=params, json=body)
        first = self._pipeline.send_request(request, _return_pipeline_response=True)
        poller: LROPoller[Any] = LROPoller(
            self._pipeline, first, lambda answer: answer.http_response, ARMPolling(timeout=0.2)
        )
        return poller.result(30)

    def pages(self, path: str) -> Iterator[list[dict[str, Any]]]:
        """A list, page by page."""
        answer = self.send("GET", path).json()
        yield answer["value"]
        while link := answer.get("nextLink"):
            answer = self._pipeline.send_request(HttpRequest("GET", link)).json()
            yield answer["value"]


def code(error: HttpResponseError) -> str:
    """The code of an ARM error."""
    assert error.error is not None
    return str(error.error.code)
