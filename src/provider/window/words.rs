//! Words, as the names of limits and sentences about them are parted into: `PerDay`, `per_day` and `per day` are the same two,
//! `86400s` is a number and a unit, but `10KTPM` is one word and no limit's name.

use super::unit;

/// One word in lower case, with the mark before it and whether a hyphen follows.
pub(super) struct Word {
    pub(super) text: String,
    pub(super) mark: Option<char>,
    pub(super) hyphen_after: bool,
}

pub(super) fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut mark = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c.is_ascii_alphanumeric() {
            let (word, after) = rest.split_at(end_of_word(rest));
            rest = after;
            let hyphen_after = rest.starts_with('-');
            let (number, letters) = word.split_at(digits(word));
            let parts = if !number.is_empty() && unit(&letters.to_ascii_lowercase()).is_some() {
                vec![number, letters]
            } else {
                vec![word]
            };
            words.extend(parts.into_iter().map(|part| Word {
                text: part.to_ascii_lowercase(),
                mark: mark.take(),
                hyphen_after,
            }));
        } else {
            if !c.is_whitespace() {
                mark = Some(c);
            }
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }
    words
}

fn digits(word: &str) -> usize {
    word.bytes().take_while(u8::is_ascii_digit).count()
}

/// Where the word ends: at the last letter, or before a hump (`Per|Day`, `RPM|Exceeded`, but `RPMs`).
fn end_of_word(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is = |at: usize, like: fn(&u8) -> bool| bytes.get(at).is_some_and(like);
    let ends = |at: &usize| {
        let rises = is(at - 1, u8::is_ascii_lowercase) && is(*at, u8::is_ascii_uppercase);
        let begins_anew = is(at - 1, u8::is_ascii_uppercase)
            && is(*at, u8::is_ascii_uppercase)
            && is(at + 1, u8::is_ascii_lowercase)
            && bytes.get(at + 1) != Some(&b's');
        !is(*at, u8::is_ascii_alphanumeric) || rises || begins_anew
    };
    (1..text.len()).find(ends).unwrap_or(text.len())
}

/// A name as words: `InputTokensPerModel` is `input tokens per model`.
pub(crate) fn spaced(name: &str) -> String {
    let words = words(name);
    words
        .iter()
        .map(|word| word.text.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}
