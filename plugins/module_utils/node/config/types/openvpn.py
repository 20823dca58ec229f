# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""OpenVPN client profiles: read and checked. Pure; problems name lines and directives, never their values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from ipaddress import IPv4Network

from ...dataclass import dataclass, field
from .openvpn_directives import ACCEPTED, REFUSED, ROUTES_ALL

BLOCKS = frozenset(("ca", "cert", "key", "tls-auth", "tls-crypt", "tls-crypt-v2", "extra-certs"))
NEEDED = ("ca", "cert", "key")
PEM = {"ca": "CERTIFICATE", "cert": "CERTIFICATE", "key": "PRIVATE KEY", "extra-certs": "CERTIFICATE"}
SHORTEST_ROUTE = 8  # bits: half of all addresses, twice, are all of them
# OpenVPN reads 255 bytes at a time, and takes the rest of a longer line for another one. There could be the
# end of a block, and after it directives that nobody has checked.
LONGEST_LINE = 250  # bytes
TOO_LONG = f"it is longer than {LONGEST_LINE} bytes, and OpenVPN would read it as two lines"
PLACEHOLDER = re.compile(r"\$[A-Z][A-Z_]{3,}")
PROTOCOLS = frozenset(
    ("tcp", "tcp4", "tcp6", "tcp-client", "tcp4-client", "tcp6-client", "udp", "udp4", "udp6")
)


class ProfileRefused(ValueError):
    """A profile that can't be used; `problems` are sentences, each with its line. No key material."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Directive:
    """One line of a profile."""

    line: int
    name: str
    arguments: tuple[str, ...] = ()

    @property
    def rendered(self) -> str:
        """The line as it is written to the machine; quotes may make it longer than the one that was read."""
        return " ".join((self.name, *map(_quoted, self.arguments)))


@dataclass(frozen=True)
class Remote:
    """A gateway."""

    host: str
    port: int
    protocol: str


@dataclass(frozen=True)
class Profile:
    """A profile as it was read: its directives in their order, and its blocks."""

    directives: tuple[Directive, ...] = ()
    blocks: dict[str, str] = field(default_factory=dict)  # content by name, without the tags

    def first(self, name: str) -> Directive | None:
        """The first directive of a name."""
        return next((item for item in self.directives if item.name == name), None)

    @property
    def remotes(self) -> tuple[Remote, ...]:
        """The gateways, in the order in which they are tried."""
        proto, port = self.first("proto"), self.first("rport") or self.first("port")
        protocol = proto.arguments[0] if proto and proto.arguments else "udp"
        usual = int(port.arguments[0]) if port and port.arguments and port.arguments[0].isdecimal() else 1194
        found = []
        for item in self.directives:
            if item.name == "remote" and item.arguments:
                host, number, by = (*item.arguments, "", "")[:3]
                found.append(Remote(host, int(number) if number.isdecimal() else usual, by or protocol))
        return tuple(found)

    def rendered(self, without: frozenset[str] = frozenset()) -> str:
        """The same profile without comments, and without some directives: what is written to the machine."""
        lines = [item.rendered for item in self.directives if item.name not in without]
        for name, content in self.blocks.items():
            lines += [f"<{name}>", content, f"</{name}>"]
        return "".join(f"{line}\n" for line in lines)


def read_profile(text: str) -> Profile:
    """Read a profile; one that can't be used is refused, with every problem in it."""
    profile, problems = _read(text)
    problems += _wrong(profile)
    if problems:
        raise ProfileRefused(problems)
    return profile


def profile_problems(text: str) -> list[str]:
    """The problems of a profile, in words; empty: it can be used."""
    try:
        read_profile(text)
    except ProfileRefused as refused:
        return refused.problems
    return []


def _read(text: str) -> tuple[Profile, list[str]]:
    """Directives and blocks, and what is no profile at all."""
    directives: list[Directive] = []
    blocks: dict[str, str] = {}
    problems: list[str] = []
    content: list[str] = []
    inside, since = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if inside:
            if line.startswith(f"</{inside}>"):  # whatever follows: OpenVPN does not look at it either
                if inside in blocks:
                    problems.append(f"line {since}: <{inside}> is there twice")
                blocks[inside] = "\n".join(content).strip("\n")
                inside, content = "", []
            else:
                if _is_long(line):
                    problems.append(f"line {number}: {TOO_LONG}")
                content.append(line)
            continue
        if not line or line[0] in "#;":
            continue
        if opened := re.fullmatch(r"<([a-z0-9-]+)>", line):
            inside, since = opened[1], number
            if inside not in BLOCKS:
                why = REFUSED.get(inside, "it is not known here")
                problems.append(f"line {number}: <{inside}> is refused: {why}")
            continue
        try:
            words = shlex.split(line, comments=False)
        except ValueError:
            problems.append(f"line {number}: a quote is not closed")
            continue
        comment = next((place for place, word in enumerate(words) if word[:1] in ("#", ";")), len(words))
        directives.append(Directive(number, words[0].lstrip("-"), tuple(words[1:comment])))
    if inside:
        problems.append(f"line {since}: <{inside}> has no end")
    if any(ord(letter) < 32 and letter not in "\t\r\n" for letter in text):
        problems.append("it has control characters: it is no text")
    return Profile(tuple(directives), {name: blocks[name] for name in blocks if name in BLOCKS}), problems


def _wrong(profile: Profile) -> Iterator[str]:
    """What is refused, and what is missing."""
    for item in profile.directives:
        if item.name in BLOCKS:
            yield f"line {item.line}: {item.name} names a file: put its content into <{item.name}>"
        elif item.name in REFUSED:
            yield f"line {item.line}: {item.name} is refused: {REFUSED[item.name]}"
        elif item.name not in ACCEPTED:
            yield f"line {item.line}: {_named(item.name)} is not known here"
        elif PLACEHOLDER.search(" ".join(item.arguments)):
            yield f"line {item.line}: {item.name} has a placeholder instead of a value"
        elif _is_long(item.rendered):
            yield f"line {item.line}: {TOO_LONG}"
    yield from _wrong_values(profile)
    for name in NEEDED:
        if name not in profile.blocks:
            yield f"<{name}> is missing"
    for name, content in profile.blocks.items():
        if found := PLACEHOLDER.search(content):
            yield f"<{name}> has the placeholder {found[0]}: replace it by the content that belongs there"
        elif not content.strip():
            yield f"<{name}> is empty"
        elif name in PEM and not re.search(
            rf"-----BEGIN [A-Z ]*{PEM[name]}-----.*-----END ", content, re.DOTALL
        ):
            yield f"<{name}> has no {PEM[name].lower()} in PEM form"
    if "ENCRYPTED" in profile.blocks.get("key", ""):
        yield "<key> is encrypted: nobody is there to type its passphrase"


def _wrong_values(profile: Profile) -> Iterator[str]:
    """Values that decide what the client does."""
    if not profile.first("client") and not (profile.first("tls-client") and profile.first("pull")):
        yield "`client` is missing: it is no client profile"
    if not profile.remotes:
        yield "`remote` is missing: no gateway is named"
    for item in profile.directives:
        value = item.arguments[0] if item.arguments else ""
        if item.name == "dev" and not value.startswith("tun"):
            yield f"line {item.line}: dev must be tun: Azure and Kubernetes route packets, not frames"
        if item.name == "dev-type" and value != "tun":
            yield f"line {item.line}: dev-type must be tun"
        if item.name == "proto" and value not in PROTOCOLS:
            yield f"line {item.line}: proto must be one of {', '.join(sorted(PROTOCOLS))}"
        if item.name == "route" and _prefix(item.arguments) < SHORTEST_ROUTE:
            yield f"line {item.line}: route is refused: {ROUTES_ALL}"
        if item.name == "remote" and len(item.arguments) > 1 and not item.arguments[1].isdecimal():
            yield f"line {item.line}: the port of remote is not a number"


def _prefix(arguments: tuple[str, ...]) -> int:
    """The length of a route's prefix; a route without a mask is of one address, as one with a wrong one."""
    mask = arguments[1] if len(arguments) > 1 else ""
    try:
        return IPv4Network(f"0.0.0.0/{mask}").prefixlen
    except ValueError:
        return 32


def _is_long(line: str) -> bool:
    """Whether OpenVPN would not read this as one line."""
    return len(line.encode(errors="surrogatepass")) > LONGEST_LINE


def _named(name: str) -> str:
    """The name of an unknown directive, unless it may be a line of a key."""
    return name if re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name) else "what is there"


def _quoted(argument: str) -> str:
    """An argument as OpenVPN reads it."""
    if re.fullmatch(r"[A-Za-z0-9_@%+=:,./-]+", argument):
        return argument
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
