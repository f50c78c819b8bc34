//! Calls the library functions with many kinds of arguments, and compares the results with those of
//! a real Redis server.

use undercroft_commands::reply::Tree;
use undercroft_conformance::client::Client;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server, Settings};

use crate::host::Embedded;

/// A Lua function that formats the results of a call as text.
const SHOW: &str = "
local function show(value)
  local kind = type(value)
  if kind == 'number' then return string.format('%.14g', value) end
  if kind == 'string' then return (value:gsub('0x%x%x%x%x%x+', 'place')) end
  if kind == 'boolean' or kind == 'nil' then return tostring(value) end
  if kind == 'table' then
    local items = {}
    for index = 1, math.min(#value, 20) do items[index] = show(rawget(value, index)) end
    return '{' .. table.concat(items, ' ') .. '}'
  end
  return kind
end
local function call(f, ...)
  local function all(...)
    local shown = {}
    for index = 1, math.min(select('#', ...), 20) do shown[index] = show((select(index, ...))) end
    return select('#', ...) .. ': ' .. table.concat(shown, ', ')
  end
  return all(pcall(f, ...))
end
local out = {}
";

/// A script that calls a function with all pairs of the values below and with some triples.
const EACH: &str = "
local values = {0, 1, -1, 3, 2.7, -2.7, 1e15, -1e15, 0/0, 1/0, -1/0, 2^31, -2^31, 2^53, 255, 'abc', '', '12', '0x10',
  ' 7 ', '%d', '%s|%5s|%-5s|%.1s', '%x %X %o %u', '%5.2f %e %g', '%q', '%c', '%5', '%', 'a.', '[a-c]+', '(a)(b)', true, false}
local makers = {function() return {} end, function() return {3, 1, 2} end, function() return {'b', 'a', 5} end,
  function() return nil end, function() return {nil, 2, nil, 4} end}
for _, value in ipairs(values) do makers[#makers + 1] = function() return value end end
out[#out + 1] = call(f)
for _, one in ipairs(makers) do
  out[#out + 1] = call(f, one())
  for _, other in ipairs(makers) do
    out[#out + 1] = call(f, one(), other())
  end
end
for _, one in ipairs({'abcabc', '%s %d', {5, 6, 7}, 16}) do
  for _, other in ipairs(makers) do
    for _, third in ipairs({0, 1, -1, 2, 5, -2^31, 'x', '%0', 0/0}) do
      local first = one
      if type(one) == 'table' then first = {5, 6, 7} end
      out[#out + 1] = call(f, first, other(), third)
    end
  end
end
return out";

const FUNCTIONS: &[&str] = &[
    "assert",
    "error",
    "getmetatable",
    "ipairs",
    "next",
    "pairs",
    "rawequal",
    "rawget",
    "select",
    "setmetatable",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "loadstring",
    "load",
    "xpcall",
    "coroutine.create",
    "coroutine.resume",
    "coroutine.status",
    "coroutine.wrap",
    "table.concat",
    "table.getn",
    "table.maxn",
    "table.remove",
    "table.foreach",
    "table.foreachi",
    "table.setn",
    "string.byte",
    "string.char",
    "string.find",
    "string.format",
    "string.gmatch",
    "string.gfind",
    "string.gsub",
    "string.len",
    "string.lower",
    "string.match",
    "string.reverse",
    "string.sub",
    "string.upper",
    "math.abs",
    "math.acos",
    "math.asin",
    "math.atan",
    "math.atan2",
    "math.ceil",
    "math.cos",
    "math.cosh",
    "math.deg",
    "math.exp",
    "math.floor",
    "math.fmod",
    "math.frexp",
    "math.ldexp",
    "math.log",
    "math.log10",
    "math.max",
    "math.min",
    "math.mod",
    "math.modf",
    "math.pow",
    "math.rad",
    "math.sin",
    "math.sinh",
    "math.sqrt",
    "math.tan",
    "math.tanh",
    "bit.tobit",
    "bit.tohex",
    "bit.band",
    "bit.lshift",
    "struct.size",
    "struct.pack",
    "struct.unpack",
    "cmsgpack.pack",
    "cmsgpack.unpack",
    "cjson.encode",
    "cjson.decode",
    "redis.sha1hex",
    "redis.error_reply",
    "redis.status_reply",
];

/// Complete scripts whose replies are compared.
const SCRIPTS: &[&str] = &[
    "return {xpcall(function() error('x') end, function(e) return e .. '!' end)}",
    "return {xpcall(function() error({1, 2}) end, function(e) return e[2] end)}",
    "return {xpcall(function() return 1, 2 end, error)}",
    "local t = {} for i = 1, 30 do t[i] = i end return {xpcall(function() return unpack(t) end, error)}",
    "local t = {} for i = 1, 7000 do t[i] = i end return select('#', xpcall(function() return unpack(t) end, error))",
    "local t = {} for i = 1, 7000 do t[i] = i end return select('#', pcall(unpack, t))",
    "return {tostring(xpcall(error, 1)), select(2, xpcall(error, 1))}",
    "local n = 0 return {xpcall(function() error('x') end, function(e) n = n + 1 if n < 3 then error('y') end return n end)}",
    "return {select(2, xpcall(function() error('x') end, function(e) error('y') end))}",
    "return select(2, pcall(function() local x = nil; return x.y end))",
    "return {pcall(error, 'x', 2)}",
    "local t = {5, 2, 8, 1, 9, 3, 7, 4, 6, 0} table.sort(t) return table.concat(t, ',')",
    "local t = {5, 2, 8, 1, 9, 3, 7, 4, 6, 0} table.sort(t, function(a, b) return a > b end) return table.concat(t, ',')",
    "local t = {} for i = 1, 100 do t[i] = {i % 7, i} end table.sort(t, function(a, b) return a[1] < b[1] end) \
     local s = '' for _, v in ipairs(t) do s = s .. v[2] .. ' ' end return s",
    "return {pcall(table.sort, {3, 1, 2, 5, 4}, function() return true end)}",
    "return {pcall(table.sort, {1, 'x', 2})}",
    "return {pcall(table.sort, {1, 2, {}})}",
    "local t = {1, 2, 3} table.insert(t, 'x') table.insert(t, 1, 'y') table.insert(t, 9, 'z') \
     return {#t, t[1], t[2], t[5], t[9]}",
    "local t = {1, 2, 3} table.insert(t, -2, 'x') return {t[-2], t[-1], t[0], t[1], t[2], t[3], t[4]}",
    "return {pcall(table.insert, {})}",
    "return {pcall(table.insert, {}, 1, 2, 3)}",
    "return {pcall(table.insert, 1, 2)}",
    "local co = coroutine.create(function(a) local b = coroutine.yield(a + 1) error('x' .. b) end) \
     return {tostring(coroutine.resume(co, 1)), coroutine.status(co), select(2, coroutine.resume(co, 'y')), coroutine.status(co)}",
    "local f = coroutine.wrap(function() error('x') end) return {pcall(f)}",
    "local f = coroutine.wrap(function() error({}) end) return {type(select(2, pcall(f)))}",
    "return {pcall(coroutine.yield)}",
    "return {tostring(coroutine.running())}",
    "local co co = coroutine.create(function() return coroutine.status(co) end) return {coroutine.resume(co)}",
    "local co co = coroutine.create(function() return select(2, coroutine.resume(co)) end) return {select(2, coroutine.resume(co))}",
    "local function f(n) if n == 0 then return 0 end return 1 + coroutine.wrap(f)(n - 1) end return f(150)",
    "local function f(n) if n == 0 then return 0 end local ok, m = pcall(f, n - 1) return ok and m + 1 or m end return f(150)",
    "local function f(n) if n == 0 then return 0 end \
     local ok, m = coroutine.resume(coroutine.create(f), n - 1) return 1 + m end return f(150)",
    "local t = {} for k in string.gmatch('one two', '%a+') do t[#t + 1] = k end return t",
    "return {string.gsub('hello world', 'o', '%0%0')}",
    "return {string.gsub('hello', '(l)(l)', '%2%1%%')}",
    "return {string.gsub('hello', 'l', {l = 'L'})}",
    "return {string.gsub('hello', 'l', function(c) return nil end)}",
    "return {pcall(string.gsub, 'hello', 'l', '%2')}",
    "return {pcall(string.gsub, 'hello', 'l', function() return {} end)}",
    "return {string.gsub('abc', '%w', '%%%0', 2)}",
    "return {pcall(string.rep)}",
    "return {('x'):rep(3), ('ab'):rep(0), ('ab'):rep(-1), ('ab'):rep(2.9)}",
    "return {pcall(('x').rep)}",
    "return {pcall(('x').bad)}",
    "return {string.format('%s %s', 1, 'x'), string.format('%5d|%-5d|%05d', 1, 2, 3), string.format('%q', 'a\\n\\0\\r\"\\\\')}",
    "return {pcall(string.format, '%s')}",
    "return {pcall(string.format, '%y', 1)}",
    "return {pcall(string.format, '%10.123f', 1)}",
    "return {pcall(string.format, '%-+ #0-d', 1)}",
    "return {load(function() return nil end) ~= nil}",
    "return {pcall(load, function() error('x') end)}",
    "return {select(2, load(function() error('x') end))}",
    "return {select(2, load(function() return {} end))}",
    "return {loadstring('return 1')(), select(2, loadstring('x x')), select(2, loadstring('x x', '=name'))}",
    "return {select(2, loadstring(('('):rep(300)))}",
    "return {select(2, loadstring('\\27Lua'))}",
    "return {type(string.dump(function() end))}",
    "return {pcall(string.dump, print)}",
    "return {tostring(1e15), tostring(1e100), tostring(-0), tostring(0.1), tostring(1/3)}",
    "return {tonumber('1e2'), tonumber('ff', 16), tonumber('7', 8), tonumber('zz', 36), tostring(tonumber('9', 8))}",
    "return {pcall(tonumber, '1', 99)}",
    "return {tostring(setmetatable({}, {__tostring = function() return 'mine' end}))}",
    "return {collectgarbage('count') > 0, collectgarbage('step'), collectgarbage('stop'), collectgarbage('restart'), collectgarbage()}",
    "return {pcall(collectgarbage, 'bad')}",
    "return {math.pi, tostring(math.huge), _VERSION, type(os), type(debug)}",
    "return {math.max(1, 5, 3), math.min(2, -1), math.fmod(-7, 3), math.modf(-2.5)}",
    "local r = {} for k in pairs(string) do r[#r + 1] = k end table.sort(r) return r",
    "local r = {} for k in pairs(table) do r[#r + 1] = k end table.sort(r) return r",
    "local r = {} for k in pairs(math) do r[#r + 1] = k end table.sort(r) return r",
    "local r = {} for k in pairs(coroutine) do r[#r + 1] = k end table.sort(r) return r",
    "local r = {} table.foreach(coroutine, function(k) r[#r + 1] = k end) table.sort(r) return r",
    "return redis.error_reply('')",
    "return redis.error_reply('-')",
    "return redis.error_reply(' ')",
    "return redis.error_reply('x')",
    "return redis.error_reply('x y')",
    "return redis.pcall('nosuch')",
    "return {pcall(redis.error_reply)}",
    "return redis.status_reply('')",
    "redis.call('del', 's') redis.call('sadd', 's', 'b', 'd', 'a', 'aa', 'c', 'azz') return redis.call('sort', 's', 'by', '_')",
    "return redis.call('sort', 's', 'by', '_', 'get', '#', 'get', '_:*')",
    "return redis.call('sort', 's', 'by', '_', 'desc', 'limit', 1, 3)",
    "setmetatable(_G, {})",
    "local g = getmetatable(_G) g.__index = {}",
    "redis = function() return 1 end",
    "_G = {}",
    "redis.call = function() return 1 end",
    "cjson.encode = function() return 1 end",
    "cmsgpack.pack = function() return 1 end",
    "bit.lshift = function() return 1 end",
    "loadfile('x')",
    "dofile('x')",
    "print('x')",
    "getmetatable('').__index = function() return 1 end",
];

fn of_redis(reply: Reply) -> Vec<String> {
    match reply {
        Reply::Array(items) => items.into_iter().flat_map(of_redis).collect(),
        Reply::Bulk(text) | Reply::Simple(text) | Reply::Error(text) => {
            vec![String::from_utf8_lossy(&text).into_owned()]
        }
        other => vec![format!("{:?}", other.lines())],
    }
}

fn of_ours(reply: Tree) -> Vec<String> {
    match reply {
        Tree::Array(items) => items.into_iter().flat_map(of_ours).collect(),
        Tree::Bulk(text) | Tree::Simple(text) => vec![String::from_utf8_lossy(&text).into_owned()],
        Tree::Error(text) => vec![text],
        Tree::Integer(number) => of_redis(Reply::Integer(number)),
        Tree::Null => of_redis(Reply::NullBulk),
        other => vec![format!("{other:?}")],
    }
}

#[test]
fn library_functions_return_what_redis_returns() {
    let Ok(server) = Server::start(Kind::Redis, Settings::default()) else {
        println!("skipped: redis-server is not installed");
        return;
    };
    let mut redis = Client::connect(server.address()).expect("a connection");
    let embedded = Embedded::new();
    let mut ours = embedded.client();
    let of_functions = FUNCTIONS
        .iter()
        .map(|name| format!("{SHOW} local f = {name} {EACH}"));
    let whole = SCRIPTS.iter().map(|script| (*script).to_owned());
    let mut differences = Vec::new();
    let mut compared = 0;
    for script in of_functions.chain(whole) {
        let words = ["EVAL", &script, "0"];
        let Ok(reply) = redis.call(words) else {
            panic!(
                "no reply to {}",
                script.strip_prefix(SHOW).unwrap_or(&script)
            );
        };
        let expected = of_redis(reply);
        let found = of_ours(ours.run(&words));
        compared += expected.len();
        if expected.len() != found.len() {
            differences.push(format!("{script}\n{expected:?}\n{found:?}"));
            continue;
        }
        let differ = expected.iter().zip(&found);
        let differ = differ.enumerate().filter(|(_, (one, other))| one != other);
        let differ = differ.take(5);
        for (place, (one, other)) in differ {
            let shown = script.strip_prefix(SHOW).unwrap_or(&script);
            let shown: String = shown.chars().take(60).collect();
            differences.push(format!("{shown} [{place}]\n  redis {one}\n  ours  {other}"));
        }
    }
    assert!(compared > 50_000, "{compared} answers were compared");
    let count = differences.len();
    assert!(count == 0, "{count} differ\n{}", differences.join("\n"));
}
