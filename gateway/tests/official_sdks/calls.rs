//! The calls that are measured: each against a server of its own, so that its sends can be told. Knows no installation.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testbed::{Reply, Script, Server, event, reply, rst, sse};

use crate::muted;
use crate::started::{QUICK, Started, upstream};

/// How a language's program of calls is started.
#[derive(Clone, Debug)]
pub(crate) struct Language {
    pub(crate) program: PathBuf,
    pub(crate) script: &'static str,
    /// The one that makes many calls in an outage.
    pub(crate) outage: &'static str,
    pub(crate) folder: PathBuf,
    pub(crate) environment: Vec<(&'static str, PathBuf)>,
    /// How each SDK is called in its registry: OpenAI's, Anthropic's.
    pub(crate) names: [&'static str; 2],
}

/// What became of one call.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) sdk: &'static str,
    pub(crate) version: String,
    pub(crate) case: &'static str,
    pub(crate) form: &'static str,
    /// Does the server answer well in the end?
    pub(crate) recovers: bool,
    pub(crate) sends: usize,
    /// What the program saw: the text, or the status and the type of the error.
    pub(crate) end: String,
}

const CASES: [&str; 5] = ["429", "500", "529", "reset", "429, then 200"];
const SDKS: [&str; 2] = ["openai", "anthropic"];

fn script(case: &str, sdk: &str, stream: bool) -> Script<Reply> {
    let refusal = |status| reply(status).json(r#"{"type":"error","error":{"type":"api_error","message":"not now"}}"#);
    match case {
        "reset" => rst().into(),
        "429, then 200" => [refusal(429), success(sdk, stream)].into(),
        status => refusal(status.parse().unwrap()).into(),
    }
}

/// "hello", as each provider says it.
pub(crate) fn success(sdk: &str, stream: bool) -> Reply {
    match (sdk, stream) {
        ("openai", false) => reply(200).json(
            r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",
                "message":{"role":"assistant","content":"hello"}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#,
        ),
        ("openai", true) => {
            let chunk = |text: &str| {
                let delta = json!({ "index": 0, "delta": { "content": text }, "finish_reason": null });
                json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [delta] })
            };
            sse([chunk("hel").to_string(), chunk("lo").to_string(), "[DONE]".to_owned()])
        }
        (_, false) => reply(200).json(
            r#"{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello"}],
                "stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}"#,
        ),
        (_, true) => {
            let delta = |text: &str| {
                let delta = json!({ "type": "text_delta", "text": text });
                json!({ "type": "content_block_delta", "index": 0, "delta": delta }).to_string()
            };
            sse([
                event("message_start", r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}"#),
                event("content_block_start", r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#),
                event("content_block_delta", &delta("hel")),
                event("content_block_delta", &delta("lo")),
                event("content_block_stop", r#"{"type":"content_block_stop","index":0}"#),
                event("message_delta", r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}"#),
                event("message_stop", r#"{"type":"message_stop"}"#),
            ])
        }
    }
}

/// How a call gets to the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Straight,
    /// Through a gateway of so many attempts.
    Through(usize),
    /// The same, but the gateway is not heard when it says not to start again.
    Muted(usize),
}

/// Every case by every SDK of the language, each of these ways; all in one process, since the SDKs take long to load.
pub(crate) async fn measure<const WAYS: usize>(language: &Language, ways: [Way; WAYS]) -> [Vec<Measured>; WAYS] {
    let mut sets = Vec::new();
    for way in ways {
        sets.push(Set::new(language, way).await);
    }
    let calls: Vec<_> = sets
        .iter()
        .flat_map(|set| set.calls.iter().map(|(call, _)| call.clone()))
        .collect();
    let runner = language.clone();
    let results = tokio::task::spawn_blocking(move || run(&runner, runner.script, &json!(calls)));
    let results = results.await.unwrap();
    let mut results = results.into_iter();
    let measured = sets.into_iter().map(|set| set.measured(&mut results));
    measured.collect::<Vec<_>>().try_into().unwrap()
}

/// All cases one way.
struct Set {
    /// What the program is told, and the server that it leads to.
    calls: Vec<(Value, Server)>,
    expected: Vec<Measured>,
    /// Running for as long as it is called.
    _gateway: Option<Started>,
}

impl Set {
    async fn new(language: &Language, way: Way) -> Set {
        let (mut servers, mut expected) = (Vec::new(), Vec::new());
        for (sdk, name) in SDKS.into_iter().zip(language.names) {
            for (stream, form) in [(false, "call"), (true, "stream")] {
                for case in CASES {
                    servers.push((sdk, stream, Server::start(script(case, sdk, stream)).await));
                    expected.push(Measured {
                        sdk: name,
                        version: String::new(),
                        case,
                        form,
                        recovers: case.ends_with("200"),
                        sends: 0,
                        end: String::new(),
                    });
                }
            }
        }

        // an upstream for each server, so that no case pays from another's budget
        let gateway = |attempts, account| {
            let more = format!("{QUICK}\npolicy.max_attempts = {attempts}\n{account}");
            let upstreams = servers.iter().enumerate();
            let upstreams =
                upstreams.map(|(number, (.., server))| upstream(&format!("u{number}"), server.url(""), &more));
            Started::with(&upstreams.collect::<String>())
        };
        let gateway = match way {
            Way::Straight => None,
            Way::Through(attempts) => Some(gateway(attempts, "")),
            // refusals teach a lane its pace; the SDK's repeats are counted here and need not wait for it
            Way::Muted(attempts) => Some(gateway(
                attempts,
                "account.lane_by_header = \"x-stainless-retry-count\"",
            )),
        };
        let address = match (&gateway, way) {
            (Some(gateway), Way::Muted(_)) => Some(muted::before(gateway.address()).await),
            (Some(gateway), _) => Some(gateway.address()),
            (None, _) => None,
        };
        let call = |(number, (sdk, stream, server)): (usize, (&str, bool, Server))| {
            let base_url = match address {
                Some(address) => format!("http://{address}/u{number}"),
                None => server.url(""),
            };
            (json!({ "sdk": sdk, "stream": stream, "base_url": base_url }), server)
        };
        Set {
            calls: servers.into_iter().enumerate().map(call).collect(),
            expected,
            _gateway: gateway,
        }
    }

    fn measured(self, results: &mut impl Iterator<Item = Value>) -> Vec<Measured> {
        let calls = self.expected.into_iter().zip(self.calls);
        let measured = calls.map(|(expected, (_, server))| {
            let result = results.next().expect("a result for each call");
            let seen = (
                result["answer"].as_str(),
                result["status"].as_u64(),
                result["error"].as_str(),
            );
            Measured {
                version: result["version"].as_str().unwrap().to_owned(),
                sends: server.sends(),
                end: match seen {
                    (Some(answer), ..) => answer.to_owned(),
                    (_, Some(status), Some(error)) => format!("{status} {error}"),
                    (.., error) => error.unwrap_or_default().to_owned(),
                },
                ..expected
            }
        });
        measured.collect()
    }
}

/// The results stand in the order of the calls.
pub(crate) fn run(language: &Language, script: &str, calls: &Value) -> Vec<Value> {
    let mut child = Command::new(&language.program)
        .arg(script)
        .current_dir(&language.folder)
        .envs(language.environment.iter().cloned())
        // what the machine's own traffic goes through is not for loopback
        .env("NO_PROXY", "*")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(calls.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{} {script} failed",
        language.program.display()
    );
    let printed = String::from_utf8(output.stdout).unwrap();
    printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
