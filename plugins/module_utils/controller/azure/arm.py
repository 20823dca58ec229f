# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Azure Resource Manager through the SDK's pipeline: retries, Retry-After, pages, long-running operations."""

from __future__ import annotations

import contextlib
import json
import time
import traceback
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from ...node.sources.arm_answers import ArmError
from .errors import AzureRefuses, AzureUnavailable, Identity, NotInAzure, Refusal, explained
from .login import Login

ARM_ERROR = ""
try:
    from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
    from azure.core.pipeline import policies
    from azure.core.polling import LROPoller
    from azure.core.rest import HttpRequest
    from azure.mgmt.core import ARMPipelineClient
    from azure.mgmt.core.exceptions import ARMErrorFormat
    from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy
    from azure.mgmt.core.polling.arm_polling import ARMPolling
except ImportError:
    ARM_ERROR = traceback.format_exc()

Json = dict[str, Any]
AGENT = "aks.flexnode"
# All requests can be repeated: a lost answer to a POST costs one unused token.
RETRIED = frozenset(("GET", "PUT", "POST", "DELETE"))
MOST_PAGES = 1000
OPERATION_SECONDS = 1200.0
DELETIONS = 3  # attempts of one


class Arm:
    """Requests by resource path, JSON in and JSON out."""

    def __init__(
        self,
        login: Login,
        api_version: str,
        poll_interval: float,
        operation_timeout: float = OPERATION_SECONDS,
    ) -> None:
        self._login, self._version = login, api_version
        self._interval, self._limit = poll_interval, operation_timeout
        options = login.client_options
        base = login.endpoints.resource_manager
        self._client: Any = ARMPipelineClient(
            base_url=base,
            policies=[
                policies.RequestIdPolicy(),
                policies.HeadersPolicy({"Accept": "application/json"}),
                policies.UserAgentPolicy(base_user_agent=AGENT),
                policies.ProxyPolicy(),
                policies.ContentDecodePolicy(),
                policies.RedirectPolicy(),
                policies.RetryPolicy(**options),
                ARMChallengeAuthenticationPolicy(login.credential, login.endpoints.scope),
                policies.SensitiveHeaderCleanupPolicy(),
            ],
            **options,
        )

    def get(self, path: str) -> Json | None:
        """A resource, None where there is none."""
        answer = self._send("GET", path, allowed=(404,)).http_response
        if answer.status_code == 404:
            refusal = refusal_of(HttpResponseError(response=answer, error_format=ARMErrorFormat), "GET", path)
            if refusal.itself:  # in a mistyped group everything would be missing
                return None
            raise explained(refusal)
        return dict(answer.json())

    def pages(self, path: str) -> Iterator[Json]:
        """Every resource of a collection, page by page."""
        following, first = path, True
        for _page in range(MOST_PAGES):
            answer = self._send("GET", following, versioned=first).http_response.json()
            yield from answer.get("value") or ()
            following, first = answer.get("nextLink") or "", False
            if not following:
                return
        raise AzureUnavailable("a list has too many pages", where=path, why=f"after {MOST_PAGES} pages")

    def change(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Json, Json]:
        """Request a change and wait until it is finished: the first answer and the last, often the same.

        A deletion is repeated if Azure could not finish it and asks for that; what is gone already, with
        what it was in, is deleted.
        """
        deletes = method == "DELETE" or path.endswith("/deleteMachines")
        for left in reversed(range(DELETIONS if deletes else 1)):
            try:
                initial = self._send(method, path, body=body, query=query, headers=headers)
            except NotInAzure as error:
                if method == "DELETE" and error.refusal and error.refusal.gone:
                    return {}, {}
                raise
            try:
                return self._ended(method, path, initial)
            except NotInAzure as error:
                # That is the operation: whether the resource is gone, only the resource says.
                if method == "DELETE" and self._is_gone(path):
                    return {}, {}
                raise lost(error, method, path) from error
            except AzureRefuses as error:
                if not left or not error.refusal or not error.refusal.passes:
                    raise
            time.sleep(self._interval)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _is_gone(self, path: str) -> bool:
        """Whether a resource does not exist, or what it was in."""
        try:
            return self.get(path) is None
        except NotInAzure as error:
            return bool(error.refusal and error.refusal.gone)

    def _ended(self, method: str, path: str, initial: Any) -> tuple[Json, Json]:
        """Wait until a change is finished that Azure has accepted."""
        first = _content(initial)
        with self.explaining(method, path):
            polling: Any = ARMPolling(timeout=self._interval)
            poller: Any = LROPoller(self._client, initial, _content, polling)
            poller.wait(self._limit)
            if not poller.done():
                raise AzureUnavailable(
                    "an operation does not finish",
                    where=f"{method} {path}",
                    why=f"still running after {self._limit:.0f} s",
                    fix="check the resource in the portal and https://status.azure.com, then run this again; "
                    "operation_timeout waits longer",
                )
            return first, poller.result() or first

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        allowed: tuple[int, ...] = (),
        versioned: bool = True,
    ) -> Any:
        """One answer of the pipeline, after retries."""
        url = path if "://" in path else self._login.endpoints.resource_manager + path
        params = {"api-version": self._version, **(query or {})} if versioned else {}
        request = HttpRequest(method, url, params=params, json=body, headers=dict(headers or {}))
        with self.explaining(method, urlsplit(url).path):
            answer = self._client.send_request(
                request, _return_pipeline_response=True, retry_on_methods=RETRIED
            )
            response = answer.http_response
            if response.status_code >= 400 and response.status_code not in allowed:
                raise HttpResponseError(response=response, error_format=ARMErrorFormat)
        return answer

    def explaining(self, method: str, path: str) -> contextlib.AbstractContextManager[None]:
        """Turn the SDK's errors into ours."""
        return explaining(self._login, method, path)


@contextlib.contextmanager
def explaining(login: Login, method: str, path: str) -> Iterator[None]:
    """Turn the SDK's errors into ours: which request, why it failed, what to do."""
    try:
        yield
    except HttpResponseError as error:
        if error.status_code is None:  # the sign-in was refused, there was no request
            raise login.refused(error) from error
        if isinstance(error, ClientAuthenticationError) and _is_sign_in(error):
            raise login.refused(error) from error
        refusal = refusal_of(error, method, path)
        who = login.identity() if refusal.status == 403 else Identity()
        raise explained(refusal, who) from error
    except AzureError as error:
        raise AzureUnavailable(
            "Azure can't be reached",
            where=f"{method} {path} at {login.endpoints.resource_manager}",
            why=_reason(error),
        ) from error


def lost(error: NotInAzure, method: str, path: str) -> AzureUnavailable:
    """The error for an operation that Azure no longer knows: what became of it is not known."""
    return AzureUnavailable(
        "Azure accepted this, and no longer knows the operation",
        where=f"{method} {path}",
        why=error.why,
        fix="run this again: it starts from what is there now",
    )


def refusal_of(error: Any, method: str, path: str) -> Refusal:
    """The status, code and message of an error answer; of AKS also what the SDK does not read."""
    detail = getattr(error, "error", None)
    status = int(error.status_code or 0)
    code, message = getattr(detail, "code", None) or "", getattr(detail, "message", None) or ""
    told = ArmError.of(status, _document(getattr(error, "response", None)))
    return Refusal(
        method,
        path,
        status,
        str(code or told.code),
        str(message or told.message or error.reason or ""),
        told.subcode,
        told.details,
    )


def _document(response: Any) -> Json:
    """An answer as data; empty if it is not JSON, or was not read."""
    try:
        found = json.loads(response.text())
    except (AttributeError, TypeError, ValueError, AzureError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_sign_in(error: Any) -> bool:
    """Whether the sign-in was refused: azure-identity raises the same class as an ARM client."""
    return "oauth2" in str(getattr(getattr(error.response, "request", None), "url", ""))


def _content(answer: Any) -> Json:
    response = answer.http_response
    found = response.json() if response.content.strip() else {}
    return found if isinstance(found, dict) else {"value": found}


def _reason(error: Exception) -> str:
    """The innermost cause, which says most."""
    text = str(error)
    for mark in ("certificate verify failed", "Name or service not known", "Connection refused"):
        if mark in text:
            return mark
    return text.splitlines()[0][:300] if text else type(error).__name__
