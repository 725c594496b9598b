//! A Redis (or Valkey) server of one's own: started on a free port, frozen, killed and started again by its process id. Knows
//! nothing of what is kept in it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that keeps nothing on disk, and ends when it is dropped.
#[derive(Debug)]
pub struct RedisServer {
    program: String,
    port: u16,
    options: Vec<String>,
    child: Option<Child>,
}

impl RedisServer {
    /// One that runs, of the program named by the environment's `REDIS_SERVER`, else `redis-server`.
    ///
    /// # Panics
    ///
    /// If there is none: the message says how to install it.
    pub fn start() -> Self {
        let program = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        match Self::of(&program, &[]) {
            Ok(server) => server,
            Err(error) => {
                panic!("{program} cannot be started ({error}); install it with `apt-get install redis-server`")
            }
        }
    }

    /// One of this program, with further options of the command line.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or does not answer within ten seconds.
    pub fn of(program: &str, options: &[&str]) -> io::Result<Self> {
        let mut server = Self {
            program: program.to_owned(),
            port: 0,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            child: None,
        };
        // a port that was free may have been taken since
        for last in [false, false, true] {
            server.port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            match server.restart() {
                Err(error) if last || error.kind() == io::ErrorKind::NotFound => return Err(error),
                Err(_) => {}
                Ok(()) => break,
            }
        }
        Ok(server)
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Its port, which it keeps when it is started again.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Kills it, if it runs; whatever it kept is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            self.signal(&child, "CONT");
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Starts it again, empty, on its port.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or does not answer within ten seconds.
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill();
        let port = self.port.to_string();
        let child = Command::new(&self.program)
            .args([
                "--port",
                &port,
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let child = self.child.insert(child);
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            if ping(port.parse().unwrap_or_default()) {
                return Ok(());
            }
            if let Some(status) = child.try_wait()? {
                return Err(io::Error::other(format!("it ended at once: {status}")));
            }
            if Instant::now() > until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// It takes connections and says nothing any more.
    pub fn freeze(&self) {
        self.child.iter().for_each(|child| self.signal(child, "STOP"));
    }

    /// It goes on where it stood.
    pub fn thaw(&self) {
        self.child.iter().for_each(|child| self.signal(child, "CONT"));
    }

    fn signal(&self, child: &Child, signal: &str) {
        Command::new("kill")
            .args([format!("-{signal}"), child.id().to_string()])
            .stderr(Stdio::null())
            .status()
            .ok();
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Does it answer? One that wants a password does too.
fn ping(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let answered = TcpStream::connect_timeout(&address, Duration::from_millis(200)).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        Ok(matches!(&answer, b"+PONG" | b"-NOAU"))
    });
    answered.unwrap_or(false)
}
