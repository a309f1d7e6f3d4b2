"""Names for things that are imported only when asked for, so that `--help` stays instant."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from conceptlens.errors import unknown_name


class Registry:
    """Name → `module:attribute`. A new entry is one line; what it names is one file."""

    def __init__(self, kind: str, entries: Mapping[str, str]) -> None:
        self.kind, self.entries = kind, dict(entries)

    def names(self) -> list[str]:
        return sorted(self.entries)

    def get(self, name: str) -> Any:
        if name not in self.entries:
            raise unknown_name(self.kind, name, self.entries)
        module, attribute = self.entries[name].split(":")
        return getattr(import_module(module), attribute)


METHODS = Registry(
    "method",
    {
        "ivq-cbm": "conceptlens.models.ivq_cbm:IVQCBM",
        "ivq-cbm-released": "conceptlens.models.ivq_cbm:IVQCBM",
        "magnet-cbm": "conceptlens.models.ivq_cbm:IVQCBM",
        "cbm": "conceptlens.models.cbm:CBM",
        "cbm-sequential": "conceptlens.models.cbm:CBM",
        "cbm-independent": "conceptlens.models.cbm:CBM",
        "explicd": "conceptlens.models.explicd:Explicd",
        "explicd-released": "conceptlens.models.explicd:Explicd",
        "zero-shot": "conceptlens.models.zero_shot:ZeroShot",
        "black-box": "conceptlens.models.black_box:BlackBox",
        "pcbm": "conceptlens.models.pcbm:PCBM",
        "pcbm-h": "conceptlens.models.pcbm:PCBM",
        "pcbm-text": "conceptlens.models.pcbm:PCBMText",
        "pcbm-text-h": "conceptlens.models.pcbm:PCBMText",
        "lf-cbm": "conceptlens.models.lf_cbm:LFCBM",
        "dot-cbm": "conceptlens.models.dot_cbm:DOTCBM",
        "labo": "conceptlens.models.labo:LaBo",
        "labo-released": "conceptlens.models.labo:LaBo",
        "cem": "conceptlens.models.cem:CEM",
        "coop-cbm": "conceptlens.models.coop_cbm:CoopCBM",
        "coop-cbm-released": "conceptlens.models.coop_cbm:CoopCBM",
        "mvp-cbm": "conceptlens.models.mvp_cbm:MVPCBM",
        "mvp-cbm-released": "conceptlens.models.mvp_cbm:MVPCBM",
        "clear": "conceptlens.models.clear:CLEAR",
        "pf-cbm": "conceptlens.models.pf_cbm:PFCBM",
        "pf-cbm-sequential": "conceptlens.models.pf_cbm:PFCBM",
    },
)

REGULARISERS = Registry(
    "regulariser",
    {
        "none": "conceptlens.bottleneck.regulariser:NoRegulariser",
        "ivq": "conceptlens.bottleneck.quantisation:ImplicitVQ",
        "explicit-vq": "conceptlens.bottleneck.quantisation:ExplicitVQ",
        "explicit-vq-ema": "conceptlens.bottleneck.library_vq:EmaVQ",
        "explicit-vq-rotation": "conceptlens.bottleneck.library_vq:RotationVQ",
        "barlow-twins": "conceptlens.bottleneck.barlow_twins:BarlowTwins",
        "spectral-norm": "conceptlens.bottleneck.spectral_norm:SpectralNorm",
        "gram": "conceptlens.bottleneck.gram:Gram",
        "l2": "conceptlens.bottleneck.quantisation:PlainL2",
    },
)
