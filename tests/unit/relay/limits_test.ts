import assert from "node:assert/strict";
import { defaultRelayLimits } from "../../../relay/contract.ts";

Deno.test("the relays of both families open at most the files of the process, with half of each for connections", () => {
  for (const files of [1_024, 4_096, 65_536, 1_048_576]) {
    const { connections, udpFlows } = defaultRelayLimits(files), own = (files - 512) / 2;
    // A connection has two files.
    assert.deepEqual([2 * connections, udpFlows], [own / 2, own / 8], `${files} files`);
  }
});

Deno.test("a process that may open few files still relays some connections and flows", () => {
  for (const files of [0, 256, 512, 600]) {
    const { connections, udpFlows } = defaultRelayLimits(files);
    assert.deepEqual([connections, udpFlows], [16, 8], `${files} files`);
  }
});
