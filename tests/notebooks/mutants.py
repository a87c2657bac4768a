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


LOOP, GREEDY, DRAFTERS = "decoding/loop.py", "decoding/greedy_rule.py", "decoding/drafters.py"
SAMPLING, RULE = "decoding/sampling.py", "decoding/sampling_rule.py"
DISTRIBUTIONS, CHANCE = "decoding/distributions.py", "decoding/chance.py"
GENERATION, ADAPTIVE = "measure/generation.py", "measure/adaptive.py"
ROUNDS, THEORY, CACHE = "decoding/rounds.py", "measure/theory.py", "models/cache.py"
AGREES, TAKES = "proposal.child(node, choices[node + 1])", "return Verdict(path, choices[node + 1])"
COIN, REPLACEMENT = "chance.accept(min(1.0, p_here / q_x[child]))", "left = residual(left, q[child])"
OWN_P, OWN_BONUS = "p = self.distribution(logits)", "return Verdict(path, chance.draw(left), overlaps)"
TARGET_BACK = "target.keep(confirmed, [confirmed + i for i in path][: len(emitted) - 1])"
DRAFT_BACK = "self._session.roll_back(len(sequence) - 1)"
TOKENS, GRADING, JUDGE = "teach/wrong_tokens.py", "teach/grading.py", "teach/judgements.py"
SYMPTOMS, UNLABELLED, CHECKS = "teach/symptoms.py", "teach/unlabelled.py", "teach/checks.py"

MUTANTS = [
    Mutant(
        "accept rule: everything is accepted", GREEDY, AGREES, "next(iter(proposal.children(node)), None)"
    ),
    Mutant(
        "accept rule: a draft is judged by the row behind its own",
        GREEDY,
        AGREES,
        "proposal.child(node, choices[min(node + 2, len(choices) - 1)])",
    ),
    Mutant(
        "accept rule: the first rejected draft is kept",
        GREEDY,
        TAKES,
        "return Verdict((*path, *proposal.children(node)[:1]), choices[node + 1])",
    ),
    Mutant(
        "accept rule: the last accepted draft is dropped",
        GREEDY,
        TAKES,
        "return Verdict(path[:-1], choices[node + 1])",
    ),
    Mutant(
        "accept rule: own token from the row before",
        GREEDY,
        TAKES,
        "return Verdict(path, choices[max(node, 0)])",
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
        "BONUS if full else CORRECTION",
        "CORRECTION",
    ),
    Mutant("target not rolled back", LOOP, TARGET_BACK, "target._training = None"),
    Mutant(
        "target rolled back one too far",
        LOOP,
        TARGET_BACK,
        TARGET_BACK.replace("len(emitted) - 1", "max(len(emitted) - 2, 0)"),
    ),
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
    # ------------------------------------------------------------ sampling
    Mutant(
        "sampling: p and q swapped in the coin",
        RULE,
        COIN,
        "chance.accept(min(1.0, q_x[child] / max(p_here, 1e-9)))",
    ),
    Mutant("sampling: every guess is accepted", RULE, COIN, "chance.accept(1.0)"),
    Mutant("sampling: the replacement is drawn from p", RULE, REPLACEMENT, "pass"),
    Mutant(
        "sampling: the replacement is drawn one row too far",
        RULE,
        REPLACEMENT,
        "left = residual(p[min(node + 2, len(p) - 1)], q[child])",
    ),
    Mutant("sampling: the residual is not clipped", DISTRIBUTIONS, "(p - q).clamp_(min=0)", "(p - q)"),
    Mutant(
        "sampling: the residual goes through a softmax",
        DISTRIBUTIONS,
        "positive / total, p)",
        "positive.softmax(dim=-1), p)",
    ),
    Mutant(
        "sampling: the bonus is drawn from q",
        RULE,
        OWN_BONUS,
        OWN_BONUS.replace("left", "left if children or node < 0 else q[node]"),
    ),
    Mutant(
        "sampling: the bonus is drawn one row too early",
        RULE,
        OWN_BONUS,
        OWN_BONUS.replace("left", "left if children or node < 0 else p[node]"),
    ),
    Mutant(
        "sampling: the q of the coin is not the one that was drawn from",
        DRAFTERS,
        "rows.append(q)",
        "rows.append(type(self._sampling)().distribution(row))",
    ),
    Mutant(
        "sampling: a draft without chance is always accepted",
        RULE,
        "child = proposal.child(node, token)",
        "child = next(iter(children), None)",
    ),
    Mutant(
        "sampling: a draw that the target cannot read is forgotten",
        LOOP,
        "return replace(cut, probabilities=proposal.probabilities[: place + 1], refused=proposal.tokens[place])",
        "return cut",
    ),
    Mutant(
        "sampling: top-p drops the token that crosses",
        DISTRIBUTIONS,
        "count = 1 + (reached[..., :-1] < top_p).sum(dim=-1, keepdim=True)",
        "count = (reached < top_p).sum(dim=-1, keepdim=True).clamp(min=1)",
    ),
    Mutant(
        "sampling: the temperature acts on the draft only",
        SAMPLING,
        OWN_P,
        "p = distribution(logits, 1.0, self.top_k, self.top_p)",
    ),
    Mutant(
        "sampling: filters act on the draft only",
        SAMPLING,
        OWN_P,
        "p = distribution(logits, self.temperature)",
    ),
    Mutant("sampling: temperature 0 divides", DISTRIBUTIONS, "if temperature < GREEDY_BELOW:", "if False:"),
    Mutant(
        "sampling: one uniform number for a coin and what follows it",
        CHANCE,
        "return self._uniform() < probability",
        "u = self._uniform()\n        self._uniform = lambda: (self.__dict__.pop('_uniform'), u)[1]\n        return u < probability",
    ),
    Mutant(
        "sampling: the generator is ignored",
        CHANCE,
        "torch.rand((), generator=self.generator, ",
        "torch.rand((), ",
    ),
    Mutant(
        "sampling: expected acceptance counts what was never judged",
        RULE,
        "(*overlaps, overlaps_x[child])",
        "tuple(overlaps_x)",
    ),
    Mutant(
        "sampling: the expected acceptance is Σ p·q",
        DISTRIBUTIONS,
        "torch.minimum(p, fit(q, p))",
        "(p * fit(q, p))",
    ),
]

# ------------------------------------------------------------ trees
SESSION, TREES, CROSSING = "decoding/session.py", "measure/trees.py", "decoding/crossing.py"
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
        "for i in self.children(node) if",
        "for i in self.children(node)[:1] if",
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
        RULE,
        "left = residual(left, q[child])",
        "left = p[node + 1]",
    ),
    Mutant(
        "Medusa: heads shifted by one",
        CROSSING,
        "best[depth - 1][rank]",
        "best[min(depth, len(best) - 1)][rank]",
    ),
    Mutant("crossing: every rank is the first", CROSSING, "best[depth - 1][rank]", "best[depth - 1][0]"),
    Mutant(
        "riders: the first row's guesses are taken, whatever was accepted",
        LOOP,
        "target.carried[[0, *(i + 1 for i in path)]]",
        "target.carried[[0]]",
    ),
]

STREAMS, STREAM_RIDER, STREAM_DRAFTER = "models/streams.py", "models/stream_rider.py", "decoding/streams.py"

MUTANTS += [
    Mutant(
        "streams: begin without a vector of their own",
        STREAMS,
        "self.start(hidden).unsqueeze(-2) + self.embedding[:count]",
        "self.start(hidden).unsqueeze(-2) + 0 * self.embedding[:count]",
    ),
    Mutant(
        "streams: a stream sees the later ones too",
        STREAMS,
        "device=beside.device).tril()",
        "device=beside.device)",
    ),
    Mutant(
        "streams: all stand at their row's position",
        STREAM_RIDER,
        "places = positions[:, kept, None] + ahead",
        "places = positions[:, kept, None] + 0 * ahead",
    ),
    Mutant(
        "streams: they see the rivals' rows",
        STREAM_RIDER,
        "visible = attention_mask[0, 0, -rows:]",
        "visible = torch.ones_like(attention_mask[0, 0, -rows:])",
    ),
    Mutant(
        "streams: keys of other layers",
        STREAM_RIDER,
        "cache = past_key_values.layers[module.self_attn.layer_idx]",
        "cache = past_key_values.layers[module.self_attn.layer_idx - len(networks)]",
    ),
    Mutant(
        "streams: rows are counted once for all streams",
        STREAM_RIDER,
        "self.rows += streams.shape[0] * streams.shape[1] * streams.shape[2]",
        "self.rows += streams.shape[0] * streams.shape[1]",
    ),
    Mutant(
        "streams: the head is read without the norm",
        STREAMS,
        "target.get_output_embeddings()(target.get_decoder().norm(streams))",
        "target.get_output_embeddings()(streams)",
    ),
    Mutant(
        "streams: more ride than the tree has levels",
        STREAM_DRAFTER,
        "self.rider.count = self.depth",
        "self.rider.count = self.guess_count",
    ),
    Mutant(
        "pruning: the last step's chance instead of the path's",
        STREAM_RIDER,
        "likely = (path * step).sum(-1)",
        "likely = step",
    ),
    Mutant(
        "pruning: the unlikeliest nodes are kept",
        STREAM_RIDER,
        "likely[1:].topk(self.keep).indices",
        "likely[1:].topk(self.keep, largest=False).indices",
    ),
    Mutant(
        "pruning: a step is read in the node's own row",
        STREAM_RIDER,
        "says[parents, ids[0]]",
        "says[torch.arange(rows), ids[0]]",
    ),
    Mutant(
        "pruning: drafts behind a node without streams",
        STREAM_DRAFTER,
        "self._carried.isnan().any()",
        "self._carried.isnan().all() and False",
    ),
]

# ------------------------------------------------------------ real models
EARLY_EXIT, LENDER = "decoding/early_exit.py", "models/early_exit.py"
EAGLE, EAGLE_DRAFTER, LOOKUP = "models/eagle.py", "decoding/eagle.py", "decoding/lookup.py"
LOADED, SERVING, PUBLIC = "measure/loaded.py", "measure/serving.py", "models/public_pairs.py"

MUTANTS += [
    Mutant(
        "early exit: drafts in the cache of the last layers",
        LENDER,
        "view.layers = cache.layers[:layers]",
        "view.layers = cache.layers[-layers:]",
    ),
    Mutant(
        "early exit: what it drafted stays in the target's cache",
        EARLY_EXIT,
        "            self._session.roll_back(held)\n",
        "",
    ),
    Mutant(
        "early exit: leaves one layer earlier than it says",
        LENDER,
        "nn.ModuleList(list(every)[:layers])",
        "nn.ModuleList(list(every)[: layers - 1])",
    ),
    Mutant(
        "EAGLE: rows that stand on its own features are kept",
        EAGLE_DRAFTER,
        "self._session.roll_back(min(self._session.length, model.told + 1))",
        "self._session.roll_back(len(sequence) - 1)",
    ),
    Mutant(
        "EAGLE: the target's features come one place late",
        EAGLE_DRAFTER,
        "model.tell(carried)",
        "model.tell(torch.cat([self.rider.before[-1:] if len(self.rider.before) else carried[:1], carried[:-1]]))",
    ),
    Mutant(
        "EAGLE: its own features take the place of the target's",
        EAGLE,
        "del self._features[self.told :]",
        "hidden = hidden[len(self._features) - self.told :]",
    ),
    Mutant(
        "EAGLE: guesses are numbered as the draft numbers them",
        EAGLE,
        "logits[..., self._ids] = self._head(rows)",
        "logits[..., : len(self._ids)] = self._head(rows)",
    ),
    Mutant(
        "prompt lookup: copies from one token further on",
        LOOKUP,
        "for position in range(start, start + limit):",
        "for position in range(start + 1, start + limit + 1):",
    ),
    Mutant(
        "chat: the template does not say whose turn it is",
        "models/pairs.py",
        "add_generation_prompt=True",
        "add_generation_prompt=False",
    ),
    Mutant(
        "describe_pair: tied weights are counted twice",
        LOADED,
        "return list({id(p): p for module in modules for p in module.parameters(recurse=False)}.values())",
        "return [p for module in modules for p in module.parameters(recurse=False)]",
    ),
    Mutant(
        "describe_pair: the draft's shared weights are its own",
        LOADED,
        "set() if besides is None else",
        "set() if True else",
    ),
    Mutant(
        "public pairs: a cache holds keys only",
        PUBLIC,
        "return 2 * self.layers * self.key_value_heads",
        "return self.layers * self.key_value_heads",
    ),
    Mutant(
        "vLLM: rounds without a draft are counted",
        SERVING,
        "rounds = [item for item in trace.rounds if item.drafted]",
        "rounds = list(trace.rounds)",
    ),
    Mutant(
        "vLLM: the share of a place is taken of what was judged",
        SERVING,
        '"share": accepted / self.rounds if self.rounds',
        '"share": accepted / judged if judged',
    ),
    Mutant(
        "vLLM: tokens per round without the target's own",
        SERVING,
        "return (self.rounds + self.accepted) / self.rounds",
        "return self.accepted / self.rounds",
    ),
    Mutant(
        "museum: exhibit A counts up to the first difference",
        TOKENS,
        "agreed += drafted[i] == choices[i]",
        "agreed += agreed == i and drafted[i] == choices[i]",
    ),
    Mutant(
        "museum: exhibit B does not count the bonus", TOKENS, "agreed + (agreed == len(drafted))", "agreed"
    ),
    Mutant(
        "museum: exhibit E is right",
        TOKENS,
        "return emitted, emitted[-1] in self.ends",
        "return super().stop_at_end(emitted)",
    ),
    Mutant(
        "grader: the first case that fails is shown, not the smallest",
        GRADING,
        "if smaller[0] in (item.broken, _SILENT):",
        "if False:",
    ),
    Mutant("grader: hints come last first", GRADING, "finding.hints[number - 1]", "finding.hints[-number]"),
    Mutant(
        "grader: wrong text is told one token early",
        JUDGE,
        "new token {at - start + 1} on",
        "new token {at - start} on",
    ),
    Mutant(
        "grader: a stale entry is dated a round late",
        JUDGE,
        "return max(1, before + 1 - prefill)",
        "return max(1, before + 2 - prefill)",
    ),
    Mutant(
        "grader: the exit code is always 0",
        "grade_command.py",
        'return RIGHT if result["verdict"] in ("right", "wasteful") else WRONG',
        "return RIGHT",
    ),
    Mutant(
        "checks: fed tokens are counted behind a short prompt",
        CHECKS,
        "(Case(24, 4, draft, prompt=LONG_PROMPT) for draft in DRAFTS)",
        "(Case(24, 4, draft) for draft in DRAFTS)",
    ),
    Mutant("symptoms: right tokens are all new tokens", SYMPTOMS, "common_length(new, due)", "len(new)"),
    Mutant(
        "symptoms: passes out of order",
        SYMPTOMS,
        "for name in run.target.order]",
        "for name in sorted(run.target.order)]",
    ),
    Mutant(
        "unlabelled: an innocent drafts too much",
        UNLABELLED,
        "return min(self.gamma, wanted)",
        "return self.gamma",
    ),
    Mutant(
        "unlabelled: two letters have changed places", UNLABELLED, '"B": "bonus_counted"', '"B": "bonus_lost"'
    ),
]
