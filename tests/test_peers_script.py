"""benchmarks/peers.py draws the same cases every time and reports contenders that are wrong, silent or dead as such.

No peer is installed here and nothing is fetched: children are small scripts that decode by counting upwards.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from specdec_lab import autoregressive_decode, load_pair

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
TEXTS = [list(range(100 * text, 100 * text + 10 + 7 * text)) for text in range(6)]

# {body} sees `case` and `tokens` (the right ones) and may change the tokens; {head} runs before anything is said.
CHILD = """
import json, sys, time
{head}
print(json.dumps({{"ready": True, "versions": {{"torch": "1", "transformers": "2"}}}}), flush=True)
for line in sys.stdin:
    case = json.loads(line)
    tokens = [case["prompt"][-1] + 1 + i for i in range(case["new_tokens"])]
    {body}
    print(json.dumps({{"tokens": tokens, "seconds": 0.5}}), flush=True)
"""


@pytest.fixture(scope="module")
def peers():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("peers")
        for name in [name for name in sys.modules if name.split(".")[0].startswith("peers")]:
            del sys.modules[name]


@pytest.fixture
def child(peers, tmp_path):
    """Start a child of the given body; all are closed at the end."""
    started = []

    def start(body: str = "pass", head: str = "", patience: float = 60.0):
        script = tmp_path / f"child{len(started)}.py"
        script.write_text(CHILD.format(body=body, head=head), encoding="utf-8")
        started.append(peers.Child([sys.executable, str(script)], patience))
        return started[-1]

    yield start
    for one in started:
        one.close()


def compare(peers, children: dict, cases, runs: int = 1) -> dict:
    answers = peers.take_turns(children, cases, warmup=0, runs=runs)
    return {name: peers.judge(answers[name], answers["reference"]) for name in children}


def test_arguments_have_the_documented_defaults_and_refuse_no_work(peers, capsys):
    options = peers.arguments([])
    assert (options.cases, options.runs, options.pair, options.environments) == (50, 3, "tiny", None)
    assert peers.arguments(["--environments", "here", "--only", "a", "b"]).only == ["a", "b"]
    for wrong in (["--runs", "0"], ["--cases", "0"], ["--pair", "huge"]):
        with pytest.raises(SystemExit):
            peers.arguments(wrong)
        assert wrong[0] in capsys.readouterr().err


def test_the_cases_are_fifty_the_same_every_time_and_within_bounds(peers):
    cases = peers.draw_cases(TEXTS)
    assert len(cases) == 50 and cases == peers.draw_cases(TEXTS)
    assert cases != peers.draw_cases(TEXTS, seed=1)
    assert {case.gamma for case in cases} == set(range(1, 7))
    assert all(1 <= len(case.prompt) <= 64 and 8 <= case.new_tokens <= 64 for case in cases)
    assert len({len(case.prompt) for case in cases}) > 20
    joined = [token for text in TEXTS + TEXTS for token in text]
    starts = {text[0]: joined.index(text[0]) for text in TEXTS}
    for case in cases:  # each begins where a text does and runs on
        at = starts[case.prompt[0]]
        assert list(case.prompt) == joined[at : at + len(case.prompt)]


def test_every_adapter_that_is_named_is_there(peers):
    for contender in peers.CONTENDERS:
        assert (peers.ADAPTERS / f"{contender.adapter}_adapter.py").is_file(), contender.name
        assert contender.requirement is None or "==" in contender.requirement


def test_wrong_answers_are_counted_by_kind(peers, child):
    cases = peers.draw_cases(TEXTS, 6)
    rows = compare(
        peers,
        {
            "reference": child(),
            "right": child(),
            "wrong": child("tokens[-1] += case['gamma'] % 2"),
            "longer": child("tokens += [9]"),
            "shorter": child("tokens = tokens[:-1] if case['gamma'] > 3 else tokens"),
        },
        cases,
    )
    odd, large = sum(c.gamma % 2 for c in cases), sum(c.gamma > 3 for c in cases)
    assert 0 < odd < 6 and 0 < large < 6
    assert rows["right"] == peers.Row(6, {}, 6, (1.0,))
    assert rows["wrong"] == peers.Row(6 - odd, {"wrong token": odd}, 6, (1.0,))
    assert rows["longer"] == peers.Row(0, {"too many": 6}, 0, ())
    assert rows["shorter"] == peers.Row(6 - large, {"too few": large}, 6 - large, (1.0,))
    text = peers.line("longer", rows["longer"], 6)
    assert "0/6" in text and "too many 6" in text and "1.0" not in text


def test_one_wrong_run_of_several_makes_a_case_inexact(peers, child):
    wobble = "seen = globals().setdefault('seen', []); seen.append(1); tokens[0] += len(seen) == 4"
    rows = compare(peers, {"reference": child(), "wobbly": child(wobble)}, peers.draw_cases(TEXTS, 3), runs=2)
    assert rows["wobbly"].exact == 2 and rows["wobbly"].faults == {"wrong token": 1}


def test_speed_compares_only_cases_of_the_right_length(peers):
    def answer(count, seconds):
        return peers.Answer(tuple(range(count)), seconds)

    reference = [[answer(4, 8.0), answer(6, 100.0)], [answer(4, 9.0), answer(6, 100.0)]]
    runs = [[answer(4, 2.0), answer(5, 0.1)], [answer(4, 3.0), answer(5, 0.1)]]
    row = peers.judge(runs, reference)
    assert row == peers.Row(1, {"too few": 1}, 1, (4.0, 3.0))
    assert "3.50 (3.00 to 4.00)" in peers.line("some", row, 2)


def test_a_child_that_dies_is_reported_with_its_last_words(peers, child):
    dying = child("sys.exit('needs CUDA') if case['gamma'] > 3 else None")
    cases = [peers.Case((1,), 8, gamma) for gamma in (1, 6, 2)]
    rows = compare(peers, {"reference": child(), "dying": dying}, cases)
    assert rows["dying"].exact == 1 and rows["dying"].faults == {"exception": 2}
    assert "needs CUDA" in rows["dying"].error
    assert "1/3" in peers.line("dying", rows["dying"], 3) and "needs CUDA" in peers.line(
        "dying", rows["dying"], 3
    )


def test_a_child_that_is_silent_or_babbles_is_given_up(peers, child):
    silent = child("time.sleep(60)", patience=10.0)
    silent._patience = 0.2  # enough to start, not to wait
    babbling = child("print('hello')")
    case = peers.Case((1,), 8, 2)
    assert "no answer within" in silent.ask(case).error and silent.dead
    assert "hello" in babbling.ask(case).error and babbling.ask(case).error == babbling.dead


def test_a_child_that_does_not_start_has_a_reason(peers, child):
    assert "no_such_peer" in child(head="import no_such_peer").refusal
    assert "no_such_peer" in peers.line("some", None, 50, [child(head="import no_such_peer").refusal])


def test_an_adapter_answers_between_whatever_the_peer_prints_and_raises(peers, tmp_path):
    script = tmp_path / "noisy_adapter.py"
    script.write_text(
        "from answering import answer\n"
        "def prepare(target, draft, mode):\n"
        "    print('loading', mode)\n"
        "    def ready(prompt, new_tokens, gamma):\n"
        "        def call():\n"
        "            print('drafting')\n"
        "            return [prompt[0] // (gamma - 1)] * new_tokens\n"
        "        return call\n"
        "    return ready\n"
        "answer(prepare)\n",
        encoding="utf-8",
    )
    surroundings = dict(os.environ, PYTHONPATH=str(peers.ADAPTERS))
    noisy = peers.Child([sys.executable, str(script), "a", "b", "c"], 60.0, surroundings)
    try:
        assert noisy.refusal == "" and set(noisy.versions) == {"torch", "transformers"}
        good, bad = noisy.ask(peers.Case((6,), 8, 3)), noisy.ask(peers.Case((6,), 8, 1))
        assert good.tokens == (3,) * 8 and good.seconds > 0
        assert "ZeroDivisionError" in bad.error and not noisy.dead
        assert noisy.ask(peers.Case((6,), 8, 3)).tokens == good.tokens
    finally:
        noisy.close()


@pytest.mark.parametrize("planned, bare", [(["Pydantic"], False), (["Torch", "somepeer"], True)])
def test_a_peer_that_would_replace_torch_is_installed_alone(peers, tmp_path, monkeypatch, planned, bare):
    asking, commands = sys.modules["peers_adapters.asking"], []

    def run(command, what):
        commands.append(command)
        if "venv" in command:
            Path(
                asking.sysconfig.get_path("purelib", "venv", dict.fromkeys(("base", "platbase"), command[-1]))
            ).mkdir(parents=True)
        if "--report" in command:
            items = [{"metadata": {"name": name}} for name in planned]
            Path(command[command.index("--report") + 1]).write_text(json.dumps({"install": items}), "utf-8")

    monkeypatch.setattr(asking, "_run", run)
    python, remark = peers.environment(tmp_path, "somepeer==1.2")
    assert tmp_path in python.parents and commands[-1][-1] == "somepeer==1.2"
    assert ("--no-deps" in commands[-1]) == bare == ("torch" in remark)
    made = len(commands)
    assert peers.environment(tmp_path, "somepeer==1.2") == (python, remark)
    assert len(commands) == made  # kept for the next time


def test_a_peer_that_cannot_be_installed_has_a_reason(peers):
    command = [sys.executable, "-c", "raise SystemExit('ERROR: no such version')"]
    with pytest.raises(peers.NotRunning, match="pip: ERROR: no such version"):
        sys.modules["peers_adapters.asking"]._run(command, "pip")


def test_a_missing_peer_stays_in_the_table_with_its_reason(peers, tmp_path, monkeypatch):
    def no_network(place, pin):
        raise peers.NotRunning(f"not installed: pip: no {pin}")

    monkeypatch.setattr(peers, "environment", no_network)
    absent = [contender for contender in peers.CONTENDERS if contender.adapter == "flashspec"]
    children, remarks = peers.start_all(absent, tmp_path, "tiny", 60.0)
    assert children == {} and list(remarks) == [contender.name for contender in absent]
    text = peers.line(absent[0].name, None, 50, remarks[absent[0].name])
    assert "does not run: not installed: pip: no flashspec==" in text


@pytest.mark.parametrize(
    "adapter, mode",
    [
        ("transformers", "generate"),
        ("transformers", "assisted"),
        ("transformers", "lookup"),
        ("specdec_lab", "draft"),
        ("specdec_lab", "lookup"),
    ],
)
def test_contenders_go_on_behind_the_models_end_token(peers, monkeypatch, tmp_path, adapter, mode):
    """Or the work would not be equal: `generate` falls back on the end token that a model brings along."""
    pair = load_pair("tiny")
    case = peers.draw_cases(pair.prompt_ids)[0]
    prompt, new_tokens = list(case.prompt), 24
    expected = autoregressive_decode(pair.target, prompt, new_tokens, None)[len(prompt) :]
    shutil.copytree(peers.ASSETS / "tiny", tmp_path / "tiny")
    for file in (tmp_path / "tiny").glob("*/*config.json"):  # a token of the text ends it, says the model
        settings = json.loads(file.read_text(encoding="utf-8")) | {"eos_token_id": expected[5]}
        file.write_text(json.dumps(settings), encoding="utf-8")
    monkeypatch.syspath_prepend(str(peers.ADAPTERS))
    prepare = importlib.import_module(f"{adapter}_adapter").prepare
    ready = prepare(tmp_path / "tiny" / "target", tmp_path / "tiny" / "draft", mode)
    assert ready(prompt, new_tokens, case.gamma)() == expected


def test_the_script_prints_its_table(peers, capsys):
    peers.main(["--cases", "1", "--runs", "1", "--warmup", "0", "--only", "speculative_decode"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and "peers: none" in lines[1]
    for text, name in zip(
        lines[4:], ("transformers generate", "specdec_lab speculative_decode"), strict=True
    ):
        assert text.startswith(name) and "1/1" in text
