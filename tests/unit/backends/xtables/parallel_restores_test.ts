/** A state that takes several restores, of which two run at the same time, with a failure of any of them. */
import assert from "node:assert/strict";
import { removalInputs } from "../../../../backends/xtables/tools.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest, createHost } from "../iptables/host.ts";

const LOCK_HELD = "Another app is currently holding the xtables lock; still 5s 0us time ahead to have a chance";
const SERVICES = Array.from({ length: 1_550 }, (_, index) => {
  const address = `${index >> 8}.${index & 255}`;
  return fakeServicePort(`default/s${index}:p`, {
    clusterIP: `10.96.${address}`,
    clusterEndpoints: [`10.244.${address}:80`],
  });
});

/** The restores of a new kernel's whole state, of which this one fails if it is given, and the resulting rules. */
async function restored(failing?: number) {
  const host = createHost();
  const { snapshot, change } = await backendUnderTest(host);
  let restores = 0;
  const fails = ({ tool, stdin }: { readonly tool: string; readonly stdin: string }) =>
    tool === "iptables-restore" && stdin.includes("-A ") && ++restores === failing;
  host.runner.inject(fails, { how: "exits", exitCode: 4, stderr: LOCK_HELD });
  const first = snapshot(SERVICES);
  if (failing === undefined) await first;
  else await assert.rejects(first, /xtables lock/, `restore ${failing}`);
  const { problems } = await change([]);
  return { restores, problems, dump: host.runner.dump() };
}

Deno.test("whichever restore of a state fails, the sync fails, and the next one completes it", async () => {
  const { restores, dump } = await restored();
  assert.ok(restores >= 4, `${restores} restores`);
  for (let failing = 1; failing <= restores; failing++) {
    const after = await restored(failing);
    assert.deepEqual(after.problems, []);
    assert.ok(after.dump === dump, `restore ${failing} of ${restores}`);
  }
});

Deno.test("chains are removed some at once, each emptied before any is deleted, in no empty input", () => {
  for (const [chains, inputs] of [[0, 0], [1, 2], [3, 2], [4, 4], [6, 4], [7, 6]] as const) {
    const removals = Array.from({ length: chains }, (_, i) => ({ table: "nat" as const, chain: `C${i}` }));
    const updates = [...removalInputs(removals, 3)].map(({ updates }) => updates);
    assert.equal(updates.length, inputs, `${chains} chains`);
    const done = updates.flat().map(({ action, chain }) => `${action} ${chain}`);
    assert.deepEqual(done, ["empty", "delete"].flatMap((action) => removals.map(({ chain }) => `${action} ${chain}`)));
    assert.ok(updates.every(({ length }) => length >= 1 && length <= 3));
  }
});
