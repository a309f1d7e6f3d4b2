"""The phrases that the text tower learns from: WordNet's words and meanings, templates, the concept library.

    python -m pretraining.text.phrases --wordnet DICT --vocabulary vocab.txt --out FOLDER

writes `phrases.txt.xz` (one phrase a line), `checks.json` (texts to measure on) and `pieces.txt`, the part of the
teacher's vocabulary that English phrases need. Held-out phrases are chosen by their hash, so they stay held out
whatever else is in the corpus; the birds' concept texts are held out as a whole.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from conceptlens.concepts import ConceptSet, library
from conceptlens.encoders.text.wordpiece import END, PAD, START, UNKNOWN, WordPiece, words
from pretraining.imagenet import NAMES
from pretraining.text import vocabulary as look
from pretraining.text.corpus import Corpus, read_pieces, tidy
from pretraining.text.wordnet import PARTS, Synset, read_counts, read_synsets

HELD_OUT_LIBRARY = ("cub-112", "cub-312")
LONGEST = 240  # characters
VISIBLE = frozenset((5, 6, 8, 13, 17, 18, 19, 20, 25, 27))  # lexicographer files: animals, artifacts, body, food, …


def with_article(noun: str) -> str:
    return ("an " if noun[:1].lower() in "aeiou" else "a ") + noun


def library_texts(names: Iterable[str]) -> list[str]:
    return [text for name in names for text in ConceptSet.load(name).texts]


def check_texts() -> dict[str, list[str]]:
    """Texts beyond the held-out phrases on which the tower is measured; only the birds' are never learned from."""
    return {
        "birds, concept texts (held out)": library_texts(HELD_OUT_LIBRARY[1:]),
        "other concept texts": library_texts(name for name in library() if name not in HELD_OUT_LIBRARY),
        "ImageNet names": list(NAMES),
        "ImageNet prompts": [f"a photo of {with_article(name)}" for name in NAMES],
    }


def _clauses(synset: Synset) -> Iterator[str]:
    """A definition whole and in parts, without what stands in brackets: concept texts are as short as its parts."""
    plain = re.sub(r"\([^)]*\)", "", synset.definition)
    yield plain
    parts = [part.strip() for part in plain.split(";")]
    if len(parts) > 1:
        yield from parts
    yield from synset.examples


def _wordnet(folder: Path) -> Iterator[str]:
    for part in PARTS:
        for synset in read_synsets(folder, part):
            yield from synset.lemmas
            yield from _clauses(synset)
            if synset.lexicographer in VISIBLE and part == "noun":
                yield f"{synset.lemmas[0]}, {synset.definition.split(';')[0]}"


def _nouns(folder: Path) -> tuple[list[str], list[float]]:
    """Nouns of things one can see, common ones more often."""
    counts = read_counts(folder)
    names = {
        lemma
        for synset in read_synsets(folder, "noun")
        if synset.lexicographer in VISIBLE
        for lemma in synset.lemmas
        if lemma.islower() and len(lemma) < 30
    }
    ordered = sorted(names | set(NAMES))
    return ordered, [(1 + counts.get(name.lower(), 0)) ** 0.5 for name in ordered]


def _templates(folder: Path, count: int, rng: random.Random) -> Iterator[str]:
    """Descriptions put together from words: everyday things and the domains of `vocabulary`."""
    nouns, weights = _nouns(folder)
    adjectives = [
        lemma
        for synset in read_synsets(folder, "adj")
        for lemma in synset.lemmas[:1]
        if synset.examples and lemma.islower()
    ]
    looks = look.COLORS + look.SHAPES + look.SIZES + look.TEXTURES + look.STATES
    drawn = iter(rng.choices(nouns, weights, k=4 * count))

    def look_of() -> str:
        return rng.choice(adjectives) if rng.random() < 0.15 else rng.choice(looks)

    def everyday() -> str:
        noun, other = next(drawn), next(drawn)
        prompt = rng.choice(look.PROMPTS)
        return rng.choice(
            (
                prompt.format(a=with_article(noun), x=noun),
                prompt.format(a=with_article(noun), x=noun),
                prompt.format(a=with_article(f"{look_of()} {noun}"), x=f"{look_of()} {noun}"),
                f"{look_of()} {noun}",
                f"{with_article(noun)} with {with_article(f'{look_of()} {other}')}",
                f"{with_article(noun)} without {with_article(other)}",
                f"no {noun}",
                f"not {with_article(noun)}",
                f"{with_article(noun)} and {with_article(other)}",
                f"{with_article(noun)} that is {look_of()}",
                f"{with_article(noun)} on {rng.choice(look.SCENES)}",
                f"{rng.choice(look.COUNTS)} {noun}s",
                f"{with_article(f'{look_of()}, {look_of()} {noun}')}",
                f"{with_article(f'{noun} {other}')}",
            )
        )

    def domain(area: look.Domain) -> str:
        subject, part, finding = rng.choice(area.subjects), rng.choice(area.parts), rng.choice(area.findings)
        first, second = (rng.choice(area.looks) if rng.random() < 0.4 else look_of() for _ in range(2))
        return rng.choice(
            (
                f"{subject} with {with_article(first)} {part}",
                f"{subject} with {first} {part}",
                f"{subject} whose {part} is {first}",
                f"{subject} whose {part} is {first} and {second}",
                f"{subject} that is {first}",
                f"{subject} that is {first}, not {second}",
                f"{subject} with {finding}",
                f"{subject} without {finding}",
                f"{subject} with no {finding.removeprefix('a ')}",
                f"{subject} with {rng.choice(look.COUNTS)} {finding.removeprefix('a ')}",
                f"{first} {part}",
                f"{first} and {second} {part}",
                f"{part} that is {first}",
                f"{first} {finding.removeprefix('a ')}",
                f"{subject}, {first}, with {finding}",
                f"{subject} with {finding} but without {rng.choice(area.findings)}",
                f"{subject} with {first} {part} and {second} {rng.choice(area.parts)}",
                f"{part}: {first}",
            )
        )

    areas = list(look.DOMAINS.values())
    for index in range(count):
        yield everyday() if index % 5 < 3 else domain(rng.choice(areas))


def build_phrases(wordnet: Path, *, templates: int = 260_000, seed: int = 0) -> list[str]:
    """All phrases, sorted and each once, without the held-out library; the same for the same seed."""
    rng = random.Random(seed)
    kept = library_texts(name for name in library() if name not in HELD_OUT_LIBRARY)
    held_out = {tidy(text) for text in library_texts(HELD_OUT_LIBRARY)}
    phrases = {tidy(phrase) for phrase in _wordnet(wordnet)}
    phrases.update(tidy(phrase) for phrase in _templates(wordnet, templates, rng))
    for name in NAMES:
        phrases.update(tidy(prompt.format(a=with_article(name), x=name)) for prompt in look.PROMPTS)
    phrases.update(tidy(start + text) for text in kept for start in ("", "a photo of ", "this is ", "not "))
    return sorted(phrase for phrase in phrases - held_out if len(phrase) <= LONGEST and any(map(str.isalnum, phrase)))


def choose_pieces(vocabulary: Iterable[str], phrases: Iterable[str], *, most: int) -> list[str]:
    """The teacher's pieces that English phrases use most, after the marks and every ASCII character.

    Args:
        vocabulary: The teacher's pieces.
        phrases: The corpus.
        most: How many pieces to keep at most.
    """
    full = WordPiece(vocabulary)
    counts: Counter[int] = Counter()
    for word, times in Counter(word for phrase in phrases for word in words(phrase)).items():
        for piece in full.split_word(word):
            counts[piece] += times
    always = [PAD, UNKNOWN, START, END]
    always += [piece for piece in full.pieces if piece.isascii() and len(piece.removeprefix("##")) == 1]
    always += [piece for piece in full.pieces if len(piece) == 1 and piece in "£°±²³µ·×ßæøœαβγδεθλμπσω–—’“”…"]
    chosen = dict.fromkeys(always)
    for number in sorted(counts, key=lambda number: (-counts[number], number)):
        if len(chosen) >= most:
            break
        if full.pieces[number].isascii():
            chosen.setdefault(full.pieces[number])
    return list(chosen)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wordnet", type=Path, required=True, help="WordNet's dict folder")
    parser.add_argument("--vocabulary", type=Path, required=True, help="the teacher's vocab.txt")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--templates", type=int, default=260_000, help="phrases to draw from templates")
    parser.add_argument("--pieces", type=int, default=20_000, help="pieces to keep")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    phrases = build_phrases(options.wordnet, templates=options.templates, seed=options.seed)
    pieces = choose_pieces(read_pieces(options.vocabulary), phrases, most=options.pieces)
    corpus = Corpus(phrases, pieces, check_texts())
    corpus.write(options.out)
    held_out = len(corpus.held_out)
    print(f"{len(phrases):,} phrases, {held_out:,} of them held out; {len(pieces):,} pieces in {options.out}")


if __name__ == "__main__":
    main()
