"""Six right ways to write `speculative_decode`, as different as students write them. Nothing of the package is used.

One of them is right and wasteful: it lets the draft read everything again in every round.
"""

from __future__ import annotations

import torch


def pass_over(model, tokens, cache):
    """(argmax behind every token, cache)."""
    output = model.forward(torch.tensor([tokens]), use_cache=True, past_key_values=cache)
    return output.logits[0].argmax(dim=-1).tolist(), output.past_key_values


# ---------------------------------------------------------------- 1: confirmed tokens stay pending


def pending_tokens(target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id):
    """What a model has not read yet is kept in a list, and rides on its next pass. The prompt does so, too."""
    new = []
    for_target, for_draft = list(input_ids), list(input_ids)
    target_cache = draft_cache = None
    target_length = draft_length = 0
    drafted = accepted = 0
    while len(new) < max_new_tokens:
        guesses = []
        for _ in range(min(gamma, max_new_tokens - len(new) - 1)):
            choices, draft_cache = pass_over(draft_model, for_draft, draft_cache)
            draft_length += len(for_draft)
            guesses.append(choices[-1])
            for_draft = [choices[-1]]
            if choices[-1] == eos_token_id:
                break
        choices, target_cache = pass_over(target_model, for_target + guesses, target_cache)
        own = choices[len(for_target) - 1 :]
        target_length += len(for_target)
        agreed = 0
        while agreed < len(guesses) and guesses[agreed] == own[agreed]:
            agreed += 1
        drafted, accepted = drafted + len(guesses), accepted + agreed
        block = [*guesses[:agreed], own[agreed]]
        if eos_token_id in block:
            block = block[: block.index(eos_token_id) + 1]
        new += block
        if new[-1] == eos_token_id:
            break
        target_model.truncate_cache(target_cache, target_length + agreed)
        target_length += agreed
        for_target = block[-1:]
        if guesses:
            length = len(input_ids) + len(new)
            kept = min(draft_length, length - 1)
            draft_model.truncate_cache(draft_cache, kept)
            draft_length = kept
            for_draft = [*input_ids, *new][kept:]
        else:
            for_draft += block
    return [*input_ids, *new], accepted / drafted if drafted else 0.0


# ---------------------------------------------------------------- 2: the draft catches up by a pass of its own


def extra_pass(target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id):
    """Both prompts are read up front, short of the last token; a draft that lags behind gets a pass for itself. A round
    drafts min(γ, wanted), and what is too much is dropped. Answers with tensors and the new tokens only."""
    text = torch.tensor(input_ids)
    caches = {}
    for name, model in (("target", target_model), ("draft", draft_model)):
        caches[name] = None
        if len(text) > 1:
            _, caches[name] = pass_over(model, text[:-1].tolist(), None)
    start, proposed, kept = len(text), 0, 0
    finished = False
    while not finished:
        room = min(gamma, start + max_new_tokens - len(text))
        guess, guesses = int(text[-1]), []
        for _ in range(room):
            (guess,), caches["draft"] = pass_over(draft_model, [guess], caches["draft"])
            guesses.append(guess)
            if guess == eos_token_id:
                break
        answers, caches["target"] = pass_over(target_model, [int(text[-1]), *guesses], caches["target"])
        same = torch.tensor([g == a for g, a in zip(guesses, answers, strict=False)]).long()
        agreed = int(same.cumprod(0).sum())
        proposed += len(guesses)
        kept += agreed
        if agreed == len(guesses):  # the draft has not read its own last guess
            _, caches["draft"] = pass_over(draft_model, guesses[-1:], caches["draft"])
        for token in [*guesses[:agreed], answers[agreed]]:
            text = torch.cat([text, torch.tensor([token])])
            finished = token == eos_token_id or len(text) == start + max_new_tokens
            if finished:
                break
        if not finished:
            for name, model in (("target", target_model), ("draft", draft_model)):
                caches[name] = model.truncate_cache(caches[name], len(text) - 1)
    return text[start:].unsqueeze(0), torch.tensor(kept / proposed)


# ---------------------------------------------------------------- 3: a generator


def generator(target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id):
    """Yields each token as soon as it is confirmed, and returns the rate."""

    class Side:
        def __init__(self, model):
            self.model, self.cache, self.seen = model, None, []

        def read(self, text):
            """Make the cache hold `text`, whatever it holds now; the choices behind what was fed."""
            same = 0
            while same < min(len(self.seen), len(text) - 1) and self.seen[same] == text[same]:
                same += 1
            if same < len(self.seen):
                self.model.truncate_cache(self.cache, same)
            choices, self.cache = pass_over(self.model, text[same:], self.cache)
            self.seen = list(text)
            return choices

    target, draft = Side(target_model), Side(draft_model)
    text, drafted, accepted, left = list(input_ids), 0, 0, max_new_tokens
    while left:
        guesses = []
        while len(guesses) < min(gamma, left - 1) and eos_token_id not in guesses:
            guesses.append(draft.read(text + guesses)[-1])
        choices = target.read(text + guesses)[-1 - len(guesses) :]
        drafted += len(guesses)
        for guess, choice in zip([*guesses, None], choices, strict=True):
            accepted += guess == choice
            text.append(choice)
            left -= 1
            yield choice
            if choice == eos_token_id:
                left = 0
            if guess != choice or not left:
                break
    return accepted / drafted if drafted else 0.0


# ---------------------------------------------------------------- 4: recursive


def recursive(target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id):
    """One call is one round. The first token comes from a prefill of the target, and the caches are handed down."""

    def guess(text, cache, length, room):
        if room == 0:
            return [], cache, length
        choices, cache = pass_over(draft_model, text[length:], cache)
        rest, cache, length = (
            ([], cache, len(text))
            if choices[-1] == eos_token_id
            else guess([*text, choices[-1]], cache, len(text), room - 1)
        )
        return [choices[-1], *rest], cache, length

    def agreeing(guesses, choices):
        return 1 + agreeing(guesses[1:], choices[1:]) if guesses and guesses[0] == choices[0] else 0

    def rounds(text, wanted, target_cache, draft_cache, draft_length):
        if wanted == 0 or (len(text) > len(input_ids) and text[-1] == eos_token_id):
            return text, 0, 0
        guesses, draft_cache, draft_length = guess(text, draft_cache, draft_length, min(gamma, wanted - 1))
        choices, target_cache = pass_over(target_model, [text[-1], *guesses], target_cache)
        agreed = agreeing(guesses, choices)
        block = (guesses[:agreed] + choices[agreed : agreed + 1])[:wanted]
        if eos_token_id in block:
            return text + block[: block.index(eos_token_id) + 1], len(guesses), agreed
        longer = text + block
        target_cache = target_model.truncate_cache(target_cache, len(longer) - 1)
        if draft_length > len(longer) - 1:
            draft_length = len(longer) - 1
            draft_cache = draft_model.truncate_cache(draft_cache, draft_length)
        whole, drafted, accepted = rounds(
            longer, wanted - len(block), target_cache, draft_cache, draft_length
        )
        return whole, drafted + len(guesses), accepted + agreed

    choices, cache = pass_over(target_model, list(input_ids), None)
    text, drafted, accepted = rounds([*input_ids, choices[-1]], max_new_tokens - 1, cache, None, 0)
    return text, accepted / max(1, drafted)


# ---------------------------------------------------------------- 5: the draft reads everything again


def rereading_draft(target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id):
    """Right and wasteful: no cache of the draft outlives a round, so there is none to roll back."""
    sequence, cache, read = [*input_ids], None, 0
    hits = total = 0
    while True:
        wanted = len(input_ids) + max_new_tokens - len(sequence)
        context, draft_cache, guesses = sequence, None, []
        for _ in range(min(gamma, wanted - 1)):
            choices, draft_cache = pass_over(draft_model, context, draft_cache)
            context = choices[-1:]
            guesses += context
            if context == [eos_token_id]:
                break
        choices, cache = pass_over(target_model, sequence[read:] + guesses, cache)
        verdicts = choices[len(choices) - len(guesses) - 1 :]
        total += len(guesses)
        for i, choice in enumerate(verdicts):
            sequence.append(choice)
            if choice == eos_token_id and i < len(guesses) and guesses[i] == choice:
                hits += 1
            if choice == eos_token_id:
                return sequence, hits / total if total else 0.0
            if i == len(guesses) or guesses[i] != choice:
                break
            hits += 1
        if len(sequence) == len(input_ids) + max_new_tokens:
            return sequence, hits / total if total else 0.0
        read = len(sequence) - 1
        target_model.truncate_cache(cache, read)


# ---------------------------------------------------------------- 6: the next token's logits are kept


def tables(target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id):
    """Two tables of what each model has read, as engines keep them, and a tuple in a batch of one for an answer."""
    state = {"target": (None, 0), "draft": (None, 0)}
    models = {"target": target_model, "draft": draft_model}
    sequence = tuple(input_ids)
    statistics = []

    def feed(name, tokens):
        cache, length = state[name]
        choices, cache = pass_over(models[name], list(tokens), cache)
        state[name] = (cache, length + len(tokens))
        return choices

    def rewind(name, length):
        cache, held = state[name]
        if held > length:
            state[name] = (models[name].truncate_cache(cache, length), length)

    done = False
    while not done:
        wanted = len(input_ids) + max_new_tokens - len(sequence)
        candidate = sequence
        while len(candidate) - len(sequence) < min(gamma, wanted - 1):
            candidate += (feed("draft", candidate[state["draft"][1] :])[-1],)
            if candidate[-1] == eos_token_id:
                break
        behind = feed("target", candidate[state["target"][1] :])[len(sequence) - len(candidate) - 1 :]
        place = next((i for i, g in enumerate(candidate[len(sequence) :]) if g != behind[i]), len(behind) - 1)
        statistics.append((len(candidate) - len(sequence), place))
        added = (*candidate[len(sequence) : len(sequence) + place], behind[place])
        ends = [i for i, token in enumerate(added) if token == eos_token_id]
        sequence += added[: ends[0] + 1] if ends else added
        done = bool(ends) or len(sequence) == len(input_ids) + max_new_tokens
        for name in models:
            rewind(name, len(sequence) - 1)
    drafted, kept = (sum(column) for column in zip(*statistics, strict=True))
    return (sequence,), kept / drafted if drafted else 0


RIGHT = {
    "pending_tokens": pending_tokens,
    "extra_pass": extra_pass,
    "generator": generator,
    "recursive": recursive,
    "tables": tables,
}
WASTEFUL = {"rereading_draft": rereading_draft}
