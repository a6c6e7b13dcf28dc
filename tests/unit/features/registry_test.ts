/** Which features are on, and that each does something there. */
import assert from "node:assert/strict";
import { FEATURES, featuresOn } from "../../../features/mod.ts";
import { accepted } from "../config/parse.ts";

const EVERYWHERE = ["nftables", "iptables", "ipvs", "userspace"];
/** The flags with which each feature is on and off, and the modes in which it can be on. */
const SWITCHES: readonly (readonly [
  name: string,
  on: readonly string[],
  off: readonly string[] | undefined,
  modes: readonly string[],
])[] = [
  ["site", ["--site", "edge"], [], EVERYWHERE],
  ["traffic", ["--traffic-metrics"], [], EVERYWHERE],
  ["failover", [], ["--reset-gone-connections=false"], ["nftables", "iptables"]],
  ["failover", ["--endpoint-failure-detection", "--reset-gone-connections=false"], undefined, ["nftables"]],
  ["connection_weights", [], undefined, ["nftables"]],
  ["canary", ["--canary"], [], EVERYWHERE],
  ["node_condition", ["--node-condition"], [], EVERYWHERE],
  ["systemd", [], undefined, EVERYWHERE],
];
const UNDER_SYSTEMD = (name: string) => name === "NOTIFY_SOCKET" ? "/run/systemd/notify" : undefined;

/** The names of the features that are on. */
function namesOn(mode: string, flags: readonly string[], environment?: (name: string) => string | undefined) {
  const { configuration } = accepted(["--proxy-mode", mode, ...flags]);
  return featuresOn(configuration, configuration.modeDescription, environment).map(({ name }) => name);
}

Deno.test("each feature is on with its flags, in the modes that support it, and only then", () => {
  assert.deepEqual(new Set(FEATURES.map(({ name }) => name)), new Set(SWITCHES.map(([name]) => name)));
  for (const [name, on, off, modes] of SWITCHES) {
    for (const mode of modes) {
      assert.ok(namesOn(mode, on, UNDER_SYSTEMD).includes(name), `${name} in mode ${mode}`);
      if (off !== undefined) assert.ok(!namesOn(mode, off, UNDER_SYSTEMD).includes(name), `no ${name} in mode ${mode}`);
    }
  }
  for (const mode of EVERYWHERE.slice(1)) assert.ok(!namesOn(mode, []).includes("connection_weights"), mode);
  for (const mode of ["ipvs", "userspace"]) assert.ok(!namesOn(mode, []).includes("failover"), mode);
});

Deno.test("each feature has code to start, or takes the place of the source", async () => {
  for (const { name, load, source } of FEATURES) {
    const { start } = await load?.() ?? {};
    const { openSource } = await source?.load() ?? {};
    assert.ok(start !== undefined || openSource !== undefined, name);
  }
});
