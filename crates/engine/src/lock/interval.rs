//! A set of half-open intervals of byte strings, each with an owner, that finds the intervals
//! containing a key in logarithmic time.
//!
//! The set is a treap ordered by (low bound, slot), whose nodes know the highest high bound below
//! them (an augmented tree: Cormen et al., Introduction to Algorithms, chapter on augmenting data
//! structures). The nodes live in one vector and are named by slot, so that owners can list their
//! nodes cheaply.
use super::owner::KeyBuf;
use std::hash::{BuildHasher, RandomState};

/// The name of a node while it is in the tree.
pub(super) type Slot = u32;
const NIL: Slot = Slot::MAX;

/// A high bound. `None` is above every key.
pub(super) type High = Option<KeyBuf>;

struct Node<O> {
    low: KeyBuf,
    high: High,
    owner: O,
    priority: u32,
    left: Slot,
    right: Slot,
    /// The node with the highest high bound in the subtree of this node.
    top: Slot,
}

pub(super) struct IntervalTree<O> {
    nodes: Vec<Option<Node<O>>>,
    free: Vec<Slot>,
    root: Slot,
    seed: u32,
}

/// Whether high bound `a` is at or above `b`. `None` is the highest.
pub(super) fn high_at_least(a: &High, b: &High) -> bool {
    match (a, b) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(a), Some(b)) => a >= b,
    }
}
pub(super) fn below(key: &[u8], high: &High) -> bool {
    high.as_ref().is_none_or(|high| key < high.as_slice())
}

impl<O> IntervalTree<O> {
    pub(super) fn new() -> IntervalTree<O> {
        // A Xorshift generator goes on with any number but 0.
        let seed = RandomState::new().hash_one(0) as u32 | 1;
        IntervalTree { nodes: Vec::new(), free: Vec::new(), root: NIL, seed }
    }
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }
    pub(super) fn bounds(&self, slot: Slot) -> (&KeyBuf, &High) {
        let node = self.node(slot);
        (&node.low, &node.high)
    }

    pub(super) fn insert(&mut self, low: KeyBuf, high: High, owner: O) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            (self.nodes.len() - 1) as Slot
        });
        let node = Node {
            low,
            high,
            owner,
            priority: self.next_priority(),
            left: NIL,
            right: NIL,
            top: slot,
        };
        self.nodes[slot as usize] = Some(node);
        let (left, right) = self.split(self.root, slot);
        let left = self.merge(left, slot);
        self.root = self.merge(left, right);
        slot
    }

    pub(super) fn remove(&mut self, slot: Slot) -> (KeyBuf, High) {
        self.root = self.remove_below(self.root, slot);
        let node = self.nodes[slot as usize].take().expect("removes what is there");
        self.free.push(slot);
        if self.free.len() == self.nodes.len() && self.nodes.len() > 1024 {
            self.nodes = Vec::new();
            self.free = Vec::new();
        }
        (node.low, node.high)
    }

    /// Calls `visit` for the intervals that contain `key`, lowest first, until `visit` returns
    /// false.
    pub(super) fn stab(&self, key: &[u8], mut visit: impl FnMut(&O) -> bool) {
        self.stab_below(self.root, key, &mut visit);
    }
    fn stab_below(&self, at: Slot, key: &[u8], visit: &mut impl FnMut(&O) -> bool) -> bool {
        if at == NIL {
            return true;
        }
        let node = self.node(at);
        if !below(key, &self.node(node.top).high) {
            return true; // No interval in this subtree reaches up to the key.
        }
        if !self.stab_below(node.left, key, visit) {
            return false;
        }
        if key < node.low.as_slice() {
            return true; // No interval from here on begins at or below the key.
        }
        (!below(key, &node.high) || visit(&node.owner)) && self.stab_below(node.right, key, visit)
    }

    fn node(&self, slot: Slot) -> &Node<O> {
        self.nodes[slot as usize].as_ref().expect("links lead to nodes")
    }
    fn node_mut(&mut self, slot: Slot) -> &mut Node<O> {
        self.nodes[slot as usize].as_mut().expect("links lead to nodes")
    }
    /// A Xorshift generator. Nobody may know what it draws: a client that locks keys in the order
    /// of their priorities makes a chain of the tree, and the recursion as deep as the chain. No
    /// result depends on the shape, so every run of a simulation may have another one.
    fn next_priority(&mut self) -> u32 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 17;
        self.seed ^= self.seed << 5;
        self.seed
    }
    fn less(&self, a: Slot, b: Slot) -> bool {
        (&self.node(a).low, a) < (&self.node(b).low, b)
    }
    fn update_top(&mut self, at: Slot) {
        let node = self.node(at);
        let mut top = at;
        for child in [node.left, node.right] {
            if child != NIL {
                let candidate = self.node(child).top;
                if !high_at_least(&self.node(top).high, &self.node(candidate).high) {
                    top = candidate;
                }
            }
        }
        self.node_mut(at).top = top;
    }
    /// Splits a subtree, which does not contain `pivot`, into the nodes below `pivot` and those
    /// above.
    fn split(&mut self, at: Slot, pivot: Slot) -> (Slot, Slot) {
        if at == NIL {
            return (NIL, NIL);
        }
        if self.less(at, pivot) {
            let (left, right) = self.split(self.node(at).right, pivot);
            self.node_mut(at).right = left;
            self.update_top(at);
            (at, right)
        } else {
            let (left, right) = self.split(self.node(at).left, pivot);
            self.node_mut(at).left = right;
            self.update_top(at);
            (left, at)
        }
    }
    /// Joins two subtrees. All nodes of `a` are below all nodes of `b`.
    fn merge(&mut self, a: Slot, b: Slot) -> Slot {
        if a == NIL || b == NIL {
            return if a == NIL { b } else { a };
        }
        if self.node(a).priority > self.node(b).priority {
            let right = self.merge(self.node(a).right, b);
            self.node_mut(a).right = right;
            self.update_top(a);
            a
        } else {
            let left = self.merge(a, self.node(b).left);
            self.node_mut(b).left = left;
            self.update_top(b);
            b
        }
    }
    fn remove_below(&mut self, at: Slot, slot: Slot) -> Slot {
        assert!(at != NIL, "removes what is there");
        if at == slot {
            let node = self.node(at);
            return self.merge(node.left, node.right);
        }
        if self.less(slot, at) {
            let left = self.remove_below(self.node(at).left, slot);
            self.node_mut(at).left = left;
        } else {
            let right = self.remove_below(self.node(at).right, slot);
            self.node_mut(at).right = right;
        }
        self.update_top(at);
        at
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_plain_list_finds() {
        let mut random = super::super::tests::Random(7);
        for _ in 0..40 {
            let mut tree = IntervalTree::new();
            let mut model: Vec<(Slot, KeyBuf, High, u32)> = Vec::new();
            for step in 0..300u32 {
                if !model.is_empty() && random.below(3) == 0 {
                    let (slot, low, high, _) =
                        model.swap_remove(random.below(model.len() as u64) as usize);
                    assert_eq!(tree.remove(slot), (low, high));
                } else {
                    let low = random.key();
                    let high = if random.below(10) == 0 { None } else { Some(random.key()) };
                    let slot = tree.insert(low.clone(), high.clone(), step);
                    model.push((slot, low, high, step));
                }
                assert_eq!(tree.len(), model.len());
                let key = random.key();
                let mut found = Vec::new();
                tree.stab(&key, |owner| {
                    found.push(*owner);
                    true
                });
                found.sort_unstable();
                let mut expected: Vec<u32> =
                    model.iter().filter(|m| m.1 <= key && below(&key, &m.2)).map(|m| m.3).collect();
                expected.sort_unstable();
                assert_eq!(found, expected);
            }
        }
    }
}
