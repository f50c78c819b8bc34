// BullMQ: workers run jobs with priorities, delays, repetitions, flows and a rate limit, and emit
// events.
"use strict";

const assert = require("node:assert/strict");
const { FlowProducer, Queue, QueueEvents, Worker } = require("bullmq");

const url = new URL(process.argv[2]);
const connection = { host: url.hostname, port: Number(url.port), maxRetriesPerRequest: null };
const settings = { connection, prefix: "program" };
const order = [];
let attempts = 0;

async function work(job) {
  switch (job.name) {
    case "add":
      return job.data.one + job.data.two;
    case "note":
      order.push(job.data.name);
      return null;
    case "fail once":
      attempts += 1;
      if (attempts < 2) throw new Error("the first time");
      return attempts;
    case "progress":
      await job.updateProgress(50);
      await job.log("half of it");
      return "done";
    case "sum":
      return Object.values(await job.getChildrenValues()).reduce((one, two) => one + two, 0);
    default:
      throw new Error("always");
  }
}

async function main() {
  const queue = new Queue("queue", settings);
  const events = new QueueEvents("queue", settings);
  await events.waitUntilReady();

  // Jobs that were queued before a worker starts run in order of priority.
  for (const [name, priority] of [["low", 9], ["high", 1], ["middle", 5]]) {
    await queue.add("note", { name }, { priority });
  }
  assert.equal(await queue.count(), 3);
  const worker = new Worker("queue", work, { ...settings, concurrency: 1 });
  const done = async (job) => job.waitUntilFinished(events, 20_000);

  const jobs = await queue.addBulk(
    [...Array(20).keys()].map((number) => ({ name: "add", data: { one: number, two: 1 } })),
  );
  assert.deepEqual(await Promise.all(jobs.map(done)), [...Array(20).keys()].map((n) => n + 1));
  const last = await queue.add("note", { name: "last" }, { priority: 9 });
  await done(last);
  assert.deepEqual(order, ["high", "middle", "low", "last"]);

  const begun = Date.now();
  const later = await queue.add("add", { one: 20, two: 22 }, { delay: 1000 });
  assert.equal(await later.getState(), "delayed");
  const again = await queue.add("fail once", {}, { attempts: 3, backoff: { type: "fixed", delay: 20 } });
  assert.equal(await done(again), 2);
  const failed = await queue.add("fail", {}, { removeOnFail: false });
  await assert.rejects(done(failed), /always/);
  assert.equal((await queue.getFailed()).length, 1);
  await failed.remove();

  const heard = new Promise((resolve) => events.once("progress", ({ data }) => resolve(data)));
  const progress = await queue.add("progress", {});
  assert.equal(await done(progress), "done");
  assert.equal(await heard, 50);
  assert.deepEqual((await queue.getJobLogs(progress.id)).logs, ["half of it"]);

  // Adding a job twice with the same id creates one job. A flow's parent waits for its children.
  const once = await queue.add("add", { one: 1, two: 1 }, { jobId: "once", delay: 60_000 });
  assert.equal((await queue.add("add", { one: 1, two: 1 }, { jobId: "once" })).id, once.id);
  assert.equal(await once.getState(), "delayed");
  const flows = new FlowProducer(settings);
  const add = (number) => ({ name: "add", queueName: "queue", data: { one: number, two: 1 } });
  const flow = await flows.add({ name: "sum", queueName: "queue", children: [add(1), add(2), add(3)] });
  assert.equal(await done(flow.job), 9);
  assert.equal(await done(later), 42);
  assert.ok(Date.now() - begun >= 1000);

  // A scheduler creates jobs repeatedly.
  await queue.upsertJobScheduler("every", { every: 200 }, { name: "note", data: { name: "tick" } });
  await new Promise((resolve) => {
    worker.on("completed", () => order.filter((name) => name === "tick").length > 2 && resolve());
  });
  assert.ok(await queue.removeJobScheduler("every"));

  await limited();
  await Promise.all([worker, events, flows, queue].map((each) => each.close()));
}

// Ten jobs at three per half second take more than 1.5 seconds.
async function limited() {
  const queue = new Queue("limited", settings);
  const events = new QueueEvents("limited", settings);
  await events.waitUntilReady();
  const limiter = { max: 3, duration: 500 };
  const workers = [1, 2].map(() => new Worker("limited", work, { ...settings, limiter }));
  const begun = Date.now();
  const jobs = await queue.addBulk(
    [...Array(10).keys()].map((number) => ({ name: "add", data: { one: number, two: 0 } })),
  );
  await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 20_000)));
  assert.ok(Date.now() - begun >= 1400, `ten jobs took ${Date.now() - begun} ms`);
  await Promise.all([...workers, events, queue].map((each) => each.close()));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
