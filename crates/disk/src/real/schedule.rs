//! Sets the CPUs and the priority of threads.
use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::time::Duration;

/// Where and how urgently one thread runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// CPUs that the thread may run on. An empty list means the CPUs of the process.
    pub cpus: Vec<usize>,
    /// The nice level, from -20 (urgent) to 19.
    pub nice: i32,
    /// 1 to 99: the thread runs under SCHED_FIFO with that priority. 0: the thread is an ordinary
    /// thread.
    pub realtime: u8,
}

/// A thread of this process.
#[derive(Clone, Debug)]
pub struct Thread {
    id: Pid,
}

impl Thread {
    /// The operating system's id of the thread.
    pub fn id(&self) -> u32 {
        self.id.as_raw_nonzero().get().unsigned_abs()
    }
    /// How long the thread has been ready to run without a CPU, since it began
    /// (`/proc/PID/task/TID/schedstat`; Linux, Documentation/scheduler/sched-stats.rst). `None`
    /// where the system does not say.
    pub fn waited(&self) -> Option<Duration> {
        #[allow(clippy::disallowed_methods)] // this is the door
        let stat =
            std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", self.id())).ok()?;
        stat.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
    }
}

/// CPUs that the process may use now, ascending; empty where the system does not say.
pub fn process_cpus() -> Vec<usize> {
    process_set().map_or_else(
        |_| Vec::new(),
        |cpus| (0..CpuSet::MAX_CPU).filter(|c| cpus.is_set(*c)).collect(),
    )
}
/// The CPUs of the process's first thread, which is never bound.
pub(super) fn process_set() -> rustix::io::Result<CpuSet> {
    sched_getaffinity(Some(rustix::process::getpid()))
}
/// Lets a thread run on these CPUs alone, or on the CPUs of the process if the list is empty.
pub fn bind_thread(thread: &Thread, to: &[usize]) -> std::io::Result<()> {
    Ok(bind(thread.id, to)?)
}
fn bind(thread: Pid, to: &[usize]) -> rustix::io::Result<()> {
    if to.is_empty() {
        return sched_setaffinity(Some(thread), &process_set()?);
    }
    let mut cpus = CpuSet::new();
    to.iter().filter(|c| **c < CpuSet::MAX_CPU).for_each(|c| cpus.set(*c));
    sched_setaffinity(Some(thread), &cpus)
}
/// Lets the calling thread run on all CPUs of the process. A thread inherits the binding of the
/// thread that spawned it.
pub fn unbind_this_thread() {
    if let (Ok(cpus), Ok(mine)) = (process_set(), sched_getaffinity(None))
        && cpus != mine
    {
        // The call cannot fail: a thread may always move among the CPUs of the process.
        let _ = sched_setaffinity(None, &cpus);
    }
}

/// The longest time slice that Linux lets a thread ask for.
const LONGEST_SLICE: Duration = Duration::from_millis(100);

/// Lets the threads that answer clients run before the calling thread, which calculates for long.
/// `SCHED_BATCH` keeps the calling thread from preempting another thread when it wakes. The long
/// time slice gives it a late deadline, so any other thread that wakes preempts it (EEVDF, Linux
/// 6.12; older kernels ignore the slice). Its share of the CPUs remains the same, so it cannot
/// starve while it holds a latch, as long as it does not yield: that costs it a whole slice. A
/// refusal costs speed only.
pub fn calculate_in_background() {
    set_slice(libc::SCHED_BATCH, LONGEST_SLICE);
}
/// Ends the effect of [`calculate_in_background`]. A thread inherits this effect from the thread
/// that starts it.
pub fn calculate_in_foreground() {
    set_slice(libc::SCHED_OTHER, Duration::ZERO);
}
/// Sets the policy and the time slice of the calling thread, if its policy is not a realtime
/// policy. A slice of zero is the system's own.
fn set_slice(policy: i32, slice: Duration) {
    // SAFETY: the call takes no pointer.
    let now = unsafe { libc::sched_getscheduler(0) };
    let Ok(nice) = rustix::process::getpriority_process(None) else { return };
    if !matches!(now, libc::SCHED_OTHER | libc::SCHED_BATCH) {
        return;
    }
    // SAFETY: all zeros is a valid `sched_attr`, whatever fields it has besides those set below.
    let mut to: libc::sched_attr = unsafe { std::mem::zeroed() };
    to.size = std::mem::size_of_val(&to) as u32;
    to.sched_policy = policy as u32;
    to.sched_nice = nice;
    to.sched_runtime = slice.as_nanos() as u64;
    // SAFETY: the pointer is to a live value whose size is in its first field, as sched_setattr(2)
    // demands; the call only reads it.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &to, 0) };
}

/// The beginning of a measurement of how long the calling thread runs, and how long it does not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contention {
    clock: Duration,
    cpu: Duration,
}
impl Contention {
    pub fn begin() -> Contention {
        let read = |clock| {
            let t = rustix::time::clock_gettime(clock);
            Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec as u32)
        };
        Contention {
            clock: read(rustix::time::ClockId::Monotonic),
            cpu: read(rustix::time::ClockId::ThreadCPUTime),
        }
    }
    /// The monotonic time of [`Contention::begin`].
    pub fn clock(self) -> Duration {
        self.clock
    }
    /// The time that the thread has run since [`Contention::begin`], and the time that it has not.
    /// A wait counts as the latter, like a time without a CPU.
    pub fn end(self) -> (Duration, Duration) {
        let now = Contention::begin();
        let ran = now.cpu.saturating_sub(self.cpu);
        (ran, now.clock.saturating_sub(self.clock).saturating_sub(ran))
    }
}

pub fn this_thread() -> Thread {
    Thread { id: rustix::thread::gettid() }
}

/// Places a thread. Returns a line for each setting that the system refuses, with the missing
/// right; the other settings hold.
pub fn place_thread(thread: &Thread, to: &Placement) -> Vec<String> {
    let mut refused = Vec::new();
    let mut tell = |what: String, right: &str, done: Result<(), Errno>| {
        if let Err(e) = done {
            let why = if matches!(e, Errno::PERM | Errno::ACCESS) {
                format!("it needs {right}")
            } else {
                std::io::Error::from(e).to_string()
            };
            refused.push(format!("{what}: refused by the system: {why}"));
        }
    };
    tell(format!("CPUs {:?}", to.cpus), "CAP_SYS_NICE", bind(thread.id, &to.cpus));
    tell(
        format!("realtime priority {}", to.realtime),
        "CAP_SYS_NICE or RLIMIT_RTPRIO",
        set_scheduler(thread.id, to.realtime),
    );
    // Linux sets the nice level of a thread, not of the process (setpriority(2)).
    let niced = rustix::process::setpriority_process(Some(thread.id), to.nice);
    tell(format!("nice level {}", to.nice), "CAP_SYS_NICE or RLIMIT_NICE", niced);
    refused
}

fn set_scheduler(thread: Pid, priority: u8) -> Result<(), Errno> {
    let policy = if priority == 0 { libc::SCHED_OTHER } else { libc::SCHED_FIFO };
    // SAFETY: all zeros is a valid `sched_param`, whatever fields it has besides the priority.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority.into();
    // SAFETY: the pointer is to a live value of the type that the call reads.
    let done = unsafe { libc::sched_setscheduler(thread.as_raw_nonzero().get(), policy, &param) };
    if done == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_moved_and_freed() {
        std::thread::spawn(|| {
            let (me, all) = (this_thread(), sched_getaffinity(None).unwrap());
            let first = process_cpus()[0];
            assert_eq!(
                place_thread(&me, &Placement { cpus: vec![first], nice: 1, realtime: 0 }),
                Vec::<String>::new()
            );
            let now = sched_getaffinity(None).unwrap();
            assert_eq!((now.count(), now.is_set(first)), (1, true));
            assert_eq!(rustix::process::getpriority_process(Some(me.id)).unwrap(), 1);
            // Raising the priority again may need a right, but the CPUs always come back.
            place_thread(&me, &Placement { nice: 1, ..Placement::default() });
            assert_eq!(sched_getaffinity(None).unwrap(), all);
        })
        .join()
        .unwrap();
    }
    #[test]
    fn a_thread_is_bound_and_freed_and_its_children_free_themselves() {
        std::thread::spawn(|| {
            let me = this_thread();
            let now = || sched_getaffinity(None).unwrap();
            let (cpus, all) = (process_cpus(), now());
            let last = *cpus.last().unwrap();
            bind_thread(&me, &[last]).unwrap();
            assert_eq!((now().count(), now().is_set(last)), (1, true));
            let child = std::thread::spawn(|| {
                let begun = sched_getaffinity(None).unwrap();
                unbind_this_thread();
                (begun.count(), sched_getaffinity(None).unwrap())
            });
            assert_eq!(child.join().unwrap(), (1, all));
            assert_eq!(process_cpus(), cpus, "the process has them all");
            assert!(bind_thread(&me, &[CpuSet::MAX_CPU]).is_err());
            bind_thread(&me, &[]).unwrap();
            assert_eq!(now(), all);
            if let Some(waited) = me.waited() {
                std::thread::yield_now();
                assert!(me.waited().unwrap() >= waited);
            }
        })
        .join()
        .unwrap();
    }
    #[test]
    fn background_work_is_a_batch_and_keeps_its_nice_level() {
        let child = || {
            std::thread::spawn(|| {
                // SAFETY: the call takes no pointer.
                let policy = || unsafe { libc::sched_getscheduler(0) };
                let me = this_thread();
                place_thread(&me, &Placement { nice: 3, ..Placement::default() });
                calculate_in_background();
                let background = policy();
                let inherited = std::thread::spawn(|| {
                    calculate_in_foreground();
                    // SAFETY: the call takes no pointer.
                    unsafe { libc::sched_getscheduler(0) }
                });
                let inherited = inherited.join().unwrap();
                calculate_in_foreground();
                let nice = rustix::process::getpriority_process(Some(me.id)).unwrap();
                (background, inherited, policy(), nice)
            })
        };
        let (batch, other) = (libc::SCHED_BATCH, libc::SCHED_OTHER);
        assert_eq!(child().join().unwrap(), (batch, other, other, 3));
    }
    #[test]
    fn time_that_passes_is_run_or_waited() {
        let began = Contention::begin();
        let mut n = 0u64;
        while began.end().0 < Duration::from_millis(2) {
            n = std::hint::black_box(n + 1);
        }
        let (ran, before) = began.end();
        std::thread::park_timeout(Duration::from_millis(5));
        let (ran_then, waited) = began.end();
        assert!(ran >= Duration::from_millis(2) && ran_then >= ran && waited >= before);
    }
    #[test]
    fn what_is_refused_is_told() {
        let me = this_thread();
        let told = place_thread(
            &me,
            &Placement { cpus: vec![CpuSet::MAX_CPU - 1], ..Placement::default() },
        );
        assert!(
            told.len() == 1 && told[0].contains("CPUs [1023]") && told[0].contains("refused"),
            "{told:?}"
        );
    }
}
