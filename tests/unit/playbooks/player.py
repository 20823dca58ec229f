# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs ansible-playbook for tests without starting it: a process with Ansible loaded forks one for each run.

What a run then does is Ansible's own from its command line on: inventory, templates, tasks in workers, action
plugins, results. What differs from a user's run only spares time:

* Ansible and the collection's action plugins are imported once, so each run finds the collection at the same
  path, a link to the one of its test. Ansible reads its settings of the environment while it is imported: a
  run with other ones gets a process of its own (`players.py`).
* Where a module of a stage (`stage.STUB`) would be started by a shell on the "machine", the local connection
  does what the shell would: makes the directory, runs the file, deletes it. All other commands are run.
* What Jinja made of a template is kept for the next worker, and the node's code is not packed for modules
  that would not use it.

Of internals this needs: `ansible.cli.playbook.main(arguments)`; that a plugin whose module is known to Python
is not loaded again; `get(name, class_only=True)` of the plugin loaders; `_AnsibleCollectionFinder` with its
`_install` and `_remove`; `constants.DEFAULT_LOCAL_TMP`; that the local connection has `exec_command` and
`become`; and Jinja's `Environment.compile` and `compile_expression`. A shell command that reads differently
in another version is not recognised, and is run: slower, and no less right. `test_player.py` notices it.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import io
import json
import marshal
import os
import pkgutil
import re
import runpy
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from jinja2 import Environment

ROOT = Path(__file__).parents[3]
OURS = "ansible_collections.aks.flexnode.plugins"
# Kinds of plugins that nearly every run loads. Connections and lookups by name: most need packages of others.
KINDS = ("action", "callback", "filter", "inventory", "shell", "strategy", "test", "vars")
SINGLE = (
    "ansible.cli.playbook",
    "ansible.executor.playbook_executor",
    "ansible.plugins.become.sudo",
    "ansible.plugins.cache.memory",
    "ansible.plugins.connection.local",
    "ansible.plugins.lookup.env",
    "ansible.plugins.lookup.file",
    "ansible.plugins.lookup.pipe",
    "ansible.plugins.lookup.vars",
)
MAKES = re.compile(
    r"\( umask (?P<mask>[0-7]+) && mkdir -p \"` echo (?P<base>[\w./-]+) `\" ?"
    r"&& mkdir \"` echo (?P<made>[\w./-]+) `\" ?"
    r"&& echo (?P<name>[\w.-]+)=\"` echo (?P=made) `\" \)"
)
DELETES = re.compile(r"rm -f -r (?P<path>[\w./-]+) > /dev/null 2>&1")
PERMITS = re.compile(r"chmod (?P<mode>u\+rwx|u\+x)(?P<paths>( [\w./-]+)+)")
STUBBED = "# WANT_JSON\n"  # after the line that names a Python, which Ansible replaces
# What decides how a Jinja environment reads a template.
SYNTAX = (
    *("block_start_string", "block_end_string", "variable_start_string", "variable_end_string"),
    *("comment_start_string", "comment_end_string", "line_statement_prefix", "line_comment_prefix"),
    *("trim_blocks", "lstrip_blocks", "newline_sequence", "keep_trailing_newline"),
    *("undefined", "autoescape", "finalize", "is_async", "sandboxed"),
)


def main() -> None:
    """Read runs from stdin, one line each, and answer each with one: its exit status, or what went wrong."""
    sys.path.pop(0)  # this file's folder: its names are not for Ansible
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    place = Path(sys.argv[1])
    load(place)
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(played(place, json.loads(line), answers)), file=answers, flush=True)
    shutil.rmtree(place, ignore_errors=True)


# --- what all runs share -----------------------------------------------------------------------------------


def load(place: Path) -> None:
    """Import what every run would import, and nothing that the test's own directory could change."""
    for name in SINGLE:
        importlib.import_module(name)
    for kind in KINDS:
        package = importlib.import_module(f"ansible.plugins.{kind}")
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(Exception):  # what is not for this machine (Windows): no run loads it
                importlib.import_module(found.name)
    finder_class = importlib.import_module("ansible.utils.collection_loader._collection_finder")
    finder = finder_class._AnsibleCollectionFinder(paths=[str(place / "current")])
    finder._install()
    for folder in ("action", "filter", "plugin_utils"):
        for path in sorted((ROOT / "plugins" / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / "plugins").with_suffix("").parts
            importlib.import_module(".".join((OURS, *parts)).removesuffix(".__init__"))
    document_plugins()
    finder._remove()  # each run makes its own, as it would
    shorten(importlib.import_module("ansible.plugins.connection.local").Connection)
    compile_once(place / "templates")
    gc.collect()
    gc.freeze()  # a run would look through all of it again, and have its own copy then


def document_plugins() -> None:
    """Read the options of plugins from their documentation: in a run, each worker would do that again."""
    plugins = importlib.import_module("ansible.plugins.loader")
    for names, loader in (
        (("default",), plugins.callback_loader),
        (("local", "ssh"), plugins.connection_loader),
        (("sh",), plugins.shell_loader),
        (("linear",), plugins.strategy_loader),
        (("memory",), plugins.cache_loader),
        (("auto", "host_list", "ini", "script", "toml", "yaml"), plugins.inventory_loader),
        (("debug", "fail", "include_vars", "normal", "set_fact"), plugins.action_loader),
        (("combine",), plugins.filter_loader),
        (("defined",), plugins.test_loader),
    ):
        for name in names:
            loader.get(name, class_only=True)
            loader.get(f"ansible.builtin.{name}", class_only=True)


def compile_once(folder: Path) -> None:
    """Keep what Jinja made of a template: each worker of each run would make it again, and few differ.

    The code is the same for the same text and the same settings of the environment. Where those let it
    evaluate constants while it compiles (`optimized`, of old versions), nothing is kept.
    """
    folder.mkdir(exist_ok=True)
    expression: list[str] = []
    compiles, compiles_expression = Environment.compile, Environment.compile_expression

    def compile_expression(self: Any, source: str, *rest: Any, **named: Any) -> Any:
        expression.append(source)
        try:
            return compiles_expression(self, source, *rest, **named)
        finally:
            expression.pop()

    def compile_template(self: Any, source: Any, *rest: Any, **named: Any) -> Any:
        kind = "template" if isinstance(source, str) else "expression"
        text = source if isinstance(source, str) else next(reversed(expression), None)
        if text is None or rest or named or self.optimized:
            return compiles(self, source, *rest, **named)
        settings = [str(getattr(self, name)) for name in SYNTAX]
        key = json.dumps([kind, text, type(self).__qualname__, *settings, *sorted(self.extensions)])
        path = folder / hashlib.sha256(key.encode()).hexdigest()
        with contextlib.suppress(OSError):
            return marshal.loads(path.read_bytes())  # noqa: S302 - it wrote the file itself
        code = compiles(self, source)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(marshal.dumps(code))
        os.replace(file.name, path)
        return code

    for name, function in (("compile", compile_template), ("compile_expression", compile_expression)):
        setattr(Environment, name, function)


def shorten(connection: Any) -> None:
    """Let the local connection do itself what takes a shell and five programs: it is half of a run."""
    run = connection.exec_command

    def exec_command(self: Any, cmd: Any, in_data: Any = None, sudoable: bool = True) -> Any:
        answer = None if in_data or self.become else short(str(cmd))
        return answer or run(self, cmd, in_data=in_data, sudoable=sudoable)

    connection.exec_command = exec_command


def short(command: str) -> tuple[int, bytes, bytes] | None:
    """What a command of Ansible says; None for those that are left to a shell."""
    words = shlex.split(command)
    if len(words) != 3 or words[:2] != ["/bin/sh", "-c"] or not words[2].endswith(" && sleep 0"):
        return None
    inner = words[2].removesuffix(" && sleep 0").strip()
    if found := MAKES.fullmatch(inner):
        before = os.umask(int(found["mask"], 8))
        try:
            os.makedirs(found["base"], exist_ok=True)
            os.mkdir(found["made"])
        except OSError:
            return None
        finally:
            os.umask(before)
        return 0, f"{found['name']}={found['made']}\n".encode(), b""
    if found := DELETES.fullmatch(inner):
        shutil.rmtree(found["path"], ignore_errors=True)
        return 0, b"", b""
    if found := PERMITS.fullmatch(inner):
        for path in found["paths"].split():
            os.chmod(path, os.stat(path).st_mode | (0o700 if found["mode"] == "u+rwx" else 0o100))
        return 0, b"", b""
    return stubbed(shlex.split(inner))


def stubbed(words: list[str]) -> tuple[int, bytes, bytes] | None:
    """Run a module of the stage, which this process starts in place of a new Python."""
    if len(words) != 3 or words[0] != sys.executable or not words[1].endswith(".py"):
        return None
    with open(words[1]) as file:
        if not file.readline().startswith("#!") or file.readline() != STUBBED:
            return None
    out, errors, status = io.StringIO(), io.StringIO(), 0
    before = sys.argv
    sys.argv = words[1:]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            runpy.run_path(words[1], run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - what a Python of its own would print before it ends
        errors.write(traceback.format_exc())
        status = 1
    finally:
        sys.argv = before
    return status, out.getvalue().encode(), errors.getvalue().encode()


# --- one run -----------------------------------------------------------------------------------------------


def played(place: Path, run: dict[str, Any], answers: IO[str]) -> dict[str, Any]:
    """Run a playbook in a process of its own; a run that hangs is ended, with all that it started."""
    link = place / "current"
    link.unlink(missing_ok=True)
    link.symlink_to(run["directory"])
    child = os.fork()
    if not child:
        answers.close()  # who waits for an answer of a server that is gone must see its end
        play(run, link)
    deadline = time.monotonic() + run["seconds"]
    pause = 0.002
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):  # it has not got so far as to have a group
                os.killpg(child, signal.SIGKILL)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return {"error": f"a run took longer than {run['seconds']} s and was ended"}
        time.sleep(pause)
        pause = min(0.02, pause * 1.5)
    status = os.waitstatus_to_exitcode(ended[1])
    return {"status": status} if status >= 0 else {"error": f"a run was ended by signal {-status}"}


def play(run: dict[str, Any], link: Path) -> NoReturn:
    """In the forked process: all that differs between runs, then Ansible's own command."""
    status = 250
    try:
        with outputs(run):
            constants: Any = importlib.import_module("ansible.constants")
            playbook = importlib.import_module("ansible.cli.playbook").main
            os.environ.clear()
            os.environ.update(run["environment"])
            os.chdir(link)
            os.makedirs("tmp", exist_ok=True)
            constants.DEFAULT_LOCAL_TMP = tempfile.mkdtemp(prefix="ansible-local-", dir=link / "tmp")
            # It is packed once per run, half a megabyte for each call; a stage's modules drop it.
            Path(constants.DEFAULT_LOCAL_TMP, "aks.flexnode.node_code").write_text("not needed here")
            sys.argv = ["ansible-playbook", *run["arguments"]]
            try:
                playbook(list(sys.argv))
                status = 0
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else int(end.code is not None)
            shutil.rmtree(constants.DEFAULT_LOCAL_TMP, ignore_errors=True)
    except BaseException:  # noqa: BLE001 - it must not go on as a second server
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(status)  # what runs at exit (the server's temporary directory) is the server's


@contextlib.contextmanager
def outputs(run: dict[str, Any]) -> Iterator[None]:
    """Give the run its own group, and files in place of the server's input and output."""
    os.setpgid(0, 0)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for number, path, how in (
        (0, os.devnull, os.O_RDONLY),
        (1, run["stdout"], flags),
        (2, run["stderr"], flags),
    ):
        opened = os.open(path, how, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    yield


if __name__ == "__main__":
    main()
