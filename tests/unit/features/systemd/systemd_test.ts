import assert from "node:assert/strict";
import type { SyncReport } from "../../../../core/model/mod.ts";
import type { Runner, ToolCall } from "../../../../backends/tools/mod.ts";
import type { FamilyWorker, NodeFamily } from "../../../../features/contract.ts";
import { featuresOn } from "../../../../features/mod.ts";
import { notify, type ServiceNotification } from "../../../../features/systemd/calls.ts";
import { start } from "../../../../features/systemd/start.ts";
import { createFakeClock, promisesSettled } from "../../../fakes/clock.ts";
import { accepted } from "../../config/parse.ts";
import { featureNode } from "../../../fakes/feature_node.ts";
import { fakeTracking } from "../../../fakes/tracking.ts";

interface Setup {
  /** The environment besides the socket. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Whether the worker of each family answers. */
  readonly answers?: () => readonly [IPv4: boolean, IPv6: boolean];
  /** Awaited before a worker answers. */
  readonly pause?: () => Promise<void>;
}

/** A node under systemd, whose rules take effect when `t.inEffect` is set and `t.report` is called. */
async function underSystemd(
  { environment = {}, answers = () => [true, true], pause = () => Promise.resolve() }: Setup,
  test: (t: Awaited<ReturnType<typeof createHarness>>) => Promise<void>,
): Promise<void> {
  const t = await createHarness(environment, answers, pause);
  try {
    await test(t);
  } finally {
    t.end.abort();
  }
}

async function createHarness(
  environment: NonNullable<Setup["environment"]>,
  answers: NonNullable<Setup["answers"]>,
  pause: NonNullable<Setup["pause"]>,
) {
  const clock = createFakeClock(undefined, promisesSettled);
  const end = new AbortController();
  const sent: { readonly family: string; readonly notification: ServiceNotification }[] = [];
  const t = { inEffect: false, failure: undefined as string | undefined, headline: "waiting" };
  const families = (["IPv4", "IPv6"] as const).map((family, index) => ({
    family,
    async call(call: unknown, notification: ServiceNotification) {
      assert.equal(call, notify);
      assert.ok(notify.request.is(notification));
      if (!answers()[index]) return undefined;
      sent.push({ family, notification });
      await pause();
      return true;
    },
  } as unknown as NodeFamily));
  const { reported } = await start(featureNode({
    ...{ tracking: fakeTracking(), families, clock, signal: end.signal },
    environment: (name) => ({ NOTIFY_SOCKET: "/run/systemd/notify", ...environment })[name],
    health: { setPackets() {}, status: () => ({ healthy: true, inEffect: t.inEffect, failure: t.failure }) },
    headline: () => Promise.resolve(t.headline),
  }));
  await promisesSettled();
  return Object.assign(t, {
    ...{ clock, end },
    taken: () => sent.splice(0).map(({ notification: { ready, status } }) => ready ? `READY ${status}` : status),
    senders: () => sent.splice(0).map(({ family }) => family),
    async report() {
      reported!({} as SyncReport, []);
      await promisesSettled();
    },
  });
}

Deno.test("a worker notifies systemd with a tool that it may run, and passes it nothing else of the environment", async () => {
  const calls: ToolCall[] = [];
  const runner: Runner = {
    run(call) {
      calls.push(call);
      return Promise.resolve({ exitCode: 0, stdout: "", stderr: "" });
    },
    converse: () => assert.fail("no conversation"),
  };
  const worker = { options: { runner }, path: "/usr/bin" } as unknown as FamilyWorker;
  const request = { socket: "/run/systemd/notify", status: "all in sync", ready: true };
  assert.equal(await notify.handle(worker, request), true);
  assert.deepEqual(calls.map(({ tool }) => tool), notify.tools);
  assert.deepEqual(calls[0]!.args, ["--ready", "--status=all in sync", "WATCHDOG=1"]);
  assert.deepEqual(calls[0]!.env, { PATH: "/usr/bin", NOTIFY_SOCKET: request.socket });
});

Deno.test("systemd is notified only where a unit asks for it", () => {
  const { configuration } = accepted([]);
  const names = (environment?: (name: string) => string | undefined) =>
    featuresOn(configuration, configuration.modeDescription, environment)
      .map(({ name }) => name).filter((name) => name === "systemd");
  assert.deepEqual(names(), []);
  const withSocket = (socket: string) => names((name) => name === "NOTIFY_SOCKET" ? socket : undefined);
  for (const socket of ["@abc", "/run/systemd/notify", "/run/a folder/n"]) {
    assert.deepEqual(withSocket(socket), ["systemd"]);
  }
  for (const other of ["", "vsock:2:1234", "/a\nb", `/${"a".repeat(108)}`]) {
    assert.deepEqual(withSocket(other), [], other);
  }
});

Deno.test("the start is complete with the first rules in effect, at once and only once", () =>
  underSystemd({}, async (t) => {
    assert.deepEqual(t.taken(), ["waiting"]);
    await t.report();
    assert.deepEqual(t.taken(), [], "a report that changes nothing");
    t.inEffect = true;
    t.headline = "all in sync";
    await t.report();
    assert.deepEqual(t.taken(), ["READY all in sync"]);
    await t.clock.advanceSettled(10_000);
    assert.deepEqual(t.taken(), ["all in sync"]);
  }));

Deno.test("the state in words follows a failure at once", () =>
  underSystemd({}, async (t) => {
    t.inEffect = true;
    await t.report();
    t.taken();
    t.failure = "nft is not installed";
    t.headline = "IPv4: syncs have been failing\nMAINPID=1";
    await t.report();
    assert.deepEqual(t.taken(), ["IPv4: syncs have been failing MAINPID=1"]);
    await t.report();
    assert.deepEqual(t.taken(), [], "the failure lasts");
    t.failure = undefined;
    await t.report();
    assert.equal(t.taken().length, 1);
  }));

Deno.test("a state that changes while a notification is on its way is sent right after it", () => {
  const first = Promise.withResolvers<void>();
  return underSystemd({ pause: () => first.promise }, async (t) => {
    assert.deepEqual(t.taken(), ["waiting"]);
    t.inEffect = true;
    t.headline = "all in sync";
    await t.report();
    assert.deepEqual(t.taken(), []);
    first.resolve();
    await t.clock.advanceSettled(0);
    assert.deepEqual(t.taken(), ["READY all in sync"]);
  });
});

Deno.test("the watchdog hears three notifications in its time", () =>
  underSystemd({ environment: { WATCHDOG_USEC: "6000000" } }, async (t) => {
    t.taken();
    for (let second = 0; second < 6; second++) await t.clock.advanceSettled(1_000);
    assert.equal(t.taken().length, 3);
  }));

Deno.test("any worker sends the notification; without one it is tried again after a second", () => {
  let running = [true, true] as readonly [boolean, boolean];
  return underSystemd({ answers: () => running }, async (t) => {
    assert.deepEqual(t.senders(), ["IPv4"]);
    running = [false, true];
    await t.clock.advanceSettled(10_000);
    assert.deepEqual(t.senders(), ["IPv6"]);
    running = [false, false];
    await t.clock.advanceSettled(10_000);
    assert.deepEqual(t.senders(), []);
    running = [true, false];
    await t.clock.advanceSettled(1_000);
    assert.deepEqual(t.senders(), ["IPv4"]);
  });
});

Deno.test("nothing is sent after the end", () =>
  underSystemd({}, async (t) => {
    t.taken();
    t.end.abort();
    await t.clock.advanceSettled(60_000);
    assert.deepEqual(t.taken(), []);
  }));
