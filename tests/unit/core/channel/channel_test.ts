import assert from "node:assert/strict";
import { createFamilyChannel, type FamilyChannel, REST_DELAYS } from "../../../../core/channel/family_channel.ts";
import type { FamilyDelta, SyncReport } from "../../../../core/model/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock, type FakeClock, promisesSettled } from "../../../fakes/clock.ts";
import { createFakeFamilyLink, type FakeFamilyLink } from "../../../fakes/family_link.ts";
import { byKey, fakeServicePort, fakeSettings } from "../../../fakes/service_port.ts";

interface Setup {
  readonly channel: FamilyChannel;
  readonly link: FakeFamilyLink;
  readonly clock: FakeClock;
  /** The events so far, in order: `send 1`, `report 1`. */
  readonly events: string[];
  readonly reports: SyncReport[];
}

function setUp(minSyncPeriodMs = 0): Setup {
  const link = createFakeFamilyLink();
  const clock = createFakeClock(undefined, promisesSettled);
  const events: string[] = [];
  const reports: SyncReport[] = [];
  const channel = createFamilyChannel({
    family: "IPv4",
    connect: link.connect,
    minSyncPeriodMs,
    restDelays: REST_DELAYS,
    mayRest: () => true,
    clock,
    logger: silentLogger,
    onSend: (revision) => events.push(`send ${revision}`),
    onReport(report) {
      events.push(`report ${report.revision}`);
      reports.push(report);
    },
  });
  return { channel, link, clock, events, reports };
}

/** A channel whose worker has confirmed a full snapshot of the service ports `web` and `dns`. */
async function setUpIdle(minSyncPeriodMs = 0): Promise<Setup> {
  const setup = setUp(minSyncPeriodMs);
  setup.channel.configure(fakeSettings());
  setup.channel.set(byKey([fakeServicePort("web"), fakeServicePort("dns")]));
  setup.channel.start();
  setup.link.reset();
  await promisesSettled();
  setup.link.report();
  await promisesSettled();
  assert.equal(setup.link.sent.length, 1);
  return setup;
}

const setNames = (delta: FamilyDelta | undefined) => delta?.set.map((port) => port.name);

Deno.test("the first message is a full snapshot", async () => {
  const { link } = await setUpIdle();
  assert.deepEqual(link.sent[0], {
    revision: 1,
    base: undefined,
    settings: fakeSettings(),
    set: [fakeServicePort("web"), fakeServicePort("dns")],
    deleted: [],
  });
});

for (const missing of ["settings", "start", "worker"] as const) {
  Deno.test(`nothing is sent without ${missing}`, async () => {
    const { channel, link } = setUp();
    const does = {
      settings: () => channel.configure(fakeSettings()),
      start: () => channel.start(),
      worker: () => link.reset(),
    };
    channel.set(byKey([fakeServicePort("web")]));
    for (const [what, act] of Object.entries(does)) if (what !== missing) act();
    await promisesSettled();
    assert.equal(link.sent.length, 0);
    does[missing]();
    await promisesSettled();
    assert.deepEqual(link.sent.map(setNames), [["web"]]);
  });
}

Deno.test("a family without service ports is sent an empty state", async () => {
  const { channel, link } = setUp();
  channel.configure(fakeSettings());
  channel.start();
  link.reset();
  await promisesSettled();
  assert.deepEqual(link.sent.map(setNames), [[]]);
});

Deno.test("a later message is a delta against the last sent revision, without unchanged settings", async () => {
  const { channel, link } = await setUpIdle();
  channel.set(byKey([fakeServicePort("web", { port: 81 })]));
  await promisesSettled();
  assert.deepEqual(link.sent[1], {
    revision: 2,
    base: 1,
    settings: undefined,
    set: [fakeServicePort("web", { port: 81 })],
    deleted: [],
  });
});

for (const minSyncPeriodMs of [0, 60_000]) {
  Deno.test(`with minSyncPeriod ${minSyncPeriodMs}, portions follow each other at once and are one sync`, async () => {
    const { channel, link, events } = await setUpIdle(minSyncPeriodMs);
    const clusterEndpoints = Array.from({ length: 6000 }, (_, i) => `10.${i >> 8}.${i & 255}.1:80`);
    channel.set(byKey(["a", "b", "c"].map((name) => fakeServicePort(name, { clusterEndpoints }))));
    for (const name of ["a", "b", "c"]) {
      await promisesSettled();
      assert.deepEqual(setNames(link.sent.at(-1)), [name]);
      link.report({ durationMs: 60_000 });
    }
    await promisesSettled();
    assert.equal(link.sent.length, 4);
    assert.deepEqual(events, ["send 1", "report 1", "report 2", "report 3", "send 4", "report 4"]);
  });
}

Deno.test("changes of one turn are sent together", async () => {
  const { channel, link } = await setUpIdle();
  channel.delete(["web|tcp"]);
  channel.set(byKey([fakeServicePort("new")]));
  channel.configure(fakeSettings({ masqueradeAll: true }));
  await promisesSettled();
  assert.equal(link.sent.length, 2);
  assert.deepEqual(setNames(link.sent[1]), ["new"]);
  assert.deepEqual(link.sent[1]?.deleted, ["web|tcp"]);
  assert.equal(link.sent[1]?.settings?.masqueradeAll, true);
});

Deno.test("while a message is in flight changes wait and merge into one", async () => {
  const { channel, link } = await setUpIdle();
  channel.set(byKey([fakeServicePort("first")]));
  await promisesSettled();
  for (let port = 1; port <= 100; port++) {
    channel.set(byKey([fakeServicePort("web", { port })]));
    await promisesSettled();
  }
  channel.delete(["dns|tcp"]);
  await promisesSettled();
  assert.equal(link.sent.length, 2);
  link.report();
  await promisesSettled();
  assert.equal(link.sent.length, 3);
  assert.deepEqual(link.sent[2]?.set, [fakeServicePort("web", { port: 100 })]);
  assert.deepEqual(link.sent[2]?.deleted, ["dns|tcp"]);
  assert.equal(link.sent[2]?.base, 2);
});

Deno.test("a report of an earlier revision does not free the worker", async () => {
  const { channel, link } = await setUpIdle();
  channel.set(byKey([fakeServicePort("first")]));
  await promisesSettled();
  channel.set(byKey([fakeServicePort("second")]));
  link.report({ revision: 1, full: true });
  await promisesSettled();
  assert.equal(link.sent.length, 2);
});

Deno.test("a failed sync frees the worker for newer changes", async () => {
  const { channel, link } = await setUpIdle();
  channel.set(byKey([fakeServicePort("first")]));
  await promisesSettled();
  channel.set(byKey([fakeServicePort("second")]));
  link.report({ ok: false });
  await promisesSettled();
  assert.deepEqual(setNames(link.sent[2]), ["second"]);
});

const UNDONE: Record<string, (channel: FamilyChannel) => void> = {
  "a service port changed and changed back": (channel) => {
    channel.set(byKey([fakeServicePort("web", { port: 81 })]));
    channel.set(byKey([fakeServicePort("web")]));
  },
  "a service port created and deleted": (channel) => {
    channel.set(byKey([fakeServicePort("new")]));
    channel.delete(["new|tcp"]);
  },
  "a service port deleted and created again": (channel) => {
    channel.delete(["web|tcp"]);
    channel.set(byKey([fakeServicePort("web")]));
  },
  "settings changed and changed back": (channel) => {
    channel.configure(fakeSettings({ nodeIP: "192.168.1.2" }));
    channel.configure(fakeSettings());
  },
  "what is there already set again": (channel) => {
    channel.set(byKey([fakeServicePort("web", { clusterEndpoints: ["10.1.0.1:8080"] })]));
    channel.configure(fakeSettings());
  },
  "what is not there deleted": (channel) => channel.delete(["none|tcp"]),
};
for (const [what, act] of Object.entries(UNDONE)) {
  Deno.test(`${what}: nothing is sent`, async () => {
    const { channel, link } = await setUpIdle();
    act(channel);
    await promisesSettled();
    assert.equal(link.sent.length, 1);
  });
}

Deno.test("a change undone while the worker is busy is not sent", async () => {
  const { channel, link } = await setUpIdle();
  channel.set(byKey([fakeServicePort("web", { port: 81 })]));
  await promisesSettled();
  channel.set(byKey([fakeServicePort("web", { port: 82 }), fakeServicePort("dns", { port: 53 })]));
  await promisesSettled();
  channel.set(byKey([fakeServicePort("web", { port: 81 })]));
  link.report();
  await promisesSettled();
  assert.deepEqual(link.sent[2]?.set, [fakeServicePort("dns", { port: 53 })]);
});

Deno.test("the same port number with two protocols is two service ports", async () => {
  const { channel, link } = await setUpIdle();
  channel.set(byKey([fakeServicePort("dns", { protocol: "udp" })]));
  channel.delete(["dns|tcp"]);
  await promisesSettled();
  assert.deepEqual(link.sent[1]?.set.map((port) => port.protocol), ["udp"]);
  assert.deepEqual(link.sent[1]?.deleted, ["dns|tcp"]);
});

Deno.test("a worker that lost its state gets a full snapshot with a new revision", async () => {
  const { channel, link } = await setUpIdle();
  channel.set(byKey([fakeServicePort("new")]));
  await promisesSettled();
  channel.delete(["dns|tcp"]);
  link.reset();
  await promisesSettled();
  assert.deepEqual(link.sent[2], {
    revision: 3,
    base: undefined,
    settings: fakeSettings(),
    set: [fakeServicePort("web"), fakeServicePort("new")],
    deleted: [],
  });
  // The changes before the reset are part of the full snapshot and not sent again.
  link.report();
  await promisesSettled();
  assert.equal(link.sent.length, 3);
});

Deno.test("with a minSyncPeriod, a rested channel sends twice at once and then once per period", async () => {
  const { channel, link, clock } = setUp(1000);
  channel.configure(fakeSettings());
  channel.start();
  link.reset();
  await promisesSettled();
  const change = async (port: number) => {
    channel.set(byKey([fakeServicePort("web", { port })]));
    await promisesSettled();
    if (link.sent.length > 0) link.report();
    await promisesSettled();
  };
  await change(1);
  await change(2);
  assert.equal(link.sent.length, 2);
  await change(3);
  clock.advance(999);
  await change(4);
  assert.deepEqual([link.sent.length, clock.pending()], [2, [1]]);
  clock.advance(1);
  assert.deepEqual(link.sent[2]?.set.map((port) => port.port), [4]);
  link.report();
  await change(5);
  clock.advance(999);
  assert.equal(link.sent.length, 3);
  clock.advance(1);
  assert.equal(link.sent.length, 4);
  link.report();
  clock.advance(5000);
  await change(6);
  await change(7);
  assert.equal(link.sent.length, 6);
});

/** Changes a service port as often as there are durations of syncs; returns how long each change waited to be sent. */
async function waitsOf({ channel, link, clock }: Setup, durationsMs: readonly number[]): Promise<number[]> {
  const waitsMs: number[] = [];
  for (const durationMs of durationsMs) {
    const sentBefore = link.sent.length;
    channel.set(byKey([fakeServicePort("web", { port: 1000 + sentBefore })]));
    await promisesSettled();
    const waitMs = link.sent.length > sentBefore ? 0 : clock.pending()[0]!;
    waitsMs.push(waitMs);
    await clock.advanceSettled(waitMs);
    assert.equal(link.sent.length, sentBefore + 1);
    await clock.advanceSettled(durationMs);
    link.report({ durationMs });
    await promisesSettled();
  }
  return waitsMs;
}

Deno.test("less than half a millisecond is no wait, since timers count whole ones", async () => {
  const { channel, link, clock } = await setUpIdle(60_000);
  const change = async (port: number) => {
    channel.set(byKey([fakeServicePort("web", { port })]));
    await promisesSettled();
    link.report();
    return link.sent.length;
  };
  assert.equal(await change(81), 2);
  clock.advance(59_999.6);
  assert.equal(await change(82), 3);
});

Deno.test("without a minSyncPeriod, a delta waits only for the sync of the one before", async () => {
  const waitsMs = await waitsOf(await setUpIdle(), new Array<number>(200).fill(45));
  assert.deepEqual(new Set(waitsMs), new Set([0]));
});

Deno.test("undone changes do not count against the minSyncPeriod", async () => {
  const { channel, link, clock } = await setUpIdle(1000);
  channel.set(byKey([fakeServicePort("web", { port: 81 })]));
  await promisesSettled();
  link.report();
  channel.set(byKey([fakeServicePort("web", { port: 82 })]));
  await promisesSettled();
  channel.set(byKey([fakeServicePort("web", { port: 81 })]));
  clock.advance(1000);
  await promisesSettled();
  assert.equal(link.sent.length, 2);
});

Deno.test("onSend is called before the revision's reports, and each report is passed on before the next delta", async () => {
  const { channel, link, events } = await setUpIdle();
  channel.set(byKey([fakeServicePort("a")]));
  await promisesSettled();
  channel.set(byKey([fakeServicePort("b")]));
  link.report();
  await promisesSettled();
  link.report({ ok: false });
  link.report();
  assert.deepEqual(events, ["send 1", "report 1", "send 2", "report 2", "send 3", "report 3", "report 3"]);
});

Deno.test("a stopped channel stops its worker and sends nothing more", async () => {
  const { channel, link, clock } = await setUpIdle(1000);
  channel.set(byKey([fakeServicePort("a")]));
  await promisesSettled();
  link.report();
  channel.set(byKey([fakeServicePort("b")]));
  await promisesSettled();
  await channel.stop();
  assert.deepEqual(clock.pending(), []);
  channel.set(byKey([fakeServicePort("c")]));
  await promisesSettled();
  assert.equal(link.sent.length, 2);
  assert.ok(link.isStopped());
  assert.deepEqual(clock.pending(), []);
});

Deno.test("the worker's health is passed on", () => {
  const link = createFakeFamilyLink();
  const seen: string[] = [];
  createFamilyChannel({
    family: "IPv6",
    connect: link.connect,
    minSyncPeriodMs: 0,
    restDelays: REST_DELAYS,
    mayRest: () => true,
    clock: createFakeClock(),
    logger: silentLogger,
    onHealth: (health) => seen.push(health.state),
  });
  link.health({ state: "starting" });
  link.health({ state: "restarting", reason: "it died", restarts: 1 });
  assert.deepEqual(seen, ["starting", "restarting"]);
});

/** A channel that has sent the service port `dns` as the head, and also holds `web`. */
async function setUpAhead(): Promise<Setup> {
  const setup = setUp();
  const { channel, link } = setup;
  channel.configure(fakeSettings({ serviceRanges: ["10.96.0.0/12"] }));
  channel.set(byKey([fakeServicePort("dns")]));
  channel.startAhead();
  link.reset();
  await promisesSettled();
  channel.set(byKey([fakeServicePort("web")]));
  await promisesSettled();
  return setup;
}

Deno.test("the head is sent before the state is complete, and the rest follows", async () => {
  const { channel, link } = await setUpAhead();
  assert.deepEqual(link.sent, [{
    revision: 1,
    base: undefined,
    settings: fakeSettings(),
    set: [fakeServicePort("dns")],
    deleted: [],
    part: "head",
  }]);
  channel.start();
  link.report();
  await promisesSettled();
  assert.deepEqual(link.sent[1], {
    revision: 2,
    base: 1,
    settings: fakeSettings({ serviceRanges: ["10.96.0.0/12"] }),
    set: [fakeServicePort("web")],
    deleted: [],
    part: "rest",
  });
  link.report();
  channel.set(byKey([fakeServicePort("web", { port: 81 })]));
  await promisesSettled();
  assert.equal(link.sent[2]?.part, undefined);
  assert.equal(link.sent[2]?.base, 2);
});

Deno.test("onSend and onReport are not called for a head, whatever its result", async () => {
  const { channel, link, events } = await setUpAhead();
  link.report({ ok: false });
  channel.start();
  await promisesSettled();
  assert.deepEqual(events, ["send 2"]);
  link.report();
  assert.deepEqual(events, ["send 2", "report 2"]);
});

Deno.test("the rest is sent even if it is empty: only then is the state complete", async () => {
  const { channel, link } = await setUpAhead();
  channel.delete(["web|tcp"]);
  channel.start();
  link.report();
  await promisesSettled();
  assert.deepEqual([link.sent[1]?.part, setNames(link.sent[1])], ["rest", []]);
});

Deno.test("a late or restarted worker gets both parts, and their syncs use no budget", async () => {
  const setup = await setUpAhead();
  const { channel, link } = setup;
  channel.start();
  link.reset();
  await promisesSettled();
  assert.deepEqual([link.sent[1]?.part, setNames(link.sent[1])], ["head", ["dns"]]);
  link.report({ durationMs: 60_000 });
  await promisesSettled();
  assert.deepEqual([link.sent[2]?.part, setNames(link.sent[2])], ["rest", ["web"]]);
  link.report({ durationMs: 60_000 });
  await promisesSettled();
  assert.deepEqual(await waitsOf(setup, [1000, 900]), [0, 0]);
});
