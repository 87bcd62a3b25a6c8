//! Finds the name that the user probably meant.

/// The number of edits that turn `a` into `b`: insert, delete or change a letter, or swap two
/// neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let (mut before, mut last): (Vec<usize>, Vec<usize>) =
        (vec![0; b.len() + 1], (0..=b.len()).collect());
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = last[j - 1] + (a[i - 1] != b[j - 1]) as usize;
            row[j] = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// The nearest of `names`. Among equally near names, the one with the longest common prefix.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let same_start = |n: &str| n.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    names.min_by_key(|n| (distance(name, n), usize::MAX - same_start(n)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, d) in [
            ("", "abc", 3),
            ("socket", "socket", 0),
            ("scoket", "socket", 1),
            ("soket", "socket", 1),
            ("port", "sort", 1),
            ("ab", "cd", 2),
        ] {
            assert_eq!(distance(a, b), d);
            assert_eq!(distance(b, a), d);
        }
    }

    #[test]
    fn the_nearest_name() {
        let names = ["datadir", "socket", "port", "innodb-buffer-pool-size"];
        assert_eq!(nearest("data-dir", names.into_iter()), Some("datadir"));
        assert_eq!(
            nearest("innodb-bufer-pool-size", names.into_iter()),
            Some("innodb-buffer-pool-size")
        );
    }
}
