# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The identity of an Arc-enabled server: the agent's metadata service (HIMDS) and its challenge.

HIMDS issues a token to a client that can read a file which only root and the agent's group can read; its
first answer names the file. Any process could listen on that port while the agent is down and name any file,
so the name is checked strictly.
"""

from __future__ import annotations

import json
import os
import re
import stat
import urllib.parse

from ..machine.host import Host
from ..secret import Secret
from .errors import ChallengeInvalid, IdentityMissing, IdentityRefused, TokenSourceUnreachable
from .imds import HEADERS, error_text
from .local_http import NoAnswer, Reply, ask
from .token import Issued, read_answer

ENDPOINT = "http://127.0.0.1:40342/metadata/identity/oauth2/token"
API_VERSION = "2020-06-01"
TOKENS = "/var/opt/azcmagent/tokens"
REGISTERED = "/var/opt/azcmagent/agentconfig.json"  # the agent's registration
WHO = ("vmId", "resourceId", "subscriptionId", "resourceGroup", "resourceName")
MOST = 4096  # maximum bytes of a challenge
TIMEOUT = 10.0
HURRY_TIMEOUT = 5.0
PAUSES = (0.5, 1.0, 2.0, 4.0)  # while the agent restarts
LOOPBACK = ("127.0.0.1", "::1", "localhost")

_REALM = re.compile(r'\s*Basic\s+realm="?([^"\s]+)"?\s*', re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\.key")


class ArcMetadata:
    """The system-assigned identity of this machine's Arc registration."""

    def __init__(self, host: Host, *, endpoint: str = ENDPOINT) -> None:
        self._host = host
        self._endpoint = endpoint

    @property
    def name(self) -> str:
        """The identity in words."""
        return "Azure Arc identity of this machine"

    @property
    def key(self) -> str:
        """The registration: after a new registration the machine has another identity."""
        try:
            known = json.loads(self._host.text(REGISTERED) or "{}")
            who = [str(known.get(name) or "") for name in WHO]
        except (OSError, ValueError, AttributeError):
            who = []
        return "\0".join(("arc", self._endpoint, *who))

    def issue(self, audience: str, *, hurry: bool) -> Issued:
        """A new token, after the challenge; the agent has its own cache."""
        address = urllib.parse.urlsplit(self._endpoint)
        if address.scheme != "http" or address.hostname not in LOOPBACK:
            raise ChallengeInvalid(
                "the Arc agent listens on this machine only",
                where=self._endpoint,
                why="IDENTITY_ENDPOINT names another machine",
                fix=f"unset IDENTITY_ENDPOINT, or set it to {ENDPOINT}",
            )
        query = urllib.parse.urlencode({"api-version": API_VERSION, "resource": audience})
        url = f"{self._endpoint}?{query}"
        failure = ""
        for pause in (*PAUSES, None):
            try:
                reply = self._answered(url, HURRY_TIMEOUT if hurry else TIMEOUT)
                failure = f"HTTP {reply.status}: {error_text(reply.body)}"
                if reply.status == 200:
                    return read_answer(reply.body, reply.headers, self._host.clock, self._endpoint)
                if reply.status < 500 and reply.status not in (401, 408, 429):
                    raise self._refused(reply)
            except NoAnswer as error:
                failure = str(error)
            if hurry or pause is None:
                break
            self._host.clock.sleep(pause)
        raise TokenSourceUnreachable(
            "the Arc agent does not issue a token",
            where=self._endpoint,
            why=failure,
            fix="check `azcmagent show` and `systemctl status himdsd`, then: systemctl restart himdsd",
        )

    def _answered(self, url: str, timeout: float) -> Reply:
        """Both steps of the challenge. The file is removed after use, so each attempt repeats both."""
        first = ask(url, HEADERS, timeout)
        if (
            first.status == 200
        ):  # only the agent can create the file that it names: this proves that the agent answers
            raise _invalid("it issued a token without a challenge", "expected: HTTP 401")
        if first.status != 401:
            return first
        secret = self._challenge(first)
        return ask(url, {**HEADERS, "Authorization": f"Basic {secret.reveal()}"}, timeout)

    def _challenge(self, reply: Reply) -> Secret:
        header = reply.headers.get("WWW-Authenticate") or ""
        found = _REALM.fullmatch(header)
        if not found:
            raise _invalid("its answer names no file", "expected: Basic realm=PATH")
        return read_challenge(self._host, found[1])

    def _refused(self, reply: Reply) -> IdentityMissing | IdentityRefused:
        why = f"HTTP {reply.status}: {error_text(reply.body)}"
        if reply.status in (400, 404):
            return IdentityMissing(
                "this machine has no Arc identity",
                where=self._endpoint,
                why=why,
                fix="see `azcmagent show`; register it: aks-flex-node arc register, or run playbook "
                "aks.flexnode.bootstrap",
            )
        return IdentityRefused(
            "the Arc agent refuses to issue a token",
            where=self._endpoint,
            why=why,
            fix="see `azcmagent show` and `azcmagent check`",
        )


def read_challenge(host: Host, path: str) -> Secret:
    """The content of a challenge file: a small plain file directly in the agent's directory."""
    directory, slash, name = path.rpartition("/")
    if directory != TOKENS or not slash:
        raise _invalid(f"it names a file outside of {TOKENS}", path)
    if not _NAME.fullmatch(name):
        raise _invalid("the file's name is not that of a challenge (NAME.key)", path)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        within = os.open(host.path(TOKENS), flags | os.O_DIRECTORY)
        try:
            # Relative to the open directory, which can't be replaced meanwhile. A pipe must not block.
            descriptor = os.open(name, flags | os.O_NONBLOCK, dir_fd=within)
        finally:
            os.close(within)
    except OSError as error:
        raise _invalid("the file can't be opened", f"{path}: {error.strerror}") from error
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode):
            raise _invalid("it is not a plain file", path)
        if seen.st_nlink > 1:
            raise _invalid("the file has more than one link", path)
        content = os.read(descriptor, MOST + 1)
    finally:
        os.close(descriptor)
    if len(content) > MOST:
        raise _invalid(f"the file is larger than {MOST} bytes", path)
    text = content.decode("ascii", errors="replace").strip()
    if not re.fullmatch(r"[\x21-\x7e]+", text):  # it becomes a header
        raise _invalid("the file does not contain a challenge", path)
    return Secret(text)


def _invalid(why: str, detail: str) -> ChallengeInvalid:
    return ChallengeInvalid(
        "the challenge of the Arc agent is refused", where=f"{ENDPOINT}, {detail[:200]}", why=why
    )
