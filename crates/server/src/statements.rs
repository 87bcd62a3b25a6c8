//! What the protocol keeps for a connection's prepared statements: the number of parameters, the
//! types with which they were last bound, and long data.
//!
//! STMT-1: a handle costs 8 bytes here (sysbench holds 288,000 handles). So each list of parameter
//! types is kept once per connection, and handles refer to it by number.
//! STMT-2: the long data of a parameter has at most `max_allowed_packet` bytes, as in MySQL. All
//! long data is in the connection's account, by the memory that it takes, with an entry for each
//! parameter (CONN-4).
//! STMT-3: a list of parameter types is kept as long as a statement is bound with it, because
//! clients send the types once. Lists are in the connection's account, which bounds them.
use crate::cursor::Cursor;
use crate::error;
use crate::protocol::parameters::ParameterType;
use hashbrown::HashMap;
use redolith_sql::SqlError;
use redolith_sql::memory::Account;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

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

/// The types with which `users` statements were last bound.
struct TypeList {
    types: Arc<[ParameterType]>,
    users: u32,
}
impl TypeList {
    /// The memory of a list: its types, and approximately its entries in both structures.
    fn bytes(types: usize) -> usize {
        96 + types * size_of::<ParameterType>()
    }
}

#[derive(Default)]
pub struct Statements {
    map: HashMap<u32, Statement>,
    /// The lists by number, from 1, and the numbers that are free again.
    type_lists: Vec<Option<TypeList>>,
    free_lists: Vec<u16>,
    list_numbers: HashMap<Arc<[ParameterType]>, u16>,
    type_lists_bytes: usize,
    /// The long data by statement and parameter.
    long_data: HashMap<u32, BTreeMap<u16, Vec<u8>>>,
    /// The memory of the long data, with the overhead.
    long_data_memory: usize,
    /// The error with which a statement's next execution fails: its long data was too long, or was
    /// for a parameter that the statement does not have.
    long_data_failed: HashMap<u32, SqlError>,
    /// The open cursors by statement.
    cursors: HashMap<u32, Box<Cursor>>,
}

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
        let Some(s) = self.map.remove(&id) else { return false };
        self.leave_list(s.types);
        true
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
        let list = self.type_lists.get((s.types as usize).checked_sub(1)?)?;
        list.as_ref().map(|list| &*list.types)
    }
    /// Keeps the types sent with an execution, for later executions that send none. `memory` is
    /// charged for a new list. Without memory the statement keeps the types that it had.
    pub fn bind(
        &mut self,
        id: u32,
        s: Statement,
        types: impl ExactSizeIterator<Item = ParameterType> + Clone,
        memory: &mut Account,
    ) -> Result<Statement, SqlError> {
        if self.types(s).is_some_and(|known| known.iter().copied().eq(types.clone())) {
            return Ok(s);
        }
        let types: SmallVec<[ParameterType; 16]> = types.collect();
        let number = match self.list_numbers.get(&types[..]) {
            Some(number) => *number,
            None => self.add_list(&types, memory)?,
        };
        if let Some(Some(list)) = self.type_lists.get_mut(number as usize - 1) {
            list.users += 1;
        }
        self.leave_list(s.types);
        let s = Statement { types: number, ..s };
        self.map.insert(id, s);
        Ok(s)
    }
    /// Adds a list that no statement uses yet, and returns its number.
    fn add_list(&mut self, types: &[ParameterType], memory: &mut Account) -> Result<u16, SqlError> {
        let bytes = TypeList::bytes(types.len());
        let next = u16::try_from(self.type_lists.len() + 1);
        let number = self.free_lists.last().copied().or(next.ok());
        let number = number.ok_or_else(error::too_many_type_lists)?;
        memory.charge(bytes)?;
        self.type_lists_bytes += bytes;
        let types: Arc<[ParameterType]> = types.into();
        self.list_numbers.insert(types.clone(), number);
        let list = Some(TypeList { types, users: 0 });
        match self.free_lists.pop() {
            Some(_) => self.type_lists[number as usize - 1] = list,
            None => self.type_lists.push(list),
        }
        Ok(number)
    }
    /// A statement is no longer bound with the list of this number. The last one drops the list.
    fn leave_list(&mut self, number: u16) {
        let Some(at) = (number as usize).checked_sub(1) else { return };
        let Some(list) = &mut self.type_lists[at] else { return };
        list.users -= 1;
        if list.users == 0 {
            self.type_lists_bytes -= TypeList::bytes(list.types.len());
            self.list_numbers.remove(&list.types);
            self.type_lists[at] = None;
            self.free_lists.push(number);
        }
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
        if parameter >= s.params {
            let e = error::wrong_arguments("mysqld_stmt_send_long_data");
            return self.refuse_long_data(id, e);
        }
        if needed > max_bytes {
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

    /// Binds a statement that there is memory for.
    fn bind(s: &mut Statements, id: u32, types: &[ParameterType]) -> Statement {
        let (of, types) = (s.get(id).unwrap(), types.iter().copied());
        s.bind(id, of, types, &mut memory()).unwrap()
    }

    #[test]
    fn types_are_remembered_and_shared() {
        let mut s = Statements::default();
        for id in 1..=100 {
            s.add(id, 2);
            assert_eq!(s.types(s.get(id).unwrap()), None);
            bind(&mut s, id, &[ty(3), ty(253)]);
        }
        assert_eq!(s.type_lists.len(), 1);
        let bound = bind(&mut s, 7, &[ty(8), ty(253)]);
        assert_eq!(s.types(bound), Some(&[ty(8), ty(253)][..]));
        assert_eq!(s.types(s.get(8).unwrap()), Some(&[ty(3), ty(253)][..]));
        assert_eq!((s.len(), s.remove(7), s.remove(7), s.len()), (100, true, false, 99));
        s.clear();
        assert_eq!(s.len(), 0);
    }

    /// Tests STMT-3.
    #[test]
    fn a_list_stays_as_long_as_a_statement_is_bound_with_it() {
        const STATEMENTS: u32 = 10_000;
        let of = |n: u32| [ty(n as u8), ty((n >> 8) as u8)];
        let mut s = Statements::default();
        for id in 1..=STATEMENTS {
            s.add(id, 2);
            bind(&mut s, id, &of(id));
        }
        for id in 1..=STATEMENTS {
            assert_eq!(s.types(s.get(id).unwrap()), Some(&of(id)[..]));
        }
        assert_eq!(s.bytes(), STATEMENTS as usize * TypeList::bytes(2));
        // Lists without users go, and their numbers are used again.
        for id in 2..=STATEMENTS {
            assert!(s.remove(id));
        }
        assert_eq!((s.bytes(), s.list_numbers.len()), (TypeList::bytes(2), 1));
        for n in 0..100_000 {
            let bound = bind(&mut s, 1, &of(n % 60_000));
            assert_eq!(s.types(bound), Some(&of(n % 60_000)[..]));
            assert_eq!(s.bytes(), TypeList::bytes(2));
        }
        assert_eq!(s.type_lists.len(), STATEMENTS as usize);
        s.remove(1);
        assert_eq!(s.bytes(), 0);
    }

    #[test]
    fn a_list_without_memory_fails_its_execution_only() {
        let server = ServerMemory::new();
        let long = TypeList::bytes(u16::MAX as usize);
        server.set_limit(3 * long);
        let (mut s, mut m) = (Statements::default(), Account::exact(&server));
        let list = |n: u8| (0..u16::MAX).map(move |at| ty(if at == 0 { n } else { 3 }));
        for n in 1..=4 {
            s.add(n, u16::MAX);
            let of = s.get(n).unwrap();
            let bound = s.bind(n, of, list(n as u8), &mut m);
            assert_eq!(bound.map_err(|e| e.code).err(), (n == 4).then_some(3170));
            assert_eq!((s.bytes(), m.used()), (n.min(3) as usize * long, n.min(3) as usize * long));
        }
        for n in 1..=3 {
            assert_eq!(s.types(s.get(n).unwrap()).unwrap()[0], ty(n as u8));
        }
        assert_eq!(s.types(s.get(4).unwrap()), None);
        let known = s.get(4).unwrap();
        assert!(s.bind(4, known, list(2), &mut m).is_ok(), "a list that is there");
    }

    #[test]
    fn lists_beyond_the_numbers_are_refused() {
        let mut s = Statements::default();
        for id in 1..=u16::MAX as u32 + 1 {
            s.add(id, 2);
            let types = [ty(id as u8), ty((id >> 8) as u8), ty((id >> 16) as u8)];
            let of = s.get(id).unwrap();
            let bound = s.bind(id, of, types.into_iter(), &mut memory());
            assert_eq!(bound.map_err(|e| e.code).err(), (id > 65_535).then_some(1041));
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
        assert_eq!(s.bytes(), 0);
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
        assert_eq!(s.bytes(), ENTRY + 1);
        s.remove(2);
        assert_eq!(s.bytes(), 0);
    }

    /// Tests STMT-2.
    #[test]
    fn too_much_long_data_fails_the_next_execution_only() {
        let (mut s, mut m) = (Statements::default(), memory());
        s.add(1, 3);
        let mut error_of = |sent: &[(u32, u16, &[u8])]| {
            for (id, parameter, bytes) in sent {
                s.add_long_data(*id, *parameter, bytes, 10, &mut m);
            }
            let taken = s.take_long_data(1).map_err(|e| (e.code, e.message.to_string()));
            (taken.err().unwrap_or_default(), s.bytes())
        };
        let none = || (0, String::new());
        // The limit is that of each parameter.
        assert_eq!(error_of(&[(1, 0, &[0; 8]), (1, 1, &[0; 8]), (1, 2, &[0; 10])]), (none(), 0));
        let ((code, message), bytes) = error_of(&[(1, 0, &[0; 8]), (1, 0, &[0; 3])]);
        assert!(message.ends_with("is longer than 'max_allowed_packet' bytes"), "{message}");
        assert_eq!((code, bytes), (1105, 0));
        assert_eq!(error_of(&[]), (none(), 0));
        let no_parameter = "Incorrect arguments to mysqld_stmt_send_long_data".to_string();
        assert_eq!(error_of(&[(1, 3, b"no such parameter")]), ((1210, no_parameter), 0));
        assert_eq!(error_of(&[(9, 0, b"no such statement")]), (none(), 0));
    }

    #[test]
    fn long_data_without_data_counts_too() {
        let server = ServerMemory::new();
        server.set_limit(10 * ENTRY);
        let (mut s, mut m) = (Statements::default(), Account::exact(&server));
        s.add(1, 1000);
        for parameter in 0..1000 {
            s.add_long_data(1, parameter, b"", 100, &mut m);
        }
        assert_eq!((s.long_data[&1].len(), m.used()), (10, 10 * ENTRY));
        assert_eq!(s.take_long_data(1).unwrap_err().code, 3170);
        m.release_to(0);
        s.add_long_data(1, 7, b"", 100, &mut m);
        assert_eq!(s.take_long_data(1).unwrap().of(7), Some(&b""[..]));
    }
}
