//! Event streams, parted into frames. Knows no JSON.

pub(super) fn is_event_stream(text: &str) -> bool {
    const FIELDS: &[&str] = &["data:", "event:", "id:", "retry:", ":"];
    FIELDS.iter().any(|field| text.starts_with(field))
}

/// The frames of an event stream: the event's name, if it has one, and its data.
pub(super) fn frames_of(text: &str) -> Vec<(Option<String>, String)> {
    let mut frames = Vec::new();
    let (mut event, mut data) = (None, String::new());
    for line in text.lines().chain(std::iter::once("")) {
        if let Some(name) = line.strip_prefix("event:") {
            event = Some(name.trim().to_owned());
        } else if let Some(more) = line.strip_prefix("data:") {
            if !data.is_empty() {
                data.push('\n');
            }
            data.push_str(more.trim());
        } else if line.trim().is_empty() {
            let (event, data) = (event.take(), std::mem::take(&mut data));
            if event.is_some() || !data.is_empty() {
                frames.push((event, data));
            }
        }
    }
    frames
}
