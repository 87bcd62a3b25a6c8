//! The day and time of a run, in UTC.
use std::time::{SystemTime, UNIX_EPOCH};

/// The present time in a form that sorts by time: `20261121-165804`.
pub fn stamp() -> String {
    stamp_of(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()))
}

/// The day of a stamp: `2026-11-21`.
pub fn day(stamp: &str) -> String {
    format!("{}-{}-{}", &stamp[..4], &stamp[4..6], &stamp[6..8])
}

fn stamp_of(unix_s: u64) -> String {
    let (days, s) = (unix_s / 86400, unix_s % 86400);
    // Years that begin in March end with the leap day. 1970-01-01 is day 719,468 of the calendar's
    // 400-year cycles.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", s / 3600, s / 60 % 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
        let of = [0, 951_782_400, 951_868_799, 1_709_164_800, 1_767_225_599, 1_795_280_284]
            .map(stamp_of);
        assert_eq!(
            of,
            [
                "19700101-000000",
                "20000229-000000",
                "20000229-235959",
                "20240229-000000",
                "20251231-235959",
                "20261121-165804"
            ]
        );
        assert_eq!(day(&of[5]), "2026-11-21");
    }
}
