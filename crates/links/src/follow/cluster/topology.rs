//! A node's view of the cluster: the reply of CLUSTER NODES, which all versions have, and which,
//! other than CLUSTER SHARDS, also shows the slots that are moving.

use std::ops::RangeInclusive;
use std::time::Instant;

use undercroft_engine::SLOTS;
use undercroft_resp::Value;

use crate::follow::client::SourceClient;
use crate::follow::error::FollowError;
use crate::follow::source_url::Address;

/// The maximum length in bytes of a host and of the id of a node. Names in the DNS have at most 253.
const TEXT_MAX: usize = 255;

/// A node, as another node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) address: Address,
    /// Whether the node is a master that the other one can reach.
    pub(super) is_master: bool,
}

/// A node's view of the cluster and of itself.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// When the node was asked.
    pub(super) asked: Instant,
    /// The id of the node.
    pub(super) id: String,
    /// Whether the node is a master.
    pub(super) is_master: bool,
    /// The slots that the node owns.
    pub(super) owned: Vec<RangeInclusive<u16>>,
    /// The slots that the node imports.
    pub(super) imported: Vec<u16>,
    /// The slots that the node migrates.
    pub(super) migrated: Vec<u16>,
    /// All nodes, including this one.
    pub(super) nodes: Vec<Node>,
    /// Positions of the node's stream before and after it has said so.
    pub(super) before: u64,
    pub(super) after: u64,
}

impl View {
    /// Asks a node, which has this address.
    pub(super) fn ask(
        client: &mut SourceClient<'_>,
        address: &Address,
    ) -> Result<View, FollowError> {
        let asked = Instant::now();
        let before = client.position()?.offset;
        let reply = client.call(&["CLUSTER", "NODES"])?;
        let (Value::Bulk(text) | Value::Verbatim(_, text)) = reply else {
            return Err(FollowError::Protocol(
                "expected the text of CLUSTER NODES".into(),
            ));
        };
        let text = String::from_utf8_lossy(&text);
        let mut view = View::parse(&text, address, asked).ok_or_else(|| {
            let text = text.chars().take(200).collect::<String>();
            FollowError::Protocol(format!(
                "expected the nodes of a cluster, got {}",
                text.escape_debug()
            ))
        })?;
        view.before = before;
        view.after = client.position()?.offset;
        Ok(view)
    }

    fn parse(text: &str, address: &Address, asked: Instant) -> Option<View> {
        let mut view = None;
        let mut nodes = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [id, place, flags, _, _, _, _, _, slots @ ..] = &words[..] else {
                return None;
            };
            if id.len() > TEXT_MAX {
                return None;
            }
            let has = |flag| flags.split(',').any(|word| word == flag);
            let is_myself = has("myself");
            let is_unreachable = ["fail", "handshake", "noaddr"].into_iter().any(has);
            let place = match is_myself {
                // A node may not know its own address, or another one than clients use.
                true => Some(address.clone()),
                false => parse_place(place),
            };
            if let Some(address) = place {
                nodes.push(Node {
                    id: (*id).to_owned(),
                    address,
                    is_master: has("master") && !is_unreachable,
                });
            }
            if is_myself {
                let mut mine = View {
                    asked,
                    id: (*id).to_owned(),
                    is_master: has("master"),
                    owned: Vec::new(),
                    imported: Vec::new(),
                    migrated: Vec::new(),
                    nodes: Vec::new(),
                    before: 0,
                    after: 0,
                };
                // No slot is named twice.
                if slots.len() > SLOTS {
                    return None;
                }
                for slot in slots {
                    mine.add_slots(slot)?;
                }
                let count: usize = mine.owned.iter().map(ExactSizeIterator::len).sum();
                if count > SLOTS {
                    return None;
                }
                view = Some(mine);
            }
        }
        let mut view = view?;
        view.nodes = nodes;
        Some(view)
    }

    /// Adds a word of the node's own line: a slot, a range, or a slot that moves.
    fn add_slots(&mut self, word: &str) -> Option<()> {
        let number = |text: &str| {
            let slot: u16 = text.parse().ok()?;
            (usize::from(slot) < SLOTS).then_some(slot)
        };
        if let Some(moving) = word.strip_prefix('[') {
            if let Some((slot, _)) = moving.split_once("-<-") {
                self.imported.push(number(slot)?);
            } else if let Some((slot, _)) = moving.split_once("->-") {
                self.migrated.push(number(slot)?);
            }
            return Some(());
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        self.owned.push(number(first)?..=number(last)?);
        Some(())
    }

    /// Returns whether the node owns a slot.
    pub(super) fn owns(&self, slot: u16) -> bool {
        self.is_master && self.owned.iter().any(|range| range.contains(&slot))
    }

    /// Returns whether the node owns a slot or imports it.
    pub(super) fn claims(&self, slot: u16) -> bool {
        self.owns(slot) || self.imports(slot)
    }

    /// Returns whether the node imports a slot.
    pub(super) fn imports(&self, slot: u16) -> bool {
        self.is_master && self.imported.contains(&slot)
    }

    /// Returns whether the node owns a slot and does not migrate it.
    pub(super) fn keeps(&self, slot: u16) -> bool {
        self.owns(slot) && !self.migrated.contains(&slot)
    }

    /// Returns the slots that the node owns.
    pub(super) fn slots(&self) -> impl Iterator<Item = u16> + '_ {
        let owned = self.owned.iter().filter(|_| self.is_master);
        owned.cloned().flatten()
    }
}

/// Parses `ip:port@bus-port,hostname`. Prefers the name of the host, which the certificate of a server
/// with TLS contains.
fn parse_place(text: &str) -> Option<Address> {
    let mut parts = text.split(',');
    let (ip, rest) = parts.next()?.rsplit_once(':')?;
    let port = rest
        .split('@')
        .next()?
        .parse()
        .ok()
        .filter(|&port| port != 0)?;
    let name = parts
        .next()
        .filter(|name| !name.is_empty() && !name.contains('='));
    let host = name.unwrap_or(ip);
    (1..=TEXT_MAX).contains(&host.len()).then(|| Address::Tcp {
        host: host.to_owned(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_a_cluster_are_parsed() {
        let text = "\
07c3 127.0.0.1:30004@31004,host4 slave e7d1 0 1426238317239 4 connected
67ed :0@0 myself,master - 0 0 1 connected 0-5460 5462 [93-<-292f] [77->-e7d1]
292f 127.0.0.1:30003@31003 master - 0 1426238318243 3 connected 10923-16383
dead 10.0.0.1:30003@31003,,shard-id=1 master,fail - 0 1426238318243 3 disconnected
e7d1 fe80::1:30002@31002 master - 0 1426238316232 2 connected 5461-10922
";
        let tcp = |host: &str, port| Address::Tcp {
            host: host.into(),
            port,
        };
        let view = View::parse(text, &tcp("seed", 7), Instant::now()).expect("a view");
        assert_eq!((view.id.as_str(), view.is_master), ("67ed", true));
        assert_eq!(
            (&view.imported[..], &view.migrated[..]),
            (&[93][..], &[77][..])
        );
        let found: Vec<(&str, Address, bool)> = view
            .nodes
            .iter()
            .map(|node| (node.id.as_str(), node.address.clone(), node.is_master))
            .collect();
        let expected = [
            ("07c3", tcp("host4", 30004), false),
            ("67ed", tcp("seed", 7), true),
            ("292f", tcp("127.0.0.1", 30003), true),
            ("dead", tcp("10.0.0.1", 30003), false),
            ("e7d1", tcp("fe80::1", 30002), true),
        ];
        assert_eq!(found, expected);
        for (slot, owns, claims) in [(0, true, true), (5461, false, false), (93, true, true)] {
            assert_eq!(
                (view.owns(slot), view.claims(slot)),
                (owns, claims),
                "{slot}"
            );
        }
        assert!(!view.owns(5461) && view.owns(5462) && view.slots().count() == 5462);
    }

    #[test]
    fn malformed_nodes_are_refused() {
        let seed = Address::Tcp {
            host: "h".into(),
            port: 1,
        };
        for text in [
            "",
            "ERR",
            "a b:1@2 myself,master",
            "a b:1@2 master - 0 0 1 connected 0-1",
            "a b:1@2 myself,master - 0 0 1 connected 0-16384",
            "a b:1@2 myself,master - 0 0 1 connected [x-<-b]",
            "a b:1@2 myself,master - 0 0 1 connected 0-16383 7",
        ] {
            assert!(View::parse(text, &seed, Instant::now()).is_none(), "{text}");
        }
        let long = "x".repeat(TEXT_MAX + 1);
        assert_eq!(parse_place(&format!("{long}:1@2")), None);
        let id = format!("{long} b:1@2 myself,master - 0 0 1 connected 0");
        assert!(View::parse(&id, &seed, Instant::now()).is_none());
    }
}
