# SPDX-License-Identifier: GPL-3.0-or-later
"""Microsoft.Features: whether the subscription is registered for a preview."""

from __future__ import annotations

from testbed.azure.arm.errors import ArmError
from testbed.azure.arm.operation import Answer, Call, Operation
from testbed.azure.arm.subscriptions import SUBSCRIPTION

NAMESPACE = "Microsoft.ContainerService"
FEATURES = f"{SUBSCRIPTION}/providers/Microsoft.Features/providers/{NAMESPACE}/features"
SETTINGS = {"AKSFlexNodePreview": "flex_node_feature", "PutMachinePreview": "machine_feature"}


def get(call: Call) -> Answer:
    """One feature."""
    wanted = call.values["feature"].lower()
    name = next((one for one in SETTINGS if one.lower() == wanted), None)
    if name is None:
        message = f"The feature '{call.values['feature']}' could not be found."
        raise ArmError(404, "FeatureNotFound", message)
    registered = getattr(call.cloud.database.settings, SETTINGS[name])
    subscription = call.cloud.place.subscription_id
    return Answer(
        200,
        {
            "id": f"{FEATURES.format(subscription=subscription)}/{name}",
            "name": f"{NAMESPACE}/{name}",
            "type": "Microsoft.Features/providers/features",
            "properties": {"state": "Registered" if registered else "NotRegistered"},
        },
    )


OPERATIONS = (
    Operation(
        "GET",
        f"{FEATURES}/{{feature}}",
        "Microsoft.Features/providers/features/read",
        get,
        over=SUBSCRIPTION,
    ),
)
