//! Runs malicious scripts. Each script must end within its limits, with an error or a reply, and
//! must not affect the next script.

use std::time::Duration;

use undercroft_commands::reply::Tree;

use crate::host::Embedded;

/// Scripts that run forever or for a very long time.
const ENDLESS: &[&str] = &[
    "while true do end",
    "while true do pcall(error) end",
    "while true do xpcall(function() error('x') end, function(e) return e end) end",
    "local function f() return f() end return f()",
    "coroutine.wrap(function() while true do end end)()",
    "local co = coroutine.create(function() while true do coroutine.yield() end end) while true do coroutine.resume(co) end",
    "while true do coroutine.wrap(function() pcall(function() while true do end end) end)() end",
    "while true do redis.pcall('get', 'k') end",
    "while true do redis.pcall('nosuch') end",
    "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) \
     while true do pcall(function() return t[1] end) end",
    "return ('a'):rep(30):find(('a?'):rep(30) .. ('a'):rep(30) .. 'b')",
    "return ('a'):rep(300):find(('.-'):rep(90) .. 'b')",
    "return ('a'):rep(2000):gsub(('a*'):rep(20) .. 'b', '')",
    "for m in ('a'):rep(2000):gmatch(('a*'):rep(20) .. 'b') do end",
    "return ('x'):rep(100000):gsub('x', function() while true do end end)",
    "table.sort({1, 2, 3}, function() while true do end end)",
    "local t = {} for i = 1, 50 do t[i] = i end while true do table.sort(t, function() return true end) end",
    "load(function() while true do end end)",
    // Parsing takes time that grows with the square of the number of conditions.
    "return {pcall(loadstring, 'return ' .. ('a and '):rep(1e5) .. 'a')}",
    // Error handlers. Lua runs a handler without the hook if the hook raised the error.
    "xpcall(function() while true do end end, function() while true do end end)",
    "xpcall(function() error('x') end, function() while true do end end)",
    "xpcall(function() error('x') end, function() error('y') end) while true do end",
    "while true do xpcall(function() while true do end end, function() return 1 end) end",
    "local function f() xpcall(function() while true do end end, f) end f()",
    "coroutine.wrap(function() xpcall(function() while true do end end, function() while true do end end) end)()",
    "xpcall(function() local s = 'x' while true do s = s .. s end end, function() while true do end end) while true do end",
    "error(setmetatable({}, {__tostring = function() while true do end end}))  while true do end",
    "tostring(setmetatable({}, {__tostring = function() while true do end end}))",
    "table.insert({}, -2147483648, 1)",
    "pcall(table.insert, {}, -1e8, 1) while true do end",
    "load(function() return ' ' end)",
    "local n = 0 return load(function() n = n + 1 while n > 3 do end return 'x' end)",
    // Empty tables whose many unused slots make iteration slow.
    "local m = {} for i = 1, 1e5 do m[i] = i end for i = 1, 1e5 do m[i] = nil end \
     m = {map = m} local t = {} for i = 1, 1e5 do t[i] = m end return t",
    "local m = {} for i = 1, 1e5 do m[i] = i end for i = 1, 1e5 do m[i] = nil end \
     local t = {} for i = 1, 1e5 do t[i] = m end return cjson.encode(t)",
];

/// Scripts that execute few instructions but are slow.
const SLOW: &[&str] = &[
    "local a, b = ('x'):rep(1e6) .. 'a', ('x'):rep(1e6) .. 'b' local t = {} \
     for i = 1, 1e4 do t[i] = i % 2 == 0 and a or b end table.sort(t)",
    "local t = {} for i = 1, 2e5 do t[i] = {} end return tostring(load(collectgarbage))",
    "local m = {} for i = 1, 1e5 do m[i] = i end for i = 1, 1e5 do m[i] = nil end \
     local t = {} for i = 1, 1e4 do t[i] = m end return #cmsgpack.pack(t)",
    "local s = ('x'):rep(1e7) for i = 1, 100 do s:upper() end",
    "local s = ('x'):rep(1e7) for i = 1, 100 do redis.sha1hex(s) end",
    "local s = ('x'):rep(1e7) for i = 1, 1e5 do end for i = 1, 200 do s:upper() end",
    "local s = ('x'):rep(1e7) coroutine.wrap(function() for i = 1, 100 do s:upper() end end)()",
    "local t = {} for i = 1, 1e5 do t[i] = i end for i = 1, 300 do table.insert(t, 1, 1) table.remove(t, 1) end",
    "local s = '[' .. ('1,'):rep(1e5) .. '1]' for i = 1, 100 do cjson.decode(s) end",
    "return (('('):rep(3e4)):match('%b()')",
    "return (('('):rep(3e4)):match('.-%b()x')",
    "return (('a'):rep(3e4)):find('[' .. ('b'):rep(1e4) .. ']')",
    "return (('a'):rep(3e4)):find('[' .. ('a'):rep(1e4) .. ']-b')",
];

/// Scripts whose memory use or nesting grows without bound.
const GREEDY: &[&str] = &[
    "local t = {} while true do t[#t + 1] = {} end",
    "local s = 'x' while true do s = s .. s end",
    "return ('x'):rep(1e9)",
    "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(100) .. i end",
    "local s = ('x'):rep(1e6) local t = {} for i = 1, 1000 do t[i] = s end return t",
    "local s = ('x'):rep(1e6) local t = {} for i = 1, 1000 do t[i] = s end return #cjson.encode(t)",
    "local s = ('x'):rep(1e6) local t = {} for i = 1, 1000 do t[i] = s end return #cmsgpack.pack(t)",
    "local s = ('x'):rep(1e6) local t = {} for i = 1, 1000 do t[i] = s end return #table.concat(t)",
    "local s = ('x'):rep(1e6) return #struct.pack(('s'):rep(200), unpack((function() \
     local t = {} for i = 1, 200 do t[i] = s end return t end)()))",
    "local function f() return 1 + f() end return f()",
    "local f f = function() return pcall(f) end return f()",
    "local function f() coroutine.wrap(f)() end f()",
    "local function f(s) return (s:gsub('.', f)) end return f('x')",
    "local t = {} t[1] = t return cjson.encode(t)",
    "local t = {} for i = 1, 1e5 do t = {t} end return cjson.encode(t)",
    "return cjson.decode(('['):rep(1e6))",
    "return cjson.decode(('{\"a\":'):rep(1e6))",
    "return cmsgpack.unpack(('\\145'):rep(1e6))",
    "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
    "return cmsgpack.unpack('\\223\\255\\255\\255\\255\\1')",
    "return cmsgpack.unpack('\\219\\255\\255\\255\\255')",
    "return loadstring(('('):rep(1e5))",
    "return loadstring('return ' .. ('{'):rep(1e5))",
    "return (('a?'):rep(1e5)):find(('a?'):rep(1e5))",
    "return struct.unpack('c0', '')",
    "return struct.pack('c2147483647', 'x')",
    "return struct.unpack('c2147483647', 'x')",
    "error(setmetatable({}, {__tostring = function() error('x') end}))",
    "error(setmetatable({}, {__index = function(t, k) error('x') end}))",
    "error({err = {}})",
    "error(redis)",
    "error(coroutine.create(print or error))",
    "return setmetatable({}, {__index = function() error('x') end})",
    "return string.format('%99999d', 1)",
    "return ('x'):rep(-1) .. string.rep('', 2^31)",
    "return unpack({}, 1, 1e8)",
    "return {pcall(unpack, {}, 0, 2147483647)}",
    "return {pcall(unpack, {}, -2147483648, 2147483647)}",
    "return {pcall(unpack, {}, 1, 2147483647)}",
    "return {pcall(unpack, {}, -2147483648)}",
    "return {pcall(unpack, {}, 2147483647, 2147483647)}",
    "return {pcall(unpack, {}, 0/0, 1/0)}",
    "return {pcall(unpack, {}, -1/0, 1/0)}",
    "return {pcall(select, -2147483648, 1)}",
    "return {pcall(select, 0/0, 1)}",
    "return {pcall(string.sub, 'x', -2^63, 2^63)}",
    "return {pcall(string.byte, 'x', -2^63, 2^63)}",
    "return {pcall(string.byte, ('x'):rep(1e5), 1, -1)}",
    "return {pcall(string.rep, 'x', 2147483647)}",
    "return {pcall(string.rep, ('x'):rep(1e6), 2147483647)}",
    "return {pcall(string.char, -1, 256, 2^31, 0/0)}",
    "return {pcall(string.format, '%' .. ('-'):rep(1e6) .. 'd', 1)}",
    "return {pcall(string.format, ('%99.99f'):rep(80), 1e308)}",
    "return {pcall(table.concat, {}, 'x', -2147483648, 2147483647)}",
    "return {pcall(table.insert, {}, 2147483647, 1)}",
    "return {pcall(table.remove, {}, -2147483648)}",
    "return {pcall(math.random, -2147483648, 2147483647)}",
    "return {pcall(math.ldexp, 1, 2147483647)}",
    "return {pcall(loadstring, ('x = 1 '):rep(1e6))}",
    "return load(function() collectgarbage() return nil end, ('name'):rep(10))",
    "local n = 0 return load(function() collectgarbage() n = n + 1 return n < 9 and 'x = 1 ' or nil end, '=' .. math.pi)",
    "return (('a'):rep(10)):find(('a'):rep(2e6) .. '*')",
    "collectgarbage('setstepmul', -2147483648) collectgarbage('setpause', 2147483647) return collectgarbage('step', 2147483647)",
    "return string.char(unpack({}, 1, 7000))",
    "return select(-1e9, 1)",
    "return redis.call(unpack({}, 1, 7000))",
    "return loadstring(string.dump(function() return 1 end))()",
    "return loadstring('\\27Lua')()",
    "return string.dump(error)",
];

/// Scripts that expand a small value into a huge one.
const SWELLING: &[&str] = &[
    "cjson.encode_sparse_array(true, 0, 0) return #cjson.encode({[2^30] = 1})",
    "local s = ('\\1'):rep(4e6) return #cjson.encode(s)",
    "local t = {} for i = 1, 25 do t = {t, t} end return #cjson.encode(t)",
    "local t = {} for i = 1, 25 do t = {[t] = t, map = {[t] = t}} end return t",
    "local t = {} for i = 1, 25 do t = {t, t} end return t",
    "redis.setresp(3) local t = {} t.map = {} t.map[t] = t return t",
    "redis.setresp(3) local t = {set = {}} for i = 1, 8 do local s = t t = {set = {}} \
     for i = 1, 10 do t.set[{s}] = true end end return t",
    "local t, all = {}, {} for i = 1, 1000 do t[i] = i all[i] = t end return all",
    "local t, all = {}, {} for i = 1, 1000 do t[i] = true all[i] = t end return all",
    "local t, all = {}, {} for i = 1, 1000 do t[i] = redis all[i] = t end return all",
    "local s, t = {err = ('x'):rep(1e6)}, {} for i = 1, 100 do t[i] = s end return t",
    "local s, t = {ok = ('x'):rep(1e6)}, {} for i = 1, 100 do t[i] = s end return t",
    "local s, t = {big_number = ('1'):rep(1e6)}, {} for i = 1, 100 do t[i] = s end return t",
    "local s, t = {verbatim_string = {format = 'txt', string = ('x'):rep(1e6)}}, {} \
     for i = 1, 100 do t[i] = s end return t",
];

/// Scripts with long replies within the limits.
const LONG: &[&str] = &[
    "local t = {} for i = 1, 3e5 do t[i] = i end return t",
    "for i = 1, 1000 do redis.call('rpush', 'long', unpack({'1', '2', '3', '4', '5', '6', '7', '8', '9', '10'})) end \
     return redis.call('lrange', 'long', 0, -1)",
    "redis.call('setrange', 'long text', 6e6, 'x') return redis.call('get', 'long text')",
    "return cjson.encode(('x'):rep(4e6))",
];

/// Scripts that try to make changes that later scripts can see.
const LITTER: &[&str] = &[
    "x = 1",
    "rawset(_G, 'x', 1)",
    "_G.x = 1",
    "getmetatable(_G).__index.x = 1",
    "setmetatable(_G, nil)",
    "string.x = 1",
    "rawset(string, 'x', 1)",
    "table.insert(string, 1)",
    "table.sort(_G)",
    "getmetatable('').__index.x = 1",
    "getmetatable('').x = 1",
    "for k in pairs(redis) do redis[k] = nil end",
    "local _, t = pairs(redis) t.call = nil",
    "local _, t = pairs(_G) t.redis = nil",
    "redis.call = nil",
    "math.huge = 0",
    "collectgarbage('stop')",
    "cjson.encode_max_depth(1)",
    "cjson.encode_number_precision(1)",
    "KEYS.x = 1 ARGV.x = 1",
    "redis.setresp(3)",
    "redis.call('select', 5)",
    "return coroutine.create(function() coroutine.yield() end)",
];

/// Assertions that must hold for every script.
const SOUND: &str = "\
assert(rawget(_G, 'x') == nil and rawget(string, 'x') == nil)
assert(string[1] == nil and math.huge > 1e300 and type(redis.call) == 'function')
assert(cjson.encode({{{0.123}}}) == '[[[0.123]]]')
assert(#KEYS == 0 and KEYS.x == nil and ARGV.x == nil)
assert(redis.call('get', 'none') == false)
assert(redis.call('set', 'here', 'x').ok == 'OK' and redis.call('dbsize') > 0)
return ('sound'):upper()";

fn is_sound(embedded: &Embedded) {
    let reply = embedded.client().run(&["EVAL", SOUND, "0"]);
    assert_eq!(reply, Tree::Bulk(b"SOUND".to_vec()));
}

#[test]
fn endless_scripts_are_ended() {
    let embedded = Embedded::with_time(Duration::from_millis(20));
    for script in ENDLESS.iter().chain(SLOW) {
        let reply = embedded.client().run(&["EVAL", script, "0"]);
        let is_error = matches!(&reply, Tree::Error(_));
        assert!(is_error, "{script}: {reply:?}");
        is_sound(&embedded);
    }
    embedded.check();
}

#[test]
fn scripts_that_take_unbounded_memory_fail() {
    let embedded = Embedded::with_time(Duration::from_secs(10));
    for script in GREEDY {
        println!("{script}");
        let reply = embedded.client().run(&["EVAL", script, "0"]);
        assert!(
            !matches!(&reply, Tree::Error(text) if text.contains("ran longer")),
            "{script}"
        );
        is_sound(&embedded);
    }
    embedded.check();
}

#[test]
fn scripts_that_expand_values_run_out_of_memory() {
    let embedded = Embedded::new();
    for script in SWELLING {
        println!("{script}");
        let reply = embedded.client().run(&["EVAL", script, "0"]);
        let is_refused = matches!(&reply, Tree::Error(text) if text.contains("not enough memory"));
        assert!(is_refused, "{script}");
        is_sound(&embedded);
    }
    embedded.check();
}

#[test]
fn long_replies_within_the_limit_are_returned() {
    let embedded = Embedded::new();
    for script in LONG {
        let reply = embedded.client().run(&["EVAL", script, "0"]);
        let is_whole = match &reply {
            Tree::Array(items) => items.len() >= 10_000,
            Tree::Bulk(text) => text.len() >= 4_000_000,
            _ => false,
        };
        assert!(is_whole, "{script}");
        is_sound(&embedded);
    }
    embedded.check();
}

#[test]
fn a_script_leaves_no_changes_for_the_next_one() {
    let embedded = Embedded::new();
    for script in LITTER {
        embedded.client().run(&["EVAL", script, "0"]);
        is_sound(&embedded);
    }
    let mut client = embedded.client();
    client.run(&["SELECT", "0"]);
    embedded.check();
}

#[test]
fn malformed_library_input_is_an_error() {
    let embedded = Embedded::new();
    let seed = std::env::var("UNDERCROFT_SEED").map_or_else(
        |_| fastrand::u64(..1 << 40),
        |seed| seed.parse().expect("a number"),
    );
    println!("seed {seed} (replay with UNDERCROFT_SEED={seed})");
    let mut random = fastrand::Rng::with_seed(seed);
    let script = "local ok = 0 for _, f in ipairs({cjson.decode, cmsgpack.unpack, cmsgpack.unpack_one, \
                  function(s) return struct.unpack(s, ARGV[2]) end, function(s) return struct.pack(s, 1, 's', 2) end, \
                  function(s) return struct.size(s) end, function(s) return s:find(ARGV[2]) end, loadstring}) do \
                  if pcall(f, ARGV[1]) then ok = ok + 1 end end return ok";
    let alphabet = b"[]{}\",:0123456789eE+-.\\utrnflasbBhHiIcdLx!<>^$%*?()\x00\x80\x81\x90\x91\xa1\xc1\xcb\xdd\xdf\xff";
    for _ in 0..3000 {
        let text = |random: &mut fastrand::Rng| -> Vec<u8> {
            let length = random.usize(..24);
            (0..length)
                .map(|_| alphabet[random.usize(..alphabet.len())])
                .collect()
        };
        let (one, other) = (text(&mut random), text(&mut random));
        let words: [&[u8]; 5] = [b"EVAL", script.as_bytes(), b"0", &one, &other];
        let reply = embedded.client().run_bytes(&words).expect("a reply");
        assert!(
            matches!(reply, Tree::Integer(_)),
            "{reply:?} for {one:?} and {other:?}"
        );
    }
    is_sound(&embedded);
}

/// The argument lists with which each function is called in an endless loop.
const ARGUMENTS: &[&str] = &[
    "",
    "1, 2, 3",
    "s",
    "s, s",
    "s, 1, 2",
    "s, '.', s",
    "t",
    "t, 1",
    "t, 1, 1",
    "t, s",
    "f, t",
    "'>I4', s",
    "'s', s",
];

#[test]
fn endless_calls_of_every_function_are_ended() {
    let embedded = Embedded::with_time(Duration::from_millis(5));
    let names = "local names = {} \
         for _, library in ipairs({'string', 'table', 'math', 'coroutine', 'redis', 'cjson', 'cmsgpack', 'struct', 'bit', \
         '_G'}) do for name, value in pairs(_G[library]) do \
         if type(value) == 'function' then names[#names + 1] = library .. '.' .. name end end end return names";
    let Tree::Array(names) = Embedded::new().client().run(&["EVAL", names, "0"]) else {
        panic!("no names");
    };
    assert!(names.len() > 80, "{} functions", names.len());
    let texts = names.into_iter().map(|name| match name {
        Tree::Bulk(name) => String::from_utf8(name).expect("a name"),
        other => panic!("{other:?}"),
    });
    for name in texts {
        for arguments in ARGUMENTS {
            let script = format!(
                "local s, t, f = ('ab'):rep(1e5), {{}}, function() return 1 end \
                 for i = 1, 1e4 do t[i] = i end while true do pcall({name}, {arguments}) end"
            );
            let reply = embedded.client().run(&["EVAL", &script, "0"]);
            let is_error = matches!(&reply, Tree::Error(_));
            assert!(is_error, "{name}({arguments}): {reply:?}");
        }
    }
    // Use the same interpreter without a time limit, which a slow test machine could exceed.
    is_sound(&Embedded::new());
    embedded.check();
}
