/** Changes of the configuration file while Sluice runs, with real connections throughout. */
import assert from "node:assert/strict";
import { type Lab, NETWORK } from "../../demo/lab.ts";
import { type RunningSluice, startSluice } from "../../demo/sluice.ts";
import { systemClock } from "../../platform/clock.ts";
import { errorText } from "../../platform/log.ts";
import { waitFor } from "../chaos/wait.ts";
import { inLab } from "./in_lab.ts";

const WITHIN_MS = 30_000;
const { IPv4, IPv6 } = NETWORK.clusterCIDR;

/** Replaces the configuration file atomically. */
function write(path: string, mode: string, more = ""): void {
  Deno.writeTextFileSync(
    `${path}.new`,
    `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ${mode}
detectLocalMode: ClusterCIDR
clusterCIDR: ${IPv4},${IPv6}
conntrack:
  maxPerCore: 0
${more}`,
  );
  Deno.renameSync(`${path}.new`, path);
}

async function withSluice(mode: string, test: (lab: Lab, sluice: RunningSluice, file: string) => Promise<void>) {
  const file = `${await Deno.makeTempDir({ dir: "/run" })}/config.yaml`;
  write(file, mode);
  await inLab(async (lab) => {
    const sluice = startSluice(lab, new URL("../../deploy/example/", import.meta.url).pathname, systemClock, file);
    try {
      await sluice.ready();
      await test(lab, sluice, file);
    } finally {
      await sluice.stop();
    }
  });
}

/** Opens connections until `isDone` and asserts that each is answered. */
async function connectUntil(lab: Lab, sluice: RunningSluice, isDone: () => Promise<boolean>): Promise<void> {
  let connections = 0;
  await waitFor("done", WITHIN_MS, async () => {
    const outcome = await lab.connect("pod-1", { protocol: "tcp", address: "10.96.0.10", port: 80 });
    assert.equal(outcome.kind, "answered", `connection ${++connections}: ${outcome.kind}`);
    return await isDone();
  }, 5).catch((error) => {
    throw new Error(`${errorText(error)}: ${sluice.log()}`);
  });
}

async function tablesOf(lab: Lab): Promise<{ readonly nft: boolean; readonly iptables: boolean }> {
  const nft = await lab.run("node", ["nft", "list", "tables"]);
  const iptables = await lab.run("node", ["iptables-save", "-t", "nat"]);
  return { nft: nft.includes("table ip sluice"), iptables: iptables.includes(":KUBE-SERVICES") };
}

Deno.test("a mode change takes effect in the running process without a failed connection", () =>
  withSluice("nftables", async (lab, sluice, file) => {
    assert.deepEqual(await tablesOf(lab), { nft: true, iptables: false });
    write(file, "iptables");
    const moved = async (nft: boolean) =>
      JSON.stringify(await tablesOf(lab)) === JSON.stringify({ nft, iptables: !nft });
    await connectUntil(lab, sluice, () => moved(false));
    write(file, "nftables");
    await connectUntil(lab, sluice, () => moved(true));
    assert.match(sluice.log(), /configuration file changed, applying it/);
  }));

Deno.test("userspace mode takes over from nftables mode and back without a failed connection", () =>
  withSluice("nftables", async (lab, sluice, file) => {
    const isRelayed = async () => (await lab.run("node", ["iptables-save", "-t", "filter"])).includes("RELAYED");
    write(file, "userspace");
    await connectUntil(lab, sluice, isRelayed);
    await connectUntil(lab, sluice, async () => !(await tablesOf(lab)).nft);
    write(file, "nftables");
    await connectUntil(lab, sluice, async () => {
      const { nft, iptables } = await tablesOf(lab);
      return nft && !iptables && !await isRelayed();
    });
  }));

Deno.test("an invalid change is reported with its line, and the running configuration stays in effect", () =>
  withSluice("nftables", async (lab, sluice, file) => {
    write(file, "nftables", "nftables:\n  masqueradeBit: 99\n");
    const isReported = () => Promise.resolve(/config\.yaml:9: nftables\.masqueradeBit/.test(sluice.log()));
    await connectUntil(lab, sluice, isReported);
    assert.deepEqual(await tablesOf(lab), { nft: true, iptables: false });
    write(file, "iptables");
    await connectUntil(lab, sluice, async () => (await tablesOf(lab)).iptables);
  }));
