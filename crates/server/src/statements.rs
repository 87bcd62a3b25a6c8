//! What the protocol keeps for a connection's prepared statements: the number of parameters, the
//! types with which they were last bound, and long data.
//!
//! STMT-1: a handle costs 8 bytes here (sysbench holds 288,000 handles). So each list of parameter
//! types is kept once per connection, and handles refer to it by number.
//! STMT-2: the long data of all statements together, including an entry for each parameter, takes
//! at most `max_allowed_packet` bytes.
//! It is counted by the memory that it takes (CONN-4), which may be more.
//! STMT-3: the lists of parameter types take at most `TYPE_LISTS_BYTES`.
use crate::cursor::Cursor;
use crate::error;
use crate::protocol::parameters::ParameterType;
use hashbrown::HashMap;
use redolith_sql::SqlError;
use redolith_sql::memory::Account;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
pub struct Statement {
    pub params: u16,
    /// The number of a type list, from 1. 0 if the statement was never bound.
    types: u16,
}

/// The overhead that is counted for each parameter's long data, because clients may send long data
/// without bytes.
const ENTRY_BYTES: usize = 48;
/// Long data that grows gets room for this part of its length more than it needs.
const GROWTH_PART: usize = 8;

/// The long data of one statement by parameter, ascending. An execution takes it out of
/// [`Statements`].
#[derive(Debug, Default)]
pub struct TakenLongData(Vec<(u16, Vec<u8>)>);
impl TakenLongData {
    pub fn of(&self, parameter: usize) -> Option<&[u8]> {
        let at = self.0.binary_search_by_key(&parameter, |(p, _)| *p as usize).ok()?;
        Some(&self.0[at].1)
    }
}

#[derive(Default)]
pub struct Statements {
    map: HashMap<u32, Statement>,
    type_lists: Vec<Box<[ParameterType]>>,
    type_lists_bytes: usize,
    /// The long data by statement and parameter.
    long_data: HashMap<u32, BTreeMap<u16, Vec<u8>>>,
    long_data_bytes: usize,
    /// The memory of the long data, with the overhead.
    long_data_memory: usize,
    /// The error with which a statement's next execution fails: its long data was too long, or was
    /// for a parameter that the statement does not have.
    long_data_failed: HashMap<u32, SqlError>,
    /// The open cursors by statement.
    cursors: HashMap<u32, Box<Cursor>>,
}

/// The number of distinct type lists that a connection may have. Before one list more is added, all
/// lists are dropped, with the bindings that use them.
const MAX_TYPE_LISTS: usize = 4096;
/// The bytes that the type lists may take: enough for a few dozen of the longest.
const TYPE_LISTS_BYTES: usize = 4 << 20;

impl Statements {
    pub fn add(&mut self, id: u32, params: u16) {
        self.map.insert(id, Statement { params, types: 0 });
    }
    pub fn get(&self, id: u32) -> Option<Statement> {
        self.map.get(&id).copied()
    }
    pub fn remove(&mut self, id: u32) -> bool {
        self.forget_long_data(id);
        self.close_cursor(id);
        self.map.remove(&id).is_some()
    }
    pub fn len(&self) -> usize {
        self.map.len()
    }
    /// Forgets all statements.
    pub fn clear(&mut self) {
        *self = Statements::default();
    }

    /// The types with which the statement was last bound.
    pub fn types(&self, s: Statement) -> Option<&[ParameterType]> {
        Some(&self.type_lists[(s.types as usize).checked_sub(1)?])
    }
    /// Keeps the types sent with an execution, for later executions that send none.
    pub fn bind(
        &mut self,
        id: u32,
        types: impl ExactSizeIterator<Item = ParameterType> + Clone,
    ) -> Statement {
        let known = |list: &[ParameterType]| {
            list.len() == types.len() && list.iter().copied().eq(types.clone())
        };
        let s = self.map.get(&id).copied().unwrap_or(Statement { params: 0, types: 0 });
        if self.types(s).is_some_and(known) {
            return s;
        }
        let at = match self.type_lists.iter().position(|l| known(l)) {
            Some(at) => at,
            None => {
                let bytes = types.len() * size_of::<ParameterType>();
                if self.type_lists.len() == MAX_TYPE_LISTS
                    || self.type_lists_bytes + bytes > TYPE_LISTS_BYTES
                {
                    self.type_lists = Vec::new();
                    self.type_lists_bytes = 0;
                    self.map.values_mut().for_each(|s| s.types = 0);
                }
                self.type_lists_bytes += bytes;
                self.type_lists.push(types.clone().collect());
                self.type_lists.len() - 1
            }
        };
        let s = Statement { types: at as u16 + 1, ..s };
        self.map.insert(id, s);
        s
    }

    /// COM_STMT_SEND_LONG_DATA. The command has no answer, so a failure is reported by the next
    /// execution. `memory` is charged what the data takes more than before.
    pub fn add_long_data(
        &mut self,
        id: u32,
        parameter: u16,
        bytes: &[u8],
        max_bytes: usize,
        memory: &mut Account,
    ) {
        let Some(s) = self.get(id) else { return };
        let known = self.long_data.get_mut(&id).and_then(|data| data.get_mut(&parameter));
        let entry = if known.is_some() { 0 } else { ENTRY_BYTES };
        let (len, capacity) = known.as_ref().map_or((0, 0), |data| (data.len(), data.capacity()));
        let needed = len + bytes.len();
        if parameter >= s.params || self.long_data_bytes + entry + bytes.len() > max_bytes {
            return self.refuse_long_data(id, error::long_data_too_long());
        }
        // Data that comes in many pieces is not moved for each of them. It never takes much more
        // than it has bytes, because much of it may be kept for long.
        let room = if needed > capacity { needed + len / GROWTH_PART } else { capacity };
        if let Err(e) = memory.charge(entry + room - capacity) {
            return self.refuse_long_data(id, e);
        }
        let data = match known {
            Some(data) => data,
            None => self.long_data.entry(id).or_default().entry(parameter).or_default(),
        };
        data.reserve_exact(room - len);
        data.extend_from_slice(bytes);
        self.long_data_bytes += entry + bytes.len();
        self.long_data_memory += entry + data.capacity() - capacity;
    }
    /// Makes the statement's next execution fail with the error `why`.
    pub fn refuse_long_data(&mut self, id: u32, why: SqlError) {
        if self.map.contains_key(&id) {
            self.long_data_failed.entry(id).or_insert(why);
        }
    }
    /// The memory of long data and type lists, without the handles.
    pub fn bytes(&self) -> usize {
        self.long_data_memory + self.type_lists_bytes
    }
    /// Takes the statement's long data for an execution, or returns the error of sending it.
    pub fn take_long_data(&mut self, id: u32) -> Result<TakenLongData, SqlError> {
        if self.long_data.is_empty() && self.long_data_failed.is_empty() {
            return Ok(TakenLongData::default());
        }
        let taken: Vec<(u16, Vec<u8>)> = self.long_data.remove(&id).into_iter().flatten().collect();
        self.long_data_bytes -=
            taken.iter().map(|(_, data)| ENTRY_BYTES + data.len()).sum::<usize>();
        self.long_data_memory -=
            taken.iter().map(|(_, data)| ENTRY_BYTES + data.capacity()).sum::<usize>();
        self.long_data_failed.remove(&id).map_or(Ok(TakenLongData(taken)), Err)
    }
    /// COM_STMT_RESET: drops the statement's long data and its error.
    pub fn forget_long_data(&mut self, id: u32) {
        let _ = self.take_long_data(id);
    }

    pub fn keep_cursor(&mut self, id: u32, cursor: Box<Cursor>) {
        self.cursors.insert(id, cursor);
    }
    /// Takes the statement's cursor out for COM_STMT_FETCH.
    pub fn take_cursor(&mut self, id: u32) -> Option<Box<Cursor>> {
        self.cursors.remove(&id)
    }
    /// Drops the statement's cursor, if it has one.
    pub fn close_cursor(&mut self, id: u32) {
        if !self.cursors.is_empty() {
            self.cursors.remove(&id);
        }
    }
    /// The number of cursors that have files.
    pub fn cursor_files(&self) -> usize {
        self.cursors.values().filter(|cursor| cursor.has_file()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_sql::memory::ServerMemory;

    fn ty(field_type: u8) -> ParameterType {
        ParameterType { field_type, unsigned: false }
    }

    /// Tests STMT-1.
    #[test]
    fn a_handle_is_small() {
        assert_eq!(size_of::<(u32, Statement)>(), 8);
    }

    #[test]
    fn types_are_remembered_and_shared() {
        let mut s = Statements::default();
        for id in 1..=100 {
            s.add(id, 2);
            assert_eq!(s.types(s.get(id).unwrap()), None);
            s.bind(id, [ty(3), ty(253)].into_iter());
        }
        assert_eq!(s.type_lists.len(), 1);
        let bound = s.bind(7, [ty(8), ty(253)].into_iter());
        assert_eq!(s.types(bound), Some(&[ty(8), ty(253)][..]));
        assert_eq!(s.types(s.get(8).unwrap()), Some(&[ty(3), ty(253)][..]));
        assert_eq!((s.len(), s.remove(7), s.remove(7), s.len()), (100, true, false, 99));
        s.clear();
        assert_eq!(s.len(), 0);
    }

    #[test]
    fn endless_new_type_lists_stay_bounded() {
        let mut s = Statements::default();
        s.add(1, 2);
        for i in 0..3 * MAX_TYPE_LISTS {
            let bound = s.bind(1, [ty(i as u8), ty((i >> 8) as u8)].into_iter());
            assert_eq!(s.types(bound).unwrap(), [ty(i as u8), ty((i >> 8) as u8)]);
        }
        assert!(s.type_lists.len() <= MAX_TYPE_LISTS);
    }

    #[test]
    fn long_type_lists_stay_bounded_by_their_bytes() {
        let mut s = Statements::default();
        s.add(1, u16::MAX);
        for i in 0..100u16 {
            let types = (0..u16::MAX).map(|n| ty(if n == 0 { i as u8 } else { 3 }));
            let bound = s.bind(1, types);
            assert_eq!(s.types(bound).unwrap()[0], ty(i as u8));
            assert!(
                s.type_lists.iter().map(|l| size_of_val(&**l)).sum::<usize>() <= TYPE_LISTS_BYTES,
                "STMT-3"
            );
        }
    }

    const ENTRY: usize = ENTRY_BYTES;

    fn memory() -> Account {
        Account::exact(&ServerMemory::new())
    }

    /// Tests CONN-4.
    #[test]
    fn long_data_is_counted_with_its_room() {
        const MOST: usize = 1 << 20;
        let server = ServerMemory::new();
        server.set_limit(MOST);
        let (mut s, mut m) = (Statements::default(), Account::exact(&server));
        s.add(1, 2);
        let mut failed = false;
        while !failed {
            s.add_long_data(1, 1, &[7; 1000], usize::MAX, &mut m);
            failed = !s.long_data_failed.is_empty();
            let data = &s.long_data[&1][&1];
            assert_eq!(s.bytes(), ENTRY + data.capacity());
            assert!(m.used() == s.bytes() && m.used() <= MOST);
            assert!(data.capacity() <= data.len() + data.len() / GROWTH_PART);
        }
        assert!(s.long_data[&1][&1].len() > MOST * 3 / 4);
        assert_eq!(s.take_long_data(1).unwrap_err().code, 3170);
        assert_eq!((s.bytes(), s.long_data_bytes), (0, 0));
    }

    #[test]
    fn long_data_adds_up_and_is_taken_once() {
        let (mut s, mut m) = (Statements::default(), memory());
        s.add(1, 2);
        s.add(2, 1);
        s.add_long_data(1, 1, b"ab", 1000, &mut m);
        s.add_long_data(1, 1, b"cd", 1000, &mut m);
        s.add_long_data(2, 0, b"x", 1000, &mut m);
        let taken = s.take_long_data(1).unwrap();
        assert_eq!((taken.of(0), taken.of(1)), (None, Some(&b"abcd"[..])));
        assert_eq!(s.take_long_data(1).unwrap().of(1), None);
        assert_eq!(s.long_data_bytes, ENTRY + 1);
        s.remove(2);
        assert_eq!(s.long_data_bytes, 0);
    }

    #[test]
    fn too_much_long_data_fails_the_next_execution_only() {
        let (mut s, mut m) = (Statements::default(), memory());
        s.add(1, 1);
        s.add_long_data(1, 0, &[0; 8], ENTRY + 10, &mut m);
        s.add_long_data(1, 0, &[0; 3], ENTRY + 10, &mut m);
        assert!(s.take_long_data(1).is_err());
        assert!(s.take_long_data(1).is_ok());
        s.add_long_data(1, 1, b"no such parameter", 100, &mut m);
        assert!(s.take_long_data(1).is_err());
        s.add_long_data(9, 0, b"no such statement", 100, &mut m);
        assert_eq!(s.long_data_bytes, 0);
    }

    #[test]
    fn long_data_without_data_counts_too() {
        let (mut s, mut m) = (Statements::default(), memory());
        s.add(1, 1000);
        for parameter in 0..1000 {
            s.add_long_data(1, parameter, b"", 10 * ENTRY, &mut m);
        }
        assert_eq!(s.long_data[&1].len(), 10, "STMT-2");
        assert!(s.take_long_data(1).is_err());
        s.add_long_data(1, 7, b"", 10 * ENTRY, &mut m);
        assert_eq!(s.take_long_data(1).unwrap().of(7), Some(&b""[..]));
    }
}
