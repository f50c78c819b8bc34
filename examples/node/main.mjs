// Uses Undercroft from Node, with koffi only.
//
//     npm install && LIBRARY=/usr/local/lib/libundercroft.so node main.mjs undercroft://demo

import koffi from "koffi";

const library = koffi.load(process.env.LIBRARY ?? "libundercroft.so.0");
koffi.opaque("uc_store");
koffi.opaque("uc_session");
koffi.opaque("uc_reply");
koffi.opaque("uc_value");
koffi.struct("uc_bytes", { data: "void *", length: "size_t" });
const declare = (text) => library.func(text);
const uc = {
  error_message: declare("const char *uc_error_message()"),
  open: declare("int uc_open(const char *url, const void *options, _Out_ uc_store **store)"),
  close: declare("int uc_close(uc_store *store)"),
  get: declare(
    "int uc_get(uc_store *store, const void *key, size_t key_length, void *buffer, size_t capacity, _Out_ size_t *length)",
  ),
  set: declare("int uc_set(uc_store *store, const void *key, size_t key_length, const void *value, size_t value_length)"),
  incr: declare("int uc_incr(uc_store *store, const void *key, size_t key_length, int64_t by, _Out_ int64_t *sum)"),
  session_open: declare("int uc_session_open(uc_store *store, _Out_ uc_session **session)"),
  session_close: declare("int uc_session_close(uc_session *session)"),
  command: declare("int uc_command(uc_session *session, size_t count, const uc_bytes *words, uc_reply *reply)"),
  reply_new: declare("int uc_reply_new(_Out_ uc_reply **reply)"),
  reply_free: declare("int uc_reply_free(uc_reply *reply)"),
  reply_value: declare("uc_value *uc_reply_value(uc_reply *reply)"),
  value_type: declare("int uc_value_type(uc_value *value)"),
  value_string: declare("const char *uc_value_string(uc_value *value, _Out_ size_t *length)"),
  value_integer: declare("int64_t uc_value_integer(uc_value *value)"),
  value_length: declare("size_t uc_value_length(uc_value *value)"),
  value_item: declare("uc_value *uc_value_item(uc_value *value, size_t index)"),
};
const [UC_OK, UC_NONE] = [0, 1];
const [NIL, ARRAY] = [0, 7];

function check(status) {
  if (status < 0) throw new Error(uc.error_message());
  return status;
}

class Store {
  constructor(url) {
    const store = [null];
    check(uc.open(url, null, store));
    this.store = store[0];
    const [session, reply] = [[null], [null]];
    check(uc.session_open(this.store, session));
    check(uc.reply_new(reply));
    this.session = session[0];
    this.reply = reply[0];
  }

  close() {
    check(uc.reply_free(this.reply));
    check(uc.session_close(this.session));
    check(uc.close(this.store));
  }

  set(key, value) {
    const [name, bytes] = [Buffer.from(key), Buffer.from(value)];
    check(uc.set(this.store, name, name.length, bytes, bytes.length));
  }

  get(key) {
    const name = Buffer.from(key);
    let buffer = Buffer.alloc(64);
    for (;;) {
      const length = [0];
      const status = check(uc.get(this.store, name, name.length, buffer, buffer.length, length));
      if (status === UC_NONE) return null;
      if (status === UC_OK) return buffer.subarray(0, length[0]);
      buffer = Buffer.alloc(length[0]);
    }
  }

  incr(key, by = 1) {
    const name = Buffer.from(key);
    const sum = [0];
    check(uc.incr(this.store, name, name.length, by, sum));
    return sum[0];
  }

  command(...texts) {
    const words = texts.map((text) => Buffer.from(text)).map((data) => ({ data, length: data.length }));
    check(uc.command(this.session, words.length, words, this.reply));
    return value(uc.reply_value(this.reply));
  }
}

function value(node) {
  switch (uc.value_type(node)) {
    case NIL:
      return null;
    case ARRAY:
      return Array.from({ length: Number(uc.value_length(node)) }, (_, index) => value(uc.value_item(node, index)));
    default: {
      const text = uc.value_string(node, [0]);
      return text ?? uc.value_integer(node);
    }
  }
}

const url = process.argv[2];
if (!url) {
  console.error("usage: node main.mjs STORE, such as undercroft://demo");
  process.exit(2);
}
const store = new Store(url);
store.set("node:greeting", "hello from Node");
store.set("node:long", "x".repeat(1000));
console.log(store.get("node:greeting").toString());
console.log(store.get("node:long").length, "bytes,", store.get("node:none") === null);
for (let i = 0; i < 1000; i++) store.incr("node:count");
console.log(Number(store.incr("node:count", 0)));
store.command("DEL", "node:list");
store.command("RPUSH", "node:list", "a", "b", "c");
console.log(store.command("LRANGE", "node:list", "0", "-1").join(" "));
try {
  store.incr("node:greeting");
} catch (error) {
  console.log(error.message);
}
store.close();
