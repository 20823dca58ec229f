# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Directives of OpenVPN profiles: what is accepted, and what is refused with its reason.

OpenVPN runs as root, and a profile may name programs to run and files to write. So directives are accepted
by name: what is not known to be harmless is refused.
"""

from __future__ import annotations

# The client sets these itself, after those of the profile: a value there has no effect, and does no harm.
SET_BY_US = frozenset(
    (
        "auth-nocache",
        "connect-retry",
        "connect-retry-max",
        "connect-timeout",
        "dev-type",
        # The log is in the journal. Azure's profiles name a file.
        "log",
        "log-append",
        "nobind",
        "persist-key",
        "persist-tun",
        "resolv-retry",
        "server-poll-timeout",
        "verb",
    )
)
ACCEPTED = SET_BY_US | frozenset(
    (
        "allow-compression",
        "auth",
        "block-ipv6",
        "cipher",
        "client",
        "comp-lzo",
        "compress",
        "data-ciphers",
        "data-ciphers-fallback",
        "dev",
        "dhcp-option",
        "disable-dco",
        "ecdh-curve",
        "explicit-exit-notify",
        "float",
        "fragment",
        "hand-window",
        "ifconfig-nowarn",
        "keepalive",
        "key-direction",
        "link-mtu",
        "mssfix",
        "mtu-disc",
        "mute",
        "mute-replay-warnings",
        "ncp-ciphers",
        "ping",
        "ping-restart",
        "ping-timer-rem",
        "port",
        "proto",
        "pull",
        "rcvbuf",
        "remote",
        "remote-cert-eku",
        "remote-cert-ku",
        "remote-cert-tls",
        "remote-random",
        "reneg-bytes",
        "reneg-pkts",
        "reneg-sec",
        "replay-window",
        "route",
        "route-delay",
        "route-metric",
        "rport",
        "sndbuf",
        "socket-flags",
        "tls-cert-profile",
        "tls-cipher",
        "tls-ciphersuites",
        "tls-client",
        "tls-groups",
        "tls-timeout",
        "tls-version-max",
        "tls-version-min",
        "topology",
        "tran-window",
        "tun-mtu",
        "tun-mtu-extra",
        "verify-x509-name",
    )
)
RUNS = "it runs a program as root"
WRITES = "it writes a file; the log is in the journal"
OUTSIDE = "it opens a way to control the client; this collection has its own"
ROUTES_ALL = "it would send all traffic of this machine, SSH included, through the VPN"
ASKS = "it waits for someone to type; client certificates are what is used here"
DROPS = "it drops addresses and routes that the gateway assigns to this machine"
NOT_HERE = "files outside of the profile are not copied to the machine: put the content into the profile"
REFUSED = {
    **dict.fromkeys(
        (
            "up",
            "down",
            "down-pre",
            "up-restart",
            "up-delay",
            "route-up",
            "route-pre-down",
            "ipchange",
            "tls-verify",
            "tls-export-cert",
            "auth-user-pass-verify",
            "client-connect",
            "client-disconnect",
            "learn-address",
            "script-security",
            "plugin",
            "iproute",
            "dns-updown",
            "engine",
            "providers",
            "pkcs11-providers",
        ),
        RUNS,
    ),
    **dict.fromkeys(("status", "writepid", "replay-persist", "tmp-dir"), WRITES),
    **dict.fromkeys(("management", "management-client", "management-query-passwords"), OUTSIDE),
    **dict.fromkeys(("syslog", "daemon", "inetd", "cd", "chroot"), "systemd runs the client"),
    **dict.fromkeys(("redirect-gateway", "redirect-private", "block-outside-dns"), ROUTES_ALL),
    **dict.fromkeys(("auth-user-pass", "askpass", "auth-retry", "static-challenge"), ASKS),
    **dict.fromkeys(("pull-filter", "route-nopull", "route-noexec", "ifconfig-noexec"), DROPS),
    **dict.fromkeys(("user", "group", "setcon"), "without rights it can't set routes when it reconnects"),
    **dict.fromkeys(("config", "secret", "pkcs12", "crl-verify", "capath", "dh", "genkey"), NOT_HERE),
    **dict.fromkeys(("server", "mode", "tls-server", "ifconfig-pool"), "it is of a server"),
    **dict.fromkeys(("ping-exit", "inactive", "single-session", "tls-exit"), "the client must run on"),
    **dict.fromkeys(("http-proxy", "socks-proxy", "http-proxy-option"), "the gateway is reached directly"),
    **dict.fromkeys(("setenv", "setenv-safe", "push-peer-info"), "nothing reads it"),
    "dev-node": "the device is created by the client",
    "lport": "the client uses any free port",
    "lladdr": "the device has no hardware address",
    "ifconfig": "the gateway assigns the address",
    "ifconfig-ipv6": "the gateway assigns the address",
    "remap-usr1": "the client must reconnect by itself",
    "connection": "name one or more `remote` lines instead",
}  # fmt: skip
