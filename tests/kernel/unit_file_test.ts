/** The systemd unit restricts Sluice to what it needs. */
import assert from "node:assert/strict";
import { program } from "../../demo/sluice.ts";
import { inLab, logUntil } from "./in_lab.ts";

const UNIT = new URL("../../deploy/sluice.service", import.meta.url).pathname;
const EXAMPLE = new URL("../../deploy/example", import.meta.url).pathname;

/** The highest accepted exposure of `systemd-analyze security`, out of 10; a service proxy cannot go much lower. */
const MAX_EXPOSURE = 3;

async function output(command: string, args: readonly string[]): Promise<string | undefined> {
  try {
    const { stdout } = await new Deno.Command(command, { args: [...args], stderr: "null" }).output();
    return new TextDecoder().decode(stdout);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

Deno.test("systemd-analyze rates the exposure of the unit as low", async () => {
  const report = await output("systemd-analyze", ["security", "--offline=true", "--no-pager", UNIT]);
  if (report === undefined) {
    console.log("skipped: systemd-analyze is not installed");
    return;
  }
  const [, exposure] = /exposure level for \S+: ([\d.]+)/.exec(report) ?? assert.fail(report);
  assert.ok(Number(exposure) <= MAX_EXPOSURE, `the exposure is ${exposure}`);
});

/** Runs Sluice with only these capabilities until IPv4 is synced or its setup fails, and returns the log. */
async function logWith(capabilities: readonly string[], mode: string): Promise<string> {
  const bounding = ["-all", ...capabilities.map((name) => `+${name}`)].join(",");
  const confined = ["setpriv", `--bounding-set=${bounding}`, "--inh-caps=-all", "--no-new-privs"];
  const flags = ["--source", `file:${EXAMPLE}`, "--hostname-override", "node-a", "--proxy-mode", mode, "-v", "4"];
  let log = "";
  await inLab(async (lab) => {
    const command = [...confined, ...program(), ...flags, "--conntrack-max-per-core", "0", "--logging-format", "text"];
    log = await logUntil(lab, command, / synced .*family=IPv4|setup failed.*family=IPv4/);
  });
  return log;
}

const [, named] = /^CapabilityBoundingSet=(.*)$/m.exec(Deno.readTextFileSync(UNIT))!;
const stated = named!.split(" ").map((name) => name.replace(/^CAP_/, "").toLowerCase());

for (const mode of ["iptables", "nftables"]) {
  Deno.test(`${mode}: the unit's capabilities suffice, and CAP_NET_ADMIN is required`, async () => {
    assert.match(await logWith(stated, mode), / synced .*family=IPv4/);
    assert.match(await logWith(stated.filter((name) => name !== "net_admin"), mode), /setup failed/);
  });
}
