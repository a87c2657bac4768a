"""How tokens are produced: session, loop, greedy rule, drafters, chance, rounds and traces."""
