"""The picture at the head of the README shows a run that can be run again, and its words are right."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

import pytest

from specdec_lab.files import ASSETS
from specdec_lab.show.front_picture import (
    DPI,
    GAMMA,
    NEW_TOKENS,
    PICTURE,
    SENTENCE,
    main,
    rounds_table,
    run_of_the_picture,
)
from specdec_lab.show.picture import to_png

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def run():
    return run_of_the_picture()


def test_the_stored_sentence_is_that_of_a_run_of_today(run):
    figure, sentence = rounds_table(*run)
    assert SENTENCE.read_text("utf-8") == sentence + "\n"
    assert sentence.startswith(f"{len(run[0].rounds)} rounds gave {NEW_TOKENS} tokens: ")
    from PIL import Image

    with Image.open(PICTURE) as stored, Image.open(BytesIO(to_png(figure, DPI))) as drawn:
        assert stored.size == drawn.size


def test_every_token_stands_inside_its_box(run):
    from matplotlib.patches import FancyBboxPatch

    figure, _ = rounds_table(*run)
    figure.draw_without_rendering()
    (ax,) = figure.axes
    boxes = [patch.get_window_extent() for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    texts = [text for text in ax.texts if "DejaVu Sans Mono" in text.get_fontfamily()]
    assert len(boxes) == len(texts) == sum(len(item.drafted) + 1 for item in run[0].rounds)
    for box, text in zip(boxes, texts, strict=True):
        words = text.get_window_extent()
        assert box.x0 < words.x0 and words.x1 < box.x1 and box.y0 < words.y0 and words.y1 < box.y1, text


def test_no_words_lie_over_one_another(run):
    figure, _ = rounds_table(*run)
    figure.draw_without_rendering()
    extents = [(text.get_text(), text.get_window_extent()) for text in figure.axes[0].texts]
    whole = figure.bbox
    for i, (words, one) in enumerate(extents):
        assert whole.x0 <= one.x0 and one.x1 <= whole.x1 and whole.y0 <= one.y0 and one.y1 <= whole.y1, words
        for others, two in extents[:i]:
            assert not one.overlaps(two), (words, others)


def test_it_is_a_fair_run(run):
    trace, _ = run
    assert {item.outcome for item in trace.rounds} == {"correction", "bonus"}
    assert all(len(item.drafted) == GAMMA for item in trace.rounds)
    assert 0.2 < trace.acceptance_rate < 0.5, "a lucky prompt would promise too much"


def test_a_run_without_rounds_is_refused(run):
    trace, decode = run
    with pytest.raises(ValueError, match="trace has no round"):
        rounds_table(replace(trace, rounds=()), decode)


def test_the_command_writes_picture_and_sentence(tmp_path, capsys):
    main(["--out", str(tmp_path / "new" / "one.png")])
    said = capsys.readouterr().out
    assert (tmp_path / "new" / "one.txt").read_text("utf-8") == said == SENTENCE.read_text("utf-8")
    assert (tmp_path / "new" / "one.png").read_bytes().startswith(b"\x89PNG")


def test_the_readme_shows_it():
    root = ASSETS.parents[1]
    readme = (root / "README.md").read_text("utf-8")
    assert f"![{SENTENCE.read_text('utf-8').strip()}]({PICTURE.relative_to(root).as_posix()})" in readme
