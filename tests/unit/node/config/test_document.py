# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documents as data: reading, bundles, merging, comparing, and that no secret is ever shown."""
# ruff: noqa: E501 - a table reads best with one case a line

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import (
    as_read,
    beyond,
    canonical,
    carry_secrets,
    config_version,
    loads,
    merge,
    misshapen,
    redact,
    restore_secrets,
    secrets_of,
    unwrap,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.early import early_form
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.model import NodeConfig
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.setting import table
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid, NotJson
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import REDACTED
from tests.unit.node.config.test_samples import (
    CLIENT,
    CLUSTER,
    EARLY,
    MONITORED_BUNDLE,
    PRINCIPAL,
    TENANT,
    TOKEN,
    TOKEN_JOIN,
    at,
    joining,
    problems_of,
)
from tests.unit.node.tunnels import a_profile

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
documents = st.dictionaries(st.text(max_size=6), json_values, max_size=5)
# Never part of a field's name or of a message, so that finding it means a leak.
planted = st.text("QXZ", min_size=12, max_size=20)


@pytest.mark.parametrize(
    ("text", "line", "column", "why"),
    [
        ('{\n  "a": 1, // why\n}', 2, 11, "no comments"),
        ('{\n  /* x */ "a": 1}', 2, 3, "no comments"),
        ('# x\n{"a": 1}', 1, 1, "no comments"),
        ('{"a": }', 1, 7, "Expecting value"),
        ('{"a": 1', 1, 8, "Expecting"),
        ("", 1, 1, "Expecting value"),
        ("[1]", 1, 1, "not a mapping"),
    ],
)
def test_what_is_not_json_is_refused_with_line_and_column(
    text: str, line: int, column: int, why: str
) -> None:
    with pytest.raises(NotJson, match=why) as caught:
        loads(text)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1,\n "b": {"c": 1,\n "c": 2}}', "'c' is in one mapping twice"),
        ('{"a": NaN}', "NaN"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b'{"a":\n ["\\uD800"]}', r"one of the lines 2\): \\ud800 is half of a character"),
        ('{"\\udfff": 1}', "half of a character"),
        ('{"a": "\ud800"}', "half of a character"),
        ('{"a":' * 100_000, "deeply|Expecting"),
        (f'{{"a": {"9" * 5000}}}', "thousands of digits"),
    ],
)
def test_json_is_read_strictly(text: str | bytes, why: str) -> None:
    with pytest.raises(NotJson, match=why):
        loads(text, where="config.json")


def test_a_duplicate_key_is_located() -> None:
    with pytest.raises(NotJson, match="lines 2, 3"):
        loads('{\n"a": 1,\n"a": 2}')


@given(documents)
def test_loads_reads_what_json_writes(document: dict[str, Any]) -> None:
    assert loads(json.dumps(document).encode()) == document


def test_unwrap_takes_a_bundle_or_a_bare_document() -> None:
    assert unwrap(MONITORED_BUNDLE) == (MONITORED_BUNDLE["config"], "1708123456")
    assert unwrap({"config": {}, "configVersion": 17}) == ({}, "17")
    assert unwrap({"config": {}}) == ({}, None)
    assert unwrap(TOKEN_JOIN) == (TOKEN_JOIN, None)


@pytest.mark.parametrize(
    ("bundle", "path"),
    [
        ({"config": "text"}, "config"),
        ({"config": {}, "configVersion": True}, "configVersion"),
        ({"config": {}, "configVersion": ""}, "configVersion"),
        ({"config": {}, "azure": {}}, "azure"),
    ],
)
def test_unwrap_refuses(bundle: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        unwrap(bundle)
    assert [problem.path for problem in caught.value.problems] == [path]


@pytest.mark.parametrize(
    ("base", "over", "expected"),
    [
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"b": 1}}, {"a": {"b": None}}, {"a": {}}),
        ({"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}),
        ({"a": {"b": 1}}, {"a": 2}, {"a": 2}),
        ({}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({"azure": {"arc": {"enabled": False}}}, {"azure": {"arc": {"autoRegister": True}}}, {"azure": {"arc": {"enabled": True}}}),
    ],
)  # fmt: skip
def test_merge(base: dict[str, Any], over: dict[str, Any], expected: dict[str, Any]) -> None:
    assert merge(base, over) == expected


@given(documents, documents, documents)
def test_merge_settles_and_leaves_its_arguments_alone(
    first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]
) -> None:
    before = deepcopy((first, second))
    merged = merge(first, second)
    assert (first, second) == before
    assert merge(merged, {}) == merged
    assert merge(merged, merged) == merged
    assert set(merge(merged, third)) <= set(merged) | set(third)


@given(st.integers(1, 500), st.integers(1, 500))
def test_parse_of_merge_takes_the_upper_value(low: int, high: int) -> None:
    merged = merge(joining(at("node.maxPods", low)), at("node.maxPods", high))
    assert parse(merged).node.max_pods == high


@given(documents)
def test_canonical_is_the_same_for_any_order_of_keys(document: dict[str, Any]) -> None:
    reversed_document = dict(reversed(list(document.items())))
    assert canonical(document) == canonical(reversed_document)
    assert config_version(document) == config_version(reversed_document)


def test_canonical_sees_through_spellings_and_nulls() -> None:
    assert canonical(at("azure.arc.autoRegister", True)) == canonical(
        {"azure": {"arc": {"enabled": True}}, "node": None}
    )
    assert config_version(at("node.maxPods", 1)) != config_version(at("node.maxPods", 2))


def with_secrets(secret: str) -> dict[str, Any]:
    """Return a document with a secret in every place that takes one."""
    return joining(
        {
            "azure": {
                "servicePrincipal": {**PRINCIPAL, "clientSecret": secret},
                "vpn": {"enabled": True, "profile": a_profile(key=secret)},
            },
            "proxy": {"http": f"http://user:{secret}@proxy:3128", "https": f"http://{secret}@proxy"},
            "pull": {"repository": f"https://{secret}@git.test/site.git"},
        }
    )


@given(planted)
def test_redact_leaks_no_secret_and_still_parses(secret: str) -> None:
    document = with_secrets(secret)
    shown = redact(document)
    assert secret not in json.dumps(shown)
    assert TOKEN not in json.dumps(shown)
    config = parse(shown)
    assert config.azure.bootstrap_token is not None
    assert config.azure.bootstrap_token.token.redacted
    assert secret not in repr(parse(document))
    assert restore_secrets(shown, document) == document


@given(planted)
def test_secrets_of_finds_every_secret(secret: str) -> None:
    found = secrets_of(with_secrets(secret))
    assert {secret, TOKEN, f"http://user:{secret}@proxy:3128"} <= set(found)
    assert not secrets_of(redact(with_secrets(secret)))


@given(planted, st.sampled_from(["azure.bootstrapToken.token", "azure.servicePrincipal.clientSecret", "azure.vpn.profile", "proxy.http", "pull.repository", "azure.bootstrapTokn", "azure.servicePrincipal"]), st.sampled_from(["{}", "x:{}@y", "ftp://{}@host", "http://u:{}", "http://[{}", "https://h:{}@"]), st.booleans())  # fmt: skip
def test_no_error_shows_a_secret(secret: str, path: str, form: str, nested: bool) -> None:
    value: Any = form.format(secret)
    document = joining(at("node.maxPods", 0), at(path, {"k": [value]} if nested else value))
    with pytest.raises(ConfigInvalid) as caught:
        parse(document)
    assert secret not in str(caught.value)
    assert secret not in json.dumps(caught.value.as_dict())


def test_redact_hides_what_no_field_claims() -> None:
    shown = redact(
        {"azure": {"servicePrincipal": {"clientSecrett": "x"}, "bootstrapToken": "y"}, "node": {"maxPods": 1}}
    )
    assert shown == {
        "azure": {"servicePrincipal": {"clientSecrett": REDACTED}, "bootstrapToken": REDACTED},
        "node": {"maxPods": 1},
    }


def test_of_overrides_only_the_credential_is_hidden() -> None:
    """The kubelet sends these headers to fetch its static pods; no other setting of it holds a secret."""
    header = {"Authorization": ["Bearer s3cret"]}
    document = joining(at("kubelet.configOverrides", {"staticPodURLHeader": header, "maxOpenFiles": 9}))
    shown = redact(document)
    assert shown["kubelet"]["configOverrides"] == {"staticPodURLHeader": REDACTED, "maxOpenFiles": 9}
    assert "Bearer s3cret" in secrets_of(document)
    assert parse(shown).kubelet.config_overrides["maxOpenFiles"] == 9
    assert restore_secrets(shown, document) == document


@pytest.mark.parametrize(
    "url", ["https://u:s3cret@pods/x", "https://pods/x?sig=s3cret", "https://s3cret@pods"]
)
def test_a_url_of_static_pods_is_hidden_if_it_holds_a_credential(url: str) -> None:
    document = joining(at("kubelet.configOverrides", {"staticPodURL": url, "maxOpenFiles": 9}))
    shown = redact(document)
    assert shown["kubelet"]["configOverrides"] == {"staticPodURL": REDACTED, "maxOpenFiles": 9}
    assert url in secrets_of(document)
    assert restore_secrets(shown, document) == document
    assert parse(shown).kubelet.config_overrides["maxOpenFiles"] == 9
    plain = at("kubelet.configOverrides", {"staticPodURL": "https://pods/x"})
    assert redact(plain) == plain


def test_a_token_in_the_query_of_a_repository_is_hidden_too() -> None:
    """It is refused when the document is read, but documents that are refused are shown, too."""
    document = joining(at("pull.repository", "https://git.example/repo.git?private_token=s3cret"))
    assert redact(document)["pull"] == {"repository": REDACTED}
    assert "private_token=s3cret" in secrets_of(document)


def test_a_proxy_without_credentials_stays_visible() -> None:
    document = joining(at("proxy.http", "http://proxy:3128"))
    assert redact(document)["proxy"] == {"http": "http://proxy:3128"}


def test_restore_takes_only_what_was_hidden() -> None:
    assert restore_secrets(at("node.maxPods", 5), at("node.maxPods", 6)) == at("node.maxPods", 5)
    hidden = {"azure": {"servicePrincipal": {**PRINCIPAL, "clientSecret": REDACTED}}}
    assert restore_secrets(hidden, {"azure": {"servicePrincipal": PRINCIPAL}}) == {
        "azure": {"servicePrincipal": PRINCIPAL}
    }
    assert restore_secrets(hidden, {}) == hidden


def test_a_provider_that_omits_secrets_keeps_ours() -> None:
    stored = joining({"azure": {"servicePrincipal": PRINCIPAL}, "node": {"maxPods": 5}})
    polled = deepcopy(stored)
    del (
        polled["azure"]["bootstrapToken"],
        polled["azure"]["servicePrincipal"]["clientSecret"],
        polled["node"]["maxPods"],
    )
    carried = carry_secrets(polled, stored)
    assert carried["azure"] == stored["azure"]
    assert "maxPods" not in carried["node"]


def test_a_proxy_that_was_removed_does_not_come_back() -> None:
    stored = joining(
        {"proxy": {"http": "http://u:p@proxy", "no": ["a.test"]}, "azure": {"vpn": {"profile": "secret"}}}
    )
    assert carry_secrets(joining({"proxy": {"no": ["a.test"]}}), stored)["proxy"] == {"no": ["a.test"]}
    assert "proxy" not in carry_secrets(joining(), stored)
    polled = joining({"azure": {"vpn": {"enabled": True}}})
    assert carry_secrets(polled, stored)["azure"]["vpn"] == {"enabled": True, "profile": "secret"}


def test_lone_surrogates_do_no_harm() -> None:
    """A document of the inventory is not read from JSON."""
    assert config_version({"a": "\ud800"}).startswith("sha256-")


def test_whole_characters_may_be_escaped() -> None:
    assert loads(b'{"a": "\\ud83d\\ude00 \\u00e9"}') == {"a": "\U0001f600 \u00e9"}


def test_a_principal_that_was_removed_does_not_come_back() -> None:
    stored = joining({"azure": {"servicePrincipal": PRINCIPAL}})
    assert carry_secrets(TOKEN_JOIN, stored) == TOKEN_JOIN
    in_file = {"clientId": CLIENT, "clientSecretFile": "/etc/sp", "clientTenant": TENANT}
    polled = joining({"azure": {"servicePrincipal": in_file}})
    assert carry_secrets(polled, stored) == polled


def test_early_form_is_put_in_todays_words() -> None:
    before = deepcopy(EARLY)
    azure = early_form(EARLY)["azure"]
    assert before == EARLY
    assert azure["targetCluster"] == {"resourceId": CLUSTER, "location": "westeurope"}
    assert azure["arc"] == {"autoRegister": True, "resourceGroup": "edge-rg"}
    assert "location" not in azure
    assert "resourceGroup" not in azure


def test_early_form_takes_the_common_resource_group() -> None:
    document = deepcopy(EARLY)
    del document["azure"]["arc"]["targetCluster"]["resourceGroup"]
    assert parse(document).cluster_id.resource_group == "edge-rg"


def test_early_form_says_what_names_the_cluster() -> None:
    assert set(problems_of({"azure": {"arc": {"targetCluster": {"nam": "plant"}}}})) == {
        "azure.subscriptionId",
        "azure.resourceGroup",
        "azure.arc.targetCluster.name",
        "azure.arc.targetCluster.nam",
    }


@given(documents)
def test_todays_form_passes_through(document: dict[str, Any]) -> None:
    assert early_form(document) == document


@pytest.mark.parametrize(
    ("over", "document", "left"),
    [
        ({}, {"node": {"maxPods": 5}}, {}),
        ({"node": {"maxPods": 5}}, {"node": {"maxPods": 5}}, {}),
        (
            {"node": {"maxPods": 6, "labels": {"a": "b"}}},
            {"node": {"maxPods": 5, "labels": {"a": "b"}}},
            {"node": {"maxPods": 6}},
        ),
        ({"node": {"maxPods": 5}}, {}, {"node": {"maxPods": 5}}),
        ({"kubernetes": {"version": "v1.34.4"}}, {"kubernetes": {"version": "1.34.4"}}, {}),
        ({"azure": {"arc": {"autoRegister": True}}}, {"azure": {"arc": {"enabled": True}}}, {}),
        ({"node": {"labels": None}}, {"node": {"labels": {"a": "b"}}}, {"node": {"labels": None}}),
        ({"node": {"labels": None}}, {"node": {}}, {}),
        ({"nodes": 1}, {"nodes": 1}, {}),
        ({"node": {"maxPods": "many"}}, {"node": {"maxPods": 5}}, {"node": {"maxPods": "many"}}),
        (
            {"node": {"taints": ["a=b:NoSchedule"]}},
            {"node": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}},
            {},
        ),
    ],
)
def test_what_an_override_adds_to_a_document(
    over: dict[str, Any], document: dict[str, Any], left: dict[str, Any]
) -> None:
    assert beyond(over, document) == left


# -- values that may be spelled in several ways -------------------------------------------------------------

SPELLED = [
    (f"{row.path.rpartition('.')[0]}.{key}".strip("."), row.setting.kind, word)
    for row in table(NodeConfig)
    if row.setting.kind.accepts == "true or false" or " | " in row.setting.kind.accepts
    for key in row.setting.keys
    for word in row.setting.kind.accepts.replace(" or ", " | ").split(" | ")
]


def test_the_table_of_spellings_has_choices_booleans_and_other_names() -> None:
    paths = {path for path, _kind, _word in SPELLED}
    assert {"cni.mode", "kubernetesAuth.method", "azure.arc.autoRegister", "azure.vpn.enabled"} <= paths


@pytest.mark.parametrize(
    ("path", "kind", "word"), SPELLED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_document_has_the_values_that_a_node_reads(path: str, kind: Any, word: str) -> None:
    """The controller decides by them before any node has parsed the document."""
    assert as_read(at(path, word.upper())) == as_read(at(path, word)) == at(path, kind.read(word))


@pytest.mark.parametrize(
    "document",
    [
        {"cni": {"mode": "bridged"}},
        {"azure": {"vpn": {"enabled": "yes"}}},
        {"continuousMonitoring": None, "cni": None},
        {"cni": ["bridge"], "azure": "x", "node": {"labels": {"gpu": "TRUE"}}},
        {"unknown": {"enabled": "TRUE"}, "kubernetes": {"version": "v1.34.4"}},
        {"azure": {"bootstrapToken": {"token": REDACTED}}},
    ],
    ids=str,
)
def test_all_other_values_stay_as_they_are(document: dict[str, Any]) -> None:
    assert as_read(deepcopy(document)) == document


def test_a_word_that_yaml_makes_a_boolean_of() -> None:
    assert as_read({"drift": {"mode": False}}) == {"drift": {"mode": "off"}}


@given(documents)
def test_reading_values_twice_changes_nothing_more(document: dict[str, Any]) -> None:
    assert as_read(as_read(document)) == as_read(document)


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ({}, []),
        (TOKEN_JOIN, []),
        ({"node": None, "kubernetes": {}}, []),
        ({"node": ["x"], "azure": "x"}, ["node", "azure"]),
        (
            {"azure": {"arc": True, "targetCluster": {"resourceId": 5}}, "paths": {"kubernetes": 1}},
            ["azure.arc", "paths.kubernetes"],
        ),
        ({"unknown": 1, "node": {"labels": ["no section"]}}, []),
    ],
    ids=str,
)
def test_sections_that_are_no_mappings(document: dict[str, Any], paths: list[str]) -> None:
    assert [path for path, _value in misshapen(document)] == paths
