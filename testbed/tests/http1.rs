//! Every item of an HTTP/1.1 script does what it says, and the ledger counts it right.

use std::time::{Duration, Instant};

use reqwest::{Body, Client, Response, Version};
use testbed::{Gate, Reply, Server, comment, event, fin, hang, reply, rst, script, sse};
use tokio::time::timeout;

fn client() -> Client {
    Client::builder().retry(reqwest::retry::never()).build().unwrap()
}

async fn get(server: &Server) -> reqwest::Result<Response> {
    client().get(server.url("/v1/orders")).send().await
}

/// What a client gets from this reply: the body, or the error on the way to it.
async fn body_of(reply: Reply) -> reqwest::Result<Vec<u8>> {
    let server = Server::start(reply).await;
    Ok(get(&server).await?.bytes().await?.to_vec())
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[tokio::test]
async fn items_are_played_in_order_and_the_last_repeats() {
    let server = Server::start([reply(429).ra(3), reply(503).ms(250).times(2), reply(200).body("ok")]).await;
    let client = client();
    let mut seen = Vec::new();
    for _ in 0..5 {
        let response = client.get(server.url("/")).send().await.unwrap();
        let hint = response
            .headers()
            .iter()
            .find(|(name, _)| name.as_str().starts_with("retry-after"));
        let hint = hint.map(|(_, value)| value.to_str().unwrap().to_owned());
        seen.push((response.status().as_u16(), hint, response.text().await.unwrap()));
    }
    let hint = |text: &str| Some(text.to_owned());
    assert_eq!(seen[0], (429, hint("3"), String::new()));
    assert_eq!(seen[1], (503, hint("250"), String::new()));
    assert_eq!(seen[2], seen[1]);
    assert_eq!(seen[3], (200, None, "ok".to_owned()));
    assert_eq!(seen[4], seen[3]);
    assert_eq!((server.sends(), server.connections(), server.open()), (5, 1, 1));
    assert_eq!((server.gaps().len(), server.offsets()[0]), (4, Duration::ZERO));
}

#[tokio::test]
async fn a_script_may_be_of_bare_statuses() {
    for server in [
        Server::start([429, 200]).await,
        Server::start(script![429, reply(200)]).await,
    ] {
        assert_eq!(get(&server).await.unwrap().status(), 429);
        assert_eq!(get(&server).await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn requests_are_recorded_whole() {
    let server = Server::start(reply(200)).await;
    let request = client()
        .post(server.url("/v1/orders?page=2"))
        .header("x-tag", "a")
        .header("X-Tag", "b");
    request.body("hello").send().await.unwrap();
    let request = server.last_request().unwrap();
    assert_eq!(
        (request.method(), request.path(), request.text().as_str()),
        ("POST", "/v1/orders?page=2", "hello")
    );
    assert_eq!(
        (request.header_all("x-tag"), request.header("Content-Length")),
        (vec!["a", "b"], Some("5"))
    );
    assert!(request.is_complete());
    assert_eq!((request.number(), request.connection(), request.in_flight()), (0, 0, 1));
}

#[tokio::test]
async fn streaming_and_multipart_bodies_are_read_whole() {
    let server = Server::start(reply(200)).await;
    let (client, url) = (client(), server.url("/"));
    let whole = vec![b'x'; 300_000];
    let pieces: Vec<std::io::Result<Vec<u8>>> = whole.chunks(70_000).map(|piece| Ok(piece.to_vec())).collect();
    client
        .post(&url)
        .body(Body::wrap_stream(futures_util::stream::iter(pieces)))
        .send()
        .await
        .unwrap();
    client.post(&url).body(whole.clone()).send().await.unwrap();
    let form = reqwest::multipart::Form::new()
        .text("purpose", "batch")
        .text("file", "line");
    client.post(&url).multipart(form).send().await.unwrap();
    let requests = server.requests();
    assert_eq!(requests[0].header("transfer-encoding"), Some("chunked"));
    assert_eq!(requests[0].body(), whole);
    assert_eq!(requests[0].body_hash(), requests[1].body_hash());
    assert!(requests[2].text().contains("name=\"purpose\"") && requests[2].text().trim_end().ends_with("--"));
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_send_that_is_not_complete() {
    use tokio::io::AsyncWriteExt;
    let server = Server::start(reply(200)).await;
    let mut socket = tokio::net::TcpStream::connect(server.addr()).await.unwrap();
    socket
        .write_all(b"POST / HTTP/1.1\r\ncontent-length: 10\r\n\r\nhello")
        .await
        .unwrap();
    server
        .wait_until("five bytes", |ledger| {
            ledger.last_request().is_some_and(|r| r.body() == b"hello")
        })
        .await;
    assert_eq!(server.in_flight(), 1);
    drop(socket);
    server.wait_open(0).await;
    assert_eq!((server.sends(), server.in_flight()), (1, 0));
    assert!(!server.last_request().unwrap().is_complete());
}

#[tokio::test]
async fn what_is_not_http_is_answered_by_400() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = Server::start(reply(200)).await;
    for nonsense in [
        &b"hello\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"\xff\xfe \x00\x01 \n\n",
    ] {
        let mut socket = tokio::net::TcpStream::connect(server.addr()).await.unwrap();
        socket.write_all(nonsense).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    server.wait_open(0).await;
    assert_eq!((server.sends(), server.connections()), (0, 3));
}

#[tokio::test]
async fn hang_never_answers_and_notices_that_the_client_left() {
    let server = Server::start(hang()).await;
    // Given up on once it has arrived, and not after a time in which it may or may not have been sent.
    tokio::select! {
        answer = get(&server) => panic!("{answer:?}"),
        () = server.wait_sends(1) => {}
    }
    server.wait_open(0).await;
    assert_eq!((server.sends(), server.connections(), server.in_flight()), (1, 1, 0));
}

#[tokio::test]
async fn rst_and_fin_give_no_answer() {
    for (item, text) in [(rst(), "reset"), (fin(), "closed")] {
        let server = Server::start([item, reply(200)]).await;
        let error = format!("{:?}", get(&server).await.unwrap_err());
        assert!(
            error.to_lowercase().contains(text) || error.contains("IncompleteMessage"),
            "{error}"
        );
        assert_eq!(error.contains("ConnectionReset"), text == "reset", "{error}");
        server.wait_open(0).await;
        assert_eq!((server.sends(), server.connections()), (1, 1));
        assert_eq!(get(&server).await.unwrap().status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn late_head_and_late_body() {
    let server = Server::start([reply(200).body("x").after(40), reply(200).body("x").late(50)]).await;
    let start = tokio::time::Instant::now();
    get(&server).await.unwrap();
    assert_eq!(start.elapsed(), ms(40));
    let response = get(&server).await.unwrap();
    assert_eq!(start.elapsed(), ms(40));
    assert_eq!(response.text().await.unwrap(), "x");
    assert_eq!(start.elapsed(), ms(90));
}

#[tokio::test]
async fn gates_hold_the_head_or_the_body() {
    let (head, body) = (Gate::new(), Gate::new());
    let server = Server::start(reply(200).body("x").held(&head).body_held(&body)).await;
    let mut call = std::pin::pin!(get(&server));
    tokio::select! {
        answer = &mut call => panic!("{answer:?}"),
        () = server.wait_complete(1) => {}
    }
    assert!(timeout(ms(20), &mut call).await.is_err());
    assert_eq!(server.in_flight(), 1);
    head.open();
    let mut text = std::pin::pin!(call.await.unwrap().text());
    assert!(timeout(ms(20), &mut text).await.is_err());
    body.open();
    assert_eq!(text.await.unwrap(), "x");
    server.wait_in_flight(0).await;
}

#[tokio::test]
async fn bodies_arrive_as_written() {
    assert_eq!(body_of(reply(200)).await.unwrap(), b"");
    assert_eq!(body_of(reply(200).body("plain")).await.unwrap(), b"plain");
    assert_eq!(body_of(reply(200).chunks(["a", "", "bc"])).await.unwrap(), b"abc");
    assert_eq!(body_of(reply(200).chunks(["a", "bc"]).every(5)).await.unwrap(), b"abc");
    assert_eq!(
        body_of(reply(200).body("until the end").until_close()).await.unwrap(),
        b"until the end"
    );
    assert_eq!(body_of(reply(200).size(1 << 20)).await.unwrap().len(), 1 << 20);
    assert_eq!(body_of(reply(200).body("x").trailer("x-sum", 1)).await.unwrap(), b"x");
    assert_eq!(
        body_of(reply(200).body("split").split([1, 8, 30])).await.unwrap(),
        b"split"
    );
    assert_eq!(
        body_of(reply(200).chunks(["a", "bc"]).split_every(3)).await.unwrap(),
        b"abc"
    );
    assert_eq!(
        body_of(reply(200).body("x").interim(100).early_hints("</a>"))
            .await
            .unwrap(),
        b"x"
    );
}

#[tokio::test]
async fn headers_may_repeat_and_need_not_be_text() {
    let server = Server::start(reply(200).header("x-n", 1).header("x-n", 2).header_bytes("x-b", [0xb2])).await;
    let response = get(&server).await.unwrap();
    assert_eq!(response.headers().get_all("x-n").iter().collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(response.headers()["x-b"].as_bytes(), [0xb2]);
    assert_eq!(response.version(), Version::HTTP_11);
}

#[tokio::test]
async fn no_body_where_none_may_be() {
    let server = Server::start([
        reply(204).body("x"),
        reply(304).body("x"),
        reply(200).body("xyz"),
        reply(200),
    ])
    .await;
    let client = client();
    assert_eq!(
        client.get(server.url("/")).send().await.unwrap().text().await.unwrap(),
        ""
    );
    assert_eq!(
        client.get(server.url("/")).send().await.unwrap().text().await.unwrap(),
        ""
    );
    let response = client.head(server.url("/")).send().await.unwrap();
    assert_eq!(response.headers()["content-length"], "3");
    assert_eq!(response.text().await.unwrap(), "");
    client.get(server.url("/")).send().await.unwrap();
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn faults_in_the_head_and_in_the_body() {
    let broken = [
        reply(200).body("0123456789").cut(5),
        reply(200).body("0123456789").cut(5).rst(),
        reply(200).body("01234").header("content-length", 10).close(),
        reply(200).chunks(["01234", "56789"]).cut(7),
        reply(200).chunks(["01234", "56789"]).broken(),
        sse(["a", "b"]).broken().rst(),
        reply(200).cut_head(10),
        reply(200).cut_head(10).rst(),
    ];
    for item in broken {
        let text = format!("{item:?}");
        assert!(body_of(item).await.is_err(), "{text}");
    }
}

#[tokio::test]
async fn a_cut_lets_the_first_bytes_through() {
    for item in [reply(200).body("0123456789"), reply(200).chunks(["01234", "56789"])] {
        let server = Server::start(item.cut(7)).await;
        let mut response = get(&server).await.unwrap();
        let mut bytes = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            bytes.extend(chunk);
        }
        assert_eq!(bytes, b"0123456");
        server.wait_open(0).await;
    }
}

#[tokio::test]
async fn an_endless_body_ends_when_the_client_drops_it() {
    for item in [
        reply(503).json("{}").endless(),
        reply(503).endless().every(5),
        sse(["a"]).endless().every(5),
    ] {
        let server = Server::start(item).await;
        let mut response = get(&server).await.unwrap();
        for _ in 0..5 {
            assert!(!response.chunk().await.unwrap().unwrap().is_empty());
        }
        assert_eq!((server.open(), server.in_flight()), (1, 1));
        drop(response);
        server.wait_open(0).await;
        assert_eq!(server.in_flight(), 0);
    }
}

#[tokio::test]
async fn a_stalled_body_stays_open_until_the_client_drops_it() {
    for item in [reply(200).body("begun").stalled(), sse(["begun"]).stalled()] {
        let server = Server::start(item).await;
        let mut response = get(&server).await.unwrap();
        assert!(
            response
                .chunk()
                .await
                .unwrap()
                .unwrap()
                .trim_ascii_end()
                .ends_with(b"begun")
        );
        assert!(timeout(ms(20), response.chunk()).await.is_err());
        assert_eq!(server.open(), 1);
        drop(response);
        server.wait_open(0).await;
    }
}

#[tokio::test]
async fn events_have_the_form_of_the_standard() {
    let server = Server::start(sse([comment("hi"), event("error", "{}"), "two\nlines".into()])).await;
    let response = get(&server).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    assert_eq!(text, ": hi\n\nevent: error\ndata: {}\n\ndata: two\ndata: lines\n\n");
}

#[tokio::test(start_paused = true)]
async fn trickled_chunks_come_one_by_one() {
    let server = Server::start(sse(["a", "b", "c"]).every(20)).await;
    let mut response = get(&server).await.unwrap();
    let start = tokio::time::Instant::now();
    let mut arrivals = Vec::new();
    while response.chunk().await.unwrap().is_some() {
        arrivals.push(start.elapsed());
    }
    assert_eq!(arrivals, [ms(0), ms(20), ms(40)]);
}

#[tokio::test]
async fn connections_are_kept_or_closed() {
    let client = client();
    let server = Server::start([reply(200), reply(200).close(), reply(200)]).await;
    for _ in 0..3 {
        client.get(server.url("/")).send().await.unwrap();
    }
    assert_eq!((server.sends(), server.connections()), (3, 2));
    assert_eq!(
        server.requests().iter().map(|r| r.connection()).collect::<Vec<_>>(),
        [0, 0, 1]
    );
    server.wait_open(1).await;
    drop(client);
    server.wait_open(0).await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_behind_the_clients_back() {
    let client = client();
    let server = Server::start([reply(200).idle_close(10), reply(200)]).await;
    let first = client.get(server.url("/")).send().await.unwrap();
    assert!(!first.headers().contains_key("connection"));
    server.wait_open(0).await;
    client.get(server.url("/")).send().await.unwrap();
    assert_eq!((server.sends(), server.connections()), (2, 2));
}

#[tokio::test]
async fn a_rule_sees_the_request_and_how_many_are_in_flight() {
    let gate = Gate::new();
    let slow = reply(200).held(&gate);
    let server = Server::respond(move |request| match (request.path(), request.in_flight()) {
        (_, 3..) => reply(429),
        ("/slow", _) => slow.clone(),
        _ => reply(404),
    })
    .await;
    let client = client();
    let call = || async { client.get(server.url("/slow")).send().await.unwrap().status().as_u16() };
    let opened = async {
        server.wait_sends(3).await;
        gate.open();
    };
    let (a, b, c, ()) = tokio::join!(call(), call(), call(), opened);
    let mut statuses = [a, b, c];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(server.peak_in_flight(), 3);
    assert_eq!(client.get(server.url("/")).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn an_answered_request_is_not_in_flight() {
    let server = Server::respond(|request| reply(if request.in_flight() == 1 { 200 } else { 500 })).await;
    let client = client();
    for _ in 0..100 {
        assert_eq!(client.get(server.url("/")).send().await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn a_client_that_expects_a_100_gets_one() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = Server::start(reply(200).body("done").close()).await;
    let mut socket = tokio::net::TcpStream::connect(server.addr()).await.unwrap();
    socket
        .write_all(b"POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        .await
        .unwrap();
    let mut first = [0; 25];
    socket.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(b"hi").await.unwrap();
    let mut rest = String::new();
    socket.read_to_string(&mut rest).await.unwrap();
    assert!(rest.starts_with("HTTP/1.1 200 OK") && rest.ends_with("done"), "{rest}");
    assert_eq!(server.last_request().unwrap().body(), b"hi");
}

#[tokio::test]
async fn dropping_the_server_closes_the_port_and_the_connections() {
    let server = Server::start(hang()).await;
    let (client, url) = (client(), server.url("/"));
    let call = tokio::spawn({
        let (client, url) = (client.clone(), url.clone());
        async move { client.get(url).send().await }
    });
    server.wait_sends(1).await;
    drop(server);
    assert!(call.await.unwrap().is_err());
    assert!(client.get(url).send().await.unwrap_err().is_connect());
}

#[tokio::test]
async fn a_refused_port_refuses() {
    let refused = testbed::Refused::new().unwrap();
    assert!(client().get(refused.url("/")).send().await.unwrap_err().is_connect());
}

#[tokio::test]
async fn a_request_on_a_closed_connection_is_not_a_send() {
    let (client, gate) = (client(), Gate::new());
    let server = Server::start_apart([reply(200).idle_close_when(&gate), reply(200)]);
    client.get(server.url("/")).send().await.unwrap();
    // Until the client has put the connection back into its pool.
    tokio::time::sleep(ms(10)).await;
    gate.open();
    while server.open() > 0 {
        // Not a wait of the runtime: the client would notice the close and take another connection.
        std::thread::sleep(ms(1));
    }
    let error = client.post(server.url("/")).body("x").send().await.unwrap_err();
    assert!(error.is_request(), "{error:?}");
    assert_eq!((server.sends(), server.connections()), (1, 1));
    client.post(server.url("/")).body("x").send().await.unwrap();
    assert_eq!((server.sends(), server.connections()), (2, 2));
}

#[tokio::test]
async fn dropping_a_server_apart_closes_it_too() {
    let server = Server::start_apart(hang());
    let url = server.url("/");
    let call = tokio::spawn(client().get(&url).send());
    server.wait_sends(1).await;
    drop(server);
    assert!(call.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn times_are_on_the_paused_clock() {
    let server = Server::start([reply(200).after(30_000), reply(200)]).await;
    let start = Instant::now();
    get(&server).await.unwrap();
    tokio::time::sleep(Duration::from_secs(70)).await;
    get(&server).await.unwrap();
    assert_eq!(server.offsets(), [Duration::ZERO, Duration::from_secs(100)]);
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn answers_that_do_not_wait_take_no_virtual_time() {
    let server = Server::start(reply(200).size(30_000)).await;
    let client = client();
    let start = tokio::time::Instant::now();
    for _ in 0..50 {
        let call = client.get(server.url("/")).timeout(Duration::from_secs(1)).send();
        call.await.unwrap().bytes().await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn waits_are_in_real_time() {
    let server = Server::start(reply(200)).await;
    let url = server.url("/");
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        client().get(url).send().await
    });
    server.wait_sends(1).await;
}
