import assert from "node:assert/strict";
import type { Backend, BackendOptions } from "../../../backends/backend.ts";
import { type Mode, withTakeover } from "../../../backends/takeover.ts";
import type { FamilyDelta } from "../../../core/model.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { createFakeRunner } from "../../fakes/runner.ts";

const delta = (base: number | undefined): FamilyDelta => ({
  revision: 1,
  base,
  settings: undefined,
  set: [],
  deleted: [],
});
const RESULT = { problems: [], figures: { chains_written: 3 } };
const COUNTS = { ctStateInvalidDropped: 1, localhostNodePortsAccepted: 2 };

Deno.test("what could not be removed of other modes is counted until it is gone, and the figures stay", async () => {
  const clock = createFakeClock();
  const options: BackendOptions = { family: "IPv4", runner: createFakeRunner({ clock }), clock, logger: silentLogger };
  let failures = 2;
  const backend: Backend = {
    setup: () => Promise.resolve(),
    sync: () => Promise.resolve(RESULT),
    resync: () => Promise.resolve(RESULT),
    cleanup: () => Promise.resolve(),
    packetCounts: () => Promise.resolve(COUNTS),
  };
  const mode = (removeTraces: Mode["removeTraces"]): Mode => ({ create: () => backend, removeTraces });
  const other = mode(() => failures-- > 0 ? Promise.reject(new Error("busy")) : Promise.resolve());
  const taken = withTakeover(mode(() => Promise.resolve()), [other], options);
  assert.deepEqual((await taken.sync(delta(0))).figures, { chains_written: 3 }, "a change removes nothing");
  assert.deepEqual((await taken.sync(delta(undefined))).figures, { chains_written: 3, cleanup_failures: 1 });
  assert.deepEqual((await taken.resync()).figures, { chains_written: 3, cleanup_failures: 1 });
  assert.deepEqual((await taken.resync()).figures, { chains_written: 3, cleanup_failures: 0 });
  assert.deepEqual(await taken.packetCounts!(), COUNTS);
});
