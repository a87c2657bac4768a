"""Exhibits of the bug museum: samplers that draw from the wrong law, or accept less than they could.

Each is `PlainSampler` with one method replaced. All of them produce plausible text; only their law gives them away.
Nothing here may be used to decode.
"""

from __future__ import annotations

import torch

from specdec_lab.decoding.distributions import distribution, keep_top_k, residual, softmax

from .exhibit import exhibit
from .one_uniform import OneUniform, SameForGuessAndToss
from .plain_loop import Reader
from .plain_sampler import PlainSampler

_ANY_LAW = (  # notices a fault that shows in every place and at every setting
    "law_of_first_token law_of_outputs law_with_a_certain_draft law_with_filters law_at_another_temperature "
    "law_with_end_tokens"
)

# ---------------------------------------------------------------- the accept rule and the replacement


@exhibit(
    "A guess is accepted only if an independent draw of the target happens to equal it.",
    "The law is right, but acceptance falls from Σ min(p, q) to Σ p·q, and further the higher the temperature is.",
    faults="F16",
    references="ml-explore/mlx-lm PR 1709, lablup/mlxcel PR 992, ml-explore/mlx-swift-lm PR 459",
    caught_by="acceptance_is_the_overlap",
)
class AcceptIfEqual(PlainSampler):
    def judge(self, token, p, q):
        own = self.chance.draw(p)
        return token == own, own


@exhibit(
    "A guess that was drawn from q is judged as if it had been certain: kept with p(x), else replaced from p without x.",
    "The law is right, but a draft as good as the target is rejected, as often as if two draws had to agree.",
    faults="F16",
    references="SafeAILab/EAGLE 329, sgl-project/sglang 9877, vllm-project/vllm PR 40269",
    caught_by="acceptance_is_the_overlap",
)
class DrawnGuessTakenForCertain(PlainSampler):
    def judge(self, token, p, q):
        q = torch.zeros_like(p)
        q[token] = 1.0
        if self.chance.accept(min(1.0, float(p[token] / q[token]))):
            return True, token
        return False, self.chance.draw(residual(p, q))


@exhibit(
    "A faulty count of matches accepts every guess.",
    "The draft writes the text, and the bonus of each round is all that the target adds.",
    faults="F15",
    references="huggingface/transformers PR 28508",
    caught_by=_ANY_LAW + " acceptance_is_the_overlap no_token_of_probability_0 greedy_at_temperature_0",
)
class EveryGuessAccepted(PlainSampler):
    def judge(self, token, p, q):
        return True, token


@exhibit(
    "The accept test divides q by p.",
    "What the draft overrates is always kept, so the law can be further off than the draft's own.",
    faults="F15",
    references="jaymody/speculative-sampling 9",
    caught_by=_ANY_LAW + " acceptance_is_the_overlap no_token_of_probability_0 greedy_at_temperature_0",
)
class PAndQSwapped(PlainSampler):
    def judge(self, token, p, q):
        if self.chance.accept(min(1.0, float(q[token] / p[token]))):
            return True, token
        return False, self.chance.draw(residual(p, q))


@exhibit(
    "A rejected guess is replaced by a draw from p itself.",
    "What the draft likes too much comes out too often: once by acceptance, once by replacement.",
    faults="F15",
    references="NJUNLP/MCSD 5, eth-sri/language-model-arithmetic 14",
    caught_by=_ANY_LAW,
)
class ResampleFromP(PlainSampler):
    def judge(self, token, p, q):
        if self.chance.accept(min(1.0, float(p[token] / q[token]))):
            return True, token
        return False, self.chance.draw(p)


@exhibit(
    "The clipped difference p - q goes through a softmax instead of being divided by its sum.",
    "Replacements are nearly uniform over the vocabulary, tokens of probability 0 among them.",
    faults="F15",
    references="huggingface/transformers PR 28508",
    caught_by=_ANY_LAW + " no_token_of_probability_0 greedy_at_temperature_0",
)
class SoftmaxOfTheClippedDifference(PlainSampler):
    def judge(self, token, p, q):
        if self.chance.accept(min(1.0, float(p[token] / q[token]))):
            return True, token
        return False, self.chance.draw(torch.softmax((p - q).clamp(min=0), dim=-1))


@exhibit(
    "The clipped difference is divided by its sum, also where that is 0.",
    "Once in a long while, where p and q are equal but for rounding, a draw meets NaN.",
    faults="F17",
    references="jaymody/speculative-sampling 5, youssofal/MTPLX 82, sgl-project/sglang 27618",
    caught_by="equal_but_for_rounding",
)
class ResidualOfNothing(PlainSampler):
    def judge(self, token, p, q):
        if self.chance.accept(min(1.0, float(p[token] / q[token]))):
            return True, token
        positive = (p - q).clamp(min=0)
        return False, self.chance.draw(positive / positive.sum())


@exhibit(
    "The uniform number that rejected a guess also draws its replacement.",
    "A rejection means that the number was large, so what stands first in the residual comes out too seldom.",
    faults="F31",
    references="vllm-project/vllm-ascend PR 16370",
    caught_by=_ANY_LAW,
)
class OneUniformForTwo(PlainSampler):
    def judge(self, token, p, q):
        one = OneUniform(self.chance)
        if one.accept(min(1.0, float(p[token] / q[token]))):
            return True, token
        return False, one.draw(residual(p, q))


@exhibit(
    "The uniform number that drew a guess also decides whether it is kept.",
    "A guess that stands first in the vocabulary was drawn by a small number, and is kept too often.",
    faults="F31",
    references="vllm-project/vllm PR 47386, vllm-project/vllm PR 54282",
    caught_by="law_of_first_token law_of_outputs law_with_filters law_at_another_temperature law_with_end_tokens "
    "acceptance_is_the_overlap",
)
class GuessAndTossShareANumber(PlainSampler):
    def start(self, target_model, draft_model, input_ids):
        self.target, self.draft = Reader(target_model), Reader(draft_model)
        self.chance = SameForGuessAndToss(self.chance)
        return list(input_ids)


@exhibit(
    "The bonus is drawn from the residual of the last guess, one row too far.",
    "The token behind a full acceptance shuns what the draft liked in the place before.",
    faults="F26",
    references="vllm-project/vllm PR 5765, openvinotoolkit/openvino.genai PR 379 (review)",
    caught_by="law_of_outputs law_with_a_certain_draft law_with_filters law_at_another_temperature law_with_end_tokens "
    "bonus_law",
)
class BonusFromTheResidual(PlainSampler):
    def bonus(self, p):
        q = self.q[-1] if self.q else torch.zeros_like(p)
        return self.chance.draw(residual(p, q))


# ---------------------------------------------------------------- q that was not drawn from


@exhibit(
    "The draft takes its argmax, and the softmax it was taken from is used as q.",
    "The draft's favourite comes out with probability min(1, p ÷ q) instead of p.",
    faults="F07",
    references="huggingface/transformers 32867, huggingface/transformers PR 33534, jaymody/speculative-sampling 3",
    caught_by="law_of_first_token law_of_outputs law_with_filters law_at_another_temperature law_with_end_tokens "
    "bonus_law acceptance_is_the_overlap",
)
class ArgmaxDraftWithSoftmaxQ(PlainSampler):
    def guess(self, scores):
        q = self.probabilities(scores)
        return int(q.argmax()), q


@exhibit(
    "Guesses are drawn with top-k and top-p, and judged by the q from before these filters.",
    "Guesses are kept too often where p keeps them at all, and the text leans towards the draft.",
    faults="F07",
    references="huggingface/transformers 47932, huggingface/transformers PR 47961",
    caught_by="law_with_filters",
)
class UnfilteredQ(PlainSampler):
    def guess(self, scores):
        q = self.probabilities(scores)
        return self.chance.draw(q), softmax(scores, self.sampling.temperature)


@exhibit(
    "Guesses are drawn at the temperature that was asked for, and judged by a q at temperature 1.",
    "At temperature 1 nothing is wrong; below it the text leans towards the draft's favourites.",
    faults="F07",
    references="ohdearquant/lattice 388, deepseek-ai/DeepSpec 31",
    caught_by="law_at_another_temperature",
)
class QAtAnotherTemperature(PlainSampler):
    def guess(self, scores):
        q = self.probabilities(scores)
        return self.chance.draw(q), distribution(scores, 1.0, self.sampling.top_k, self.sampling.top_p)


# ---------------------------------------------------------------- temperature and filters


@exhibit(
    "Top-k and top-p are applied to the draft only.",
    "Tokens come out that the filters were to exclude.",
    faults="F18",
    references="vllm-project/vllm PR 10198",
    caught_by="law_with_filters no_token_of_probability_0",
)
class UnfilteredP(PlainSampler):
    def verify(self, sequence, drafted):
        unread = sequence[self.target.read :]
        rows = self.target.feed(unread + drafted)
        return softmax(rows[-1 - len(drafted) :], self.sampling.temperature)


@exhibit(
    "The nucleus lacks the token that crosses the threshold.",
    "Top-p is stricter than it says, and greedy wherever the first token crosses the threshold by itself.",
    faults="F18",
    references="ml-explore/mlx-lm PR 1912, fishaudio/fish-speech PR 1171, huggingface/transformers 18976",
    caught_by="law_with_filters",
)
class NucleusWithoutTheCrossingToken(PlainSampler):
    def nucleus(self, p):
        if self.sampling.top_p is None:
            return p
        ordered, ids = p.sort(dim=-1, descending=True, stable=True)
        beyond = ordered.cumsum(dim=-1) >= self.sampling.top_p
        beyond[..., 0] = False
        kept = torch.zeros_like(p).scatter(-1, ids, ordered.masked_fill(beyond, 0.0))
        return kept / kept.sum(dim=-1, keepdim=True)


@exhibit(
    "Logits are divided by the temperature, also by 0.",
    "At temperature 0 the probabilities are NaN.",
    faults="F13",
    references="vllm-project/vllm PR 27077, turboderp/exllama 226",
    caught_by="greedy_at_temperature_0",
)
class DividedByTemperatureZero(PlainSampler):
    def probabilities(self, scores):
        p = torch.softmax(scores / self.sampling.temperature, dim=-1)
        p = keep_top_k(p, self.sampling.top_k or 0)
        return self.nucleus(p)


@exhibit(
    "A temperature of 0 counts as none, which is 1.",
    "Who asks for greedy text gets random text.",
    faults="F07 F13",
    references="jaymody/speculative-sampling 9",
    caught_by="greedy_at_temperature_0",
)
class TemperatureZeroTakenForOne(PlainSampler):
    def probabilities(self, scores):
        p = softmax(scores, self.sampling.temperature or 1.0)
        p = keep_top_k(p, self.sampling.top_k or 0)
        return self.nucleus(p)
