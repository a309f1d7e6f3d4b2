"""A small VQ generator of our own: a convolutional VQ-GAN and a masked-token transformer, at most 12 MB in fp16."""
