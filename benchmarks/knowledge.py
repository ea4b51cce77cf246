"""Project knowledge in a session: memory recall, and ranking 10,000 entries of the user."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from functools import partial

from benchmarks.clock import best, best_median
from benchmarks.figure import Figure
from benchmarks.place import Place, fresh_place
from benchmarks.program import echo, request, session

KEYS = 1000
ENTRIES = 10_000
TOPICS = 100

# syllables of made-up words, so that word frequencies resemble those of real text
_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]


def figures() -> Iterator[Figure]:
    """Measure a recall among many keys, and rare, frequent and long queries on a warm index."""
    recall = request("memory", action="recall", key=f"key.{KEYS // 2}")
    with fresh_place() as place, session(place) as hilt, echo(place) as bare:
        for number in range(KEYS):
            hilt.call("memory", action="save", key=f"key.{number}", value=f"value {number} " * 20)
        base, p50 = best_median(10, 100, lambda: bare.exchange(recall), lambda: hilt.ask(recall))
    yield Figure("memory recall in a session, p50", p50, "ms", "echo of the line", base, maximum=1)
    with fresh_place() as place:
        vocabulary = _fill(place)
        questions = {
            "rare words": "fix goroutine data race",
            "frequent words": " ".join(vocabulary[:8]),
            "400 words": " ".join(_text(random.Random(2), vocabulary, 400)),
        }
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(_knowledge(place)) for name in names]
        for name, question in questions.items():
            query = {"tool": "related_context", "args": {"query": question}, "client": "claude"}
            line = json.dumps(query).encode() + b"\n"
            with session(place) as hilt:
                base, took = best(7, partial(_stat_all, paths), partial(hilt.ask, line))
            yield Figure(f"related_context of 10,000, {name}", took, "ms", "stat of each file", base, maximum=50)


def _stat_all(paths: list[str]) -> None:
    for path in paths:
        os.stat(path)


def _knowledge(place: Place) -> str:
    return os.path.join(place.environ["HOME"], ".claude", "kb")


def _fill(place: Place) -> list[str]:
    """Write the entries and return their vocabulary, most frequent words first."""
    chance = random.Random(1)
    words = list(dict.fromkeys("".join(chance.choices(_SYLLABLES, k=chance.randint(2, 4))) for _ in range(8000)))
    for number in range(ENTRIES):
        path = os.path.join(_knowledge(place), f"topic{number % TOPICS}", f"entry{number}.md")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        title, description, body = (" ".join(_text(chance, words, count)) for count in (4, 12, 150))
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"---\nname: entry-{number}\ndescription: {description}\n---\n# {title}\n\n{body}\n")
    with open(os.path.join(_knowledge(place), "race.md"), "w", encoding="utf-8") as file:
        file.write("# Data races between goroutines\n\nRun the tests with -race.\n")
    return words


def _text(chance: random.Random, words: list[str], count: int) -> list[str]:
    return [words[min(int(chance.paretovariate(0.6)) - 1, len(words) - 1)] for _ in range(count)]
