"""A sparse linear head: elastic-net multinomial regression along a path of λ, and the weights at a wanted NEC."""

from conceptlens.nn.sparse_head.head import SparseHead, SparsePath
from conceptlens.nn.sparse_head.nec import concepts_per_class, nec
from conceptlens.nn.sparse_head.path import fit_elastic_net, fit_path

__all__ = ["SparseHead", "SparsePath", "concepts_per_class", "fit_elastic_net", "fit_path", "nec"]
