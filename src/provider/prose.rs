//! Sentences meant for people: how they are parted, and how a phrase or a number is looked for in them. Knows no phrase of
//! its own.

/// A sentence of a message. Windows are looked for in the original spelling (`UserByModelByDay`), phrases in lower case.
#[derive(Debug)]
pub(super) struct Sentence {
    pub(super) spelled: String,
    pub(super) lower: String,
}

/// The sentences of a message. With `quotes` off, what stands in quotation marks is left out: the answer to a malformed
/// request repeats the caller's own words there, and a prompt may speak of quotas too.
pub(super) fn sentences(message: &str, quotes: bool) -> Vec<Sentence> {
    let message = without_spans(message, |c| (c == '`').then_some('`'));
    // an error as a Python dictionary, as relays print it, is all in quotation marks; one with roles is the conversation
    let is_error = message.contains("'message': ") && !message.contains("'role': ");
    let message = if quotes || is_error {
        message
    } else {
        without_spans(&message, |c| match c {
            '\'' => Some('\''),
            '"' => Some('"'),
            '“' => Some('”'),
            _ => None,
        })
    };
    let mut sentences = Vec::new();
    let mut rest = message.as_str();
    while !rest.is_empty() {
        let (sentence, after) = rest.split_at(end_of_sentence(rest));
        rest = after;
        let words: Vec<&str> = sentence.split_whitespace().collect();
        if !words.is_empty() {
            let spelled = words.join(" ").replace('’', "'");
            let lower = spelled.to_lowercase();
            sentences.push(Sentence { spelled, lower });
        }
    }
    sentences
}

fn end_of_sentence(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let ends = match c {
            '\n' | '。' | '！' | '；' => true,
            '.' | '!' | '?' | ';' => chars.peek().is_some_and(|(_, next)| next.is_whitespace()),
            _ => false,
        };
        if ends {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// The text without what stands between an opening mark and its closing one. An apostrophe opens nothing.
fn without_spans(text: &str, closing: impl Fn(char) -> Option<char>) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut before = ' ';
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let rest = chars.as_str();
        let close = closing(c).filter(|_| !before.is_alphanumeric());
        match close.and_then(|close| rest.find(close).map(|at| at + close.len_utf8())) {
            Some(end) => {
                chars = rest.get(end..).unwrap_or_default().chars();
                before = ' ';
            }
            None => {
                kept.push(c);
                before = c;
            }
        }
    }
    kept
}

/// Does the sentence (in lower case) hold the parts of the phrase in their order, each at the beginning of a word? Parts are
/// divided by `…`; `^` binds the first to the beginning and `$` the last to the end of the sentence.
pub(super) fn says(sentence: &str, phrase: &str) -> bool {
    let (phrase, from_start) = phrase.strip_prefix('^').map_or((phrase, false), |rest| (rest, true));
    let (phrase, to_end) = phrase.strip_suffix('$').map_or((phrase, false), |rest| (rest, true));
    let mut rest = sentence;
    let mut first = true;
    for part in phrase.split('…') {
        let found = if first && from_start {
            rest.starts_with(part).then_some(0)
        } else {
            find_word(rest, part)
        };
        let Some(at) = found else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
        first = false;
    }
    !to_end || rest.trim_end_matches(['.', '!', ' ']).is_empty()
}

/// Where the part stands at the beginning of a word. Chinese has no spaces, so that any place will do.
pub(super) fn find_word(text: &str, part: &str) -> Option<usize> {
    let bound = part.starts_with(|c: char| c.is_ascii_alphanumeric());
    text.match_indices(part).map(|(at, _)| at).find(|&at| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        !bound || before.is_none_or(|c| !c.is_ascii_alphanumeric())
    })
}

/// The numbers that follow the word at once: `limit: 30,000`, `limit 7000`, `limit is 0`, `requested 7895`.
pub(super) fn numbers_after<'a>(sentence: &'a str, word: &'a str) -> impl Iterator<Item = f64> + 'a {
    sentence.match_indices(word).filter_map(move |(at, _)| {
        let rest = sentence.get(at + word.len()..)?;
        let rest = rest.trim_start_matches([':', '=', ' ']);
        let rest = ["is ", "of ", "was "]
            .iter()
            .fold(rest, |rest, filler| rest.strip_prefix(filler).unwrap_or(rest));
        leading_number(rest)
    })
}

/// The number at the beginning, with thousands separators and a fraction if it has them.
pub(super) fn leading_number(text: &str) -> Option<f64> {
    let mut digits = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        let next_is_digit = after.starts_with(|c: char| c.is_ascii_digit());
        match c {
            '0'..='9' => digits.push(c),
            ',' if !digits.is_empty() && is_group(after) => {}
            '.' if !digits.is_empty() && next_is_digit && !digits.contains('.') => digits.push('.'),
            _ => break,
        }
        rest = after;
    }
    digits.parse().ok()
}

fn is_group(text: &str) -> bool {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    digits == 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_is_found_in_order_and_at_word_starts() {
        assert!(says("your credit balance is too low", "credit…too low"));
        assert!(!says("too low a credit", "credit…too low"));
        assert!(!says("a bandwidth limit", "ban…width"));
        assert!(says("overloaded.", "^overloaded$"));
        assert!(!says("overloaded functions are unsupported", "^overloaded$"));
        assert!(says("余额不足或无可用资源包,请充值", "余额不足"));
    }

    #[test]
    fn quotation_is_left_out_where_it_is_an_echo() {
        let parts = |quotes| {
            let sentences = sentences(
                "Invalid value: 'you exceeded your current quota'. It isn't one. Use `x`.",
                quotes,
            );
            sentences.into_iter().map(|sentence| sentence.lower).collect::<Vec<_>>()
        };
        assert_eq!(parts(false), ["invalid value: .", "it isn't one.", "use ."]);
        assert_eq!(
            parts(true),
            [
                "invalid value: 'you exceeded your current quota'.",
                "it isn't one.",
                "use ."
            ]
        );
    }

    #[test]
    fn numbers_are_read_with_separators() {
        let after = |text: &str, word: &str| numbers_after(text, word).next();
        assert_eq!(after("limit 30,000, requested 37313", "limit"), Some(30_000.0));
        assert_eq!(after("limit: 0.5", "limit"), Some(0.5));
        assert_eq!(after("limit: 0/1min", "limit"), Some(0.0));
        assert_eq!(
            after("(for limit gpt-4.1) limit 30000, requested 5", "limit"),
            Some(30_000.0)
        );
        assert_eq!(after("the limit is reached", "limit"), None);
    }
}
