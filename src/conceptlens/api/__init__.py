"""The public functions: each is an API call and a command. They import what they need when called."""

from conceptlens.api.comparing import analyze_study, compare, make_study, reproduce
from conceptlens.api.data import (
    check_concepts,
    check_data,
    detect_concepts,
    draft_concepts,
    init,
    label,
    prepare_data,
    segment_images,
)
from conceptlens.api.folders import migrate, rehash
from conceptlens.api.hub import pull, push
from conceptlens.api.inference import explain, predict, what_if
from conceptlens.api.measuring import audit, evaluate, faithfulness, interventions, leakage, localize, refine, trust
from conceptlens.api.sharing import export, make_report, serve, serve_model, share
from conceptlens.api.training import demo, encode, estimate, list_everything, load, resume, show_recipe, train

__all__ = [
    "analyze_study",
    "audit",
    "check_concepts",
    "check_data",
    "compare",
    "demo",
    "detect_concepts",
    "draft_concepts",
    "encode",
    "estimate",
    "evaluate",
    "explain",
    "export",
    "faithfulness",
    "init",
    "interventions",
    "label",
    "leakage",
    "list_everything",
    "load",
    "localize",
    "make_report",
    "make_study",
    "migrate",
    "predict",
    "prepare_data",
    "pull",
    "push",
    "refine",
    "rehash",
    "reproduce",
    "resume",
    "segment_images",
    "serve",
    "serve_model",
    "share",
    "show_recipe",
    "train",
    "trust",
    "what_if",
]
