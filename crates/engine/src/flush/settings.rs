//! Settings of flushing that an administrator may change while the server runs. Shares with
//! fractions are in hundredths of a percent.
use crate::buf::Setting;

pub struct FlushSettings {
    /// Pages per second that background writing may count on (innodb_io_capacity).
    pub io_capacity: Setting,
    /// Pages per second that background writing may reach under pressure (innodb_io_capacity_max).
    /// Past 7/8 of the redo log there is no limit.
    pub io_capacity_max: Setting,
    /// Share of dirty pages at which writing goes at full speed (innodb_max_dirty_pages_pct).
    pub max_dirty: Setting,
    /// Share of dirty pages at which writing begins (innodb_max_dirty_pages_pct_lwm). With 0 this
    /// share starts no writing.
    pub max_dirty_lwm: Setting,
    /// Share of the redo log's capacity at which writing begins, lest the log runs full
    /// (innodb_adaptive_flushing_lwm).
    pub adaptive_lwm: Setting,
    /// Percent of io_capacity that is written while nothing changes (innodb_idle_flush_pct).
    pub idle_flush_pct: Setting,
    /// Number of frames that cleaners keep free, at most 1/16 of the pool (innodb_lru_scan_depth).
    pub lru_scan_depth: Setting,
    /// Longest time between two checkpoints while something changes, in ms.
    pub checkpoint_interval_ms: Setting,
}
impl Default for FlushSettings {
    fn default() -> FlushSettings {
        FlushSettings {
            io_capacity: Setting::new(10_000),
            io_capacity_max: Setting::new(20_000),
            max_dirty: Setting::new(9_000),
            max_dirty_lwm: Setting::new(1_000),
            adaptive_lwm: Setting::new(1_200),
            idle_flush_pct: Setting::new(100),
            lru_scan_depth: Setting::new(1024),
            checkpoint_interval_ms: Setting::new(1000),
        }
    }
}
