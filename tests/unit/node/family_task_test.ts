/** One-time tasks: --cleanup and --init-only. */
import assert from "node:assert/strict";
import type { FamilyHealth, FamilyListener, FamilyOptions } from "../../../core/channel/mod.ts";
import { runProxy } from "../../../node/run.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";
import { createFakeFamilyLink } from "../../fakes/family_link.ts";
import { accepted } from "../config/parse.ts";

/** Starts the task of a flag, whose workers a test controls. Cleanups end when the test says so. */
function setUp(flag: "--cleanup" | "--init-only") {
  const ending = new AbortController(), clock = createFakeClock();
  const families: {
    readonly options: FamilyOptions;
    readonly listener: FamilyListener;
    readonly isStopped: () => boolean;
    cleanup?: PromiseWithResolvers<void>;
  }[] = [];
  let status: number | undefined;
  void runProxy({
    configuration: accepted([flag]).configuration,
    ...{ logger: silentLogger, logging: { level: "info", format: "text" }, clock, cores: 4, signal: ending.signal },
    startFamily(options, listener) {
      const link = createFakeFamilyLink(),
        family: typeof families[number] = { options, listener, isStopped: link.isStopped };
      families.push(family);
      const cleanup = () => (family.cleanup = Promise.withResolvers<void>()).promise;
      return { ...link.connect(listener), cleanup };
    },
  }).then((ended) => status = ended);
  return {
    ending,
    families,
    /** Reports the health of each family's worker; returns the exit status, undefined while the task runs. */
    async health(...states: readonly FamilyHealth[]) {
      states.forEach((state, i) => families[i]!.listener.onHealth(state));
      await settled();
      return status;
    },
  };
}

const READY: FamilyHealth = { state: "ready" };
const UNSUPPORTED: FamilyHealth = { state: "unfit", reason: "no IPv6", unsupported: true };
const UNFIT: FamilyHealth = { state: "unfit", reason: "no nft", unsupported: false };
const RESTARTING: FamilyHealth = { state: "restarting", reason: "a bug", restarts: 1 };

Deno.test("--init-only succeeds when both families are set up, or this host cannot serve one", async () => {
  const table: readonly (readonly [readonly FamilyHealth[], number | undefined])[] = [
    [[{ state: "starting" }, READY], undefined],
    [[READY, READY], 0],
    [[READY, UNSUPPORTED], 0],
    [[READY, UNFIT], 1],
    [[UNFIT, READY], 1],
    [[READY, RESTARTING], 1],
  ];
  for (const [states, expected] of table) {
    const { health, families, ending } = setUp("--init-only");
    assert.equal(await health(...states), expected, JSON.stringify(states));
    if (expected !== undefined) assert.ok(families.every(({ isStopped }) => isStopped()));
    ending.abort(new Error("stopped"));
  }
});

Deno.test("--init-only writes the kernel's settings once, in the worker of IPv4", () => {
  const { families, ending } = setUp("--init-only");
  assert.deepEqual(families.map(({ options: { family, kernel } }) => [family, kernel.length > 0]), [
    ["IPv4", true],
    ["IPv6", false],
  ]);
  const cleanup = setUp("--cleanup");
  assert.ok(cleanup.families.every(({ options: { kernel, kernelFirst } }) => kernel.length === 0 && kernelFirst));
  for (const one of [ending, cleanup.ending]) one.abort(new Error("stopped"));
});

Deno.test("--cleanup removes the rules of both families, also where this host cannot serve one, and says if that fails", async () => {
  const { health, families } = setUp("--cleanup");
  assert.equal(await health(READY, UNSUPPORTED), undefined);
  families[0]!.cleanup!.resolve();
  assert.equal(await health(), undefined);
  families[1]!.cleanup!.resolve();
  assert.equal(await health(), 0);

  const failing = setUp("--cleanup");
  await failing.health(READY, READY);
  failing.families[0]!.cleanup!.resolve();
  failing.families[1]!.cleanup!.reject(new Error("denied"));
  assert.equal(await failing.health(), 1);
});

Deno.test("a task that is interrupted fails, and stops its workers", async () => {
  const { health, families, ending } = setUp("--cleanup");
  await health(READY, READY);
  ending.abort(new Error("interrupted"));
  assert.equal(await health(), 1);
  assert.ok(families.every(({ isStopped }) => isStopped()));
});
