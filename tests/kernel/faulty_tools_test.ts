/** Tools that hang, fail, move or vanish, tested with the whole Sluice and the permissions of the executable. */
import assert from "node:assert/strict";
import type { Lab } from "../../demo/lab.ts";
import { program } from "../../demo/sluice.ts";
import { kernelState } from "../chaos/kernel.ts";
import { waitFor } from "../chaos/wait.ts";
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
    await waitFor("the change is in effect", 10_000, async () => (
      (await lab.run("node", ["iptables-save", "-t", "nat"])).includes("--dport 81 ")
    ));
    assert.doesNotMatch(await sluice.waitFor(isSynced), /conntrack did not end/);
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

/** The status code of /healthz in the node; 0 without an answer. */
async function healthCode(lab: Lab): Promise<number> {
  const script = "exec 3<>/dev/tcp/127.0.0.1/10256; printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3; head -1 <&3";
  const answer = await lab.run("node", ["bash", "-c", script]).catch(() => "");
  return Number(answer.split(" ")[1] ?? 0);
}

/** The exit status of `sluice status` and the number of failed syncs in a row that it shows. */
async function statusOf(lab: Lab): Promise<{ readonly exit: number; readonly failures: number }> {
  const script = '"$@" || echo "exit $?"';
  const answer = await lab.run("node", ["sh", "-c", script, "sh", ...program(), "status", "-o", "json"]);
  const counts = [...answer.matchAll(/"code": ?"sync-failed"[^}]*"count": ?(\d+)/g)].map(([, count]) => Number(count));
  return { exit: Number(/exit (\d+)/.exec(answer)?.[1] ?? 0), failures: Math.max(0, ...counts) };
}

for (const [mode, vanishing] of [["nftables", ["nft"]], ["iptables", IPTABLES]] as const) {
  Deno.test(`without the tools of ${mode} mode and without a rule in the kernel, nothing says that all is in sync`, async () => {
    const folder = await Deno.makeTempDir({ dir: "/run" });
    for (const tool of [...IPTABLES, "nft", "conntrack", "sysctl"]) {
      const script = `#!/bin/sh\nexec /usr/sbin/${tool} "$@"\n`;
      await Deno.writeTextFile(`${folder}/${tool}`, script, { mode: 0o755 });
    }
    const renameTools = (from: string, to: string) =>
      vanishing.forEach((tool) => Deno.renameSync(`${folder}/${tool}${from}`, `${folder}/${tool}${to}`));
    await inLab(async (lab) => {
      const sluice = await startRestricted(lab, {
        env: { PATH: folder },
        flags: [
          ...["--proxy-mode", mode, "--iptables-sync-period", "1s", "--conntrack-max-per-core", "0"],
          ...["--healthz-bind-address", "127.0.0.1:10256", "--control-socket", "/run/sluice/control.sock"],
        ],
      });
      await waitFor("/healthz answers 200", 30_000, async () => await healthCode(lab) === 200);
      assert.equal((await statusOf(lab)).exit, 0);
      renameTools("", ".away");
      await lab.run("node", ["nft", "flush", "ruleset"]);
      await waitFor("/healthz answers 503", 10_000, async () => await healthCode(lab) === 503);
      for (let failures = 0; failures < 4;) {
        const [code, status] = await Promise.all([healthCode(lab), statusOf(lab)]);
        assert.deepEqual([code, status.exit], [503, 1]);
        failures = status.failures;
      }
      renameTools(".away", "");
      await waitFor("/healthz answers 200", 30_000, async () => await healthCode(lab) === 200);
      assert.equal((await statusOf(lab)).exit, 0);
      assert.match(await lab.run("node", ["nft", "list", "ruleset"]), /10\.96\.0\.10/);
      await sluice.stop();
    });
    await Deno.remove(folder, { recursive: true });
  });
}

/** Runs a test with a folder of the host's tools as the whole PATH; those whose names are in `hanging` never exit. */
async function withHangingTools(
  mode: "iptables" | "nftables",
  test: (lab: Lab, manifests: string, hang: (tool: string) => void) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ dir: "/run" }), manifests = await Deno.makeTempDir({ dir: "/run" });
  for (const { name } of Deno.readDirSync("deploy/example")) {
    Deno.copyFileSync(`deploy/example/${name}`, `${manifests}/${name}`);
  }
  for (const tool of [...IPTABLES, "nft", "conntrack", "sysctl"]) {
    const script = `#!/bin/sh\n[ ! -e ${folder}/${tool}.hangs ] || exec /bin/sleep 1000\nexec /usr/sbin/${tool} "$@"\n`;
    await Deno.writeTextFile(`${folder}/${tool}`, script, { mode: 0o755 });
  }
  await inLab(async (lab) => {
    const sluice = await startRestricted(lab, {
      env: { PATH: folder },
      manifests,
      flags: [
        ...["--proxy-mode", mode, "--conntrack-max-per-core", "0", "--healthz-bind-address", "127.0.0.1:10256"],
        ...["--control-socket", "/run/sluice/control.sock"],
      ],
    });
    await waitFor("/healthz answers 200", 30_000, async () => await healthCode(lab) === 200);
    await test(lab, manifests, (tool) => Deno.writeTextFileSync(`${folder}/${tool}.hangs`, ""));
    await sluice.stop();
  });
  for (const path of [folder, manifests]) await Deno.remove(path, { recursive: true });
}

Deno.test("while a tool hangs, nothing says that all is in sync, nor that another program changes rules", () =>
  withHangingTools("iptables", async (lab, manifests, hang) => {
    assert.equal((await statusOf(lab)).exit, 0);
    hang("iptables-restore");
    const web = Deno.readTextFileSync(`${manifests}/web.yaml`);
    Deno.writeTextFileSync(`${manifests}/web.yaml`, web.replaceAll("port: 80,", "port: 81,"));
    let health = 0, text = "";
    await waitFor("the status is not in order", 10_000, async () => {
      health = await healthCode(lab);
      text = await lab.run("node", ["sh", "-c", '"$@"; echo "exit $?"', "sh", ...program(), "status"]);
      return text.endsWith("exit 1\n");
    });
    assert.doesNotMatch(text, /another program|all in sync/);
    // The tool is killed after 8 s, before which a busy machine may show no status.
    if (/iptables-restore did not end within 8 s/.test(text)) return;
    assert.match(text, /IPv4: behind: a tool or the kernel does not answer/);
    assert.match(text, /changes have been waiting for more than 5 s/);
    assert.equal(health, 200);
  }));

for (
  const [mode, flushes] of [
    ["nftables", [["nft", "flush", "ruleset"]]],
    ["iptables", [
      ["iptables", "-F"],
      ["iptables", "-t", "nat", "-F"],
      ["ip6tables", "-t", "nat", "-F"],
      ["nft", "flush", "ruleset"],
    ]],
  ] as const
) {
  Deno.test(`rules flushed by another program are back long before the end of the sync period, in ${mode} mode`, () =>
    withHangingTools(mode, async (lab) => {
      const before = await kernelState(lab, mode);
      const isWhole = async () => await kernelState(lab, mode) === before;
      for (const flush of flushes) {
        await lab.run("node", flush);
        assert.equal(await isWhole(), false);
        await waitFor(`the rules are back after ${flush.join(" ")}`, 10_000, isWhole);
      }
    }));
}
