/** The stop and the restart of the worker of a family without service ports. */
import assert from "node:assert/strict";
import { createFamilyChannel, mayRest, REST_DELAYS } from "../../../../core/channel/family_channel.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock, settled } from "../../../fakes/clock.ts";
import { createFakeFamilyLink } from "../../../fakes/family_link.ts";
import { byKey, fakeServicePort, fakeSettings } from "../../../fakes/service_port.ts";

const FIRST_MS = 5_000, LATER_MS = 300_000;

function setUp(mayRest = () => true) {
  const link = createFakeFamilyLink(), clock = createFakeClock();
  const channel = createFamilyChannel({
    family: "IPv6",
    connect: link.connect,
    minSyncPeriodMs: 0,
    restDelays: { firstMs: FIRST_MS, laterMs: LATER_MS },
    mayRest,
    clock,
    logger: silentLogger,
  });
  channel.configure(fakeSettings());
  channel.start();
  return { channel, link, clock };
}

/** A family without service ports whose full snapshot is in effect. */
async function setUpEmpty(mayRest?: () => boolean) {
  const setup = setUp(mayRest);
  setup.link.reset();
  await settled();
  setup.link.report();
  await settled();
  return setup;
}

/** A family whose worker has stopped. */
async function setUpResting() {
  const setup = await setUpEmpty();
  await setup.clock.advanceSettled(FIRST_MS);
  assert.deepEqual(setup.link.rests, ["rest"]);
  return setup;
}

Deno.test("the worker of a family without service ports stops some time after the first sync, and no sooner", async () => {
  const { link, clock, channel } = await setUpEmpty();
  await clock.advanceSettled(FIRST_MS - 1);
  assert.deepEqual(link.rests, []);
  await clock.advanceSettled(1);
  assert.deepEqual(link.rests, ["rest"]);
  assert.equal(channel.pending(), 0);
  await clock.advanceSettled(10 * LATER_MS);
  assert.deepEqual(link.rests, ["rest"]);
});

Deno.test("a family that had service ports keeps its worker for minutes, since more may follow soon", () => {
  assert.ok(REST_DELAYS.laterMs >= 60_000 && REST_DELAYS.firstMs < REST_DELAYS.laterMs);
});

Deno.test("a worker that has not synced, has failed or has work left stays", async () => {
  const { link, clock } = setUp();
  link.reset();
  await clock.advanceSettled(LATER_MS);
  link.report({ ok: false, unfinished: true });
  await clock.advanceSettled(LATER_MS);
  link.report({ unfinished: true });
  await clock.advanceSettled(LATER_MS);
  assert.deepEqual(link.rests, []);
  link.report();
  await clock.advanceSettled(FIRST_MS - 1);
  link.report({ unfinished: true });
  await clock.advanceSettled(LATER_MS);
  assert.deepEqual(link.rests, [], "a comparison has found something to do");
  link.report();
  await clock.advanceSettled(FIRST_MS);
  assert.deepEqual(link.rests, ["rest"]);
});

Deno.test("the first service port starts a worker, which gets a full snapshot", async () => {
  const { channel, link, clock } = await setUpResting();
  channel.set(byKey([fakeServicePort("web")]));
  assert.equal(channel.pending(), 1);
  await settled();
  assert.deepEqual(link.rests, ["rest", "wake"]);
  assert.equal(link.sent.length, 1, "there is no worker yet");
  channel.set(byKey([fakeServicePort("dns")]));
  link.reset();
  await clock.advanceSettled(1_000);
  const { base, revision, set } = link.sent[1]!;
  assert.deepEqual([base, revision, set.length], [undefined, 2, 2]);
  assert.deepEqual(link.rests, ["rest", "wake"]);
});

Deno.test("a service port deleted within the same turn starts no worker", async () => {
  const { channel, link } = await setUpResting();
  channel.set(byKey([fakeServicePort("web")]));
  channel.delete([`${fakeServicePort("web").name}|tcp`]);
  await settled();
  assert.deepEqual(link.rests, ["rest"]);
});

Deno.test("a worker that starts again is not stopped before it has synced, though its family is empty once more", async () => {
  const { channel, link, clock } = await setUpResting(), web = fakeServicePort("web");
  channel.set(byKey([web]));
  await settled();
  channel.delete([`${web.name}|tcp`]);
  await clock.advanceSettled(3 * LATER_MS);
  assert.deepEqual(link.rests, ["rest", "wake"]);
  link.reset();
  await settled();
  link.report();
  await clock.advanceSettled(LATER_MS);
  assert.deepEqual(link.rests, ["rest", "wake", "rest"]);
});

Deno.test("changed settings start a worker until they are applied; equal ones do not", async () => {
  const { channel, link, clock } = await setUpResting();
  channel.configure(fakeSettings());
  await settled();
  assert.deepEqual(link.rests, ["rest"]);
  channel.configure(fakeSettings({ nodeIP: "192.168.1.99" }));
  await settled();
  link.reset();
  await clock.advanceSettled(1_000);
  link.report();
  await clock.advanceSettled(FIRST_MS);
  assert.deepEqual(link.rests, ["rest", "wake", "rest"]);
  assert.equal(link.sent[1]?.settings?.nodeIP, "192.168.1.99");
});

Deno.test("the worker stops some minutes after the last service port is deleted, unless a new one arrives", async () => {
  const { channel, link, clock } = setUp();
  const web = fakeServicePort("web"), key = `${web.name}|tcp`;
  const sync = async () => {
    await clock.advanceSettled(1_000);
    link.report();
    await settled();
  };
  channel.set(byKey([web]));
  link.reset();
  await sync();
  await clock.advanceSettled(2 * LATER_MS);
  assert.deepEqual(link.rests, []);
  channel.delete([key]);
  await sync();
  await clock.advanceSettled(LATER_MS - 10_000);
  channel.set(byKey([web]));
  await sync();
  channel.delete([key]);
  await sync();
  await clock.advanceSettled(LATER_MS - 1);
  assert.deepEqual(link.rests, []);
  await clock.advanceSettled(1);
  assert.deepEqual(link.rests, ["rest"]);
});

Deno.test("a worker that may not stop yet is checked again later", async () => {
  let may = false;
  const { link, clock } = await setUpEmpty(() => may);
  link.allowRest(false);
  await clock.advanceSettled(FIRST_MS);
  may = true;
  await clock.advanceSettled(LATER_MS);
  assert.deepEqual(link.rests, []);
  link.allowRest(true);
  await clock.advanceSettled(LATER_MS);
  assert.deepEqual(link.rests, ["rest"]);
});

Deno.test("a stopped family neither rests nor wakes", async () => {
  const empty = await setUpEmpty(), resting = await setUpResting();
  for (const { channel } of [empty, resting]) await channel.stop();
  await empty.clock.advanceSettled(LATER_MS);
  resting.channel.set(byKey([fakeServicePort("web")]));
  await settled();
  assert.deepEqual(empty.link.rests, []);
  assert.deepEqual(resting.link.rests, ["rest"]);
  assert.deepEqual(empty.clock.pending(), []);
});

Deno.test("one worker stays: IPv4's if neither family has service ports, or to guard loopback addresses", () => {
  const served = [true, false];
  assert.deepEqual(served.map((otherServes) => mayRest("IPv6", false, otherServes)), [true, true]);
  assert.deepEqual(served.map((otherServes) => mayRest("IPv4", false, otherServes)), [true, false]);
  assert.deepEqual(served.map((otherServes) => mayRest("IPv4", true, otherServes)), [false, false]);
});
