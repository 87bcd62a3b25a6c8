//! Representatives: the least of all characters that weigh the same. LIKE and LOCATE compare
//! character by character, so they need no more of a weight than whether it is the same.
use std::collections::HashMap;

use super::{Element, Table, load};

pub(super) struct Fold {
    ascii: [u32; 128],
    /// The page of every 256 code points; 0 if each stands for itself.
    pages: Box<[u16]>,
    representatives: Vec<[u32; 256]>,
    /// What all code points from here have in common, if they weigh the same.
    beyond: Option<u32>,
}

impl Fold {
    #[inline]
    pub fn of(&self, code: u32) -> u32 {
        if let Some(folded) = self.ascii.get(code as usize) {
            return *folded;
        }
        match self.pages.get((code >> 8) as usize) {
            Some(page) if *page != 0 => {
                self.representatives[usize::from(*page) - 1][(code & 0xff) as usize]
            }
            _ => self.beyond.filter(|beyond| code > *beyond).unwrap_or(code),
        }
    }

    fn set(&mut self, code: u32, folded: u32) {
        let page = &mut self.pages[(code >> 8) as usize];
        if *page == 0 {
            let first = code & !0xff;
            self.representatives.push(std::array::from_fn(|n| first + n as u32));
            *page = self.representatives.len() as u16;
        }
        let page = usize::from(*page) - 1;
        self.representatives[page][(code & 0xff) as usize] = folded;
    }
}

/// All weights of a character that count, with 0 between levels.
fn key(elements: &[Element], levels: u8) -> Vec<u16> {
    let mut key = Vec::with_capacity(elements.len() + 2);
    for level in 0..levels {
        key.extend(elements.iter().map(|e| e.weight(level)).filter(|weight| *weight != 0));
        key.push(0);
    }
    key
}

pub(super) fn of(table: &'static Table, levels: u8) -> Fold {
    let mut fold = Fold {
        ascii: std::array::from_fn(|n| n as u32),
        pages: vec![0; table.pages.len()].into(),
        representatives: Vec::new(),
        beyond: (table.version == super::Version::V400).then_some(0x10000),
    };
    let mut first: HashMap<Vec<u16>, u32> = HashMap::new();
    let in_table = (0..table.pages.len()).filter(|page| table.pages[*page] != 0);
    for code in in_table.flat_map(|page| (page << 8) as u32..((page + 1) << 8) as u32) {
        let elements = table.elements_of(code);
        let own = key(elements.as_slice(), levels);
        // An ideograph that weighs as another one, which may have no entry.
        let other = match own[..] {
            [lead, low, 0, ..] => load::unpair(lead, low),
            _ => None,
        };
        let other = other.filter(|other| key(table.elements_of(*other).as_slice(), levels) == own);
        let folded = other.unwrap_or_else(|| *first.entry(own).or_insert(code));
        if folded != code {
            fold.set(code, folded);
        }
    }
    fold.ascii = std::array::from_fn(|n| match fold.pages[0] {
        0 => n as u32,
        page => fold.representatives[usize::from(page) - 1][n],
    });
    fold
}
