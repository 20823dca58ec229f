# SPDX-License-Identifier: GPL-3.0-or-later
"""SSH identities: the user's key of a testbed and the host keys of its machines."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from testbed.basics import files


def ensure_key(path: Path, comment: str) -> str:
    """Generate a private key at path if needed; return its public line."""
    key = serialization.load_ssh_private_key(files.once(path, _private_key), None)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{public.decode()} {comment}"


def _private_key() -> bytes:
    return ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )


def known_host(name: str, ip: str, public: str) -> str:
    """The line of known_hosts for a machine."""
    return f"{name},{ip} {' '.join(public.split()[:2])}"


def argv(ip: str, user: str, key: Path, known_hosts: Path) -> list[str]:
    """The ssh command line: this key only, and the host key must be the one that was generated."""
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": "10",
        "IdentitiesOnly": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": str(known_hosts),
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return ["ssh", "-F", "none", "-i", str(key), *words, f"{user}@{ip}"]
