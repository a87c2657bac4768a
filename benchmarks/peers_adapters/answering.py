"""The child's half of `benchmarks/peers.py`: load the pair, then answer one request per line until input ends.

An adapter calls `answer(prepare)`. It is started by peers.py, by hand like this:

    echo '{"prompt": [5, 6], "new_tokens": 8, "gamma": 4}' | \\
        python benchmarks/peers_adapters/transformers_adapter.py TARGET_FOLDER DRAFT_FOLDER generate

In: {"prompt", "new_tokens", "gamma"}. Out: first {"ready", "versions"}, then {"tokens", "seconds"} or {"error"} for
each request. Whatever a peer prints goes to standard error, so that it cannot end up between the answers.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

# A request made ready, with everything done that is no decoding: called, it returns the new tokens.
Call = Callable[[], list[int]]
# (prompt, new_tokens, gamma) → Call
Ready = Callable[[list[int], int, int], Call]
# (target's folder, draft's folder, mode) → Ready
Prepare = Callable[[Path, Path, str], Ready]


def answer(prepare: Prepare) -> None:
    """Serve requests; only `call()` is inside the clock."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def say(reply: dict[str, Any]) -> None:
        print(json.dumps(reply), file=replies, flush=True)

    target, draft, mode = sys.argv[1:]
    try:
        ready = prepare(Path(target), Path(draft), mode)
    except Exception as error:
        say({"error": in_a_line(error)})
        return
    say({"ready": True, "versions": {name: version(name) for name in ("torch", "transformers")}})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            call = ready(request["prompt"], request["new_tokens"], request["gamma"])
            started = time.perf_counter()
            tokens = call()
            seconds = time.perf_counter() - started
        except Exception as error:
            say({"error": in_a_line(error)})
        else:
            say({"tokens": tokens, "seconds": seconds})


def in_a_line(error: Exception) -> str:
    """Kind and first line of an exception."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def load(folder: Path) -> Any:
    """A transformers model in float32 and eval mode, with no progress bar."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
