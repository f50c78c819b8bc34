//! Describes the commands of a selector by as few rules as Redis does.

use super::command_set::{CommandSet, NamedCommand, named_commands};
use super::selector::Selector;
use crate::table::Category;

/// The categories that Redis 7.0 does not have.
const OWN: [Category; 1] = [Category::Feed];

/// The search for the categories that describe a set of commands.
struct Search {
    /// Whether the description starts with no commands and adds some. Otherwise it starts with all
    /// commands and removes some.
    adds: bool,
    /// The commands that the rules found so far allow.
    described: CommandSet,
    /// The wanted set without the effects of the rules found so far.
    rest: CommandSet,
    rules: Vec<Vec<u8>>,
}

impl Search {
    /// Adds rules for the categories that describe more commands correctly than wrongly, the best
    /// one first. Only commands for which `counts` is true decide.
    fn add_categories(&mut self, categories: &[Category], counts: fn(&NamedCommand) -> bool) {
        let mut left: Vec<Category> = categories.to_vec();
        loop {
            // As in Redis, the first of several equally good categories is used.
            let mut best: Option<(usize, usize, usize)> = None;
            for (place, category) in left.iter().enumerate() {
                let (mut same, mut other) = (0, 0);
                let members = named_commands()
                    .filter(|command| counts(command) && command.categories.has(*category));
                for command in members {
                    match self.rest.has(command.number) == self.adds {
                        true => same += 1,
                        false => other += 1,
                    }
                }
                let is_better = best
                    .is_none_or(|(_, least, most)| other < least || other == least && same > most);
                if same > other && is_better {
                    best = Some((place, other, same));
                }
            }
            let Some((place, ..)) = best else {
                return;
            };
            let category = left.remove(place);
            self.described.change_category(category, self.adds);
            self.rest.change_category(category, !self.adds);
            self.rules
                .push([self.sign(self.adds), b"@", category.name().as_bytes()].concat());
        }
    }

    fn sign(&self, allowed: bool) -> &'static [u8] {
        if allowed { b"+" } else { b"-" }
    }
}

impl Selector {
    /// Returns rules that allow exactly the commands of this selector. The first rule is `+@all` or
    /// `-@all`. Takes O(categories * categories * commands) time.
    pub(crate) fn command_rules(&self) -> Vec<Vec<u8>> {
        let adds = !self.allows_future;
        let mut search = Search {
            adds,
            described: match adds {
                true => CommandSet::default(),
                false => CommandSet::ALL,
            },
            rest: self.commands,
            rules: vec![if adds {
                b"-@all".to_vec()
            } else {
                b"+@all".to_vec()
            }],
        };
        let in_redis = Category::ALL.iter().filter(|one| !OWN.contains(one));
        let in_redis: Vec<Category> = in_redis.copied().collect();
        search.add_categories(&in_redis, NamedCommand::is_in_redis);
        search.add_categories(&OWN, |command| !command.is_in_redis());
        // Correct the differences command by command.
        for command in named_commands() {
            let allowed = self.commands.has(command.number);
            if allowed != search.described.has(command.number) {
                search.described.change(command, allowed);
                let rule = [search.sign(allowed), command.name.as_bytes()].concat();
                search.rules.push(rule);
            }
            let arguments = self.first_arguments.get(&command.number);
            for argument in arguments.into_iter().flatten().filter(|_| !allowed) {
                search
                    .rules
                    .push([b"+", command.name.as_bytes(), b"|", argument].concat());
            }
        }
        search.rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(rules: &str) -> String {
        let mut selector = Selector::new(false);
        for rule in rules.split(' ') {
            selector.apply(rule.as_bytes()).expect("a sound rule");
        }
        let text = selector.command_rules().join(&b' ');
        let mut again = Selector::new(false);
        for rule in text.split(|byte| *byte == b' ') {
            again.apply(rule).expect("a sound rule");
        }
        assert_eq!(again.commands, selector.commands, "{rules}");
        String::from_utf8(text).expect("ASCII")
    }

    #[test]
    fn rules_are_those_of_redis() {
        for (rules, expected) in [
            ("+@all -@all", "-@all"),
            ("+@read -get", "-@all +@read -get"),
            ("+@all -get", "+@all -get"),
            ("+@admin +acl|cat", "-@all +@admin +acl|cat"),
            ("+client -client|id", "-@all +client -client|id"),
            ("+select|0 +select|1 +SELECT|0", "-@all +select|0 +select|1"),
            ("+@all -select +select|1", "+@all -select +select|1"),
            ("allcommands -@dangerous", "+@all -@dangerous"),
            ("+@all -acl|whoami", "+@all -acl|whoami"),
            (
                "+failover +client|tracking",
                "-@all +client|tracking +failover",
            ),
            ("+@feed", "-@all +@feed"),
            ("+@all -@feed", "+@all -@feed"),
            ("+@feed -feed.add", "-@all +@feed -feed.add"),
        ] {
            assert_eq!(described(rules), expected, "{rules}");
        }
    }
}
