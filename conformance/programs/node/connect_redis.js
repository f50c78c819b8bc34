// connect-redis: express-session remembers a login over HTTP until the logout or the session's
// expiry.
"use strict";

const assert = require("node:assert/strict");
const http = require("node:http");
const { promisify } = require("node:util");
const { RedisStore } = require("connect-redis");
const session = require("express-session");
const { createClient } = require("redis");

async function main() {
  const client = createClient({ url: process.argv[2] });
  await client.connect();
  const store = new RedisStore({ client, prefix: "session:" });
  const keep = session({
    store,
    secret: "a secret",
    resave: false,
    saveUninitialized: false,
    cookie: { maxAge: 60_000 },
  });

  const site = http.createServer((request, response) => {
    keep(request, response, () => {
      const { pathname } = new URL(request.url, "http://site");
      if (pathname.startsWith("/login/")) request.session.name = pathname.slice(7);
      if (pathname === "/logout") return request.session.destroy(() => response.end("out"));
      if (request.session.name) request.session.visits = (request.session.visits ?? 0) + 1;
      return response.end(`${request.session.name} ${request.session.visits}`);
    });
  });
  await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));

  function browser() {
    let cookie = "";
    return async (path) => {
      const answer = await fetch(`http://127.0.0.1:${site.address().port}${path}`, { headers: { cookie } });
      cookie = answer.headers.get("set-cookie")?.split(";")[0] ?? cookie;
      return answer.text();
    };
  }
  const [ann, bob] = [browser(), browser()];
  assert.equal(await ann("/login/ann"), "ann 1");
  assert.equal(await bob("/login/bob"), "bob 1");
  assert.equal(await ann("/"), "ann 2");
  assert.equal(await bob("/"), "bob 2");
  const keys = await client.keys("session:*");
  assert.equal(keys.length, 2);
  for (const key of keys) assert.ok((await client.ttl(key)) > 50);
  assert.equal(await ann("/logout"), "out");
  assert.equal(await ann("/"), "undefined undefined");
  assert.equal(await bob("/"), "bob 3");

  // Call the remaining methods of the store, too.
  const [length, all, ids, clear, set, get, touch] = ["length", "all", "ids", "clear", "set", "get", "touch"].map(
    (name) => promisify(store[name].bind(store)),
  );
  assert.equal(await length(), 1);
  assert.equal((await all())[0].name, "bob");
  const short = { cookie: { expires: new Date(Date.now() + 400) }, name: "eve" };
  await set("short", short);
  await set("touched", short);
  await touch("touched", { ...short, cookie: { expires: new Date(Date.now() + 60_000) } });
  assert.equal((await get("short")).name, "eve");
  const end = Date.now() + 20_000;
  while (await get("short")) assert.ok(Date.now() < end, "a session does not expire");
  assert.ok((await ids()).includes("touched"));
  await clear();
  assert.equal(await length(), 0);
  site.close();
  site.closeAllConnections();
  await client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
