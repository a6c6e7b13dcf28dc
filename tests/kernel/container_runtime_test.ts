/** The container runtime's socket, with the rights that the unit grants, and with a read-only mount as in the DaemonSet. */
import assert from "node:assert/strict";
import { program } from "../../demo/sluice.ts";
import { systemClock } from "../../platform/clock.ts";
import { packObjects } from "../../sources/kept/payload.ts";
import { createStateFile, storageOf } from "../../sources/kept/state_file.ts";
import { endpoint, endpointSlice, service } from "../fakes/cluster_objects.ts";
import { startFakeContainerRuntime } from "../fakes/container_runtime.ts";
import { inLab, logUntil } from "./in_lab.ts";

const UNIT = Deno.readTextFileSync(new URL("../../deploy/sluice.service", import.meta.url));
const API_SERVER = "http://127.0.0.1:6443";
const POD = { namespace: "default", name: "web-1", uid: "u1" };

/** Writes the state that an earlier start has kept: a service with two pods of this node. */
async function keepState(folder: string): Promise<void> {
  const gone = { ...endpoint("10.244.1.2", { nodeName: "n" }), pod: { ...POD, name: "web-2", uid: "u2" } };
  const slice = endpointSlice("default/web-1", [{ ...endpoint("10.244.1.1", { nodeName: "n" }), pod: POD }, gone]);
  const { payload } = await packObjects([service("default/web"), slice], systemClock);
  const origin = { node: "n", source: `kube ${API_SERVER}`, proxyName: "" };
  await Deno.mkdir(folder);
  const path = `${folder}/state`;
  using file = await Deno.open(path, { read: true, write: true, create: true, mode: 0o600 });
  await createStateFile(path, storageOf(file)).write(origin, { payload, atMs: systemClock.now() });
}

Deno.test("the unit's rights and a read-only mount suffice to ask the runtime, which main itself cannot", async () => {
  assert.match(UNIT, /^RestrictAddressFamilies=.*\bAF_UNIX\b/m);
  const [, named] = /^CapabilityBoundingSet=(.*)$/m.exec(UNIT)!;
  const capabilities = named!.split(" ").map((name) => `+${name.replace(/^CAP_/, "").toLowerCase()}`);
  const folder = await Deno.makeTempDir({ dir: "/run" });
  await Deno.mkdir(`${folder}/cri`);
  await keepState(`${folder}/state`);
  const runtime = await startFakeContainerRuntime(`${folder}/cri/cri.sock`);
  await Deno.chmod(`${folder}/cri/cri.sock`, 0o660);
  runtime.run({ id: "s1", ...POD, ips: ["10.244.1.9"] });
  let log = "";
  try {
    await inLab(async (lab) => {
      const confined = ["setpriv", `--bounding-set=-all,${capabilities}`, "--inh-caps=-all", "--no-new-privs"];
      const flags = [
        ...["--master", API_SERVER, "--hostname-override", "n", "--proxy-mode", "nftables", "-v", "4"],
        ...["--logging-format", "text", "--conntrack-max-per-core", "0", "--state-directory", `${folder}/state`],
        ...["--container-runtime-endpoint", `unix://${folder}/cri/cri.sock`],
      ];
      const readOnly =
        `mount --bind ${folder}/cri ${folder}/cri && mount -o remount,bind,ro ${folder}/cri && exec "$@"`;
      const command = ["unshare", "--mount", "sh", "-ec", readOnly, "sh", ...confined, ...program(), ...flags];
      log = await logUntil(lab, command, / synced .*family=IPv4/);
    });
  } finally {
    await runtime.close();
    await Deno.remove(folder, { recursive: true });
  }
  assert.match(
    log,
    /dropped permissions of the main isolate run=(prompt|denied) ffi=(prompt|denied) write=(prompt|denied)/,
  );
  assert.match(log, /kept endpoints .* follow the pods of the container runtime replaced=1 leftOut=1 pods=1/);
});
