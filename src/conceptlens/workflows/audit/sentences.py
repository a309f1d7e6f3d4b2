"""The findings of an audit as sentences, most important first."""

from conceptlens.evaluation.codebook.codes import DORMANT
from conceptlens.evaluation.codebook.document import Code, Codebook, ConceptFinding, TrustFile
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
    """All findings."""
    lines = [no_codebook] if no_codebook else []
    if codebook is not None:
        lines += codebook_sentences(codebook)
    lines += concept_sentences(concepts)
    lines += failures.findings
    lines += [f"{each.file}: {' '.join(each.says)}" for each in trust if each.says]
    return lines


def codebook_sentences(codebook: Codebook) -> list[str]:
    lines = [
        f"The codebook has {codebook.size} codes; {codebook.use:.0%} are the nearest code of some patch. "
        f"The perplexity of their use is {codebook.perplexity or 0:.1f}."
    ]
    if codebook.explained is not None:
        weak = " The codes hardly describe the patches: IVQ only shrinks the tokens here." * (codebook.explained < 0.1)
        share = f"{codebook.explained:.0%}" if codebook.explained > 0 else "none"
        lines.append(f"The nearest codes explain {share} of the variance of the tokens.{weak}")
    dormant = _of_kind(codebook, "dormant")
    if dormant:
        bound = DORMANT * codebook.even_share
        lines.append(
            f"Dormant codes, nearest to less than {bound:.2%} of the patches: {_list(map(_with_name, dormant))}. "
            "These images hardly show what they stand for."
        )
    pairs = {
        tuple(sorted((each.code, each.nearest_code)))
        for each in _of_kind(codebook, "duplicate")
        if each.nearest_code is not None
    }
    if pairs:
        lines.append(
            f"Duplicate codes, almost at the same place: "
            f"{_list(f'{first} and {second}' for first, second in sorted(pairs))}."
        )
    background = _of_kind(codebook, "background")
    if background:
        part = sum(each.share.value or 0 for each in background)
        lines.append(f"Background codes: {_list(map(_with_name, background))}, with {part:.0%} of all patches.")
    lines += [_matching(codebook, kind) for kind in ("co-assignment", "labels", "text")]
    if codebook.dormant_and_bad:
        lines.append(codebook.dormant_and_bad)
    return lines


def _matching(codebook: Codebook, kind: str) -> str:
    found = next((each for each in codebook.matchings if each.kind == kind), None)
    if found is None:
        return f"Codes were not matched with concepts by {kind}: {codebook.without.get(kind, 'not requested')}."
    sure = [each for each in found.matches if each.sure]
    if not sure:
        p = 1.0 if found.p is None else found.p
        if p < LEVEL:
            return (
                f"By {kind}, codes match concepts significantly as a whole (p = {p:.3f}), but no single match is "
                f"significant."
            )
        return f"By {kind}, no code matches a concept significantly (p = {p:.3f})."
    shown = _list(f"{each.code} → {each.concept}" for each in sorted(sure, key=lambda each: -each.strength))
    return f"By {kind}, {len(sure)} of {len(found.matches)} matches are significant: {shown}."


def concept_sentences(concepts: list[ConceptFinding]) -> list[str]:
    """Concepts with findings."""
    words = {
        "never predicted": "Concepts that are present but hardly ever predicted: {}.",
        "at chance": "Concepts that are read no better than by chance: {}.",
        "no influence": "Concepts without influence on the class: {}.",
        "empty slot": "Concepts whose slots get hardly any patch: {}.",
    }
    lines = []
    for kind, sentence in words.items():
        names = [each.concept for each in concepts if kind in each.kinds]
        if names:
            lines.append(sentence.format(_list(names)))
    pairs = {tuple(sorted((row.concept, row.closest))) for row in concepts if "duplicate" in row.kinds and row.closest}
    if pairs:
        lines.append(
            f"Concepts with nearly the same scores: {_list(f'{one} and {two}' for one, two in sorted(pairs))}."
        )
    return lines


def _of_kind(codebook: Codebook, kind: str) -> list[Code]:
    return [each for each in codebook.codes if kind in each.kinds]


def _with_name(code: Code) -> str:
    names = list(dict.fromkeys(code.concepts.values()))
    return f"{code.code} ({names[0]})" if names else str(code.code)


def _list(words: object) -> str:
    known = [str(word) for word in words]  # type: ignore[attr-defined]
    more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return ", ".join(known[:NAMED]) + more
