"""What `sparsity.py` compares, and where; its tables read it, too."""

# Concepts a vector of the clusters in the paper's Table 1: its share of zeros of 8 C concepts.
PAPER_USED = {
    "layer1.1": 10.9, "layer2.0": 14.7, "layer2.2": 16.0, "layer3.0": 23.8,
    "layer3.2": 27.0, "layer3.4": 31.1, "layer4.0": 52.4, "layer4.2": 104.9,
}  # fmt: skip
TIMES = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
MAKERS = ("clusters", "clusters, unit means", "dictionary learning", "sparse autoencoder")
