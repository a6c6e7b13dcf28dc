/** Who may start programs: tried with Sluice as a whole, from source or (SLUICE_BINARY) the executable. */
import assert from "node:assert/strict";
import { program } from "../../demo/sluice.ts";
import { systemClock } from "../../platform/clock.ts";
import { inLab } from "./in_lab.ts";

const LINE = "dropped permissions of the main isolate";
const PLUGIN = "sluice-credentials";
/** A Sluice that has not said it by then never will. */
const DEADLINE_MS = 30_000;

/** Runs Sluice on an API server that is not there, until it has said so, and returns what it wrote. */
async function logOf(plugin: string, until: RegExp): Promise<string> {
  const folder = await Deno.makeTempDir({ dir: "/run" });
  Deno.writeTextFileSync(`${folder}/${PLUGIN}`, `#!/bin/sh\n${plugin}\n`, { mode: 0o755 });
  const kubeconfig = `${folder}/kubeconfig`;
  const exec = { command: PLUGIN, apiVersion: "client.authentication.k8s.io/v1", env: [{ name: "WHO", value: "us" }] };
  Deno.writeTextFileSync(
    kubeconfig,
    JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      "current-context": "c",
      clusters: [{ name: "c", cluster: { server: "http://127.0.0.1:6443" } }],
      contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
      users: [{ name: "u", user: { exec } }],
    }),
  );
  let log = "";
  await inLab(async (lab) => {
    const path = `PATH=${folder}:${Deno.env.get("PATH")}`;
    const flags = ["--kubeconfig", kubeconfig, "--hostname-override", "n", "-v", "4", "--logging-format", "text"];
    const child = lab.start("node", ["env", path, ...program(), ...flags], { stdout: "null", stderr: "piped" });
    const cancel = systemClock.schedule(DEADLINE_MS, () => child.kill("SIGKILL"));
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
      log += text;
      if (until.test(log)) child.kill("SIGTERM");
    }
    await child.status;
    cancel();
  });
  await Deno.remove(folder, { recursive: true });
  return log;
}

Deno.test("the isolate on the network may start nothing, and a credential plugin is run all the same", async () => {
  const log = await logOf(`echo "$WHO, $KUBERNETES_EXEC_INFO, no account" >&2; exit 3`, /no account/);
  assert.match(log, new RegExp(`${LINE} run=(prompt|denied) write=(prompt|denied) env=(prompt|denied)`));
  assert.match(
    log,
    /plugin \\?"sluice-credentials\\?" of user \\?"u\\?" .*failed: exit status 3: us, .*ExecCredential/,
  );
});

Deno.test("what a plugin gives is used: the API server is asked next", async () => {
  const credential = JSON.stringify({
    kind: "ExecCredential",
    apiVersion: "client.authentication.k8s.io/v1",
    status: { token: "S3CRET" },
  });
  const log = await logOf(`echo '${credential}'`, /list services .*refused/i);
  assert.match(log, /list services .*refused/i);
  assert.doesNotMatch(log, /S3CRET/);
});

Deno.test("--init-only has the kernel route loopback addresses, for a Sluice that may not do so later", () =>
  inLab(async (lab) => {
    const isRouted = async () =>
      (await lab.run("node", ["sysctl", "-n", "net.ipv4.conf.all.route_localnet"])).trim() === "1";
    assert.equal(await isRouted(), false);
    await lab.run("node", [...program(), "--init-only", "--hostname-override", "n", "--conntrack-max-per-core", "0"]);
    assert.equal(await isRouted(), true);
  }));
