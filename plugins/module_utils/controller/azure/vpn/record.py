# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was issued to whom: one file per gateway on the controller. Its keys are encrypted.

The list of certificates is readable without the passphrase; the keys of the root and of the machines are
one block that scrypt and AES-GCM protect. The keys of machines are kept so that every run hands over the same
profile: who has the root's key could issue others anyway.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import glob
import hashlib
import json
import os
import traceback
from collections.abc import Callable, Iterator, Set
from dataclasses import asdict, dataclass, field
from typing import Any

from ....node.machine.clock import Clock, iso, moment
from ...private_file import replace_private
from .certificates import Pair
from .errors import RecordUnusable
from .resources import ResourceId

CIPHER_ERROR = ""
try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
except ImportError:
    CIPHER_ERROR = traceback.format_exc()

VERSION = 1
COST = {"n": 1 << 15, "r": 8, "p": 1}
SHORTEST = 12  # characters of a passphrase
ACTIVE, REPLACED, REVOKED = "active", "replaced", "revoked"


@dataclass(slots=True)
class Client:
    """One certificate of one machine."""

    node: str
    thumbprint: str
    root: str
    expires: str
    state: str = ACTIVE
    certificate: str = ""

    def expired(self, now: float) -> bool:
        """Whether nobody accepts it any more."""
        return moment(self.expires) <= now


@dataclass(slots=True)
class Record:
    """All certificates of one gateway. `keys` and `template` are secrets."""

    gateway: str
    root: str = ""  # the thumbprint of the one that signs
    roots: dict[str, str] = field(default_factory=dict)  # certificates by thumbprint
    clients: list[Client] = field(default_factory=list)
    profile_of: str = ""  # for which gateway, with which settings, the template was generated
    keys: dict[str, str] = field(default_factory=dict, repr=False)  # by thumbprint
    template: str = field(default="", repr=False)

    def active(self, node: str) -> Client | None:
        """The certificate that a machine uses, or will use."""
        return next((one for one in self.clients if one.node == node and one.state == ACTIVE), None)

    def pair(self, thumbprint: str) -> Pair:
        """A certificate with its key."""
        known = {one.thumbprint: one.certificate for one in self.clients}
        return Pair({**known, **self.roots}[thumbprint], self.keys.get(thumbprint, ""))

    def add(self, node: str, pair: Pair) -> Client:
        """Note a new certificate; the one before stays valid until the machine has used this one."""
        for one in self.clients:
            if one.node == node and one.state == ACTIVE:
                one.state = REPLACED
        client = Client(node, pair.thumbprint, self.root, iso(pair.expires), ACTIVE, pair.certificate)
        self.clients.append(client)
        self.keys[client.thumbprint] = pair.key
        return client

    def forget_expired(self, now: float, listed: Set[str]) -> None:
        """Drop what nobody accepts any more, and the keys of what is refused.

        What the gateway still lists as revoked stays until a change took it from there: only what the record
        knows is removed from that list.
        """
        self.clients = [
            one
            for one in self.clients
            if one.state == ACTIVE or not one.expired(now) or one.thumbprint in listed
        ]
        kept = {self.root, *(one.thumbprint for one in self.clients if one.state != REVOKED)}
        self.keys = {name: key for name, key in self.keys.items() if name in kept}


def path_of(directory: str, gateway: ResourceId) -> str:
    """The file of a gateway: names of gateways repeat, ids do not."""
    digest = hashlib.sha256(str(gateway).lower().encode()).hexdigest()[:8]
    return os.path.join(os.path.expanduser(directory), f"{gateway.name.lower()}-{digest}.json")


def valid_nodes(directory: str, now: float) -> set[str] | None:
    """The Nodes with valid certificates in any record of a directory; None: there is no record.

    A record that can't be read counts as one without Nodes: the module that needs it says what is wrong.
    """
    found: set[str] | None = None
    for path in glob.glob(os.path.join(glob.escape(os.path.expanduser(directory)), "*.json")):
        found = found if found is not None else set()
        try:
            with open(path, encoding="utf-8") as file:
                clients = [Client(**one) for one in json.load(file)["clients"]]
            found |= {one.node for one in clients if one.state != REVOKED and not one.expired(now)}
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


class Store:
    """The file of one gateway's record."""

    def __init__(self, directory: str, gateway: ResourceId, passphrase: str) -> None:
        self.path, self._gateway = path_of(directory, gateway), str(gateway)
        self._passphrase = passphrase
        self._salt = os.urandom(16)  # of one run: scrypt is slow on purpose, nonces are never used twice
        self._known: dict[bytes, bytes] = {}

    def read(self, *, secrets: bool = True) -> Record | None:
        """The record; None where there is none. Without `secrets` no passphrase is needed."""
        try:
            with open(self.path, encoding="utf-8") as file:
                found = json.load(file)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise self._unusable("it can't be read", type(error).__name__) from error
        if not isinstance(found, dict) or found.get("version") != VERSION:
            raise self._unusable("it is not of this version of the collection", "")
        try:
            record = Record(
                gateway=str(found["gateway"]),
                root=str(found["root"]),
                roots=dict(found["roots"]),
                clients=[Client(**one) for one in found["clients"]],
                profile_of=str(found.get("profile_of") or ""),
            )
            if secrets:
                opened = self._open(found["secrets"])
                record.keys, record.template = opened["keys"], opened["template"]
        except (KeyError, TypeError, ValueError) as error:
            raise self._unusable("it is damaged", type(error).__name__) from error
        return record

    def write(self, record: Record) -> None:
        """Replace the file at once; only its owner may read it."""
        self.require_passphrase()
        document = {
            "version": VERSION,
            "gateway": record.gateway,
            "root": record.root,
            "roots": record.roots,
            "clients": [asdict(one) for one in record.clients],
            "profile_of": record.profile_of,
            "secrets": self._sealed({"keys": record.keys, "template": record.template}),
        }
        with self._explained("written"):
            self._folder()
            replace_private(self.path, json.dumps(document, indent=1))

    def remove(self) -> None:
        """Delete the file: its gateway is gone."""
        with self._explained("removed"), contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    @contextlib.contextmanager
    def locked(self, clock: Clock, seconds: float, waiting: Callable[[str], None]) -> Iterator[None]:
        """One run at a time: two would issue certificates of which one is not recorded."""
        with self._explained("locked"):
            descriptor = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, self._mode())
        try:
            deadline, told = clock.monotonic() + seconds, False
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if clock.monotonic() >= deadline:
                        raise self._unusable("another run has it", f"still after {seconds:.0f} s") from None
                if not told:
                    waiting("another run works with this VPN gateway; waiting for it")
                    told = True
                clock.sleep(2)
            yield
        finally:
            os.close(descriptor)

    def require_passphrase(self) -> None:
        """Refuse to store keys without a passphrase that is worth something."""
        if len(self._passphrase) < SHORTEST:
            raise RecordUnusable(
                "the keys of VPN certificates need a passphrase",
                where=self.path,
                why=f"{'it is not set' if not self._passphrase else 'it is too short'}: at least "
                f"{SHORTEST} characters",
                fix="set flexnode_vpn_passphrase, from a vault or an AWX credential (of the module: "
                "passphrase, or FLEXNODE_VPN_PASSPHRASE in the environment)",
            )

    def _folder(self) -> str:
        folder = os.path.dirname(self.path) or "."
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return folder

    def _mode(self) -> int:
        self._folder()
        return 0o600

    def _sealed(self, secrets: dict[str, Any]) -> dict[str, Any]:
        salt, nonce = self._salt, os.urandom(12)
        data = AESGCM(self._derived(salt, COST)).encrypt(
            nonce, json.dumps(secrets).encode(), self._gateway.lower().encode()
        )
        return {"kdf": {"salt": _text(salt), **COST}, "nonce": _text(nonce), "data": _text(data)}

    def _open(self, sealed: dict[str, Any]) -> dict[str, Any]:
        self.require_passphrase()
        kdf = sealed["kdf"]
        cost = {name: int(kdf[name]) for name in COST}
        try:
            data = AESGCM(self._derived(_bytes(kdf["salt"]), cost)).decrypt(
                _bytes(sealed["nonce"]), _bytes(sealed["data"]), self._gateway.lower().encode()
            )
        except InvalidTag:
            raise self._unusable(
                "its keys can't be decrypted",
                "the passphrase is another one, or the file was changed",
                "correct flexnode_vpn_passphrase; if it is lost, run this once with flexnode_vpn_new_root: "
                "true: all machines get new certificates",
            ) from None
        found: dict[str, Any] = json.loads(data)
        return found

    def _derived(self, salt: bytes, cost: dict[str, int]) -> bytes:
        known = salt + repr(cost).encode()
        if known not in self._known:
            self._known[known] = Scrypt(salt=salt, length=32, **cost).derive(self._passphrase.encode())
        return self._known[known]

    @contextlib.contextmanager
    def _explained(self, act: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._unusable(f"it can't be {act}", error.strerror or str(error)) from error

    def _unusable(self, what: str, why: str, fix: str = "") -> RecordUnusable:
        return RecordUnusable(
            f"the record of VPN certificates: {what}",
            where=self.path,
            why=why,
            fix=fix
            or "check flexnode_vpn_directory and the rights of its files, or restore it from a backup",
        )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
