"""Rounds and traces: the record of a speculative run, as data. Works without torch.

A `Round` is what one draft-verify-commit-roll-back did; a `Trace` is a prompt and its rounds, and the one
place where acceptance is counted. Neither decides anything.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path

SCHEMA_VERSION = 1

ACCEPTED, CORRECTION, BONUS, PLAIN = "accepted", "correction", "bonus", "plain"
END = "end"
_FRAME_COLUMNS = [
    "round",
    "drafted",
    "accepted",
    "rejected",
    "emitted",
    "outcome",
    "sequence_length",
    "drafted_tokens",
    "emitted_tokens",
    "target_cache_before",
    "target_cache_after",
    "draft_cache_before",
    "draft_cache_after",
    "seconds_drafting",
    "seconds_verifying",
]


@dataclass(frozen=True)
class Round:
    """One round. Taught in notebook 03.

    Attributes:
        drafted: the tokens that the target verified; last among them, in a sampled round, may be one that was drawn
            and refused unseen, because the target does not have it.
        parents: for each drafted token the index of the one before it, -1 for the confirmed sequence.
            A chain is (-1, 0, 1, …).
        accepted: indices into `drafted` of the accepted path, in order.
        emitted: tokens added to the sequence: the accepted ones, then at most one of the target's own.
        outcome: "correction" (the target's token in place of the first rejected draft), "bonus" (an extra
            token after a full acceptance), "end" (an accepted draft was an end token, so the target adds
            nothing), "plain" (nothing was drafted; one ordinary token of the target).
        target_cache_before, target_cache_after: confirmed positions in the target's cache; after the
            roll-back always one less than the sequence.
        draft_cache_before, draft_cache_after: the same for the drafter, None where it has no cache.
        seconds_drafting, seconds_verifying: wall time of `propose`, and of the target's pass including
            reading its answer.
        overlaps: under sampling, Σ min(p, q) at each judged place (the accepted ones, then the rejected one): the
            chance of acceptance before the token was drawn. None under greedy decoding.
    """

    drafted: tuple[int, ...]
    parents: tuple[int, ...]
    accepted: tuple[int, ...]
    emitted: tuple[int, ...]
    outcome: str
    target_cache_before: int
    target_cache_after: int
    draft_cache_before: int | None
    draft_cache_after: int | None
    seconds_drafting: float
    seconds_verifying: float
    overlaps: tuple[float, ...] | None = None

    @property
    def rejected(self) -> int:
        """1 if a drafted token was judged and refused, else 0; tokens behind it were never judged."""
        return int(self.outcome == CORRECTION)

    @property
    def origins(self) -> tuple[str, ...]:
        """For each emitted token: "accepted", "correction", "bonus" or "plain".

        >>> Round((5, 6), (-1, 0), (0,), (5, 9), "correction", 3, 5, 3, 5, 0.0, 0.0).origins
        ('accepted', 'correction')
        """
        own = len(self.emitted) - len(self.accepted)
        return (ACCEPTED,) * len(self.accepted) + (self.outcome,) * own

    def to_dict(self) -> dict:
        """Plain JSON values, with the schema version."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, data: dict) -> Round:
        """The inverse of `to_dict`. Raises `ValueError` on a missing field or another schema version."""
        check_schema(data, "round")
        missing = [f.name for f in fields(cls) if f.name not in data and f.default is MISSING]
        if missing:
            raise ValueError(f"round record lacks {', '.join(missing)}")
        names = [field.name for field in fields(cls) if field.name in data]
        return cls(**{n: tuple(data[n]) if isinstance(data[n], list) else data[n] for n in names})


@dataclass(frozen=True)
class Trace:
    """A prompt and the rounds that continued it; counts acceptance in the words of the course."""

    prompt: tuple[int, ...]
    rounds: tuple[Round, ...]

    @classmethod
    def of(cls, prompt: Iterable[int], rounds: Iterable[Round]) -> Trace:
        """Collect a prompt and an iterator of rounds."""
        return cls(tuple(prompt), tuple(rounds))

    @property
    def new_tokens(self) -> list[int]:
        """The tokens produced, without the prompt."""
        return [token for item in self.rounds for token in item.emitted]

    @property
    def sequence(self) -> list[int]:
        """The prompt followed by the new tokens."""
        return [*self.prompt, *self.new_tokens]

    @property
    def origins(self) -> list[str]:
        """One origin per new token, as `Round.origins`."""
        return [origin for item in self.rounds for origin in item.origins]

    @property
    def drafted(self) -> int:
        """Drafted tokens that were verified."""
        return sum(len(item.drafted) for item in self.rounds)

    @property
    def accepted(self) -> int:
        """Drafted tokens that the target agreed with."""
        return sum(len(item.accepted) for item in self.rounds)

    @property
    def rejected(self) -> int:
        """Drafted tokens that were judged and refused (at most one a round)."""
        return sum(item.rejected for item in self.rounds)

    @property
    def acceptance_rate(self) -> float:
        """accepted ÷ drafted; 0.0 when nothing was drafted. Not α: see `alpha`."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def alpha(self) -> float:
        """Chance that a drafted token is accepted given that all before it were (`estimate_alpha`)."""
        from specdec_lab.measure.theory import estimate_alpha

        return estimate_alpha(self.accepted, self.rejected)

    @property
    def expected_alpha(self) -> float:
        """What α was to be expected under sampling: the mean of Σ min(p, q) over the places that were judged. The
        observed `alpha` scatters around it. NaN for a greedy run."""
        overlaps = [overlap for item in self.rounds for overlap in item.overlaps or ()]
        return sum(overlaps) / len(overlaps) if overlaps else float("nan")

    @property
    def tokens_per_round(self) -> float:
        """τ: new tokens ÷ rounds; NaN without rounds."""
        return len(self.new_tokens) / len(self.rounds) if self.rounds else float("nan")

    def acceptance_by_position(self) -> list[dict[str, float]]:
        """For each place in a draft (1 is the first): how many tokens stood there and what became of them.

        `chance` is accepted ÷ judged, the conditional one that α averages; `share` is accepted ÷ drafted, which
        falls from place to place because one rejection takes everything behind it along. A sampled run has
        `expected` too: the mean of Σ min(p, q) there, the chance that `chance` scatters around.

        >>> item = Round((5, 6), (-1, 0), (0,), (5, 9), "correction", 3, 5, 3, 5, 0.0, 0.0)
        >>> [p["chance"] for p in Trace((1,), (item, item)).acceptance_by_position()]
        [1.0, 0.0]
        """
        places: list[dict[str, float]] = []
        for place in range(max((len(item.drafted) for item in self.rounds), default=0)):
            reached = [item for item in self.rounds if len(item.drafted) > place]
            accepted = sum(len(item.accepted) > place for item in reached)
            judged = accepted + sum(item.rejected and len(item.accepted) == place for item in reached)
            overlaps = [item.overlaps[place] for item in reached if len(item.overlaps or ()) > place]
            places.append(
                {
                    "place": place + 1,
                    "drafted": len(reached),
                    "judged": judged,
                    "accepted": accepted,
                    "chance": accepted / judged if judged else float("nan"),
                    "share": accepted / len(reached),
                }
            )
            if overlaps:
                places[-1]["expected"] = sum(overlaps) / len(overlaps)
        return places

    def summary(self) -> dict[str, float]:
        """All words for acceptance side by side, from the same counts.

        drafted = accepted + rejected + unjudged; judged = accepted + rejected; new tokens = accepted +
        corrections + bonuses + plain.
        """
        own = Counter(item.outcome for item in self.rounds)
        return {
            "rounds": len(self.rounds),
            "new_tokens": len(self.new_tokens),
            "drafted": self.drafted,
            "accepted": self.accepted,
            "rejected": self.rejected,
            "unjudged": self.drafted - self.accepted - self.rejected,
            "corrections": own[CORRECTION],
            "bonuses": own[BONUS],
            "plain": own[PLAIN],
            "acceptance_rate": self.acceptance_rate,
            "alpha": self.alpha,
            "tokens_per_round": self.tokens_per_round,
            "seconds_drafting": sum(item.seconds_drafting for item in self.rounds),
            "seconds_verifying": sum(item.seconds_verifying for item in self.rounds),
        }

    def to_frame(self):
        """A pandas DataFrame with one row a round: counts, tokens, outcome, caches and seconds. Needs pandas."""
        import pandas as pd

        length, rows = len(self.prompt), []
        for number, item in enumerate(self.rounds, 1):
            length += len(item.emitted)
            rows.append(
                {
                    "round": number,
                    "drafted": len(item.drafted),
                    "accepted": len(item.accepted),
                    "rejected": item.rejected,
                    "emitted": len(item.emitted),
                    "outcome": item.outcome,
                    "sequence_length": length,
                    "drafted_tokens": list(item.drafted),
                    "emitted_tokens": list(item.emitted),
                    "target_cache_before": item.target_cache_before,
                    "target_cache_after": item.target_cache_after,
                    "draft_cache_before": item.draft_cache_before,
                    "draft_cache_after": item.draft_cache_after,
                    "seconds_drafting": item.seconds_drafting,
                    "seconds_verifying": item.seconds_verifying,
                }
            )
        frame = pd.DataFrame(rows, columns=_FRAME_COLUMNS)
        # a drafter without a cache has no length: missing, not a float
        return frame.astype({"draft_cache_before": "Int64", "draft_cache_after": "Int64"})

    def save(self, path: str | Path) -> None:
        """Write the trace as JSON; the folder must exist."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read what `save` wrote, to be shown or counted again without a model. `ValueError` if it is no trace."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))

    def to_json(self) -> str:
        """The whole trace as JSON, with the schema version."""
        rounds = [asdict(item) for item in self.rounds]
        return json.dumps({"schema_version": SCHEMA_VERSION, "prompt": list(self.prompt), "rounds": rounds})

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """The inverse of `to_json`. Raises `ValueError` on another schema version or a missing field."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"a trace is a JSON object; this is no JSON: {error}") from None
        check_schema(data, "trace")
        missing = [name for name in ("prompt", "rounds") if name not in data]
        if missing:
            raise ValueError(f"trace lacks {', '.join(missing)}")
        rounds = ({"schema_version": SCHEMA_VERSION, **item} for item in data["rounds"])
        return cls.of(data["prompt"], (Round.from_dict(item) for item in rounds))


def check_schema(data: dict, kind: str) -> None:
    """`ValueError` unless the record is of the schema version that this package writes."""
    if not isinstance(data, dict):
        raise ValueError(f"a {kind} is a JSON object, got {type(data).__name__}")
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ValueError(f"{kind} has schema_version {version!r}; this package reads {SCHEMA_VERSION}")
