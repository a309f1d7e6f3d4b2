"""Spherical bisecting k-means, the largest cluster first (GIG paper, App. B), many splits at a time.

All vectors are one cluster; again and again the largest is split in two by spherical 2-means, until there are k.

It is fast because a split depends on nothing but the cluster's members. So clusters need not be split one after the
other: a cluster is always smaller than the one it came from, hence splitting the largest first, k − 1 times, means to
split the k − 1 largest clusters of the whole tree of splits, whenever each was done. Large clusters are split one by
one. Clusters of a few hundred are split many at a time, on inner products: these are computed once and serve all the
way down, as a cluster's are part of its parent's. A few splits too many at the end are undone.
"""

from heapq import heappop, heappush

import torch
from torch import Tensor

from conceptlens.core.errors import UserError

STARTS = 4  # of 2-means of small clusters, of which the best is kept; together they cost little more than one
MOST_ITERATIONS = 30
SMALL = 256  # below this, inner products
MOST_PRODUCTS = 2**24  # inner products that are worked on at once
EIGHTH = 64  # the smallest part of a large cluster that is worth a search of its own
LEFT = 0.005  # of a large cluster, the share that may still change sides when 2-means ends
SAME = 1e-5  # cosines that differ by less, relatively, are those of one direction


def bisect(vectors: Tensor, k: int, length: Tensor | None = None, *, seed: int = 0, small: int = SMALL) -> Tensor:
    """Labels (N,) of k clusters of directions (N, C): always the largest is split, ties by the first member.

    Args:
        vectors: Rows, of unit length unless `length` is given.
        k: Clusters.
        length: (N, 1) by which rows are divided.
        seed: The order of vectors, which decides where 2-means starts.
        small: Clusters up to this size are split many at a time.
    """
    n = len(vectors)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).to(vectors.device)
    unit = vectors.index_select(0, order)
    if length is not None:
        unit /= length[order]
    tree = _Tree(n)
    leaves = _split_large(tree, unit, k, small)
    if leaves:
        _split_small(tree, leaves, k)
    kept = tree.largest_first(k)
    labels = torch.empty(n, dtype=torch.int64, device=vectors.device)
    labels[order] = kept.to(vectors.device)
    return labels


class _Tree:
    """The splits so far. Node 0 is everything; a node's rows are positions in the shuffled order, ascending."""

    def __init__(self, n: int) -> None:
        self.parent = [-1]
        self.size = [n]
        self.first = [0]  # the first row of each node: unique among nodes of one moment, so that no two tie
        self.children: dict[int, tuple[int, int]] = {}
        self.whole: set[int] = set()  # nodes whose members all point the same way
        self.rows: dict[int, Tensor] = {}  # of leaves at the end

    def key(self, node: int) -> tuple[int, int]:
        """Smaller is split sooner."""
        return -self.size[node], self.first[node]

    def split(self, node: int, parts: tuple[tuple[int, int], tuple[int, int]]) -> tuple[int, int]:
        """Children of a node, given size and first row of both."""
        pair = len(self.parent), len(self.parent) + 1
        for size, first in parts:
            self.parent.append(node)
            self.size.append(size)
            self.first.append(first)
        self.children[node] = pair
        return pair

    def largest_first(self, k: int) -> Tensor:
        """Labels (N,) of the rows if only the k − 1 largest nodes are split."""
        order = sorted(self.children, key=self.key)
        if len(order) < k - 1:
            found = len(order) + 1
            raise UserError(
                f"Clusters: the vectors have only {found} different directions, so that {k} clusters cannot be made. "
                "Are the features constant? Ask for fewer clusters, or sample other vectors."
            )
        kept = set(order[: k - 1])
        stands_for = [0] * len(self.parent)  # the final cluster that a node lies in; parents come before children
        for node in range(1, len(self.parent)):
            parent = self.parent[node]
            stands_for[node] = node if parent in kept else stands_for[parent]
        numbers = {node: number for number, node in enumerate(sorted({stands_for[leaf] for leaf in self.rows}))}
        labels = torch.empty(self.size[0], dtype=torch.int64)
        for leaf, rows in self.rows.items():
            labels[rows] = numbers[stands_for[leaf]]
        return labels


def _split_large(tree: _Tree, unit: Tensor, k: int, small: int) -> dict[int, Tensor]:
    """Split one after the other, the largest first, until all are small; returns the vectors of the small leaves.

    A cluster's vectors are one stretch of one of two buffers, and its parts take the same stretch of the other: fresh
    memory would cost more than the search itself.
    """
    buffers = [unit, torch.empty_like(unit) if len(unit) > small and k > 1 else unit]
    rows = {0: torch.arange(len(unit))}
    place = {0: (0, 0)}  # buffer, first row
    sums = {0: unit.sum(0)}
    heap = [(*tree.key(0), 0)]
    while heap and len(tree.children) < k - 1 and -heap[0][0] > small:
        node = heappop(heap)[-1]
        here, begin = place[node]
        mine = buffers[here][begin : begin + tree.size[node]]
        found = _two_means(mine, sums[node])
        if found is None:
            tree.whole.add(node)
            continue
        side, one = found
        parts = [torch.nonzero(where).flatten() for where in (side, ~side)]
        members = [rows[node][part.cpu()] for part in parts]
        pair = tree.split(node, ((len(members[0]), int(members[0][0])), (len(members[1]), int(members[1][0]))))
        for child, part, member, total in zip(pair, parts, members, (one, sums[node] - one), strict=True):
            target = buffers[1 - here][begin : begin + len(part)]
            torch.index_select(mine, 0, part, out=target)
            rows[child], place[child], sums[child] = member, (1 - here, begin), total
            begin += len(part)
            heappush(heap, (*tree.key(child), child))
        del rows[node], place[node], sums[node]
    tree.rows = rows
    if len(tree.children) >= k - 1:
        return {}
    views = {node: buffers[here][begin : begin + tree.size[node]] for node, (here, begin) in place.items()}
    return {node: view for node, view in views.items() if node not in tree.whole}


def _two_means(vectors: Tensor, total: Tensor) -> tuple[Tensor, Tensor] | None:
    """Spherical 2-means of (n, C), whose sum is `total`: on which side each vector is, and the sum of that side.

    Vectors are in random order. A large cluster starts where the first eighth of it ended, a small one from its first
    two vectors; it ends when hardly any vector changes sides. Once few do, only those are added and subtracted.

    Returns:
        None if all point the same way.
    """
    n = len(vectors)
    found = _search(vectors, total)
    if found is not None:
        return found
    cosine = vectors @ total
    if cosine.max() - cosine.min() <= SAME * cosine.abs().max():
        return None
    side = torch.ones(n, dtype=torch.bool, device=vectors.device)  # the one farthest from the mean, alone
    farthest = cosine.argmin()
    side[farthest] = False
    return side, total - vectors[farthest]


def _search(vectors: Tensor, total: Tensor) -> tuple[Tensor, Tensor] | None:
    """2-means; None if a side is empty."""
    n = len(vectors)
    toward = vectors[0] - vectors[1]
    if n >= 8 * EIGHTH:
        eighth = vectors[: n // 8]
        some = eighth.sum(0)
        before = _search(eighth, some)
        if before is not None:
            toward = _unit(before[1]) - _unit(some - before[1])
    side = torch.zeros(n, dtype=torch.bool, device=vectors.device)
    one = torch.zeros_like(total)  # sum of those on the side
    for _ in range(MOST_ITERATIONS):
        now = vectors @ toward >= 0
        moved = now != side
        number = int(moved.sum())
        if number * 4 > n:
            one = now.to(vectors.dtype) @ vectors
        elif number:
            places = torch.nonzero(moved).flatten()
            one = one + (2 * now[places].to(vectors.dtype) - 1) @ vectors.index_select(0, places)
        side = now
        if number <= n * LEFT:
            break
        toward = _unit(one) - _unit(total - one)
    return (side, one) if 0 < int(side.sum()) < n else None


def _unit(vector: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(vector)
    return vector / length.clamp_min(torch.finfo(vector.dtype).tiny)


def _split_small(tree: _Tree, leaves: dict[int, Tensor], k: int) -> None:
    """Split clusters of a few hundred vectors, many at a time, until no other could be among the k − 1 largest."""
    pool = _Pool(tree, leaves)
    open_ = {node: tree.key(node) for node in leaves if tree.size[node] > 1}
    done = sorted(tree.key(node) for node in tree.children)
    while open_:
        left = k - 1 - len(done)
        if left > 0:
            largest = -min(open_.values())[0]
            now = [node for node, key in open_.items() if -key[0] > largest // 2]
            now = sorted(now, key=tree.key)[:left]
        else:
            now = [node for node, key in open_.items() if key < done[k - 2]]
        if not now:
            break
        for node in now:
            del open_[node]
        for child in pool.split(now):
            if tree.size[child] > 1:
                open_[child] = tree.key(child)
        done = sorted([*done, *(tree.key(node) for node in now if node in tree.children)])
    pool.write_rows()


class _Pool:
    """Inner products of small clusters in blocks (b, n, n), some clusters in each block.

    The members of a cluster are one stretch of `members`, which holds their places in the blocks, in order; a split
    rearranges that stretch into two.
    """

    def __init__(self, tree: _Tree, leaves: dict[int, Tensor]) -> None:
        self.tree = tree
        self.side = max(tree.size[node] for node in leaves)
        bins: list[list[int]] = []
        free = 0
        for node in sorted(leaves, key=tree.key):
            if not bins or tree.size[node] > free:
                bins.append([])
                free = self.side
            bins[-1].append(node)
            free -= tree.size[node]
        example = next(iter(leaves.values()))
        self.products = example.new_zeros(len(bins), self.side, self.side)
        self.begin: dict[int, int] = {}  # of a cluster's stretch
        members, rows, at_once = [], [], 32  # blocks at a time: all vectors twice in memory would be too much
        vectors = example.new_zeros(min(len(bins), at_once), self.side, example.shape[1])
        begin = 0
        for first in range(0, len(bins), at_once):
            some = bins[first : first + at_once]
            vectors.zero_()
            for number, nodes in enumerate(some):
                at = 0
                for node in nodes:
                    size = tree.size[node]
                    vectors[number, at : at + size] = leaves[node]
                    members.append(torch.arange(at, at + size) + (first + number) * self.side)
                    rows.append(tree.rows.pop(node))
                    self.begin[node] = begin
                    at, begin = at + size, begin + size
            torch.bmm(vectors[: len(some)], vectors[: len(some)].mT, out=self.products[first : first + len(some)])
        self.members = torch.cat(members).to(example.device)
        self.rows = torch.full((len(bins) * self.side,), -1, device=example.device)  # of each place in the blocks
        self.rows[self.members] = torch.cat(rows).to(example.device)

    def split(self, nodes: list[int]) -> list[int]:
        """Split clusters in two; returns the new ones."""
        made: list[int] = []
        few = max(1, MOST_PRODUCTS // max(self.tree.size[node] for node in nodes) ** 2)
        for first in range(0, len(nodes), few):
            made += self._split(nodes[first : first + few])
        return made

    def _split(self, nodes: list[int]) -> list[int]:
        tree, device = self.tree, self.members.device
        sizes = torch.tensor([tree.size[node] for node in nodes], device=device)
        begins = torch.tensor([self.begin[node] for node in nodes], device=device)
        place = torch.arange(int(sizes.max()), device=device)
        held = place < sizes[:, None]  # (c, m)
        stretch = torch.where(held, begins[:, None] + place, begins[:, None])
        member = self.members[stretch]
        products = self._of(member) * (held[:, :, None] & held[:, None, :])
        side, good = _two_means_of_products(products, held, sizes)
        # A stable partition of each stretch: how many came before, on the same side.
        ones = side.sum(1, keepdim=True)
        target = torch.where(side, side.cumsum(1) - 1, ones + (held & ~side).cumsum(1) - 1) + begins[:, None]
        self.members[target[held]] = member[held]
        rows = self.rows[member]
        first_of = [torch.where(part, rows, tree.size[0]).amin(1).tolist() for part in (side, held & ~side)]
        return self._name(nodes, ones.flatten().tolist(), first_of, good.tolist())

    def _of(self, member: Tensor) -> Tensor:
        """Inner products (c, m, m) of the vectors at places (c, m)."""
        clusters, width = member.shape
        columns = (member % self.side)[:, None].expand(-1, width, -1)
        if width * 3 > self.side:  # whole rows first: copying is faster than picking
            rows = self.products.view(-1, self.side).index_select(0, member.flatten())
            return rows.view(clusters, width, self.side).gather(2, columns)
        picked = (member * self.side)[:, :, None] + columns
        return self.products.view(-1).index_select(0, picked.flatten()).view(clusters, width, width)

    def _name(self, nodes: list[int], ones: list[int], first_of: list[list[int]], good: list[bool]) -> list[int]:
        tree = self.tree
        made: list[int] = []
        for number, node in enumerate(nodes):
            if not good[number]:
                tree.whole.add(node)
                continue
            size, begin = ones[number], self.begin[node]
            other = tree.size[node] - size
            pair = tree.split(node, ((size, first_of[0][number]), (other, first_of[1][number])))
            self.begin[pair[0]], self.begin[pair[1]] = begin, begin + size
            made.extend(pair)
        return made

    def write_rows(self) -> None:
        """Tell the tree which rows its leaves hold."""
        rows = self.rows[self.members].cpu()
        for node, begin in self.begin.items():
            if node not in self.tree.children:
                self.tree.rows[node] = rows[begin : begin + self.tree.size[node]]


def _two_means_of_products(products: Tensor, held: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Spherical 2-means of many clusters at once, from several starts, of which the best is kept.

    Args:
        products: (c, m, m) inner products; zero beyond a cluster's size.
        held: (c, m) whether a place holds a vector.
        sizes: (c,), 2 or more.

    Returns:
        The side of each vector (c, m), and whether each cluster (c,) could be split.
    """
    starts = 2 * torch.arange(STARTS, device=sizes.device)
    pairs = torch.stack([starts % sizes[:, None], (starts + 1) % sizes[:, None]])  # (2, c, s)
    rows = products.gather(1, pairs.transpose(0, 1).reshape(len(sizes), -1, 1).expand(-1, -1, products.shape[2]))
    margin = rows[:, :STARTS] - rows[:, STARTS:]  # (c, s, m)
    inside = held[:, None]
    side = (margin >= 0) & inside
    everything = products.sum(1, keepdim=True)
    tiny = torch.finfo(products.dtype).tiny
    for _ in range(MOST_ITERATIONS):
        one = torch.bmm(side.to(products.dtype), products)  # products with the sum of each side
        two = everything - one
        sides = (one, side), (two, inside & ~side)
        lengths = [(part * where).sum(2, keepdim=True).clamp_min(tiny).sqrt() for part, where in sides]
        now = (one / lengths[0] >= two / lengths[1]) & inside
        if not bool((now != side).any()):
            break
        side = now
    ones = side.sum(2)
    value = (lengths[0] + lengths[1]).squeeze(2)
    value = torch.where((ones > 0) & (ones < sizes[:, None]), value, torch.full_like(value, -1))
    best = value.max(1)
    side = side[torch.arange(len(sizes), device=sizes.device), best.indices]
    failed = best.values < 0
    if not bool(failed.any()):
        return side, ~failed
    # Where every start left a side empty: the vector farthest from the mean alone, unless all are the same.
    cosine = everything.squeeze(1)
    far = torch.where(held, cosine, torch.inf)
    near = torch.where(held, cosine, -torch.inf).amax(1)
    same = near - far.amin(1) <= SAME * torch.maximum(near.abs(), far.amin(1).abs())
    alone = held & (torch.arange(held.shape[1], device=sizes.device) != far.argmin(1, keepdim=True))
    return torch.where((failed & ~same)[:, None], alone, side), ~(failed & same)
