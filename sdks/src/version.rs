//! Which version of a package was built, from the workspace's lock file.

const LOCK: &str = include_str!("../../Cargo.lock");

/// The newest version of this package that is locked: the one that is named as a dependency here, since others come with
/// what depends on older ones.
pub fn of(package: &str) -> Option<&'static str> {
    let line = format!("name = \"{package}\"");
    let mut lines = LOCK.lines();
    let mut newest = None;
    while let Some(name) = lines.next() {
        if name == line {
            newest = lines.next();
        }
    }
    newest?.strip_prefix("version = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_newest_of_several_is_meant() {
        assert_eq!(of("reqwest").map(|version| &version[..5]), Some("0.13."));
        assert_eq!(of("no-such-package"), None);
    }
}
