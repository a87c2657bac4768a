"""Exhibits of the bug museum: decoders that spoil a cache, or feed what a cache holds already.

Each is the correct loop with one method replaced. Most of them leave the text alone, which is why comparing
texts does not find them. Nothing here may be used to decode.
"""

from __future__ import annotations

from .exhibit import exhibit
from .plain_loop import PlainLoop, Reader


@exhibit(
    "The target's cache is not rolled back.",
    "Rejected drafts stay in the target's context, and the text goes wrong behind the first rejection.",
    faults="F24 F27",
    references="ml-explore/mlx-lm PR 1109, Pushkinist/rMLX 382",
    caught_by="same_tokens end_token_everywhere acceptance_rate fed_tokens cache_contents "
    "first_token_verified one_token_prompt end_token_kinds padded_vocabulary",
)
class StaleTargetCache(PlainLoop):
    def roll_back_target(self, sequence):
        self.target.read = len(sequence) - 1


@exhibit(
    "The draft's cache is not rolled back.",
    "The text stays right, but the draft guesses behind its own rejected tokens and is seldom accepted.",
    faults="F27",
    references="ml-explore/mlx-swift-lm PR 308 (review), vllm-project/vllm-metal PR 716",
    caught_by="acceptance_rate fed_tokens cache_contents",
)
class StaleDraftCache(PlainLoop):
    def roll_back_draft(self, sequence):
        self.draft.read = min(self.draft.read, len(sequence) - 1)


@exhibit(
    "After a full acceptance the draft is fed the bonus only, never its own last guess.",
    "The text stays right; each full acceptance leaves a hole in the draft's cache, and guesses get worse where that matters.",
    faults="F27",
    references="ohdearquant/lattice 1396, vllm-project/vllm PR 5765, vllm-project/vllm PR 9730",
    caught_by="acceptance_rate pass_count fed_tokens cache_contents",
)
class HoleInDraftCache(PlainLoop):
    def propose(self, sequence, room):
        drafted = []
        unread = sequence[-1:] if self.draft.read else sequence
        while len(drafted) < room:
            scores = self.draft.feed(unread)[-1]
            token = int(scores[: self.vocabulary].argmax())
            drafted.append(token)
            if token in self.ends:
                break
            unread = [token]
        return drafted


@exhibit(
    "The draft's cache is cut one entry too short.",
    "The text stays right, but the draft's context lacks a token a round, and its guesses get worse where that matters.",
    faults="F27",
    references="lablup/mlxcel 994, lablup/mlxcel PR 1002",
    caught_by="acceptance_rate fed_tokens cache_contents",
)
class RewindTooFar(PlainLoop):
    def roll_back_draft(self, sequence):
        read = min(self.draft.read, len(sequence) - 1)
        self.draft.cut(len(sequence) - 2)
        self.draft.read = read


@exhibit(
    "The target's cache is cut to the length of the sequence, whose last token was never fed.",
    "A rejected draft stays where the correction belongs, and the text goes wrong.",
    faults="F27",
    references="openvinotoolkit/openvino.genai 4190",
    caught_by="same_tokens end_token_everywhere acceptance_rate fed_tokens cache_contents "
    "first_token_verified one_token_prompt end_token_kinds padded_vocabulary",
)
class RolledBackToFullLength(PlainLoop):
    def roll_back_target(self, sequence):
        self.target.cut(len(sequence))
        self.target.read = len(sequence) - 1


@exhibit(
    "The draft's cache is emptied instead of rolled back.",
    "Everything that comes out is right, and the draft reads the whole text again in every round.",
    faults="F27",
    references="paiml/aprender PR 2014",
    caught_by="fed_tokens",
)
class DraftCacheReset(PlainLoop):
    def roll_back_draft(self, sequence):
        self.draft.cut(0)


@exhibit(
    "The target is given the whole sequence again, together with the cache that holds it already.",
    "The target sees the text twice and answers nonsense, at a cost that grows from round to round.",
    faults="F27",
    references="huggingface/transformers PR 48000",
    caught_by="same_tokens end_token_everywhere acceptance_rate fed_tokens cache_contents "
    "first_token_verified one_token_prompt end_token_kinds padded_vocabulary",
)
class PrefixFedTwice(PlainLoop):
    def verify(self, sequence, drafted):
        unread = sequence
        rows = self.target.feed(unread + drafted)
        return rows[-1 - len(drafted) :].argmax(dim=-1).tolist()


@exhibit(
    "The prompt is run once up front, and the result is not kept.",
    "Everything that comes out is right, but the most expensive pass, over the prompt, is made twice.",
    faults="F27",
    references="vllm-project/vllm-metal 482",
    caught_by="fed_tokens",
)
class PrefillDoneTwice(PlainLoop):
    def start(self, target_model, draft_model, input_ids):
        self.target, self.draft = Reader(target_model), Reader(draft_model)
        Reader(target_model).feed(list(input_ids))
        return list(input_ids)


@exhibit(
    "All of the prompt but its last token is fed up front, also when that is nothing.",
    "A prompt of one token ends in an error about an empty input.",
    faults="F29",
    references="huggingface/transformers PR 40906 (review)",
    caught_by="one_token_prompt",
)
class EmptyPrefill(PlainLoop):
    def start(self, target_model, draft_model, input_ids):
        self.target, self.draft = Reader(target_model), Reader(draft_model)
        self.target.feed(list(input_ids)[:-1])
        return list(input_ids)
