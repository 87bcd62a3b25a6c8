//! The GLOBAL values of system variables.
use super::table::{COUNT, Var};
use super::variable::{Access, Kind, Scope, Setting, Taken, collation};
use crate::error::{Result, SqlError};
use parking_lot::{Mutex, RwLock};
use redolith_types::{Collation, Value};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// All GLOBAL values at one time. The sessions that began then use them (SET-1).
#[derive(Clone, Debug)]
pub(super) struct Snapshot(pub Box<[Setting]>);

impl Snapshot {
    pub fn get(&self, var: Var) -> &Setting {
        &self.0[var as usize]
    }
}

/// Is called with the new value of a variable. Returns messages about requests that the operating
/// system refused.
type Hook = Box<dyn Fn(&Setting) -> Vec<String> + Send + Sync>;

/// Finds the value of a variable out.
type FindOut = Box<dyn Fn() -> Result<String> + Send + Sync>;

/// The result of SET GLOBAL.
#[derive(Debug, Default, PartialEq, Eq)]
#[cfg(test)]
pub struct Applied {
    /// The value was moved into the variable's range.
    pub truncated: bool,
    /// The value holds, but the operating system refused something. These are messages for people.
    pub refused: Vec<String>,
}

pub struct Settings {
    /// The bits of the snapshot, for readers on hot paths (SET-2).
    bits: [AtomicU64; COUNT],
    snapshot: RwLock<Arc<Snapshot>>,
    /// What finds the values of variables out when they are read.
    found_out: RwLock<Vec<(Var, FindOut)>>,
    /// Locked from before `snapshot` is written until the hooks have run. So the hooks run last for
    /// the SET GLOBAL whose value stays.
    hooks: Mutex<Vec<(Var, Hook)>>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}

impl Default for Settings {
    /// All variables have their defaults.
    fn default() -> Settings {
        let snapshot = Snapshot(Var::all().iter().map(|v| v.get().default_setting()).collect());
        Settings {
            bits: std::array::from_fn(|i| AtomicU64::new(snapshot.0[i].bits)),
            snapshot: RwLock::new(Arc::new(snapshot)),
            found_out: RwLock::default(),
            hooks: Mutex::default(),
        }
    }
}

impl Settings {
    /// The current GLOBAL value of a number, boolean (0, 1), enum (position), set (flags) or
    /// collation (id).
    #[inline]
    pub fn bits(&self, var: Var) -> u64 {
        self.bits[var as usize].load(Relaxed)
    }
    pub fn is_on(&self, var: Var) -> bool {
        self.bits(var) != 0
    }
    /// The current GLOBAL value of a text; None is NULL.
    pub fn text(&self, var: Var) -> Option<Arc<str>> {
        self.snapshot.read().get(var).text.clone()
    }
    /// The current GLOBAL value of a character set or collation variable.
    pub fn collation(&self, var: Var) -> Collation {
        collation(self.bits(var)).unwrap_or(Collation::Binary)
    }
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.read().clone()
    }

    /// Calls `f` with the bits of the GLOBAL value now and whenever the value is set.
    pub fn on_change(&self, var: Var, f: impl Fn(u64) + Send + Sync + 'static) {
        f(self.bits(var));
        self.hooks.lock().push((
            var,
            Box::new(move |s| {
                f(s.bits);
                Vec::new()
            }),
        ));
    }
    /// Calls `f` with the bits and the text whenever the GLOBAL value is set, but not now. `f`
    /// returns messages about requests that the operating system refused.
    pub fn on_change_of_place(
        &self,
        var: Var,
        f: impl Fn(u64, &str) -> Vec<String> + Send + Sync + 'static,
    ) {
        self.hooks
            .lock()
            .push((var, Box::new(move |s| f(s.bits, s.text.as_deref().unwrap_or("")))));
    }

    /// Calls the hooks of an unchanged variable: FLUSH LOGS opens the files that variables name
    /// again. Returns the messages of the hooks.
    pub fn tell_again(&self, var: Var) -> Vec<String> {
        let setting = self.snapshot.read().get(var).clone();
        call_hooks(&self.hooks.lock(), var, &setting)
    }
    /// Runs SET GLOBAL. A `value` of None is DEFAULT.
    #[cfg(test)]
    pub fn set_global(&self, var: Var, value: Option<&Value<'_>>) -> Result<Applied> {
        let Taken { setting, truncated } = Settings::check(var, value)?;
        Ok(Applied { truncated, refused: self.apply(var, setting) })
    }
    /// Checks a value. Returns the setting that SET GLOBAL would keep.
    pub fn check(var: Var, value: Option<&Value<'_>>) -> Result<Taken> {
        let v = var.get();
        match (v.access, v.scope) {
            (Access::AtStart | Access::ReadOnly, _) => {
                return Err(SqlError::read_only_variable(v.name, "read only"));
            }
            (_, Scope::Session) => return Err(SqlError::session_variable(v.name)),
            _ => {}
        }
        let taken = match value {
            Some(value) => v.take_value(value)?,
            None => v.default_setting().into(),
        };
        let only_default = v.only.is_some() && taken.setting != v.default_setting();
        if only_default {
            return Err(SqlError::wrong_variable_value(
                v.name,
                v.show(&taken.setting).unwrap_or_default(),
            ));
        }
        Ok(taken)
    }
    /// Applies a setting that was checked. Returns the messages of the hooks.
    pub fn apply(&self, var: Var, setting: Setting) -> Vec<String> {
        if var.is_order() {
            call_hooks(&self.hooks.lock(), var, &setting)
        } else {
            self.store(var, setting)
        }
    }

    /// Stores a valid setting and the corresponding setting of the variable's twin.
    pub(super) fn store(&self, var: Var, setting: Setting) -> Vec<String> {
        let mut hooked = vec![(var, setting.clone())];
        let hooks = self.hooks.lock();
        {
            let mut slot = self.snapshot.write();
            let mut next = Snapshot::clone(&slot);
            if let Some(twin) = var.twin() {
                let bits = twin_bits(twin, setting.bits);
                next.0[twin as usize].bits = bits;
                hooked.push((twin, Setting { bits, text: None }));
            }
            next.0[var as usize] = setting;
            for (var, setting) in &hooked {
                self.bits[*var as usize].store(setting.bits, Relaxed);
            }
            *slot = Arc::new(next);
        }
        hooked.iter().flat_map(|(changed, to)| call_hooks(&hooks, *changed, to)).collect()
    }

    /// Stores a value that the server has found out (`hostname`, `server_uuid`, its port).
    pub fn tell(&self, var: Var, text: &str) {
        if let Ok(taken) = var.get().take_text(text) {
            self.store(var, taken.setting);
        }
    }

    /// The value of `var` is what `find_out` returns when it is read.
    pub fn find_out(
        &self,
        var: Var,
        find_out: impl Fn() -> Result<String> + Send + Sync + 'static,
    ) {
        self.found_out.write().push((var, Box::new(find_out)));
    }
    /// Finds out the values of such variables anew. One that cannot be found out keeps its last
    /// value.
    pub fn refresh_all(&self) {
        for (var, find_out) in self.found_out.read().iter() {
            if let Ok(text) = find_out() {
                self.refreshed(*var, &text);
            }
        }
    }
    /// Finds out the value of `var` anew, if it is such a variable, and returns it. (Another thread
    /// that began earlier may store an older value behind it.)
    pub fn refresh(&self, var: Var) -> Result<Option<String>> {
        let found_out = self.found_out.read();
        let Some((_, find_out)) = found_out.iter().find(|(of, _)| *of == var) else {
            return Ok(None);
        };
        let text = find_out()?;
        self.refreshed(var, &text);
        Ok(Some(text))
    }
    fn refreshed(&self, var: Var, text: &str) {
        if self.text(var).as_deref() != Some(text) {
            self.tell(var, text);
        }
    }

    /// The value of `@@GLOBAL.name`.
    pub fn global_value(&self, var: Var) -> Result<Value<'static>> {
        let v = var.get();
        if v.scope == Scope::Session {
            return Err(SqlError::read_only_variable(v.name, "SESSION"));
        }
        Ok(v.value(self.snapshot.read().get(var)))
    }
    /// The names and values of SHOW GLOBAL VARIABLES. NULL is shown as an empty text.
    pub fn list_global(&self) -> Vec<(&'static str, String)> {
        let snapshot = self.snapshot();
        let all = Var::by_name().iter().filter(|v| v.get().scope != Scope::Session);
        all.map(|v| (v.get().name, v.get().show(snapshot.get(*v)).unwrap_or_default())).collect()
    }
}

fn call_hooks(hooks: &[(Var, Hook)], var: Var, to: &Setting) -> Vec<String> {
    hooks.iter().filter(|(v, _)| *v == var).flat_map(|(_, hook)| hook(to)).collect()
}

/// The positions of two values of `redolith_log_writer`.
const SESSION: u64 = 1;
const DEDICATED: u64 = 3;

/// The bits of `twin` when its counterpart is set to `bits`.
pub(super) fn twin_bits(twin: Var, bits: u64) -> u64 {
    match twin.get().kind {
        _ if twin == Var::InnodbLogWriterThreads => (bits == DEDICATED) as u64,
        _ if twin == Var::RedolithLogWriter => [SESSION, DEDICATED][bits as usize],
        Kind::Charset { .. } => {
            collation(bits).map_or(bits, |c| c.charset().default_collation().id() as u64)
        }
        _ => bits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(n: u64) -> Value<'static> {
        Value::UInt(n)
    }

    /// Tests SET-2.
    #[test]
    fn global_values_are_set_checked_and_told() {
        let s = Settings::default();
        let seen = Arc::new(AtomicU64::new(0));
        let told = seen.clone();
        s.on_change(Var::MaxConnections, move |n| told.store(n, Relaxed));
        assert_eq!(seen.load(Relaxed), 151);
        assert_eq!(s.set_global(Var::MaxConnections, Some(&int(500))).unwrap(), Applied::default());
        assert_eq!((s.bits(Var::MaxConnections), seen.load(Relaxed)), (500, 500));
        assert!(s.set_global(Var::MaxConnections, Some(&int(0))).unwrap().truncated);
        assert_eq!(s.global_value(Var::MaxConnections).unwrap(), int(1));
        s.set_global(Var::MaxConnections, None).unwrap();
        assert_eq!(s.bits(Var::MaxConnections), 151);
    }

    #[test]
    fn the_value_that_stays_is_told_last() {
        let s = Arc::new(Settings::default());
        let (seen, told) = (Arc::downgrade(&s), Arc::new(AtomicU64::new(0)));
        let late = told.clone();
        s.on_change(Var::MaxConnections, move |n| {
            late.fetch_add(
                seen.upgrade().is_some_and(|s| s.bits(Var::MaxConnections) != n) as u64,
                Relaxed,
            );
        });
        std::thread::scope(|scope| {
            for n in 0..4 {
                let s = &s;
                scope.spawn(move || {
                    (0..5_000).for_each(|i| {
                        drop(s.set_global(Var::MaxConnections, Some(&int(1 + 4 * i + n))))
                    })
                });
            }
        });
        assert_eq!(told.load(Relaxed), 0, "a hook was told a value that another had replaced");
    }

    #[test]
    fn an_order_is_told_and_not_kept() {
        let s = Settings::default();
        let orders = Arc::new(AtomicU64::new(0));
        let told = orders.clone();
        s.on_change(Var::InnodbPurgeStopNow, move |on| {
            told.fetch_add(on, Relaxed);
        });
        for value in [int(1), Value::text("on"), int(0)] {
            s.set_global(Var::InnodbPurgeStopNow, Some(&value)).unwrap();
            assert!(!s.is_on(Var::InnodbPurgeStopNow));
        }
        assert_eq!(orders.load(Relaxed), 2);
        assert_eq!(s.set_global(Var::InnodbPurgeStopNow, Some(&int(2))).unwrap_err().code, 1231);
        assert!(!Var::InnodbPurgeStopNow.is_option());
    }

    #[test]
    fn errors_have_mysqls_numbers() {
        let s = Settings::default();
        let code = |var, value: &Value<'_>| s.set_global(var, Some(value)).unwrap_err().code;
        assert_eq!(code(Var::Version, &Value::text("9")), 1238);
        assert_eq!(code(Var::InnodbBufferPoolSizeMax, &int(1 << 30)), 1238);
        assert_eq!(code(Var::SqlLogBin, &int(1)), 1228);
        assert_eq!(code(Var::WaitTimeout, &Value::text("x")), 1232);
        assert_eq!(code(Var::WaitTimeout, &Value::Null), 1231);
        assert_eq!(code(Var::Autocommit, &int(2)), 1231);
        assert_eq!(code(Var::Autocommit, &Value::text("maybe")), 1231);
        assert_eq!(code(Var::TransactionIsolation, &Value::text("SNAPSHOT")), 1231);
        assert_eq!(code(Var::SqlMode, &Value::text("NONSENSE")), 1231);
        assert_eq!(code(Var::TimeZone, &Value::text("Mars/North")), 1298);
        assert_eq!(code(Var::CharacterSetServer, &Value::text("klingon")), 1115);
        assert_eq!(code(Var::ReadOnly, &int(1)), 1231);
        assert_eq!(code(Var::InnodbFlushLogAtTrxCommit, &int(3)), 1231);
        assert_eq!(code(Var::RedolithLogFlushPaceUs, &Value::Int(-2)), 1231);
        assert_eq!(code(Var::RedolithLogFlushDepth, &Value::Int(17)), 1231);
        assert_eq!(code(Var::RedolithLogWriterCpus, &Value::text("1-")), 1231);
    }

    #[test]
    fn character_set_and_collation_move_together() {
        let s = Settings::default();
        s.set_global(Var::CharacterSetServer, Some(&Value::text("latin1"))).unwrap();
        assert_eq!(s.collation(Var::CollationServer), Collation::Latin1SwedishCi);
        s.set_global(Var::CollationServer, Some(&Value::text("utf8mb4_bin"))).unwrap();
        assert_eq!(s.global_value(Var::CharacterSetServer).unwrap(), Value::text("utf8mb4"));
        assert_eq!(s.global_value(Var::CollationServer).unwrap(), Value::text("utf8mb4_bin"));
    }

    #[test]
    fn the_list_is_sorted_and_whole() {
        let all = Settings::default().list_global();
        assert!(all.is_sorted_by(|a, b| a.0 < b.0));
        let get = |name| all.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str());
        assert_eq!(get("max_allowed_packet"), Some("67108864"));
        assert_eq!(get("autocommit"), Some("ON"));
        assert_eq!(get("warning_count"), None);
        assert_eq!(get("secure_file_priv"), Some(""));
    }
}
