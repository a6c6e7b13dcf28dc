import assert from "node:assert/strict";
import { pairHashes } from "../../../../backends/nftables/hashes.ts";

// The numbers under which Linux 6.18 counted these pairs.
const COUNTED = [
  { address: "10.96.0.10", protocol: "tcp", port: 80, endpoint: "10.1.0.1:8080", hash: 0x97a1bebf },
  { address: "fd00:10:96::10", protocol: "tcp", port: 80, endpoint: "[fd00:10:1::1]:8080", hash: 0x3901b394 },
] as const;

for (const { endpoint, hash, ...frontend } of COUNTED) {
  Deno.test(`the pair of ${frontend.address} and ${endpoint} has the kernel's hash`, () => {
    assert.deepEqual([...pairHashes(frontend, [endpoint])], [{ endpoint, hash: hash | 0 }]);
  });
}
