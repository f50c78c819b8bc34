//! One thread's interpreter, and a run of a script in it.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use mlua_sys::{
    LUA_GCCOLLECT, LUA_GCRESTART, LUA_GCSETPAUSE, LUA_GCSETSTEPMUL, LUA_GLOBALSINDEX,
    LUA_REGISTRYINDEX, lua_State, lua_close, lua_cpcall, lua_createtable, lua_gc, lua_getallocf,
    lua_getfield_, lua_insert, lua_isstring, lua_istable, lua_newstate, lua_pcall, lua_pop,
    lua_pushcclosure, lua_pushlightuserdata, lua_pushvalue, lua_rawgeti_, lua_rawset, lua_rawseti_,
    lua_replace, lua_setfenv, lua_settop, lua_toboolean, lua_touserdata, luaL_ref,
};
use undercroft_commands::arguments::CommandError;
use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::Reply;
use undercroft_commands::script::{
    BySha, Called, Calls, LibraryFunction, Script, ScriptLimits, Sha, Stop,
};

use crate::answer;
use crate::functions::{self, Loading, Registered};
use crate::heard::Heard;
use crate::json::Config;
use crate::library::chunks;
use crate::limits::{self, Deadline, Ending, Pace, StackBounds};
use crate::plain::{self, Reads};
use crate::pool::Pool;
use crate::raise::{COUNTED, handle, push_bytes};
use crate::sandbox::{self, Sandbox};

/// An interpreter that has compiled so many scripts is given up.
const COMPILED_MAX: usize = 2048;
/// Garbage is collected once an interpreter has grown to so many hundredths of what was left the last time. With more,
/// strings are made and looked for in memory that the caches have lost; with less, it is looked through more often than
/// that saves.
const PAUSE: c_int = 150;
/// How much is collected at a time, beside what is made, in hundredths: as Lua has it.
const STEP: c_int = 200;
/// An interpreter that has taken more, or a quarter of what it may take, is cleaned at the end of a run.
const KEPT_MAX: usize = 16 << 20;

/// An interpreter, and what the functions of this crate that it calls need.
pub(crate) struct Machine {
    pub(crate) state: *mut lua_State,
    pub(crate) memory: Pool,
    /// The store for the script that runs; null where none does.
    pub(crate) calls: *mut Calls<'static, 'static>,
    /// The arguments of a command, which lie in values on Lua's stack and in `digits`.
    pub(crate) arguments: Vec<&'static [u8]>,
    /// Numbers among them.
    pub(crate) digits: Vec<u8>,
    /// What a command answered.
    pub(crate) heard: Heard,
    /// Text that is being made.
    pub(crate) text: Vec<u8>,
    /// What a command panicked with.
    pub(crate) panic: Option<Box<dyn Any + Send>>,
    /// Where on the thread's stack the script began.
    pub(crate) stack: usize,
    /// Bytes of the answer so far.
    pub(crate) answered: usize,
    /// The settings of `cjson`.
    pub(crate) json: Config,
    /// The state of `math.random`.
    pub(crate) random: u64,
    /// Whether the script has changed how garbage is collected.
    pub(crate) is_tuned: bool,
    pub(crate) sandbox: Sandbox,
    pub(crate) plain: plain::Globals,
    /// Where the registry holds what runs a job, and what makes errors of what a script raises.
    functions: (c_int, c_int),
    pub(crate) ending: Ending,
    pub(crate) pace: Pace,
    /// Steps that functions have made since it was last asked whether the script may go on.
    pub(crate) spent: usize,
    /// The thread's stack.
    pub(crate) bounds: StackBounds,
    /// When a program has to be compiled, or a library loaded, and the error where it is not.
    pub(crate) until: Option<Deadline>,
    pub(crate) too_late: &'static [u8],
    /// The compiled scripts.
    compiled: BySha<Compiled>,
    /// And the functions of libraries.
    libraries: BySha<Vec<Registered>>,
    pub(crate) loading: Loading,
    pub(crate) globals_of_functions: functions::Globals,
    /// Bytes that it may keep between runs, garbage and all.
    kept: usize,
    is_broken: bool,
}

/// A compiled script.
#[derive(Clone, Copy)]
struct Compiled {
    /// Where the registry holds it.
    place: c_int,
    /// What it reads, where it does nothing else.
    plain: Option<Reads>,
}

/// Gives, resizes and takes back memory, as Lua asks for it.
unsafe extern "C" fn allocate(
    machine: *mut c_void,
    place: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    let machine = machine.cast::<Machine>();
    (*machine).memory.resize(place.cast(), old, new).cast()
}

impl Machine {
    /// A new interpreter; none where there is no memory for it.
    pub(crate) fn new() -> Option<Box<Machine>> {
        let mut machine = Box::new(Machine {
            state: null_mut(),
            memory: Pool::new(),
            calls: null_mut(),
            arguments: Vec::new(),
            digits: Vec::new(),
            heard: Heard::default(),
            text: Vec::new(),
            panic: None,
            stack: 0,
            answered: 0,
            json: Config::default(),
            random: sandbox::RANDOM,
            is_tuned: true,
            sandbox: Sandbox::default(),
            plain: plain::Globals::default(),
            functions: (0, 0),
            ending: Ending::No,
            pace: Pace::default(),
            spent: 0,
            bounds: StackBounds::of_thread(),
            until: None,
            too_late: b"",
            compiled: BySha::default(),
            libraries: BySha::default(),
            loading: Loading::default(),
            globals_of_functions: functions::Globals::default(),
            kept: KEPT_MAX,
            is_broken: false,
        });
        let place: *mut Machine = &raw mut *machine;
        // SAFETY: the machine stays where it is, in its box, for as long as its interpreter lives; `prepare` runs
        // protected, so that no error leaves it.
        let status = unsafe {
            machine.state = lua_newstate(allocate, place.cast());
            if machine.state.is_null() {
                return None;
            }
            lua_cpcall(machine.state, prepare, place.cast())
        };
        (status == 0).then_some(machine)
    }

    /// The machine of an interpreter.
    pub(crate) unsafe fn of(state: *mut lua_State) -> *mut Machine {
        let mut machine = null_mut();
        lua_getallocf(state, &mut machine);
        machine.cast()
    }

    /// Where the registry holds the tables that scripts and libraries see as their globals.
    #[cfg(test)]
    pub(crate) fn global_tables(&self) -> Vec<c_int> {
        let functions = self.globals_of_functions.places();
        let mut places = vec![self.sandbox.place(), self.plain.place()];
        places.extend(functions);
        places
    }

    /// Whether its next script should run in it, too.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        !self.is_broken && self.compiled.len() + self.libraries.len() < COMPILED_MAX
    }

    /// Compiles a script, unless it is compiled already.
    ///
    /// # Errors
    /// What Lua says of it, and where it takes longer than a script may run.
    pub(crate) fn compile(
        &mut self,
        script: &Script,
        limits: ScriptLimits,
    ) -> Result<(), CommandError> {
        if self.compiled.contains_key(script.sha()) {
            return Ok(());
        }
        self.limit(limits);
        self.until = limits.time.map(Deadline::after);
        self.too_late = b"it takes longer than a script may run";
        let mut job = Job {
            machine: self,
            script,
            called: None,
            function: None,
            reply: None,
            ended: Ended::Well,
        };
        let place = (&raw mut job).cast();
        let state = self.state;
        // SAFETY: the job outlives the call, which runs protected.
        let status = unsafe { lua_cpcall(state, compile, place) };
        let ended = job.ended;
        self.memory.limit = usize::MAX;
        self.until = None;
        self.clear();
        match (status, ended) {
            (0, Ended::Well) => Ok(()),
            (0, _) => Err(CommandError::from_parts(&[
                b"ERR Error compiling script (new function): ",
                &self.text,
            ])),
            _ => Err(CommandError::fixed(
                "ERR Error compiling script (new function): not enough memory",
            )),
        }
    }

    /// Compiles what is to run, unless it is compiled already, and asks whether the script may go on meanwhile.
    fn compile_to_run(
        &mut self,
        script: &Script,
        called: &Called<'_>,
        calls: &mut Calls<'_, '_>,
    ) -> Result<Option<Compiled>, Stop> {
        if let Some(function) = self.function(script, called) {
            return Ok(Some(function));
        }
        let compiled = match called.function {
            None => {
                self.calls = (&raw mut *calls).cast();
                // SAFETY: the interpreter is this thread's, and nothing runs in it.
                unsafe { limits::watch(self) };
                let compiled = self.compile(script, calls.limits());
                self.calls = null_mut();
                compiled
            }
            Some(_) => self.load_library(script, calls.limits()).map(drop),
        };
        match std::mem::replace(&mut self.ending, Ending::No) {
            Ending::Stopped => Err(Stop::Stopped),
            Ending::Killed => Err(Stop::Error(CommandError::from_parts(&[&self.text]))),
            Ending::No | Ending::Memory => {
                compiled.map_err(Stop::Error)?;
                Ok(self.function(script, called))
            }
        }
    }

    /// The functions that a library registers. Its program is run, unless it has been.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn load_library(
        &mut self,
        library: &Script,
        limits: ScriptLimits,
    ) -> Result<Vec<LibraryFunction>, CommandError> {
        let copied = |registered: &[Registered]| {
            let all = registered.iter();
            all.map(|(function, _)| function.clone()).collect()
        };
        if let Some(registered) = self.libraries.get(library.sha()) {
            return Ok(copied(registered));
        }
        self.limit(limits);
        self.until = Some(Deadline::after(functions::LOAD_TIME));
        self.too_late = b"ERR FUNCTION LOAD timeout";
        self.stack = (&raw const library).addr();
        let mut job = Job {
            machine: self,
            script: library,
            called: None,
            function: None,
            reply: None,
            ended: Ended::Well,
        };
        let place = (&raw mut job).cast();
        let state = self.state;
        // SAFETY: the job outlives the call, which runs protected.
        let status = unsafe {
            limits::watch(job.machine);
            lua_cpcall(state, functions::load, place)
        };
        let ended = job.ended;
        self.memory.limit = usize::MAX;
        self.until = None;
        let registered = self.loading.end();
        self.clear();
        let what: &[u8] = match ended {
            _ if status != 0 => {
                // The functions that it registered stay in the registry.
                self.is_broken = true;
                return Err(CommandError::fixed(
                    "ERR Error registering functions: ERR not enough memory",
                ));
            }
            Ended::Well => {
                let all = copied(&registered);
                self.libraries.insert(*library.sha(), registered);
                return Ok(all);
            }
            Ended::Badly => b"ERR Error compiling function: ",
            Ended::WithError => b"ERR Error registering functions: ",
        };
        Err(CommandError::from_parts(&[what, &self.text]))
    }

    /// Bytes that the script or the library which runs may take.
    pub(crate) fn memory_limit(&self) -> usize {
        self.memory.limit
    }

    /// Limits the memory that a script may take.
    fn limit(&mut self, limits: ScriptLimits) {
        self.memory.limit = limits.memory.max(self.memory.used);
        self.kept = (limits.memory / 4).min(KEPT_MAX);
    }

    /// What is to be called, if it is compiled.
    fn function(&self, script: &Script, called: &Called<'_>) -> Option<Compiled> {
        let Some(name) = called.function else {
            return self.compiled.get(script.sha()).copied();
        };
        let mut all = self.libraries.get(script.sha())?.iter();
        let found = all.find(|(function, _)| function.name == name)?;
        Some(Compiled {
            place: found.1,
            plain: None,
        })
    }

    /// Runs a script and writes what it returns.
    pub(crate) fn run(
        &mut self,
        script: &Script,
        called: &Called<'_>,
        calls: &mut Calls<'_, '_>,
        reply: &mut dyn Reply,
    ) -> Result<(), Stop> {
        self.ending = Ending::No;
        let function = self.compile_to_run(script, called, calls)?;
        self.limit(calls.limits());
        self.answered = 0;
        self.stack = (&raw const script).addr();
        self.json = Config::default();
        self.calls = (&raw mut *calls).cast();
        let mut job = Job {
            machine: self,
            script,
            called: Some(*called),
            function,
            reply: Some(reply),
            ended: Ended::Well,
        };
        let place = (&raw mut job).cast();
        let state = self.state;
        // SAFETY: the job and what it refers to outlive the call, which runs protected, and before which no memory is
        // asked for; the store for the script is taken away again below.
        let status = unsafe {
            limits::watch(job.machine);
            lua_rawgeti_(state, LUA_REGISTRYINDEX, self.functions.0);
            lua_pushlightuserdata(state, place);
            lua_pcall(state, 1, 0, 0)
        };
        let ended = job.ended;
        self.calls = null_mut();
        self.memory.limit = usize::MAX;
        let ending = std::mem::replace(&mut self.ending, Ending::No);
        if let Some(panic) = self.panic.take() {
            self.is_broken = true;
            std::panic::resume_unwind(panic);
        }
        self.clear();
        if ending == Ending::Stopped {
            return Err(Stop::Stopped);
        }
        if status != 0 {
            // Where its answer was made, or its arguments.
            if ending == Ending::Killed {
                return Err(Stop::Error(CommandError::from_parts(&[&self.text])));
            }
            self.text.clear();
            self.text.extend_from_slice(b"not enough memory");
        }
        match ended {
            Ended::Well if status == 0 => Ok(()),
            Ended::WithError => Err(Stop::Error(CommandError::from_parts(&[&self.text]))),
            _ => Err(Stop::Error(CommandError::from_parts(&[
                b"ERR Error running script ",
                called.function.unwrap_or(script.sha().as_bytes()),
                b", ",
                &self.text,
            ]))),
        }
    }

    /// Takes everything off the stack, and collects garbage where there is much. The text stays, its spare room does not.
    fn clear(&mut self) {
        const TEXT_KEPT: usize = 64 << 10;
        self.heard.trim();
        self.text.shrink_to(TEXT_KEPT);
        self.memory.extra = 0;
        // SAFETY: none of these calls can fail: finalizers are Lua's own only, as `newproxy` makes none that a script
        // could give a function to (see `sandbox`).
        unsafe {
            lua_settop(self.state, 0);
            if self.is_tuned {
                self.is_tuned = false;
                lua_gc(self.state, LUA_GCRESTART, 0);
                lua_gc(self.state, LUA_GCSETPAUSE, PAUSE);
                lua_gc(self.state, LUA_GCSETSTEPMUL, STEP);
            }
            if self.memory.used > self.kept {
                lua_gc(self.state, LUA_GCCOLLECT, 0);
            }
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if !self.state.is_null() {
            self.memory.limit = usize::MAX;
            // SAFETY: nobody uses the interpreter any more.
            unsafe { lua_close(self.state) };
        }
    }
}

/// What is to be done, and how it ended.
pub(crate) struct Job<'a> {
    pub(crate) machine: *mut Machine,
    pub(crate) script: &'a Script,
    called: Option<Called<'a>>,
    function: Option<Compiled>,
    reply: Option<&'a mut dyn Reply>,
    pub(crate) ended: Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Well,
    /// With an error, whole in the machine's text.
    WithError,
    /// Without one that could be told from; why is in the machine's text.
    Badly,
}

/// Fills a new interpreter.
unsafe extern "C-unwind" fn prepare(state: *mut lua_State) -> c_int {
    let machine = lua_touserdata(state, 1).cast::<Machine>();
    sandbox::prepare(state, machine);
    let [runs, handles] = [run, handle].map(|function| {
        lua_pushcclosure(state, function, 0);
        keep(state)
    });
    (*machine).functions = (runs, handles);
    0
}

/// Compiles a job's script.
unsafe extern "C-unwind" fn compile(state: *mut lua_State) -> c_int {
    let job = lua_touserdata(state, 1).cast::<Job<'_>>();
    let machine = (*job).machine;
    sandbox::use_globals(state, machine);
    let program = (*job).script.program();
    let name = c"@user_script".as_ptr();
    if chunks::load_text(state, program, name, chunks::PROGRAM_MAX) != 0 {
        keep_error(state, machine);
        (*job).ended = Ended::Badly;
        return 0;
    }
    let plain = plain::reads(state);
    if plain.is_some() {
        plain::use_globals(state, machine);
    }
    let place = luaL_ref(state, LUA_REGISTRYINDEX);
    note_compiled(machine, (*job).script.sha(), Compiled { place, plain });
    0
}

fn note_compiled(machine: *mut Machine, sha: &Sha, compiled: Compiled) {
    // SAFETY: nobody else uses the machine meanwhile.
    unsafe { (*machine).compiled.insert(*sha, compiled) };
}

/// Keeps the text of the error on top.
pub(crate) unsafe fn keep_error(state: *mut lua_State, machine: *mut Machine) {
    if lua_istable(state, -1) != 0 {
        lua_getfield_(state, -1, c"err".as_ptr());
    }
    keep_text(machine, answer::c_bytes(state, -1));
}

pub(crate) unsafe fn keep_text(machine: *mut Machine, text: &[u8]) {
    let kept = &mut (*machine).text;
    kept.clear();
    kept.extend_from_slice(text);
}

/// Runs a job's script, and writes its reply.
unsafe extern "C-unwind" fn run(state: *mut lua_State) -> c_int {
    let job = lua_touserdata(state, 1).cast::<Job<'_>>();
    let machine = (*job).machine;
    let Some(called) = &(*job).called else {
        return 0;
    };
    lua_rawgeti_(state, LUA_REGISTRYINDEX, (*machine).functions.1);
    let handler = mlua_sys::lua_gettop(state);
    let Some(Compiled { place, plain }) = (*job).function else {
        keep_text(machine, b"it is not compiled");
        (*job).ended = Ended::Badly;
        return 0;
    };
    let mut arguments = 0;
    if let Some(reads) = plain {
        plain::set_texts(state, machine, reads, called.keys, called.arguments);
        lua_rawgeti_(state, LUA_REGISTRYINDEX, place);
    } else if called.function.is_some() {
        sandbox::use_globals(state, machine);
        functions::push(state, machine, place);
        push_texts(state, called.keys);
        push_texts(state, called.arguments);
        arguments = 2;
    } else {
        sandbox::use_globals(state, machine);
        set_texts(state, machine, b"KEYS", called.keys);
        set_texts(state, machine, b"ARGV", called.arguments);
        lua_rawgeti_(state, LUA_REGISTRYINDEX, place);
        // A script may have given itself another environment.
        lua_pushvalue(state, LUA_GLOBALSINDEX);
        lua_setfenv(state, -2);
    }
    if lua_pcall(state, arguments, 1, handler) == 0 {
        if let (Ending::No, Some(reply)) = ((*machine).ending, &mut (*job).reply) {
            let as_resp3 = (*(*machine).calls).protocol() == Protocol::Resp3;
            answer::write(state, &raw mut **reply, as_resp3, 0);
        }
        return 0;
    }
    if (*machine).ending == Ending::Memory {
        keep_text(machine, b"not enough memory");
        (*job).ended = Ended::Badly;
        return 0;
    }
    if lua_istable(state, -1) == 0 {
        keep_text(machine, b"execution failure");
        if lua_isstring(state, -1) != 0 {
            let text = answer::c_bytes(state, -1);
            keep_text(machine, &text[..text.len().min(100)]);
        }
        (*job).ended = Ended::Badly;
        return 0;
    }
    lua_getfield_(state, -1, c"err".as_ptr());
    let text: &[u8] = match lua_isstring(state, -1) {
        0 => b"ERR unknown error",
        _ => answer::c_bytes(state, -1),
    };
    keep_text(machine, text);
    lua_pop(state, 1);
    lua_getfield_(state, -1, COUNTED.as_ptr());
    if lua_toboolean(state, -1) != 0 {
        (*(*machine).calls).set_counted();
    }
    lua_pop(state, 1);
    lua_getfield_(state, -1, c"source".as_ptr());
    lua_getfield_(state, -2, c"line".as_ptr());
    if lua_isstring(state, -1) != 0 && lua_isstring(state, -2) != 0 {
        let (source, line) = (answer::c_bytes(state, -2), answer::c_bytes(state, -1));
        let name = called.function.unwrap_or((*job).script.sha().as_bytes());
        let text = &mut (*machine).text;
        for part in [b" script: ", name, b", on ", source, b":", line, b"."] {
            text.extend_from_slice(part);
        }
    }
    (*job).ended = Ended::WithError;
    0
}

/// Sets a global to a table of texts.
unsafe fn set_texts(state: *mut lua_State, machine: *const Machine, name: &[u8], texts: &[&[u8]]) {
    (*machine).sandbox.push_real_globals(state);
    push_bytes(state, name);
    push_texts(state, texts);
    lua_rawset(state, -3);
    lua_pop(state, 1);
}

/// Pushes a table of texts.
unsafe fn push_texts(state: *mut lua_State, texts: &[&[u8]]) {
    lua_createtable(state, texts.len().min(1 << 20) as c_int, 0);
    for (index, text) in texts.iter().enumerate() {
        push_bytes(state, text);
        lua_rawseti_(state, -2, index as c_int + 1);
    }
}

/// Makes the value on top the environment that programs are loaded into.
pub(crate) unsafe fn set_globals(state: *mut lua_State) {
    lua_replace(state, LUA_GLOBALSINDEX);
}

/// Keeps the value on top in the registry, and takes it off.
pub(crate) unsafe fn keep(state: *mut lua_State) -> c_int {
    luaL_ref(state, LUA_REGISTRYINDEX)
}

/// Moves the value on top below the one under it.
pub(crate) unsafe fn swap(state: *mut lua_State) {
    lua_insert(state, -2);
}
