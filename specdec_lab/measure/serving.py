"""From the lesson to a server: a pair and a γ as vLLM's speculative configuration, and vLLM's counters in our words.

It writes configurations and reads metrics; it starts no server and asks none. Works without torch and without vLLM.

Read for this, in autumn 2026, all of the project vllm-project/vllm (docs.vllm.ai):
- the configuration: `docs/features/speculative_decoding/README.md` (the schema of `--speculative-config`),
  `draft_model.md`, `eagle.md` and `n_gram.md` beside it, and `vllm/config/speculative.py` of the main branch, which takes
  Medusa too, though it has no page; the pages of 0.11 and 0.12 name the same methods. A draft model needs vLLM above 0.10.
- the counters: `vllm/v1/spec_decode/metrics.py`, `vllm/v1/core/sched/scheduler.py`, and the page "Per-Request Acceptance
  Metrics" of vLLM 0.32.0, which spells out what each counts. They came with pull request 15151 (April 2025); the label
  `engine` counts data-parallel replicas. Before that the engine exported gauges such as `spec_decode_draft_acceptance_rate`,
  which this module does not read.

SGLang says the same things with flags: `--speculative-algorithm STANDALONE` (a draft model), NGRAM, EAGLE or EAGLE3, with
`--speculative-draft-model-path`, γ as `--speculative-num-steps`, and for a chain `--speculative-eagle-topk 1
--speculative-num-draft-tokens` γ + 1 (sgl-project/sglang, `docs/advanced_features/speculative_decoding.md`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from specdec_lab.decoding.checks import check_count

from .theory import estimate_alpha

if TYPE_CHECKING:
    from specdec_lab.decoding.rounds import Trace

VLLM_READ = "0.32.0"  # the newest documentation that was read
METHODS = ("draft_model", "ngram", "eagle", "eagle3", "medusa")

_PREFIX = "vllm:spec_decode_num_"
_DRAFTS, _DRAFTED, _ACCEPTED, _BY_POSITION = (
    f"{_PREFIX}{name}" for name in ("drafts", "draft_tokens", "accepted_tokens", "accepted_tokens_per_pos")
)
_MEANING = {
    _DRAFTS: "Rounds in which something was drafted.",
    _DRAFTED: "Drafted tokens.",
    _ACCEPTED: "Accepted tokens.",
    _BY_POSITION: "Accepted tokens by place in the draft.",
}
_OLD_GAUGE = "spec_decode_draft_acceptance_rate"


# ---- the configuration -----------------------------------------------------------------------------------------------


def vllm_speculative_config(
    draft: str,
    gamma: int,
    *,
    method: str | None = None,
    longest: int = 3,
    shortest: int = 1,
    draft_tensor_parallel: int | None = None,
) -> dict[str, Any]:
    """What vLLM's `--speculative-config` (or `LLM(speculative_config=…)`) takes for this drafter. Taught in notebook 11.

    Args:
        draft: a Hub id or folder of a draft model, an EAGLE or a Medusa head; or "prompt-lookup".
        gamma: most tokens drafted in a round, 1 or more.
        method: one of `METHODS`; read off `draft` unless given: "eagle3", "eagle-" (vLLM looks for the same) or "medusa"
            in its name, else a draft model.
        longest, shortest: tokens of the n-gram that prompt lookup looks for; the defaults are `PromptLookupDrafter`'s.
            vLLM's own are 5 and 5.
        draft_tensor_parallel: accelerators that the draft is spread over; vLLM decides unless given.

    Raises:
        ValueError: something that vLLM does not take: "early-exit:k", an unknown method, a method that does not go with
            the drafter, `shortest` above `longest`. ValueError, TypeError: a count below 1.

    Same words, small differences: vLLM's prompt lookup copies from the earliest occurrence and stops where the sequence
    ends (`vllm/v1/spec_decode/ngram_proposer.py`), ours from the latest and into its own copy; when sampling, vLLM's draft
    is greedy and q a point mass unless the newer key `draft_sample_method` says "probabilistic".

    >>> vllm_speculative_config("Qwen/Qwen3-0.6B", 5)
    {'method': 'draft_model', 'model': 'Qwen/Qwen3-0.6B', 'num_speculative_tokens': 5}
    >>> vllm_speculative_config("prompt-lookup", 8)["prompt_lookup_max"]
    3
    """
    if not isinstance(draft, str) or not draft:
        raise TypeError(f'draft must be a Hub id, a folder or "prompt-lookup", got {draft!r}')
    gamma = check_count(gamma, "gamma")
    if draft.split(":")[0] == "early-exit":
        raise ValueError(
            f"vLLM has no early exit (as of {VLLM_READ}), so {draft!r} cannot be served by it; nearest to it is an EAGLE "
            'head trained for the target, and "prompt-lookup" needs no weights at all'
        )
    lookup = draft == "prompt-lookup"
    method = method or ("ngram" if lookup else _method_of(draft))
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if lookup != (method == "ngram"):
        raise ValueError(
            f'method "ngram" and draft "prompt-lookup" go together, got {method!r} and {draft!r}'
        )
    if lookup:
        longest, shortest = check_count(longest, "longest"), check_count(shortest, "shortest")
        if shortest > longest:
            raise ValueError(f"shortest must be at most longest, got {shortest} and {longest}")
        if draft_tensor_parallel is not None:
            raise ValueError("draft_tensor_parallel is for drafts with weights, prompt lookup has none")
        return {
            "method": method,
            "num_speculative_tokens": gamma,
            "prompt_lookup_max": longest,
            "prompt_lookup_min": shortest,
        }
    config = {"method": method, "model": draft, "num_speculative_tokens": gamma}
    if draft_tensor_parallel is not None:
        config["draft_tensor_parallel_size"] = check_count(draft_tensor_parallel, "draft_tensor_parallel")
    return config


def vllm_command(target: str, config: Mapping[str, Any]) -> str:
    """The line that starts such a server, quoted for a POSIX shell.

    >>> print(vllm_command("Qwen/Qwen3-8B", vllm_speculative_config("prompt-lookup", 8)))
    vllm serve Qwen/Qwen3-8B --speculative-config '{"method": "ngram", "num_speculative_tokens": 8, \
"prompt_lookup_max": 3, "prompt_lookup_min": 1}'
    """
    return shlex.join(["vllm", "serve", target, "--speculative-config", json.dumps(dict(config))])


def _method_of(draft: str) -> str:
    name = draft.lower()
    if "eagle3" in name:
        return "eagle3"
    if "eagle-" in name:
        return "eagle"
    return "medusa" if "medusa" in name else "draft_model"


# ---- the counters ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ServedRounds:
    """What one engine of a server counted, in the words of the course. Taught in notebook 11.

    Attributes:
        model, engine: the labels; engine "" where the server has none.
        rounds: steps of a request in which something was drafted (vLLM: num_drafts). Steps without a draft are counted
            nowhere, unlike in `Trace.rounds`.
        drafted, accepted: tokens; a draft that a grammar ruled out is not counted (of newer versions).
        accepted_by_place: of the first drafted token, the second, …: in how many rounds it was accepted. As long as
            num_speculative_tokens.

    vLLM counts before it cuts a request at its end token or at max_tokens: accepted tokens that are then thrown away are
    in here, which a `Trace` of ours leaves out.
    """

    model: str
    engine: str
    rounds: int
    drafted: int
    accepted: int
    accepted_by_place: tuple[int, ...]

    @property
    def acceptance_rate(self) -> float:
        """accepted ÷ drafted; 0.0 when nothing was drafted. Not α."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def tokens_per_round(self) -> float:
        """1 + accepted ÷ rounds, vLLM's "mean acceptance length": every round adds a token of the target's own. Over
        rounds that drafted only, so at least `Trace.tokens_per_round`. NaN without rounds."""
        return (self.rounds + self.accepted) / self.rounds if self.rounds else float("nan")

    @property
    def all_as_long(self) -> bool:
        """Whether every draft had all γ tokens. Only then do the counters tell rejected from never drafted, and `alpha`
        and `chance` are exact; else they are too low."""
        return self.drafted == self.rounds * len(self.accepted_by_place)

    @property
    def alpha(self) -> float:
        """accepted ÷ (accepted + rejected), a round being rejected unless its last place was accepted; see
        `all_as_long`. NaN without rounds."""
        last = self.accepted_by_place[-1] if self.accepted_by_place else 0
        return estimate_alpha(self.accepted, self.rounds - last)

    def acceptance_by_position(self) -> list[dict[str, float]]:
        """As `Trace.acceptance_by_position`: for each place what was judged and accepted.

        `share` is accepted ÷ rounds, the per-position acceptance rate that vLLM logs and documents; `chance` is the
        conditional one, accepted ÷ judged; both take every draft to be γ long, see `all_as_long`.

        >>> served = ServedRounds("m", "0", rounds=8, drafted=16, accepted=6, accepted_by_place=(4, 2))
        >>> [(place["share"], place["chance"]) for place in served.acceptance_by_position()]
        [(0.5, 0.5), (0.25, 0.5)]
        """
        counts = (self.rounds, *self.accepted_by_place)
        return [
            {
                "place": place,
                "drafted": self.rounds,
                "judged": judged,
                "accepted": accepted,
                "chance": accepted / judged if judged else float("nan"),
                "share": accepted / self.rounds if self.rounds else float("nan"),
            }
            for place, (judged, accepted) in enumerate(pairwise(counts), 1)
        ]


def read_vllm_metrics(text: str, *, since: str | None = None) -> list[ServedRounds]:
    """What a vLLM server counted, one for each model and engine. Taught in notebook 11.

    Args:
        text: what the server answers under `/metrics`, in Prometheus' text format.
        since: an earlier answer of the same server. Counters grow from the start of the server on, and warming up is
            in them: take one scrape before the run and one behind it.

    Raises:
        ImportError: prometheus_client is not installed (Jupyter brings it along).
        ValueError: no such counters, text of another format, or counters that fell between the two scrapes, because the
            server was started anew.

    Example:
        >>> text = urlopen("http://localhost:8000/metrics").read().decode()  # doctest: +SKIP
        >>> [served.tokens_per_round for served in read_vllm_metrics(text)]  # doctest: +SKIP
    """
    counts, before = _scrape(text, "text"), {} if since is None else _scrape(since, "since")
    gone = before.keys() - counts.keys()
    if gone:
        model, engine = min(gone)
        raise ValueError(
            f"text lacks model {model!r}, engine {engine!r}, which since has: are both of one server?"
        )
    return [_served(key, found, before.get(key, {})) for key, found in sorted(counts.items())]


def as_vllm_metrics(
    trace: Trace, *, gamma: int | None = None, model: str = "specdec_lab", engine: str = "0"
) -> str:
    """A run of ours as a vLLM server would have counted it, in the text format: for comparison, and for practice.

    Args:
        trace: of chains; rounds without a draft are left out, as vLLM does.
        gamma: places to report; the longest draft unless given.
        model, engine: the labels.

    Raises:
        ValueError: a tree, or a draft longer than `gamma`.
    """
    rounds = [item for item in trace.rounds if item.drafted]
    for item in rounds:
        if item.parents != tuple(range(-1, len(item.drafted) - 1)):
            raise ValueError(
                f"trace must be of chains, vLLM's counters have no trees; got parents {item.parents}"
            )
    longest = max((len(item.drafted) for item in rounds), default=1)
    places = longest if gamma is None else check_count(gamma, "gamma")
    if longest > places:
        raise ValueError(f"gamma must be at least the longest draft, {longest}, got {places}")
    labels = f'engine="{engine}",model_name="{model}"'
    values = {
        _DRAFTS: [(labels, len(rounds))],
        _DRAFTED: [(labels, trace.drafted)],
        _ACCEPTED: [(labels, trace.accepted)],
        _BY_POSITION: [
            (f'{labels},position="{place}"', sum(len(item.accepted) > place for item in rounds))
            for place in range(places)
        ],
    }
    lines = []
    for name, samples in values.items():
        lines += [f"# HELP {name}_total {_MEANING[name]}", f"# TYPE {name}_total counter"]
        lines += [f"{name}_total{{{its}}} {float(value)}" for its, value in samples]
    return "\n".join(lines) + "\n"


_Counts = dict[str, float]  # metric, or metric and position → value


def _scrape(text: str, argument: str) -> dict[tuple[str, str], _Counts]:
    """(model, engine) → its counters; samples that differ in other labels only are added up."""
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError as error:
        raise ImportError("reading metrics needs prometheus_client: pip install prometheus-client") from error

    found: dict[tuple[str, str], _Counts] = {}
    try:
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    except ValueError as error:
        raise ValueError(f"{argument} is not in Prometheus' text format: {error}") from error
    for sample in samples:
        name = sample.name.removesuffix("_total")
        if name in _MEANING:
            counts = found.setdefault(
                (sample.labels.get("model_name", ""), sample.labels.get("engine", "")), {}
            )
            name += f"[{sample.labels['position']}]" if name == _BY_POSITION else ""
            counts[name] = counts.get(name, 0.0) + sample.value
    if not found:
        old = (
            " It has the gauges of the engine before 2025, which count otherwise."
            if _OLD_GAUGE in text
            else ""
        )
        raise ValueError(f"{argument} has no counters {_PREFIX}…: does the server speculate?{old}")
    return found


def _served(key: tuple[str, str], found: _Counts, before: _Counts) -> ServedRounds:
    for name in (_DRAFTS, _DRAFTED, _ACCEPTED):
        if name not in found:
            raise ValueError(f"text lacks the counter {name}_total of {key[0]!r}, engine {key[1]!r}")
    for name, value in found.items():
        if value < before.get(name, 0.0):
            raise ValueError(
                f"{name} fell from {before[name]:.0f} to {value:.0f} between the scrapes: the server was started anew; "
                "scrape it again before the run"
            )
    grown = {name: round(value - before.get(name, 0.0)) for name, value in found.items()}
    places = sum(name.startswith(f"{_BY_POSITION}[") for name in grown)
    by_place = tuple(grown.get(f"{_BY_POSITION}[{place}]", 0) for place in range(places))
    return ServedRounds(*key, grown[_DRAFTS], grown[_DRAFTED], grown[_ACCEPTED], by_place)
