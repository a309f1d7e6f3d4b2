"""The audit in plain sentences, most important first."""

from conceptlens.evaluation.codebook.codes import DORMANT
from conceptlens.evaluation.codebook.document import Codebook, ConceptFinding, Prototype, TrustFile
from conceptlens.evaluation.codebook.matching import LEVEL
from conceptlens.evaluation.subgroups.failures import Failures

NAMED = 8  # members of a list that are named


def findings(
    codebook: Codebook | None,
    no_codebook: str | None,
    concepts: list[ConceptFinding],
    failures: Failures,
    trust: list[TrustFile],
) -> list[str]:
    """Everything a reader should know."""
    told = [no_codebook] if no_codebook else []
    if codebook is not None:
        told += codebook_sentences(codebook)
    told += concept_sentences(concepts)
    told += failures.findings
    told += [f"{each.file}: {' '.join(each.says)}" for each in trust if each.says]
    return told


def codebook_sentences(codebook: Codebook) -> list[str]:
    told = [
        f"The codebook has {codebook.codes} prototypes; {codebook.use:.0%} are nearest to some patch, used as "
        f"unevenly as {codebook.perplexity or 0:.1f} equally used ones would be."
    ]
    if codebook.explained is not None:
        weak = " The codes hardly describe the patches: IVQ acts as a shrink of the tokens here." * (
            codebook.explained < 0.1
        )
        share = f"{codebook.explained:.0%}" if codebook.explained > 0 else "none"
        told.append(f"Nearest prototypes explain {share} of the variance of the tokens.{weak}")
    dormant = _of_kind(codebook, "dormant")
    if dormant:
        bound = DORMANT * codebook.even_share
        told.append(
            f"Dormant, nearest to less than {bound:.2%} of the patches: {_list(map(_with_name, dormant))}. What they "
            "might stand for is hardly seen in these images."
        )
    pairs = {
        tuple(sorted((each.code, each.nearest_code)))
        for each in _of_kind(codebook, "duplicate")
        if each.nearest_code is not None
    }
    if pairs:
        told.append(f"Double: {_list(f'{first} and {second}' for first, second in sorted(pairs))} lie almost together.")
    background = _of_kind(codebook, "background")
    if background:
        part = sum(each.share.value or 0 for each in background)
        told.append(f"Background: {_list(map(_with_name, background))}, with {part:.0%} of all patches.")
    told += [_matching(codebook, kind) for kind in ("co-assignment", "labels", "text")]
    if codebook.dormant_and_bad:
        told.append(codebook.dormant_and_bad)
    return told


def _matching(codebook: Codebook, kind: str) -> str:
    found = next((each for each in codebook.matchings if each.kind == kind), None)
    if found is None:
        return f"Prototypes were not matched with concepts by {kind}: {codebook.without.get(kind, 'not asked for')}."
    sure = [each for each in found.matches if each.sure]
    if not sure:
        p = 1.0 if found.p is None else found.p
        if p < LEVEL:
            return (
                f"By {kind}, prototypes match concepts beyond chance as a whole (p = {p:.3f}), no single one for sure."
            )
        return f"By {kind}, no prototype stands for one concept: chance matches as well (p = {p:.3f})."
    shown = _list(f"{each.code} → {each.concept}" for each in sorted(sure, key=lambda each: -each.strength))
    return f"By {kind}, {len(sure)} of {len(found.matches)} matches are surer than chance: {shown}."


def concept_sentences(concepts: list[ConceptFinding]) -> list[str]:
    """What is odd about concepts."""
    words = {
        "never said": "Hardly ever said, though they hold: {}.",
        "unread": "Read no better than by chance: {}.",
        "idle": "Of no weight for the class: {}.",
        "unfed": "Their slots get no patch: {}.",
    }
    told = []
    for kind, sentence in words.items():
        names = [each.concept for each in concepts if kind in each.kinds]
        if names:
            told.append(sentence.format(_list(names)))
    twins = {tuple(sorted((each.concept, each.twin))) for each in concepts if "double" in each.kinds and each.twin}
    if twins:
        told.append(f"Scores that say the same: {_list(f'{one} and {two}' for one, two in sorted(twins))}.")
    return told


def _of_kind(codebook: Codebook, kind: str) -> list[Prototype]:
    return [each for each in codebook.prototypes if kind in each.kinds]


def _with_name(prototype: Prototype) -> str:
    names = list(dict.fromkeys(prototype.concepts.values()))
    return f"{prototype.code} ({names[0]})" if names else str(prototype.code)


def _list(words: object) -> str:
    known = [str(word) for word in words]  # type: ignore[attr-defined]
    more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return ", ".join(known[:NAMED]) + more
