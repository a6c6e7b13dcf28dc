import type { CompiledLab } from "./lab.ts";
import type { Held } from "./held.ts";
import { startNode } from "./node.ts";

/** Starts a proxy that watches the API server: its watch of EndpointSlices is busy, the one of Services idle. */
export async function startPlain(lab: CompiledLab): Promise<Held> {
  const name = "plain";
  const { pid } = await startNode(lab, name, "10.20.0.10", []);
  const readsBefore = lab.reads(name);
  return {
    processes: { [name]: pid },
    *problems() {
      if (lab.reads(name) > readsBefore) yield "it listed or watched the API server again";
    },
  };
}
