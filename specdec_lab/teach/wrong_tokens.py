"""Exhibits of the bug museum: decoders that keep the wrong tokens, miss the end, or miscount.

Each is the correct loop with one method replaced. Nothing here may be used to decode.
"""

from __future__ import annotations

from .exhibit import exhibit
from .plain_loop import PlainLoop, Reader

# ---------------------------------------------------------------- which tokens are kept


@exhibit(
    "The first drafted token is accepted without a look.",
    "The text has the draft's mistakes in it; with a draft that agrees nobody notices.",
    faults="F25",
    references="ohdearquant/lattice 243",
    caught_by="same_tokens end_token_everywhere acceptance_rate first_token_verified one_token_prompt "
    "end_token_kinds padded_vocabulary",
)
class FirstTokenUnverified(PlainLoop):
    def agree(self, drafted, choices):
        agreed = min(1, len(drafted))
        while agreed < len(drafted) and drafted[agreed] == choices[agreed]:
            agreed += 1
        return agreed


@exhibit(
    "All agreeing positions are counted, also those behind the first difference.",
    "A wrong token is kept as often as a later one happens to agree.",
    faults="F15",
    references="vllm-project/vllm PR 2658, huggingface/transformers PR 28508, Mesh-LLM/mesh-llm PR 567",
    caught_by="same_tokens end_token_everywhere acceptance_rate first_token_verified one_token_prompt "
    "end_token_kinds padded_vocabulary",
)
class AcceptsPastDisagreement(PlainLoop):
    def agree(self, drafted, choices):
        agreed = 0
        for i in range(len(drafted)):
            agreed += drafted[i] == choices[i]
        return agreed


@exhibit(
    "After a rejection the target's own token is not appended.",
    "Nothing is gained in a round whose first draft is wrong, so the same round comes again, forever.",
    faults="F26",
    references="openvinotoolkit/openvino.genai 4190",
    caught_by="same_tokens end_token_everywhere budget acceptance_rate pass_count fed_tokens "
    "cache_contents first_token_verified one_token_prompt caller_list_untouched end_token_kinds "
    "padded_vocabulary",
)
class CorrectionDropped(PlainLoop):
    def commit(self, drafted, choices, agreed):
        if agreed < len(drafted):
            return drafted[:agreed]
        return [*drafted[:agreed], choices[agreed]]


@exhibit(
    "After a full acceptance the target's extra token is thrown away.",
    "The text stays right, and every good round yields one token less than it could.",
    faults="F26",
    references="ohdearquant/lattice PR 509, openvinotoolkit/openvino.genai PR 379 (review)",
    caught_by="acceptance_rate pass_count",
)
class BonusLost(PlainLoop):
    def commit(self, drafted, choices, agreed):
        if drafted and agreed == len(drafted):
            return drafted
        return [*drafted[:agreed], choices[agreed]]


@exhibit(
    "A round may always draft γ tokens, however few are still wanted.",
    "Up to γ tokens more than max_new_tokens come out.",
    faults="F04",
    references="huggingface/transformers PR 46993, ohdearquant/lattice 242, antonellof/ferrox PR 311",
    caught_by="same_tokens end_token_everywhere budget acceptance_rate one_token_prompt end_token_kinds "
    "padded_vocabulary",
)
class NoBudgetCap(PlainLoop):
    def room(self, wanted):
        return self.gamma


@exhibit(
    "The draft's guess may be an id that the target does not have.",
    "With a pair whose vocabularies are padded differently the target stops with an index error.",
    faults="F09",
    references="huggingface/transformers 45307, mlc-ai/mlc-llm 3212, vllm-project/vllm 14939",
    caught_by="padded_vocabulary",
)
class ForeignIdsPassedOn(PlainLoop):
    def propose(self, sequence, room):
        drafted = []
        unread = sequence[self.draft.read :]
        while len(drafted) < room:
            scores = self.draft.feed(unread)[-1]
            token = int(scores.argmax())
            drafted.append(token)
            if token in self.ends:
                break
            unread = [token]
        return drafted


@exhibit(
    "The sequence is the caller's own list.",
    "The prompt grows behind the caller's back, and the next call continues the last answer.",
    faults="F29",
    references="mem0ai/mem0 5580",
    caught_by="caller_list_untouched",
)
class CallerListChanged(PlainLoop):
    def start(self, target_model, draft_model, input_ids):
        self.target, self.draft = Reader(target_model), Reader(draft_model)
        return input_ids


# ---------------------------------------------------------------- the end token


@exhibit(
    "Only the last token of a block is compared with the end token.",
    "The text runs on past an end token that was drafted and accepted; looks intermittent.",
    faults="F01",
    references="huggingface/transformers 47912, huggingface/transformers PR 48981",
    caught_by="end_token_everywhere acceptance_rate end_token_kinds",
)
class EndTokenOnlyLast(PlainLoop):
    def stop_at_end(self, emitted):
        return emitted, emitted[-1] in self.ends


@exhibit(
    "An end token stops the loop, but what the block holds behind it is kept.",
    "One stray token follows the end token.",
    faults="F01",
    references="huggingface/transformers PR 47931, LostRuins/koboldcpp 1276",
    caught_by="end_token_everywhere end_token_kinds",
)
class TextBehindEndToken(PlainLoop):
    def stop_at_end(self, emitted):
        kept = []
        for token in emitted:
            kept.append(token)
            if token in self.ends:
                return emitted, True
        return kept, False


@exhibit(
    "The draft goes on guessing behind an end token.",
    "The text is right; passes of the draft are wasted, and the rate counts guesses that could not matter.",
    faults="F01",
    references="LostRuins/koboldcpp 1276, huggingface/transformers PR 48002",
    caught_by="acceptance_rate",
)
class DraftsBehindEndToken(PlainLoop):
    def propose(self, sequence, room):
        drafted = []
        unread = sequence[self.draft.read :]
        while len(drafted) < room:
            scores = self.draft.feed(unread)[-1]
            token = int(scores[: self.vocabulary].argmax())
            drafted.append(token)
            unread = [token]
        return drafted


@exhibit(
    "The end token is taken for one id, whatever is given.",
    "With a list of end tokens the text never stops.",
    faults="F11",
    references="state-spaces/mamba PR 1040, intel/ipex-llm PR 11896",
    caught_by="end_token_kinds",
)
class EndTokenListIgnored(PlainLoop):
    def read_end_tokens(self, eos_token_id):
        return (eos_token_id,)


# ---------------------------------------------------------------- the acceptance rate


@exhibit(
    "The bonus counts as an accepted draft.",
    "The acceptance rate is too good, and above 1 with a good draft.",
    faults="F05",
    references="fvliang/DART 2, vllm-project/vllm PR 2658",
    caught_by="acceptance_rate",
)
class BonusCounted(PlainLoop):
    def count(self, drafted, agreed):
        self.total_drafted += len(drafted)
        self.total_accepted += agreed + (agreed == len(drafted))


@exhibit(
    "Accepted tokens are divided by γ × rounds, not by what was drafted.",
    "A perfect draft seems to be rejected now and then, because the last round is short.",
    faults="F05",
    references="NVIDIA/TensorRT-LLM PR 14724 (review), sgl-project/sglang PR 13212",
    caught_by="acceptance_rate",
)
class RateOverGammaTimesRounds(PlainLoop):
    def count(self, drafted, agreed):
        self.total_drafted += self.gamma
        self.total_accepted += agreed


@exhibit(
    "The rate is a division without asking whether anything was drafted.",
    "One new token, for which nothing is drafted, ends in a division by zero.",
    faults="F04",
    references="vllm-project/vllm PR 24322 (review)",
    caught_by="budget acceptance_rate",
)
class RateWithoutDrafts(PlainLoop):
    def rate(self):
        return self.total_accepted / self.total_drafted
