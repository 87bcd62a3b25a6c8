//! The items of a GROUP_CONCAT with ORDER BY: their sort keys and texts, one after another in one
//! buffer.
use super::Env;
use super::stepped_sort::sort_in_steps;
use crate::error::Result;

#[derive(Default)]
pub struct ConcatItems {
    bytes: Vec<u8>,
    items: Vec<Item>,
}
/// The place of an item: its key, and its text behind the key.
#[derive(Clone, Copy)]
struct Item {
    start: usize,
    text: usize,
    end: usize,
}

impl ConcatItems {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// The bytes that the items hold.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.items.capacity() * size_of::<Item>()
    }
    /// Adds an item. `write_key` appends its key.
    pub fn push(
        &mut self,
        text: &[u8],
        write_key: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let start = self.bytes.len();
        write_key(&mut self.bytes)?;
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(text);
        self.items.push(Item { start, text: key_end, end: self.bytes.len() });
        Ok(())
    }
    /// The texts in their order. They are there after [`Self::sort`].
    pub fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.items.iter().map(|item| &self.bytes[item.text..item.end])
    }
    /// Sorts the items by their keys. Items with equal keys stay in the order in which they came.
    pub fn sort(&mut self, env: &mut Env<'_>) -> Result<()> {
        let ConcatItems { bytes, items } = self;
        env.keeps(bytes.len());
        sort_in_steps(items, |item| &bytes[item.start..item.text], |a, b| a.cmp(b), env)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::env::{NoVariables, StatementSettings};
    use crate::exec::fixture::Server;
    use crate::processes::Kill;

    /// `n` items whose keys come twice, from the greatest on.
    fn items(n: u32) -> ConcatItems {
        let mut items = ConcatItems::default();
        for i in 0..n {
            let write_key = |key: &mut Vec<u8>| {
                key.extend_from_slice(&((n - i) / 2).to_be_bytes());
                Ok(())
            };
            items.push(i.to_string().as_bytes(), write_key).unwrap();
        }
        items
    }

    #[test]
    fn items_are_sorted_step_by_step() {
        let server = Server::new();
        let mut session = server.session();
        let process = session.state.process.clone();
        let (disk, settings) = (server.engine.disk.clone(), StatementSettings::default());
        let mut env = Env::new(&mut session.state, &NoVariables, &*disk, settings);
        for n in [0, 1, 2, 255, 256, 257, 5000] {
            let mut items = items(n);
            let mut wanted: Vec<u32> = (0..n).collect();
            wanted.sort_by_key(|i| (n - i) / 2);
            items.sort(&mut env).unwrap();
            let sorted = items.texts().map(|text| String::from_utf8_lossy(text).into_owned());
            assert!(sorted.eq(wanted.iter().map(u32::to_string)), "{n}");
            assert!(items.memory() >= n as usize * size_of::<Item>() + items.bytes.len());
        }
        assert_eq!(env.held(), 0);
        process.kill(Kill::Query);
        assert_eq!(items(5000).sort(&mut env).unwrap_err().code, 1317);
    }
}
