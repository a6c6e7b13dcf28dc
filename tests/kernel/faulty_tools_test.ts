/** Tools that hang, fail or move during a start, tested with the whole Sluice and the permissions of the executable. */
import assert from "node:assert/strict";
import type { Lab } from "../../demo/lab.ts";
import { inLab } from "./in_lab.ts";
import { isSynced, type RestrictedOptions, startRestricted } from "./as_executable.ts";

const IPTABLES = ["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"];

/** Runs a test with a folder of fake tools first on the PATH. */
async function withTools(
  script: string,
  tools: readonly string[],
  test: (lab: Lab, options: RestrictedOptions, folder: string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ dir: "/run" });
  for (const tool of tools) await Deno.writeTextFile(`${folder}/${tool}`, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  await inLab((lab) => test(lab, { env: { PATH: `${folder}:${Deno.env.get("PATH")}` } }, folder));
  await Deno.remove(folder, { recursive: true });
}

Deno.test("hanging choom, sysctl and conntrack delay neither the first sync nor a change", () =>
  withTools("exec sleep 1000", ["choom", "sysctl", "conntrack"], async (lab, options) => {
    const manifests = await Deno.makeTempDir({ dir: "/run" });
    for (const { name } of Deno.readDirSync("deploy/example")) {
      Deno.copyFileSync(`deploy/example/${name}`, `${manifests}/${name}`);
    }
    const sluice = await startRestricted(lab, { ...options, manifests });
    // A sync that waited for one of them would first log that it was killed.
    assert.doesNotMatch(await sluice.waitFor(isSynced), /was killed/);
    const web = Deno.readTextFileSync(`${manifests}/web.yaml`);
    Deno.writeTextFileSync(`${manifests}/web.yaml`, web.replaceAll("port: 80,", "port: 81,"));
    const log = await sluice.waitFor((log) => (log.match(/ synced family=/g)?.length ?? 0) >= 4);
    assert.doesNotMatch(log, /conntrack did not end/);
    assert.match(await lab.run("node", ["iptables-save", "-t", "nat"]), /--dport 81 /);
    await sluice.stop();
  }));

for (
  const [how, script] of [
    ["fails silently", "exit 1"],
    ["is killed", "kill -9 $$"],
    ["runs out of memory", "echo Cannot allocate memory >&2; exit 1"],
  ] as const
) {
  Deno.test(`Sluice keeps running if the first run of each tool ${how}`, () =>
    withTools(
      `tool=\${0##*/}; if mkdir "$0.ran" 2>/dev/null; then ${script}; fi; PATH=\${PATH#*:} exec "$tool" "$@"`,
      [...IPTABLES, "nft", "conntrack", "sysctl", "ip", "ipset"],
      async (lab, options, folder) => {
        const sluice = await startRestricted(lab, options);
        assert.ok(isSynced(await sluice.waitFor(isSynced)));
        for (const tool of IPTABLES) assert.ok(Deno.statSync(`${folder}/${tool}.ran`).isDirectory);
        assert.equal((await sluice.stop()).status, 0);
      },
    ));
}

Deno.test("Sluice exits if a tool moves, and asks for a restart, which finds it", () =>
  withTools(`PATH=\${PATH#*:} exec "\${0##*/}" "$@"`, IPTABLES, async (lab, options, folder) => {
    const sluice = await startRestricted(lab, { ...options, flags: ["--iptables-sync-period", "1s"] });
    await sluice.waitFor(isSynced);
    await Deno.remove(`${folder}/iptables-save`);
    const { status, log } = await sluice.ended();
    assert.equal(status, 1);
    assert.match(log, /exiting .*iptables-save was installed or moved .* restart/);
    assert.doesNotMatch(log, /--allow-run/);
    const restarted = await startRestricted(lab, options);
    assert.ok(isSynced(await restarted.waitFor(isSynced)));
    await restarted.stop();
  }));
