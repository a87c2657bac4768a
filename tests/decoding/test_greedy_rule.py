"""The greedy rule looks at what it chooses from: a row that is not finite is refused, by whichever way one decodes."""

from __future__ import annotations

import pytest
import torch

from specdec_lab import PromptLookupDrafter, autoregressive_decode, speculative_decode, speculative_sample
from specdec_lab.decoding.chance import NO_CHANCE
from specdec_lab.decoding.drafters import Proposal
from specdec_lab.decoding.greedy_rule import accept_greedy
from specdec_lab.decoding.loop import NotFinite
from specdec_lab.decoding.tree_decode import tree_decode
from specdec_lab.models.scripted import ScriptedModel

pytestmark = pytest.mark.scripted

NAN, INF = float("nan"), float("inf")
GOOD = [0.0, 1.0, 0.5]
BAD = {"nan": [0.0, NAN, 0.0], "inf": [0.0, INF, 0.0], "nothing": [-INF] * 3}
WAYS = {
    "plain": lambda target, draft: autoregressive_decode(target, [0, 1], 12, None),
    "a draft": lambda target, draft: speculative_decode(target, draft, [0, 1], 12, 4, None),
    "prompt lookup": lambda target, draft: speculative_decode(
        target, PromptLookupDrafter(), [0, 1], 12, 4, None
    ),
    "a tree": lambda target, draft: tree_decode(target, draft, [0, 1], 12, (2, 1), None),
    "temperature 0": lambda target, draft: speculative_sample(
        target, draft, [0, 1], 12, 4, None, temperature=0
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("place", [2, 3, 7, 9])
def test_a_bad_row_of_the_target_is_named(place, bad, way):
    target = ScriptedModel(lambda prefix: bad if len(prefix) == place else GOOD, 3)
    draft = ScriptedModel(lambda prefix: GOOD, 3)
    message = f"the target's logits for position {place} are not finite: no token can be chosen from them"
    with pytest.raises(ValueError, match=message):
        way(target, draft)


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_row_that_nothing_is_chosen_from_does_not_matter(bad):
    """Behind a refused draft, and behind an end token."""
    target = ScriptedModel(lambda prefix: bad if 0 in prefix[1:] else GOOD, 3)
    draft = ScriptedModel(lambda prefix: [1.0, 0.0, 0.0], 3)
    assert speculative_decode(target, draft, [0], 6, 3, None) == ([0] + [1] * 6, 0.0)
    target = ScriptedModel(lambda prefix: bad if 1 in prefix else GOOD, 3)
    draft = ScriptedModel(lambda prefix: GOOD, 3)
    assert speculative_decode(target, draft, [0], 6, 3, 1) == ([0, 1], 1.0)


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_draft_whose_rows_are_bad_only_guesses_badly(bad):
    target, draft = ScriptedModel(lambda prefix: GOOD, 3), ScriptedModel(lambda prefix: bad, 3)
    assert speculative_decode(target, draft, [0], 6, 3, None)[0] == [0] + [1] * 6


def test_words_that_are_struck_out_do_not_matter():
    """-inf for a word is how one is forbidden."""
    assert (
        autoregressive_decode(ScriptedModel(lambda prefix: [-INF, -INF, -3.0], 3), [0], 4, None)
        == [0] + [2] * 4
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_first_of_equal_logits_is_chosen_as_argmax_does(dtype):
    rows = torch.randint(0, 4, (200, 33), generator=torch.Generator().manual_seed(3)).to(dtype)
    found = [accept_greedy(Proposal(), row[None], NO_CHANCE).own for row in rows]
    assert found == rows.argmax(dim=-1).tolist()


def test_the_rule_alone_says_which_row():
    rows = torch.tensor([GOOD, GOOD, BAD["nan"], GOOD])
    with pytest.raises(NotFinite, match="row 2 of the target's logits is not finite") as caught:
        accept_greedy(Proposal((1, 1, 1)), rows, NO_CHANCE)
    assert caught.value.row == 2
    assert accept_greedy(Proposal((1, 1), ends=frozenset({1})), rows[:3], NO_CHANCE) == ((0, 1), None, None)
