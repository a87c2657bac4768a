"""What users reported when speculative text differed from plain text, and what it turned out to be. No torch.

Plain data for notebook 08, in our own words; each entry holds only what stands in the thread that it names. It says
what was known there, not what we believe: where nobody settled the cause, the kind is "open".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

TIE, BUG, OPEN = "tie", "bug", "open"
KINDS = (TIE, BUG, OPEN)


@dataclass(frozen=True)
class Report:
    """One thread.

    Attributes:
        repository: owner/name on GitHub.
        number: of the issue or pull request.
        seen: what differed.
        cause: what the thread found, or what is missing.
        kinds: "tie" (rounding decided between two close logits), "bug", both, or "open".
        pull: whether it is a pull request.
        see: further threads of the same repository on the same thing: numbers, "PR" before those of pull requests.
    """

    repository: str
    number: int
    seen: str
    cause: str
    kinds: tuple[str, ...]
    pull: bool = False
    see: str = ""

    @property
    def reference(self) -> str:
        """Written as everywhere in this package.

        >>> Report("owner/name", 7, "", "", (BUG,), pull=True).reference
        'owner/name PR 7'
        """
        return f"{self.repository}{' PR' if self.pull else ''} {self.number}"

    @property
    def link(self) -> str:
        """The page on GitHub."""
        return f"https://github.com/{self.repository}/{'pull' if self.pull else 'issues'}/{self.number}"


REPORTS: tuple[Report, ...] = (
    Report(
        "vllm-project/vllm",
        7627,
        "OPT 6.7B at temperature 0: the text changes with a draft.",
        "Where the two part, the two best log-probabilities are the very same number. The manual now says which "
        "guarantee is given at which level.",
        (TIE,),
        see="PR 7962",
    ),
    Report(
        "ml-explore/mlx-lm",
        1470,
        "Qwen3 32B in 6 bits with a small draft, temperature 0: another text.",
        "The two best logits are equal in bfloat16 where it happens. A control, on other models: the target as its own "
        "draft differs too.",
        (TIE,),
        see="PR 1592",
    ),
    Report(
        "RBLN-SW/vllm-rbln",
        741,
        "A test with a fixed margin of 0.2 fails at a gap of 0.25.",
        "Logits beyond 32 lie 0.25 apart in bfloat16, so one rounding step is more than the margin. A margin has to "
        "grow with the logits.",
        (TIE,),
        pull=True,
    ),
    Report(
        "ml-explore/mlx-lm",
        1109,
        "Wrong text with models whose cache cannot be cut; elsewhere the first token flips.",
        "Rejected drafts stayed in a recurrent state: now refused. And the prompt was fed in another shape than plain "
        "decoding feeds it, which decided ties.",
        (BUG, TIE),
        pull=True,
    ),
    Report(
        "unslothai/unsloth",
        9708,
        "Greedy text depends on the batch size (no speculation).",
        "A padded row that attends to nothing gave NaN: fixed. The rest is rounding in half precision, also without "
        "that library; in float32 every batch size agrees.",
        (BUG, TIE),
    ),
    Report(
        "ohdearquant/lattice",
        280,
        "An audit: with equal logits speculative and plain decoding choose differently.",
        "One argmax took the last of equal values, all others the first. Rounding has no part in it.",
        (BUG,),
    ),
    Report(
        "huggingface/transformers",
        30042,
        "Vicuna 7B with a draft of 68M: not the greedy text.",
        "The positions of the cache went on by one token a round, whatever had been accepted.",
        (BUG,),
        see="PR 30068",
    ),
    Report(
        "huggingface/transformers",
        47912,
        "The text runs on behind an end token, now and then.",
        "Only the last token of a block was compared with the end token. It depends on the place in the block, so it "
        "looks like chance.",
        (BUG,),
        see="PR 47931, PR 48981",
    ),
    Report(
        "SafeAILab/EAGLE",
        75,
        "A benchmark score falls. The authors compare texts: in float32 all are equal but one.",
        "That one ended at another maximum length: two stop rules. They suspect the same, or output cut in the wrong "
        "place, behind the score. In float16 they expect small differences.",
        (BUG,),
    ),
    Report(
        "SafeAILab/EAGLE",
        212,
        "50 of 80 answers equal; the others differ, the same way in each run.",
        "No gap is reported. That runs repeat themselves rules out chance, not a bug.",
        (OPEN,),
    ),
    Report(
        "FasterDecoding/Medusa",
        99,
        "Another tree of drafts, another text.",
        "With a chain in place of the tree the logits are equal bit by bit. No gap is reported, and a wrong tree mask "
        "would vanish with the tree as well.",
        (OPEN,),
    ),
    Report(
        "ml-explore/mlx-lm",
        1423,
        "Gemma 4 31B in 8 bits with a small draft, temperature 0: another text.",
        "A patch blames a full sliding-window cache that cannot be cut. It was closed without a review.",
        (OPEN,),
        see="PR 1427",
    ),
    Report(
        "JustVugg/colibri",
        689,
        "Drafts of 8 on a GPU change one token.",
        "The gap was measured: 0.15 at logits of 25, far more than float32 rounds away. So the search went on: blocks "
        "from 8 tokens on take another code path.",
        (OPEN,),
    ),
)


def as_markdown(reports: Iterable[Report] = REPORTS) -> str:
    """The reports as a table in Markdown, one row each: kind, what was seen, what it was, reference. Notebook 08."""
    rows = ["| kind | seen | found | thread |", "|---|---|---|---|"]
    for item in reports:
        more = f" (also {item.see})" if item.see else ""
        kinds = " and ".join(f"**{kind}**" for kind in item.kinds)
        rows.append(f"| {kinds} | {item.seen} | {item.cause} | [{item.reference}]({item.link}){more} |")
    return "\n".join(rows)
