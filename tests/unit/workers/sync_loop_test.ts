import assert from "node:assert/strict";
import { type SyncResult, UnsupportedHostError } from "../../../backends/contract/backend.ts";
import type { FamilyDelta, SyncReport } from "../../../core/model/mod.ts";
import { sleep } from "../../../platform/clock.ts";
import { createLogger, type Logger, silentLogger } from "../../../platform/log.ts";
import { createBackoff } from "../../../platform/retry.ts";
import type { FromWorker } from "../../../workers/protocol.ts";
import { startSyncLoop, type SyncLoop } from "../../../workers/sync_loop.ts";
import { createFakeBackend, type FakeBackend } from "../../fakes/backend.ts";
import { createFakeClock, type FakeClock, settled } from "../../fakes/clock.ts";
import { fakeServicePort, fakeSettings } from "../../fakes/service_port.ts";

const SYNC_PERIOD_MS = 30_000;

interface Setup {
  readonly loop: SyncLoop;
  readonly backend: FakeBackend;
  readonly clock: FakeClock;
  readonly emitted: FromWorker[];
  reports(): SyncReport[];
}

/** A loop with retry delays of 100, 200, 400, 800, 1000, 1000 … ms, or up to another longest one. */
function start(
  prepare: (backend: FakeBackend) => void = () => {},
  logger: Logger = silentLogger,
  longestMs = 1000,
  host: Pick<Parameters<typeof startSyncLoop>[0], "writeHostSettings" | "kernelFirst"> = {},
): Setup {
  const backend = createFakeBackend();
  prepare(backend);
  const clock = createFakeClock();
  const emitted: FromWorker[] = [];
  const loop = startSyncLoop({
    ...{ family: "IPv4", backend, ...host },
    backoff: createBackoff({ firstMs: 100, longestMs, jitter: 0 }),
    clock,
    logger,
    emit: (message) => emitted.push(message),
  });
  const reports = () => emitted.flatMap((message) => message.type === "report" ? [message.report] : []);
  return { loop, backend, clock, emitted, reports };
}

/** A loop that has applied revision 1, a full snapshot. */
async function startSynced(longestMs?: number): Promise<Setup> {
  const setup = start(undefined, undefined, longestMs);
  setup.loop.sync(snapshot(1));
  await settled();
  assert.equal(setup.reports().length, 1);
  return setup;
}

function snapshot(revision: number, ...names: string[]): FamilyDelta {
  const set = names.map((name) => fakeServicePort(name));
  return { revision, base: undefined, settings: fakeSettings({ syncPeriodMs: SYNC_PERIOD_MS }), set, deleted: [] };
}

function delta(base: number, ...names: string[]): FamilyDelta {
  const set = names.map((name) => fakeServicePort(name));
  return { revision: base + 1, base, settings: undefined, set, deleted: [] };
}

const types = (messages: readonly FromWorker[]) => messages.map((message) => message.type);

Deno.test("setup is retried with backoff until it succeeds, and only then is a snapshot requested", async () => {
  const { backend, clock, emitted } = start((backend) => backend.failNext(new Error("locked"), new Error("busy")));
  await settled();
  assert.deepEqual(emitted, [{ type: "setup-failed", reason: "locked", unsupported: false }]);
  await clock.advanceSettled(99);
  assert.equal(backend.calls.length, 1);
  await clock.advanceSettled(1);
  assert.deepEqual(emitted[1], { type: "setup-failed", reason: "busy", unsupported: false });
  await clock.advanceSettled(200);
  assert.deepEqual(types(emitted), ["setup-failed", "setup-failed", "ready"]);
  assert.deepEqual(backend.calls, ["setup", "setup", "setup"]);
  assert.deepEqual(clock.pending(), []);
});

Deno.test("kernel settings are written after the setup, which waits for them only where that is asked for", async () => {
  for (const kernelFirst of [false, true]) {
    const settings = Promise.withResolvers<void>(), mode = Promise.withResolvers<void>();
    const written: string[] = [];
    const note = (what: string, promise: Promise<void>) => () => (written.push(what), promise);
    const writeHostSettings = note("settings", settings.promise), configure = note("mode", mode.promise);
    const prepare = (backend: FakeBackend) => {
      backend.failNext(new Error("locked"));
      Object.assign(backend, { configure });
    };
    const { clock, emitted } = start(prepare, silentLogger, 1000, { writeHostSettings, kernelFirst });
    await settled();
    assert.deepEqual(written, []);
    await clock.advanceSettled(100);
    assert.deepEqual(written, ["settings", "mode"]);
    for (const one of [settings, mode]) {
      assert.deepEqual(types(emitted), ["setup-failed", ...kernelFirst ? [] : ["ready"]]);
      one.resolve();
      await settled();
    }
    assert.deepEqual(types(emitted), ["setup-failed", "ready"]);
  }
});

Deno.test("a host is reported as unsupported only after three unsupported results in a row", async () => {
  const missing = () => new UnsupportedHostError("no ip6tables");
  const { clock, emitted } = start((backend) =>
    backend.failNext(missing(), missing(), new Error("locked"), missing(), missing(), missing())
  );
  await clock.advanceSettled(100);
  assert.deepEqual(emitted, []);
  await clock.advanceSettled(200 + 400 + 800);
  assert.deepEqual(emitted, [{ type: "setup-failed", reason: "locked", unsupported: false }]);
  await clock.advanceSettled(1000);
  assert.deepEqual(emitted[1], { type: "setup-failed", reason: "no ip6tables", unsupported: true });
  await clock.advanceSettled(1000);
  assert.deepEqual(types(emitted), ["setup-failed", "setup-failed", "ready"]);
});

Deno.test("changes by other programs are logged once, when they are repaired", async () => {
  const lines: string[] = [];
  const log = createLogger({
    level: "warn",
    format: "text",
    clock: createFakeClock(),
    write: (line) => lines.push(line),
  });
  const { loop, backend, clock } = start(() => {}, log);
  loop.sync(snapshot(1));
  await settled();
  assert.deepEqual(lines, []);
  backend.returnNext({ problems: [], counts: { drift_repaired: 3 } });
  await clock.advanceSettled(2 * SYNC_PERIOD_MS);
  assert.equal(backend.calls.filter((call) => call === "resync").length, 2);
  assert.equal(lines.length, 1);
  assert.match(lines[0]!, /repaired rules that another program changed.*changes=3/);
});

Deno.test("a snapshot is reported as a full sync, a delta as a partial one", async () => {
  const { loop, backend, clock, reports } = start();
  loop.sync(snapshot(7, "web"));
  await settled();
  loop.sync(delta(7, "dns"));
  await settled();
  assert.deepEqual(backend.calls, ["setup", "sync 7 snapshot", "sync 8"]);
  assert.deepEqual([...backend.kernel.keys()], ["web|tcp", "dns|tcp"]);
  const common = { family: "IPv4", ok: true, endedAtMs: clock.now(), durationMs: 0, problems: [], counts: {} };
  assert.deepEqual(reports(), [{ ...common, revision: 7, full: true }, { ...common, revision: 8, full: false }]);
});

Deno.test("a report has the sync's duration, its end time and the backend's counts", async () => {
  const { loop, backend, clock, reports } = await startSynced();
  backend.returnNext({ problems: [], counts: { restores: 3 } });
  const release = backend.hold();
  loop.sync(delta(1));
  clock.advance(250);
  const endedAtMs = clock.now();
  release();
  await settled();
  const { durationMs, counts, endedAtMs: reported } = reports()[1]!;
  assert.deepEqual({ durationMs, counts, reported }, {
    durationMs: 250,
    counts: { restores: 3 },
    reported: endedAtMs,
  });
});

Deno.test("a delta received during a sync is applied after it", async () => {
  const { loop, backend } = start();
  await settled();
  const release = backend.hold();
  loop.sync(snapshot(1));
  loop.sync(delta(1, "web"));
  await settled();
  assert.deepEqual(backend.calls, ["setup", "sync 1 snapshot"]);
  release();
  await settled();
  assert.deepEqual(backend.calls, ["setup", "sync 1 snapshot", "sync 2"]);
});

for (const [what, wrong] of [["revision", delta(5)], ["state, when there is none", delta(0)]] as const) {
  Deno.test(`a delta against another ${what} is not applied, and a reset is requested`, async () => {
    const { loop, backend, emitted, reports } = what === "revision" ? await startSynced() : start();
    await settled();
    const calls = backend.calls.length;
    loop.sync(wrong);
    await settled();
    assert.equal(backend.calls.length, calls);
    assert.equal(emitted.at(-1)?.type, "reset");
    loop.sync(snapshot(9, "web"));
    await settled();
    assert.equal(reports().at(-1)?.revision, 9);
    assert.deepEqual([...backend.kernel.keys()], ["web|tcp"]);
  });
}

Deno.test("a failed sync is reported and retried with backoff until it succeeds", async () => {
  const { loop, backend, clock, reports } = await startSynced();
  backend.failNext(new Error("a", { cause: new Error("b") }), new Error("c"), new Error("d"));
  loop.sync(delta(1, "web"));
  await settled();
  assert.deepEqual(reports()[1]?.problems, [{ code: "sync-failed", servicePort: undefined, message: "a: b" }]);
  for (const waitMs of [100, 200, 400]) {
    const calls = backend.calls.length;
    await clock.advanceSettled(waitMs - 1);
    assert.equal(backend.calls.length, calls);
    await clock.advanceSettled(1);
    assert.equal(backend.calls.length, calls + 1);
  }
  assert.deepEqual(reports().slice(1).map(({ revision, ok }) => [revision, ok]), [
    [2, false],
    [2, false],
    [2, false],
    [2, true],
  ]);
  assert.ok(backend.kernel.has("web|tcp"));
  await clock.advanceSettled(SYNC_PERIOD_MS / 2);
  assert.equal(reports().length, 5);
  // The backoff starts over after a success.
  backend.failNext(new Error("e"));
  loop.sync(delta(2));
  await clock.advanceSettled(100);
  assert.equal(reports().at(-1)?.ok, true);
});

Deno.test("retries of a failure compare with the kernel; of a service port's problem, every second one", async () => {
  const { loop, backend, clock } = await startSynced();
  backend.failNext(new Error("refused"), new Error("refused"));
  const problems = [{ code: "rules-refused", servicePort: "default/web", message: "line 7: bad port" }] as const;
  backend.returnNext(...Array.from({ length: 3 }, () => ({ problems, counts: {} })));
  loop.sync(delta(1));
  await clock.advanceSettled(100 + 200 + 400 + 800 + 1000);
  assert.deepEqual(backend.calls.slice(2), [
    "sync 2",
    "resync after a fault",
    "resync after a fault",
    "sync 2",
    "resync",
    "sync 2",
  ]);
});

Deno.test("after a failure changes are applied at once, and only the comparison, which they do not delay, ends it", async () => {
  const { loop, backend, clock, reports } = await startSynced();
  backend.failNext(new Error("refused"));
  loop.sync(delta(1, "web"));
  await clock.advanceSettled(60);
  loop.sync(delta(2, "dns"));
  await settled();
  assert.deepEqual([...backend.kernel.keys()], ["web|tcp", "dns|tcp"]);
  loop.sync(snapshot(4, "dns"));
  await clock.advanceSettled(39);
  const failed = [{ code: "sync-failed", servicePort: undefined, message: "refused" }];
  assert.deepEqual(reports().slice(1).map(({ revision, ok, problems }) => ({ revision, ok, problems })), [
    { revision: 2, ok: false, problems: failed },
    { revision: 3, ok: false, problems: failed },
    { revision: 4, ok: false, problems: failed },
  ]);
  await clock.advanceSettled(1);
  assert.equal(backend.calls.at(-1), "resync after a fault");
  assert.deepEqual([reports().at(-1)?.revision, reports().at(-1)?.ok, reports().at(-1)?.problems], [4, true, []]);
});

Deno.test("while changes are not in effect, retries are at most 5 s apart, however long comparisons have failed", async () => {
  const { loop, backend, clock, reports } = await startSynced(100_000);
  backend.failNext(...Array.from({ length: 12 }, () => new Error("no lock")));
  loop.compare();
  // The waits of 100 to 51,200 ms.
  await clock.advanceSettled(102_300);
  assert.deepEqual(clock.pending().at(-1), 100_000);
  const calls = () => backend.calls.splice(0);
  calls();
  loop.sync(delta(1, "web"));
  await clock.advanceSettled(4_000);
  assert.deepEqual(calls(), ["sync 2"]);
  // Further changes do not delay the retry.
  backend.failNext(new Error("no lock"), new Error("no lock"));
  loop.sync(delta(2, "dns"));
  await clock.advanceSettled(1_000);
  assert.deepEqual(calls(), ["sync 3", "resync after a fault"]);
  await clock.advanceSettled(4_999);
  loop.sync(delta(3, "api"));
  await settled();
  assert.deepEqual([calls(), reports().at(-1)?.ok], [["sync 4"], false]);
  backend.failNext(new Error("no lock"));
  await clock.advanceSettled(1);
  assert.deepEqual([calls(), clock.pending().at(-1)], [["resync after a fault"], 100_000]);
});

Deno.test("a snapshot that fails is made up for by a comparison, a full sync", async () => {
  const { loop, backend, clock, reports } = start();
  await settled();
  backend.failNext(new Error("refused"));
  loop.sync(snapshot(1));
  await settled();
  await clock.advanceSettled(100);
  loop.sync(delta(1));
  await settled();
  assert.deepEqual(reports().map(({ ok, full }) => [ok, full]), [[false, true], [true, true], [true, false]]);
});

Deno.test("a service port that cannot be programmed does not fail the sync, and is retried", async () => {
  const { loop, backend, clock, reports } = await startSynced();
  const problems = [{ code: "rules-refused", servicePort: "default/web", message: "line 7: bad port" }] as const;
  backend.returnNext({ problems, counts: {} });
  loop.sync(delta(1, "web"));
  await settled();
  assert.deepEqual([reports()[1]?.ok, reports()[1]?.problems], [true, problems]);
  await clock.advanceSettled(100);
  assert.deepEqual([reports()[2]?.ok, reports()[2]?.problems], [true, []]);
  await clock.advanceSettled(5000);
  assert.equal(reports().length, 3);
});

Deno.test("a report says whether work remains", async () => {
  const { loop, backend, reports } = await startSynced();
  const problems = [{ code: "rules-refused", servicePort: "default/web", message: "line 7: bad port" }] as const;
  const results: SyncResult[] = [
    { problems, counts: {} },
    { problems: [], counts: {}, againAfterMs: 9_000 },
    { problems: [], counts: { cleanup_failures: 1 } },
    { problems: [], counts: { cleanup_failures: 0 } },
  ];
  for (const [i, result] of results.entries()) {
    backend.returnNext(result);
    loop.sync(delta(1 + i));
    await settled();
  }
  backend.failNext(new Error("refused"));
  loop.sync(delta(5));
  await settled();
  assert.deepEqual(reports().slice(1).map(({ unfinished }) => unfinished), [true, true, true, undefined, true]);
});

Deno.test("the kernel is compared every sync period since the last full comparison", async () => {
  const { loop, backend, clock, reports } = await startSynced();
  await clock.advanceSettled(SYNC_PERIOD_MS - 1);
  loop.sync(delta(1));
  await settled();
  assert.equal(backend.calls.at(-1), "sync 2");
  await clock.advanceSettled(1);
  assert.equal(backend.calls.at(-1), "resync");
  assert.deepEqual([reports().at(-1)?.revision, reports().at(-1)?.full], [2, true]);
  await clock.advanceSettled(SYNC_PERIOD_MS - 1);
  assert.equal(backend.calls.length, 4);
  await clock.advanceSettled(1);
  assert.equal(backend.calls.length, 5);
});

Deno.test("a requested comparison runs at once, and the backend learns that there is a fault", async () => {
  const { loop, backend, clock } = await startSynced();
  loop.compare();
  await clock.advanceSettled(0);
  assert.equal(backend.calls.at(-1), "resync after a fault");
  await clock.advanceSettled(SYNC_PERIOD_MS);
  assert.equal(backend.calls.at(-1), "resync");
});

Deno.test("a comparison that falls due during a sync waits for its end and for pending deltas", async () => {
  const { loop, backend, clock } = await startSynced();
  const release = backend.hold();
  loop.sync(delta(1));
  await clock.advanceSettled(SYNC_PERIOD_MS);
  loop.sync(delta(2));
  assert.deepEqual(backend.calls.slice(2), ["sync 2"]);
  release();
  await settled();
  assert.deepEqual(backend.calls.slice(2), ["sync 2", "sync 3", "resync"]);
});

Deno.test("periodic comparisons are skipped while syncs fail, and replaced by the one that ends the failure", async () => {
  const { loop, backend, clock } = await startSynced();
  await clock.advanceSettled(SYNC_PERIOD_MS - 50);
  backend.failNext(new Error("refused"));
  loop.sync(delta(1));
  await clock.advanceSettled(99);
  assert.deepEqual(backend.calls.slice(2), ["sync 2"]);
  await clock.advanceSettled(1);
  assert.deepEqual(backend.calls.slice(2), ["sync 2", "resync after a fault"]);
  await clock.advanceSettled(SYNC_PERIOD_MS - 1);
  assert.equal(backend.calls.length, 4);
});

Deno.test("a failed comparison is retried like any sync", async () => {
  const { backend, clock, reports } = await startSynced();
  backend.failNext(new Error("no lock"));
  await clock.advanceSettled(SYNC_PERIOD_MS);
  assert.deepEqual([reports()[1]?.ok, reports()[1]?.full], [false, true]);
  await clock.advanceSettled(100);
  assert.deepEqual([reports()[2]?.ok, reports()[2]?.full], [true, true]);
  assert.deepEqual(backend.calls.slice(2), ["resync", "resync after a fault"]);
});

Deno.test("a new sync period takes effect at once", async () => {
  const { loop, backend, clock } = await startSynced();
  loop.sync({ ...delta(1), settings: fakeSettings({ syncPeriodMs: 5000 }) });
  await clock.advanceSettled(4999);
  assert.equal(backend.calls.at(-1), "sync 2");
  await clock.advanceSettled(1);
  assert.equal(backend.calls.at(-1), "resync");
});

Deno.test("cleanup runs whether or not setup succeeds, and its failures are reported", async () => {
  const { loop, backend, emitted } = start((backend) => backend.failNext(new Error("a"), new Error("b")));
  await settled();
  loop.cleanup();
  await settled();
  loop.cleanup();
  await settled();
  assert.deepEqual(backend.calls, ["setup", "cleanup", "cleanup"]);
  assert.deepEqual(emitted.slice(1), [{ type: "cleaned", problem: "b" }, { type: "cleaned", problem: undefined }]);
});

Deno.test("a cleanup does not end the retries of a setup", async () => {
  const { loop, backend, clock } = start((backend) => backend.failNext(new Error("locked")));
  await settled();
  loop.cleanup();
  await clock.advanceSettled(100);
  assert.deepEqual(backend.calls, ["setup", "cleanup", "setup"]);
});

Deno.test("a setup interrupted by a stop is not reported", async () => {
  let release = () => {};
  const { loop, clock, emitted } = start((backend) => {
    release = backend.hold();
    backend.failNext(new Error("killed"));
  });
  const stopped = loop.stop();
  release();
  await stopped;
  assert.deepEqual([emitted, clock.pending()], [[], []]);
});

Deno.test("after cleanup nothing is restored automatically", async () => {
  const { loop, backend, clock, emitted } = await startSynced();
  loop.cleanup();
  await clock.advanceSettled(2 * SYNC_PERIOD_MS);
  assert.equal(backend.calls.at(-1), "cleanup");
  assert.deepEqual(clock.pending(), []);
  loop.sync(delta(1));
  await settled();
  assert.equal(emitted.at(-1)?.type, "reset");
});

Deno.test("after a cleanup or a stop, no timer is left, whatever was scheduled", async () => {
  for (const end of ["cleanup", "stop"] as const) {
    const { loop, backend, clock } = start((backend) => {
      backend.hasEntryRules = () => Promise.resolve(true);
    });
    loop.sync(snapshot(1));
    await settled();
    backend.returnNext({
      problems: [{ code: "rules-refused", servicePort: "a", message: "b" }],
      counts: {},
      againAfterMs: 1,
    });
    loop.sync(delta(1));
    await settled();
    assert.equal(clock.pending().length, 4);
    await loop[end]();
    await settled();
    assert.deepEqual(clock.pending(), [], end);
  }
});

Deno.test("the retries of a later problem begin again without a comparison", async () => {
  const { loop, backend, clock } = await startSynced();
  const problems = [{ code: "rules-refused", servicePort: "default/web", message: "line 7: bad port" }] as const;
  for (const revision of [1, 2]) {
    backend.returnNext({ problems, counts: {} });
    loop.sync(delta(revision));
    await clock.advanceSettled(100);
  }
  assert.deepEqual(backend.calls.slice(2), ["sync 2", "sync 2", "sync 3", "sync 3"]);
});

Deno.test("stop waits for running work and starts nothing more", async () => {
  const { loop, backend, clock } = await startSynced();
  const release = backend.hold();
  loop.sync(delta(1));
  loop.sync(delta(2));
  let hasStopped = false;
  const stopped = loop.stop().then(() => hasStopped = true);
  await settled();
  assert.equal(hasStopped, false);
  release();
  await stopped;
  await clock.advanceSettled(2 * SYNC_PERIOD_MS);
  assert.deepEqual(backend.calls.slice(2), ["sync 2"]);
  assert.deepEqual(clock.pending(), []);
});

Deno.test("a sync interrupted by a stop is not reported", async () => {
  const { loop, backend, clock, reports } = await startSynced();
  const release = backend.hold();
  loop.sync(delta(1));
  await settled();
  const stopped = loop.stop();
  backend.failNext(new Error("the worker is stopping"));
  release();
  await stopped;
  assert.equal(reports().length, 1);
  assert.deepEqual(clock.pending(), []);
});

Deno.test("a persistent problem is logged once, and its end is logged", async () => {
  const lines: string[] = [];
  const logger = createLogger({
    level: "info",
    format: "text",
    clock: createFakeClock(),
    write: (line) => lines.push(line.replace(/^\S+ /, "").trimEnd()),
  });
  const { clock, backend } = start(
    (backend) => backend.failNext(new Error("locked"), new Error("locked"), new Error("broken")),
    logger,
  );
  await clock.advanceSettled(1000);
  assert.equal(backend.calls.length, 4);
  assert.deepEqual(lines, [
    "ERROR setup failed, retrying code=setup-failed error=locked inSeconds=0.1",
    "ERROR setup failed, retrying code=setup-failed error=broken inSeconds=0.4",
    "INFO  earlier problems are resolved",
  ]);
});

Deno.test("a requested sync runs after its delay without changes; a sync in between replaces the request", async () => {
  const { loop, backend, clock, reports } = await startSynced();
  backend.returnNext({ problems: [], counts: {}, againAfterMs: 5_000 });
  loop.sync(delta(1));
  await settled();
  await clock.advanceSettled(4_999);
  assert.deepEqual(backend.calls.slice(2), ["sync 2"]);
  backend.returnNext({ problems: [], counts: {}, againAfterMs: 7_000 });
  await clock.advanceSettled(1);
  assert.deepEqual(backend.calls.slice(2), ["sync 2", "sync 2"]);
  assert.equal(reports().at(-1)!.full, false);
  // This sync requests no other.
  loop.sync(delta(2));
  await clock.advanceSettled(20_000);
  assert.deepEqual(backend.calls.slice(2), ["sync 2", "sync 2", "sync 3"]);
});

Deno.test("a head is synced once; until the rest arrives, nothing is retried or compared", async () => {
  const { loop, backend, clock, reports } = start();
  await settled();
  backend.failNext(new Error("busy"));
  loop.sync({ ...snapshot(1, "dns"), part: "head" });
  await clock.advanceSettled(3 * SYNC_PERIOD_MS);
  assert.deepEqual(backend.calls, ["setup", "sync 1 snapshot"]);
  loop.sync({ ...delta(1, "web"), part: "rest" });
  await settled();
  assert.deepEqual(reports().map(({ revision, ok, full }) => ({ revision, ok, full })), [
    { revision: 1, ok: false, full: false },
    { revision: 2, ok: false, full: true },
    { revision: 2, ok: true, full: true },
  ]);
  await clock.advanceSettled(SYNC_PERIOD_MS);
  assert.deepEqual(backend.calls, ["setup", "sync 1 snapshot", "sync 2", "resync after a fault", "resync"]);
});

/** The problems of the messages since the last call, by code. */
function takeOverdue({ emitted }: Setup): string[][] {
  const found = emitted.splice(0).flatMap((message) =>
    message.type === "problems" ? [message.problems.map(({ code, detail }) => `${code}: ${detail}`)] : []
  );
  return found;
}

Deno.test("a change and a comparison that take longer than 5 s are a problem until they end", async () => {
  const setup = await startSynced();
  const { loop, backend, clock } = setup;
  const during = async (begin: () => void): Promise<string[][]> => {
    const release = backend.hold();
    begin();
    await clock.advanceSettled(4_999);
    assert.deepEqual(takeOverdue(setup), []);
    await clock.advanceSettled(1);
    release();
    await settled();
    return takeOverdue(setup);
  };
  assert.deepEqual(await during(() => loop.sync(delta(1, "web"))), [
    ["changes-overdue: changes have been waiting for more than 5 s"],
    [],
  ]);
  assert.deepEqual(await during(() => loop.compare()), [
    ["changes-overdue: a comparison with the kernel has been running for more than 5 s"],
    [],
  ]);
});

Deno.test("a whole state may take 30 s before it is a problem", async () => {
  const setup = start();
  const release = setup.backend.hold();
  setup.loop.sync(snapshot(1));
  await settled();
  await setup.clock.advanceSettled(29_999);
  assert.deepEqual(takeOverdue(setup), []);
  await setup.clock.advanceSettled(1);
  assert.deepEqual(takeOverdue(setup), [["changes-overdue: changes have been waiting for more than 30 s"]]);
  release();
  await settled();
});

Deno.test("a retry that takes longer than 5 s is no problem beside the failure", async () => {
  const setup = await startSynced();
  const { loop, backend, clock } = setup;
  backend.failNext(new Error("nft did not end within 60 s and was killed"));
  loop.sync(delta(1, "web"));
  await settled();
  const release = backend.hold();
  await clock.advanceSettled(60_000);
  release();
  await settled();
  assert.deepEqual(takeOverdue(setup), []);
});

Deno.test("entry rules that another program has removed make a comparison due within 4 s, once", async () => {
  let isThere = true, looks = 0;
  const { loop, backend, clock } = start((backend) => {
    backend.hasEntryRules = () => {
      looks++;
      return Promise.resolve(isThere);
    };
  });
  loop.sync(snapshot(1));
  await settled();
  backend.calls.length = 0;
  await clock.advanceSettled(4_000);
  assert.deepEqual([looks, backend.calls], [1, []]);
  isThere = false;
  await clock.advanceSettled(4_000);
  assert.deepEqual([looks, backend.calls], [2, ["resync after a fault"]]);
  // Rules that this host prints in another way are never found; the comparison has repaired nothing.
  await clock.advanceSettled(12_000);
  assert.deepEqual([looks, backend.calls.length], [5, 1]);
  isThere = true;
  await clock.advanceSettled(4_000);
  isThere = false;
  backend.returnNext({ problems: [], counts: { drift_repaired: 1 } });
  await clock.advanceSettled(4_000);
  assert.equal(backend.calls.length, 2);
  await clock.advanceSettled(4_000);
  assert.equal(backend.calls.length, 3, "removed again right after the repair");
  backend.hasEntryRules = () => Promise.reject(new Error("locked"));
  await clock.advanceSettled(4_000);
  assert.equal(backend.calls.length, 4, "a check that fails knows nothing of the rules that were not found before");
});

Deno.test("a check of the entry rules that fails makes a comparison due; one that takes long is not repeated soon", async () => {
  let looks = 0;
  const { loop, backend, clock } = start((backend) => {
    backend.hasEntryRules = async () => {
      looks++;
      clock.advance(400);
      await Promise.resolve();
      throw new Error("locked");
    };
  });
  loop.sync(snapshot(1));
  await settled();
  backend.calls.length = 0;
  await clock.advanceSettled(4_000);
  await clock.advanceSettled(19_000);
  assert.deepEqual([looks, backend.calls], [1, ["resync after a fault"]]);
  await clock.advanceSettled(1_500);
  assert.equal(looks, 2);
  loop.cleanup();
  await settled();
  assert.deepEqual(clock.pending(), []);
});

Deno.test("checks of the entry rules take a 500th of the time, but are at most 8 s apart unless they take very long", async () => {
  for (const [tookMs, nextMs] of [[4, 4_000], [12, 6_000], [50, 8_000], [400, 20_000]] as const) {
    let looks = 0;
    const { loop, clock } = start((backend) => {
      backend.hasEntryRules = async () => {
        looks++;
        await sleep(clock, tookMs);
        return true;
      };
    });
    loop.sync(snapshot(1));
    await settled();
    await clock.advanceSettled(4_000);
    await clock.advanceSettled(tookMs);
    assert.equal(looks, 1);
    assert.ok(clock.pending().includes(nextMs), `${tookMs}: ${clock.pending()}`);
  }
});

Deno.test("changes that succeed after a failure are reported with it, and not logged as synced", async () => {
  const lines: string[] = [], clock = createFakeClock();
  const log = createLogger({ level: "debug", format: "text", clock, write: (line) => lines.push(line) });
  const { loop, backend, reports } = start(() => {}, log);
  loop.sync(snapshot(1));
  await settled();
  backend.failNext(new Error("locked"));
  loop.sync(delta(1));
  await settled();
  const refused = { code: "rules-refused", servicePort: "default/a:http", message: "no" } as const;
  backend.returnNext({ problems: [refused], counts: {} });
  loop.sync(delta(2));
  await settled();
  assert.deepEqual(reports().at(-1)!.problems.map(({ message }) => message), ["locked", "no"]);
  assert.equal(lines.filter((line) => /DEBUG synced/.test(line)).length, 1);
});

Deno.test("a check of the entry rules that hangs is a problem after 5 s", async () => {
  const check = Promise.withResolvers<boolean>();
  const setup = start((backend) => {
    backend.hasEntryRules = () => check.promise;
  });
  setup.loop.sync(snapshot(1));
  await settled();
  await setup.clock.advanceSettled(9_000);
  assert.deepEqual(takeOverdue(setup), [[
    "changes-overdue: a check of the entry rules has been running for more than 5 s",
  ]]);
  check.resolve(true);
  await settled();
  assert.deepEqual(takeOverdue(setup), [[]]);
});

Deno.test("a problem that returns after its end is logged again", async () => {
  const lines: string[] = [];
  const clock = createFakeClock();
  const write = (line: string) => void lines.push(line.replace(/^\S+ /, "").trimEnd());
  const { loop, backend, clock: running } = start(
    () => {},
    createLogger({ level: "info", format: "text", clock, write }),
  );
  loop.sync(snapshot(1));
  await settled();
  for (const base of [1, 2]) {
    backend.failNext(new Error("locked"));
    loop.sync(delta(base));
    await running.advanceSettled(1_000);
  }
  const [failure, end] = [
    "ERROR sync failed, retrying code=sync-failed error=locked inSeconds=0.1",
    "INFO  earlier problems are resolved",
  ];
  assert.deepEqual(lines, [failure, end, failure, end]);
});

Deno.test("stop also ends what the backend keeps running, and waits for it", async () => {
  const ended = Promise.withResolvers<void>();
  const { loop } = start((backend) => {
    backend.stop = () => ended.promise;
  });
  let hasStopped = false;
  const stopped = loop.stop().then(() => hasStopped = true);
  await settled();
  assert.equal(hasStopped, false);
  ended.resolve();
  await stopped;
});

Deno.test("a change that a stop waits for is not reported as late", async () => {
  const { loop, backend, clock, emitted } = await startSynced();
  const release = backend.hold();
  loop.sync(delta(1));
  await settled();
  const stopped = loop.stop();
  const before = emitted.length;
  await clock.advanceSettled(5_000);
  assert.deepEqual(types(emitted.slice(before)), []);
  release();
  await stopped;
});

Deno.test("changes that are in effect do not hasten the comparison that a failure awaits", async () => {
  const { loop, backend, clock } = await startSynced(100_000);
  backend.failNext(...Array.from({ length: 11 }, () => new Error("no lock")));
  loop.compare();
  await clock.advanceSettled(102_300);
  for (const revision of [1, 2]) {
    loop.sync(delta(revision));
    await clock.advanceSettled(6_000);
  }
  assert.deepEqual(backend.calls.slice(-2), ["sync 2", "sync 3"]);
});

Deno.test("a failure is forgotten with the state that a cleanup removes", async () => {
  const { loop, backend, reports } = await startSynced();
  backend.failNext(new Error("refused"));
  loop.sync(delta(1));
  await settled();
  loop.cleanup();
  loop.sync(snapshot(3));
  await settled();
  assert.deepEqual(reports().map(({ ok, problems }) => [ok, problems.length]), [[true, 0], [false, 1], [true, 0]]);
});

Deno.test("the logger learns that problems are solved, and can log them again at once", async () => {
  let solved = 0;
  const logger: Logger = { ...silentLogger, solved: () => void solved++ };
  const { loop, clock } = start((backend) => backend.failNext(new Error("locked")), logger);
  await clock.advanceSettled(100);
  assert.equal(solved, 1);
  loop.sync(snapshot(1));
  await settled();
  assert.equal(solved, 1);
});
