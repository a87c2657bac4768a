"""JupyterLab as a process of its own, with a folder of its own for everything that it reads or leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import matplotlib

ROOT = Path(__file__).resolve().parents[2]
HANG = 120  # s
LOOPBACK = "127.0.0.1"
TOKEN = "only-for-this-test"

# every cell is in the page, also those out of sight; nothing asks for news or for newer versions
SETTINGS = {"@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"}}
PAGE = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}


def environment(home: Path) -> dict[str, str]:
    """The caller's environment, but with another home and without any Jupyter settings of its own. Kernels are still
    found beside the Python that runs the tests; they import the checkout."""
    ours = {
        "HOME": home,
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "IPYTHONDIR": home / "ipython",
        "MPLCONFIGDIR": matplotlib.get_cachedir(),  # else the first picture waits for a new list of fonts
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "JUPYTER_TOKEN": TOKEN,
        "HF_HUB_OFFLINE": "1",
    }
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    return theirs | {name: str(value) for name, value in ours.items()}


@contextmanager
def jupyterlab(notebooks: Path, home: Path) -> Iterator[str]:
    """Serve the folder `notebooks`; the address, without a slash at its end. `home` must be empty."""
    settings = home / "config" / "labconfig"
    settings.mkdir(parents=True)
    (settings / "default_setting_overrides.json").write_text(json.dumps(SETTINGS))
    (settings / "page_config.json").write_text(json.dumps(PAGE))
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--ServerApp.ip={LOOPBACK}", f"--ServerApp.root_dir={notebooks}"]
    # if the tests are killed, so that nobody stops the server, it goes by itself when nothing happens any more
    command += [
        "--ServerApp.shutdown_no_activity_timeout=300",
        "--MappingKernelManager.cull_idle_timeout=300",
    ]
    log = home / "log.txt"
    with log.open("w") as out:
        server = subprocess.Popen(
            command,
            cwd=notebooks,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield answering(server, home / "runtime", log)
    finally:
        stop(server)


def answering(server: subprocess.Popen, runtime: Path, log: Path) -> str:
    """Wait until the server answers. It takes the first port that is free, and notes in its runtime folder which."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + HANG
    while time.monotonic() < deadline and server.poll() is None:
        time.sleep(0.1)
        for note in runtime.glob(f"jpserver-{server.pid}.json"):
            try:
                address = f"http://{LOOPBACK}:{json.loads(note.read_text())['port']}"
                opener.open(f"{address}/api/status?token={TOKEN}", timeout=HANG).close()
                return address
            except (OSError, ValueError):  # not yet listening, or the note half written
                continue
    raise RuntimeError(f"JupyterLab does not answer:\n{log.read_text()[-3000:]}")


def stop(server: subprocess.Popen) -> None:
    """End the server, which ends its kernels first; whatever is left of its group is killed."""
    try:
        server.terminate()
        server.wait(20)
    except subprocess.TimeoutExpired:
        pass  # killed below
    finally:
        if os.name == "posix":
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)  # it leads its group
        else:
            server.kill()
        server.wait(20)
