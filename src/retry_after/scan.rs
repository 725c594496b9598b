//! Reading text from the left: a run of like characters and what follows it. Knows no grammar.

/// The longest beginning whose characters all satisfy `like`, and the rest.
pub(super) fn run(text: &str, like: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !like(c)).unwrap_or(text.len()))
}

/// The ASCII digits that `text` begins with, and the rest: `²` and `٣` are no digits on the wire.
pub(super) fn digits(text: &str) -> (&str, &str) {
    run(text, |c| c.is_ascii_digit())
}

/// The letters that `text` begins with, and the rest.
pub(super) fn letters(text: &str) -> (&str, &str) {
    run(text, char::is_alphabetic)
}

/// Whether `word` is one of `words`, which a space parts, in whatever case.
pub(super) fn one_of(word: &str, words: &str) -> bool {
    words.split(' ').any(|known| known.eq_ignore_ascii_case(word))
}
