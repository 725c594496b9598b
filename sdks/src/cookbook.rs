//! The pages of `docs/cookbook`: their snippets are compiled with the documentation's, and the rows of their tables are those
//! of the README. Knows no SDK.

macro_rules! pages {
    ($($page:ident: $file:literal,)+) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../../docs/cookbook/", $file))]
            struct $page;
        )+

        #[cfg(test)]
        const PAGES: &[(&str, &str)] = &[$(($file, include_str!(concat!("../../docs/cookbook/", $file))),)+];
    };
}

pages! {
    AsyncAnthropic: "async-anthropic.md",
    AsyncOpenai: "async-openai.md",
    AwsSdkBedrockruntime: "aws-sdk-bedrockruntime.md",
    AzureCore: "azure_core.md",
    Claudius: "claudius.md",
    CrimsonCrab: "crimson-crab.md",
    Gateway: "gateway.md",
    GeminiRust: "gemini-rust.md",
    Genai: "genai.md",
    Index: "README.md",
    LangchainRust: "langchain-rust.md",
    Layers: "layers.md",
    Llm: "llm.md",
    Node: "node.md",
    Octocrab: "octocrab.md",
    OllamaRs: "ollama-rs.md",
    OpenaiApiRs: "openai-api-rs.md",
    Outage: "outage.md",
    Python: "python.md",
    Rig: "rig.md",
    RustClaudeSdk: "rust-claude-sdk.md",
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::PAGES;
    use crate::sdk::Sdk;

    const README: &str = include_str!("../../README.md");
    const GATEWAY: &str = include_str!("../../gateway/README.md");

    #[test]
    fn every_page_is_compiled_and_in_the_index() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cookbook");
        let files = fs::read_dir(folder).unwrap();
        let files: BTreeSet<_> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        let pages: BTreeSet<_> = PAGES.iter().map(|(file, _)| (*file).to_owned()).collect();
        assert_eq!(files, pages);
        let (_, index) = PAGES.iter().find(|(file, _)| *file == "README.md").unwrap();
        for (file, _) in PAGES.iter().filter(|(file, _)| *file != "README.md") {
            assert!(index.contains(&format!("]({file})")), "{file} is not in the index");
        }
    }

    /// Where a release changes a count, the page says the old one until it is taken over.
    #[test]
    fn every_sdk_has_its_rows_of_the_readme_on_a_page() {
        for sdk in Sdk::ALL {
            let begin = format!("| `{}` ", sdk.name);
            let counts = |row: &&str| row.starts_with(&begin) && row.matches(" | ").count() > 4;
            let rows: Vec<_> = README.lines().filter(counts).collect();
            assert_eq!(rows.len(), 1, "{}", sdk.name);
            for row in rows {
                let told = PAGES.iter().any(|(_, page)| page.lines().any(|line| line == row));
                assert!(told, "no page has this row: {row}");
            }
        }
    }

    #[test]
    fn what_a_page_counts_of_an_sdk_the_readme_counts() {
        let of_an_sdk = |row: &&str| {
            Sdk::ALL
                .iter()
                .any(|sdk| row.starts_with(&format!("| `{}` ", sdk.name)))
        };
        for (file, page) in PAGES {
            for row in page.lines().filter(of_an_sdk) {
                assert!(README.lines().any(|line| line == row), "{file}: {row}");
            }
        }
    }

    #[test]
    fn the_official_sdks_are_counted_in_the_readme_of_the_gateway() {
        for (file, page) in PAGES.iter().filter(|(file, _)| ["python.md", "node.md"].contains(file)) {
            let rows = page.lines().filter(|line| line.ends_with(" | 3 | 12 | 4 |"));
            let rows: Vec<_> = rows.filter_map(|row| row.strip_suffix(" | 3 | 12 | 4 |")).collect();
            assert_eq!(rows.len(), 2, "{file}");
            for row in rows {
                let counted = GATEWAY
                    .lines()
                    .any(|line| line.starts_with(row) && line.ends_with(" | 3 | 12 | 4 |"));
                assert!(counted, "{file}: {row}");
            }
        }
    }

    #[test]
    fn links_lead_somewhere() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cookbook");
        for (file, page) in PAGES {
            for link in page.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
                let path = link.0.split('#').next().unwrap_or_default();
                assert!(
                    path.starts_with("https://") || folder.join(path).exists(),
                    "{file}: {path}"
                );
            }
        }
    }
}
