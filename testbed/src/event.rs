//! An event knows its text in the form of a `text/event-stream`. It does not know the stream that it is part of.

/// One event of a [`sse`](crate::sse) reply; a plain string is the data of an unnamed event.
#[derive(Clone, Debug)]
pub struct Event(String);

/// An event with a name: `event: <name>` and its data.
pub fn event(name: &str, data: &str) -> Event {
    let Event(data) = Event::from(data);
    Event(format!("event: {name}\n{data}"))
}

/// A comment line, which servers send to keep a stream alive.
pub fn comment(text: &str) -> Event {
    Event(format!(": {text}\n\n"))
}

impl Event {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

impl From<&str> for Event {
    fn from(data: &str) -> Event {
        let mut text: String = data.split('\n').map(|line| format!("data: {line}\n")).collect();
        text.push('\n');
        Event(text)
    }
}

impl From<String> for Event {
    fn from(data: String) -> Event {
        Event::from(data.as_str())
    }
}
