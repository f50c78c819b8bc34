//! Runs Lua scripts by their digest.

use sha1_smol::Sha1;

use super::cmd::{Cmd, ConnectionLike, cmd};
use super::from_reply::FromReply;
use super::{Args, ToArgs};
use crate::error::{Error, Result};

/// A Lua script. It is sent as its digest (EVALSHA), and as a whole only if the store or the server
/// does not know it yet.
///
/// ```
/// use undercroft::Script;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let limited = Script::new("
///     local visits = redis.call('INCR', KEYS[1])
///     return visits <= tonumber(ARGV[1])
/// ");
/// assert!(limited.key("visits").arg(1).invoke::<bool>(&store)?);
/// assert!(!limited.key("visits").arg(1).invoke::<bool>(&store)?);
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    code: String,
    digest: String,
}

impl Script {
    /// Returns a script with this code.
    ///
    /// ```
    /// let script = undercroft::Script::new("return 1");
    /// assert_eq!(script.get_hash(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    /// ```
    pub fn new(code: &str) -> Script {
        Script {
            code: code.to_owned(),
            digest: Sha1::from(code).digest().to_string(),
        }
    }

    /// Returns the digest that identifies the script, SHA-1 in hexadecimal digits.
    ///
    /// ```
    /// assert_eq!(undercroft::Script::new("").get_hash().len(), 40);
    /// ```
    pub fn get_hash(&self) -> &str {
        &self.digest
    }

    /// Begins a call with a key, or several keys.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let count = undercroft::Script::new("return #KEYS");
    /// assert_eq!(count.key(["a", "b"]).key("c").invoke::<u8>(&store)?, 3);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn key(&self, key: impl ToArgs) -> ScriptInvocation<'_> {
        self.prepare_invoke().key(key)
    }

    /// Begins a call with an argument, or several arguments.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let sum = undercroft::Script::new("return ARGV[1] + ARGV[2]");
    /// assert_eq!(sum.arg((2, 3)).invoke::<u8>(&store)?, 5);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn arg(&self, argument: impl ToArgs) -> ScriptInvocation<'_> {
        self.prepare_invoke().arg(argument)
    }

    /// Begins a call.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let script = undercroft::Script::new("return 'hello'");
    /// assert_eq!(script.prepare_invoke().invoke::<String>(&store)?, "hello");
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn prepare_invoke(&self) -> ScriptInvocation<'_> {
        ScriptInvocation {
            script: self,
            keys: 0,
            key_words: Cmd::new(),
            argument_words: Cmd::new(),
        }
    }
}

/// A call of a [`Script`], with its keys and arguments.
///
/// ```
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let script = undercroft::Script::new("return redis.call('SET', KEYS[1], ARGV[1])");
/// let invocation = script.key("key").arg("value");
/// invocation.invoke::<()>(&store)?;
/// assert_eq!(store.get("key")?.as_deref(), Some(&b"value"[..]));
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScriptInvocation<'s> {
    script: &'s Script,
    keys: usize,
    key_words: Cmd,
    argument_words: Cmd,
}

impl ScriptInvocation<'_> {
    /// Adds a key, or several keys.
    ///
    /// ```
    /// let script = undercroft::Script::new("return #KEYS");
    /// let invocation = script.prepare_invoke().key("a").key(["b", "c"]);
    /// ```
    #[must_use]
    pub fn key(mut self, key: impl ToArgs) -> Self {
        self.keys += Args::of(&key).to_vec().len();
        self.key_words.arg(key);
        self
    }

    /// Adds an argument, or several arguments.
    ///
    /// ```
    /// let script = undercroft::Script::new("return #ARGV");
    /// let invocation = script.prepare_invoke().arg(1).arg(("two", 3.0));
    /// ```
    #[must_use]
    pub fn arg(mut self, argument: impl ToArgs) -> Self {
        self.argument_words.arg(argument);
        self
    }

    /// Runs the script, and converts its result.
    ///
    /// # Errors
    /// The error that the script raises, and the errors of [`Cmd::query`].
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let script = undercroft::Script::new("return {1, 2, 3}");
    /// assert_eq!(script.prepare_invoke().invoke::<Vec<i64>>(&store)?, [1, 2, 3]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn invoke<T: FromReply>(&self, on: impl ConnectionLike + Copy) -> Result<T> {
        match self.by_digest().query(on) {
            Err(error) if is_unknown(&error) => self.by_code().query(on),
            done => done,
        }
    }

    pub(crate) fn by_digest(&self) -> Cmd {
        self.command("EVALSHA", &self.script.digest)
    }

    pub(crate) fn by_code(&self) -> Cmd {
        self.command("EVAL", &self.script.code)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = cmd(name);
        command.arg((script, self.keys));
        command.arg(self.key_words.words());
        command.arg(self.argument_words.words());
        command
    }
}

/// Returns whether a script did not run because only its digest was sent.
pub(crate) fn is_unknown(error: &Error) -> bool {
    error.code() == Some("NOSCRIPT")
}
