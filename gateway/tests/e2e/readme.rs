//! The README's example, keys and defaults against the program's own word.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::started::{file, run};

const README: &str = include_str!("../../README.md");
const EXAMPLE: &str = include_str!("../../gateway.example.toml");

/// Every setting in this file, by the rows of the README's tables.
const EVERYTHING: &str = r#"
    listen = "127.0.0.1:1"
    default_upstream = "NAME"
    [upstreams.NAME]
    url = "https://one.example"
    outer_retry_guard = "1s"
    [upstreams.NAME.policy]
    max_queue_time = "1s"
    attempt_timeout = "1s"
    total_deadline = "1s"
    [upstreams.NAME.account]
    requests_per_minute = 1
    requests_per_day = 1
    input_tokens_per_minute = 1
    output_tokens_per_minute = 1
    max_concurrency = 1
    input_bytes_per_token = 1.0
    start_ramp = "1s"
    lane_by_header = "x"
    [upstreams.NAME.account.models.MODEL]
    requests_per_minute = 1
    requests_per_day = 1
    input_tokens_per_minute = 1
    output_tokens_per_minute = 1
    max_concurrency = 1
"#;

/// What a configuration comes to, each setting by its whole key.
fn in_force(text: &str) -> BTreeMap<String, Value> {
    let path = file(text);
    let checked = run(&["--check", "--config", path.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    std::fs::remove_file(path).unwrap();
    let table: Table = String::from_utf8(checked.stdout).unwrap().parse().unwrap();
    let mut settings = BTreeMap::new();
    flatten("", table, &mut settings);
    settings
}

fn flatten(above: &str, table: Table, settings: &mut BTreeMap<String, Value>) {
    for (key, value) in table {
        let key = if above.is_empty() {
            key
        } else {
            format!("{above}.{key}")
        };
        match value {
            Value::Table(table) => flatten(&key, table, settings),
            value => drop(settings.insert(key, value)),
        }
    }
}

/// The rows of the README's tables of settings: whole key and default.
fn documented() -> BTreeMap<String, String> {
    let (_, reference) = README.split_once("## Configuration").unwrap();
    let (reference, _) = reference.split_once("## Limits").unwrap();
    let (mut table, mut rows) = (String::new(), BTreeMap::new());
    for line in reference.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            let name = heading.strip_prefix("`[").and_then(|name| name.strip_suffix("]`"));
            table = name.map(|name| format!("{name}.")).unwrap_or_default();
        }
        let mut cells = line.split('|').map(str::trim).skip(1);
        if let (Some(key), Some(default)) = (cells.next(), cells.next())
            && let Some(key) = key.strip_prefix('`').and_then(|key| key.strip_suffix('`'))
        {
            rows.insert(format!("{table}{key}"), default.trim_matches('`').to_owned());
        }
    }
    rows
}

#[test]
fn the_example_is_valid_and_the_one_in_the_readme() {
    let settings = in_force(EXAMPLE);
    assert_eq!(settings["upstreams.openai.policy.max_attempts"], Value::Integer(4));
    assert!(
        README.contains(&format!("```toml\n{EXAMPLE}```")),
        "the README shows another example"
    );
}

/// `[upstreams.…]` on the pages of the cookbook.
#[test]
fn configurations_of_the_cookbook_are_valid() {
    let mut checked = 0;
    for page in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cookbook")).unwrap() {
        let page = std::fs::read_to_string(page.unwrap().path()).unwrap();
        let blocks = page
            .split("```toml\n")
            .skip(1)
            .filter_map(|rest| rest.split_once("```"));
        for (block, _) in blocks.filter(|(block, _)| block.contains("[upstreams.")) {
            in_force(block);
            checked += 1;
        }
    }
    assert!(checked > 0);
}

#[test]
fn every_setting_is_documented_and_no_other() {
    let settings: Vec<_> = in_force(EVERYTHING).into_keys().collect();
    let documented: Vec<_> = documented().into_keys().collect();
    assert_eq!(settings, documented);
}

#[test]
fn the_defaults_are_those_in_force() {
    let settings = in_force("[upstreams.NAME]\nurl = \"https://one.example\"\naccount = {}");
    for (key, default) in documented() {
        let in_force = settings.get(&key).map(Value::to_string).unwrap_or_default();
        let expected = if default == "required" {
            "\"https://one.example\""
        } else {
            default.as_str()
        };
        assert_eq!(in_force, expected, "{key}");
    }
}
