//! Window functions: OVER, WINDOW, and the frames of windows.
use super::ast::{Call, Expr, ExprKind, OrderItem};
use super::lexer::TokenKind;
use super::parser::Parser;
use crate::error::{Result, SqlError};
use crate::plan::IntervalUnit;

/// The functions that exist only with OVER.
pub(super) const ONLY_WITH_OVER: &[&str] = &[
    "CUME_DIST",
    "DENSE_RANK",
    "FIRST_VALUE",
    "LAG",
    "LAST_VALUE",
    "LEAD",
    "NTH_VALUE",
    "NTILE",
    "PERCENT_RANK",
    "RANK",
    "ROW_NUMBER",
];
/// The most named windows of a SELECT, as in MySQL.
pub const MAX_WINDOWS: usize = 127;

#[derive(Clone, Debug)]
pub struct WindowCall {
    pub call: Call,
    pub over: Over,
}
#[derive(Clone, Debug)]
pub enum Over {
    /// The name of a window that WINDOW defines.
    Name(String),
    Spec(WindowSpec),
}
#[derive(Clone, Debug, Default)]
pub struct WindowSpec {
    /// The window from which this one inherits.
    pub base: Option<String>,
    pub partition: Vec<Expr>,
    pub order: Vec<OrderItem>,
    pub frame: Option<Frame>,
}
#[derive(Clone, Debug)]
pub struct Frame {
    /// ROWS; else RANGE.
    pub rows: bool,
    pub start: FrameBound,
    pub end: FrameBound,
    /// GROUPS, EXCLUDE
    pub unsupported: Option<&'static str>,
}
#[derive(Clone, Debug)]
pub enum FrameBound {
    UnboundedPreceding,
    /// A literal or a parameter; with a unit an interval.
    Preceding(Expr, Option<IntervalUnit>),
    CurrentRow,
    Following(Expr, Option<IntervalUnit>),
    UnboundedFollowing,
}

impl Parser<'_> {
    /// Behind the parentheses of a call: what belongs to a window function.
    pub(super) fn window_call(&mut self, kind: ExprKind) -> Result<ExprKind> {
        let ExprKind::Call(call) = kind else { return Ok(kind) };
        let only_with_over = ONLY_WITH_OVER.contains(&call.name.as_str());
        let mut refused = None;
        if call.name == "NTH_VALUE" && self.at("FROM") {
            self.advance();
            match self.accept_any(&["FIRST", "LAST"]) {
                Some("LAST") => refused = Some("FROM LAST"),
                Some(_) => {}
                None => return self.fail(),
            }
        }
        if only_with_over && self.at_nth(1, "NULLS") {
            match self.accept_any(&["RESPECT", "IGNORE"]) {
                Some("IGNORE") => refused = refused.or(Some("IGNORE NULLS")),
                Some(_) => {}
                None => return self.fail(),
            }
            self.expect("NULLS")?;
        }
        if !self.accept("OVER") {
            return if only_with_over { self.fail() } else { Ok(ExprKind::Call(call)) };
        }
        let over = if self.at_symbol("(") {
            Over::Spec(self.window_spec()?)
        } else {
            Over::Name(self.ident()?)
        };
        if let Some(what) = refused {
            return Ok(ExprKind::Unsupported(what));
        }
        self.charge(size_of::<WindowCall>());
        Ok(ExprKind::Window(Box::new(WindowCall { call, over })))
    }

    /// `WINDOW w AS (..), ..`
    pub(super) fn windows(&mut self) -> Result<Vec<(String, WindowSpec)>> {
        if !self.accept("WINDOW") {
            return Ok(Vec::new());
        }
        let too_many = || SqlError::unsupported("more than 127 windows in a SELECT");
        self.comma_list_of(MAX_WINDOWS, too_many, |p| {
            let name = p.ident()?;
            p.expect("AS")?;
            Ok((name, p.window_spec()?))
        })
    }

    #[inline(never)]
    fn window_spec(&mut self) -> Result<WindowSpec> {
        self.in_parens(|p| {
            let mut spec = WindowSpec::default();
            if p.is_ident(p.peek()) && !p.at_symbol(")") {
                spec.base = Some(p.ident()?);
            }
            if p.accept_all(&["PARTITION", "BY"]) {
                spec.partition = p.comma_list(|p| p.expr())?;
            }
            if p.accept_all(&["ORDER", "BY"]) {
                spec.order = p.order_items()?;
            }
            if let Some(unit) = p.accept_any(&["ROWS", "RANGE", "GROUPS"]) {
                spec.frame = Some(p.frame(unit)?);
            }
            Ok(spec)
        })
    }

    fn frame(&mut self, unit: &str) -> Result<Frame> {
        let (start, end) = if self.accept("BETWEEN") {
            let start = self.frame_bound()?;
            self.expect("AND")?;
            (start, self.frame_bound()?)
        } else {
            (self.frame_bound()?, FrameBound::CurrentRow)
        };
        let mut unsupported = (unit == "GROUPS").then_some("GROUPS");
        if self.accept("EXCLUDE") {
            let what = ["CURRENT", "NO", "GROUP", "TIES"];
            match self.accept_any(&what) {
                Some("CURRENT") => self.expect("ROW")?,
                Some("NO") => self.expect("OTHERS")?,
                Some(_) => {}
                None => return self.fail(),
            }
            unsupported = unsupported.or(Some("EXCLUDE"));
        }
        Ok(Frame { rows: unit == "ROWS", start, end, unsupported })
    }

    fn frame_bound(&mut self) -> Result<FrameBound> {
        if self.accept_all(&["CURRENT", "ROW"]) {
            return Ok(FrameBound::CurrentRow);
        }
        let amount = if self.accept("UNBOUNDED") {
            None
        } else if self.at("INTERVAL") {
            let (amount, unit) = self.interval()?;
            Some((amount, Some(unit)))
        } else {
            let position = self.position();
            let number = self.number();
            let kind = match self.kind() {
                TokenKind::Integer | TokenKind::Decimal | TokenKind::Float => {
                    ExprKind::Literal(number)
                }
                TokenKind::Param => ExprKind::Param(number),
                _ => return self.fail(),
            };
            self.advance();
            Some((self.node(position, kind)?, None))
        };
        match (self.accept_any(&["PRECEDING", "FOLLOWING"]), amount) {
            (Some("PRECEDING"), None) => Ok(FrameBound::UnboundedPreceding),
            (Some("PRECEDING"), Some((n, unit))) => Ok(FrameBound::Preceding(n, unit)),
            (Some(_), None) => Ok(FrameBound::UnboundedFollowing),
            (Some(_), Some((n, unit))) => Ok(FrameBound::Following(n, unit)),
            (None, _) => self.fail(),
        }
    }
}
