//! Shows how far a batch is: a bar that is redrawn on a terminal, else a line for every tenth. Knows only numbers.

use std::io::Write;
use std::time::{Duration, Instant};

use super::plan::Plan;
use super::watch::{Counts, Watch};

/// With the text beside it, this fits into 80 columns.
const WIDTH: u64 = 20;
/// A terminal need not be redrawn more often.
const FRAME: Duration = Duration::from_millis(40);

pub(crate) struct Bar<'a> {
    out: &'a mut dyn Write,
    terminal: bool,
    requests: u64,
    expected: Duration,
    drawn_at: Option<Instant>,
    tenths: u64,
}

impl<'a> Bar<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, terminal: bool, plan: &Plan) -> Self {
        Self {
            out,
            terminal,
            requests: plan.requests,
            expected: plan.expected,
            drawn_at: None,
            tenths: 0,
        }
    }

    /// Shows the counts, if it is time to. A batch does not fail because nobody looks, so what cannot be written is not.
    pub(crate) fn draw(&mut self, watch: &Watch) {
        let elapsed = watch.elapsed();
        let (done, text) = watch.with(|counts| (done(counts), self.line(counts, elapsed)));
        if self.terminal {
            let last = done >= self.requests;
            if !last && self.drawn_at.is_some_and(|at| at.elapsed() < FRAME) {
                return;
            }
            self.drawn_at = Some(Instant::now());
            let full = usize::try_from(WIDTH * done / self.requests).unwrap_or_default();
            let width = usize::try_from(WIDTH).unwrap_or_default();
            // back to the start of the line, and erase what is left of the old one
            let _ = write!(self.out, "\r[{:-<width$}] {text}\x1b[K", "#".repeat(full));
            if last {
                let _ = writeln!(self.out);
            }
        } else {
            let tenths = 10 * done / self.requests;
            if tenths <= self.tenths {
                return;
            }
            self.tenths = tenths;
            let _ = writeln!(self.out, "  {text}");
        }
        let _ = self.out.flush();
    }

    fn line(&self, counts: &Counts, elapsed: Duration) -> String {
        let (all, done) = (self.requests, done(counts));
        format!(
            "{done:>digits$}/{all}, {} in flight, {} retries, {:.1} of {:.1} s",
            counts.in_flight,
            counts.retries,
            elapsed.as_secs_f64(),
            self.expected.as_secs_f64(),
            digits = all.to_string().len(),
        )
    }
}

fn done(counts: &Counts) -> u64 {
    counts.successes + counts.final_failures()
}
