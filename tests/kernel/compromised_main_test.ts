/**
 * Limits of an attacker who runs code in the main isolate, which reads everything from the network. Runs Sluice from a copy of
 * the sources with hostile code in the decoder of services, with the permissions of the executable.
 */
import assert from "node:assert/strict";
import type { Lab } from "../../demo/lab.ts";
import { isSynced, ROOT, startRestricted } from "./as_executable.ts";
import { ATTACK_NAMES } from "./attack.ts";
import { inLab } from "./in_lab.ts";

/** Copies the sources and inserts a call of the attack into the decoder of services. */
async function compromisedCopy(folder: string): Promise<void> {
  const rooms = [
    "answers",
    "backends",
    "cli",
    "config",
    "core",
    "features",
    "kpng",
    "observe",
    "platform",
    "node",
    "relay",
    "sources",
    "workers",
  ];
  const parts = ["main.ts", "deno.json", "deno.lock", "deploy", ...rooms];
  const copy = await new Deno.Command("cp", { args: ["-r", ...parts.map((part) => ROOT + part), folder] }).output();
  assert.ok(copy.success, new TextDecoder().decode(copy.stderr));
  await Deno.copyFile(`${ROOT}tests/kernel/attack.ts`, `${folder}/core/attack.ts`);
  const decoder = `${folder}/core/objects/decode_service.ts`;
  const source = await Deno.readTextFile(decoder);
  const head = "  { serviceProxyName, details }: DecodeOptions,\n): Service {\n";
  assert.ok(source.includes(head));
  const hostile = source.replace(head, `${head}  void attack(${JSON.stringify(folder)});\n`);
  await Deno.writeTextFile(decoder, `import { attack } from "../attack.ts";\n${hostile}`);
}

/** Runs the compromised Sluice until the result of the attack is known, and returns its log. */
async function logOf(lab: Lab, root: string): Promise<string> {
  const env = { LD_LIBRARY_PATH: "/nowhere", XTABLES_LIBDIR: "/nowhere" };
  const sluice = await startRestricted(lab, { root, env, flags: ["--conntrack-max-per-core", "0"] });
  // Both families must be synced in the end, whatever the result.
  await sluice.waitFor((log) => /attack: .*: refused|message refused|attack worker: ran/.test(log) && isSynced(log));
  return (await sluice.stop()).log;
}

Deno.test("code in the main isolate cannot start programs or inject input into a tool", async (t) => {
  const settings = ["kernel.core_pattern", "net.ipv4.ip_forward"];
  await inLab(async (lab) => {
    const before = await lab.run("node", ["sysctl", ...settings]);
    for (const name of ATTACK_NAMES) {
      await t.step(name, async () => {
        const folder = await Deno.makeTempDir({ dir: "/run" });
        await compromisedCopy(folder);
        await Deno.writeTextFile(`${folder}/attack`, name);
        const log = await logOf(lab, folder);
        assert.match(log, /attack: .*: refused|message refused/, log);
        // It serves despite the attack, and despite LD_LIBRARY_PATH and XTABLES_LIBDIR in its environment.
        assert.ok(isSynced(log), log);
        const left = [...Deno.readDirSync(folder)].map((entry) => entry.name);
        for (const trace of ["started", "written", "worked", "sibling"]) assert.ok(!left.includes(trace), trace);
        assert.equal(await lab.run("node", ["sysctl", ...settings]), before);
        assert.doesNotMatch(await lab.run("node", ["iptables-save"]), /INJECTED/);
        await Deno.remove(folder, { recursive: true });
      });
    }
  });
});
