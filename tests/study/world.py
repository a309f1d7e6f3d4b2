"""A key made by hand, with as many trials as a test wants."""

import numpy as np

from conceptlens.study.key import Key, TrialKey
from conceptlens.study.power import Plan, images_needed
from conceptlens.study.responses import Answered, Responses

CONCEPTS = [f"axis {n}: yes" for n in range(8)]


def make_key(images: int = 40, catch: int = 10, attention: int = 4, options: int = 5, seed: int = 0) -> Key:
    generator = np.random.default_rng(seed)
    trials: list[TrialKey] = []
    for n in range(images + catch):
        chosen = [CONCEPTS[int(k)] for k in generator.permutation(len(CONCEPTS))[:options]]
        common = {"image": f"image {n}", "class_name": None, "catch": n >= images}
        trials.append(
            TrialKey(id=f"c{n}", kind="choice", concept=chosen[0], options=sorted(chosen), answer=chosen[0], **common)
        )
        trials.append(TrialKey(id=f"l{n}", kind="likert", concept=chosen[1], **common))
    for n in range(attention):
        trials.append(
            TrialKey(
                id=f"a{n}",
                kind="attention",
                image=f"image {n}",
                class_name=None,
                concept=CONCEPTS[0],
                catch=False,
                answer=str(n % 5 + 1),
            )
        )
    return Key(
        study="0123456789abcdef",
        run="run",
        data="birds",
        method="ivq-cbm",
        weights="w",
        split="test",
        map="attention",
        control="moved",
        seed=seed,
        images=images,
        catch=catch,
        power=images_needed(Plan()),
        reached=0.9,
        trials=trials,
    )


def answers(rater: str, given: dict[str, str], ms: int = 3000) -> Responses:
    return Responses(
        study="0123456789abcdef",
        rater=rater,
        answers={name: Answered(answer=answer, ms=ms) for name, answer in given.items()},
    )
