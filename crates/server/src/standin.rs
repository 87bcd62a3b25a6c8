//! Shapes of the contract, until `types` and `sql` are there.
use std::borrow::Cow;
use std::sync::Arc;
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Date { pub year: u16, pub month: u8, pub day: u8 }
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time { pub us: i64 }
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DateTime { pub date: Date, pub us: i64 }
#[derive(Clone, Debug, PartialEq)]
pub struct Decimal(pub String);
impl std::fmt::Display for Decimal { fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(&self.0) } }
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> { Null, Int(i64), UInt(u64), Float(f32), Double(f64), Decimal(Decimal), Bytes(Cow<'a, [u8]>), Date(Date), Time(Time), DateTime(DateTime) }
#[derive(Clone, Copy, Debug)]
pub struct ExprType { pub field_type: u8, pub collation_id: u16, pub length: u32, pub decimals: u8 }
#[derive(Clone, Debug)]
pub struct ColumnMeta { pub schema: Arc<str>, pub table: Arc<str>, pub org_table: Arc<str>, pub name: Arc<str>, pub org_name: Arc<str>, pub ty: ExprType, pub flags: ColumnFlags }
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ColumnFlags(pub u16);
impl ColumnFlags { pub const ZEROFILL: u16 = 64; }
#[derive(Clone, Debug)]
pub struct SqlError { pub code: u16, pub sqlstate: [u8; 5], pub message: Box<str> }
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StatusFlags(pub u16);
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct OkInfo { pub affected: u64, pub last_insert_id: u64, pub warnings: u16, pub status: StatusFlags, pub info: String }
pub trait ResultSink: Send {
    fn columns(&mut self, columns: &[ColumnMeta]);
    fn begin_row(&mut self);
    fn value(&mut self, value: &Value<'_>);
    fn end_row(&mut self);
    fn row(&mut self, values: &[Value<'_>]) {
        self.begin_row();
        for value in values {
            self.value(value);
        }
        self.end_row();
    }
    fn finish_rows(&mut self, end: &OkInfo);
    fn ok(&mut self, ok: &OkInfo);
    fn error(&mut self, error: &SqlError);
    fn wants_drain(&self) -> bool;
    fn drain(&mut self) -> impl Future<Output = Result<(), SqlError>> + Send;
}
