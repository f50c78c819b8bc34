// ioredis over TLS: both sides present certificates; values, pipelines, messages, a user.
"use strict";

const assert = require("node:assert/strict");
const { randomBytes } = require("node:crypto");
const { once } = require("node:events");
const fs = require("node:fs");
const path = require("node:path");
const { Redis } = require("ioredis");

const files = process.env.PROGRAM_CERTIFICATES;
const read = (name) => fs.readFileSync(path.join(files, name));
const authority = { ca: read("ca.pem") };
const both = { ...authority, cert: read("client.pem"), key: read("client.key") };
const url = process.argv[2];
const connect = (tls, options = {}) => new Redis(url, { tls, ...options });

// Returns the first error of a client that must not get a connection.
async function refusal(tls) {
  const client = new Redis(url, { tls, lazyConnect: true, maxRetriesPerRequest: 0, retryStrategy: null });
  let seen = null;
  client.on("error", (error) => (seen ??= error));
  await assert.rejects(client.connect().then(() => client.ping()));
  client.disconnect();
  return seen;
}

async function main() {
  const client = connect(both);
  for (const size of [0, 1, 16_383, 16_384, 16_385, 1_000_000]) {
    const value = randomBytes(size);
    await client.set("value", value);
    assert.ok(value.equals(await client.getBuffer("value")), `${size} bytes`);
  }
  const pipeline = client.pipeline();
  for (let number = 0; number < 2_000; number++) pipeline.set(`key:${number}`, number).get(`key:${number}`);
  const replies = await pipeline.exec();
  for (let number = 0; number < 2_000; number++) {
    assert.deepEqual(replies[2 * number + 1], [null, String(number)]);
  }

  const subscriber = connect(both);
  await subscriber.subscribe("news");
  const message = once(subscriber, "message");
  assert.equal(await client.publish("news", "m".repeat(50_000)), 1);
  assert.deepEqual(await message, ["news", "m".repeat(50_000)]);

  await client.acl("SETUSER", "ann", "on", ">secret", "~a:*", "+get", "+info");
  const ann = connect(both, { username: "ann", password: "secret" });
  assert.equal(await ann.get("a:1"), null);
  await assert.rejects(ann.get("b:1"), /NOPERM/);
  await client.acl("DELUSER", "ann");

  assert.match(String((await refusal({ cert: both.cert, key: both.key })).code), /SELF_SIGNED|UNABLE_TO/);
  await refusal(authority);
  for (const each of [client, subscriber, ann]) each.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
