"""Findings in words: what is there is said, what is not is not."""

from conceptlens.evaluation.codebook.document import Codebook, ConceptFinding, Match, Matching, Prototype
from conceptlens.stats.estimates import Estimate
from conceptlens.workflows.audit.sentences import codebook_sentences, concept_sentences


def prototype(code: int, share: float, kinds: list[str], **more: object) -> Prototype:
    values = {
        "code": code,
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
    return Prototype.model_validate({**values, **more})


def codebook(prototypes: list[Prototype], explained: float = 0.5, **more: object) -> Codebook:
    values = {
        "kind": "implicit",
        "codes": len(prototypes),
        "use": 1.0,
        "perplexity": 2.0,
        "explained": explained,
        "even_share": 1 / len(prototypes),
        "prototypes": prototypes,
        "matchings": [],
        "without": {"labels": "no concept has a label"},
        "projections": [],
        "dormant_and_bad": None,
    }
    return Codebook.model_validate({**values, **more})


def test_kinds_are_named_with_their_concepts() -> None:
    made = codebook(
        [
            prototype(0, 0.5, ["background"], concepts={"labels": "colour: red"}),
            prototype(1, 0.5, ["duplicate"], nearest_code=2),
            prototype(2, 0.0, ["dormant", "duplicate"], nearest_code=1),
        ]
    )
    told = "\n".join(codebook_sentences(made))
    assert "Background: 0 (colour: red), with 50% of all patches." in told
    assert "Double: 1 and 2 lie" in told
    assert "Dormant, nearest to less than 1.67% of the patches: 2." in told
    assert "not matched with concepts by labels: no concept has a label." in told
    assert "shrink" not in told


def test_a_healthy_codebook_is_not_accused() -> None:
    told = "\n".join(codebook_sentences(codebook([prototype(0, 0.5, []), prototype(1, 0.5, [])])))
    assert not any(word in told for word in ("Dormant", "Double", "Background"))
    assert "IVQ acts as a shrink" in "\n".join(codebook_sentences(codebook([prototype(0, 1, [])], explained=-0.2)))


def test_matches_that_are_sure_and_those_that_are_not() -> None:
    def matching(sure: bool, p: float) -> Matching:
        pair = Match(code=0, concept="colour: red", strength=1.0, p=p, sure=sure)
        return Matching(kind="labels", total=1.0, chance_total=0.5, p=p, matches=[pair])

    def told(sure: bool, p: float) -> str:
        made = codebook([prototype(0, 1.0, [])], matchings=[matching(sure, p)])
        return next(line for line in codebook_sentences(made) if line.startswith("By labels"))

    assert "1 of 1 matches are surer than chance: 0 → colour: red" in told(True, 0.01)
    assert "no single one for sure" in told(False, 0.01)
    assert "chance matches as well (p = 0.300)" in told(False, 0.3)


def test_concepts_in_words() -> None:
    def concept(name: str, kinds: list[str], twin: str | None = None) -> ConceptFinding:
        return ConceptFinding.model_validate(
            {
                "concept": name,
                "text": name,
                "labeled": 1,
                "holds": None,
                "said": 0.0,
                "auc": None,
                "auc_within_class": None,
                "influence": None,
                "twin": twin,
                "twin_correlation": 0.99 if twin else None,
                "slot_mass": None,
                "kinds": kinds,
            }
        )

    told = concept_sentences([concept("a", ["idle"]), concept("b", ["double"], "c"), concept("c", ["double"], "b")])
    assert told == ["Of no weight for the class: a.", "Scores that say the same: b and c."]
    assert concept_sentences([concept("a", [])]) == []
