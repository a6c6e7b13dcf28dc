/** The limit of tracked connections, from the table of kube-proxy's TestSetupConntrack (sysctls_test.go, 1.37). */
import assert from "node:assert/strict";
import { writeSysctls } from "../../../backends/host/sysctl.ts";
import { conntrackSettings } from "../../../config/host_settings.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createFakeRunner } from "../../fakes/runner.ts";
import { accepted } from "./parse.ts";

const MAX = "net.netfilter.nf_conntrack_max", BUCKETS = "net.netfilter.nf_conntrack_buckets";

/** The values written on a node of eight cores, by the limit per core and the kernel's values. */
const table: readonly (readonly [
  name: string,
  perCore: number,
  kernel: readonly [max: number, buckets: number],
  written: readonly string[],
])[] = [
  ["neither is set", 12, [0, 0], [`${MAX}=96`, `${BUCKETS}=24`]],
  ["both are right", 12, [96, 24], []],
  ["both are higher", 12, [192, 48], []],
  ["both are too low", 12, [48, 12], [`${MAX}=96`, `${BUCKETS}=24`]],
  ["only the hash table is too small", 12, [96, 0], [`${BUCKETS}=24`]],
  ["only the limit is too low", 12, [48, 24], [`${MAX}=96`]],
  ["no limit is configured", 0, [48, 12], []],
];

for (const [name, perCore, [max, buckets], written] of table) {
  Deno.test(`kube-proxy's conntrack limit: ${name}`, async () => {
    const runner = createFakeRunner({ sysctls: { [MAX]: max, [BUCKETS]: buckets } });
    const args = ["--conntrack-min=0", `--conntrack-max-per-core=${perCore}`];
    const settings = conntrackSettings(accepted(args).configuration.conntrack, 8);
    await writeSysctls({ runner, logger: silentLogger }, settings.filter(({ name }) => [MAX, BUCKETS].includes(name)));
    const writes = runner.calls.map(({ args }) => args).filter(([first]) => first === "-w");
    assert.deepEqual(writes.flatMap(([, ...assignments]) => assignments), written);
  });
}
