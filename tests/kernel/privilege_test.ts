/** Permissions to start programs, tested with the whole Sluice, from source or as the executable SLUICE_BINARY. */
import assert from "node:assert/strict";
import { program } from "../../demo/sluice.ts";
import { inLab, logUntil } from "./in_lab.ts";

const LINE = "dropped permissions of the main isolate";
const PLUGIN = "sluice-credentials";

/** Runs Sluice with an unreachable API server until its log matches, and returns the log. */
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
    log = await logUntil(lab, ["env", path, ...program(), ...flags], until);
  });
  await Deno.remove(folder, { recursive: true });
  return log;
}

Deno.test("the main isolate may not start programs, but credential plugins run", async () => {
  const log = await logOf(`echo "$WHO, $KUBERNETES_EXEC_INFO, no account" >&2; exit 3`, /no account/);
  assert.match(
    log,
    new RegExp(`${LINE} run=(prompt|denied) ffi=(prompt|denied) write=(prompt|denied) env=(prompt|denied)`),
  );
  assert.match(
    log,
    /plugin \\?"sluice-credentials\\?" of user \\?"u\\?" .*failed: exit status 3: us, .*ExecCredential/,
  );
});

Deno.test("the credential of a plugin is used to list from the API server", async () => {
  const credential = JSON.stringify({
    kind: "ExecCredential",
    apiVersion: "client.authentication.k8s.io/v1",
    status: { token: "S3CRET" },
  });
  const log = await logOf(`echo '${credential}'`, /list services .*refused/i);
  assert.match(log, /list services .*refused/i);
  assert.doesNotMatch(log, /S3CRET/);
});

Deno.test("--init-only enables route_localnet, for a Sluice that may not do so later", () =>
  inLab(async (lab) => {
    const isRouted = async () =>
      (await lab.run("node", ["sysctl", "-n", "net.ipv4.conf.all.route_localnet"])).trim() === "1";
    assert.equal(await isRouted(), false);
    await lab.run("node", [...program(), "--init-only", "--hostname-override", "n", "--conntrack-max-per-core", "0"]);
    assert.equal(await isRouted(), true);
  }));
