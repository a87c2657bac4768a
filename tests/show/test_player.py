"""The player: what its frames claim about the caches is held against what the models were really fed."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from specdec_lab.decoding.entry import speculative_rounds
from specdec_lab.decoding.lookup import PromptLookupDrafter
from specdec_lab.decoding.rounds import Round, Trace
from specdec_lab.models.scripted import ScriptedModel, last_token, wrong_when
from specdec_lab.show.cells import CUT, HELD, STALE, UNFED, count, held
from specdec_lab.show.frame_html import LOOKS
from specdec_lab.show.frame_words import token_writer
from specdec_lab.show.player import frames, play
from specdec_lab.show.readable import readable
from specdec_lab.show.terminal import style_for
from tests.helpers import PlainModel, crc_rule, erring

WIDTH = 40


def name(ids):
    return " " + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[ids[0]]


def run(target, drafter, prompt, budget, gamma, ends=None):
    rounds = speculative_rounds(
        target, drafter, prompt, max_new_tokens=budget, gamma=gamma, eos_token_id=ends
    )
    return Trace.of(prompt, rounds)


def counting(wrong=lambda position: False, *, prompt=(1, 2), budget=20, gamma=4, ends=None):
    """A target that counts up, a draft that errs at the positions that `wrong` names."""
    rule = last_token(1, WIDTH)
    draft = ScriptedModel(wrong_when(rule, WIDTH, wrong), WIDTH)
    return run(ScriptedModel(rule, WIDTH), draft, list(prompt), budget, gamma, ends)


def random_run(seed):
    """A trace, and the logs of two models that do nothing but note what they are fed."""
    dice = random.Random(seed)
    rule = crc_rule(WIDTH, seed)
    wrong = dice.choice([0.0, 0.2, 0.5, 1.0])
    slips = {position for position in range(200) if dice.random() < wrong}
    target = PlainModel(rule, WIDTH)
    draft = PlainModel(erring(rule, WIDTH, slips.__contains__), WIDTH)
    gamma = dice.choice([1, 2, 4, 16, lambda rounds: len(rounds) % 4])
    prompt = [dice.randrange(WIDTH) for _ in range(dice.randint(1, 30))]
    ends = dice.choice([None, [3, 7, 11]])
    return run(target, draft, prompt, dice.randint(1, 40), gamma, ends), target, draft


# ---------------------------------------------------------------- frames


@pytest.mark.parametrize("seed", range(30))
def test_frames_tell_what_the_models_were_fed(seed):
    trace, target, draft = random_run(seed)
    logs = {"target": iter(target.log), "draft": iter(draft.log)}
    for frame in frames(trace):
        model = logs["draft" if frame.phase == "draft" else "target"]
        for start, stop in frame.passes:
            assert next(model) == ("forward", start, list(frame.text[start:stop]))
        if frame.phase == "roll back":
            for who, cache in (("target", frame.target_cache), ("draft", frame.draft_cache)):
                cut = count(cache, CUT)
                assert not cut or next(logs[who]) == ("cut", held(cache) + cut, held(cache))
    assert [*logs["target"], *logs["draft"]] == [], "a pass or a cut that no frame shows"


@pytest.mark.parametrize("seed", range(30))
def test_frames_agree_with_the_record(seed):
    trace, _, _ = random_run(seed)
    shown = frames(trace)
    assert [frame.phase for frame in shown[1:]] == ["draft", "verify", "commit", "roll back"] * len(
        trace.rounds
    )
    for before, frame in pairwise(shown):
        item = trace.rounds[frame.round - 1]
        for cache, earlier in (
            (frame.target_cache, before.target_cache),
            (frame.draft_cache, before.draft_cache),
        ):
            edges = [position for span in cache for position in (span.start, span.stop)]
            assert edges[0] == 0 and edges[1:-1:2] == edges[2::2], "spans lie side by side"
            assert edges[-1] >= len(frame.sequence)
            new = sum(len(span) for span in cache if span.fresh)
            assert held(cache) == held(earlier) + new - count(cache, CUT)
            assert all(span.state in HELD for span in cache if span.fresh)
        assert (frame.so_far, frame.last) == (
            Trace(trace.prompt, trace.rounds[: frame.round - (frame.phase in ("draft", "verify"))]),
            frame is shown[-1],
        )
        if frame.phase == "roll back":
            assert held(frame.target_cache) == item.target_cache_after == len(frame.sequence) - 1
            assert held(frame.draft_cache) == item.draft_cache_after
            assert not count(frame.target_cache, STALE, "speculative")
            kept = held(frame.target_cache)
            assert frame.text[:kept] == frame.sequence[:kept], "a cache that kept a refused token"
    assert list(shown[-1].sequence) == trace.sequence


def test_an_empty_run_and_a_tree():
    (only,) = frames(Trace((1, 2, 3), ()))
    assert (only.phase, held(only.target_cache), only.draft_cache, only.last) == ("start", 0, None, True)
    tree = Round((5, 6), (-1, -1), (0,), (5, 9), "correction", 0, 2, None, None, 0.0, 0.0)
    with pytest.raises(ValueError, match="round 1 drafted a tree"):
        frames(Trace((1,), (tree,)))


def test_a_cache_can_lag_far_behind():
    """Rounds without drafting leave the draft's cache as it is; every token that it missed is shown as not fed."""
    trace = counting(gamma=lambda rounds: 0, budget=6)
    final = frames(trace)[-1]
    assert count(final.draft_cache, UNFED) == 8 and count(final.target_cache, UNFED) == 1


def test_a_draft_that_read_but_drafted_nothing_usable():
    """Then the record has no drafted token to tell how far the draft's cache grew, only its length afterwards."""
    item = Round((), (), (), (9,), "plain", 3, 4, 2, 4, 0.0, 0.0)
    shown = frames(Trace((1, 2, 3, 4), (item,)))
    assert [held(frame.draft_cache) for frame in shown] == [2, 4, 4, 4, 4]
    assert "nothing is drafted; the draft's cache grows from 2 to 4." in told(Trace((1, 2, 3, 4), (item,)))[1]


# ---------------------------------------------------------------- sentences


def told(trace, **more):
    return str(play(trace, name, **more)).split("\n")


def test_a_rejection_in_the_middle():
    lines = told(counting(lambda position: position == 4, budget=7))
    assert lines[:5] == [
        "Start: the prompt has 2 tokens, and both caches are empty.",
        "Round 1, draft: the draft reads ‘␣b’ and ‘␣c’ and guesses 4 tokens in 4 passes, ‘␣d’, ‘␣e’, ‘␣g’ and ‘␣h’; "
        "its cache grows from 0 to 5: the last guess is not fed to it.",
        "Round 1, verify: in one pass over 6 tokens the target reads ‘␣b’, ‘␣c’ and the 4 guesses: 2 of 4 accepted; "
        "the third guess, ‘␣g’, is corrected to ‘␣f’; 1 never judged.",
        "Round 1, commit: 3 tokens join the sequence (2 accepted and the correction ‘␣f’), which now has 5; stale "
        "entries: 2 in the target's cache and 1 in the draft's.",
        "Round 1, roll back: the target's cache is cut from 6 to 4 and the draft's from 5 to 4; the target's is one "
        "short of the sequence, which has 5: ‘␣f’ is chosen but not fed yet.",
    ]


@pytest.mark.parametrize(
    ("trace", "line", "expected"),
    [
        (counting(lambda position: True), 2, "0 of 4 accepted; the first guess, ‘␣e’, is corrected to ‘␣d’; 3 never"),
        (counting(), 2, "4 of 4 accepted; its next choice, ‘␣h’, comes as a bonus."),
        (counting(), 3, "(4 accepted and the bonus ‘␣h’), which now has 7; no cache holds anything stale."),
        (counting(), 4, "the target's cache stays at 6 and the draft's at 5;"),
        (counting(), 5, "the draft reads ‘␣g’ and ‘␣h’ and guesses 4 tokens in 4 passes"),
        (counting(ends=5), 2, "3 of 3 accepted; the last of them is an end token, so nothing follows."),
        (counting(ends=5), 4, "the target's cache is cut from 5 to 4 and the draft's stays at 4;"),
        (counting(ends=5), 4, "has 5: so it is after every round, although ‘␣f’ had been read. The run ends: 3 new"),
        (counting(budget=1), 1, "Round 1, draft: nothing is drafted."),
        (counting(budget=1), 2, "in one pass over 2 tokens the target reads ‘␣b’ and ‘␣c’ and chooses ‘␣d’."),
        (counting(budget=1), 4, "‘␣d’ is the last one and never fed. The run ends: 1 new token in 1 round, tokens per"),
        (counting(budget=2), 1, "guesses 1 token in 1 pass, ‘␣d’; its cache grows from 0 to 2: the guess is not fed"),
        (counting(budget=7, prompt=range(9)), 5, "the draft reads ‘␣m’ and ‘␣n’ and guesses 1 token in 1 pass"),
        (counting(prompt=range(9)), 1, "the draft reads the 9 tokens of the prompt and guesses"),
        (counting(gamma=lambda rounds: 4 * (len(rounds) > 4)), 21, "reads the 7 pending tokens and guesses 4"),
    ],
)  # fmt: skip
def test_every_outcome_in_words(trace, line, expected):
    assert expected in told(trace)[line]


def test_a_drafter_without_a_cache():
    prompt = [1, 2, 3, 9, 9, 1, 2]
    trace = run(ScriptedModel(last_token(1, WIDTH), WIDTH), PromptLookupDrafter(), prompt, 6, 4)
    player = play(trace, name)
    lines = str(player).split("\n")
    assert lines[0].endswith("and the target's cache is empty.")
    assert "the drafter, which has no cache, guesses 4 tokens, ‘␣d’, ‘␣j’" in lines[1]
    assert lines[3].endswith("stale entries: 3 in the target's cache.")
    assert "Round 1, roll back: the target's cache is cut from 11 to 8; the target's" in lines[4]
    assert all(frame.draft_cache is None for frame in player.frames)
    assert "no cache" in player._repr_html_()


@pytest.mark.parametrize("seed", range(8))
def test_the_last_sentence_has_the_counts_of_the_trace(seed):
    trace, _, _ = random_run(seed)
    lines, counts = told(trace), trace.summary()
    numbers = re.findall(r"(\d+) ÷ (\d+) = (\d+\.\d\d)", lines[-1])
    expected = [(counts["new_tokens"], counts["rounds"], counts["tokens_per_round"])]
    if counts["drafted"]:
        judged = counts["accepted"] + counts["rejected"]
        expected.insert(0, (counts["accepted"], judged, counts["alpha"]))
        expected.insert(0, (counts["accepted"], counts["drafted"], counts["acceptance_rate"]))
    assert numbers == [(str(part), str(whole), f"{value:.2f}") for part, whole, value in expected]
    accepted = [int(found) for found in re.findall(r": (\d+) of \d+ accepted", "\n".join(lines))]
    assert sum(accepted) == trace.accepted
    joined = [int(found) for found in re.findall(r"(\d+) tokens? joins? the sequence", "\n".join(lines))]
    assert sum(joined) == len(trace.new_tokens)


def test_a_part_of_a_run_keeps_the_numbers_of_the_whole():
    trace = counting(lambda position: position % 3 == 0, budget=30)
    assert told(trace, first_round=3, rounds=2) == told(trace)[9:17]
    assert told(trace, rounds=1) == told(trace)[:5]
    for wrong in ({"first_round": 0}, {"first_round": 99}, {"rounds": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            play(trace, name, **wrong)


# ---------------------------------------------------------------- the page


class Balance(HTMLParser):
    """Fails on an element that is not closed, or closed in the wrong order; keeps the texts."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.texts, self.items = [], [], 0
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag not in ("br", "meta", "input"):
            self.open.append(tag)
        self.items += tag == "li"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.texts.append(data)


def parts(player):
    """The page, its data, and the rows of each step as the script puts them together."""
    page = player._repr_html_()
    data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page, re.S).group(1))
    steps = [[data["rows"][number] for number in step[3]] for step in data["frames"]]
    return page, data, steps


TRACES = {
    "mixed": counting(lambda position: position % 3 == 0, budget=30),
    "short": counting(budget=1),
    "wide": counting(lambda position: position % 5 == 0, gamma=16, budget=60),
    "end": counting(prompt=range(9), ends=20),
    "empty": Trace((1, 2, 3), ()),
}


@pytest.mark.parametrize("kind", TRACES)
def test_the_page_is_well_formed_and_complete(kind):
    player = play(TRACES[kind], name, title="Counting")
    page, data, steps = parts(player)
    balance = Balance(page)
    assert balance.items == len(player.frames) == len(data["frames"])
    assert all(sentence in balance.texts for sentence in player.sentences)
    assert {step[1] for step in data["frames"]} <= {"start", *data["phases"]}
    assert all(str(step[2]) in data["sums"] for step in data["frames"])
    for rows in steps:
        assert len(rows) == 8
        widths = set()
        for row in rows:
            spans = re.findall(r"<td(?: class=\w+)?(?: colspan=(\d+))?", row)
            widths.add(sum(int(span or 1) for span in spans))
        assert len(widths - {1}) == 1, "every row of a picture has the same number of columns"


def test_cells_stand_under_their_tokens():
    """In the round that rejects its third guess, read column by column as a student would."""
    _, _, steps = parts(play(counting(lambda position: position == 4, budget=7), name))

    def cells(row):
        # behind the length and the column of earlier tokens
        found = re.findall(r"<td[^>]*>((?:(?!<td).)*)", row)[2:]
        return [re.sub("<.*?>", "", unescape(text)) for text in found]

    sequence, guesses, answers, _, target, _, draft = map(cells, steps[1][1:])
    assert (sequence[:3], guesses[:6]) == (["␣b", "␣c", ""], ["", "", "?␣d", "?␣e", "?␣g", "?␣h"])
    assert (answers[:3], target[:3]) == ([""] * 3, ["□␣b", "□␣c", ""])
    assert draft[:6] == ["■␣b", "■␣c", "▨␣d", "▨␣e", "▨␣g", ""]
    _, guesses, answers, _, target, _, draft = map(cells, steps[2][1:])
    assert guesses[2:6] == ["✓␣d", "✓␣e", "✗␣g", "◦␣h"] and answers[2:6] == ["✓␣d", "✓␣e", "→␣f", ""]
    assert target[:6] == ["■␣b", "■␣c", "▨␣d", "▨␣e", "▨␣g", "▨␣h"]
    sequence, _, _, _, target, _, draft = map(cells, steps[3][1:])
    assert sequence[2:6] == ["✓␣d", "✓␣e", "→␣f", ""] and target[2:6] == ["■␣d", "■␣e", "!␣g", "!␣h"]
    _, _, _, _, target, _, draft = map(cells, steps[4][1:])
    assert target[2:6] == ["■␣d", "■␣e", "✂␣g", "✂␣h"] and draft[2:6] == ["■␣d", "■␣e", "✂␣g", ""]
    assert cells(steps[5][5])[-6:][0] == "□␣f", "the correction is pending until the next pass"


def test_nothing_that_a_token_says_becomes_markup():
    nasty = ["</script>", "<!--", "<b>&", "\"'", "\u2028", "", "\ufffd", "a very long token"]
    trace = counting(lambda position: position % 3 == 0, budget=30)
    player = play(trace, lambda ids: nasty[ids[0] % len(nasty)], title="<i>&</i>")
    page, _, steps = parts(player)
    balance = Balance(page)
    assert "<i>&</i>" in balance.texts and page.count("</script>") == 2 and "<!--" not in page
    assert any("&lt;b&gt;&amp;" in row for row in steps[1]) and "‘⟨#5⟩’" in str(player)
    assert "\\u2028" in str(player) and "\u2028" not in page, "nothing invisible, and no line broken"
    assert any("a␣very␣l…" in row for rows in steps for row in rows), "long tokens are shortened in cells"


def test_a_token_reads_as_in_the_strip():
    texts = ["", "\ufffd", "\u202e", "\x07", " a\n", "\t", "e\ufffd", "\u0301", "\u00a0"]
    write = token_writer(lambda ids: texts[ids[0]])
    assert [write(token) for token in range(len(texts))] == [
        readable(text, token) for token, text in enumerate(texts)
    ]
    assert write(0) == "⟨#0⟩" and write(4) == "␣a↵"


def test_stored_outputs_do_not_change():
    trace = TRACES["mixed"]
    slower = Trace(
        trace.prompt, tuple(dataclasses.replace(item, seconds_drafting=9.0) for item in trace.rounds)
    )
    page = play(trace, name)._repr_html_()
    assert page == play(slower, name)._repr_html_(), "timings must not show"
    assert not re.search(r"\bid=|https?:|src=|@import|url\(", page), "nothing shared, nothing fetched"


def test_the_strip_stands_without_styles_and_scripts():
    page = play(TRACES["mixed"], name)._repr_html_()
    bare = re.sub(r"<(style|script).*?</\1>", "", page, flags=re.S)
    strip = bare[bare.index("specdec-strip") : bare.index('<div class="specdec-stage')]
    assert " class=" not in strip and strip.count("<table") == 3
    text = re.sub("<.*?>", " ", strip)
    for phase in ("draft:", "verify:", "roll back:"):
        assert phase in text
    for mark in "?✓✗◦→■▨✂□":
        assert mark in text
    assert "<button" not in bare and "<input" not in bare, "no dead controls where scripts do not run"


def test_marks_are_those_of_the_terminal_and_no_two_states_share_one():
    terminal = style_for("utf-8", colour=False).marks
    assert all(LOOKS[kind].mark == mark for kind, mark in terminal.items())
    marks = [look.mark for look in LOOKS.values() if look.mark]
    assert len(marks) == len(set(marks)) == 12
    looks = [look.css for look in LOOKS.values() if look.words]
    assert len(set(looks)) >= len(looks) - 2, (
        "guesses are hatched in the cache as in the draft; dotted grey is twice"
    )


def test_type_and_size():
    player = play(counting(lambda position: position % 5 == 0, prompt=range(35), budget=96), name)
    page = player._repr_html_()
    assert min(map(int, re.findall(r"font-size:(\d+)px", page))) >= 14
    assert len(page.encode()) < 250_000
    assert len(play(TRACES["mixed"], name, rounds=2)._repr_html_()) < 80_000


def test_a_page_of_its_own(tmp_path):
    player = play(TRACES["short"], name, title="One & only")
    player.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    Balance(page)
    assert player._repr_html_() in page and "<title>One &amp; only</title>" in page
    assert (
        page.startswith("<!doctype html>") and 'charset="utf-8"' in page and "color-scheme:light dark" in page
    )
    assert len(repr(player)) < 80
