"""The command line: the demo tells the truth, the doctor speaks in words, mistakes end in a sentence."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from specdec_lab import load_pair
from specdec_lab.__main__ import main
from specdec_lab.measure import environment
from specdec_lab.show.front_picture import PROMPT

ROOT = Path(__file__).resolve().parents[1]


def figures(output: str) -> dict[str, str]:
    return dict(
        re.findall(r"^(rounds|acceptance rate|alpha|tokens per round|speed-up) +([\d.]+)", output, re.M)
    )


def test_demo_shows_both_texts_and_consistent_figures(capsys):
    assert main(["--max-new-tokens", "24", "--runs", "2"]) == 0
    output = capsys.readouterr().out
    for line in load_pair("tiny").prompts[PROMPT].splitlines():
        assert f"  | {line}\n" in output, "the prompt of the README's picture"
    plain, fast = re.findall(r"^(?:Plain|Speculative) decoding.*\n((?:  \|.*\n)+)", output, re.M)
    assert plain == fast and "identical, token for token" in output

    strip = [line for line in output.split("\n") if re.match(r" *\d+  \S", line)]
    read = figures(output)
    emitted = sum(len(re.findall("[✓→+·]", line)) for line in strip)
    accepted, drafted = (
        sum(line.count("✓") for line in strip),
        sum(len(re.findall("[✓✗◦]", line)) for line in strip),
    )
    assert len(strip) == int(read["rounds"]) and emitted == 24
    assert float(read["acceptance rate"]) == pytest.approx(accepted / drafted, abs=6e-4)
    assert float(read["tokens per round"]) == pytest.approx(24 / len(strip), abs=6e-3)
    assert float(read["speed-up"]) > 0
    assert re.search(r"2 interleaved runs, [\d.]+ to [\d.]+", output)


def test_demo_takes_a_prompt_of_ones_own_and_the_weak_pair(capsys):
    arguments = [
        "demo",
        "--pair",
        "tiny-weak",
        "--prompt",
        "ROMEO:\n",
        "--gamma",
        "2",
        "--max-new-tokens",
        "8",
    ]
    assert main([*arguments, "--runs", "1"]) == 0
    output = capsys.readouterr().out
    assert "ROMEO:" in output and "γ = 2" in output and "tiny-weak" in output


def test_demo_samples_with_a_seed(capsys):
    arguments = ["--temperature", "0.8", "--top-p", "0.9", "--max-new-tokens", "12"]
    outputs = []
    for seed in ("3", "3", "4"):
        assert main([*arguments, "--seed", seed]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]
    assert "their law does not" in outputs[0] and "identical" not in outputs[0]
    read = dict(re.findall(r"^(alpha|expected alpha) +([\d.]+)", outputs[0], re.M))
    assert 0 <= float(read["alpha"]) <= 1 and 0 < float(read["expected alpha"]) <= 1
    assert "speed-up" not in outputs[0], "nothing was timed"


def test_certify_finds_float32_equal_and_says_so(capsys):
    assert main(["certify", "--max-prompts", "2", "--max-new-tokens", "12", "--gamma", "3"]) == 0
    output = capsys.readouterr().out
    assert "tiny, 2 prompts in float32, gamma 3, up to 12 new tokens: 2 equal" in output


def test_certify_returns_1_for_a_fault(capsys, monkeypatch):
    from specdec_lab.decoding import entry
    from specdec_lab.decoding.loop import Verdict

    def accepts_everything(proposal, logits, chance):
        return Verdict(range(len(proposal.tokens)), int(logits[-1].argmax()))

    monkeypatch.setattr(entry, "accept_greedy", accepts_everything)
    assert main(["certify", "--max-prompts", "2", "--max-new-tokens", "12"]) == 1
    assert re.search(r"[12] by faults\n.*this is a fault", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--top-p", "0.5"], "need a --temperature above 0"),
        (["--temperature", "-1"], "temperature must be a finite number of 0 or more, got -1.0"),
        (["--temperature", "1", "--top-p", "2"], "top_p must be between 0 and 1, got 2.0"),
        (["--temperature", "1", "--top-k", "-1"], "top_k must be at least 0, got -1"),
        (["certify", "--gamma", "0"], "gamma must be at least 1, got 0"),
        (["certify", "--max-prompts", "0"], "--max-prompts must be at least 1, got 0"),
        (["certify", "--threads", "0"], "--threads must be at least 1, got 0"),
        (["--gamma", "0"], "gamma must be at least 1, got 0"),
        (["--max-new-tokens", "0"], "max_new_tokens must be at least 1, got 0"),
        (["--max-new-tokens", "5000"], "4096"),
        (["--pair", "huge"], "tiny, tiny-weak"),
        (["--prompt", ""], "at least one character"),
        (["--runs", "0"], "num_runs must be at least 1, got 0"),
    ],
)
def test_mistakes_end_in_a_sentence_and_exit_code_2(capsys, arguments, message):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and message in captured.err
    assert "Traceback" not in captured.err


def test_unknown_commands_and_options_exit_with_2():
    for arguments in (["--nonsense"], ["demo", "--gamma", "four"]):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2


def test_a_fresh_process_in_a_plain_terminal(tmp_path):
    """From another folder, without colour, in a C locale: ASCII marks, no traceback, nothing on stderr."""
    variables = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-m", "specdec_lab", "--max-new-tokens", "12", "--runs", "1"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and done.stdout.isascii() and "identical, token for token" in done.stdout


def test_doctor_is_content_here(capsys):
    assert main(["doctor"]) == 0
    output = capsys.readouterr().out
    assert "bundled weights" in output and "WRONG" not in output


def test_doctor_names_what_is_missing_and_what_to_do(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "ASSETS", tmp_path)
    real = environment.importlib.import_module

    def without_torch(name):
        if name == "torch":
            raise ImportError("libtorch.so is not there")
        return real(name)

    monkeypatch.setattr(environment.importlib, "import_module", without_torch)
    assert main(["doctor"]) == 1
    output = capsys.readouterr().out
    assert "torch cannot be imported (ImportError: libtorch.so is not there)" in output
    assert "The weights in tiny are missing. Install the package again" in output


def test_doctor_finds_a_damaged_weight_file(monkeypatch, tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "card.json").write_text('{"sha256": {"a.bin": "00"}}', encoding="utf-8")
    monkeypatch.setattr(environment, "ASSETS", tmp_path)
    assert "a.bin is missing in tiny" in environment._assets().sentence
    (folder / "a.bin").write_bytes(b"damaged")
    finding = environment._assets()
    assert finding.level == environment.WRONG and "sha256 differs" in finding.sentence


def test_a_text_cannot_steer_the_terminal(capsys):
    assert main(["demo", "--prompt", "To\x1b[2J be\n", "--max-new-tokens", "4", "--runs", "1"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed and "  | To␛[2J be\n" in printed


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a closed pipe is another error")
def test_a_reader_who_goes_away_gets_no_traceback():
    """As in `python -m specdec_lab doctor | head -1`, or when a pager is left early."""
    command = [sys.executable, "-m", "specdec_lab", "doctor"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as child:
        child.stdout.close()
        said = child.stderr.read().decode()
        assert child.wait(120) == 141 and said == ""
