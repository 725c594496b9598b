//! A small AI provider on loopback that says no in three ways before it says yes. Knows nothing of retries.

use testbed::{Reply, Server, reply, script, sse};

/// A moment in the life of a provider: what it answers to the same request, one answer after another.
pub(crate) struct Moment {
    pub(crate) title: &'static str,
    pub(crate) server: Server,
}

/// The three moments.
pub(crate) async fn moments() -> [Moment; 3] {
    [
        Moment {
            title: "a busy minute: a rate limit, then an overload, then the answer",
            server: busy().await,
        },
        Moment {
            title: "the credit is used up",
            server: Server::start(no_credit()).await,
        },
        Moment {
            title: "the key is wrong",
            server: Server::start(wrong_key()).await,
        },
    ]
}

async fn busy() -> Server {
    let limited = reply(429)
        .ra(1)
        .header("x-request-id", "req_example_1")
        .header("x-ratelimit-remaining-requests", 0)
        .json(r#"{"error":{"message":"Rate limit reached for requests. Please try again in 1s.","type":"requests","code":"rate_limit_exceeded"}}"#);
    let overloaded = reply(529)
        .header("request-id", "req_example_2")
        .json(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#);
    let words = ["Retrying", " is", " waiting", " with", " manners", "."];
    let chunks = words.map(|word| format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{word}"}}}}]}}"#));
    let answer = sse(chunks.into_iter().chain(["[DONE]".to_owned()])).every(30);
    Server::start(script![limited, overloaded, answer]).await
}

fn no_credit() -> Reply {
    reply(429).json(r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#)
}

fn wrong_key() -> Reply {
    reply(401).json(r#"{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","code":"invalid_api_key"}}"#)
}
