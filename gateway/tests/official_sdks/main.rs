//! The official SDKs, installed from their registries as they come, straight against a server and through the gateway: how
//! often one call is sent.
//!
//! `cargo test -p reqwest-ai-retry-gateway --test official_sdks -- --nocapture` prints the counts.

#![cfg(unix)]

#[path = "../e2e/started.rs"]
#[allow(dead_code, reason = "the other suite uses more of it")]
mod started;

mod calls;
mod install;

use calls::{Language, measure};

/// What one call of an SDK with its defaults sends: the first and two retries.
const SDKS_OWN: usize = 3;
/// What the gateway is told to send.
const OURS: usize = 4;

const README: &str = include_str!("../../README.md");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_sdks_send_what_the_gateway_says() {
    compare(install::python()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_sdks_send_what_the_gateway_says() {
    compare(install::node()).await;
}

async fn compare(language: Language) {
    let straight = measure(&language, None).await;
    let through = measure(&language, Some(OURS)).await;

    let mut table =
        format!("\n| SDK | version | case | | straight | through the gateway of {OURS} |\n|---|---|---|---|---|---|\n");
    for (straight, through) in straight.iter().zip(&through) {
        table.push_str(&format!(
            "| {} | {} | {} | {} | {} ({}) | {} ({}) |\n",
            straight.sdk,
            straight.version,
            straight.case,
            straight.form,
            straight.sends,
            straight.end,
            through.sends,
            through.end,
        ));
    }
    println!("{table}");

    for (straight, through) in straight.iter().zip(&through) {
        let what = format!(
            "{} {} {} {}",
            straight.sdk, straight.version, straight.case, straight.form
        );
        if straight.recovers {
            assert_eq!(
                (straight.sends, straight.end.as_str()),
                (2, "hello"),
                "{what}, straight"
            );
            assert_eq!(
                (through.sends, through.end.as_str()),
                (2, "hello"),
                "{what}, through the gateway"
            );
        } else {
            assert_eq!(straight.sends, SDKS_OWN, "{what}, straight");
            assert_eq!(through.sends, OURS, "{what}, through the gateway");
        }
        match straight.case {
            // what broke is told by a status, since the gateway itself is there
            "reset" => assert!(through.end.starts_with("502 "), "{what}: {}", through.end),
            _ => assert_eq!(through.end, straight.end, "{what}: the program sees another end"),
        }
    }

    for measured in &through {
        let row = format!("| {} {} |", measured.sdk, measured.version);
        let counts = format!("| {SDKS_OWN} | {OURS} |");
        let told = README
            .lines()
            .any(|line| line.starts_with(&row) && line.ends_with(&counts));
        assert!(
            told,
            "the README's table of SDKs has no row that begins with {row:?} and ends with {counts:?}"
        );
    }
}
