"""The other half of `answering.py`: make a peer's environment, start an adapter in it, ask it case by case.

It holds a contender's process and nothing that judges what comes back; `benchmarks/peers.py` does that.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARED = ("torch", "transformers")  # what a peer must not replace in its environment


@dataclass(frozen=True)
class Case:
    """One thing to decode."""

    prompt: tuple[int, ...]
    new_tokens: int
    gamma: int


class NotRunning(Exception):
    """A contender cannot run; its text is the one-line reason."""


def environment(folder: Path, requirement: str) -> tuple[Path, str]:
    """The interpreter of an environment that holds a pinned peer, made unless it is there, and a remark.

    It sees the packages of the running interpreter. If the peer would replace torch or transformers, it is installed
    without its dependencies, and the remark says so.
    """
    home = folder / requirement.replace("==", "-")
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done = home / "installed.json"
    if done.exists():
        return python, json.loads(done.read_text(encoding="utf-8"))["remark"]
    print(f"making an environment for {requirement}", file=sys.stderr)
    _run([sys.executable, "-m", "venv", "--clear", "--system-site-packages", str(home)], "venv")
    if sys.prefix != sys.base_prefix:
        # We are in an environment ourselves, and "system" means the interpreter below it.
        paths = {"base": str(home), "platbase": str(home)}
        outside = sorted({sysconfig.get_path(kind) for kind in ("purelib", "platlib")})
        inside = Path(sysconfig.get_path("purelib", "venv", paths))
        (inside / "shared.pth").write_text("\n".join(outside) + "\n", encoding="utf-8")
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    plan = home / "plan.json"
    _run([*pip, "--dry-run", "--report", str(plan), requirement], "pip")
    wanted = {item["metadata"]["name"].lower() for item in json.loads(plan.read_text("utf-8"))["install"]}
    replaced = sorted(wanted & set(SHARED))
    remark = f"installed without dependencies: it would replace {' and '.join(replaced)}" if replaced else ""
    _run([*pip, *(["--no-deps"] if replaced else []), requirement], "pip")
    done.write_text(json.dumps({"remark": remark}), encoding="utf-8")
    return python, remark


def _run(command: list[str], what: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        lines = [line for line in (result.stderr or result.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:")]
        raise NotRunning(f"not installed: {what}: {(errors or lines[-1:] or ['no message'])[0]}")


@dataclass(frozen=True)
class Answer:
    """What came back for one case: the new tokens and seconds, or an error."""

    tokens: tuple[int, ...] = ()
    seconds: float = 0.0
    error: str = ""


class Child:
    """A contender in a process of its own. Once it has died or fallen silent, every answer is that error."""

    def __init__(
        self, command: Sequence[str], patience: float, surroundings: dict[str, str] | None = None
    ) -> None:
        self._patience, self.dead = patience, ""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (close() closes it)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=surroundings,
            encoding="utf-8",
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        greeting = self._reply()
        self.versions, self.refusal = greeting.get("versions"), greeting.get("error", "")

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _reply(self) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=self._patience)
            reply = json.loads(line) if line else {"error": self._last_words()}
        except queue.Empty:
            line, reply = "", {"error": f"no answer within {self._patience:g} s"}
        except ValueError:
            line, reply = "", {"error": f"an answer that is no JSON: {line.strip()[:60]}"}
        if not line:
            self.dead = reply["error"]
            self._process.kill()
        return reply

    def _last_words(self) -> str:
        try:
            code = self._process.wait(timeout=self._patience)
        except subprocess.TimeoutExpired:
            return "closed its output"
        self._log.seek(0)
        said = [line for line in self._log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return f"ended with status {code}: {said[-1].strip() if said else 'no message'}"

    def ask(self, case: Case) -> Answer:
        """Decode one case."""
        if not self.dead:
            request = {"prompt": list(case.prompt), "new_tokens": case.new_tokens, "gamma": case.gamma}
            try:
                print(json.dumps(request), file=self._process.stdin, flush=True)
            except OSError:
                self.dead = self._last_words()
        if self.dead:
            return Answer(error=self.dead)
        reply = self._reply()
        if "error" in reply:
            return Answer(error=reply["error"])
        return Answer(tuple(reply["tokens"]), reply["seconds"])

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            try:
                stream.close()
            except OSError:  # what was still buffered for a dead child
                continue
