"""Faults to put into the package, one at a time, that the notebooks' strict comparison has to notice.

Each is (name, file, text, text instead); the text occurs once in its file. `mutate.py` runs them.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One wrong edit."""

    name: str
    file: str
    text: str
    instead: str


LOOP, GREEDY, DRAFTERS = "decoding/loop.py", "decoding/greedy.py", "decoding/drafters.py"
GENERATION, ADAPTIVE = "measure/generation.py", "measure/adaptive.py"
ROUNDS, THEORY, CACHE = "decoding/rounds.py", "measure/theory.py", "models/cache.py"
AGREES = "proposal.tokens[agreed] == choices[agreed]"
TAKES = "return range(agreed), choices[agreed]"
TARGET_BACK, DRAFT_BACK = "target.roll_back(len(sequence) - 1)", "self._session.roll_back(len(sequence) - 1)"

MUTANTS = [
    Mutant("accept rule: everything is accepted", GREEDY, AGREES, "True"),
    Mutant("accept rule: a draft is judged by the row behind its own", GREEDY, AGREES, AGREES[:-1] + " + 1]"),
    Mutant(
        "accept rule: the first rejected draft is kept",
        GREEDY,
        TAKES,
        TAKES.replace("range(agreed)", "range(min(agreed + 1, len(proposal.tokens)))"),
    ),
    Mutant(
        "accept rule: the last accepted draft is dropped",
        GREEDY,
        TAKES,
        TAKES.replace("range(agreed)", "range(max(agreed - 1, 0))"),
    ),
    Mutant(
        "accept rule: own token from the row before",
        GREEDY,
        TAKES,
        "return range(agreed), choices[max(agreed - 1, 0)]",
    ),
    Mutant(
        "bonus lost",
        LOOP,
        "            emitted.append(own)\n",
        "            if outcome != BONUS:\n                emitted.append(own)\n",
    ),
    Mutant(
        "bonus called a correction",
        LOOP,
        "BONUS if len(path) == len(proposal.tokens) else CORRECTION",
        "CORRECTION",
    ),
    Mutant("target not rolled back", LOOP, TARGET_BACK, "target._training = None"),
    Mutant("target rolled back one too far", LOOP, TARGET_BACK, TARGET_BACK.replace("- 1", "- 2")),
    Mutant("draft not rolled back", DRAFTERS, DRAFT_BACK, "pass"),
    Mutant("draft rolled back one too far", DRAFTERS, DRAFT_BACK, DRAFT_BACK.replace("- 1", "- 2")),
    Mutant(
        "a cut keeps one row too few",
        CACHE,
        "self.length = min(self.length, valid_length)",
        "self.length = min(self.length, max(valid_length - 1, 0))",
    ),
    Mutant(
        "the target's token follows an end token",
        LOOP,
        "if emitted and emitted[-1] in end_tokens:",
        "if False:",
    ),
    Mutant("the last round drafts one too many", LOOP, "min(most, wanted - 1)", "min(most, wanted)"),
    Mutant("a round drafts one too few", LOOP, "min(most, wanted - 1)", "min(max(most - 1, 1), wanted - 1)"),
    Mutant(
        "acceptance rate counts corrections and bonus tokens",
        ROUNDS,
        "return self.accepted / self.drafted if",
        "return len(self.new_tokens) / self.drafted if",
    ),
    Mutant(
        "α judges tokens behind a rejection",
        ROUNDS,
        "return int(self.outcome == CORRECTION)",
        "return len(self.drafted) - len(self.accepted)",
    ),
    Mutant(
        "tokens per round without the target's own",
        ROUNDS,
        "return len(self.new_tokens) / len(self.rounds) if",
        "return self.accepted / len(self.rounds) if",
    ),
    Mutant("E(α, γ) off by one", THEORY, "(gamma + 1) * np.log1p(-missing)", "gamma * np.log1p(-missing)"),
    Mutant(
        "verification is free in the formula",
        THEORY,
        "return np.where(gamma == 0, 1.0, v)",
        "return np.ones_like(v)",
    ),
    Mutant("short last rounds are forgotten", GENERATION, "min(gamma, left - 1)", "min(gamma, left)"),
    Mutant(
        "adaptive γ believes the acceptance rate",
        ADAPTIVE,
        "[False] * item.rejected",
        "[False] * (len(item.drafted) - len(item.accepted))",
    ),
]

# ------------------------------------------------------------ trees
SESSION, TREES, MEDUSA = "decoding/session.py", "measure/trees.py", "decoding/medusa.py"
WALK, OWN = "proposal.child(node, choices[node + 1])", "return Verdict(path, choices[node + 1])"
KEPT = "[confirmed + i for i in path][: len(emitted) - 1]"

MUTANTS += [
    Mutant(
        "trees: the mask lets siblings see each other",
        SESSION,
        "rows.append([node] if parent < 0 else [*rows[parent], node])",
        "rows.append(list(range(node + 1)))",
    ),
    Mutant(
        "trees: positions by place in the flat list",
        SESSION,
        "positions[row] = base + depths[node] - 1",
        "positions[row] = base + node",
    ),
    Mutant(
        "trees: the first rows are kept, not the accepted ones",
        LOOP,
        KEPT,
        "[confirmed + i for i in range(len(path))][: len(emitted) - 1]",
    ),
    Mutant(
        "trees: the path takes the child of another row", GREEDY, WALK, "proposal.child(node, choices[node])"
    ),
    Mutant(
        "trees: only first children are looked at",
        "decoding/drafters.py",
        "for i in self.children[node] if",
        "for i in self.children[node][:1] if",
    ),
    Mutant("trees: own token from the wrong row", GREEDY, OWN, "return Verdict(path, choices[len(path)])"),
    Mutant(
        "trees: the best shape forgets that ranks differ",
        TREES,
        "for chance in reversed(chances):",
        "for chance in [chances[0]] * len(chances):",
    ),
    Mutant(
        "trees: expected tokens without the target's own",
        TREES,
        "return 1.0 + sum(reached)",
        "return sum(reached)",
    ),
    Mutant(
        "trees: a node's chance is not multiplied down its path",
        TREES,
        "reached.append(chance * (1.0 if parent == ROOT else reached[parent]))",
        "reached.append(chance)",
    ),
    Mutant(
        "trees: siblings are drawn with replacement",
        "decoding/tree_drafters.py",
        "            q[token] = 0\n",
        "",
    ),
    Mutant(
        "trees: a later sibling is judged against the whole of p",
        "decoding/sampling.py",
        "left = residual(left, q[child])",
        "left = p[node + 1]",
    ),
    Mutant(
        "Medusa: heads shifted by one",
        MEDUSA,
        "best[depth - 1][rank]",
        "best[min(depth, len(best) - 1)][rank]",
    ),
]
