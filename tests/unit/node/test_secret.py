# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A Secret is used, never shown; errors have stable codes."""

from __future__ import annotations

import copy
import json
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    NOT_SET,
    UNKNOWN_KEY,
    ConfigInvalid,
    DigestMismatch,
    Problem,
    counted,
    error_classes,
    shown,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import REDACTED, Secret

secret_texts = st.text("QXZ", min_size=8)


@given(secret_texts)
def test_no_way_of_printing_shows_it(text: str) -> None:
    secret = Secret(text)
    for printed in (repr(secret), str(secret), f"{secret}", f"{secret:>20}", "%s" % secret, repr([secret])):  # noqa: UP031
        assert text not in printed
    assert secret.reveal() == text
    assert text not in json.dumps({"a": secret}, default=str)


def test_json_and_pickle_refuse_it() -> None:
    with pytest.raises(TypeError):
        json.dumps(Secret("x"))
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(Secret("x"))


def test_it_compares_hashes_and_copies() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    secret = Secret("ä")
    assert copy.deepcopy(secret) is secret
    assert copy.copy(secret) is secret


def test_it_does_not_change() -> None:
    with pytest.raises(AttributeError):
        Secret("a")._text = "b"


def test_the_mark_of_a_redacted_document_is_known() -> None:
    assert Secret(REDACTED).redacted
    assert not Secret("x").redacted
    assert Secret("x")
    assert not Secret("")


def test_codes_are_unique_and_described() -> None:
    classes = error_classes()
    codes = [cls.code for cls in classes]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"FLEX-(1[1-9]|20)\d\d", code) for code in codes)
    assert len({cls.title for cls in classes}) == len(classes)


def test_a_message_says_what_where_why_and_what_to_do() -> None:
    error = DigestMismatch("digest of runc.arm64 differs", where="https://m/runc", why="expected 4a, got 9f")
    assert str(error).startswith(
        "FLEX-1203: digest of runc.arm64 differs (https://m/runc): expected 4a, got 9f\nfix: "
    )
    assert error.as_dict()["code"] == "FLEX-1203"
    assert DigestMismatch("x", fix="do this").fix == "do this"


def test_problems_are_text_and_data() -> None:
    error = ConfigInvalid([Problem("a.b", "1", "2", "because").under("c")])
    assert "\n  c.a.b is 1, but because. Set 2\n" in str(error)
    assert error.as_dict()["problems"] == [
        {"path": "c.a.b", "value": "1", "accepted": "2", "hint": "because"}
    ]
    assert Problem("[0]", "", "").under("a.b").path == "a.b[0]"


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (Problem("a", NOT_SET, "a CIDR", "b needs it"), "a is missing: b needs it. Set a CIDR"),
        (Problem("a", NOT_SET, "a CIDR"), "a is missing. Set a CIDR"),
        (Problem("a", "5", "text"), "a is 5. Set text"),
        (Problem("a", UNKNOWN_KEY, "b, c"), "a: unknown key. Known keys: b, c"),
        (Problem("a", UNKNOWN_KEY, "b, c", "did you mean b?"), "a: unknown key, did you mean b?"),
    ],
)
def test_a_problem_is_a_sentence(problem: Problem, sentence: str) -> None:
    assert str(problem) == sentence


def test_a_number_has_its_noun() -> None:
    assert [counted(count, "item") for count in (0, 1, 2)] == ["0 items", "1 item", "2 items"]


def test_long_values_are_described() -> None:
    assert shown("x" * 81) == "a text of 81 characters"
    assert shown("x") == '"x"'
    assert shown({"a": 1}) == "a mapping of 1"
