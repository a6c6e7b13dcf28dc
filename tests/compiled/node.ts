/** A proxy in the namespace of a node. */
import { TIMEOUT_FACTOR, waitFor } from "../chaos/wait.ts";
import type { CompiledLab, Started } from "./lab.ts";

const READY_MS = 60_000;

/** A proxy in sync. */
export interface Node extends Started {
  readonly name: string;
  /** The number of changes that it has made in the kernel. */
  changes(): Promise<number>;
}

/** Starts a proxy and waits until it has every service. */
export async function startNode(
  lab: CompiledLab,
  name: string,
  address: string,
  args: readonly string[],
): Promise<Node> {
  await lab.addNode(name, address);
  const started = lab.start(name, [
    ...["--hostname-override", name, "--proxy-mode", "nftables", "--metrics-bind-address", "0.0.0.0:10249"],
    ...["--control-socket", "", "--oom-score-adj", "0", "--state-directory", `${lab.folder}/${name}`],
    ...args,
  ], name);
  const changes = () => changesAt(address);
  await waitFor(`${name} to be in sync`, READY_MS, async () => await changes() >= lab.services, 250);
  return { ...started, name, changes };
}

async function changesAt(address: string): Promise<number> {
  try {
    const answer = await fetch(`http://${address}:10249/metrics`, {
      signal: AbortSignal.timeout(2000 * TIMEOUT_FACTOR),
    });
    const found = /^kubeproxy_sync_proxy_rules_endpoint_changes_total (\d+)/m.exec(await answer.text());
    return Number(found?.[1] ?? 0);
  } catch {
    // It does not listen yet.
    return 0;
  }
}
