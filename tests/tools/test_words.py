"""tools/checks/words.py finds a word that is not in use in prose and in names, and nothing else."""

from __future__ import annotations

import pytest
from checks.words import GLOSSARY, found, pattern, replaced_words

WORDS = {word: pattern(word) for word in ("gadget", "slow path", "ponder*")}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("// A Gadget of its own.", "gadget"),
        ("int gadget_count;", "gadget"),
        ("class LargeGadget {", "gadget"),
        ("take the slow path", "slow path"),
        ("bool slow_path();", "slow path"),
        ("struct SlowPath;", "slow path"),
        ("It ponders.", "ponder*"),
    ],
)
def test_a_word_is_found_in_prose_and_as_a_part_of_a_name(line: str, word: str) -> None:
    assert found(f"first\n{line}\nlast", WORDS) == [(2, word)]


@pytest.mark.parametrize("line", ["// gadgetry", "std::gadget x;", "slow, and a path", "a long path"])
def test_other_words_and_names_of_other_libraries_are_left_alone(line: str) -> None:
    assert found(line, WORDS) == []


def test_the_glossary_names_the_words() -> None:
    words = replaced_words(GLOSSARY.read_text(encoding="utf-8"))
    assert len(words) > 40
    assert found("\n".join(words).replace("*", ""), {word: pattern(word) for word in words})
