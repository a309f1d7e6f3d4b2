"""Names for things that are imported only when asked for, so that `--help` stays instant."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from conceptlens.core.errors import unknown_name


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
        "ivq-cbm": "conceptlens.methods.ivq_cbm:IVQCBM",
        "ivq-cbm-released": "conceptlens.methods.ivq_cbm:IVQCBM",
        "magnet-cbm": "conceptlens.methods.ivq_cbm:IVQCBM",
        "cbm": "conceptlens.methods.cbm:CBM",
        "cbm-sequential": "conceptlens.methods.cbm:CBM",
        "cbm-independent": "conceptlens.methods.cbm:CBM",
        "explicd": "conceptlens.methods.explicd:Explicd",
        "explicd-released": "conceptlens.methods.explicd:Explicd",
        "zero-shot": "conceptlens.methods.zero_shot:ZeroShot",
        "black-box": "conceptlens.methods.black_box:BlackBox",
        "pcbm": "conceptlens.methods.pcbm:PCBM",
        "pcbm-h": "conceptlens.methods.pcbm:PCBM",
        "pcbm-text": "conceptlens.methods.pcbm:PCBMText",
        "pcbm-text-h": "conceptlens.methods.pcbm:PCBMText",
        "lf-cbm": "conceptlens.methods.lf_cbm:LFCBM",
        "dot-cbm": "conceptlens.methods.dot_cbm:DOTCBM",
        "labo": "conceptlens.methods.labo:LaBo",
        "labo-released": "conceptlens.methods.labo:LaBo",
        "cem": "conceptlens.methods.cem:CEM",
        "coop-cbm": "conceptlens.methods.coop_cbm:CoopCBM",
        "coop-cbm-released": "conceptlens.methods.coop_cbm:CoopCBM",
        "mvp-cbm": "conceptlens.methods.mvp_cbm:MVPCBM",
        "mvp-cbm-released": "conceptlens.methods.mvp_cbm:MVPCBM",
        "clear": "conceptlens.methods.clear:CLEAR",
        "pf-cbm": "conceptlens.methods.pf_cbm.pf_cbm:PFCBM",
        "pf-cbm-sequential": "conceptlens.methods.pf_cbm.pf_cbm:PFCBM",
    },
)

REGULARISERS = Registry(
    "regulariser",
    {
        "none": "conceptlens.nn.regularizers.regularizer:NoRegulariser",
        "ivq": "conceptlens.nn.quantization.quantization:ImplicitVQ",
        "explicit-vq": "conceptlens.nn.quantization.quantization:ExplicitVQ",
        "explicit-vq-ema": "conceptlens.nn.quantization.library_vq:EmaVQ",
        "explicit-vq-rotation": "conceptlens.nn.quantization.library_vq:RotationVQ",
        "barlow-twins": "conceptlens.nn.regularizers.barlow_twins:BarlowTwins",
        "spectral-norm": "conceptlens.nn.regularizers.spectral_norm:SpectralNorm",
        "gram": "conceptlens.nn.regularizers.gram:Gram",
        "l2": "conceptlens.nn.quantization.quantization:PlainL2",
    },
)
