/** A site of three nodes. */
import { waitFor } from "../chaos/wait.ts";
import type { CompiledLab } from "./lab.ts";
import { type Held, watchedAgain } from "./held.ts";
import { type Node, startNode } from "./node.ts";

const SITE = "lab";
const NODES = ["site-1", "site-2", "site-3"];
/** Where a leader listens. */
const PORT = 12094;
const ESTABLISHED = "01";
const READY_MS = 60_000;

/** Starts the site; each follower keeps one connection to the leader. */
export async function startSite(lab: CompiledLab): Promise<Held> {
  lab.installSite(SITE, NODES);
  const nodes = await Promise.all(NODES.map(async (name, index) => {
    const address = `10.20.0.${index + 1}`;
    const { crt, key } = await lab.certificate(name, address);
    return await startNode(lab, name, address, [
      ...["--site", SITE, "--site-tls-ca", lab.ca, "--site-tls-crt", crt, "--site-tls-key", key],
    ]);
  }));
  const following = () => nodes.filter((node) => connectionsToLeader(node) !== "").length;
  await waitFor("the followers to connect", READY_MS, () => following() === nodes.length - 1, 100);
  const connectionsBefore = new Map(nodes.map((node) => [node, connectionsToLeader(node)]));
  const watchesBefore = new Map(nodes.map(({ name }) => [name, lab.watches(name)]));
  return {
    processes: Object.fromEntries(nodes.map(({ name, pid }) => [name, pid])),
    *problems() {
      for (const node of nodes) {
        const now = connectionsToLeader(node);
        if (now !== connectionsBefore.get(node)) yield `${node.name} connected to the leader again`;
        const before = watchesBefore.get(node.name)!, watches = lab.watches(node.name);
        // Followers watch nothing at the API server.
        const later = now === "" ? watchedAgain(before, watches) : watches.slice(before.length);
        for (const path of later) yield `${node.name} watched ${path}`;
      }
    },
  };
}

/** The local ends of a node's connections to a leader, sorted; empty for the leader. */
function connectionsToLeader({ pid }: Node): string {
  const port = PORT.toString(16).toUpperCase();
  const rows = ["tcp", "tcp6"].flatMap((table) =>
    Deno.readTextFileSync(`/proc/${pid}/net/${table}`).split("\n").slice(1)
  );
  return rows.map((row) => row.trim().split(/\s+/))
    .filter(([, , remote, state]) => remote?.endsWith(`:${port}`) && state === ESTABLISHED)
    .map(([, local]) => local).sort().join(" ");
}
