/**
 * What an attacker gains who runs code in the main isolate, which is where everything from the network is read: Sluice from a
 * copy of the sources with hostile code in the decoder of services, with the rights of the executable.
 */
import assert from "node:assert/strict";
import { type Lab, NETWORK } from "../../demo/lab.ts";
import { systemClock } from "../../platform/clock.ts";
import { ATTACK_NAMES } from "./attack.ts";
import { inLab } from "./in_lab.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
/** An attack that has shown no effect by then never will. */
const DEADLINE_MS = 60_000;

/** The rights that compile.sh gives to the executable, as flags. */
async function rightsOfExecutable(): Promise<string[]> {
  const script = Deno.readTextFileSync(`${ROOT}compile.sh`);
  const from = script.indexOf("kernel_tools="), to = script.indexOf("\n)", from) + 2;
  const print = `${script.slice(from, to)}\nprintf '%s\\n' "\${permissions[@]}"`;
  const { stdout } = await new Deno.Command("bash", { args: ["-c", print] }).output();
  return new TextDecoder().decode(stdout).trim().split("\n");
}

/** Copies the sources, with a call of the attack at the head of the decoder of services. */
async function compromisedCopy(folder: string): Promise<void> {
  const parts = ["main.ts", "deno.json", "deno.lock", "commands", "core", "workers", "backends", "platform", "deploy"];
  await new Deno.Command("cp", { args: ["-r", ...parts.map((part) => ROOT + part), folder] }).output();
  await Deno.copyFile(`${ROOT}tests/kernel/attack.ts`, `${folder}/core/attack.ts`);
  const decoder = `${folder}/core/objects/decode_service.ts`;
  const source = await Deno.readTextFile(decoder);
  const head = "export function decodeService(raw: RawObject, inFull: boolean): Decoded {\n";
  assert.ok(source.includes(head));
  const hostile = source.replace(head, `${head}  void attack(${JSON.stringify(folder)});\n`);
  await Deno.writeTextFile(decoder, `import { attack } from "../attack.ts";\n${hostile}`);
}

/** Runs the compromised Sluice until something is known of the attack, and returns what it wrote. */
async function logOf(lab: Lab, folder: string, rights: readonly string[]): Promise<string> {
  const child = lab.start("node", [
    ...["env", "LD_LIBRARY_PATH=/nowhere", "XTABLES_LIBDIR=/nowhere"],
    ...[Deno.execPath(), "run", "--quiet", "--cached-only", "--no-check", ...rights, `${folder}/main.ts`],
    ...["--source", `file:${ROOT}deploy/example`, "--hostname-override", NETWORK.nodeName, "--control-socket", ""],
    ...["--conntrack-max-per-core", "0", "--healthz-bind-address", "", "--logging-format", "text", "-v", "4"],
  ], { stdout: "null", stderr: "piped" });
  const cancel = systemClock.schedule(DEADLINE_MS, () => child.kill("SIGKILL"));
  let log = "";
  for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
    log += text;
    // Both families are in effect in the end, however the attack went.
    const isKnown = /attack: .*: refused|a message was refused|attack worker: ran/.test(log);
    if (isKnown && new Set(log.match(/ synced family=IPv\d/g)).size === 2) child.kill("SIGTERM");
  }
  await child.status;
  cancel();
  return log;
}

Deno.test("whoever runs code in the main isolate starts no program, and nothing of theirs reaches a tool", async (t) => {
  const rights = await rightsOfExecutable();
  const settings = ["kernel.core_pattern", "net.ipv4.ip_forward"];
  await inLab(async (lab) => {
    const before = await lab.run("node", ["sysctl", ...settings]);
    for (const name of ATTACK_NAMES) {
      await t.step(name, async () => {
        const folder = await Deno.makeTempDir({ dir: "/run" });
        await compromisedCopy(folder);
        await Deno.writeTextFile(`${folder}/attack`, name);
        const log = await logOf(lab, folder, rights);
        assert.match(log, /attack: .*: refused|a message was refused/, log);
        // In spite of LD_LIBRARY_PATH and XTABLES_LIBDIR in its environment, and of the attack, it serves.
        assert.equal(new Set(log.match(/ synced family=IPv\d/g)).size, 2, log);
        const left = [...Deno.readDirSync(folder)].map((entry) => entry.name);
        for (const trace of ["started", "written", "worked", "sibling"]) assert.ok(!left.includes(trace), trace);
        assert.equal(await lab.run("node", ["sysctl", ...settings]), before);
        assert.doesNotMatch(await lab.run("node", ["iptables-save"]), /INJECTED/);
        await Deno.remove(folder, { recursive: true });
      });
    }
  });
});
