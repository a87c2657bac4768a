"""Reference runs: what was measured, where and with what, as dated JSON files with an index that holds their hashes.

A run is a file of rows under a card; its name says machine, pair, setting and versions. `index.json` beside it lists
every stored run of the folder, those of other shapes too (`reference.py`, `trees.py`), with the sha256 of its files.
It keeps and reads; it measures nothing and draws nothing.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import platform
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec_lab.decoding.rounds import SCHEMA_VERSION, check_schema
from specdec_lab.files import ASSETS

from .environment import stamp

if TYPE_CHECKING:
    import pandas as pd

FOLDER = ASSETS / "reference"
INDEX = "index.json"
LICENCE = "MIT, as the code"
_NEEDED = ("machine", "pair", "setting", "versions", "command")
_SPELLED = {"α": "alpha", "γ": "gamma", "τ": "tau", "×": "x", "÷": " by "}
_LONGEST_NAME = 180  # Windows allows 260 for the whole path


@dataclass(frozen=True)
class Run:
    """A stored run. Taught in notebook 11.

    Attributes:
        rows: one for each decode, or for each contender and task, as it was saved.
        card: name, date, machine, pair, setting, versions, command, hashes of the weights, and what else was noted.
    """

    rows: pd.DataFrame
    card: dict[str, Any]


def run_card(
    pair: Any, setting: str, *, command: str, machine: str | None = None, **more: Any
) -> dict[str, Any]:
    """The card of a run that was made here, today: device, dtype, threads and versions are looked up.

    Args:
        pair: what `load_pair` gave.
        setting: dtype, tasks, γ, in words.
        command: what makes the run again, without paths of this machine.
        machine: in words; kind of system, threads and accelerator unless given. No host name.
        more: further notes, such as `tokens=128`.

    Example:
        >>> card = run_card(pair, "bfloat16, three tasks", command="python benchmarks/…")  # doctest: +SKIP
    """
    found = stamp(pair.target)
    return {
        "machine": machine or _machine_in_words(found),
        "pair": pair.name,
        "setting": setting,
        "command": command,
        "hashes": pair.card.get("sha256") or {"target": weights_hash(pair.target)},
        "licence": LICENCE,
        **{name: found[name] for name in ("device", "dtype", "threads", "versions")},
        **more,
    }


def save_run(rows: Sequence[Mapping] | pd.DataFrame, card: Mapping[str, Any], folder: str | Path) -> Path:
    """Write a run as `machine--pair--setting--versions.json` and bring the folder's index up to date.

    The same words overwrite the same file. Numbers keep every digit; NaN becomes null.

    Args:
        rows: dicts of plain values, or a DataFrame.
        card: as `run_card` makes it: at least machine, pair, setting, versions and command; `name` (the file's own
            unless given) is what `load_run` asks for, `date` is today unless given.

    Returns:
        The file.

    Raises:
        ValueError: a card that lacks something, names the host, or is another run's by its file or name; no rows; a
            value that JSON does not have.
    """
    missing = [name for name in _NEEDED if not card.get(name)]
    if missing:
        raise ValueError(f"card lacks {', '.join(missing)}")
    if platform.node() and platform.node().lower() in re.split(r"[\s,;:()]+", card["machine"].lower()):
        raise ValueError(f"machine must be told in words, without the host name {platform.node()!r}")
    plain = _plain(_records(rows), "rows")
    if not plain:
        raise ValueError("rows must hold at least one row, got none")
    stem = file_name(card)
    run = {"schema_version": SCHEMA_VERSION, "name": stem, "date": _today(), **_plain(dict(card), "card")}
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"]):
        raise ValueError(f"date must be YYYY-MM-DD, got {run['date']!r}")
    path, folder = Path(folder) / f"{stem}.json", Path(folder)
    others = [entry for entry in _read_index(folder) if path.name not in entry["sha256"]]
    if any(entry["name"] == run["name"] for entry in others):
        raise ValueError(f"name {run['name']!r} is that of another run in this folder")
    if path.exists():
        old = json.loads(path.read_text(encoding="utf-8"))
        if any(old[key] != run[key] for key in ("machine", "pair", "setting")):
            raise ValueError(
                f"{path.name} holds another run; tell them apart by words that differ in letters or digits"
            )
    folder.mkdir(parents=True, exist_ok=True)
    _write(path, run | {"rows": plain})
    _write_index(folder, [*others, _entry(path)])
    return path


def list_runs(folder: str | Path = FOLDER) -> pd.DataFrame:
    """Every stored run of a folder: name, date, machine, pair, setting, versions, its files, and what reads it.

    Example:
        >>> list_runs()[["name", "date", "read_with"]]  # doctest: +SKIP
    """
    import pandas as pd

    entries = [
        entry | {"versions": in_words(entry["versions"]), "files": ", ".join(entry["sha256"])}
        for entry in _read_index(Path(folder))
    ]
    columns = ["name", "date", "machine", "pair", "setting", "versions", "files", "read_with"]
    return pd.DataFrame(entries, columns=columns)


def load_run(name: str, folder: str | Path = FOLDER) -> Run:
    """A stored run, held against the index. Taught in notebook 11.

    Args:
        name: as `list_runs` prints it.

    Raises:
        ValueError: no such run, one that another function reads, a file that is missing or is not the one that the
            index was written for, or another schema.
    """
    import pandas as pd

    folder = Path(folder)
    entries = {entry["name"]: entry for entry in _read_index(folder)}
    if name not in entries:
        raise ValueError(
            f"name must be one of {', '.join(entries) or '(no runs in this folder)'}, got {name!r}"
        )
    entry = entries[name]
    if entry["read_with"] != "load_run":
        raise ValueError(f"{name!r} is a run of another shape: {entry['read_with']} reads it")
    ((file, expected),) = entry["sha256"].items()
    if not (folder / file).is_file():
        raise ValueError(f"{file} is in the index and not in the folder: restore it, or measure again")
    found = text_hash(folder / file)
    if found != expected:
        raise ValueError(f"{file} has sha256 {found}, the index says {expected}: measure again or restore it")
    data = json.loads((folder / file).read_text(encoding="utf-8"))
    check_schema(data, "run")
    missing = [key for key in (*_NEEDED, "name", "date", "rows") if key not in data]
    if missing:
        raise ValueError(f"{file} lacks {', '.join(missing)}")
    return Run(pd.DataFrame(data.pop("rows")), data)


def with_mine(
    runs: Run | Iterable[Run], rows: Sequence[Mapping] | pd.DataFrame = (), *, mine: str = "mine"
) -> pd.DataFrame:
    """Stored rows and the reader's own, one under the other; the first column, `whose`, tells them apart.

    `whose` is the machine of a stored run, with its setting where two stored ones share a machine. Taught in notebook 11.

    Args:
        runs: one or several of `load_run`.
        rows: what was measured here; none for the stored ones alone. A column that one side lacks is empty there.
        mine: what the reader's are called.

    Raises:
        ValueError: no column in common, or a stored run of the same name as `mine`.

    Example:
        >>> with_mine(load_run("…"), measured).groupby("whose")["speedup"].max()  # doctest: +SKIP
    """
    import pandas as pd

    runs = [runs] if isinstance(runs, Run) else list(runs)
    machines = [run.card["machine"] for run in runs]
    frames = []
    for run, machine in zip(runs, machines, strict=True):
        whose = machine if machines.count(machine) == 1 else f"{machine}: {run.card['setting']}"
        if whose == mine:
            raise ValueError(f"mine must differ from the stored {whose!r}")
        frames.append(run.rows.assign(whose=whose))
    records = _records(rows)
    if records:
        own = pd.DataFrame(records)
        known = {column for run in runs for column in run.rows.columns}
        if runs and not known & set(own.columns):
            raise ValueError(f"rows have none of the stored columns {', '.join(sorted(known))}")
        frames.append(own.assign(whose=mine))
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({"whose": []})
    return frame[["whose", *(column for column in frame.columns if column != "whose")]]


def file_name(card: Mapping[str, Any]) -> str:
    """`machine--pair--setting--versions`, in ASCII, lower case, safe on every file system; without the ending.

    Of the versions those of torch and transformers count, where they are there.

    >>> versions = {"python": "3.11.7", "torch": "2.13.0+cpu", "transformers": "5.24.0"}
    >>> file_name(
    ...     {
    ...         "machine": "2 cores",
    ...         "pair": "smollm2 + prompt-lookup",
    ...         "setting": "γ = 8",
    ...         "versions": versions,
    ...     }
    ... )
    '2-cores--smollm2-prompt-lookup--gamma-8--torch-2.13.0-cpu-transformers-5.24.0'
    """
    versions = {
        name: card["versions"][name] for name in ("torch", "transformers") if name in card["versions"]
    }
    words = [card["machine"], card["pair"], card["setting"], in_words(versions or card["versions"])]
    name = "--".join(_letters(text) for text in words)
    if len(name) > _LONGEST_NAME:
        raise ValueError(
            f"machine, pair and setting give a file name of {len(name)} letters, at most {_LONGEST_NAME}: {name}"
        )
    return name


def write_index(folder: str | Path) -> None:
    """Make the index anew from the files that are there: for a folder whose runs were not written by `save_run`.

    It takes every file as it is; that they are the right ones is for whoever calls it to know.
    """
    folder, covered = Path(folder), set()
    entries = [_entry(path) for path in sorted(folder.glob("*.json")) if path.name != INDEX and _is_run(path)]
    for entry in entries:
        covered |= set(entry["sha256"])
    alone = {path.name for path in folder.iterdir()} - covered - {INDEX}
    if alone:
        raise ValueError(f"no card speaks for {', '.join(sorted(alone))}")
    _write_index(folder, entries)


def weights_hash(model: Any) -> str:
    """sha256 of a model's parameters as they are loaded, by name: the same model in another dtype has another."""
    import torch

    found = hashlib.sha256()
    for name, values in sorted(model.named_parameters()):
        found.update(name.encode())
        found.update(values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return found.hexdigest()


def text_hash(path: Path) -> str:
    """sha256 of a text file, whatever the line ends on disk."""
    return hashlib.sha256(path.read_text(encoding="utf-8").encode()).hexdigest()


def in_words(versions: Mapping[str, str]) -> str:
    """ "torch 2.13.0, transformers 5.24.0"."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _is_run(path: Path) -> bool:
    data = json.loads(path.read_text(encoding="utf-8"))
    return "rows" in data or "card" in data or "sha256" in data


def _entry(path: Path) -> dict[str, Any]:
    """What the index says of a run, read off its card: a run of this file, or one of the two older shapes."""
    data = json.loads(path.read_text(encoding="utf-8"))
    files = [path.name]
    if "sha256" in data:  # reference.py: a card beside its two files
        card, name, reader = data, Path(next(iter(data["sha256"]))).stem, "load_reference"
        files += data["sha256"]
    elif "card" in data:  # benchmarks/tree_speed.py: the card is inside
        card, name, reader = data["card"], path.stem, "load_tree_reference"
    else:
        card, name, reader = data, data["name"], "load_run"
    environment = card.get("environment", card)
    versions = environment.get("versions") or {
        name: version for name, version in environment.items() if isinstance(version, str)
    }
    machine = environment.get("machine", "a machine without a name")
    if reader != "load_run":
        machine = f"{machine}, {environment['threads']} threads"
    return {
        "name": name,
        "date": card["date"],
        "machine": machine,
        "pair": card.get("pair", "tiny"),
        "setting": card["setting"] if "setting" in card else card["name"],
        "versions": versions,
        "read_with": reader,
        "sha256": {file: text_hash(path.parent / file) for file in sorted(files)},
    }


def _read_index(folder: Path) -> list[dict[str, Any]]:
    path = folder / INDEX
    if not path.is_file():
        return []
    data = json.loads(path.read_text(encoding="utf-8"))
    check_schema(data, "index of runs")
    return data["runs"]


def _write_index(folder: Path, entries: list[dict[str, Any]]) -> None:
    ordered = sorted(entries, key=lambda entry: entry["name"])
    _write(folder / INDEX, {"schema_version": SCHEMA_VERSION, "runs": ordered})


def _write(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8", newline="\n")


def _records(rows: Sequence[Mapping] | pd.DataFrame) -> list[dict[str, Any]]:
    return rows.to_dict("records") if hasattr(rows, "to_dict") else [dict(row) for row in rows]


def _plain(value: Any, where: str) -> Any:
    """`value` in what JSON has; numpy's and torch's numbers become Python's."""
    if hasattr(value, "item") and not getattr(value, "ndim", 0):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError(f"{where} must be a finite number or NaN, got {value}")
        return None if math.isnan(value) else value
    if isinstance(value, Mapping):
        return {str(key): _plain(part, f"{where}[{key!r}]") for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part, f"{where}[{i}]") for i, part in enumerate(value)]
    raise ValueError(f"{where} must be a plain value, got {type(value).__name__}")


def _letters(text: str) -> str:
    for sign, spelled in _SPELLED.items():
        text = text.replace(sign, spelled)
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9.]+", "-", plain).strip("-.") or "unnamed"


def _machine_in_words(found: Mapping[str, Any]) -> str:
    if found["device"].startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(found["device"])
    return f"{found['machine']}, {found['threads']} threads"


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()
