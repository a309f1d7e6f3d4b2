"""Findings in words: what is there is said, what is not is not."""

from conceptlens.evaluation.codebook.document import Code, Codebook, ConceptFinding, Match, Matching
from conceptlens.stats.estimates import Estimate
from conceptlens.workflows.audit.sentences import codebook_sentences, concept_sentences


def code_entry(number: int, share: float, kinds: list[str], **more: object) -> Code:
    values = {
        "code": number,
        "patches": 1,
        "share": Estimate(value=share),
        "images": 1,
        "classes": {},
        "class_dependence": None,
        "class_p": None,
        "distance": None,
        "border": None,
        "on_object": None,
        "nearest_code": None,
        "nearest_code_distance": None,
        "kinds": kinds,
        "concepts": {},
        "near": [],
        "color": "#000000",
    }
    return Code.model_validate({**values, **more})


def codebook(codes: list[Code], explained: float = 0.5, **more: object) -> Codebook:
    values = {
        "kind": "implicit",
        "size": len(codes),
        "use": 1.0,
        "perplexity": 2.0,
        "explained": explained,
        "even_share": 1 / len(codes),
        "codes": codes,
        "matchings": [],
        "without": {"labels": "no concept has a label"},
        "projections": [],
        "dormant_and_bad": None,
    }
    return Codebook.model_validate({**values, **more})


def test_kinds_are_named_with_their_concepts() -> None:
    made = codebook(
        [
            code_entry(0, 0.5, ["background"], concepts={"labels": "colour: red"}),
            code_entry(1, 0.5, ["duplicate"], nearest_code=2),
            code_entry(2, 0.0, ["dormant", "duplicate"], nearest_code=1),
        ]
    )
    text = "\n".join(codebook_sentences(made))
    assert "Background codes: 0 (colour: red), with 50% of all patches." in text
    assert "Duplicate codes, almost at the same place: 1 and 2." in text
    assert "Dormant codes, nearest to less than 1.67% of the patches: 2." in text
    assert "not matched with concepts by labels: no concept has a label." in text
    assert "shrink" not in text


def test_a_healthy_codebook_has_no_findings() -> None:
    text = "\n".join(codebook_sentences(codebook([code_entry(0, 0.5, []), code_entry(1, 0.5, [])])))
    assert not any(word in text for word in ("Dormant", "Duplicate", "Background"))
    assert "IVQ only shrinks" in "\n".join(codebook_sentences(codebook([code_entry(0, 1, [])], explained=-0.2)))


def test_matches_that_are_sure_and_those_that_are_not() -> None:
    def matching(sure: bool, p: float) -> Matching:
        pair = Match(code=0, concept="colour: red", strength=1.0, p=p, sure=sure)
        return Matching(kind="labels", total=1.0, chance_total=0.5, p=p, matches=[pair])

    def text(sure: bool, p: float) -> str:
        made = codebook([code_entry(0, 1.0, [])], matchings=[matching(sure, p)])
        return next(line for line in codebook_sentences(made) if line.startswith("By labels"))

    assert "1 of 1 matches are significant: 0 → colour: red" in text(True, 0.01)
    assert "no single match is significant" in text(False, 0.01)
    assert "no code matches a concept significantly (p = 0.300)" in text(False, 0.3)


def test_concepts_in_words() -> None:
    def concept(name: str, kinds: list[str], closest: str | None = None) -> ConceptFinding:
        return ConceptFinding.model_validate(
            {
                "concept": name,
                "text": name,
                "labeled": 1,
                "holds": None,
                "predicted": 0.0,
                "auc": None,
                "auc_within_class": None,
                "influence": None,
                "closest": closest,
                "closest_correlation": 0.99 if closest else None,
                "slot_mass": None,
                "kinds": kinds,
            }
        )

    text = concept_sentences(
        [concept("a", ["no influence"]), concept("b", ["duplicate"], "c"), concept("c", ["duplicate"], "b")]
    )
    assert text == ["Concepts without influence on the class: a.", "Concepts with nearly the same scores: b and c."]
    assert concept_sentences([concept("a", [])]) == []
