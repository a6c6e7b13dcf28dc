/** The systemd unit: how little it lets Sluice do, and that this is enough. */
import assert from "node:assert/strict";
import { program } from "../../demo/sluice.ts";
import { inLab } from "./in_lab.ts";

const UNIT = new URL("../../deploy/sluice.service", import.meta.url).pathname;
const EXAMPLE = new URL("../../deploy/example", import.meta.url).pathname;

/** The most that `systemd-analyze security` may find, of 10 (unsafe); what is left is what a service proxy is for. */
const MOST_EXPOSURE = 3;

async function output(command: string, args: readonly string[]): Promise<string | undefined> {
  try {
    const { stdout } = await new Deno.Command(command, { args: [...args], stderr: "null" }).output();
    return new TextDecoder().decode(stdout);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

Deno.test("systemd finds the unit little exposed", async () => {
  const report = await output("systemd-analyze", ["security", "--offline=true", "--no-pager", UNIT]);
  if (report === undefined) {
    console.log("left out: systemd-analyze is not installed here");
    return;
  }
  const [, exposure] = /exposure level for \S+: ([\d.]+)/.exec(report) ?? assert.fail(report);
  assert.ok(Number(exposure) <= MOST_EXPOSURE, `the exposure is ${exposure}`);
});

/** Runs Sluice with these capabilities alone until it has synced a family or failed to, and returns what it wrote. */
async function logWith(capabilities: readonly string[], mode: string): Promise<string> {
  const bounding = ["-all", ...capabilities.map((name) => `+${name}`)].join(",");
  const confined = ["setpriv", `--bounding-set=${bounding}`, "--inh-caps=-all", "--no-new-privs"];
  const flags = ["--source", `file:${EXAMPLE}`, "--hostname-override", "node-a", "--proxy-mode", mode, "-v", "4"];
  let log = "";
  await inLab(async (lab) => {
    const command = [...confined, ...program(), ...flags, "--conntrack-max-per-core", "0", "--logging-format", "text"];
    const child = lab.start("node", command, { stdout: "null", stderr: "piped" });
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
      log += text;
      if (/ synced .*family=IPv4|setup failed.*family=IPv4/.test(log)) child.kill("SIGTERM");
    }
    await child.status;
  });
  return log;
}

const [, named] = /^CapabilityBoundingSet=(.*)$/m.exec(Deno.readTextFileSync(UNIT))!;
const stated = named!.split(" ").map((name) => name.replace(/^CAP_/, "").toLowerCase());

for (const mode of ["iptables", "nftables"]) {
  Deno.test(`${mode}: the capabilities that the unit states suffice, and without CAP_NET_ADMIN nothing works`, async () => {
    assert.match(await logWith(stated, mode), / synced .*family=IPv4/);
    assert.match(await logWith(stated.filter((name) => name !== "net_admin"), mode), /setup failed/);
  });
}
