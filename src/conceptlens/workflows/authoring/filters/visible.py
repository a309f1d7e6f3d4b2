"""What a still image cannot show: touch, sound, behavior, history, causes. And what names nothing to look for.

The IVQ-CBM paper found such a concept only after training (appendix K.3: a tactile texture that attracted no patches in
dermoscopy). Words give many of them away before. The lists are short and plain on purpose: a second model, and the
images themselves, judge what they do not know.
"""

import re
from collections.abc import Sequence

from conceptlens.workflows.authoring.candidates import Candidate

# Phrases by commas; * stands for the rest of a word.
_HIDDEN = {
    "how it feels to the touch": """
        rough texture, rough surface, rough skin, rough feel*, texture is rough, texture that is rough, surface
        is rough, to the touch, tactile, palpa*, tender, tenderness, feels, gritty, sticky, firm, firmness,
        rubbery, elastic*, consistency, warm skin, cold skin, hard lump, hard nodule, soft to, weighs, heavy""",
    "what someone senses or suffers": """
        pain, painful, painless, itch*, burning, discomfort, symptom*, fatigue, fever*, nausea""",
    "what it sounds, smells or tastes like": """
        sings, singing, chirp*, loud, noisy, sounds, odour*, odor*, smell*, tastes, bitter, vocal*, call is, its
        call""",
    "what it does over time": """
        grows rapidly, grows quickly, grows slowly, growing rapidly, rapid growth, slow growth, rapidly growing,
        slowly growing, changes over, spreads quickly, spreads slowly, over time, over weeks, over months, over
        years, recurr*, chronic, acute, persist*, longstanding, bleeds easily, bleeds when, migrat*, hibernat*,
        heals, evolves, evolving""",
    "how it behaves or lives": """
        behaviour*, behavior*, aggressive*, hunts, hunting, feeds on, feeding on, eats, diet, builds nests, nesting,
        habitat, lives in, living in, nocturnal, territorial, forag*, timid, motile, motility, flies fast, dives""",
    "what it is for or how it works": """
        phagocyt*, immune, immunity, immunological, fights, defends, defence, defense, releases, secretes,
        secreting, produces, metabol*, functions, allerg*, antibod*, inflammatory response, responds to,
        response to""",
    "where it comes from or how it is found out": """
        caused by, causes, due to, results from, resulting from, genetic*, heredit*, mutation*, viral,
        bacterial, history, diagnos*, biops*, histolog*, blood test, sun exposure, risk of, risk factor*,
        prognos*, positive for, derived from""",
    "how common it is, or in whom": """
        common in, commonly found, commonly seen, most common, rare, rarely, prevalen*, frequent in, elderly,
        older adults, patient, patients, percent, endangered, native to, per microlitre, of all leukocytes""",
}
_KINDS = "appearance, look, feature, features, characteristics, pattern, presentation, morphology, traits, details"
_QUALITIES = (
    "typical, characteristic, distinctive, unusual, abnormal, normal, various, specific, unique, general, overall"
)
_NOTHING = """
    looks typical, looks normal, looks abnormal, looks different, looks unusual, appears normal, appears abnormal,
    appears typical, varies, variable, may vary, not applicable, see above, as above, as described"""


def _phrases(listed: str) -> list[str]:
    return [" ".join(phrase.split()) for phrase in listed.split(",")]


def _pattern(phrases: Sequence[str]) -> re.Pattern[str]:
    escaped = (re.escape(phrase).replace(r"\*", r"\w*").replace(r"\ ", r"\s+") for phrase in phrases)
    return re.compile(rf"\b(?:{'|'.join(escaped)})\b", re.IGNORECASE)


HIDDEN = {what: _pattern(_phrases(listed)) for what, listed in _HIDDEN.items()}
EMPTY = _pattern(
    [f"{quality} {kind}" for quality in _phrases(_QUALITIES) for kind in _phrases(_KINDS)] + _phrases(_NOTHING)
)


def not_visible(candidates: Sequence[Candidate]) -> dict[int, str]:
    """Candidates whose text speaks of what an image cannot show, by position, with the words that say so."""
    found: dict[int, str] = {}
    for at, each in enumerate(candidates):
        for what, pattern in HIDDEN.items():
            hit = pattern.search(each.text) or pattern.search(each.value)
            if hit:
                found[at] = f"{hit[0]!r} is about {what}, which a still image does not show"
                break
    return found


def says_nothing(candidates: Sequence[Candidate]) -> dict[int, str]:
    """Candidates that name nothing to look for."""
    found: dict[int, str] = {}
    for at, each in enumerate(candidates):
        hit = EMPTY.search(each.text) or EMPTY.fullmatch(each.value)
        if hit and not each.text[hit.end() :].lstrip().startswith("of "):  # "a normal pattern of small vessels"
            found[at] = f"{hit[0]!r} names nothing that a person could look for"
    return found
