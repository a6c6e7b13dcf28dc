/**
 * Sluice and KPNG's own binary in one chain. KPNG names the binary; without it these chains are skipped, and a stand-in made of
 * Sluice shows that the tests themselves work.
 */
import assert from "node:assert/strict";
import { onBench } from "./processes.ts";
import { type Chain, CHAINS, passStates } from "./rounds.ts";

const FIXTURES = new URL("../fixtures/kpng/", import.meta.url);
const FAKE = new URL("fake_kpng", import.meta.url).pathname;
const kpng = Deno.env.get("KPNG");

/** Files that KPNG accepts, and one that it wrote, with named ports, filters without targets and session affinity. */
const state = Deno.readTextFileSync(new URL("state.yaml", FIXTURES));
const dump = Deno.readTextFileSync(new URL("dump.yaml", FIXTURES));
const STATES = [state, state.replaceAll("10.180.1.21", "10.180.1.23"), dump];

for (const chain of Object.keys(CHAINS) as Chain[]) {
  Deno.test({
    name: `${chain}: every state arrives${kpng ? "" : " (skipped: set KPNG to the path of KPNG's binary)"}`,
    ignore: !kpng,
    fn: () => onBench((bench) => passStates(bench, kpng!, chain, STATES)),
  });

  Deno.test(`${chain}, with a stand-in for KPNG: every state arrives`, () =>
    onBench((bench) => passStates(bench, FAKE, chain, STATES)));
}

Deno.test("a stand-in that changes a port on the way is found out", async () => {
  const changed = onBench(
    (bench) => passStates(bench, FAKE, "KPNG's server to Sluice", [state]),
    { env: { FAKE_KPNG_CHANGES: "yes" }, deadlineMs: 5_000 },
  );
  await assert.rejects(changed, /expected:[^]*8080[^]*found:[^]*8081/);
});
