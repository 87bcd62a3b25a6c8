//! Lists of cores as the kernel and `taskset` write them: `0-2,5`.

pub fn parse(list: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in list.trim().split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cores.extend(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?);
    }
    Some(cores)
}

pub fn list(cores: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => runs.push((core, core)),
        }
    }
    let words: Vec<String> =
        runs.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (text, cores) in [
            ("0", vec![0]),
            ("0-1", vec![0, 1]),
            ("0-2,5,7-8", vec![0, 1, 2, 5, 7, 8]),
            ("", vec![]),
        ] {
            assert_eq!(parse(text), Some(cores.clone()));
            assert_eq!(list(&cores), text);
        }
        assert_eq!(parse("a-b"), None);
    }
}
