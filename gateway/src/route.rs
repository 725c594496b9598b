//! Where a request goes: to the gateway itself, to one of the configured upstreams, or nowhere. Pure; knows no header but
//! `Host` and no body.

use std::net::IpAddr;

use http::Uri;
use reqwest::Url;

use crate::config::OWN_PATHS;

/// The upstreams by their names.
#[derive(Debug)]
pub(crate) struct Routes {
    upstreams: Vec<(String, Url)>,
    default: Option<usize>,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Health,
    Status,
    /// To this one of the upstreams.
    Upstream {
        number: usize,
        url: Url,
    },
}

/// Why a request goes nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Astray {
    /// The target is not a path: an absolute URL, an authority, or `*`.
    NotAPath,
    /// The path could be read in more than one way.
    Unclean,
    /// No upstream has this name, and there is no default.
    Unknown,
}

impl Routes {
    pub(crate) const fn new(upstreams: Vec<(String, Url)>, default: Option<usize>) -> Self {
        Self { upstreams, default }
    }

    /// The first segment of the path names the upstream; what follows it is appended to the upstream's URL as it is.
    pub(crate) fn find(&self, target: &Uri) -> Result<Route, Astray> {
        let path = target.path();
        if target.scheme().is_some() || target.authority().is_some() || !path.starts_with('/') {
            return Err(Astray::NotAPath);
        }
        if path.starts_with("//") || climbs(path) {
            return Err(Astray::Unclean);
        }
        match path.strip_prefix('/') {
            Some(own) if own == OWN_PATHS[0] => return Ok(Route::Health),
            Some(own) if own == OWN_PATHS[1] => return Ok(Route::Status),
            _ => {}
        }
        let (number, rest) = self.upstream(path).ok_or(Astray::Unknown)?;
        let (_, base) = self.upstreams.get(number).ok_or(Astray::Unknown)?;
        let mut url = base.clone();
        url.set_path(&format!("{}{rest}", base.path().trim_end_matches('/')));
        url.set_query(target.query());
        // nothing above lets this happen; an open proxy would be the price of a mistake
        if url.origin() != base.origin() || !url.username().is_empty() || url.password().is_some() {
            return Err(Astray::Unclean);
        }
        Ok(Route::Upstream { number, url })
    }

    /// Which upstream, and the path there.
    fn upstream<'p>(&self, path: &'p str) -> Option<(usize, &'p str)> {
        let named = self.upstreams.iter().position(|(name, _)| {
            path.strip_prefix('/')
                .and_then(|path| path.strip_prefix(name.as_str()))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        match named {
            Some(number) => {
                let (name, _) = self.upstreams.get(number)?;
                Some((number, path.get(1 + name.len()..)?))
            }
            None => self.default.map(|number| (number, path)),
        }
    }
}

/// Is there a segment that leads upwards, in any of the ways in which servers read one? The URL standard takes `%2e` for a
/// dot and `\` for a slash, some servers decode `%2f` before they split, and some cut a segment off at a `;`.
fn climbs(path: &str) -> bool {
    let path = path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/");
    let path = path.replace("%5c", "/").replace('\\', "/").replace("%3b", ";");
    path.split('/')
        .filter_map(|segment| segment.split(';').next())
        .any(|segment| matches!(segment, "." | ".."))
}

/// May a request address the gateway by this `Host`? A page in a browser can have its own name lead to this machine (DNS
/// rebinding), and would then be let in as if it were local. Addresses and `localhost` cannot be made to.
pub(crate) fn is_own_host(host: &str, allowed: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(default: Option<usize>) -> Routes {
        let url = |url| Url::parse(url).unwrap();
        Routes::new(
            vec![
                ("openai".to_owned(), url("https://api.openai.example")),
                ("team".to_owned(), url("https://shared.example:8443/teams/a/")),
            ],
            default,
        )
    }

    fn find(default: Option<usize>, target: &str) -> Result<String, Astray> {
        match routes(default).find(&target.parse().unwrap()) {
            Ok(Route::Upstream { url, .. }) => Ok(url.into()),
            Ok(own) => Ok(format!("{own:?}")),
            Err(astray) => Err(astray),
        }
    }

    #[test]
    fn the_first_segment_names_the_upstream() {
        for (target, url) in [
            (
                "/openai/v1/chat/completions",
                "https://api.openai.example/v1/chat/completions",
            ),
            (
                "/openai/v1/models?after=a%20b&x",
                "https://api.openai.example/v1/models?after=a%20b&x",
            ),
            ("/openai", "https://api.openai.example/"),
            ("/openai/", "https://api.openai.example/"),
            ("/team/v1/messages", "https://shared.example:8443/teams/a/v1/messages"),
            ("/openai/status", "https://api.openai.example/status"),
            (
                "/openai/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
                "https://api.openai.example/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
            ),
            (
                "/openai/models/org%2Fmodel@v1",
                "https://api.openai.example/models/org%2Fmodel@v1",
            ),
        ] {
            assert_eq!(find(None, target).as_deref(), Ok(url), "{target}");
        }
    }

    #[test]
    fn what_names_none_goes_to_the_default_or_nowhere() {
        for target in ["/", "/v1/models", "/openaix/v1", "/OpenAI/v1"] {
            assert_eq!(find(None, target), Err(Astray::Unknown), "{target}");
            let expected = format!("https://api.openai.example{target}");
            assert_eq!(find(Some(0), target), Ok(expected));
        }
    }

    #[test]
    fn the_gateways_own_paths_are_exact() {
        assert_eq!(find(None, "/healthz").as_deref(), Ok("Health"));
        assert_eq!(find(Some(0), "/status?pretty").as_deref(), Ok("Status"));
        assert_eq!(find(None, "/status/x"), Err(Astray::Unknown));
        assert_eq!(
            find(Some(0), "/status/x").as_deref(),
            Ok("https://api.openai.example/status/x")
        );
    }

    #[test]
    fn no_target_leads_to_another_host() {
        for target in [
            "http://evil.example/",
            "https://api.openai.example/v1/models",
            "http://127.0.0.1/openai/v1/models",
            "evil.example:443",
            "*",
        ] {
            assert_eq!(find(Some(0), target), Err(Astray::NotAPath), "{target}");
        }
        for target in ["//evil.example/v1", "//", "///evil.example"] {
            assert_eq!(find(Some(0), target), Err(Astray::Unclean), "{target}");
        }
        for (target, url) in [
            (
                "/openai//evil.example/v1",
                "https://api.openai.example//evil.example/v1",
            ),
            ("/openai/@evil.example/", "https://api.openai.example/@evil.example/"),
            (
                "/team/http://evil.example/",
                "https://shared.example:8443/teams/a/http://evil.example/",
            ),
            (
                "/openai/:80@evil.example",
                "https://api.openai.example/:80@evil.example",
            ),
        ] {
            assert_eq!(find(Some(0), target).as_deref(), Ok(url), "{target}");
        }
    }

    #[test]
    fn no_path_climbs_out_of_its_upstream() {
        for path in [
            "/team/../b/v1",
            "/team/..",
            "/team/./v1",
            "/team/%2e%2e/b",
            "/team/%2E./b",
            "/team/..%2fb",
            "/team/..%5Cb",
            "/team/v1%2F..%2F..%2Fb",
            "/team/..;x=1/b",
            "/team/..%3Bx/b",
            "/../team/v1",
            "/openai/../status",
        ] {
            assert_eq!(find(Some(0), path), Err(Astray::Unclean), "{path}");
        }
        for path in [
            "/team/...",
            "/team/..a/b",
            "/team/v1.0/.well-known",
            "/team/v1/a;b=../c",
        ] {
            assert!(find(None, path).is_ok(), "{path}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        let allowed = ["Gateway.Internal".to_owned()];
        for host in [
            "localhost",
            "LOCALHOST:8787",
            "a.localhost:80",
            "127.0.0.1:8787",
            "[::1]:8787",
            "192.0.2.7",
            "gateway.internal:8787",
        ] {
            assert!(is_own_host(host, &allowed), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8787",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
        ] {
            assert!(!is_own_host(host, &allowed), "{host}");
        }
    }
}
