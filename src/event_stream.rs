//! The format `text/event-stream` (WHATWG HTML, 9.2): bytes in, events out, however the bytes are cut. Knows lines and fields,
//! and not what an event says.

/// One event, as far as it was written: its name, if it has one, and its data.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

/// Puts events together, byte by byte.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    /// The line before ended in CR, to which a LF right behind it belongs.
    after_cr: bool,
    /// The first line, before which a byte order mark may stand, is over.
    begun: bool,
    name: Option<String>,
    data: Option<String>,
}

impl Events {
    /// The event that ends with this byte, if one does.
    pub(crate) fn take(&mut self, byte: u8) -> Option<Event> {
        let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
        match byte {
            b'\n' if after_cr => None,
            b'\n' | b'\r' => self.end_line(),
            _ => {
                self.line.push(byte);
                None
            }
        }
    }

    /// The event that the end of the stream has cut off. A browser drops it; but the half of an error is an error.
    pub(crate) fn end(&mut self) -> Option<Event> {
        self.end_line().or_else(|| self.end_event())
    }

    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        // only now, since a character may have come in two pieces
        let line = String::from_utf8_lossy(&line);
        let mut line = &*line;
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = Some(value.to_owned()),
            "data" => self.add(value),
            // not of the standard: so llama.cpp wrote an error until September 2025 (its pull request 16109)
            "error" if value.starts_with('{') => {
                self.name = Some("error".to_owned());
                self.add(value);
            }
            // a comment, an id, a time to reconnect after, or what nobody knows
            _ => {}
        }
        None
    }

    fn add(&mut self, value: &str) {
        match &mut self.data {
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
    }

    /// An event without data is none to a browser; but a name may be all that a ping or an error has.
    fn end_event(&mut self) -> Option<Event> {
        let (name, data) = (self.name.take(), self.data.take());
        (name.is_some() || data.is_some()).then(|| Event {
            name,
            data: data.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn events(bytes: &[u8]) -> Vec<Event> {
        let mut events = Events::default();
        let mut all: Vec<_> = bytes.iter().filter_map(|&byte| events.take(byte)).collect();
        all.extend(events.end());
        all
    }

    fn event<'a>(name: impl Into<Option<&'a str>>, data: &str) -> Event {
        Event {
            name: name.into().map(str::to_owned),
            data: data.to_owned(),
        }
    }

    /// The examples of the standard, and what it says of each ending of a line.
    #[test]
    fn events_are_read_as_the_standard_says() {
        let text = "data: YHOO\ndata: +2\ndata: 10\n\n\
                    : test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n\
                    data\n\ndata\ndata\n\nevent: add\nretry: 7\nunknown: x\ndata: a:b\n\ndata";
        let expected = [
            event(None, "YHOO\n+2\n10"),
            event(None, "first event"),
            event(None, "second event"),
            event(None, " third event"),
            event(None, ""),
            event(None, "\n"),
            event("add", "a:b"),
            event(None, ""),
        ];
        assert_eq!(events(text.as_bytes()), expected);
        for ending in ["\r\n", "\r"] {
            assert_eq!(events(text.replace('\n', ending).as_bytes()), expected, "{ending:?}");
        }
        let mixed = b"data: a\r\ndata: b\rdata: c\n\r\n\rdata: d\n\n";
        assert_eq!(events(mixed), [event(None, "a\nb\nc"), event(None, "d")]);
    }

    #[test]
    fn an_error_in_a_field_of_its_own_is_an_event_of_that_name() {
        assert_eq!(
            events(b"error: {\"code\":500}\n\ndata: [DONE]\n\n"),
            [event("error", "{\"code\":500}"), event(None, "[DONE]")]
        );
        assert_eq!(events(b"error: what a sentence says\n\n"), []);
    }

    #[test]
    fn a_byte_order_mark_stands_at_the_very_beginning_alone() {
        assert_eq!(events("\u{feff}data: a\n\n".as_bytes()), [event(None, "a")]);
        assert_eq!(
            events("\u{feff}\n\u{feff}data: a\n\ndata: b".as_bytes()),
            [event(None, "b")]
        );
    }

    #[test]
    fn what_is_no_text_is_replaced_and_what_is_no_field_is_no_event() {
        assert_eq!(events(b"data: \xff\xc3\n\n"), [event(None, "\u{fffd}\u{fffd}")]);
        assert_eq!(events(b"{\"error\":{\"code\":1}}\n\n"), []);
        assert_eq!(events(b" data: x\n\nDATA: y\n\n\n\n\n"), []);
    }
}
