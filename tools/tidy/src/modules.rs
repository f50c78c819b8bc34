//! Finds a crate's modules and the dependencies between them, by parsing the sources without
//! compiling them.
//!
//! A path in a file is a dependency of the file on the file that defines the named item, even if
//! the path goes through re-exports. A re-export is not a dependency: a `mod.rs` that re-exports
//! its children's items does not depend on them. Tests are ignored.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Item, ItemMod, ItemUse, Macro, UseTree, Visibility};

use crate::Repo;

/// The names from the crate's root to a module. Empty for the root.
type Place = Vec<String>;

/// A module, in a separate file or inline.
#[derive(Default)]
struct Module {
    /// The file that contains the module.
    file: String,
    /// The names of the items that the module defines, except modules and imports.
    items: BTreeSet<String>,
    /// The names that the module imports or re-exports, each with the path that it stands for.
    names: BTreeMap<String, Place>,
    /// The modules and types from which all names are imported.
    globs: Vec<Place>,
    /// The paths that the module's code uses, resolved to places in the crate.
    used: Vec<Place>,
}

/// All modules of one crate.
pub(crate) struct Modules {
    modules: BTreeMap<Place, Module>,
}

/// For each file, the files on which it depends.
pub(crate) type Arrows = BTreeMap<String, BTreeSet<String>>;

impl Modules {
    /// Parses the crate whose sources are in `directory`, such as `crates/engine/src`.
    ///
    /// # Errors
    /// If a file cannot be parsed, or if a module has no file.
    pub(crate) fn read(repo: &Repo, directory: &str) -> Result<Modules, String> {
        let mut modules = Modules {
            modules: BTreeMap::new(),
        };
        let root = ["lib.rs", "main.rs"]
            .map(|name| format!("{directory}/{name}"))
            .into_iter()
            .find(|path| repo.file(path).is_some())
            .ok_or_else(|| format!("{directory}: has neither lib.rs nor main.rs"))?;
        modules.add_file(repo, &root, directory, Vec::new())?;
        Ok(modules)
    }

    /// Returns the dependencies between the files of the crate.
    pub(crate) fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for module in self.modules.values() {
            let from = arrows.entry(module.file.clone()).or_default();
            for path in &module.used {
                if let Some(file) = self.file_of(path, 0)
                    && file != module.file
                {
                    from.insert(file);
                }
            }
        }
        arrows
    }

    fn add_file(
        &mut self,
        repo: &Repo,
        path: &str,
        directory: &str,
        place: Place,
    ) -> Result<(), String> {
        let file = repo
            .file(path)
            .ok_or_else(|| format!("{path}: does not exist"))?;
        let syntax = syn::parse_file(&file.text).map_err(|error| format!("{path}: {error}"))?;
        self.add(repo, path, directory, place, &syntax.items)
    }

    /// Adds a module and its children, whose files are in `directory`.
    fn add(
        &mut self,
        repo: &Repo,
        path: &str,
        directory: &str,
        place: Place,
        items: &[Item],
    ) -> Result<(), String> {
        let children: BTreeSet<String> = items
            .iter()
            .filter_map(|item| match item {
                Item::Mod(module) if !is_test(&module.attrs) => Some(module.ident.to_string()),
                _ => None,
            })
            .collect();
        let mut reader = Reader {
            place: &place,
            children: &children,
            module: Module {
                file: path.to_owned(),
                ..Module::default()
            },
        };
        // Collect the imports first, because code can use names that are imported further down.
        for item in items {
            if let Item::Use(imports) = item {
                reader.imports(imports);
            }
        }
        for item in items {
            reader.item(item);
        }
        let module = reader.module;
        self.modules.insert(place.clone(), module);
        for item in items {
            let Item::Mod(child) = item else { continue };
            if is_test(&child.attrs) {
                continue;
            }
            let name = child.ident.to_string();
            let below = [place.clone(), vec![name.clone()]].concat();
            let folder = format!("{directory}/{name}");
            if let Some((_, items)) = &child.content {
                self.add(repo, path, &folder, below, items)?;
                continue;
            }
            let file = [format!("{folder}.rs"), format!("{folder}/mod.rs")]
                .into_iter()
                .find(|path| repo.file(path).is_some())
                .ok_or_else(|| format!("{path}: module {name} has no file"))?;
            self.add_file(repo, &file, &folder, below)?;
        }
        Ok(())
    }

    /// Returns the file that defines the item to which a path leads, as far as the path can be
    /// resolved.
    fn file_of(&self, path: &[String], depth: usize) -> Option<String> {
        // Rust does not allow cyclic imports. The limit applies to imports that this parser
        // misinterprets.
        if depth > 20 {
            return None;
        }
        let mut at = Place::new();
        for (index, name) in path.iter().enumerate() {
            let below = [at.clone(), vec![name.clone()]].concat();
            if self.modules.contains_key(&below) {
                at = below;
                continue;
            }
            let module = self.modules.get(&at)?;
            if module.items.contains(name) {
                break;
            }
            let rest = &path[index + 1..];
            if let Some(target) = module.names.get(name) {
                return self.file_of(&[target, rest].concat(), depth + 1);
            }
            let found = module.globs.iter().find(|glob| {
                self.modules.get(*glob).is_some_and(|module| {
                    module.items.contains(name) || module.names.contains_key(name)
                })
            });
            if let Some(glob) = found {
                return self.file_of(&[&glob[..], &path[index..]].concat(), depth + 1);
            }
            break;
        }
        self.modules.get(&at).map(|module| module.file.clone())
    }
}

/// A visitor that collects the names and paths of one module.
struct Reader<'m> {
    place: &'m Place,
    children: &'m BTreeSet<String>,
    module: Module,
}

impl Reader<'_> {
    fn item(&mut self, item: &Item) {
        match item {
            Item::Mod(_) | Item::Use(_) => {}
            _ => {
                if let Some(name) = name_of(item) {
                    self.module.items.insert(name);
                }
                self.visit_item(item);
            }
        }
    }

    fn imports(&mut self, imports: &ItemUse) {
        if is_test(&imports.attrs) {
            return;
        }
        let mut found = Vec::new();
        flatten(&imports.tree, &mut Vec::new(), &mut found);
        for (path, name) in found {
            let Some(path) = self.resolved(&path) else {
                continue;
            };
            // A module that re-exports its children's items does not depend on them.
            let shows =
                !matches!(imports.vis, Visibility::Inherited) && path.starts_with(self.place);
            if !shows {
                self.module.used.push(path.clone());
            }
            match name {
                Some(name) => _ = self.module.names.insert(name, path),
                None => self.module.globs.push(path),
            }
        }
    }

    /// Returns the path from the crate's root, or `None` if the path leads outside the crate.
    fn resolved(&self, path: &[String]) -> Option<Place> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([self.place, rest].concat()),
            "super" => {
                let mut at = self.place.clone();
                at.pop()?;
                let mut rest = rest;
                while let Some((first, others)) = rest.split_first()
                    && first == "super"
                {
                    at.pop()?;
                    rest = others;
                }
                Some([&at, rest].concat())
            }
            child if self.children.contains(child) => Some([self.place, path].concat()),
            imported => Some([self.module.names.get(imported)?, rest].concat()),
        }
    }

    fn path(&mut self, path: &[String]) {
        if path.len() > 1
            && let Some(path) = self.resolved(path)
        {
            self.module.used.push(path);
        }
    }

    /// Collects the paths in the arguments of a macro, which are unparsed tokens.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if colons == 2 => {
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Ident(ident) => {
                    self.path(&std::mem::replace(&mut path, vec![ident.to_string()]));
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.path(&std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.path(&path);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !attributes(item).is_some_and(is_test) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if path.leading_colon.is_none() {
            self.path(&names);
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, imports: &'ast ItemUse) {
        // An import inside a function adds no names to the module.
        let mut found = Vec::new();
        flatten(&imports.tree, &mut Vec::new(), &mut found);
        for (path, _) in found {
            self.path(&path);
        }
    }

    fn visit_item_mod(&mut self, _module: &'ast ItemMod) {}

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }
}

/// Collects every path in a `use` declaration with its local name. A glob import has no local name.
fn flatten(tree: &UseTree, path: &mut Place, found: &mut Vec<(Place, Option<String>)>) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            flatten(&part.tree, path, found);
            path.pop();
        }
        UseTree::Name(part) if part.ident == "self" => {
            found.push((path.clone(), path.last().cloned()));
        }
        UseTree::Name(part) => {
            let name = part.ident.to_string();
            found.push((
                [&path[..], std::slice::from_ref(&name)].concat(),
                Some(name),
            ));
        }
        UseTree::Rename(part) => {
            let whole = match part.ident.to_string() {
                name if name == "self" => path.clone(),
                name => [&path[..], &[name]].concat(),
            };
            found.push((whole, Some(part.rename.to_string())));
        }
        UseTree::Glob(_) => found.push((path.clone(), None)),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, path, found);
            }
        }
    }
}

fn name_of(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::TraitAlias(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

fn attributes(item: &Item) -> Option<&[syn::Attribute]> {
    Some(match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => return None,
    })
}

/// Returns whether the attributes restrict an item to test builds.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .meta
                .require_list()
                .is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::File;

    /// Returns the dependencies in a crate that consists of these files. Omits their common folder.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let repo = Repo {
            files: files
                .iter()
                .map(|(name, text)| File {
                    path: format!("a/src/{name}.rs"),
                    text: (*text).to_owned(),
                })
                .collect(),
            ..Repo::default()
        };
        let short = |path: &str| path["a/src/".len()..].replace(".rs", "");
        let modules = Modules::read(&repo, "a/src").expect("a crate");
        let all = modules.arrows().into_iter();
        all.flat_map(|(from, others)| {
            let others = others.into_iter();
            others.map(move |to| format!("{} -> {}", short(&from), short(&to)))
        })
        .collect()
    }

    #[test]
    fn a_path_through_re_exports_leads_to_the_defining_file() {
        let lib = ("lib", "mod a; mod b; pub use b::Inner as Shown;");
        let b = ("b/mod", "mod inner; pub use inner::*;");
        let inner = ("b/inner", "pub struct Inner;");
        for text in [
            "use crate::Shown;",
            "use super::b::Inner;",
            "fn f() -> crate::Shown { crate::Shown }",
            "fn f() { println!(\"{}\", crate::b::Inner); }",
        ] {
            let found = arrows(&[lib, ("a", text), b, inner]);
            assert_eq!(found, ["a -> b/inner"], "{text}");
        }
        let text = "use crate::b; fn f(_: b::Inner) {}";
        let found = arrows(&[lib, ("a", text), b, inner]);
        assert_eq!(found, ["a -> b/inner", "a -> b/mod"]);
    }

    #[test]
    fn tests_and_other_crates_are_ignored() {
        let lib = ("lib", "mod a; mod b;");
        let b = ("b", "pub fn f() {}");
        for text in [
            "#[cfg(test)] mod tests { use crate::b::f; }",
            "#[cfg(test)] use crate::b::f;",
            "#[cfg(test)] fn g() { crate::b::f(); }",
            "use std::fmt; fn g(_: &dyn fmt::Debug) {}",
        ] {
            assert_eq!(arrows(&[lib, ("a", text), b]), [""; 0], "{text}");
        }
    }
}
