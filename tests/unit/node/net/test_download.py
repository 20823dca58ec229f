# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Downloads: what has arrived is used, what breaks off is continued, what is wrong is refused early."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ArtifactTooLarge,
    ArtifactTruncated,
    ArtifactUnreachable,
    DigestMismatch,
    DiskFull,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.download import (
    ATTEMPTS,
    KIB,
    Download,
    Wanted,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from tests.unit.node.fakes import FakeClock, Machine
from tests.unit.node.servers import Answer, Request, Server, serving

PART = "/cache/part"
CONTENT = b"program"
TAG = {"ETag": '"one"'}


def wanted(url: str, content: bytes = CONTENT, largest: int = 1 << 30) -> Wanted:
    return Wanted("tool 1.0.0", f"{url}/tool", hashlib.sha256(content).hexdigest(), largest)


def a_download(machine: Machine, file: Wanted, **options: Any) -> Download:
    machine.path("/cache").mkdir(exist_ok=True)
    client = options.pop("client", None) or HttpClient(clock=machine.clock)
    return Download(machine.host, client, file, PART, jitter=lambda: 1.0, **options)


def ranged(content: bytes, cut: int | None = None, **headers: str) -> Callable[[Request], Answer]:
    """A server that knows ranges; `cut` closes each connection after so many bytes."""

    def answer(request: Request) -> Answer:
        start = int(request.headers.get("Range", "bytes=0-")[len("bytes=") : -1])
        if request.headers.get("If-Range", headers.get("ETag")) != headers.get("ETag"):
            start = 0
        if start >= len(content):
            return Answer(status=416, headers={"Content-Range": f"bytes */{len(content)}"})
        part = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        return Answer(content[start:], 206 if start else 200, {**headers, **part}, cut)

    return answer


def ranges(server: Server) -> list[tuple[str | None, str | None]]:
    """Range and If-Range of every request."""
    return [(request.headers.get("Range"), request.headers.get("If-Range")) for request in server.requests]


# -- what breaks off -----------------------------------------------------------------------------------------


def test_a_broken_download_continues_where_it_stopped(machine: Machine) -> None:
    with serving(ranged(CONTENT, cut=3, **TAG)) as server:
        a_download(machine, wanted(server.url)).run()
    assert machine.text(PART) == "program"
    assert ranges(server) == [(None, None), ("bytes=3-", '"one"'), ("bytes=6-", '"one"')]
    assert machine.clock.naps == [1.0, 2.0]


def test_the_date_of_a_file_tells_its_version_where_there_is_no_strong_tag(machine: Machine) -> None:
    date = "Wed, 21 Oct 2026 07:28:00 GMT"
    left = [
        Answer(CONTENT, 200, {"ETag": 'W/"weak"', "Last-Modified": date}, cut=3),
        Answer(CONTENT, 200),
    ]
    with serving(lambda _: left.pop(0)) as server:
        a_download(machine, wanted(server.url)).run()
    assert ranges(server)[1] == ("bytes=3-", date)


def test_a_server_without_ranges_sends_all_again(machine: Machine) -> None:
    left = [Answer(CONTENT, cut=3), Answer(CONTENT)]
    with serving(lambda _: left.pop(0)) as server:
        a_download(machine, wanted(server.url)).run()
    assert machine.text(PART) == "program"


def test_a_file_that_was_replaced_meanwhile_is_fetched_from_its_start(machine: Machine) -> None:
    left = [ranged(b"pro-old-content", cut=3, ETag='"old"'), ranged(CONTENT, **TAG)]
    with serving(lambda request: left.pop(0)(request)) as server:
        a_download(machine, wanted(server.url)).run()
    assert machine.text(PART) == "program"
    assert ranges(server) == [(None, None), ("bytes=3-", '"old"')]


def test_a_later_run_continues(machine: Machine) -> None:
    machine.put(PART, "prog")
    with serving(ranged(CONTENT)) as server:
        a_download(machine, wanted(server.url)).run()
    assert machine.text(PART) == "program"
    assert ranges(server) == [("bytes=4-", None)]


def test_a_run_that_was_killed_at_the_end_needs_no_request(machine: Machine) -> None:
    machine.put(PART, CONTENT)
    a_download(machine, wanted("http://nobody.invalid")).run()
    assert machine.clock.naps == []


@pytest.mark.parametrize("left", ["xxxx", "longer than the file"], ids=["another part", "too long"])
def test_a_part_of_another_file_costs_one_download_from_the_start(machine: Machine, left: str) -> None:
    machine.put(PART, left)
    with serving(ranged(CONTENT)) as server:
        a_download(machine, wanted(server.url)).run()
    assert machine.text(PART) == "program"
    assert ranges(server) == [(f"bytes={len(left)}-", None), (None, None)]


def test_an_answer_from_another_position_is_not_appended(machine: Machine) -> None:
    machine.put(PART, "prog")
    wrong = Answer(b"ogram", 206, {"Content-Range": "bytes 2-6/7"})
    with serving(lambda request: wrong if "Range" in request.headers else Answer(CONTENT)) as server:
        a_download(machine, wanted(server.url)).run()
    assert machine.text(PART) == "program"
    assert ranges(server) == [("bytes=4-", None), (None, None)]


def test_a_server_that_always_sends_a_part_is_not_asked_for_ever(machine: Machine) -> None:
    machine.put(PART, "prog")
    wrong = Answer(b"ogram", 206, {"Content-Range": "bytes 2-6/7"})
    with serving(lambda _: wrong) as server, pytest.raises(DigestMismatch):
        a_download(machine, wanted(server.url)).run()
    assert len(server.requests) == 2


def test_wrong_content_after_a_resume_and_again_from_the_start_is_reported(machine: Machine) -> None:
    machine.put(PART, "prog")
    with serving(ranged(b"another")) as server, pytest.raises(DigestMismatch) as caught:
        a_download(machine, wanted(server.url)).run()
    assert hashlib.sha256(b"another").hexdigest() in caught.value.why
    assert ranges(server) == [("bytes=4-", None), (None, None)]
    assert machine.host.stat(PART).absent


def test_a_line_that_always_breaks_is_given_up_after_growing_pauses(machine: Machine) -> None:
    with serving(lambda _: Answer(CONTENT, cut=3)) as server, pytest.raises(ArtifactTruncated) as caught:
        a_download(machine, wanted(server.url)).run()
    assert (len(server.requests), machine.clock.naps) == (ATTEMPTS, [1.0, 2.0, 4.0])
    assert "3 of 7 bytes" in caught.value.why
    assert machine.text(PART) == "pro"  # the next run continues there


def test_a_line_that_breaks_often_is_not_given_up_while_bytes_arrive(machine: Machine) -> None:
    content, step = bytes(10 << 20), 5 << 18  # 1.25 MiB per connection
    with serving(ranged(content, cut=step)) as server:
        a_download(machine, wanted(server.url, content)).run()
    assert len(server.requests) == len(content) // step
    assert len(server.requests) > ATTEMPTS
    assert set(machine.clock.naps) == {1.0}


@pytest.mark.parametrize("cut", [700 * KIB, 100 * KIB], ids=["a minute at 12 KB/s", "a minute at 2 KB/s"])
def test_a_slow_line_that_breaks_often_is_not_given_up(machine: Machine, cut: int) -> None:
    content = bytes(3 << 20)
    with serving(ranged(content, cut=cut)) as server:
        a_download(machine, wanted(server.url, content)).run()
    assert len(server.requests) == -(-len(content) // cut)
    assert len(server.requests) > ATTEMPTS


def test_a_busy_server_says_when_to_come_back_and_the_part_is_kept(machine: Machine) -> None:
    machine.put(PART, "prog")
    left = [Answer(status=503, headers={"Retry-After": "7"})]
    with serving(lambda request: left.pop() if left else ranged(CONTENT)(request)) as server:
        a_download(machine, wanted(server.url)).run()
    assert machine.clock.naps == [7.0]
    assert ranges(server) == [("bytes=4-", None)] * 2


def test_a_server_that_fails_leaves_the_part(machine: Machine) -> None:
    machine.put(PART, "prog")
    with serving(lambda _: Answer(status=404)) as server, pytest.raises(ArtifactUnreachable, match="404"):
        a_download(machine, wanted(server.url)).run()
    assert machine.text(PART) == "prog"


# -- slow lines ----------------------------------------------------------------------------------------------


@dataclass
class Line:
    """A client at the end of a line that brings so many bytes in each second, and never breaks."""

    clock: FakeClock
    content: bytes
    rate: int
    asked: list[str | None] = field(default_factory=list)

    def open(self, *_: Any, headers: dict[str, str]) -> Any:
        self.asked.append(headers.get("Range"))
        start = int(headers.get("Range", "bytes=0-")[len("bytes=") : -1])
        rest, answer = self.content[start:], Message()
        answer["Content-Length"] = str(len(rest))
        if start:
            answer["Content-Range"] = f"bytes {start}-{len(self.content) - 1}/{len(self.content)}"
        return _Slow(io.BytesIO(rest), answer, 206 if start else 200, self)


def test_a_line_that_is_slow_but_steady_is_not_given_up(machine: Machine) -> None:
    content = bytes(range(256)) * (4 * KIB)
    line = Line(machine.clock, content, 4 * KIB)  # four files share 16 KiB/s
    a_download(machine, wanted("http://x.example", content), client=line).run()
    assert machine.path(PART).read_bytes() == content
    assert line.asked == [None]


def test_a_line_that_stalls_is_given_up_and_the_next_run_continues(machine: Machine) -> None:
    content = bytes(100 * KIB)
    dead = Line(machine.clock, content, KIB // 2)
    with pytest.raises(ArtifactUnreachable, match=r"the download of tool 1\.0\.0 has stalled") as caught:
        a_download(machine, wanted("http://x.example", content), client=dead).run()
    assert caught.value.why == f"less than 64 KiB in 60 s, {61 * KIB // 2} bytes so far"
    again = Line(machine.clock, content, 4 * KIB)
    a_download(machine, wanted("http://x.example", content), client=again).run()
    assert again.asked == [f"bytes={61 * KIB // 2}-"]


# -- limits --------------------------------------------------------------------------------------------------


def test_an_announced_size_above_the_limit_is_refused_before_anything_is_written(machine: Machine) -> None:
    with serving(lambda _: Answer(CONTENT)) as server, pytest.raises(ArtifactTooLarge) as caught:
        a_download(machine, wanted(server.url, largest=6)).run()
    assert caught.value.where == f"{server.url}/tool"
    assert machine.host.stat(PART).absent


@dataclass
class Endless:
    """A client whose server announces no length and never stops."""

    headers: Message = field(default_factory=Message)
    status: int = 200

    def open(self, *_: Any, **__: Any) -> Any:
        return _Answer(io.BytesIO(bytes(8 << 20)), self.headers, self.status)


@dataclass
class _Answer:
    body: io.BytesIO
    headers: Message
    status: int

    def read1(self, size: int) -> bytes:
        return self.body.read(size)

    def __enter__(self) -> _Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self.body.close()


@dataclass
class _Slow(_Answer):
    line: Line

    def read1(self, size: int) -> bytes:
        self.line.clock.time += 1.0
        return self.body.read(min(size, self.line.rate))


def test_a_size_above_the_limit_that_was_not_announced_ends_the_download(machine: Machine) -> None:
    with pytest.raises(ArtifactTooLarge, match="at most 3 MiB"):
        a_download(machine, wanted("http://x.example", largest=3 << 20), client=Endless()).run()
    assert machine.host.stat(PART).absent


def test_space_is_checked_before_anything_is_written(machine: Machine) -> None:
    asked: list[tuple[int, int]] = []

    def full(missing: int, total: int) -> None:
        asked.append((missing, total))
        raise DiskFull("full")

    machine.put(PART, "prog")
    with serving(ranged(CONTENT)) as server, pytest.raises(DiskFull):
        a_download(machine, wanted(server.url), check_space=full).run()
    assert asked == [(3, 7)]
    assert machine.host.stat(PART).absent  # a full disk has no room for a part
