"""Trees of tokens as data: shapes, one flattening, the mask, the positions, the paths. Works without torch.

A node is known by its index; every parent stands before its children, and siblings stand in the order in which they
are tried. It drafts nothing and judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

ROOT = -1  # the confirmed sequence: the parent of first guesses


@dataclass(frozen=True)
class TreeShape:
    """Where the nodes of a tree hang, without tokens. Taught in notebook 09.

    Attributes:
        parents: for each node the index of its parent, -1 for the confirmed sequence. In level order: all nodes of
            one depth stand together, in the order of their parents.

    Raises:
        ValueError: a parent that does not stand before its child, or nodes that are not in level order.

    Example:
        >>> shape = TreeShape.by_branching(2, 2)
        >>> shape.parents, shape.depths, shape.ranks
        ((-1, -1, 0, 0, 1, 1), (1, 1, 2, 2, 2, 2), (0, 1, 0, 1, 0, 1))
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parents", tuple(int(parent) for parent in self.parents))
        for node, parent in enumerate(self.parents):
            if not ROOT <= parent < node:
                raise ValueError(
                    f"parents must hold -1 or the index of an earlier node, got {parent} at [{node}]"
                )
            if node and parent < self.parents[node - 1]:
                raise ValueError(
                    f"parents must be in level order, never falling; got {parent} behind {self.parents[node - 1]} "
                    f"at [{node}]"
                )

    @classmethod
    def chain(cls, gamma: int) -> TreeShape:
        """One node under the other: what γ drafts in a row are.

        >>> TreeShape.chain(3).parents
        (-1, 0, 1)
        """
        return cls(tuple(range(-1, gamma - 1)))

    @classmethod
    def by_branching(cls, *branching: int) -> TreeShape:
        """Every node of a level has the same number of children: `by_branching(3, 2)` has 3 + 6 nodes.

        Raises `ValueError` unless there is at least one number and all are 1 or more.
        """
        if not branching or any(not isinstance(b, int) or b < 1 for b in branching):
            raise ValueError(f"branching must be one number of 1 or more for each level, got {branching}")
        parents: list[int] = []
        level = [ROOT]
        for children in branching:
            first = len(parents)
            parents += [parent for parent in level for _ in range(children)]
            level = list(range(first, len(parents)))
        return cls(tuple(parents))

    @classmethod
    def of_paths(cls, paths: Iterable[Sequence[int]]) -> TreeShape:
        """The tree that holds these paths of ranks and all their beginnings: (0, 1) is the second guess behind the
        first. This is how Medusa writes its trees.

        >>> TreeShape.of_paths([(0, 0), (1,), (0, 1)]).parents
        (-1, -1, 0, 0)
        """
        nodes = {tuple(path[:depth]) for path in paths for depth in range(1, len(path) + 1)}
        for path in nodes:
            if path[-1] > 0 and (*path[:-1], path[-1] - 1) not in nodes:
                raise ValueError(f"paths must use lower ranks first: {path} is there without the rank before")
        index = {path: number for number, path in enumerate(sorted(nodes, key=lambda p: (len(p), p)))}
        return cls(tuple(index.get(path[:-1], ROOT) for path in index))

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """1 for a first guess, 2 behind it, and so on."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return tuple(depths)

    @property
    def depth(self) -> int:
        """The longest path; 0 for an empty tree."""
        return max(self.depths, default=0)

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Which child of its parent a node is, 0 for the one that is tried first."""
        seen: dict[int, int] = {}
        ranks = []
        for parent in self.parents:
            ranks.append(seen.get(parent, 0))
            seen[parent] = ranks[-1] + 1
        return tuple(ranks)

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """Node → its children in order; -1 is the confirmed sequence."""
        children: dict[int, list[int]] = {node: [] for node in range(ROOT, len(self.parents))}
        for node, parent in enumerate(self.parents):
            children[parent].append(node)
        return {node: tuple(found) for node, found in children.items()}

    @property
    def is_chain(self) -> bool:
        """Whether no node has two children."""
        return self.parents == tuple(range(-1, len(self.parents) - 1))

    def level(self, depth: int) -> list[int]:
        """The nodes of one depth."""
        return [node for node, its in enumerate(self.depths) if its == depth]

    def path(self, node: int) -> tuple[int, ...]:
        """From a first guess down to the node, itself included.

        >>> TreeShape.by_branching(2, 2).path(4)
        (1, 4)
        """
        path = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        return tuple(reversed(path))

    def leaves(self) -> list[int]:
        """The nodes without children."""
        return [node for node in range(len(self)) if not self.children[node]]

    def mask(self) -> list[list[bool]]:
        """Row i says which nodes node i sees: its own ancestors and itself. All nodes see the confirmed sequence.

        >>> for row in TreeShape((-1, -1, 0)).mask():
        ...     print("".join("x" if seen else "." for seen in row))
        x..
        .x.
        x.x
        """
        rows = []
        for node in range(len(self)):
            row = [False] * len(self)
            for seen in self.path(node):
                row[seen] = True
            rows.append(row)
        return rows

    def positions(self, length: int) -> list[int]:
        """The position of every node behind a confirmed sequence of `length` tokens: length + depth - 1."""
        return [length + depth - 1 for depth in self.depths]

    def cut(self, depth: int) -> TreeShape:
        """The nodes down to a depth. In level order they are the first ones, with the same indices.

        >>> TreeShape.by_branching(2, 2).cut(1).parents
        (-1, -1)
        """
        if depth >= self.depth:
            return self
        return TreeShape(tuple(p for p, its in zip(self.parents, self.depths, strict=True) if its <= depth))


@dataclass(frozen=True)
class TokenTree:
    """A shape with a token at every node. Taught in notebook 09.

    Raises:
        ValueError: another number of tokens than nodes.

    Example:
        >>> tree = TokenTree(TreeShape((-1, -1, 0)), (5, 7, 9))
        >>> tree.words(2), tree.child(-1, 7), tree.child(0, 7)
        ((5, 9), 1, None)
    """

    shape: TreeShape
    tokens: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        if len(self.tokens) != len(self.shape):
            raise ValueError(
                f"tokens must hold one for each of {len(self.shape)} nodes, got {len(self.tokens)}"
            )

    @property
    def parents(self) -> tuple[int, ...]:
        """As in the shape."""
        return self.shape.parents

    @property
    def depths(self) -> tuple[int, ...]:
        """As in the shape."""
        return self.shape.depths

    def words(self, node: int) -> tuple[int, ...]:
        """The tokens on the path down to a node."""
        return tuple(self.tokens[i] for i in self.shape.path(node))

    def child(self, node: int, token: int) -> int | None:
        """The first child of `node` that holds this token, or None."""
        return next((i for i in self.shape.children[node] if self.tokens[i] == token), None)


def as_shape(tree: TreeShape | Sequence[int] | Sequence[Sequence[int]]) -> TreeShape:
    """A shape from itself, from branching factors (3, 2, 1), or from paths of ranks ((0,), (0, 0), (1,)).

    >>> as_shape((2, 1)).parents, as_shape([(0,), (1,)]).parents
    ((-1, -1, 0, 1), (-1, -1))
    """
    if isinstance(tree, TreeShape):
        return tree
    if not isinstance(tree, Sequence) or isinstance(tree, (str, bytes)) or not tree:
        raise TypeError(
            f"tree must be a TreeShape, branching factors such as (3, 2, 1), or paths of ranks, got {tree!r}"
        )
    if all(isinstance(part, Sequence) for part in tree):
        return TreeShape.of_paths(tree)
    return TreeShape.by_branching(*tree)
