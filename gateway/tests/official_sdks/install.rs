//! Puts the pinned SDKs into the target folder, once for each list of versions. Knows no call.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::calls::Language;

/// The marker of a whole installation, with all that it was made of.
const MADE_OF: &str = "made-of";

pub(crate) fn python() -> Language {
    let recent = "import sys; sys.exit(sys.version_info < (3, 11))";
    assert!(
        runs("python3", &["-c", recent]),
        "the official Python SDKs are measured with Python 3.11 or later, and there is none: install it (on Debian and \
         Ubuntu: `apt-get install python3 python3-venv`)"
    );
    let pins = [("requirements.txt", include_str!("python/requirements.txt"))];
    let folder = installed("python", &pins, |folder| {
        let requirements = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--requirement",
            "requirements.txt",
        ];
        // Debian's python3 is without `ensurepip` until python3-venv is installed
        if runs_in(folder, "python3", &["-m", "venv", "venv"]) {
            return runs_in(folder, "venv/bin/python", &requirements);
        }
        let _ = std::fs::remove_dir_all(folder.join("venv"));
        let mut targeted = requirements.to_vec();
        targeted.extend(["--target", "packages"]);
        runs_in(folder, "python3", &targeted)
    });
    let environment = folder.join("venv/bin/python");
    let (program, packages) = match environment.exists() {
        true => (environment, Vec::new()),
        false => (PathBuf::from("python3"), vec![("PYTHONPATH", folder.join("packages"))]),
    };
    Language {
        program,
        script: write(&folder, "calls.py", include_str!("python/calls.py")),
        outage: write(&folder, "outage.py", include_str!("python/outage.py")),
        folder,
        environment: packages,
        names: ["openai (Python)", "anthropic (Python)"],
    }
}

pub(crate) fn node() -> Language {
    let recent = "process.exit(process.versions.node.split('.')[0] < 20 ? 1 : 0)";
    assert!(
        runs("node", &["-e", recent]) && runs("npm", &["--version"]),
        "the official Node SDKs are measured with Node.js 20 or later and npm, and they are not there: install them \
         (https://nodejs.org, or on Debian and Ubuntu `apt-get install nodejs npm`)"
    );
    let pins = [
        ("package.json", include_str!("node/package.json")),
        ("package-lock.json", include_str!("node/package-lock.json")),
    ];
    let folder = installed("node", &pins, |folder| {
        runs_in(
            folder,
            "npm",
            &["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"],
        )
    });
    Language {
        program: PathBuf::from("node"),
        script: write(&folder, "calls.mjs", include_str!("node/calls.mjs")),
        outage: write(&folder, "outage.mjs", include_str!("node/outage.mjs")),
        folder,
        environment: Vec::new(),
        names: ["openai (Node)", "@anthropic-ai/sdk (Node)"],
    }
}

/// A folder with these lists of versions and what `install` puts beside them; made anew if one of the lists has changed, or if
/// the last installation was not brought to its end.
fn installed(name: &str, pins: &[(&'static str, &str)], install: impl Fn(&Path) -> bool) -> PathBuf {
    // one at a time: the tests of a language share its folder
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("official-sdks").join(name);
    let made_of: String = pins.iter().map(|(_, text)| *text).collect();
    if std::fs::read_to_string(folder.join(MADE_OF)).is_ok_and(|before| before == made_of) {
        return folder;
    }
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for &(file, text) in pins {
        write(&folder, file, text);
    }
    assert!(
        install(&folder),
        "the {name} SDKs could not be installed from their registry: what it said is above"
    );
    std::fs::write(folder.join(MADE_OF), made_of).unwrap();
    folder
}

fn write(folder: &Path, file: &'static str, text: &str) -> &'static str {
    std::fs::write(folder.join(file), text).unwrap();
    file
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

fn runs_in(folder: &Path, program: &str, arguments: &[&str]) -> bool {
    // one of the folder's own is named by its path in it
    let program = match program.contains('/') {
        true => folder.join(program),
        false => PathBuf::from(program),
    };
    let status = Command::new(program).args(arguments).current_dir(folder).status();
    status.is_ok_and(|status| status.success())
}
