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
mod muted;
mod outage;

use calls::{Language, Way, measure};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_sdk_loses_no_call_in_an_outage() {
    outage::compare(install::python()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_sdk_loses_no_call_in_an_outage() {
    outage::compare(install::node()).await;
}

async fn compare(language: Language) {
    let ways = [Way::Straight, Way::Muted(OURS), Way::Through(OURS)];
    let [straight, muted, through] = measure(&language, ways).await;

    let mut table = format!(
        "\n| SDK | version | case | | straight | through a gateway of {OURS} that is not heard | through the gateway of {OURS} |\n\
         |---|---|---|---|---|---|---|\n"
    );
    for ((straight, muted), through) in straight.iter().zip(&muted).zip(&through) {
        table.push_str(&format!(
            "| {} | {} | {} | {} | {} ({}) | {} | {} ({}) |\n",
            straight.sdk,
            straight.version,
            straight.case,
            straight.form,
            straight.sends,
            straight.end,
            muted.sends,
            through.sends,
            through.end,
        ));
    }
    println!("{table}");

    for ((straight, muted), through) in straight.iter().zip(&muted).zip(&through) {
        let what = format!(
            "{} {} {} {}",
            straight.sdk, straight.version, straight.case, straight.form
        );
        let sends = (straight.sends, muted.sends, through.sends);
        if straight.recovers {
            assert_eq!(sends, (2, 2, 2), "{what}");
            assert_eq!(
                (straight.end.as_str(), through.end.as_str()),
                ("hello", "hello"),
                "{what}"
            );
        } else {
            assert_eq!(sends, (SDKS_OWN, SDKS_OWN * OURS, OURS), "{what}");
        }
        match straight.case {
            // what broke is told by a status, since the gateway itself is there
            "reset" => assert!(through.end.starts_with("502 "), "{what}: {}", through.end),
            _ => assert_eq!(through.end, straight.end, "{what}: the program sees another end"),
        }
    }

    for measured in &through {
        let row = format!("| {} {} |", measured.sdk, measured.version);
        let counts = format!("| {SDKS_OWN} | {} | {OURS} |", SDKS_OWN * OURS);
        let told = README
            .lines()
            .any(|line| line.starts_with(&row) && line.ends_with(&counts));
        assert!(
            told,
            "the README's table of SDKs has no row that begins with {row:?} and ends with {counts:?}"
        );
    }
}
