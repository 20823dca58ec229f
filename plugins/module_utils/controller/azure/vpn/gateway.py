# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a gateway: found or made, changed, its profile fetched, removed if it is ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ....node.machine.clock import Clock
from ..errors import ChangedMeanwhile
from . import clients as certificates
from . import plan, profile
from .api import TELL, late
from .asked import Done, Network, Request
from .errors import ClientsActive, GatewayUnusable
from .plan import Wanted
from .ranges import Range, ranges, require_apart, subnet_range
from .record import ACTIVE, REPLACED, Record, Store
from .resources import (
    SUBNET_NAME,
    Place,
    ResourceId,
    gateway_subnet,
    gateways_in,
    missing_gateway,
    name_of,
    named_by,
    own_id,
    state_of,
    vnet_of_gateway,
)

Json = dict[str, Any]
UNSETTLED = ("updating", "deleting", "creating")


class Gateways:
    """One gateway with its subnet, its address and its certificates."""

    def __init__(
        self,
        network: Network,
        store: Store,
        clock: Clock,
        tell: Callable[[str], None],
        fetch: Callable[[str], bytes],
        *,
        check: bool,
        pause: float,
        seconds: float,
    ) -> None:
        self._network, self._store, self._clock = network, store, clock
        self._tell, self._fetch, self._check = tell, fetch, check
        self._pause, self._seconds = max(pause, 0.05), seconds

    # --- present -------------------------------------------------------------------------------------------

    def present(self, place: Place, request: Request) -> Done:
        """Make or change what differs, and get a profile for each machine."""
        deadline, done = self._clock.monotonic() + self._seconds, Done()
        with self._locked():
            while True:
                gateway = self._settled(place.gateway)
                try:
                    return self._kept(named_by(place, gateway), request, gateway, done)
                except ChangedMeanwhile:
                    # Only one that is made is looked at again: somebody else may have made it first.
                    if gateway is not None or self._clock.monotonic() >= deadline:
                        raise
                self._tell(f"{place.gateway.name}: somebody else makes it too; looking at it again")
                self._clock.sleep(self._pause)

    def _kept(self, place: Place, request: Request, gateway: Json | None, done: Done) -> Done:
        if request.only_certificates:
            # Nothing else is looked at: neither a range nor a protocol may keep one from being revoked.
            if self._trusts_us(gateway):
                return self._keep(place, request, gateway, "", False, done)
            if gateway is None and place.named and self._store.read(secrets=False) is None:
                done.warnings.append(
                    f"no VPN certificate was revoked: flexnode_vpn_gateway_id names {place.gateway}, which "
                    "does not exist; correct it, then run this again"
                )
            return done
        if gateway is None and place.named:
            raise missing_gateway(place)
        ours = gateway is None or plan.is_ours(gateway)
        if gateway is not None:
            plan.require_usable(gateway, ours=ours)
        self._require_apart(place, gateway, request.wanted, ours)
        prefix = self._subnet_prefix(place, request) if gateway is None else ""
        return self._keep(place, request, gateway, prefix, ours, done)

    def _trusts_us(self, gateway: Json | None) -> bool:
        """Whether anybody could connect with a certificate of ours."""
        ours = any(name.startswith(plan.PREFIX) for name in plan.roots_of(gateway).values())
        return gateway is not None and (ours or self._store.read(secrets=False) is not None)

    def _keep(
        self,
        place: Place,
        request: Request,
        gateway: Json | None,
        prefix: str,
        changes_settings: bool,
        done: Done,
    ) -> Done:
        now = self._clock.now()
        self._store.require_passphrase()
        # A run with a new root also revokes, when machines have joined: that must not make another one.
        new_root = request.new_root and not request.only_certificates
        # With a lost passphrase the list of certificates is still of use: what it names is replaced.
        record = self._store.read(secrets=not (new_root and request.given_root is None))
        record, about_root = certificates.with_root(
            record,
            gateway,
            str(place.gateway),
            request.given_root,
            now,
            replace=new_root,
            path=self._store.path,
        )
        certificates.require_known(record, request.gone, self._store.path)
        root = request.given_root or record.pair(record.root)
        done.issues = certificates.issued(record, root, request.machines, request.renew, now, request.days)
        revoking = certificates.to_revoke(record, request.confirmed, request.leaving, now)
        trust = certificates.trust_of(record, revoking, now, only_these=new_root)
        new = [issue for issue in done.issues if issue.action != "unchanged"]
        done.actions += [*about_root, *(issue.sentence() for issue in new)]
        if not self._check and done.actions:
            self._store.write(record)  # before the gateway knows of it: a key must never be lost
        before = plan.shown(gateway)
        if gateway is None:
            gateway = self._make(place, request.wanted, prefix, trust, done)
        elif reasons := plan.differences(gateway, request.wanted, trust, ours=changes_settings):
            done.actions.append(f"update VPN gateway {place.gateway.name} ({'; '.join(reasons)})")
            body = plan.changed_body(gateway, request.wanted, trust, ours=changes_settings)
            if not self._check:
                self._tell(f"{place.gateway.name}: updating, which takes minutes")
                self._network.put(place.gateway, body, str(gateway.get("etag") or ""))
                gateway = self._settled(place.gateway) or body
            else:
                gateway = body
        done.warnings = certificates.warnings_of(record, gateway, request.machines)
        if not request.only_certificates:
            done.warnings += certificates.about_end(root, now, request.days)
        if not self._check:
            changed = certificates.settle(record, request.confirmed, request.leaving, now, gateway)
            self._profiles(place, request, gateway, record, done)
            if changed or done.actions:
                self._store.write(record)
        done.actions = list(dict.fromkeys(done.actions))  # a creation that began again told it twice
        done.gateway = described(place, gateway)
        done.clients = certificates.listed(record, now)
        done.diff = _diff(place.gateway.name, before, plan.shown(gateway), new)
        return done

    def _make(self, place: Place, wanted: Wanted, prefix: str, trust: plan.Trust, done: Done) -> Json:
        """Subnet, address, gateway; what an interrupted run made already is used."""
        address = self._network.get(place.address)
        if address is not None and not plan.is_ours(address):
            raise GatewayUnusable(
                "another owner has a public IP address with the name that this gateway's address would get",
                where=str(place.address),
                fix="name the gateway otherwise (flexnode_vpn_gateway_name)",
            )
        # An interrupted run may have made the subnet: then the address that it made after it says so.
        tags = plan.tags_of(subnet_made=bool(prefix) or plan.made_subnet(address))
        if prefix:
            done.actions.append(f"create {SUBNET_NAME} {prefix} in VNet {place.vnet.name}")
        if address is None:
            done.actions.append(f"create public IP address {place.address.name}")
        done.actions.append(
            f"create VPN gateway {place.gateway.name} ({wanted.sku}, clients {wanted.pool}), "
            "which takes 30 to 45 minutes"
        )
        subnet = f"{place.vnet}/subnets/{name_of(place.subnet)}"
        body = plan.gateway_body(place.location, wanted, subnet, place.address, trust, tags)
        if self._check:
            return body
        # The address first: it is what remembers, by its tag, that the subnet is ours.
        if address is None or (prefix and not plan.made_subnet(address)):
            self._network.put(place.address, plan.address_body(place.location, wanted.zones, tags))
        if prefix:
            self._network.put_subnet(place.vnet, prefix)
        self._tell(f"{place.gateway.name}: creating the VPN gateway, which takes 30 to 45 minutes")
        self._network.put(place.gateway, body, new=True)
        return self._settled(place.gateway) or body

    def _profiles(
        self, place: Place, request: Request, gateway: Mapping[str, Any], record: Record, done: Done
    ) -> None:
        """Each machine's own profile, from one that Azure generates for all of them."""
        if not request.machines:
            return
        stamp = profile.stamp_of(gateway)
        if not record.template or record.profile_of != stamp or request.refresh_profile:
            template = profile.template_in(self._fetch(self._network.profile_url(place.gateway)))
            profile.require_readable(
                template, record.pair(done.issues[0].client.thumbprint), str(place.gateway)
            )
            if template != record.template:
                done.actions.append(f"fetch the client profile of VPN gateway {place.gateway.name}")
            record.template, record.profile_of = template, stamp
            self._store.write(record)
        done.profiles = {
            issue.client.node: profile.filled(record.template, record.pair(issue.client.thumbprint))
            for issue in done.issues
        }

    # --- absent --------------------------------------------------------------------------------------------

    def absent(self, place: Place, *, force: bool) -> Done:
        """Remove what this collection made: of another owner's gateway only its certificates."""
        with self._locked():
            gateway, done = self._settled(place.gateway), Done()
            place = named_by(place, gateway)
            self._require_unused(place, gateway, force)
            done.diff = _diff(place.gateway.name, plan.shown(gateway), {}, ())
            if gateway is not None and not plan.is_ours(gateway):
                self._withdraw(place, gateway, done)
            else:
                self._delete(place, gateway, done)
            if self._store.read(secrets=False) is not None:
                done.actions.append("delete the record of VPN certificates")
                if not self._check:
                    self._store.remove()
            return done

    def _delete(self, place: Place, gateway: Json | None, done: Done) -> None:
        """Delete gateway, subnet and address; what an interrupted run left is deleted by the next."""
        address = self._network.get(place.address)
        made_subnet = plan.made_subnet(gateway) or plan.made_subnet(address)
        if gateway is not None:
            done.actions.append(f"delete VPN gateway {place.gateway.name}")
            if not self._check:
                self._tell(f"{place.gateway.name}: deleting the VPN gateway, which takes minutes")
                self._network.delete(place.gateway)
        # Where it was, even if another VNet is given: that one may have a subnet of somebody else.
        vnet = vnet_of_gateway(gateway) or place.vnet
        subnet = gateway_subnet(self._network.get(vnet) or {})
        others = [one for one in gateways_in(subnet) if not one.same(place.gateway)]
        if made_subnet and subnet is not None and not others:
            done.actions.append(f"delete {name_of(subnet)} of VNet {vnet.name}")
            if not self._check:
                self._network.delete_subnet(vnet, name_of(subnet))
        # Last: its tag is what an interrupted run would need to know.
        if plan.is_ours(address):
            done.actions.append(f"delete public IP address {place.address.name}")
            if not self._check:
                self._network.delete(place.address)

    def _withdraw(self, place: Place, gateway: Json, done: Done) -> None:
        """Take root certificates of this collection out of a gateway that someone else made."""
        nothing = plan.Trust(roots={}, only_these=True)
        names = plan.surplus_roots(gateway, nothing)
        if not names:
            return
        done.actions.append(
            f"remove the root certificate of this collection from VPN gateway {place.gateway.name}"
        )
        if not self._check:
            body = plan.changed_body(gateway, Wanted("", ""), nothing, ours=False)
            self._network.put(place.gateway, body, str(gateway.get("etag") or ""))

    def _require_unused(self, place: Place, gateway: Json | None, force: bool) -> None:
        record = self._store.read(secrets=False)
        now = self._clock.now()
        nodes = sorted(
            {
                one.node
                for one in (record.clients if record else ())
                if one.state in (ACTIVE, REPLACED) and not one.expired(now)
            }
        )
        if gateway is not None and nodes and not force:
            raise ClientsActive(
                f"these machines have valid VPN certificates of the gateway: {', '.join(nodes[:10])}"
                f"{', ...' if len(nodes) > 10 else ''}",
                where=str(place.gateway),
                why="without it they no longer reach their cluster",
                fix="remove them first (ansible-playbook -i INVENTORY "
                "aks.flexnode.unbootstrap --limit HOSTS), or set "
                "force: true (flexnode_vpn_force: true)",
            )

    # --- both ----------------------------------------------------------------------------------------------

    def _settled(self, resource: ResourceId) -> Json | None:
        """The resource when no operation runs on it; one that an earlier run began is waited for."""
        started = self._clock.monotonic()
        told = started - TELL
        while True:
            found = self._network.get(resource)
            if state_of(found) not in UNSETTLED or self._check:
                return found
            now = self._clock.monotonic()
            if now - started >= self._seconds:
                raise late(str(resource), self._seconds)
            if now - told >= TELL:
                name = (own_id(found) or resource).name
                self._tell(f"{name}: {state_of(found)} for {(now - started) / 60:.0f} min")
                told = now
            self._clock.sleep(self._pause)

    def _require_apart(
        self, place: Place, gateway: Json | None, wanted: Wanted, changes_settings: bool
    ) -> None:
        """Refuse overlapping ranges before anything is made, or used for the first time."""
        texts = [wanted.pool] if gateway is None or changes_settings else plan.pool_of(gateway)
        for pool in ranges("the addresses of VPN clients", texts):
            require_apart(pool, place.ranges)

    def _subnet_prefix(self, place: Place, request: Request) -> str:
        """The range of a GatewaySubnet that has to be made; empty: there is one."""
        if place.subnet is not None:
            return ""
        # Nothing is routed twice: the new subnet keeps away from everything that is known.
        outside = [one for one in place.ranges if one.what not in (place.SPACE, place.SUBNETS)]
        taken: list[Range] = [*place.subnets, *outside]
        return str(subnet_range(request.subnet_cidr, place.space, taken, str(place.vnet)))

    def _locked(self) -> AbstractContextManager[None]:
        return nullcontext() if self._check else self._store.locked(self._clock, self._seconds, self._tell)


def described(place: Place, gateway: Mapping[str, Any] | None) -> Json:
    """The gateway as a module returns it."""
    place = named_by(place, gateway)
    return {
        "id": str(place.gateway),
        "name": place.gateway.name,
        "vnet_id": str(place.vnet),
        **plan.shown(gateway),
    }


def _diff(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], new: Sequence[certificates.Issue]
) -> Json:
    title = f"VPN gateway {name}"
    issued = {issue.client.node: issue.client.thumbprint for issue in new}
    return {
        "before_header": title,
        "after_header": title,
        "before": dict(before),
        "after": {**after, **({"certificates": issued} if issued else {})},
    }
