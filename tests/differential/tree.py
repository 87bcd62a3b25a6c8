"""Statements as trees of text, so that statements with a difference can be reduced."""


class Node:
    """The parts of a node, texts and nodes, in the order of the text. `simple` has texts that may
    replace the node.
    """

    def __init__(self, *parts, simple=()):
        self.parts, self.simple = list(parts), list(simple)

    def text(self, marks=None):
        """The SQL text. With a list `marks`, values become `?` and are appended to the list."""
        return ''.join(p if isinstance(p, str) else p.text(marks) for p in self.parts)

    def nodes(self):
        """All nodes below this one, with their places: (parent, index)."""
        for i, part in enumerate(self.parts):
            if isinstance(part, Node):
                yield self, i
                yield from part.nodes()

    def candidates(self):
        """Smaller texts or nodes that may replace this node, smallest first."""
        yield from self.simple
        yield from (p for p in self.parts if isinstance(p, Node))


class Value(Node):
    """A literal. `value` is its parameter in a prepared statement; None if it stays a literal."""

    def __init__(self, literal, value=None):
        super().__init__(literal, simple=() if len(literal) < 2 else ('1', 'NULL', "''"))
        self.value = value

    def text(self, marks=None):
        if marks is None or self.value is None:
            return self.parts[0]
        marks.append(self.value)
        return '?'


class Optional(Node):
    """A clause that may be left out."""

    def __init__(self, *parts):
        super().__init__(*parts, simple=('',))

    def candidates(self):
        yield ''


def size(node):
    return len(node.text())


def shrink(root, still_differs, budget):
    """Replaces parts by smaller ones while `still_differs(root)`, in at most `budget` tries."""
    tries, again = 0, True
    while again:
        again = False
        for parent, i in list(root.nodes()):
            if i >= len(parent.parts) or not isinstance(parent.parts[i], Node):
                continue
            whole = parent.parts[i]
            for candidate in whole.candidates():
                smaller = Node(candidate) if isinstance(candidate, str) else candidate
                if size(smaller) >= size(whole):
                    continue
                if tries >= budget:
                    return
                tries += 1
                parent.parts[i] = smaller
                if still_differs(root):
                    again = True
                    break
                parent.parts[i] = whole
            if again:
                break
