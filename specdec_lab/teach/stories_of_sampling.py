"""The story behind each exhibit that draws: how one gets there, what the checks find, the shortest case.

Only data, as in `stories.py`. That the findings and the cases are what the checks say is held by a test, which looks for
each case from the smallest on; and so is that no story is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from specdec_lab.decoding.sampling import Sampling
from specdec_lab.models.scripted import fixed

from .sampling_audit import Case
from .stories import Story


@dataclass(frozen=True)
class SamplerStory(Story):
    """What is told beside an exhibit that draws.

    Attributes:
        text: how the fault comes about, why it stays unnoticed, and where it was reported or asked about.
        breaks: sampling checks that notice it, which are the behaviours of `check_speculative_sample`; the taught one first.
        shortest: the smallest case that shows the taught one, what the models say in it, and what comes out.
        case: that case itself, to be run again.

    Example:
        >>> from specdec_lab.teach.museum import get_exhibit
        >>> from specdec_lab.teach.sampling_audit import law_of
        >>> case = SAMPLER_STORIES["resample_from_p"].case
        >>> found, _ = law_of(get_exhibit("resample_from_p").sample, case)
        >>> round(found.of_token(0)[(0,)], 6), round(case.truth().of_token(0)[(0,)], 6)
        (0.75, 0.5)
    """

    case: Case


@dataclass(frozen=True)
class ByPlace:
    """A rule for a scripted model: another distribution in each place, the last one from there on. The prompt is one token.

    >>> ByPlace(((1.0, 0.0), (0.0, 1.0)))([0, 1, 1])
    [-inf, 0.0]
    """

    rows: tuple[tuple[float, ...], ...]

    def __call__(self, prefix: Sequence[int]) -> Sequence[float]:
        return fixed(self.rows[min(len(prefix), len(self.rows)) - 1])(prefix)


def _story(text: str, breaks: str, case: Case, shows: str) -> SamplerStory:
    return SamplerStory(text, tuple(breaks.split()), f"{_in_words(case)}\n{shows}", case)


def _in_words(case: Case) -> str:
    """The call on one line, and on the next what the models say."""
    sampling = case.sampling
    filters = "".join(
        f", {name}={value:g}" for name in ("top_k", "top_p") if (value := getattr(sampling, name)) is not None
    )
    models = case.says
    if not models:
        p, q = (f"[{', '.join(f'{value:g}' for value in values)}]" for values in (case.p, case.q))
        models = f"{f'p = q = {p}' if p == q else f'p = {p} and q = {q}'} in every place"
    return (
        f"speculative_sample(target, draft, [0], max_new_tokens={case.new_tokens}, gamma={case.gamma}, "
        f"eos_token_id=None, temperature={sampling.temperature:g}{filters})\n{models}."
    )


def _two_tokens(p: tuple[float, ...], q: tuple[float, ...], sampling: Sampling | None = None) -> Case:
    """Two tokens wanted: one is guessed, and something follows."""
    return Case(p, q, 2, 1, sampling or Sampling(), vocabulary=len(p))


def _one_token(p: tuple[float, ...], sampling: Sampling) -> Case:
    """One token wanted: nothing is guessed."""
    return Case(p, p, 1, 1, sampling, vocabulary=len(p))


_FIRST, _SECOND, _EVEN, _UNEVEN = (1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (0.75, 0.25)
_SURE_THEN_EVEN = ByPlace((_FIRST, _EVEN))
_UNIFORM = (1 / 25,) * 25

SAMPLER_STORIES: dict[str, SamplerStory] = {
    "accept_if_equal": _story(
        "Greedy decoding keeps a guess that equals the target's choice, so sampling keeps one that equals "
        "the target's draw. The text is the target's own either way, since that draw is what comes out: "
        "ml-explore/mlx-lm PR 1709 and lablup/mlxcel PR 992 say so, while ml-explore/mlx-swift-lm PR 459 "
        "takes the rule for biased. What is lost is speed. Two independent draws seldom agree, even if "
        "both models are one and the same.",
        "acceptance_is_the_overlap",
        _two_tokens(_EVEN, _EVEN),
        "The guess should be kept with probability 1, and is with 0.5.",
    ),
    "drawn_guess_taken_for_certain": _story(
        "A draft that proposes its argmax, or looks its guess up, is certain of it, and then q = 1 is "
        "right. The line stays when the draft begins to draw, because its probabilities are not handed "
        "on: sgl-project/sglang 9877, vllm-project/vllm PR 40269. No test of the text finds it, for the "
        "law stays exact. A guess is kept with p(x) only, and a perfect draft looks like a poor one.",
        "acceptance_is_the_overlap",
        _two_tokens(_EVEN, _EVEN),
        "The guess should be kept with probability 1, and is with 0.5.",
    ),
    "every_guess_accepted": _story(
        "The flags of a block are turned into a count by a negation and a cumulative sum. Counted the "
        "wrong way round, every guess is in; huggingface/transformers PR 28508 put the rule for sampled "
        "guesses right. A draft is fluent, so the text is, and no acceptance rate was ever as good. A "
        "rate that is too good is a symptom.",
        "law_of_first_token law_of_outputs law_with_a_certain_draft law_with_filters "
        "law_at_another_temperature law_with_end_tokens acceptance_is_the_overlap "
        "no_token_of_probability_0 greedy_at_temperature_0",
        _two_tokens(_FIRST, _SECOND),
        "The first token should be 0 with probability 1, and is with 0.",
    ),
    "p_and_q_swapped": _story(
        "Which model is p depends on whom one reads: the target in Leviathan et al., the draft in "
        "jaymody/speculative-sampling 9. A line that is carried over from one to the other divides the "
        "wrong way round. Then a guess is kept for certain just where the draft puts more on it than the "
        "target does, which is where it should be doubted.",
        "law_of_first_token law_of_outputs law_with_a_certain_draft law_with_filters "
        "law_at_another_temperature law_with_end_tokens acceptance_is_the_overlap "
        "no_token_of_probability_0 greedy_at_temperature_0",
        _two_tokens(_FIRST, _SECOND),
        "The first token should be 0 with probability 1, and is with 0.",
    ),
    "resample_from_p": _story(
        "After a rejection the target has the word, so why not draw from p? "
        "eth-sri/language-model-arithmetic 14 asks just that. Because a guess that was kept has had its "
        "share of p already. In NJUNLP/MCSD 5 a reader believed to have found the fault, and the author "
        "answered that p had been overwritten by the residual, in place: a name that changes its meaning "
        "invites it.",
        "law_of_first_token law_of_outputs law_with_a_certain_draft law_with_filters "
        "law_at_another_temperature law_with_end_tokens",
        _two_tokens(_EVEN, _FIRST),
        "The first token should be 0 with probability 0.5, and is with 0.75.",
    ),
    "softmax_of_the_clipped_difference": _story(
        "Whatever becomes a distribution goes through a softmax, by habit. But the clipped difference is "
        "no row of logits. It is 0 where nothing may come out, and a softmax makes that nearly as likely "
        "as the rest. The review of huggingface/transformers PR 28508 names it; the paper divides by the "
        "sum (Leviathan et al. 2023, section 2.3).",
        "law_of_first_token law_of_outputs law_with_a_certain_draft law_with_filters "
        "law_at_another_temperature law_with_end_tokens no_token_of_probability_0 greedy_at_temperature_0",
        _two_tokens(_FIRST, _SECOND),
        "The first token should be 0 with probability 1, and is with 0.7311.",
    ),
    "residual_of_nothing": _story(
        "Where p equals q nothing is rejected, so nobody needs to ask whether anything is left to replace "
        "it from. On paper. With p in one precision and q in another, p may be a rounding below q "
        "everywhere; once in millions of tokens a guess is rejected, and 0 ÷ 0 is drawn from. "
        "jaymody/speculative-sampling 5 met it at a temperature near 0.",
        "equal_but_for_rounding",
        Case(
            _UNIFORM,
            _UNIFORM,
            2,
            1,
            says="p and q are uniform over 25 tokens, p in float32 and q in float64; every toss that can be lost is lost",
            vocabulary=25,
            dtypes=(torch.float32, torch.float64),
        ),
        "It raised ValueError: a draw was asked for, and the probabilities sum to nan.",
    ),
    "one_uniform_for_two": _story(
        "A generator that is keyed by seed and position gives the same number whenever it is asked at the "
        "same position, and both the toss and the draw behind it asked there (vllm-project/vllm-ascend PR "
        "16370). Whoever was rejected had a large number, so the replacement comes from the far end of "
        "the residual. The acceptance rate is right, and with two tokens nothing shows, since then there "
        "is only one to replace with.",
        "law_of_first_token law_of_outputs law_with_a_certain_draft law_with_filters "
        "law_at_another_temperature law_with_end_tokens",
        _two_tokens((0.5, 0.25, 0.25), (1.0, 0.0, 0.0)),
        "The first token should be 1 with probability 0.25, and is with 0.",
    ),
    "guess_and_toss_share_a_number": _story(
        "Draft and target were thought to need the same noise at the same position. That holds for a rule "
        "that compares two draws; for a toss about p ÷ q the guess must know nothing of the number. In "
        "vllm-project/vllm PR 47386 toss and replacement come from the counter that had chosen the guess, "
        "in vllm-project/vllm PR 54282 the replacement does. A draft that is sure of its guess hides it: "
        "its guess tells nothing about the number.",
        "law_of_first_token law_of_outputs law_with_filters law_at_another_temperature "
        "law_with_end_tokens acceptance_is_the_overlap",
        _two_tokens(_EVEN, _UNEVEN),
        "The first token should be 0 with probability 0.5, and is with 0.6667.",
    ),
    "bonus_from_the_residual": _story(
        "Every round ends with one token of the target's own, so one function draws it, from what p has "
        "more than q. But behind a full acceptance there is no q; the last one at hand belongs to the "
        "guess before. The row in this place is easily lost altogether: the review of "
        "openvinotoolkit/openvino.genai PR 379 misses it in an older sample, and vllm-project/vllm PR "
        "5765 had to switch it on again. The first token is right, so whole texts have to be compared.",
        "bonus_law law_of_outputs law_with_a_certain_draft law_with_filters law_at_another_temperature "
        "law_with_end_tokens",
        Case(
            _SURE_THEN_EVEN,
            _SURE_THEN_EVEN,
            2,
            1,
            says="p = q = [1, 0] in the first place, and [0.5, 0.5] in the second",
            vocabulary=2,
        ),
        "[0, 0] should come out with probability 0.5, and does with 0.",
    ),
    "argmax_draft_with_softmax_q": _story(
        "A draft that takes its argmax is right most often, so it was made to, in the belief that the "
        "target has the last word anyway. The rule gives it the last word over guesses that were drawn "
        "from q, and no others. huggingface/transformers 32867 reports it, huggingface/transformers PR "
        "33534 lets the draft draw again; jaymody/speculative-sampling 3 is the same in a program made to "
        "be read. With q = 1 for the guess it would be exact.",
        "law_of_first_token law_of_outputs law_with_filters law_at_another_temperature "
        "law_with_end_tokens bonus_law acceptance_is_the_overlap",
        _two_tokens(_EVEN, _EVEN),
        "The first token should be 0 with probability 0.5, and is with 1.",
    ),
    "unfiltered_q": _story(
        "The code that draws applies top-k and top-p, and what it hands on as q are the logits from "
        "before, which were at hand. A token that the filters keep is then likelier than its q says, and "
        "p ÷ q comes out too large. huggingface/transformers 47932 and huggingface/transformers PR 47961 "
        "found it in two generators of candidates, where a filter is on unless it is switched off.",
        "law_with_filters",
        _two_tokens(_EVEN, _UNEVEN, Sampling(top_p=0.6)),
        "[0, 0] should come out with probability 0.25, and does with 0.3333.",
    ),
    "q_at_another_temperature": _story(
        "The verifier was written and tested at temperature 1, where dividing by it changes nothing, and "
        "no temperature ever reached it: ohdearquant/lattice 388. Whatever else tells the q that draws "
        "from the q that judges does the same harm; in deepseek-ai/DeepSpec 31 it is half precision "
        "against float32.",
        "law_at_another_temperature",
        _two_tokens(_UNEVEN, _UNEVEN, Sampling(0.5)),
        "[0, 0] should come out with probability 0.81, and does with 0.864.",
    ),
    "unfiltered_p": _story(
        "Sampling settings go to whoever draws. The target's pass draws nothing, it only scores, so it "
        "was given the defaults (vllm-project/vllm PR 10198). Guesses obey the filters; corrections and "
        "bonus tokens come from all of p. The better the draft, the rarer they are.",
        "law_with_filters no_token_of_probability_0",
        _one_token(_UNEVEN, Sampling(top_k=1)),
        "[0] should come out with probability 1, and does with 0.75.",
    ),
    "nucleus_without_the_crossing_token": _story(
        "Sort, sum up, cut where the sum exceeds top_p: the token that makes it do so falls out too "
        "(fishaudio/fish-speech PR 1171). This edge was missed in other ways as well, with a token too "
        "many where the sum is met exactly (huggingface/transformers 18976), with none left where top_p "
        "is tiny (ml-explore/mlx-lm PR 1912). Target and draft are cut alike, so comparing speculative "
        "with plain sampling shows nothing.",
        "law_with_filters",
        _one_token(_EVEN, Sampling(top_p=0.6)),
        "[0] should come out with probability 0.5, and does with 1.",
    ),
    "divided_by_temperature_zero": _story(
        "Temperature 0 means greedy to whoever asks for it, and a division to whoever wrote the sampler "
        "(turboderp/exllama 226). In vllm-project/vllm PR 27077 the mark for greedy had been changed from "
        "-1 to 0 everywhere but in the rejection sampler, which therefore did not spare it the division.",
        "greedy_at_temperature_0",
        _one_token(_FIRST, Sampling(0.0)),
        "It raised ValueError: a draw was asked for, and no id has a positive probability.",
    ),
    "temperature_zero_taken_for_one": _story(
        "In Python 0.0 is false, so `temperature or 1.0` looks like a default and changes the meaning. Or "
        "greedy is done by taking the argmax of the draft, while p and q stay as they are without a "
        "temperature: jaymody/speculative-sampling 9 asks why a guess is kept then that is not the "
        "target's favourite. p and q are what remains when the temperature has been applied.",
        "greedy_at_temperature_0",
        _one_token(_UNEVEN, Sampling(0.0)),
        "[0] should come out with probability 1, and does with 0.75.",
    ),
}
